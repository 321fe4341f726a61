//! A desktop of the test's own: virtual display, message bus, driver, and the real window in it.

use crate::command::program;
use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for something to appear before it fails. A bound, not an expectation.
const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual display and a session bus.
#[derive(Debug)]
pub struct Desktop {
    display: String,
    bus: String,
    children: Vec<Child>,
}

impl Desktop {
    /// Starts both.
    ///
    /// # Panics
    /// When Xvfb or dbus-daemon is missing; `make test` installs them.
    #[must_use]
    pub fn start() -> Self {
        let mut xvfb = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "1360x860x24",
                "-nolisten",
                "tcp",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("Xvfb: {e}"));
        let display = format!(":{}", first_line(&mut xvfb));
        let mut bus = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("dbus-daemon: {e}"));
        let address = first_line(&mut bus);
        Self {
            display,
            bus: address,
            children: vec![xvfb, bus],
        }
    }

    /// The display's name, for programs that draw on it.
    #[must_use]
    pub fn display(&self) -> &str {
        &self.display
    }

    /// Saves what the display shows as a PNG. (WebKitWebDriver's own screenshot never comes back
    /// from this window.)
    ///
    /// # Panics
    /// When ImageMagick is missing.
    pub fn picture(&self, path: &Path) {
        let status = Command::new("import")
            .args(["-window", "root", "-display", &self.display])
            .arg(path)
            .status()
            .unwrap_or_else(|e| panic!("import: {e}"));
        assert!(status.success(), "no picture of the display");
    }

    /// Starts the panel a second time, without a driver, and waits for its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn second_start(&self, home: &Path) -> std::process::ExitStatus {
        Command::new(program("kotak-panel"))
            .envs(self.environment(home))
            .env_remove("TAURI_WEBVIEW_AUTOMATION")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap_or_else(|e| panic!("kotak-panel: {e}"))
    }

    fn environment(&self, home: &Path) -> Vec<(&'static str, String)> {
        let runtime = home.join(".runtime");
        std::fs::create_dir_all(&runtime).unwrap_or_else(|e| panic!("{}: {e}", runtime.display()));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&runtime, private).unwrap_or_else(|e| panic!("{e}"));
        vec![
            ("DISPLAY", self.display.clone()),
            ("DBUS_SESSION_BUS_ADDRESS", self.bus.clone()),
            ("HOME", home.to_string_lossy().into_owned()),
            ("XDG_RUNTIME_DIR", runtime.to_string_lossy().into_owned()),
            ("WEBKIT_DISABLE_DMABUF_RENDERER", "1".to_owned()),
            ("TAURI_WEBVIEW_AUTOMATION", "true".to_owned()),
            ("GTK_A11Y", "none".to_owned()),
            ("SHELL", "/bin/bash".to_owned()),
        ]
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            end(child);
        }
    }
}

/// The real window, driven through WebKitWebDriver.
#[derive(Debug)]
pub struct Window {
    client: Client,
    driver: Child,
}

impl Window {
    /// Opens the panel with `home` as the person's home.
    ///
    /// # Panics
    /// When the driver or the panel does not start.
    pub async fn open(desktop: &Desktop, home: &Path, arguments: &[&str]) -> Self {
        Self::open_with(desktop, home, arguments, &[]).await
    }

    /// The same with more environment variables.
    ///
    /// # Panics
    /// When the driver or the panel does not start.
    pub async fn open_with(
        desktop: &Desktop,
        home: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let panel = program("kotak-panel");
        Self::open_through(desktop, home, &panel, arguments, environment).await
    }

    /// The same through another program, which becomes the panel in the end.
    ///
    /// # Panics
    /// When the driver or the panel does not start.
    pub async fn open_through(
        desktop: &Desktop,
        home: &Path,
        binary: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let port = free_port();
        let driver = Command::new("WebKitWebDriver")
            .args([format!("--port={port}"), "--host=127.0.0.1".to_owned()])
            .envs(desktop.environment(home))
            .envs(environment.iter().copied())
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("KOTAK_SANDBOX")
            .current_dir(home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("WebKitWebDriver: {e}"));
        let mut capabilities = Capabilities::new();
        capabilities.insert(
            "webkitgtk:browserOptions".to_owned(),
            json!({ "binary": binary, "args": arguments }),
        );
        let address = format!("http://127.0.0.1:{port}");
        let mut builder = ClientBuilder::new(fantoccini_connector());
        builder.capabilities(capabilities);
        let started = Instant::now();
        let client = loop {
            match builder.connect(&address).await {
                Ok(client) => break client,
                Err(error) if started.elapsed() > PATIENCE => panic!("no window: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        Self { client, driver }
    }

    /// The driver's client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a script in the page and returns its value.
    ///
    /// # Panics
    /// When the script throws.
    pub async fn script(
        &self,
        script: &str,
        arguments: Vec<serde_json::Value>,
    ) -> serde_json::Value {
        match self.client.execute(script, arguments).await {
            Ok(value) => value,
            Err(error) => panic!("script `{script}`: {error}"),
        }
    }

    /// Waits until `script` returns something truthy, and returns it.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn until(&self, what: &str, script: &str) -> serde_json::Value {
        let started = Instant::now();
        loop {
            let value = self.script(script, Vec::new()).await;
            let truthy = match &value {
                serde_json::Value::Null | serde_json::Value::Bool(false) => false,
                serde_json::Value::String(text) => !text.is_empty(),
                serde_json::Value::Number(number) => number.as_f64() != Some(0.0),
                _ => true,
            };
            if truthy {
                return value;
            }
            assert!(started.elapsed() < PATIENCE, "not reached: {what}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Waits until the page shows an element.
    ///
    /// # Panics
    /// When it does not.
    pub async fn find(&self, css: &str) -> fantoccini::elements::Element {
        let started = Instant::now();
        loop {
            match self.client.find(Locator::Css(css)).await {
                Ok(element) => return element,
                Err(error) if started.elapsed() > PATIENCE => panic!("{css}: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
            }
        }
    }

    /// Waits until an element's text holds `part`; hidden parts of the text count too.
    ///
    /// # Panics
    /// When it does not; the message tells what the text was.
    pub async fn says(&self, css: &str, part: &str) {
        let started = Instant::now();
        loop {
            let element = self.find(css).await;
            let text = element
                .prop("textContent")
                .await
                .ok()
                .flatten()
                .unwrap_or_default();
            if text.contains(part) {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{css} says {text:?}, not {part:?}"
            );
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Clicks an element.
    ///
    /// # Panics
    /// When it is not there or cannot be clicked.
    pub async fn click(&self, css: &str) {
        let element = self.find(css).await;
        element
            .click()
            .await
            .unwrap_or_else(|e| panic!("click {css}: {e}"));
    }

    /// Process id of the panel that this window belongs to.
    ///
    /// # Panics
    /// When the driver has no such child.
    #[must_use]
    pub fn panel_pid(&self) -> i32 {
        self.panel()
            .unwrap_or_else(|| panic!("no panel below the driver"))
    }

    fn panel(&self) -> Option<i32> {
        let children = format!("/proc/{0}/task/{0}/children", self.driver.id());
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        let panel = text.split_whitespace().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == "kotak-panel")
        });
        panel.and_then(|pid| pid.parse().ok())
    }

    /// Ends the window and its driver.
    ///
    /// # Panics
    /// When the panel does not go.
    pub async fn close(mut self) {
        // Ending the WebDriver session ends the application; an error means that it is gone. The
        // driver answers before it has done that, and one that is ended then leaves it running.
        let _ = self.client.clone().close().await;
        let asked = Instant::now();
        while self.panel().is_some() {
            assert!(
                asked.elapsed() < PATIENCE,
                "the window did not end in a minute"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        end(&mut self.driver);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        end(&mut self.driver);
    }
}

fn fantoccini_connector() -> hyper_util::client::legacy::connect::HttpConnector {
    hyper_util::client::legacy::connect::HttpConnector::new()
}

fn end(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id())
        && child.try_wait().is_ok_and(|status| status.is_none())
    {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid),
            nix::sys::signal::Signal::SIGTERM,
        );
    }
    let _ = child.wait();
}

fn first_line(child: &mut Child) -> String {
    let stdout = child
        .stdout
        .take()
        .map(|out| Box::new(out) as Box<dyn Read + Send>);
    let mut line = String::new();
    if let Some(stdout) = stdout {
        let mut reader = BufReader::new(stdout);
        // An empty line shows below as a missing display or address.
        let _ = reader.read_line(&mut line);
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    }
    let line = line.trim().to_owned();
    assert!(!line.is_empty(), "a helper of the desktop did not start");
    line
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_or_else(|e| panic!("no free port: {e}"), |address| address.port())
}

/// Where pictures of failing and documented states go: `KOTAK_PICTURES`, else `target/pictures`.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn picture_dir() -> PathBuf {
    let dir = std::env::var_os("KOTAK_PICTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/pictures")),
        PathBuf::from,
    );
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}

//! What every end-to-end test does: open the panel, start a session, type, look.

use crate::Stage;
use crate::command::program;
use crate::desktop::{Desktop, Window};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use serde_json::{Value, json};
use std::time::Duration;

/// The panel with its desktop and its home.
#[derive(Debug)]
pub struct Panel {
    /// The window.
    pub window: Window,
    /// The home.
    pub stage: Stage,
    /// The desktop that the window is on.
    pub desktop: Desktop,
}

/// Calls a command of the engine as the page does, and returns its answer.
const INVOKE: &str = "
    const [command, payload, done] = arguments;
    window.__TAURI_INTERNALS__.invoke(command, payload)
        .then(value => done({ ok: value }), error => done({ error }));
";

impl Panel {
    /// Opens it with a new home.
    pub async fn open() -> Self {
        Self::open_with(&[]).await
    }

    /// The same with arguments.
    pub async fn open_with(arguments: &[&str]) -> Self {
        Self::open_at(Stage::new(), arguments, &[]).await
    }

    /// Opens it with a home that was prepared, and more environment variables.
    pub async fn open_at(stage: Stage, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let desktop = Desktop::start();
        let window = Window::open_with(&desktop, stage.home(), arguments, environment).await;
        let panel = Self {
            window,
            stage,
            desktop,
        };
        panel.window.find("[data-testid=status-verdict]").await;
        panel
    }

    /// Opens it through a script of the stage's, which becomes the panel named by its first argument.
    ///
    /// # Panics
    /// When the script cannot be made.
    pub async fn open_behind(script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let stage = Stage::new();
        let desktop = Desktop::start();
        let panel = program("kotak-panel");
        let through = stage.home().join("through");
        std::fs::write(
            &through,
            script.replace("PANEL", &panel.display().to_string()),
        )
        .expect("a script");
        std::fs::set_permissions(&through, std::fs::Permissions::from_mode(0o755))
            .expect("permissions");
        let window = Window::open_through(&desktop, stage.home(), &through, &[], &[]).await;
        let panel = Self {
            window,
            stage,
            desktop,
        };
        panel.window.find("[data-testid=status-verdict]").await;
        panel
    }

    /// Ends the window and opens it again: the same desktop, the same home.
    ///
    /// # Panics
    /// When the first does not go, or the second does not come.
    pub async fn reopen(self) -> Self {
        let Self {
            window,
            stage,
            desktop,
        } = self;
        // While it runs, a second start is a call to the first window.
        window.close().await;
        let window = Window::open(&desktop, stage.home(), &[]).await;
        window.find("[data-testid=status-verdict]").await;
        Self {
            window,
            stage,
            desktop,
        }
    }

    /// Calls an engine command; `Err` holds the problem.
    ///
    /// # Errors
    /// What the engine says.
    ///
    /// # Panics
    /// When the page cannot call it.
    pub async fn invoke(&self, command: &str, payload: Value) -> Result<Value, Value> {
        let answer = self
            .window
            .client()
            .execute_async(INVOKE, vec![json!(command), payload])
            .await
            .unwrap_or_else(|e| panic!("{command}: {e}"));
        match answer.get("error") {
            Some(error) if !error.is_null() => Err(error.clone()),
            _ => Ok(answer.get("ok").cloned().unwrap_or_default()),
        }
    }

    /// What the new-session sheet would send: this backend, a shell or a command, an open network.
    #[must_use]
    pub fn request(&self, backend: &str, line: Option<&str>) -> Value {
        let program = line.map_or_else(
            || json!({ "kind": "shell" }),
            |line| json!({ "kind": "command", "line": line }),
        );
        json!({
            "program": program,
            "cwd": self.stage.work(),
            "backend": backend,
            "network": if backend == "none" { Value::Null } else { json!("open") },
            "mode": "chat",
            "protectedPaths": [],
            "cols": 80,
            "rows": 24,
        })
    }

    /// Starts a session through the engine and shows it; returns its id.
    pub async fn start(&self, backend: &str, line: Option<&str>) -> String {
        self.launch(self.request(backend, line)).await
    }

    /// Starts a session by such a request and shows it; returns its id.
    ///
    /// # Panics
    /// When the engine refuses it.
    pub async fn launch(&self, request: Value) -> String {
        let session = self
            .invoke("launch", json!({ "request": request }))
            .await
            .unwrap_or_else(|problem| panic!("{problem}"));
        let id = session["id"].as_str().expect("an id").to_owned();
        self.reveal(&id).await;
        id
    }

    /// Shows a session's pane. Clicks again as long as it is not there: the list moves under the
    /// pointer while sessions come and go.
    pub async fn reveal(&self, id: &str) {
        let script = format!(
            "if (document.querySelector(\"{}\")) return true; \
             document.querySelector(\"[data-testid=session-row][data-session-id='{id}']\")?.click(); \
             return false;",
            pane(id)
        );
        self.window
            .until(&format!("the pane of {id}"), &script)
            .await;
    }

    /// Waits until a session's terminal runs `program` in its foreground.
    ///
    /// # Panics
    /// When it does not.
    pub async fn runs(&self, id: &str, program: &str) {
        for _ in 0..1200 {
            let running = self
                .invoke("processes", json!({ "id": id }))
                .await
                .expect("processes");
            let found = running.as_array().is_some_and(|list| {
                list.iter().any(|process| {
                    process["foreground"] == json!(true)
                        && process["command"]
                            .as_str()
                            .is_some_and(|line| line.contains(program))
                })
            });
            if found {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{program} does not run in {id}");
    }

    /// Waits until a pane's session is in `phase`.
    pub async fn phase(&self, id: &str, phase: &str) {
        let css = format!("{}[data-phase={phase}]", pane(id));
        self.window
            .until(
                &format!("{id} is {phase}"),
                &format!("return !!document.querySelector(\"{css}\")"),
            )
            .await;
    }

    /// Types into a pane's terminal, which gets the focus by that.
    ///
    /// # Panics
    /// When the terminal takes no keys.
    pub async fn keys(&self, id: &str, keys: &str) {
        let textarea = self
            .window
            .find(&format!("{} .xterm-helper-textarea", pane(id)))
            .await;
        textarea
            .send_keys(keys)
            .await
            .unwrap_or_else(|e| panic!("typing: {e}"));
    }

    /// Types to whatever has the focus, as a person does who does not look.
    ///
    /// # Panics
    /// When the window takes no keys.
    pub async fn type_blindly(&self, text: &str) {
        let mut keys = KeyActions::new("keyboard".to_owned());
        let mut held = Vec::new();
        for value in text.chars() {
            let sign = value.to_string();
            if sign == key::RELEASE {
                for value in held.drain(..) {
                    keys = keys.then(KeyAction::Up { value });
                }
                continue;
            }
            keys = keys.then(KeyAction::Down { value });
            if [key::CONTROL, key::SHIFT].contains(&sign.as_str()) {
                held.push(value);
            } else {
                keys = keys.then(KeyAction::Up { value });
            }
        }
        let typed = self.window.client().perform_actions(keys).await;
        typed.unwrap_or_else(|e| panic!("typing: {e}"));
    }

    /// Sets the theme, and waits until the page has it.
    ///
    /// # Panics
    /// When the engine refuses it.
    pub async fn theme(&self, theme: &str) {
        let snapshot = self.invoke("snapshot", json!({})).await;
        let mut settings = snapshot.expect("a snapshot")["settings"].clone();
        settings["theme"] = json!(theme);
        self.invoke("set_settings", json!({ "settings": settings }))
            .await
            .expect("settings");
        let there = format!("return document.documentElement.dataset.theme === '{theme}'");
        self.window.until("the theme", &there).await;
        // A picture is of the display, which is drawn some frames after the page has it.
        let drawn = "let frames = 0; const done = arguments[0]; const next = () => \
                     ++frames > 10 ? done(true) : requestAnimationFrame(next); next();";
        let client = self.window.client();
        let _drawn = client
            .execute_async(drawn, Vec::new())
            .await
            .expect("frames");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    /// Types a line and Enter.
    pub async fn line(&self, id: &str, line: &str) {
        self.keys(id, &format!("{line}\u{e007}")).await;
    }

    /// The rows that a pane shows, as text.
    pub async fn rows(&self, id: &str) -> String {
        let value = self.window.script(&rows_script(id), Vec::new()).await;
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a pane shows a row that is exactly `row`.
    pub async fn shows(&self, id: &str, row: &str) {
        let script = format!(
            "const rows = (() => {{ {} }})(); return rows.split('\\n').some(r => r.trimEnd() === {});",
            rows_script(id),
            json!(row)
        );
        self.window
            .until(&format!("the row {row:?}"), &script)
            .await;
    }

    /// Ends the window and its desktop.
    pub async fn close(self) {
        self.window.close().await;
        drop(self.desktop);
    }
}

/// The selector of a session's pane.
#[must_use]
pub fn pane(id: &str) -> String {
    format!("[data-testid=pane][data-session-id='{id}']")
}

fn rows_script(id: &str) -> String {
    format!(
        "return [...document.querySelectorAll(\"{} .xterm-rows > div\")]\
         .map(row => row.textContent.replace(/\\u00a0/g, ' ')).join('\\n');",
        pane(id)
    )
}

/// Keys of the WebDriver standard, section 17.4.2.
pub mod key {
    /// Holds Control down.
    pub const CONTROL: &str = "\u{e009}";
    /// Holds Shift down.
    pub const SHIFT: &str = "\u{e008}";
    /// Lets go of both.
    pub const RELEASE: &str = "\u{e000}";
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
}

/// Ctrl+Shift+`letter`.
#[must_use]
pub fn chord(letter: char) -> String {
    format!("{}{}{letter}{}", key::CONTROL, key::SHIFT, key::RELEASE)
}

/// Ctrl+`letter`.
#[must_use]
pub fn control(letter: char) -> String {
    format!("{}{letter}{}", key::CONTROL, key::RELEASE)
}

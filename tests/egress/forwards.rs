//! Ports and sockets that are granted (case: a dev server inside, opened from the host's browser; a
//! host database reached from inside). REQ EG-12. The host is the network namespace of the tests,
//! and its loopback.

use crate::sandbox::{Driver, Sandbox, hex};
use kotak_engine::api::ActivityRow;
use kotak_engine::egress::decide::{DenyReason, Source};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long something may take to become so. A bound, not an expectation.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "not reached: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port of the host that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// A service of the host that answers each line with the line behind its name.
struct Service {
    connections: Arc<AtomicUsize>,
}

impl Service {
    fn answering<S: Read + Write + Send + 'static>(
        name: &'static str,
        mut accept: impl FnMut() -> std::io::Result<S> + Send + 'static,
    ) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            while let Ok(mut stream) = accept() {
                counted.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        let said = [name.as_bytes(), b": ", &buffer[..count]].concat();
                        if stream.write_all(&said).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { connections }
    }

    /// On the host's loopback; with its port.
    fn on_loopback(name: &'static str) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
        let port = listener.local_addr().expect("its address").port();
        let accept = move || listener.accept().map(|(stream, _)| stream);
        (Self::answering(name, accept), port)
    }

    /// At a Unix socket of the host.
    fn at(name: &'static str, path: &Path) -> Self {
        let listener = UnixListener::bind(path).expect("a service");
        let accept = move || listener.accept().map(|(stream, _)| stream);
        Self::answering(name, accept)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// What a server at a port of the host says until its end.
fn said(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// What the loopback inside says on a port, without a proxy.
fn inside(driver: &mut Driver, port: u16, text: &str) -> Value {
    driver.ask(json!({
        "op": "transparent", "name": "127.0.0.1", "port": port, "hex": hex(text), "shut": true
    }))
}

/// The newest session's id.
fn session(sandbox: &Sandbox) -> String {
    let listed = sandbox.kotak(&["sessions", "--json", "--limit", "1"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("a list");
    listed[0]["id"].as_str().expect("an id").to_owned()
}

/// Makes a grant by the command; its number.
#[track_caller]
fn grant(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let added = sandbox.kotak(&[&["grants", "add", "--json"], arguments].concat());
    let added: Value = serde_json::from_str(&added.stdout).expect("a grant");
    added[0]["id"].as_i64().expect("a number").to_string()
}

fn granted<'a>(rows: &'a [ActivityRow], action: &str, target: &str) -> Vec<&'a ActivityRow> {
    let is_it = |row: &&ActivityRow| {
        let allowed = row.connection.as_ref().and_then(|c| c.allowed.as_ref());
        row.action == action
            && row.target == target
            && allowed.is_some_and(|allowed| allowed.source == Source::Grant)
    };
    rows.iter().filter(is_it).collect()
}

#[test]
fn a_dev_server_inside_is_opened_from_the_host_only_through_a_forward() {
    // egress case: a dev server inside, opened from the host's browser
    const INSIDE: u16 = 8123;
    let serve = json!({ "op": "serve", "port": INSIDE });
    let shut = Sandbox::allowing(&[]);
    let mut driver = shut.driver();
    assert_eq!(driver.ask(serve.clone())["port"], json!(INSIDE));
    let own = inside(&mut driver, INSIDE, "");
    assert_eq!(own["answer"], "dev server\n", "the control: {own}");
    let refused = said(INSIDE).expect_err("it is not opened");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    driver.end();
    // Under every network; none opens it by itself, and none is in its way.
    for network in ["allowlist", "ask", "off"] {
        let port = free_port();
        let forward = format!("{INSIDE}:{port}");
        let sandbox = Sandbox::new(network, &[]).with(&["--forward-in", &forward]);
        let mut driver = sandbox.driver();
        // Nobody listens inside yet: the browser's connection just ends.
        let early = said(port);
        assert!(!early.is_ok_and(|text| !text.is_empty()), "{network}");
        assert_eq!(driver.ask(serve.clone())["port"], json!(INSIDE));
        assert_eq!(said(port).expect("a page"), "dev server\n", "{network}");
        // On the loopback alone: another address of this computer does not have it.
        let elsewhere = TcpStream::connect(("127.0.0.2", port)).expect_err("the loopback alone");
        assert_eq!(elsewhere.kind(), ErrorKind::ConnectionRefused);
        driver.end();
        let refused = said(port).expect_err("it ends with the session");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{network}");
        let log = sandbox.log();
        let target = format!("127.0.0.1:{INSIDE}");
        let rows = granted(&log.rows, "network-inbound", &target);
        assert!(!rows.is_empty(), "{network}: {:#?}", log.rows);
        let left = sandbox.kotak(&["grants", "list"]);
        assert_eq!(left.stdout, "no grants yet\n");
    }
}

#[test]
fn a_host_database_is_reached_from_inside_only_through_a_forward() {
    // egress case: a host database reached from inside
    const INSIDE: u16 = 5432;
    let (database, port) = Service::on_loopback("database");
    let (other, other_port) = Service::on_loopback("other");
    let target = format!("127.0.0.1:{port}");
    let connect = json!({ "op": "connect", "target": target });
    let shut = Sandbox::allowing(&[]);
    let mut driver = shut.driver();
    for at in [port, INSIDE] {
        let direct = inside(&mut driver, at, "SELECT");
        assert!(direct["error"].is_string(), "{direct}");
    }
    assert_eq!(driver.ask(connect.clone())["status"], json!(403));
    driver.end();
    shut.log()
        .refused(&target, DenyReason::AddressRange, "python3");
    assert_eq!(database.connections(), 0);
    for network in ["allowlist", "ask", "off"] {
        let forward = format!("{INSIDE}:{port}");
        let sandbox = Sandbox::new(network, &[]).with(&["--forward-out", &forward]);
        let mut driver = sandbox.driver();
        let before = database.connections();
        let dialled = driver.ask(json!({ "op": "dial", "port": INSIDE, "as": "held" }));
        assert_eq!(dialled["dialled"], json!(true), "{network}: {dialled}");
        let answer = driver.ask(json!({ "op": "say", "as": "held", "text": "SELECT" }));
        assert_eq!(answer["answer"], "database: SELECT", "{network}: {answer}");
        assert_eq!(database.connections(), before + 1);
        // While it is open it can be told who has it.
        until("the row with its process", || {
            let rows = sandbox.log().rows;
            let found = granted(&rows, "network-outbound", &target);
            let process = found.first()?.process.as_ref()?;
            (process.name == "python3").then_some(())
        });
        // The forward leads there and nowhere else: the proxies refuse the host's loopback as ever.
        assert_eq!(driver.ask(connect.clone())["status"], json!(403));
        for at in [port, other_port] {
            let direct = inside(&mut driver, at, "SELECT");
            assert!(direct["error"].is_string(), "{network}: {direct}");
        }
        driver.end();
        assert_eq!(database.connections(), before + 1, "{network}");
        let log = sandbox.log();
        let rows = granted(&log.rows, "network-outbound", &target);
        assert_eq!(rows.len(), 1, "{network}: {:#?}", log.rows);
        // What the address guard refuses comes before what the mode refuses.
        log.refused(&target, DenyReason::AddressRange, "python3");
    }
    assert_eq!(other.connections(), 0);
}

#[test]
fn a_grant_to_a_running_session_is_listed_and_its_revocation_cuts() {
    const INSIDE: u16 = 5432;
    let (database, port) = Service::on_loopback("database");
    let sandbox = Sandbox::new("off", &[]);
    let mut driver = sandbox.driver();
    let id = session(&sandbox);
    let forward = format!("{INSIDE}:{port}");
    let number = grant(&sandbox, &["--session", &id, "--forward-out", &forward]);
    // Open by the time that the command says so.
    for held in ["one", "two"] {
        let dialled = driver.ask(json!({ "op": "dial", "port": INSIDE, "as": held }));
        assert_eq!(dialled["dialled"], json!(true), "{dialled}");
        let said = driver.ask(json!({ "op": "say", "as": held, "text": held }));
        assert_eq!(said["answer"], format!("database: {held}"), "{said}");
    }
    let listed = sandbox.kotak(&["grants", "list", "--session", &id]);
    let wanted = format!("127.0.0.1:{port} of this computer, opened as port {INSIDE} inside");
    assert!(listed.stdout.contains(&wanted), "{listed:?}");
    assert!(
        listed
            .stdout
            .contains(&format!("open at 127.0.0.1:{INSIDE}")),
        "{listed:?}"
    );
    sandbox.kotak(&["grants", "remove", &number]);
    for held in ["one", "two"] {
        until("the open connections are cut", || {
            let said = driver.ask(json!({ "op": "say", "as": held, "text": "more" }));
            (said["answer"].as_str().unwrap_or_default() == "").then_some(())
        });
    }
    let again = driver.ask(json!({ "op": "dial", "port": INSIDE, "as": "three" }));
    assert_eq!(again["error"], "ConnectionRefusedError", "{again}");
    assert_eq!(database.connections(), 2);
    let missing = sandbox
        .stage
        .kotak()
        .args(["grants", "remove", &number])
        .run();
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("[NO_SUCH_GRANT]"), "{missing:?}");
    driver.end();
    let rows = sandbox.log().rows;
    let cut = rows
        .iter()
        .filter(|row| row.raw.as_deref() == Some("the grant was revoked"));
    assert_eq!(cut.count(), 2, "{rows:#?}");
    // One that has ended is granted nothing.
    let ended = sandbox
        .stage
        .kotak()
        .args(["grants", "add", "--session", &id, "--forward-out", &forward])
        .run();
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("[SESSION_ENDED]"), "{ended:?}");
}

#[test]
fn a_grant_of_the_workspace_holds_for_sessions_that_start_later() {
    const INSIDE: u16 = 5432;
    let (_database, port) = Service::on_loopback("database");
    let sandbox = Sandbox::new("off", &[]);
    let mut earlier = sandbox.driver();
    let number = grant(&sandbox, &["--forward-out", &format!("{INSIDE}:{port}")]);
    let mut later = sandbox.driver();
    let answer = inside(&mut later, INSIDE, "SELECT");
    assert_eq!(answer["answer"], "database: SELECT", "{answer}");
    let without = inside(&mut earlier, INSIDE, "SELECT");
    assert!(without["error"].is_string(), "{without}");
    sandbox.kotak(&["grants", "remove", &number]);
    until("it is revoked in the session that has it", || {
        let answer = inside(&mut later, INSIDE, "SELECT");
        answer["error"].is_string().then_some(())
    });
    earlier.end();
    later.end();
}

#[test]
fn what_cannot_be_granted_is_said_with_its_code_and_nothing_runs() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let taken_in = format!("8123:{port}");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("its path");
    let docker = folder.join("docker.sock");
    let control = Service::at("docker", &docker);
    let alias = folder.join("innocent.sock");
    std::os::unix::fs::symlink(&docker, &alias).expect("a link");
    let (docker, alias) = (docker.display().to_string(), alias.display().to_string());
    for (network, options, code) in [
        ("off", ["--forward-in", &taken_in], "HOST_PORT_TAKEN"),
        ("off", ["--forward-in", "3128:9000"], "GRANT_PORT_OWN"),
        ("off", ["--forward-out", "1:2:3"], "GRANT_PORT_INVALID"),
        ("off", ["--forward-out", "9000:2375"], "PORT_CONTROLS_HOST"),
        ("open", ["--forward-in", "8123"], "GRANTS_WITH_OPEN_NETWORK"),
        (
            "open",
            ["--socket", "ssh-agent"],
            "GRANTS_WITH_OPEN_NETWORK",
        ),
        // It is an escape, by whatever name.
        ("off", ["--socket", &docker], "SOCKET_CONTROLS_HOST"),
        ("off", ["--socket", &alias], "SOCKET_CONTROLS_HOST"),
        (
            "off",
            ["--socket", "/run/docker.sock"],
            "SOCKET_CONTROLS_HOST",
        ),
        (
            "off",
            ["--socket", "/tmp/.X11-unix/X0"],
            "SOCKET_CONTROLS_HOST",
        ),
        ("off", ["--socket", "/nowhere/x.sock"], "SOCKET_MISSING"),
        ("off", ["--socket", "x.sock"], "GRANT_SOCKET_PATH_INVALID"),
    ] {
        let refused = Sandbox::new(network, &[]).with(&options).run("echo ran");
        assert_ne!(refused.code, 0, "{options:?}");
        assert!(!refused.stdout.contains("ran"), "{options:?}: {refused:?}");
        let said = format!("[{code}]");
        assert!(refused.stderr.contains(&said), "{options:?}: {refused:?}");
        assert!(refused.stderr.contains("fix:"), "{options:?}: {refused:?}");
    }
    assert_eq!(control.connections(), 0);
    // The control: without them it runs.
    assert_eq!(Sandbox::new("off", &[]).run("echo ran").stdout, "ran\n");
    let bare = Sandbox::new("off", &[])
        .stage
        .kotak()
        .args([
            "run",
            "--backend",
            "none",
            "--forward-in",
            "8123",
            "--",
            "true",
        ])
        .run();
    assert_eq!(bare.code, 2);
    assert!(bare.stderr.contains("[FIELD_NOT_ENFORCED]"), "{bare:?}");
}

#[test]
fn a_socket_of_the_host_is_reached_at_its_own_path_only_with_its_grant() {
    let folder = tempfile::Builder::new().prefix("kotak-host-").tempdir();
    let folder = folder.expect("a folder");
    let folder = folder.path().canonicalize().expect("its path");
    let path = folder.join("db.sock");
    let service = Service::at("service", &path);
    let dial = json!({ "op": "dial", "path": path, "as": "held" });
    let shut = Sandbox::new("off", &[]);
    let mut driver = shut.driver();
    let refused = driver.ask(dial.clone());
    assert_eq!(refused["error"], "FileNotFoundError", "{refused}");
    driver.end();
    assert_eq!(service.connections(), 0);
    let target = path.display().to_string();
    let sandbox = Sandbox::new("off", &[]).with(&["--socket", &target]);
    let mut driver = sandbox.driver();
    assert_eq!(driver.ask(dial)["dialled"], json!(true));
    let said = driver.ask(json!({ "op": "say", "as": "held", "text": "hello" }));
    assert_eq!(said["answer"], "service: hello", "{said}");
    driver.end();
    let log = sandbox.log();
    let rows = granted(&log.rows, "network-outbound", &target);
    assert_eq!(rows.len(), 1, "{:#?}", log.rows);
}

#[test]
fn a_granted_socket_that_the_session_replaces_leads_nowhere_else() {
    // The folder of the socket is writable inside, so the name can be made to lead anywhere.
    let sandbox = Sandbox::new("off", &[]);
    let hidden = tempfile::tempdir().expect("a folder");
    let hidden = hidden.path().canonicalize().expect("its path");
    let secret = Service::at("secret", &hidden.join("secret.sock"));
    let mut driver = sandbox.driver();
    let path = sandbox.stage.work().join("db.sock");
    let service = Service::at("service", &path);
    let id = session(&sandbox);
    let path = path.display().to_string();
    grant(&sandbox, &["--session", &id, "--socket", &path]);
    let at = format!("/run/user/{}/kotak/db.sock", nix::unistd::getuid().as_raw());
    let dial = |held: &str| json!({ "op": "dial", "path": at, "as": held });
    let say = |held: &str| json!({ "op": "say", "as": held, "text": "hello" });
    assert_eq!(driver.ask(dial("first"))["dialled"], json!(true));
    let answer = driver.ask(say("first"));
    assert_eq!(answer["answer"], "service: hello", "the control: {answer}");
    let script = format!("rm {path} && ln -s {}/secret.sock {path}", hidden.display());
    let replaced = driver.ask(json!({ "op": "shell", "script": script }));
    assert_eq!(replaced["code"], json!(0), "{replaced}");
    assert_eq!(driver.ask(dial("second"))["dialled"], json!(true));
    let answer = driver.ask(say("second"));
    assert_eq!(
        answer["answer"].as_str().unwrap_or_default(),
        "",
        "{answer}"
    );
    assert_eq!((secret.connections(), service.connections()), (0, 1));
    driver.end();
}

/// An ssh agent of the host with one key in it.
struct Agent {
    child: Child,
    socket: PathBuf,
    fingerprint: String,
    _folder: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("kotak-agent-").tempdir();
        let folder = folder.expect("a folder");
        let home = folder.path().canonicalize().expect("its path");
        let socket = home.join("agent.sock");
        let child = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh-agent");
        // Ended also where the rest of this fails.
        let mut agent = Self {
            child,
            socket,
            fingerprint: String::new(),
            _folder: folder,
        };
        until("the agent listens", || agent.socket.exists().then_some(()));
        let key = home.join("key");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program)
                .args(arguments)
                .arg(&key)
                .env("SSH_AUTH_SOCK", &agent.socket)
                .output()
                .expect(program);
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f"]);
        run("ssh-add", &["-q"]);
        let listed = run("ssh-keygen", &["-l", "-f"]);
        agent.fingerprint = listed.split(' ').nth(1).expect("a fingerprint").to_owned();
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_ssh_agent_is_there_with_its_grant_and_not_without() {
    let agent = Agent::start();
    let list = "echo \"[$SSH_AUTH_SOCK]\"; ssh-add -l; echo \"code $?\"";
    let run = |options: &[&str]| {
        let sandbox = Sandbox::new("off", &[]).with(options);
        let call = sandbox.call(list).env("SSH_AUTH_SOCK", &agent.socket);
        (call.run(), sandbox)
    };
    let (without, _) = run(&[]);
    assert_eq!(without.stdout, "[]\ncode 2\n", "{without:?}");
    let (with, sandbox) = run(&["--socket", "ssh-agent"]);
    let uid = nix::unistd::getuid().as_raw();
    let place = format!("[/run/user/{uid}/kotak/ssh-agent.sock]");
    assert!(with.stdout.starts_with(&place), "{with:?}");
    assert!(with.stdout.contains(&agent.fingerprint), "{with:?}");
    assert!(with.stdout.ends_with("code 0\n"), "{with:?}");
    assert!(
        with.stderr.contains("kotak: granted: your ssh agent"),
        "{with:?}"
    );
    let rows = sandbox.log().rows;
    let target = agent.socket.display().to_string();
    assert!(
        !granted(&rows, "network-outbound", &target).is_empty(),
        "{rows:#?}"
    );
    // Without an agent the grant is an error that says so.
    let none = Sandbox::new("off", &[]).with(&["--socket", "ssh-agent"]);
    let gone = none.call(list).env("SSH_AUTH_SOCK", "").run();
    assert!(gone.stderr.contains("[NO_SSH_AGENT]"), "{gone:?}");
}

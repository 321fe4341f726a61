//! The whole engine against the real guard and the real bubblewrap.

mod crash;
mod files;
mod forwards;
mod hung;
mod launch;
mod lifecycle;
mod network;
mod refusal;
mod secrets;
mod terminal;

use super::{Engine, EngineOptions, EngineRole};
use crate::api::{LaunchRequest, Program, SessionInfo};
use crate::backend::{BackendChoice, SandboxBackend};
use crate::probe::{HostReport, Switch};
use crate::spec::Mode;
use crate::store::Dirs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Set in a process that runs one test of this binary alone.
const ALONE: &str = "KOTAK_TEST_ALONE";

/// An engine with its own directories.
struct Rig {
    engine: Engine,
    root: TempDir,
    /// Kotak's own directories. Not in the home directory: the socket in them would be hidden
    /// from the sessions of other tests, and go away while those are launched.
    kotak: TempDir,
}

impl Rig {
    async fn start() -> Self {
        let root = tempfile::Builder::new()
            .prefix("kotak-test-")
            .tempdir_in(home())
            .unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        let kotak = tempfile::tempdir().unwrap();
        let options = EngineOptions {
            switch: Switch::On,
            dirs: Dirs::under(kotak.path()),
            role: EngineRole::Panel,
        };
        Self {
            engine: Engine::start(options).await.unwrap(),
            root,
            kotak,
        }
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A script in the working directory, and the command line that runs it.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        format!("sh {}", path.display())
    }

    fn request(&self, backend: BackendChoice, line: &str) -> LaunchRequest {
        LaunchRequest {
            program: Program::Command {
                line: line.to_owned(),
            },
            cwd: self.work().to_str().unwrap().to_owned(),
            backend,
            network: None,
            extra_domains: Vec::new(),
            port_forwards: Vec::new(),
            socket_grants: Vec::new(),
            mode: Mode::Chat,
            protected_paths: Vec::new(),
            exec_restriction: Default::default(),
            cols: 80,
            rows: 24,
        }
    }

    async fn launch(&self, backend: BackendChoice, line: &str) -> SessionInfo {
        let info = self
            .engine
            .launch(self.request(backend, line))
            .await
            .unwrap();
        assert_eq!(info.handle.error, None);
        info
    }

    /// Reads until the output ends; all of it, and the session after its end.
    async fn read_to_end(&self, id: &str) -> (String, SessionInfo) {
        let mut bytes = Vec::new();
        loop {
            let chunk = self
                .engine
                .read_output(id, bytes.len() as u64)
                .await
                .unwrap();
            assert!(!chunk.truncated);
            bytes.extend(chunk.bytes);
            if chunk.ended && bytes.len() as u64 == chunk.head {
                break;
            }
        }
        let info = self.engine.wait(id).await.unwrap();
        (String::from_utf8_lossy(&bytes).into_owned(), info)
    }

    /// Makes the probe's report name another runner, as if it had been replaced since.
    fn replace_bwrap(&self, path: &Path) {
        let mut report: HostReport = (*self.engine.host()).clone();
        report.facts.bwrap_path = Some(path.to_str().unwrap().to_owned());
        self.engine.manager().set_report(Arc::new(report));
    }

    /// An executable script outside the working directory.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.root.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The report says native; the tests that need it cannot mean anything without.
    fn assert_native(&self) {
        let report = self.engine.host();
        let native = report.backend(SandboxBackend::Native).unwrap();
        assert!(
            native.available,
            "these tests need bubblewrap and socat: {:?}",
            native.problem
        );
    }
}

fn home() -> PathBuf {
    PathBuf::from(std::env::var_os("HOME").unwrap())
}

/// A number of seconds to sleep that no other process has, to find processes by.
fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "86400.{}{:04}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Host process ids of every `sleep` with this marker.
fn sleepers(marker: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command == format!("sleep\0{marker}\0").into_bytes() {
            found.push(pid);
        }
    }
    found
}

/// Looks again and again until it holds; fails with `what` after a time that only a fault takes.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs the test of this name in a process of its own, whose descriptors and children nobody
/// else changes. `true` in that process: the test goes on; `false`: it is done.
fn alone(test: &str) -> bool {
    alone_in(test, &home())
}

/// The same with another home directory.
fn alone_in(test: &str, home: &Path) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .env("HOME", home)
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("1 passed"),
        "the test of that name did not run: {text}"
    );
    false
}

//! Honesty (REQ BK-7, PR-1): between the probe and a launch bubblewrap is replaced, and no badge,
//! no payload comes of it. Each test runs itself again in a mount namespace of its own, where it
//! may put another file over `/usr/bin/bwrap`.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

mod host;
mod interrupted;
mod shortage;
mod vanish;

use kotak_engine::api::{LaunchRequest, Program, SessionInfo, SessionPhase};
use kotak_engine::backend::{BackendChoice, SandboxBackend};
use kotak_engine::manager::{Engine, EngineOptions, EngineRole, SandboxState};
use kotak_engine::probe::{Switch, VerdictState};
use kotak_engine::spec::{Mode, NetworkMode};
use kotak_engine::store::Dirs;
use kotak_tests::Stage;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Set in the inner run.
const INNER: &str = "KOTAK_OWN_MOUNTS";

/// True in the inner run; else runs the test `name` again inside and reports its result.
fn in_own_mounts(name: &str) -> bool {
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    let stage = Stage::new();
    let mut command = Command::new("unshare");
    if !kotak_tests::stage::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let output = command
        .args(["--mount", "--propagation", "private", "--"])
        .arg(std::env::current_exe().expect("this test"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INNER, "1")
        .env("HOME", stage.home())
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .current_dir(stage.work())
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// A staged home, an engine that probed it with the real bubblewrap, and that one's path.
struct Scene {
    stage: Stage,
    engine: Engine,
    bwrap: PathBuf,
}

impl Scene {
    async fn start(switch: Switch) -> Self {
        let stage = Stage::adopted();
        let dirs = Dirs::from_environment().expect("directories");
        let engine = Engine::start(EngineOptions {
            switch,
            dirs,
            role: EngineRole::Panel,
        })
        .await
        .expect("an engine");
        let facts = &engine.host().facts;
        let bwrap = facts
            .bwrap_path
            .clone()
            .expect("this machine has bubblewrap")
            .into();
        Self {
            stage,
            engine,
            bwrap,
        }
    }

    fn replace_bwrap(&self, script: &str) {
        let real = self.stage.home().join("real-bwrap");
        std::fs::copy(&self.bwrap, &real).expect("a copy");
        let fake = self.stage.home().join("fake-bwrap");
        std::fs::write(&fake, script.replace("REAL", &real.display().to_string())).expect("a file");
        let status = Command::new("chmod")
            .arg("755")
            .arg(&fake)
            .status()
            .expect("chmod");
        assert!(status.success());
        let status = Command::new("mount")
            .arg("--bind")
            .args([&fake, &self.bwrap])
            .status()
            .expect("mount");
        assert!(status.success());
    }

    fn request(&self, backend: BackendChoice, marker: &Path) -> LaunchRequest {
        LaunchRequest {
            program: Program::Command {
                line: format!("/usr/bin/touch {}", marker.display()),
            },
            cwd: self.stage.work().display().to_string(),
            backend,
            network: (backend != BackendChoice::None).then_some(NetworkMode::Open),
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

    /// Launches and waits for the end.
    async fn launch(&self, backend: BackendChoice, marker: &Path) -> SessionInfo {
        let session = self
            .engine
            .launch(self.request(backend, marker))
            .await
            .expect("a session");
        for _ in 0..600 {
            let snapshot = self.engine.snapshot();
            let now = snapshot
                .sessions
                .into_iter()
                .find(|other| other.id == session.id);
            if let Some(now) = now
                && !now.is_live()
            {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the session did not end");
    }

    /// A launch with `script` in place of bubblewrap.
    async fn through(&self, script: &str, marker: &Path) -> SessionInfo {
        self.replace_bwrap(script);
        self.launch(BackendChoice::Native, marker).await
    }

    /// The control, then the same with `script` in place of bubblewrap.
    async fn replaced(&self, script: &str) -> SessionInfo {
        let control = self.stage.work().join("control-marker");
        let good = self.launch(BackendChoice::Native, &control).await;
        assert_eq!(
            good.phase,
            SessionPhase::Ended,
            "the control failed: {good:?}"
        );
        assert_eq!(good.handle.backend, Some(SandboxBackend::Native));
        assert!(control.exists(), "the control's payload did not run");

        let marker = self.stage.work().join("payload-ran");
        let broken = self.through(script, &marker).await;
        assert_eq!(broken.phase, SessionPhase::Error, "{broken:?}");
        assert_eq!(broken.handle.state, SandboxState::Error);
        assert_eq!(
            broken.handle.backend, None,
            "a badge without a sandbox: {broken:?}"
        );
        assert!(broken.handle.error.is_some(), "{broken:?}");
        assert!(!marker.exists(), "the payload ran");
        broken
    }
}

/// Reads the arguments as bubblewrap does (`--args FD`) into the array `all`.
const READ_ARGUMENTS: &str = r#"#!/bin/bash
all=()
while [ $# -gt 0 ]; do
  if [ "$1" = --args ]; then mapfile -d '' -t more <&"$2"; all+=("${more[@]}"); shift 2
  else all+=("$1"); shift; fi
done
"#;

fn code(session: &SessionInfo) -> &str {
    session
        .handle
        .error
        .as_ref()
        .map_or("", |problem| problem.code.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bubblewrap_that_fails_gives_an_error_and_no_badge() {
    if !in_own_mounts("a_bubblewrap_that_fails_gives_an_error_and_no_badge") {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let broken = scene
        .replaced("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n")
        .await;
    assert_eq!(code(&broken), "BWRAP_FAILED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bubblewrap_that_runs_its_payload_unsandboxed_is_found_out_from_inside() {
    if !in_own_mounts("a_bubblewrap_that_runs_its_payload_unsandboxed_is_found_out_from_inside") {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let script = format!(
        "{READ_ARGUMENTS}{}",
        r#"for i in "${!all[@]}"; do
  if [ "${all[$i]}" = -- ]; then exec "${all[@]:$((i+1))}"; fi
done
"#
    );
    let broken = scene.replaced(&script).await;
    assert_eq!(code(&broken), "GUARD_REFUSED");
}

/// A bubblewrap that quietly leaves out `what` (an option and its number of arguments).
async fn without(what: &[(&str, usize)]) -> SessionInfo {
    without_but(what, "").await
}

/// The same, and does `more` before.
async fn without_but(what: &[(&str, usize)], more: &str) -> SessionInfo {
    let scene = Scene::start(Switch::On).await;
    let cases: String = what
        .iter()
        .map(|(option, arguments)| {
            format!(
                "  [ \"${{all[$i]}}\" = {option} ] && {{ i=$((i+1+{arguments})); continue; }}\n"
            )
        })
        .collect();
    let script = format!(
        "{READ_ARGUMENTS}{more}kept=(); i=0\nwhile [ $i -lt ${{#all[@]}} ]; do\n{cases}  \
         [ \"${{all[$i]}}\" = -- ] && {{ kept+=(\"${{all[@]:$i}}\"); break; }}\n  \
         kept+=(\"${{all[$i]}}\"); i=$((i+1))\ndone\nexec REAL \"${{kept[@]}}\"\n"
    );
    scene.replaced(&script).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bubblewrap_without_a_pid_namespace_is_found_out() {
    if in_own_mounts("a_bubblewrap_without_a_pid_namespace_is_found_out") {
        let broken = without(&[("--unshare-pid", 0), ("--as-pid-1", 0)]).await;
        assert!(
            ["GUARD_REFUSED", "BWRAP_FAILED"].contains(&code(&broken)),
            "{broken:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bubblewrap_that_masks_nothing_is_found_out() {
    if in_own_mounts("a_bubblewrap_that_masks_nothing_is_found_out") {
        let broken = without(&[("--perms", 1), ("--remount-ro", 1), ("--tmpfs", 1)]).await;
        assert!(
            ["GUARD_REFUSED", "BWRAP_FAILED"].contains(&code(&broken)),
            "{broken:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bubblewrap_that_never_says_who_its_child_is_runs_into_the_deadline() {
    let name = "a_bubblewrap_that_never_says_who_its_child_is_runs_into_the_deadline";
    if !in_own_mounts(name) {
        return;
    }
    // Something of it keeps its status pipe open, so that nothing but time ends the wait.
    let marker = format!("kotak-status-{}", std::process::id());
    let keeper = format!("(exec -a {marker} sleep 100000) &\n");
    let broken = without_but(&[("--json-status-fd", 1)], &keeper).await;
    assert_eq!(code(&broken), "LAUNCH_TIMEOUT", "{broken:?}");
    let left = interrupted::survivors(&marker);
    assert_eq!(left, Vec::<String>::new(), "it is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bubblewrap_after_the_probe_is_named() {
    if !in_own_mounts("a_missing_bubblewrap_after_the_probe_is_named") {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let dir = scene.bwrap.parent().expect("a directory");
    // Hides the program without touching the host: an empty file system over a copy's directory
    // would hide too much, so the file itself becomes an unreadable non-program.
    let status = Command::new("mount")
        .args(["--bind", "/dev/null"])
        .arg(&scene.bwrap)
        .status();
    assert!(status.expect("mount").success(), "{}", dir.display());
    let marker = scene.stage.work().join("payload-ran");
    let broken = scene.launch(BackendChoice::Native, &marker).await;
    assert_eq!(broken.phase, SessionPhase::Error, "{broken:?}");
    assert_eq!(code(&broken), "BWRAP_MISSING", "{broken:?}");
    assert!(
        broken
            .handle
            .error
            .as_ref()
            .is_some_and(|problem| problem.fix.is_some())
    );
    assert_eq!(broken.handle.backend, None);
    assert!(!marker.exists(), "the payload ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_microvm_is_refused_loudly_and_auto_falls_to_native() {
    // REQ BK-6
    if !in_own_mounts("an_explicit_microvm_is_refused_loudly_and_auto_falls_to_native") {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let marker = scene.stage.work().join("payload-ran");
    let refused = scene
        .engine
        .launch(scene.request(BackendChoice::Microvm, &marker))
        .await;
    let problem = refused.expect_err("no microVM here");
    assert_eq!(problem.code, "MICROVM_UNAVAILABLE");
    assert!(
        problem
            .fix
            .is_some_and(|fix| !fix.text.contains("--sandbox off"))
    );
    assert!(!marker.exists());

    let fell = scene.launch(BackendChoice::Auto, &marker).await;
    assert_eq!(
        fell.handle.backend,
        Some(SandboxBackend::Native),
        "{fell:?}"
    );
    assert!(marker.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_off_still_wraps_what_is_asked_for_by_name() {
    // REQ SW-2, SW-3
    if !in_own_mounts("the_switch_off_still_wraps_what_is_asked_for_by_name") {
        return;
    }
    let scene = Scene::start(Switch::Off).await;
    assert_eq!(scene.engine.host().verdict.state, VerdictState::Disabled);
    assert_eq!(
        scene.engine.host().verdict.line,
        "agent sandbox DISABLED by --sandbox off"
    );
    let marker = scene.stage.work().join("payload-ran");
    let named = scene.launch(BackendChoice::Native, &marker).await;
    assert_eq!(
        named.handle.backend,
        Some(SandboxBackend::Native),
        "{named:?}"
    );
    let bare = scene.launch(BackendChoice::None, &marker).await;
    assert_eq!(bare.handle.backend, Some(SandboxBackend::None), "{bare:?}");
}

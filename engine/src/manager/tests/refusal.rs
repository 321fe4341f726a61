//! What is refused, what breaks, and that nothing runs then. Each with its positive control.

use super::{Rig, eventually, marker, sleepers};
use crate::api::{Program, SessionInfo, SessionPhase};
use crate::backend::{BackendChoice, SandboxBackend};
use crate::manager::{ExecRequest, ExecStdio, SandboxPort, SandboxState};
use crate::spec::{Mode, NetworkMode};
use std::path::Path;

/// A launch whose payload would leave a file; the session, and whether the file is there.
async fn launch_marked(rig: &Rig) -> (SessionInfo, bool) {
    let file = rig.work().join("payload-ran");
    let line = rig.script("payload.sh", &format!("touch '{}'", file.display()));
    let info = rig
        .engine
        .launch(rig.request(BackendChoice::Native, &line))
        .await
        .unwrap();
    let info = rig.engine.wait(&info.id).await.unwrap();
    (info, file.exists())
}

fn assert_broken(info: &SessionInfo, code: &str) {
    assert_eq!(info.phase, SessionPhase::Error);
    assert_eq!(info.handle.state, SandboxState::Error);
    // REQ BK-7: no badge.
    assert_eq!(info.handle.backend, None);
    assert_eq!(info.handle.enforcement, None);
    let problem = info.handle.error.as_ref().unwrap();
    assert_eq!(problem.code, code, "{problem:?}");
    assert!(problem.fix.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_fails_is_a_runner_failure_and_runs_nothing() {
    let rig = Rig::start().await;
    rig.assert_native();
    let failing = rig.program(
        "failing",
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n",
    );
    rig.replace_bwrap(&failing);
    let (info, ran) = launch_marked(&rig).await;
    assert_broken(&info, "BWRAP_FAILED");
    assert!(
        info.handle
            .error
            .unwrap()
            .message
            .contains("setting up uid map: Permission denied")
    );
    assert!(!ran);
}

// REQ BK-7, TM-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_runs_the_guard_without_a_sandbox_is_found_out_and_runs_nothing() {
    let rig = Rig::start().await;
    rig.assert_native();
    let guard = rig.root.path().join("guard");
    let liar = rig.program(
        "liar",
        &format!(
            "#!/bin/sh\ncat /proc/self/fd/12 > '{0}'\nchmod 755 '{0}'\nexec '{0}' native 13\n",
            guard.display()
        ),
    );
    rig.replace_bwrap(&liar);
    let (info, ran) = launch_marked(&rig).await;
    assert!(guard.exists(), "the guard was really run without a sandbox");
    assert_broken(&info, "GUARD_REFUSED");
    assert!(!ran);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_runs_something_else_than_the_guard_runs_no_payload() {
    let rig = Rig::start().await;
    rig.assert_native();
    let other = rig.program("other", "#!/bin/sh\nexit 0\n");
    rig.replace_bwrap(&other);
    let (info, ran) = launch_marked(&rig).await;
    assert_broken(&info, "BWRAP_FAILED");
    assert!(!ran);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_only_wraps_the_real_one_works() {
    let rig = Rig::start().await;
    rig.assert_native();
    let real = rig.engine.host().facts.bwrap_path.clone().unwrap();
    let wrapper = rig.program("wrapper", &format!("#!/bin/sh\nexec '{real}' \"$@\"\n"));
    rig.replace_bwrap(&wrapper);
    let (info, ran) = launch_marked(&rig).await;
    assert_eq!(
        (info.phase, info.exit_code, ran),
        (SessionPhase::Ended, Some(0), true),
        "{:?}",
        info.handle.error
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_gone_since_the_probe_is_named() {
    let rig = Rig::start().await;
    rig.assert_native();
    rig.replace_bwrap(Path::new("/nonexistent/bwrap"));
    let (info, ran) = launch_marked(&rig).await;
    assert_broken(&info, "BWRAP_MISSING");
    assert!(!ran);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_hangs_is_given_up_with_all_that_it_started() {
    let rig = Rig::start().await;
    rig.assert_native();
    let marker = marker();
    let hanging = rig.program(
        "hanging",
        &format!("#!/bin/sh\nsleep {marker} &\nsleep {marker}\n"),
    );
    rig.replace_bwrap(&hanging);
    let (info, ran) = launch_marked(&rig).await;
    assert_broken(&info, "LAUNCH_TIMEOUT");
    assert!(!ran);
    eventually("nothing is left of it", || sleepers(&marker).is_empty()).await;
}

/// A terminal in the rig's folder.
fn native(rig: &Rig, id: &str) -> crate::manager::SandboxRequest {
    let request = crate::spec::TerminalRequest::plain(id, "w", rig.work());
    crate::manager::SandboxRequest {
        spec: crate::spec::ValidSpec::terminal(&request).unwrap(),
        choice: Some(BackendChoice::Native),
        client: crate::backend::ClientDefault::Terminal,
        bridge: crate::backend::BridgeChoice::Auto,
    }
}

// Launch case: a bind source swapped between check and mount.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bind_source_that_was_swapped_since_the_check_is_not_mounted() {
    let rig = Rig::start().await;
    rig.assert_native();
    let request = |id: &str| native(&rig, id);
    let manager = rig.engine.manager();
    let (_, prepared) = manager
        .prepare_to_launch(&request("control"))
        .await
        .unwrap();
    let handle = manager.launch_prepared("control", prepared).await.unwrap();
    assert_eq!(handle.error, None);
    manager.destroy("control").await.unwrap();

    // What the policy found by itself may go: it is resolved anew.
    let found = rig.work().join(".vscode");
    std::fs::create_dir(&found).unwrap();
    let (_, prepared) = manager.prepare_to_launch(&request("found")).await.unwrap();
    std::fs::remove_dir(&found).unwrap();
    let handle = manager.launch_prepared("found", prepared).await.unwrap();
    assert_eq!(handle.error, None);
    manager.destroy("found").await.unwrap();
    assert!(!found.exists(), "no mount point is left");

    // What was asked for by name may not.
    let (_, prepared) = manager
        .prepare_to_launch(&request("swapped"))
        .await
        .unwrap();
    std::fs::rename(rig.work(), rig.root.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("/etc", rig.work()).unwrap();
    let handle = manager.launch_prepared("swapped", prepared).await.unwrap();
    assert_eq!((handle.state, handle.backend), (SandboxState::Error, None));
    assert_eq!(handle.error.unwrap().code, "SOURCE_CHANGED");
    assert_eq!(manager.handle("swapped"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_or_folder_that_does_not_exist_is_a_typed_error_and_others_go_on() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let other = rig.launch(backend, "cat").await;
        let info = rig
            .engine
            .launch(rig.request(backend, "/no/such/program"))
            .await
            .unwrap();
        assert_broken(&info, "PROGRAM_NOT_FOUND");
        let exec = ExecRequest {
            argv: vec!["true".into()],
            cwd: Some("/no/such/folder".into()),
            env: Vec::new(),
            stdio: ExecStdio::Pipes,
        };
        let refused = rig
            .engine
            .manager()
            .exec(&other.id, exec)
            .await
            .unwrap_err();
        assert_eq!(refused.code, "WORKDIR_GONE");
        rig.engine.write_input(&other.id, b"\x04").await.unwrap();
        assert_eq!(rig.engine.wait(&other.id).await.unwrap().exit_code, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_launched_is_refused_before_anything_runs() {
    let rig = Rig::start().await;
    let request = |backend| rig.request(backend, "true");
    let mut cases = Vec::new();
    // REQ BK-6
    cases.push((request(BackendChoice::Microvm), "MICROVM_UNAVAILABLE"));
    let mut network = request(BackendChoice::None);
    network.network = Some(NetworkMode::Off);
    cases.push((network, "FIELD_NOT_ENFORCED"));
    let mut mode = request(BackendChoice::None);
    mode.mode = Mode::Review;
    cases.push((mode, "FIELD_NOT_ENFORCED"));
    let mut protected = request(BackendChoice::None);
    protected.protected_paths = vec!["/etc".to_owned()];
    cases.push((protected, "FIELD_NOT_ENFORCED"));
    let mut missing = request(BackendChoice::None);
    missing.cwd = "/no/such/folder".to_owned();
    cases.push((missing, "WORKDIR_MISSING"));
    let mut relative = request(BackendChoice::None);
    relative.cwd = "work".to_owned();
    cases.push((relative, "WORKDIR_RELATIVE"));
    let mut line = request(BackendChoice::None);
    line.program = Program::Command {
        line: "echo 'open".to_owned(),
    };
    cases.push((line, "COMMAND_LINE_INVALID"));
    let mut preset = request(BackendChoice::None);
    preset.program = Program::Preset {
        id: "nothing".to_owned(),
    };
    cases.push((preset, "UNKNOWN_PRESET"));
    for (request, code) in cases {
        let refused = rig.engine.launch(request.clone()).await.unwrap_err();
        assert_eq!(refused.code, code, "{refused:?}");
        assert_eq!(
            rig.engine.preview(&request).await.problem.unwrap().code,
            code
        );
    }
    assert_eq!(rig.engine.snapshot().sessions, Vec::new());
    // The positive control.
    let info = rig.launch(BackendChoice::None, "true").await;
    assert_eq!(rig.engine.wait(&info.id).await.unwrap().exit_code, Some(0));
}

// REQ BK-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_falls_to_native_and_says_so() {
    let rig = Rig::start().await;
    rig.assert_native();
    let preview = rig
        .engine
        .preview(&rig.request(BackendChoice::Auto, "true"))
        .await;
    assert_eq!(
        (preview.backend, preview.problem),
        (Some(SandboxBackend::Native), None)
    );
    let info = rig.launch(BackendChoice::Auto, "true").await;
    assert_eq!(info.handle.backend, Some(SandboxBackend::Native));
    assert!(
        info.handle.details["notice"]
            .as_str()
            .unwrap()
            .contains("native is used instead")
    );
    rig.engine.wait(&info.id).await.unwrap();
}

/// How many processes run this program.
fn running(program: &Path) -> usize {
    let name = program.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(name))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_waits_for_a_plan_ends_with_a_launch_that_is_refused_or_given_up() {
    let rig = Rig::start().await;
    rig.assert_native();
    let waiting = rig.program("waiting", "#!/bin/sh\ncat </proc/self/fd/10\nsleep 600\n");
    rig.replace_bwrap(&waiting);
    let manager = rig.engine.manager();
    let given_up = manager.prepare_to_launch(&native(&rig, "given-up")).await;
    eventually("the runner waits", || running(&waiting) > 0).await;
    drop(given_up.unwrap());
    eventually("it is gone", || running(&waiting) == 0).await;

    let mut request = rig.request(BackendChoice::Native, "true");
    request.cwd = rig.root.path().join("missing").display().to_string();
    let refused = rig.engine.launch(request).await.unwrap_err();
    assert_eq!(refused.code, "WORKDIR_MISSING", "{refused:?}");
    eventually("it is gone", || running(&waiting) == 0).await;

    // Nothing is started for a look.
    let looked = manager.prepare(&native(&rig, "looked")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(running(&waiting), 0);
    drop(looked);
}

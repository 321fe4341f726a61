//! A guard that runs and says nothing holds nobody up.

use super::{Rig, alone, eventually, marker, sleepers};
use crate::api::{SessionInfo, SessionPhase};
use crate::backend::BackendChoice;
use crate::error::Problem;
use crate::manager::{ExecRequest, ExecStdio, SandboxPort};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Host process id of a session's guard: the child of its runner, or the watcher itself.
fn guard_of(info: &SessionInfo, backend: BackendChoice) -> Pid {
    let runner = info.handle.details["pid"].as_i64().unwrap();
    if backend == BackendChoice::None {
        return Pid::from_raw(runner.try_into().unwrap());
    }
    let children = std::fs::read_to_string(format!("/proc/{runner}/task/{runner}/children"));
    Pid::from_raw(children.unwrap().trim().parse().unwrap())
}

fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.starts_with(" T")
}

async fn runs(rig: &Rig, id: &str, argv: &[&str]) -> Result<i32, Problem> {
    let request = ExecRequest {
        argv: argv.iter().map(Into::into).collect(),
        cwd: None,
        env: Vec::new(),
        stdio: ExecStdio::Pipes,
    };
    let exec = rig.engine.manager().exec(id, request).await?;
    Ok(exec.wait().await.exit_code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_hangs_is_a_typed_error_and_its_session_can_be_closed() {
    if !alone(
        "manager::tests::hung::a_guard_that_hangs_is_a_typed_error_and_its_session_can_be_closed",
    ) {
        return;
    }
    // Freezing asks the guard, too.
    crate::process::forbid_cgroups_for_test();
    let rig = Rig::start().await;
    rig.assert_native();
    crate::process::hurry_for_test();
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let (kept, late) = (marker(), marker());
        let info = rig.launch(backend, &format!("sleep {kept}")).await;
        let id = info.id.as_str();
        assert_eq!(runs(&rig, id, &["true"]).await, Ok(0), "the control failed");
        let guard = guard_of(&info, backend);
        kill(guard, Signal::SIGSTOP).unwrap();
        eventually("the guard is stopped", || is_stopped(guard)).await;

        let unanswered = |problem: Problem| {
            assert_eq!(problem.code, "GUARD_UNRESPONSIVE", "{backend:?}");
            assert!(problem.fix.is_some());
        };
        let manager = rig.engine.manager();
        unanswered(runs(&rig, id, &["sleep", &late]).await.unwrap_err());
        unanswered(manager.suspend(id).await.unwrap_err());
        unanswered(manager.processes(id).await.unwrap_err());

        // What was given up does not run on when the guard does.
        kill(guard, Signal::SIGCONT).unwrap();
        let mut answered = false;
        while !answered {
            answered = manager.processes(id).await.is_ok();
        }
        eventually("the late program is gone", || sleepers(&late).is_empty()).await;
        assert_eq!(sleepers(&kept).len(), 1, "{backend:?}");

        kill(guard, Signal::SIGSTOP).unwrap();
        eventually("the guard is stopped", || is_stopped(guard)).await;
        rig.engine.close(id).await.unwrap();
        assert_eq!(sleepers(&kept), Vec::<i32>::new(), "{backend:?}");
        let ended = rig.engine.session(id).unwrap();
        assert_eq!(ended.phase, SessionPhase::Ended, "{ended:?}");
    }
}

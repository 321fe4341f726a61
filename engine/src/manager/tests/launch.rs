//! Launch, exec, exit.

use super::{Rig, eventually, marker, sleepers};
use crate::api::SessionPhase;
use crate::backend::{BackendChoice, ClientDefault, SandboxBackend};
use crate::events::{Received, SandboxEvent};
use crate::manager::{ExecRequest, ExecStdio, SandboxPort, SandboxRequest, SandboxState};
use crate::spec::{TerminalRequest, ValidSpec};
use std::collections::BTreeMap;

// REQ BK-7, TM-2
async fn a_program_runs(backend: BackendChoice, actual: SandboxBackend) {
    let rig = Rig::start().await;
    // It waits for a line, so that it still runs when it is looked at.
    let line = rig.script(
        "probe.sh",
        "read -r go; tty; pwd; echo term=$TERM; stty size; exit 7",
    );
    let info = rig.launch(backend, &line).await;
    assert_eq!(info.handle.backend, Some(actual));
    assert_eq!(info.handle.state, SandboxState::Active);
    rig.engine.write_input(&info.id, b"go\n").await.unwrap();
    let (text, end) = rig.read_to_end(&info.id).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "go", "the echo: {text}");
    assert!(lines[1].starts_with("/dev/pts/"), "{text}");
    assert_eq!(
        lines[2..],
        [rig.work().to_str().unwrap(), "term=xterm-256color", "24 80"]
    );
    assert_eq!((end.phase, end.exit_code), (SessionPhase::Ended, Some(7)));
    assert_eq!(end.handle.state, SandboxState::Destroyed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_runs_without_a_sandbox_and_its_exit_code_arrives() {
    a_program_runs(BackendChoice::None, SandboxBackend::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_runs_in_the_native_sandbox_and_its_exit_code_arrives() {
    a_program_runs(BackendChoice::Native, SandboxBackend::Native).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_ended_by_a_signal_has_128_and_its_number() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let info = rig
            .launch(backend, &rig.script("die.sh", "kill -TERM $$"))
            .await;
        let end = rig.engine.wait(&info.id).await.unwrap();
        assert_eq!(end.exit_code, Some(143), "{backend:?}");
    }
}

// REQ SP-0
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_programs_run_at_once_in_one_sandbox_each_with_its_own_streams() {
    let rig = Rig::start().await;
    rig.assert_native();
    let manager = rig.engine.manager();
    for choice in [BackendChoice::None, BackendChoice::Native] {
        let id = format!("many-{choice:?}");
        let spec = ValidSpec::terminal(&TerminalRequest::plain(&id, "w", rig.work())).unwrap();
        let mut events = manager.subscribe();
        let request = SandboxRequest {
            spec,
            choice: Some(choice),
            client: ClientDefault::Terminal,
            bridge: crate::backend::BridgeChoice::Auto,
        };
        let handle = manager.launch(request).await.unwrap();
        assert_eq!((handle.error, handle.state), (None, SandboxState::Warm));
        let mut expected = BTreeMap::new();
        let mut execs = Vec::new();
        for number in 0..20 {
            let exec = manager.exec(
                &id,
                ExecRequest {
                    argv: ["sh", "-c", "echo out $N; echo err $N >&2; exit $N"]
                        .map(Into::into)
                        .to_vec(),
                    cwd: None,
                    env: vec![("N".into(), number.to_string().into())],
                    stdio: ExecStdio::Pipes,
                },
            );
            let exec = exec.await.unwrap();
            expected.insert(
                exec.id(),
                (format!("out {number}\n"), format!("err {number}\n"), number),
            );
            execs.push(exec);
        }
        for exec in &execs {
            let end = exec.wait().await;
            assert_eq!(end.exit_code, expected[&exec.id()].2);
        }
        assert_eq!(manager.handle(&id).unwrap().state, SandboxState::Warm);
        let mut found: BTreeMap<u64, (String, String, i32)> = BTreeMap::new();
        while found != expected {
            let Some(Received::Event((session, event))) = events.next().await else {
                panic!("events were lost")
            };
            if session != id {
                continue;
            }
            match event {
                SandboxEvent::Stdout { exec_id, data } => {
                    found
                        .entry(exec_id)
                        .or_default()
                        .0
                        .push_str(&String::from_utf8(data).unwrap());
                }
                SandboxEvent::Stderr { exec_id, data } => {
                    found
                        .entry(exec_id)
                        .or_default()
                        .1
                        .push_str(&String::from_utf8(data).unwrap());
                }
                SandboxEvent::Exit {
                    exec_id, exit_code, ..
                } => {
                    found.entry(exec_id).or_default().2 = exit_code;
                }
                SandboxEvent::Starting | SandboxEvent::Ready => {}
                SandboxEvent::Killed { .. }
                | SandboxEvent::Violation(_)
                | SandboxEvent::MoreViolations { .. } => panic!("{event:?}"),
            }
        }
        manager.destroy(&id).await.unwrap();
        assert_eq!(manager.handle(&id), None);
    }
}

// Launch case: a thread that launched a session ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_outlives_the_thread_that_launched_it() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let request = rig.request(backend, "cat");
        let engine = rig.engine.clone();
        let runtime = tokio::runtime::Handle::current();
        let thread = std::thread::spawn(move || runtime.block_on(engine.launch(request)).unwrap());
        let info = tokio::task::spawn_blocking(move || thread.join().unwrap())
            .await
            .unwrap();
        rig.engine
            .write_input(&info.id, b"alive\n\x04")
            .await
            .unwrap();
        let (text, end) = rig.read_to_end(&info.id).await;
        assert_eq!(
            (text.as_str(), end.exit_code),
            ("alive\r\nalive\r\n", Some(0)),
            "{backend:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_engine_is_dropped_every_tree_is_gone() {
    let rig = Rig::start().await;
    let mut markers = Vec::new();
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let marker = marker();
        let line = rig.script(
            &marker,
            &format!("setsid sleep {marker} & trap '' HUP TERM; sleep {marker}"),
        );
        rig.launch(backend, &line).await;
        eventually("both sleep", || sleepers(&marker).len() == 2).await;
        markers.push(marker);
    }
    drop(rig);
    for marker in markers {
        eventually("nothing is left", || sleepers(&marker).is_empty()).await;
    }
}

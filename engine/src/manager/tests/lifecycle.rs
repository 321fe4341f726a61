//! Suspend, resume, close, restart, and that nothing is left.

use super::{Rig, alone, eventually, marker, sleepers};
use crate::api::{SessionPhase, UiEvent};
use crate::backend::BackendChoice;
use crate::manager::{ExecRequest, ExecStdio, SandboxPort, SandboxState};
use std::path::Path;
use std::time::Duration;

fn counter(path: &Path) -> u64 {
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().last()?.parse().ok())
        .unwrap_or(0)
}

// After the list was looked at by a shutdown, nobody would end a session that is added.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closing_engine_takes_no_session_into_its_list() {
    let rig = Rig::start().await;
    let info = rig.launch(BackendChoice::None, "true").await;
    rig.engine.wait(&info.id).await.unwrap();
    let session = || crate::manager::session::Session::new(info.clone());
    let done = session();
    done.set_done();
    assert!(rig.engine.0.add(done));
    rig.engine.shutdown().await;
    assert!(!rig.engine.0.add(session()));
}

async fn a_counter_stands_still_while_suspended(rig: &Rig, backend: BackendChoice) {
    let file = rig.work().join(format!("counter-{backend:?}"));
    let marker = marker();
    let line = rig.script(
        "count.sh",
        &format!(
            "setsid sleep {marker} &\ni=0\nwhile :; do i=$((i+1)); echo $i >> '{}'; done",
            file.display()
        ),
    );
    let info = rig.launch(backend, &line).await;
    eventually("it counts", || counter(&file) > 3).await;
    let suspended = rig.engine.suspend(&info.id).await.unwrap();
    assert_eq!(
        (suspended.phase, suspended.handle.state),
        (SessionPhase::Suspended, SandboxState::Suspended)
    );
    let stopped_at = std::fs::read(&file).unwrap().len();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(std::fs::read(&file).unwrap().len(), stopped_at);
    }
    let exec = ExecRequest {
        argv: vec!["true".into()],
        cwd: None,
        env: Vec::new(),
        stdio: ExecStdio::Pipes,
    };
    let refused = rig.engine.manager().exec(&info.id, exec).await.unwrap_err();
    assert_eq!(refused.code, "SESSION_SUSPENDED");
    assert_eq!(
        rig.engine.suspend(&info.id).await.unwrap_err().code,
        "SESSION_SUSPENDED"
    );
    let resumed = rig.engine.resume(&info.id).await.unwrap();
    assert_eq!(
        (resumed.phase, resumed.handle.state),
        (SessionPhase::Running, SandboxState::Active)
    );
    assert_eq!(
        rig.engine.resume(&info.id).await.unwrap_err().code,
        "SESSION_NOT_SUSPENDED"
    );
    eventually("it counts again", || {
        std::fs::read(&file).unwrap().len() > stopped_at
    })
    .await;
    // Closed while suspended: frozen processes die too.
    rig.engine.suspend(&info.id).await.unwrap();
    rig.engine.close(&info.id).await.unwrap();
    assert_eq!(sleepers(&marker), Vec::<i32>::new());
    assert_eq!(
        rig.engine.session(&info.id).unwrap().phase,
        SessionPhase::Ended
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_without_a_sandbox_stands_still_while_suspended() {
    let rig = Rig::start().await;
    a_counter_stands_still_while_suspended(&rig, BackendChoice::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_in_the_native_sandbox_stands_still_while_suspended() {
    let rig = Rig::start().await;
    a_counter_stands_still_while_suspended(&rig, BackendChoice::Native).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cgroup_the_guard_freezes() {
    if !alone("manager::tests::lifecycle::without_a_cgroup_the_guard_freezes") {
        return;
    }
    crate::process::forbid_cgroups_for_test();
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let info = rig.launch(backend, "cat").await;
        assert_eq!(info.handle.details["freezer"], "guard");
        rig.engine.close(&info.id).await.unwrap();
        a_counter_stands_still_while_suspended(&rig, backend).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_session_ends_daemons_that_ignore_signals() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let marker = marker();
        let line = rig.script("daemons.sh", &format!(
            "trap '' HUP TERM INT\nsetsid sh -c 'sleep {marker} & sleep {marker} &'\n(setsid sleep {marker} &)\nsleep {marker}\n"
        ));
        let info = rig.launch(backend, &line).await;
        eventually("all four sleep", || sleepers(&marker).len() == 4).await;
        let commands = rig.engine.processes(&info.id).await.unwrap();
        let sleeping = commands
            .iter()
            .filter(|process| process.command == format!("sleep {marker}"))
            .count();
        assert_eq!(sleeping, 4, "{commands:?}");
        rig.engine.close(&info.id).await.unwrap();
        assert_eq!(sleepers(&marker), Vec::<i32>::new(), "{backend:?}");
        let ended = rig.engine.session(&info.id).unwrap();
        assert_eq!(
            (ended.phase, ended.handle.state),
            (SessionPhase::Ended, SandboxState::Destroyed)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_is_killed_makes_an_error_and_leaves_nothing_in_the_sandbox() {
    let rig = Rig::start().await;
    rig.assert_native();
    let marker = marker();
    let info = rig
        .launch(BackendChoice::Native, &format!("sleep {marker}"))
        .await;
    eventually("it sleeps", || sleepers(&marker).len() == 1).await;
    let runner = i32::try_from(info.handle.details["pid"].as_i64().unwrap()).unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(runner),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    let ended = rig.engine.wait(&info.id).await.unwrap();
    assert_eq!(
        (ended.phase, ended.handle.backend),
        (SessionPhase::Error, None)
    );
    assert_eq!(ended.handle.error.unwrap().code, "SANDBOX_LOST");
    eventually("nothing is left", || sleepers(&marker).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_sees_each_change_and_a_restart_takes_the_old_session_away() {
    let rig = Rig::start().await;
    let mut stream = rig.engine.subscribe();
    let info = rig.launch(BackendChoice::None, "cat").await;
    assert_eq!(
        rig.engine.dismiss(&info.id).await.unwrap_err().code,
        "SESSION_RUNNING"
    );
    rig.engine.resize(&info.id, 100, 30).unwrap();
    let fresh = rig.engine.restart(&info.id).await.unwrap();
    assert_ne!(fresh.id, info.id);
    assert_eq!((fresh.request.cols, fresh.request.rows), (100, 30));
    assert_eq!(rig.engine.session(&info.id), None);
    let (mut gone, mut running) = (false, false);
    while !(gone && running) {
        let batch = stream.next_batch().await.unwrap();
        assert!(!batch.is_empty());
        for event in batch {
            match event {
                UiEvent::SessionGone { id } => gone |= id == info.id,
                UiEvent::Session { session } => {
                    running |= session.id == fresh.id && session.phase == SessionPhase::Running;
                }
                _ => {}
            }
        }
    }
    rig.engine.shutdown().await;
    assert_eq!(
        rig.engine.session(&fresh.id).unwrap().phase,
        SessionPhase::Ended
    );
    let history = rig.engine.history(10).unwrap();
    assert_eq!(history.len(), 2);
    assert!(
        history.iter().all(|row| row.ended_at_ms.is_some()),
        "{history:?}"
    );
    let refused = rig
        .engine
        .launch(rig.request(BackendChoice::None, "true"))
        .await
        .unwrap_err();
    assert_eq!(refused.code, "SHUTTING_DOWN");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of this process, zombies too.
fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1).map(str::to_owned));
        if parent.as_deref() == Some(own.as_str()) {
            found.push(stat);
        }
    }
    found
}

/// Masters that this process holds; a terminal lives as long as its master.
fn terminals() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link.ends_with("ptmx")))
        .count()
}

fn cgroups() -> Vec<std::path::PathBuf> {
    let own = format!("kotak-{}-", std::process::id());
    let groups = std::fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    let unified = std::fs::read_dir("/sys/fs/cgroup/unified")
        .into_iter()
        .flatten()
        .flatten();
    groups
        .chain(unified)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&own))
        .map(|entry| entry.path())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sessions_opened_and_closed_leave_no_process_descriptor_or_terminal() {
    if !alone(
        "manager::tests::lifecycle::fifty_sessions_opened_and_closed_leave_no_process_descriptor_or_terminal",
    ) {
        return;
    }
    let rig = Rig::start().await;
    rig.assert_native();
    let open_and_close = async |count: usize| {
        let mut open = Vec::new();
        for number in 0..count {
            let backend = if number % 2 == 0 {
                BackendChoice::None
            } else {
                BackendChoice::Native
            };
            open.push(rig.launch(backend, "sh -c 'sleep 1000 & cat'").await.id);
        }
        assert_eq!(terminals(), count);
        for id in open {
            rig.engine.close(&id).await.unwrap();
            rig.engine.dismiss(&id).await.unwrap();
        }
    };
    // The first round opens what stays open for good: the guard's image, the spawner's queue.
    open_and_close(2).await;
    let descriptors_before = descriptors();
    assert_eq!(children(), Vec::<String>::new());
    open_and_close(50).await;
    eventually("as many descriptors as before", || {
        descriptors() == descriptors_before
    })
    .await;
    eventually("no child", || children().is_empty()).await;
    assert_eq!(terminals(), 0);
    assert_eq!(cgroups(), Vec::<std::path::PathBuf>::new());
}

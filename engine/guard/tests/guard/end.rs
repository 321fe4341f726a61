//! Nobody survives: end of the engine, shutdown, a stalled engine, signals to the watcher.

use crate::harness::{
    BINARY, Guard, Place, User, carriers, eventually, host_setup, marker, places, shared_directory,
    users,
};
use kotak_guard::{
    proto::{Event, ExecStage, ExitStatus, Request},
    wire::encode,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, io::Write, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// A daemon after the book: two forks, a session of its own, deaf to every polite signal.
fn start_daemon(guard: &mut Guard, marker: &str) {
    let script = format!(
        r#"(trap "" HUP INT TERM QUIT USR1; setsid sh -c '
               trap "" HUP INT TERM QUIT USR1
               while :; do sleep 0.05; done' {marker} </dev/null >/dev/null 2>&1 &)"#
    );
    assert_eq!(guard.sh(&script).status, ExitStatus::Code(0));
    eventually("the daemon runs", || carriers(marker) > 0);
}

#[test]
fn daemons_are_gone_when_the_engine_is() {
    for place in places() {
        let marker = marker();
        let mut guard = Guard::start(&place);
        start_daemon(&mut guard, &marker);
        start_daemon(&mut guard, &marker);
        guard.exec_silent(&["sh", "-c", "sleep 1000", &marker]);
        guard.hang_up();
        assert_eq!(carriers(&marker), 0, "{place:?}");
    }
}

#[test]
fn daemons_are_gone_after_a_shutdown_that_says_bye() {
    for place in places() {
        let marker = marker();
        let mut guard = Guard::start(&place);
        start_daemon(&mut guard, &marker);
        guard.send(&Request::Shutdown { grace_ms: 50 }, &[]);
        guard.expect(|event| matches!(event, Event::Bye).then_some(()));
        // Bye is said when nobody is left, not before.
        assert_eq!(carriers(&marker), 0, "{place:?}");
        assert!(guard.receive().is_none());
        assert!(guard.wait().success());
    }
}

#[test]
fn a_shutdown_is_polite_first_and_takes_no_longer_than_needed() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let script = "trap '' HUP; trap 'exit 9' TERM; echo armed; while :; do sleep 0.01; done";
        let (id, output) = guard.exec_reading(&["sh", "-c", script]);
        let mut first = [0; 6];
        std::io::Read::read_exact(&mut &output, &mut first).unwrap();
        // The grace is longer than any test waits: the end comes because nobody is left.
        guard.send(&Request::Shutdown { grace_ms: u32::MAX }, &[]);
        assert_eq!(guard.exited(id), ExitStatus::Code(9));
        guard.expect(|event| matches!(event, Event::Bye).then_some(()));
    }
}

#[test]
fn nothing_starts_while_a_shutdown_waits() {
    for place in places() {
        let mut guard = Guard::start(&place);
        start_daemon(&mut guard, &marker());
        guard.send(&Request::Shutdown { grace_ms: u32::MAX }, &[]);
        let late = guard.exec_silent(&["true"]);
        assert_eq!(guard.failed(late), (ExecStage::Fork, libc::ESHUTDOWN));
        // The engine may still go before the grace is over.
        guard.hang_up();
    }
}

#[test]
fn a_shutdown_of_a_frozen_session_ends_it() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let id = guard.exec_silent(&["sleep", "1000"]);
        guard.started(id);
        guard.send(&Request::Freeze, &[]);
        guard.expect(|event| matches!(event, Event::Frozen { .. }).then_some(()));
        guard.send(&Request::Shutdown { grace_ms: u32::MAX }, &[]);
        assert_eq!(guard.exited(id), ExitStatus::Signal(libc::SIGHUP));
        guard.expect(|event| matches!(event, Event::Bye).then_some(()));
    }
}

#[test]
fn a_frozen_session_is_gone_when_the_engine_is() {
    for place in places() {
        let marker = marker();
        let mut guard = Guard::start(&place);
        start_daemon(&mut guard, &marker);
        guard.send(&Request::Freeze, &[]);
        guard.expect(|event| matches!(event, Event::Frozen { .. }).then_some(()));
        assert!(carriers(&marker) > 0);
        guard.hang_up();
        assert_eq!(carriers(&marker), 0, "{place:?}");
    }
}

#[test]
fn a_fork_loop_is_gone_when_the_engine_is() {
    for place in places() {
        let marker = marker();
        let mut guard = Guard::start(&place);
        // A handful of chains, each link forking the next and leaving.
        let script = r#"n() { sh -c "$0" "$0" "$1" & }; n "$@""#;
        let chain = format!(r#"sh -c '{script}' '{script}' {marker}"#);
        for _ in 0..3 {
            guard.exec_silent(&["sh", "-c", &chain]);
        }
        eventually("the chains run", || carriers(&marker) > 0);
        guard.hang_up();
        assert_eq!(carriers(&marker), 0, "{place:?}");
    }
}

#[test]
fn the_watcher_outlives_the_signals_of_a_terminal_and_a_service_manager() {
    let mut guard = Guard::start(&Place::Host);
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGUSR1,
        Signal::SIGTSTP,
    ] {
        kill(Pid::from_raw(guard.pid()), signal).unwrap();
    }
    assert_eq!(guard.sh("exit 8").status, ExitStatus::Code(8));
    // It leads a session of its own, so no terminal signals it.
    let stat = fs::read_to_string(format!("/proc/{}/stat", guard.pid())).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_ascii_whitespace()
        .collect();
    assert_eq!(fields[3], guard.pid().to_string());
}

#[test]
fn the_programs_of_a_killed_watcher_do_not_outlive_it() {
    let mut guard = Guard::start(&Place::Host);
    let id = guard.exec_silent(&["sleep", "1000"]);
    let (sleeper, _) = guard.started(id);
    kill(Pid::from_raw(guard.pid()), Signal::SIGKILL).unwrap();
    drop(guard);
    eventually("the program is gone", || {
        match fs::read_to_string(format!("/proc/{sleeper}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        }
    });
}

#[test]
fn an_engine_that_does_not_read_keeps_nobody_unreaped() {
    let mut guard = Guard::start(&Place::Host);
    let id = guard.exec_silent(&["sleep", "1000"]);
    let (sleeper, _) = guard.started(id);
    let socket = guard.socket.as_ref().unwrap();
    socket.set_nonblocking(true).unwrap();
    // Ask until nothing more fits; no answer is read.
    let request = encode(&Request::Processes { token: 1 }).unwrap();
    let mut writer = socket;
    while writer.write_all(&request).is_ok() {}
    kill(Pid::from_raw(sleeper), Signal::SIGKILL).unwrap();
    eventually("the dead is reaped", || {
        !Path::new(&format!("/proc/{sleeper}")).exists()
    });
    guard.hang_up();
}

#[test]
fn processes_of_another_user_that_survive_a_shutdown_are_counted() {
    if !users().contains(&User::Root) {
        // Past the test harness, which keeps what passing tests print: the runner counts it.
        let reason = "only root can make a guard of one user and a program of another";
        writeln!(std::io::stdout(), "\nkotak-skip: {reason}").unwrap();
        return;
    }
    let directory = shared_directory();
    let copy = |from: &str, name: &str, mode: u32| {
        let path = directory.join(name);
        fs::copy(from, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let binary = copy(BINARY, "guard", 0o755);
    let become_user = copy("/usr/bin/setpriv", "become", 0o4755);
    let as_another = [&become_user, "--reuid=65533", "--", "sleep", "1003"];
    let start = || {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .args([&binary, "host", "13"]);
        let mut guard = Guard::spawn_command(command);
        guard.set_up(host_setup()).unwrap();
        guard
    };
    let survivors = |guard: &mut Guard| {
        guard.send(&Request::Shutdown { grace_ms: 0 }, &[]);
        let mut counted = 0;
        loop {
            match guard.receive() {
                Some((Event::Survivors { processes }, _)) => counted = processes,
                Some((Event::Bye, _)) => return counted,
                Some(_) => {}
                None => panic!("the guard went without a word"),
            }
        }
    };

    let mut guard = start();
    let id = guard.exec_silent(&as_another);
    let (survivor, _) = guard.started(id);
    eventually("it is another user's", || {
        let status = fs::read_to_string(format!("/proc/{survivor}/status")).unwrap();
        status.contains("Uid:\t65533\t65533")
    });
    assert_eq!(survivors(&mut guard), 1);
    kill(Pid::from_raw(survivor), Signal::SIGKILL).unwrap();

    // The control: of the guard's own user nobody survives, and none is counted.
    let mut guard = start();
    let id = guard.exec_silent(&["sleep", "1003"]);
    guard.started(id);
    assert_eq!(survivors(&mut guard), 0);
    fs::remove_dir_all(directory).unwrap();
}

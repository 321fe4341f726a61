//! A signal while a sandbox is being built: nothing runs, and nothing is left.

use crate::in_own_mounts;
use kotak_tests::Kotak;
use kotak_tests::stage::Stage;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// bubblewrap for the probe's trial; for the launch after it something that never gets ready, with
/// a child that ignores signals.
const SLOW: &str = r#"#!/bin/bash
[ "$1" = --version ] && exec REAL "$@"
if mkdir "HOME/probed" 2>/dev/null; then exec REAL "$@"; fi
(trap "" HUP INT TERM; exec -a MARKER sleep 100000) &
touch "HOME/building"
exec -a MARKER sleep 100000
"#;

/// Host processes whose command line contains `marker`.
pub(crate) fn survivors(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) && pid != own {
            found.push(format!("{pid} {line}"));
        }
    }
    found
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not reached in a minute: {what}");
}

/// Puts `script` in the place of bubblewrap; the real one is where the script says REAL.
fn replace_bwrap(stage: &Stage, script: &str, marker: &str) {
    let home = stage.home().display().to_string();
    let real = stage.home().join("real-bwrap");
    std::fs::copy("/usr/bin/bwrap", &real).expect("a copy");
    let script = script
        .replace("REAL", &real.display().to_string())
        .replace("HOME", &home)
        .replace("MARKER", marker);
    stage.write("slow-bwrap", &script);
    let line =
        format!("chmod 755 {home}/slow-bwrap && mount --bind {home}/slow-bwrap /usr/bin/bwrap");
    let status = Command::new("sh").args(["-c", &line]).status();
    assert!(status.is_ok_and(|status| status.success()), "`{line}`");
}

/// What Kotak's directories hold: names alone, since the log and the database grow.
fn own_files(stage: &Stage) -> Vec<String> {
    let state = stage.home().join(".local/state/kotak");
    let list = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.path().display().to_string())
            // SQLite's own, made and removed as its file is opened and closed.
            .filter(|name| !name.ends_with("-shm") && !name.ends_with("-wal"))
            .collect();
        names.sort();
        names
    };
    [list(&state), list(&state.join("run"))].concat()
}

/// Runs in a terminal of its own; what is typed into it comes from the pipe.
const IN_A_TERMINAL: &str = "
import os, pty, select, sys
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
print(pid, flush=True)
typed = True
while True:
    ready = select.select([master] + [0] * typed, [], [])[0]
    if 0 in ready:
        data = os.read(0, 100)
        typed = bool(data)
        os.write(master, data)
    if master in ready:
        try:
            if not os.read(master, 65536): break
        except OSError:
            break
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// How the command is called, and how it is then asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// By a signal.
    Signal(Signal),
    /// By the interrupt key of its terminal.
    Key,
}

/// Starts the command; its process id, and the child to wait for.
fn start(stage: &Stage, interactive: bool) -> (Pid, Child) {
    if !interactive {
        let call = stage.kotak().args(["run", "--backend", "native"]);
        let call = call.args([
            "--profile",
            "terminal",
            "--",
            "/usr/bin/touch",
            "payload-ran",
        ]);
        let child = call.command().spawn().expect("kotak");
        return (Pid::from_raw(child.id().try_into().expect("a pid")), child);
    }
    let call: Kotak = stage.kotak().env("SHELL", "/bin/sh");
    let mut child = call
        .behind(["/usr/bin/python3", "-c", IN_A_TERMINAL])
        .args(["shell", "--backend", "native"])
        .command()
        .stderr(Stdio::inherit())
        .spawn()
        .expect("python3");
    let mut pid = Vec::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    while pid.last() != Some(&b'\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("a process id");
        pid.push(byte[0]);
    }
    let text = String::from_utf8(pid).expect("digits");
    (Pid::from_raw(text.trim().parse().expect("a pid")), child)
}

#[test]
fn a_signal_during_a_launch_ends_it_and_leaves_nothing() {
    if !in_own_mounts("interrupted::a_signal_during_a_launch_ends_it_and_leaves_nothing") {
        return;
    }
    let stage = Stage::adopted();
    // The control: the same calls run when nobody interrupts them; and what a run leaves by right.
    let (_, mut control) = start(&stage, false);
    assert!(
        control.wait().expect("an end").success(),
        "the control failed"
    );
    let ran = stage.work().join("payload-ran");
    std::fs::remove_file(&ran).expect("the control failed: it ran nothing");
    let marker = format!("kotak-building-{}", std::process::id());
    replace_bwrap(&stage, SLOW, &marker);
    let (files, before) = (own_files(&stage), stage.inventory());
    for interactive in [false, true] {
        for (ask, code) in [
            (Ask::Signal(Signal::SIGTERM), 143),
            (Ask::Signal(Signal::SIGHUP), 129),
            (Ask::Signal(Signal::SIGINT), 130),
            (Ask::Key, 130),
        ] {
            if ask == Ask::Key && !interactive {
                continue;
            }
            let (pid, mut child) = start(&stage, interactive);
            let building = stage.home().join("building");
            until("a launch is on its way", || building.exists());
            until("the control: it runs", || !survivors(&marker).is_empty());
            match ask {
                Ask::Signal(signal) => kill(pid, signal).expect("a signal"),
                Ask::Key => {
                    let stdin = child.stdin.as_mut().expect("a pipe");
                    stdin.write_all(b"\x03").expect("a key");
                }
            }
            let end = child.wait().expect("an end").code();
            assert_eq!(end, Some(code), "{ask:?}, interactive: {interactive}");
            until("nothing runs", || survivors(&marker).is_empty());
            assert!(!ran.exists(), "the payload ran");
            for made in ["building", "probed"] {
                let path = stage.home().join(made);
                let _absent = std::fs::remove_file(&path);
                let _absent = std::fs::remove_dir(&path);
            }
            assert_eq!(own_files(&stage), files, "{ask:?}");
            assert_eq!(stage.inventory(), before, "{ask:?}");
        }
    }
}

/// Like it, for the probe's trial itself.
const SLOW_TRIAL: &str = r#"#!/bin/bash
[ "$1" = --version ] && exec REAL "$@"
touch "HOME/building"
exec -a MARKER sleep 2
"#;

#[test]
fn a_signal_during_the_probe_leaves_nothing() {
    if !in_own_mounts("interrupted::a_signal_during_the_probe_leaves_nothing") {
        return;
    }
    let stage = Stage::adopted();
    let (_, mut control) = start(&stage, false);
    assert!(
        control.wait().expect("an end").success(),
        "the control failed"
    );
    std::fs::remove_file(stage.work().join("payload-ran")).expect("it ran");
    let marker = format!("kotak-probing-{}", std::process::id());
    replace_bwrap(&stage, SLOW_TRIAL, &marker);
    let (files, before) = (own_files(&stage), stage.inventory());
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let (pid, mut child) = start(&stage, false);
        let building = stage.home().join("building");
        until("the trial is on its way", || building.exists());
        kill(pid, signal).expect("a signal");
        let end = child.wait().expect("an end").code();
        assert_eq!(end, Some(128 + signal as i32));
        until("nothing runs", || survivors(&marker).is_empty());
        std::fs::remove_file(&building).expect("removal");
        assert_eq!(own_files(&stage), files, "{signal}");
        assert_eq!(stage.inventory(), before, "{signal}");
    }
}

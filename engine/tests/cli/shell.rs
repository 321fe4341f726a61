//! `kotak shell`, and `kotak run` in a terminal: a real PTY in the test.

use super::*;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything in these tests may take before it counts as hung.
const HUNG: Duration = Duration::from_secs(120);

/// A person at a terminal.
pub(super) struct Person {
    master: File,
    slave: std::os::fd::OwnedFd,
    child: Child,
    seen: String,
    output: Receiver<Vec<u8>>,
    before: Termios,
}

impl Person {
    pub(super) fn starts(desk: &Desk, args: &[&str], set: &[(&str, &str)]) -> Self {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let before = tcgetattr(&slave).unwrap();
        // `setsid --ctty` makes the PTY the controlling terminal and becomes kotak.
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_kotak")]);
        let mut command = desk.prepare(command, args);
        command
            .env("SHELL", "/bin/sh")
            .env("PS1", "ready> ")
            .env("TERM", "xterm")
            .envs(set.iter().copied())
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            master,
            slave,
            child,
            seen: String::new(),
            output,
            before,
        }
    }

    pub(super) fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text is seen after everything that was waited for before.
    #[track_caller]
    pub(super) fn sees(&mut self, text: &str) {
        let began = Instant::now();
        while !self.seen.contains(text) {
            assert!(began.elapsed() < HUNG, "{text:?} is not in {:?}", self.seen);
            // Asked before reading: what an ended kotak wrote is all there by then.
            let over = self.child.try_wait().unwrap().is_some();
            match self.output.recv_timeout(Duration::from_millis(200)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => assert!(!over, "kotak ended, and {text:?} is not in {:?}", self.seen),
            }
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }

    /// Whether the text comes within a time.
    pub(super) fn has_seen(&mut self, text: &str, within: Duration) -> bool {
        let began = Instant::now();
        while !self.seen.contains(text) {
            let left = within.saturating_sub(began.elapsed());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => return false,
            }
        }
        true
    }

    /// What is shown up to the last of these texts, waited for in order.
    #[track_caller]
    pub(super) fn page(&mut self, texts: &[&str]) -> String {
        let mut page = String::new();
        for text in texts {
            assert!(
                self.has_seen(text, HUNG),
                "{text:?} is not in {:?}",
                self.seen
            );
            let end = self.seen.find(text).unwrap() + text.len();
            page.extend(self.seen.drain(..end));
        }
        page
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave)
            .unwrap()
            .local_flags
            .contains(LocalFlags::ICANON)
    }

    /// The exit code; the terminal must be as it was.
    #[track_caller]
    pub(super) fn ends(mut self) -> Option<i32> {
        let began = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
            assert!(began.elapsed() < HUNG, "kotak does not end");
        };
        assert_eq!(
            tcgetattr(&self.slave).unwrap(),
            self.before,
            "the terminal's modes are back"
        );
        status.code()
    }

    fn signals(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn resizes(&self, rows: u16, cols: u16) {
        // stty sets the size on the terminal itself, as a window does.
        let status = Command::new("stty")
            .args(["rows", &rows.to_string(), "cols", &cols.to_string()])
            .stdin(self.slave.try_clone().unwrap())
            .status()
            .unwrap();
        assert!(status.success());
    }
}

// REQ TM-2, BK-7, UI-2
#[test]
fn a_shell_is_typed_into_resized_and_left_with_its_exit_code() {
    let desk = Desk::new();
    let mut person = Person::starts(&desk, &["shell", "--backend", "native"], &[]);
    person.sees("kotak: native · namespaces, no kernel boundary · network open");
    person.types("echo begin$((1 + 1))\r");
    person.sees("begin2");
    assert!(person.is_raw());
    person.types("stty size\r");
    person.sees("24 80");
    person.resizes(40, 132);
    person.types("sleep 0.3; stty size\r");
    person.sees("40 132");
    // Ctrl-C reaches the program, not the shell.
    person.types(
        "sh -c 'trap \"echo caught; exit 3\" INT; echo arm$((1 + 1)); while :; do sleep 0.05; done'\r",
    );
    person.sees("arm2");
    person.types("\u{3}");
    person.sees("caught");
    person.types("echo code$?\r");
    person.sees("code3");
    person.types("exit 7\r");
    assert_eq!(person.ends(), Some(7));
}

#[test]
fn the_terminal_is_as_before_when_kotak_is_ended_from_outside() {
    let desk = Desk::new();
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let mut person = Person::starts(&desk, &["shell", "--backend", "none"], &[]);
        person.sees("kotak: none · not sandboxed");
        person.types("echo up$((1 + 1))\r");
        person.sees("up2");
        assert!(person.is_raw());
        person.signals(signal);
        assert_eq!(person.ends(), Some(code));
    }
}

#[test]
fn a_shell_that_does_not_exist_is_refused() {
    let desk = Desk::new();
    let mut person = Person::starts(&desk, &["shell"], &[("SHELL", "/nowhere/zsh")]);
    person.sees("[SHELL_NOT_FOUND]");
    assert_eq!(person.ends(), Some(127));
}

#[test]
fn a_working_directory_that_is_missing_or_relative_is_refused() {
    let desk = Desk::new();
    for (cwd, code) in [
        ("/nowhere/here", "[WORKDIR_MISSING]"),
        ("project", "[SPEC_PATH_INVALID]"),
    ] {
        let mut person =
            Person::starts(&desk, &["shell", "--backend", "native", "--cwd", cwd], &[]);
        person.sees(code);
        assert_eq!(person.ends(), Some(2));
    }
}

#[test]
fn a_run_with_three_terminals_gets_one_of_its_own() {
    let desk = Desk::new();
    let script = "stty size; tty; exit 5";
    let args = ["run", "--backend", "native", "--", "sh", "-c", script];
    let mut person = Person::starts(&desk, &args, &[]);
    person.sees("24 80");
    person.sees("/dev/pts/");
    assert_eq!(person.ends(), Some(5));
}

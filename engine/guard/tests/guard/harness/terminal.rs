//! The engine's end of a terminal.
#![expect(unsafe_code, reason = "one ioctl")]

use super::{
    guard::{Guard, Program},
    wait_readable,
};
use kotak_guard::proto::Stdio;
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// The engine's end of a terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: File,
    seen: String,
}

impl Terminal {
    pub(crate) fn new(master: OwnedFd) -> Self {
        Self {
            master: File::from(master),
            seen: String::new(),
        }
    }

    /// Opens a PTY in the guard and runs a program on it.
    pub(crate) fn open(guard: &mut Guard, argv: &[&str]) -> (u64, Self) {
        let stdio = Stdio::Pty { cols: 80, rows: 24 };
        let env = [
            ("TERM", "dumb"),
            ("PS1", "ready> "),
            ("HISTFILE", "/dev/null"),
        ];
        let program = Program {
            stdio,
            env: &env,
            ..Program::new(argv)
        };
        let id = guard.exec(program, &[]);
        let (_, mut descriptors) = guard.started(id);
        (id, Self::new(descriptors.pop().unwrap()))
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until `text` has come, and gives all up to and with it.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            wait_readable(self.master.as_fd(), "the terminal is silent");
            let mut buffer = [0; 4096];
            let count = match self.master.read(&mut buffer) {
                Ok(count) => count,
                Err(error) => panic!("{error} after {:?} without {text:?}", self.seen),
            };
            self.seen
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: TIOCSWINSZ reads one winsize.
        let result =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0);
    }
}

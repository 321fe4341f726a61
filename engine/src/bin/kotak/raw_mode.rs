//! The user's terminal in raw mode, and its certain way back.

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// What has to be put back. One terminal per process, so one place, which the panic hook finds.
static SAVED: Mutex<Option<Saved>> = Mutex::new(None);

struct Saved {
    terminal: OwnedFd,
    modes: Termios,
}

/// The terminal's modes as they were; put back when this is dropped, and when anything panics.
#[derive(Debug)]
pub(crate) struct RawMode(());

impl RawMode {
    /// Remembers the modes of the terminal on standard input, and leaves them.
    pub(crate) fn remember() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let modes = tcgetattr(&terminal)?;
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Saved { terminal, modes });
        Ok(Self(()))
    }

    /// Every key goes to the session as it is.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(saved) = saved.as_ref() {
            let mut modes = saved.modes.clone();
            cfmakeraw(&mut modes);
            tcsetattr(&saved.terminal, SetArg::TCSADRAIN, &modes)?;
        }
        Ok(())
    }

    /// Puts the modes back, for as long as the process is stopped.
    pub(crate) fn leave(&self) {
        restore();
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn restore() {
    // Not waited for: the panic may have come while it was held.
    let Ok(saved) = SAVED.try_lock() else { return };
    if let Some(saved) = saved.as_ref() {
        // A terminal that is gone needs no modes.
        let _restored = tcsetattr(&saved.terminal, SetArg::TCSANOW, &saved.modes);
    }
}

/// Puts the modes back before a panic writes its message.
pub(crate) fn restore_on_panic() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        earlier(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::openpty;
    use std::process::{Command, Stdio};

    const ROLE: &str = "KOTAK_RAW_MODE_TEST_ROLE";

    /// Whether a process that enters raw mode and ends by `role` leaves the modes as they were.
    fn puts_back(role: &str) -> bool {
        let terminal = openpty(None, None).unwrap();
        let before = tcgetattr(&terminal.slave).unwrap();
        let name = "raw_mode::tests::a_panic_puts_the_modes_back_and_a_sudden_exit_does_not";
        Command::new("setsid")
            .arg("--ctty")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", name])
            .env(ROLE, role)
            .stdin(terminal.slave.try_clone().unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        tcgetattr(&terminal.slave).unwrap() == before
    }

    #[test]
    fn a_panic_puts_the_modes_back_and_a_sudden_exit_does_not() {
        if let Ok(role) = std::env::var(ROLE) {
            restore_on_panic();
            let raw = RawMode::remember().unwrap();
            raw.enter().unwrap();
            match role.as_str() {
                "drop" => drop(raw),
                "exit" => std::process::exit(0),
                _ => {
                    // Only the hook is left to do it.
                    std::mem::forget(raw);
                    panic!("a panic in raw mode");
                }
            }
            return;
        }
        assert!(puts_back("panic"));
        assert!(puts_back("drop"));
        assert!(
            !puts_back("exit"),
            "the test can see raw mode that was left on"
        );
    }
}

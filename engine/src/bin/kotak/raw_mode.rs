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

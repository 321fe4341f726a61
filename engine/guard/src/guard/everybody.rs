//! What is done to every process of the session at once.

use super::{
    processes::{Scope, members},
    sys::send_signal,
};
use nix::errno::Errno;

/// One signal to all of the session but the guard; those who are gone or forbidden are passed
/// over.
pub(crate) fn signal_everybody(scope: Scope, signal: i32) {
    match scope {
        // From PID 1, -1 is everybody else in the namespace.
        Scope::Namespace => {
            let _ = send_signal(-1, signal);
        }
        Scope::Descendants => {
            for member in members(scope) {
                let _ = member.signal(signal);
            }
        }
    }
}

/// What a round of killing met.
pub(crate) enum Killed {
    /// At least one took the signal, or there was nobody.
    SomeOrNone,
    /// Everybody left belongs to another user: how many.
    Forbidden(u32),
}

/// Passes of SIGSTOP before SIGKILL; each finds the children forked before the last.
const MOST_STOP_PASSES: u32 = 50;

/// One round against all descendants: stops first, so that nobody forks away.
pub(crate) fn kill_descendants() -> Killed {
    for _ in 0..MOST_STOP_PASSES {
        let mut stopped = 0;
        for member in members(Scope::Descendants) {
            if !member.is_halted() && member.signal(libc::SIGSTOP).is_ok() {
                stopped += 1;
            }
        }
        if stopped == 0 {
            break;
        }
    }
    let mut forbidden = 0_u32;
    let mut killed = 0;
    for member in members(Scope::Descendants)
        .iter()
        .filter(|it| !it.is_dead())
    {
        match member.signal(libc::SIGKILL) {
            Err(Errno::EPERM) => forbidden += 1,
            Ok(()) | Err(_) => killed += 1,
        }
    }
    if forbidden > 0 && killed == 0 {
        Killed::Forbidden(forbidden)
    } else {
        Killed::SomeOrNone
    }
}

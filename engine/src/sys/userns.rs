//! A user namespace on trial, in a child of its own.

#![expect(unsafe_code, reason = "unshare(2) in a forked child")]

use super::child::{ChildAnswer, answer_of_child, errno};
use std::time::Duration;

/// What became of the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespace {
    /// A user namespace was made, and a mount namespace below it by its capabilities.
    Works,
    /// The user namespace was refused: errno(3).
    Refused(i32),
    /// The user namespace was made, the mount namespace was refused: errno(3).
    Powerless(i32),
    /// The child could not be started or watched: errno(3).
    NotTried(i32),
}

/// Makes a user namespace, then a mount namespace that needs the capabilities of the first.
#[must_use]
pub fn try_user_namespace() -> UserNamespace {
    // SAFETY: `attempt` makes two system calls and an array.
    match unsafe { answer_of_child(Duration::from_secs(5), attempt) } {
        ChildAnswer::Answer([0, ..]) => UserNamespace::Works,
        ChildAnswer::Answer([stage, a, b, c, d]) => {
            let errno = i32::from_le_bytes([a, b, c, d]);
            if stage == 1 {
                UserNamespace::Refused(errno)
            } else {
                UserNamespace::Powerless(errno)
            }
        }
        ChildAnswer::Failed(errno) => UserNamespace::NotTried(errno),
        ChildAnswer::TimedOut | ChildAnswer::Died(_) => UserNamespace::NotTried(libc::ETIMEDOUT),
    }
}

/// Stage (0 when both worked) and errno.
fn attempt() -> [u8; 5] {
    let stages = [(1u8, libc::CLONE_NEWUSER), (2, libc::CLONE_NEWNS)];
    for (stage, flags) in stages {
        // SAFETY: changes only this child, which exits right after.
        if unsafe { libc::unshare(flags) } != 0 {
            let [a, b, c, d] = errno().to_le_bytes();
            return [stage, a, b, c, d];
        }
    }
    [0; 5]
}

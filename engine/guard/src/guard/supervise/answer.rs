//! How a supervised call ends.

use kotak_guard::proto::{FileAction, Rule};
use nix::errno::Errno;
use std::os::fd::OwnedFd;

/// What comes of a call that is carried out.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It returns this.
    Value(i64),
    /// It returns a new descriptor.
    Descriptor {
        /// What it stands for.
        opened: OwnedFd,
        /// At which number, where it matters.
        number: Option<u32>,
        /// Whether it closes on exec.
        cloexec: bool,
    },
    /// The kernel does it: nothing depends on the caller's memory.
    Continue,
    /// A helper thread has taken it over, and answers.
    Later,
}

impl Answer {
    /// 0, which most calls return.
    pub(super) const DONE: Self = Self::Value(0);
}

/// Why a call is not carried out.
#[derive(Debug)]
pub(crate) enum Stop {
    /// As the kernel would say.
    Errno(Errno),
    /// A rule refuses it.
    Refused(Box<Refusal>),
    /// The caller is gone.
    Gone,
}

/// What a rule refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(super) action: FileAction,
    pub(super) path: Vec<u8>,
    pub(super) other: Option<Vec<u8>>,
    pub(super) rule: Rule,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        match errno {
            // The guard's own limits, not the caller's.
            Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM => undecided(&errno.to_string()),
            other => Self::Errno(other),
        }
    }
}

/// A refusal since the guard could not find out. What it was about is added when it is told
/// ([`completed`](super::call::completed)).
pub(super) fn undecided(why: &str) -> Stop {
    refused(
        FileAction::WriteData,
        Vec::new(),
        Rule::Undecided(why.to_owned()),
    )
}

/// A refusal.
pub(super) fn refused(action: FileAction, path: Vec<u8>, rule: Rule) -> Stop {
    Stop::Refused(Box::new(Refusal {
        action,
        path,
        other: None,
        rule,
    }))
}

//! The desk: the per-user local socket by which all engines of a user share one set of questions.
//! The window's engine is its [`Host`]; the engines of `kotak` commands are its [`Guest`]s. They
//! bring their questions and live rows, and take answers. What is decided, and denied when nobody
//! answers, stays with the engine whose session asks.
//!
//! The socket lies in the run directory, which is this user's alone, has mode 0600, and both ends
//! check the other's user id (unix(7), `SO_PEERCRED`). A lock file has one owner at a time; who
//! holds it may replace a socket that was left behind.

mod error;
mod frame;
mod guest;
mod host;
mod message;

#[cfg(test)]
mod tests;

pub use error::DeskError;
pub use guest::{Guest, GuestEvent, GuestHandler};
pub use host::{DeskEvent, Host, HostListener};

use crate::api::RuleInfo;
use crate::error::Problem;
use crate::store::Dirs;
use std::path::PathBuf;

/// What came of an answer: the rule, when it lasts.
pub type Reply = Result<Option<RuleInfo>, Problem>;

fn socket_path(dirs: &Dirs) -> PathBuf {
    dirs.run.join("desk.sock")
}

fn lock_path(dirs: &Dirs) -> PathBuf {
    dirs.run.join("desk.lock")
}

/// Whether the other end is this user's.
fn is_own(stream: &tokio::net::UnixStream) -> std::io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == nix::unistd::geteuid().as_raw())
}

//! What happens to a session (REQ SP, events and violations).

mod bus;
mod violation;

pub use bus::*;
pub use violation::*;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// An event of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum SandboxEvent {
    /// Standard output of an exec with pipes (a PTY's bytes travel apart).
    Stdout {
        /// Which exec.
        #[ts(type = "number")]
        exec_id: u64,
        /// Bytes.
        data: Vec<u8>,
    },
    /// Standard error of an exec with pipes.
    Stderr {
        /// Which exec.
        #[ts(type = "number")]
        exec_id: u64,
        /// Bytes.
        data: Vec<u8>,
    },
    /// An exec ended.
    Exit {
        /// Which exec.
        #[ts(type = "number")]
        exec_id: u64,
        /// Exit code; 128 + n for signal n, as shells say it.
        exit_code: i32,
        /// The signal, when one ended it.
        signal: Option<i32>,
    },
    /// The sandbox is starting.
    Starting,
    /// The sandbox takes execs.
    Ready,
    /// The host ended it: out of memory, time-out, manual stop, guard gone.
    Killed {
        /// Why.
        reason: String,
    },
    /// The policy refused something, or several things alike.
    Violation(Box<SandboxViolation>),
    /// So many refusals came too fast to be told one by one; the history counts them.
    MoreViolations {
        /// How many.
        #[ts(type = "number")]
        count: u64,
    },
}

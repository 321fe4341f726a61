//! What happens to a session (REQ SP, events and violations).

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
    /// The policy refused something.
    Violation(SandboxViolation),
}

/// Something that the policy refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SandboxViolation {
    /// The denied verb: `file-read*`, `file-write-create`, `process-exec`, `network-outbound`, …
    pub action: String,
    /// Path or host.
    pub target: String,
    /// Raw log line.
    pub raw: Option<String>,
    /// Observed or inferred.
    pub evidence: Evidence,
}

/// Where the knowledge of a violation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Seen at the point of refusal.
    Observed,
    /// Concluded from effects.
    Inferred,
}

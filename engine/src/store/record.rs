//! Sessions as the history keeps them.

use crate::backend::{BackendChoice, SandboxBackend};
use crate::manager::SandboxState;
use crate::spec::NetworkMode;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// One session of the past or present, of this engine or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// Session id.
    pub id: String,
    /// Repository root or folder.
    pub workspace: String,
    /// Short name.
    pub title: String,
    /// Working directory.
    pub cwd: String,
    /// The program that ran, without its arguments: they may hold secrets.
    pub program: String,
    /// The backend that really ran; absent when nothing did (REQ BK-7).
    pub backend: Option<SandboxBackend>,
    /// What was asked for; absent when nothing was named.
    pub requested_backend: Option<BackendChoice>,
    /// Network as launched.
    pub network: Option<NetworkMode>,
    /// The last state known.
    pub state: SandboxState,
    /// Code of the error that ended it.
    pub error_code: Option<String>,
    /// And its message.
    pub error_message: Option<String>,
    /// Exit code of the main program.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub started_at_ms: u64,
    /// Milliseconds since the Unix epoch; absent while it runs.
    #[ts(type = "number | null")]
    pub ended_at_ms: Option<u64>,
    /// Process id of the engine that ran it.
    pub engine_pid: u32,
}

/// What a restricted session's network was launched with, so that other engines can explain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNetworkRecord {
    /// Its mode.
    pub mode: NetworkMode,
    /// The entries of its spec, in canonical form.
    pub allowlist: Vec<String>,
    /// The workspace whose rules hold.
    pub workspace: String,
}

/// A session that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStart {
    /// Session id.
    pub id: String,
    /// Repository root or folder.
    pub workspace: String,
    /// Short name.
    pub title: String,
    /// Working directory.
    pub cwd: String,
    /// The program that runs, without its arguments: they may hold secrets.
    pub program: String,
    /// What was asked for.
    pub requested_backend: Option<BackendChoice>,
    /// Network asked for.
    pub network: Option<NetworkMode>,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEnd {
    /// The last state: `destroyed` or `error`.
    pub state: SandboxState,
    /// Exit code of the main program, when it ran.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Code and message of the error.
    pub error: Option<(String, String)>,
    /// Milliseconds since the Unix epoch.
    pub ended_at_ms: u64,
}

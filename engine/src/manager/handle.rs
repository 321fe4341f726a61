//! What a launch returns.

use crate::backend::{Enforcement, SandboxBackend};
use crate::error::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use ts_rs::TS;

/// The life of a sandbox (REQ SP, SandboxState).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// The spec exists, nothing runs yet.
    Created,
    /// Running, ready to exec.
    Warm,
    /// Executing.
    Active,
    /// Frozen.
    Suspended,
    /// Torn down; the handle is no longer valid.
    Destroyed,
    /// The launch failed, or the sandbox broke.
    Error,
}

/// A launched sandbox as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SandboxHandle {
    /// Session id.
    pub session_id: String,
    /// The backend that really runs; absent while nothing runs (REQ BK-7).
    pub backend: Option<SandboxBackend>,
    /// State.
    pub state: SandboxState,
    /// Set exactly when `state` is `error`.
    pub error: Option<Problem>,
    /// What is enforced, from the launch result; absent while nothing runs and for `none`.
    pub enforcement: Option<Enforcement>,
    /// The adapter's own book-keeping: workdir, pid, argv, timings, withheld variables.
    #[ts(type = "Record<string, unknown>")]
    pub details: BTreeMap<String, serde_json::Value>,
}

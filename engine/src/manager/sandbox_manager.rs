//! `SandboxManager`: select, resolve, plan, launch.

use super::{Exec, ExecRequest, SandboxHandle, SandboxPort, SandboxRequest};
use crate::error::Problem;
use crate::events::{SandboxEvent, Subscription};
use std::sync::Arc;

/// Composes the stages, and holds every launched sandbox of this process.
#[derive(Debug, Clone)]
pub struct SandboxManager {}

impl SandboxManager {
    /// Sends a signal to the process group of one exec (its terminal's foreground group, with a
    /// PTY).
    pub async fn signal(&self, session_id: &str, exec_id: u64, signal: i32) -> Result<(), Problem> {
        unimplemented!()
    }

    /// Events of every sandbox: session id and event. Bounded; a slow reader loses the oldest and
    /// is told how many.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<(String, SandboxEvent)> {
        unimplemented!()
    }
}

impl SandboxPort for SandboxManager {
    async fn launch(&self, request: SandboxRequest) -> Result<SandboxHandle, Problem> {
        unimplemented!()
    }

    async fn exec(&self, session_id: &str, request: ExecRequest) -> Result<Arc<Exec>, Problem> {
        unimplemented!()
    }

    async fn suspend(&self, session_id: &str) -> Result<SandboxHandle, Problem> {
        unimplemented!()
    }

    async fn resume(&self, session_id: &str) -> Result<SandboxHandle, Problem> {
        unimplemented!()
    }

    async fn destroy(&self, session_id: &str) -> Result<(), Problem> {
        unimplemented!()
    }

    fn handle(&self, session_id: &str) -> Option<SandboxHandle> {
        unimplemented!()
    }
}

//! What is done to a session that runs.

use super::refused::RequestError;
use crate::api::{Program, RunningProcess, SessionInfo, SessionPhase};
use crate::error::{Coded, Problem};
use crate::manager::engine::Shared;
use crate::manager::sandbox_manager::NoSession;
use crate::manager::session::Session;
use crate::manager::{SandboxPort, SandboxState};
use crate::text::printable_start;
use std::sync::Arc;

/// Characters of a command line in the close confirmation.
const COMMAND_LIMIT: usize = 300;

impl Shared {
    pub(in crate::manager) async fn suspend(&self, id: &str) -> Result<SessionInfo, Problem> {
        let session = self.session(id)?;
        let handle = self.manager.suspend(id).await?;
        self.frozen_or_not(&session, handle.state, SessionPhase::Suspended)
    }

    pub(in crate::manager) async fn resume(&self, id: &str) -> Result<SessionInfo, Problem> {
        let session = self.session(id)?;
        let handle = self.manager.resume(id).await?;
        self.frozen_or_not(&session, handle.state, SessionPhase::Running)
    }

    fn frozen_or_not(
        &self,
        session: &Session,
        state: SandboxState,
        phase: SessionPhase,
    ) -> Result<SessionInfo, Problem> {
        let info = session.update(|info| {
            // It may have ended meanwhile, and an end is final.
            if !matches!(info.phase, SessionPhase::Ended | SessionPhase::Error) {
                info.phase = phase;
                info.handle.state = state;
            }
        });
        self.store
            .session_changed(&info.id, info.handle.backend, info.handle.state);
        self.publish(session);
        Ok(info)
    }

    pub(in crate::manager) async fn write_input(
        &self,
        id: &str,
        bytes: &[u8],
    ) -> Result<(), Problem> {
        let session = self.session(id)?;
        let terminal = Self::terminal(&session)?;
        terminal
            .write(bytes)
            .await
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::BrokenPipe => RequestError::Ended.problem(),
                _ => RequestError::Terminal("written to", error).problem(),
            })
    }

    pub(in crate::manager) fn resize(&self, id: &str, cols: u16, rows: u16) -> Result<(), Problem> {
        let session = self.session(id)?;
        let (cols, rows) = (cols.max(1), rows.max(1));
        // So that a restart begins with the size that the window has now.
        session.update(|info| {
            info.request.cols = cols;
            info.request.rows = rows;
        });
        if session.is_over() {
            return Ok(());
        }
        let terminal = Self::terminal(&session)?;
        terminal
            .resize(cols, rows)
            .map_err(|error| RequestError::Terminal("resized", error).problem())
    }

    pub(in crate::manager) fn terminal(
        session: &Session,
    ) -> Result<&Arc<crate::process::Terminal>, Problem> {
        session.terminal().ok_or_else(|| {
            if session.is_over() {
                RequestError::Ended.problem()
            } else {
                RequestError::Starting.problem()
            }
        })
    }

    /// What runs in the session besides its shell.
    pub(in crate::manager) async fn processes(
        &self,
        id: &str,
    ) -> Result<Vec<RunningProcess>, Problem> {
        let session = self.session(id)?;
        if session.is_over() {
            return Ok(Vec::new());
        }
        let shell = match session.info().request.program {
            Program::Shell => session.exec().map(|exec| exec.pid()),
            Program::Preset { .. } | Program::Command { .. } => None,
        };
        let list = self.manager.processes(id).await?;
        Ok(list
            .into_iter()
            .filter(|process| Some(process.pid) != shell && process.state != 'Z')
            .map(|process| RunningProcess {
                pid: process.pid,
                foreground: process.tpgid > 0 && process.pgid == process.tpgid,
                command: printable_start(
                    &if process.argv.is_empty() {
                        process.comm
                    } else {
                        process.argv.join(" ")
                    },
                    COMMAND_LIMIT,
                ),
            })
            .collect())
    }

    pub(in crate::manager) fn session(&self, id: &str) -> Result<Arc<Session>, Problem> {
        self.find(id)
            .ok_or_else(|| NoSession(id.to_owned()).problem())
    }
}

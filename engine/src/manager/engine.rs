//! The façade that the window and the command use.

use super::{EventStream, SandboxManager};
use crate::api::{
    FolderInfo, LaunchPreview, LaunchRequest, OutputChunk, RunningProcess, SessionInfo, Settings,
    Snapshot,
};
use crate::error::Problem;
use crate::probe::{HostReport, Switch};
use crate::store::{Dirs, SessionRecord};
use std::sync::Arc;

/// How an engine is started.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// `--sandbox on|off`.
    pub switch: Switch,
    /// Where Kotak keeps its files.
    pub dirs: Dirs,
    /// Who embeds it.
    pub role: EngineRole,
}

/// Who embeds an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineRole {
    /// The window: a terminal that names no backend gets `none`.
    Panel,
    /// The `kotak` command: nothing named asks for the best available.
    Command,
}

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A thread could not be made.
    #[error("cannot start a thread of the engine")]
    Thread(#[source] std::io::Error),
}

/// The engine of one process. Cheap to clone; every clone is the same engine. When the last one
/// is gone, every session's tree is gone too.
#[derive(Debug, Clone)]
pub struct Engine(Arc<()>);

impl Engine {
    /// Probes the host, logs the one start-up line, opens the store.
    pub async fn start(options: EngineOptions) -> Result<Engine, EngineError> {
        unimplemented!()
    }

    /// Everything a window needs to draw itself.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }

    /// Changes from now on, in batches, at most ten a second.
    #[must_use]
    pub fn subscribe(&self) -> EventStream {
        unimplemented!()
    }

    /// The probe's result.
    #[must_use]
    pub fn host(&self) -> Arc<HostReport> {
        unimplemented!()
    }

    /// Probes again; the result holds for new sessions (REQ PR-1).
    pub async fn probe_again(&self) -> Arc<HostReport> {
        unimplemented!()
    }

    /// What a launch would do.
    pub async fn preview(&self, request: &LaunchRequest) -> LaunchPreview {
        unimplemented!()
    }

    /// Launches a terminal session. `Err`: refused before anything ran. A launch that broke is
    /// `Ok` with phase `error`.
    pub async fn launch(&self, request: LaunchRequest) -> Result<SessionInfo, Problem> {
        unimplemented!()
    }

    /// Ends the session if it still runs and launches its request again under a new id.
    pub async fn restart(&self, id: &str) -> Result<SessionInfo, Problem> {
        unimplemented!()
    }

    /// The session as it stands.
    #[must_use]
    pub fn session(&self, id: &str) -> Option<SessionInfo> {
        unimplemented!()
    }

    /// Waits until the session has ended or failed.
    pub async fn wait(&self, id: &str) -> Result<SessionInfo, Problem> {
        unimplemented!()
    }

    /// Types into the terminal; waits while the program does not read.
    pub async fn write_input(&self, id: &str, bytes: &[u8]) -> Result<(), Problem> {
        unimplemented!()
    }

    /// Output from an offset on; waits up to 25 s for some. Acknowledges all before `from`.
    pub async fn read_output(&self, id: &str, from: u64) -> Result<OutputChunk, Problem> {
        unimplemented!()
    }

    /// A new terminal size.
    pub fn resize(&self, id: &str, cols: u16, rows: u16) -> Result<(), Problem> {
        unimplemented!()
    }

    /// Freezes the whole tree.
    pub async fn suspend(&self, id: &str) -> Result<SessionInfo, Problem> {
        unimplemented!()
    }

    /// Undoes [`Engine::suspend`].
    pub async fn resume(&self, id: &str) -> Result<SessionInfo, Problem> {
        unimplemented!()
    }

    /// What runs in the session, for the close confirmation.
    pub async fn processes(&self, id: &str) -> Result<Vec<RunningProcess>, Problem> {
        unimplemented!()
    }

    /// Kills the whole tree.
    pub async fn close(&self, id: &str) -> Result<(), Problem> {
        unimplemented!()
    }

    /// Forgets an ended session.
    pub async fn dismiss(&self, id: &str) -> Result<(), Problem> {
        unimplemented!()
    }

    /// Facts about a folder, read without running anything.
    #[must_use]
    pub fn folder_info(&self, path: &str) -> FolderInfo {
        unimplemented!()
    }

    /// Keeps the window's layout.
    pub fn save_layout(&self, layout: String) -> Result<(), Problem> {
        unimplemented!()
    }

    /// Checks, keeps and announces settings.
    pub fn set_settings(&self, settings: Settings) -> Result<Settings, Problem> {
        unimplemented!()
    }

    /// Past sessions, newest first.
    pub fn history(&self, limit: u32) -> Result<Vec<SessionRecord>, Problem> {
        unimplemented!()
    }

    /// Tells every window that another start of the application was asked for.
    pub fn announce_activation(&self, cwd: Option<String>) {
        unimplemented!()
    }

    /// The sandbox port.
    #[must_use]
    pub fn manager(&self) -> &SandboxManager {
        unimplemented!()
    }

    /// Ends every session and waits until nothing is left.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}

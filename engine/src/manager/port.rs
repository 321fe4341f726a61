//! The seam through which clients start sandboxes and run programs in them.

use super::{Exec, SandboxHandle};
use crate::backend::{BackendChoice, BridgeChoice, ClientDefault};
use crate::error::Problem;
use crate::process::OwnedStream;
use crate::spec::ValidSpec;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

/// What a client wants launched.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// The checked spec.
    pub spec: ValidSpec,
    /// The backend that was named, if one was.
    pub choice: Option<BackendChoice>,
    /// What applies when none was named.
    pub client: ClientDefault,
    /// How connections get from inside to the proxies of a restricted network (REQ BW-2).
    pub bridge: BridgeChoice,
}

/// One program to run in a launched sandbox.
#[derive(Debug)]
pub struct ExecRequest {
    /// Program and arguments; a name without a slash is looked up in the session's `PATH`.
    pub argv: Vec<OsString>,
    /// Working directory; absent takes the spec's `guestWorkdir` or the plan's default.
    pub cwd: Option<PathBuf>,
    /// Variables on top of the session's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where the standard streams go.
    pub stdio: ExecStdio,
}

/// The standard streams of an exec.
#[derive(Debug)]
pub enum ExecStdio {
    /// A terminal of this size; its bytes are read through [`Exec::terminal`].
    Pty {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The caller's own streams, handed to the program; the engine never sees the bytes.
    Streams {
        /// Standard input.
        stdin: OwnedStream,
        /// Standard output.
        stdout: OwnedStream,
        /// Standard error.
        stderr: OwnedStream,
    },
    /// Pipes read by the engine: [`crate::events::SandboxEvent::Stdout`] and `Stderr` events.
    /// Standard input is empty.
    Pipes,
}

/// The sandbox port (REQ SP-0): launch once, then any number of execs.
///
/// `Err` from `launch` means that nothing ran; a launch that broke half-way is `Ok` with a handle
/// in state `error`.
pub trait SandboxPort: Send + Sync {
    /// Launches a sandbox.
    fn launch(
        &self,
        request: SandboxRequest,
    ) -> impl Future<Output = Result<SandboxHandle, Problem>> + Send;
    /// Runs a program in it.
    fn exec(
        &self,
        session_id: &str,
        request: ExecRequest,
    ) -> impl Future<Output = Result<Arc<Exec>, Problem>> + Send;
    /// Freezes the whole tree.
    fn suspend(
        &self,
        session_id: &str,
    ) -> impl Future<Output = Result<SandboxHandle, Problem>> + Send;
    /// Undoes [`SandboxPort::suspend`].
    fn resume(
        &self,
        session_id: &str,
    ) -> impl Future<Output = Result<SandboxHandle, Problem>> + Send;
    /// Kills the whole tree and forgets the sandbox.
    fn destroy(&self, session_id: &str) -> impl Future<Output = Result<(), Problem>> + Send;
    /// The handle as it stands.
    fn handle(&self, session_id: &str) -> Option<SandboxHandle>;
}

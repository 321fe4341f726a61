//! Why there is no desk.

use crate::error::{Coded, Fix};
use crate::store::DirError;
use std::io;
use std::path::PathBuf;

/// Why there is no desk, or why it does not answer.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// The run directory cannot be trusted.
    #[error("the directory of running engines cannot be used")]
    Directory(#[source] DirError),
    /// Another window's engine of this user has it.
    #[error("another window of Kotak runs already")]
    Taken,
    /// The socket cannot be made.
    #[error("the socket {} cannot be made", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The engine that asked is gone.
    #[error("the engine that asked is gone")]
    Gone,
    /// The engine that asked does not reply.
    #[error("the engine that asked does not reply")]
    Silent,
}

impl Coded for DeskError {
    fn code(&self) -> &'static str {
        match self {
            Self::Directory(error) => error.code(),
            Self::Taken => "WINDOW_RUNS_ALREADY",
            Self::Socket { .. } => "DESK_UNAVAILABLE",
            Self::Gone => "PROMPT_GONE",
            Self::Silent => "ENGINE_SILENT",
        }
    }

    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Directory(error) => error.fix(),
            Self::Taken => Some(Fix::words("Use the window that runs, or close it first.")),
            Self::Socket { .. } => Some(Fix::words(
                "Questions of kotak commands are asked in their own terminals until this is mended.",
            )),
            Self::Gone => Some(Fix::words(
                "Add a rule for the host, or let the program try again.",
            )),
            Self::Silent => Some(Fix::words("Answer again, or end that command.")),
        }
    }
}

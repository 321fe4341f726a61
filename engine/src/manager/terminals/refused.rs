//! Why a terminal request is refused.

use crate::error::{Coded, Fix};

/// Why a terminal request is refused before anything runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The working directory is relative.
    #[error("the working directory \"{0}\" is not an absolute path")]
    RelativeWorkdir(String),
    /// The working directory is not there.
    #[error("the working directory \"{0}\" does not exist or is not a folder")]
    WorkdirMissing(String),
    /// A network was chosen for a session without a sandbox.
    #[error("the network cannot be chosen without a sandbox")]
    NetworkWithoutSandbox,
    /// Programs were to be refused in a session without a sandbox.
    #[error("programs cannot be refused without a sandbox")]
    ExecWithoutSandbox,
    /// A port or a socket was granted to a session without a sandbox.
    #[error("ports and sockets cannot be granted without a sandbox")]
    GrantWithoutSandbox,
    /// The engine is shutting down.
    #[error("Kotak is shutting down")]
    Closing,
    /// It runs still.
    #[error("the session still runs")]
    StillRuns,
    /// It has no terminal any more.
    #[error("the session has ended")]
    Ended,
    /// It has no terminal yet.
    #[error("the session is still starting")]
    Starting,
    /// The terminal refused.
    #[error("the terminal cannot be {0}")]
    Terminal(&'static str, #[source] std::io::Error),
}

impl Coded for RequestError {
    fn code(&self) -> &'static str {
        match self {
            Self::RelativeWorkdir(_) => "WORKDIR_RELATIVE",
            Self::WorkdirMissing(_) => "WORKDIR_MISSING",
            Self::NetworkWithoutSandbox | Self::GrantWithoutSandbox | Self::ExecWithoutSandbox => {
                "FIELD_NOT_ENFORCED"
            }
            Self::Closing => "SHUTTING_DOWN",
            Self::StillRuns => "SESSION_RUNNING",
            Self::Ended => "SESSION_ENDED",
            Self::Starting => "SESSION_STARTING",
            Self::Terminal(..) => "TERMINAL_FAILED",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::RelativeWorkdir(_) => "Give the whole path, from the root.",
            Self::WorkdirMissing(_) => "Choose a folder that exists.",
            Self::NetworkWithoutSandbox => "Choose the native backend, or leave the network out.",
            Self::ExecWithoutSandbox => {
                "Choose the native backend, or let programs run wherever they lie."
            }
            Self::GrantWithoutSandbox => {
                "Leave them out: without a sandbox the program has every port and socket that you \
                 have."
            }
            Self::Closing => "Start Kotak again.",
            Self::StillRuns => "Close the session first.",
            Self::Ended | Self::Terminal(..) => "Start a new session.",
            Self::Starting => "Wait until the session is ready.",
        }))
    }
}

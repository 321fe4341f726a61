//! Why a launch or an exec failed.

use crate::error::{Coded, Fix};
use kotak_guard::proto::{Check, ExecStage};
use std::io;
use std::path::PathBuf;

/// Why a sandbox could not be launched. Whatever it is, no payload has run and nothing is left.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The runner is gone.
    #[error("bubblewrap is no longer at {}", path.display())]
    BwrapMissing {
        /// Where it was when the host was probed.
        path: PathBuf,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// The runner failed before the guard said anything.
    #[error("bubblewrap could not build the sandbox: {reason}")]
    BwrapFailed {
        /// The last line of what it wrote, or how it ended.
        reason: String,
        /// Everything it wrote, bounded.
        stderr: String,
        /// Its exit code.
        status: Option<i32>,
    },
    /// The guard looked from inside and found something else than what was planned.
    #[error("the sandbox is not what was asked for: {} ({})", .0.name, .0.detail)]
    GuardRefused(Check),
    /// No answer in time.
    #[error("the sandbox was not ready after {seconds} s")]
    Timeout {
        /// How long was waited.
        seconds: u64,
    },
    /// A bind source is not what it was when the policy was resolved.
    #[error("{} changed while the sandbox was being built", path.display())]
    SourceChanged {
        /// Which.
        path: PathBuf,
        /// The request names it. What the policy found on its own may come and go in a folder that
        /// other programs work in, and another look settles it.
        named: bool,
        /// The system's word, when it is gone or cannot be opened.
        #[source]
        cause: Option<io::Error>,
    },
    /// A program could not be started.
    #[error("cannot start a process")]
    Spawn(#[source] io::Error),
    /// A descriptor could not be made.
    #[error("cannot make {what} for a session")]
    Descriptor {
        /// What.
        what: &'static str,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// The watcher of a `none` session ended before it was ready.
    #[error("the session's watcher ended early: {reason}")]
    WatcherFailed {
        /// What it wrote, or how it ended.
        reason: String,
    },
    /// The guard's listeners, or its network namespace, did not reach the engine.
    #[error("the sandbox's listeners could not be handed over: {reason}")]
    Listeners {
        /// Why.
        reason: String,
    },
    /// The socat bridge was asked for, or is needed, and there is no socat.
    #[error("the bridge into the sandbox needs socat, which is not there")]
    SocatMissing,
    /// The socat bridge could not be built.
    #[error("the socat bridge into the sandbox failed: {reason}")]
    Bridge {
        /// Why.
        reason: String,
    },
    /// The guard's program cannot be had.
    #[error("the guard's program cannot be loaded")]
    GuardImage(#[source] io::Error),
}

impl LaunchError {
    pub(super) fn descriptor(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Descriptor { what, cause }
    }
}

impl Coded for LaunchError {
    fn code(&self) -> &'static str {
        match self {
            Self::BwrapMissing { .. } => "BWRAP_MISSING",
            Self::BwrapFailed { .. } => "BWRAP_FAILED",
            Self::GuardRefused(_) => "GUARD_REFUSED",
            Self::Timeout { .. } => "LAUNCH_TIMEOUT",
            Self::SourceChanged { .. } => "SOURCE_CHANGED",
            Self::Spawn(cause) | Self::Descriptor { cause, .. } | Self::GuardImage(cause) => {
                shortage(cause).unwrap_or("SPAWN_FAILED")
            }
            Self::WatcherFailed { .. } => "WATCHER_FAILED",
            Self::Listeners { .. } => "LISTENERS_LOST",
            Self::SocatMissing => "SOCAT_MISSING",
            Self::Bridge { .. } => "BRIDGE_FAILED",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::BwrapMissing { .. } => {
                Fix::words("Install bubblewrap again, then probe the host again.")
            }
            Self::BwrapFailed { .. } => Fix::words(
                "Probe the host again: the host report names the cause and what mends it.",
            ),
            Self::GuardRefused(_) => Fix::words(
                "Nothing was run. Check that bubblewrap is the distribution's own and probe the host again.",
            ),
            Self::Timeout { .. } => Fix::words("Try again when the machine is less busy."),
            Self::SourceChanged { .. } => Fix::words("Try again once nothing replaces that path."),
            Self::Spawn(cause) | Self::Descriptor { cause, .. } | Self::GuardImage(cause) => {
                shortage_fix(cause)?
            }
            Self::WatcherFailed { .. } => {
                Fix::words("Try again; the log holds what the watcher wrote.")
            }
            Self::Listeners { .. } => Fix::words(
                "Nothing was run. A security module keeps sockets from being passed on: choose the \
                 socat bridge (--bridge socat), or let bubblewrap and Kotak pass sockets.",
            ),
            Self::SocatMissing => Fix::command(
                "Install socat with the system's package manager.",
                "sudo apt-get install socat",
            ),
            Self::Bridge { .. } => Fix::words(
                "Nothing of yours was run. Check that socat is the distribution's own, or choose \
                 the guard's bridge (--bridge guard).",
            ),
        })
    }
}

/// Why a program did not start in a session that runs.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// No free pseudo-terminal.
    #[error("no pseudo-terminal is free")]
    NoFreePty(#[source] io::Error),
    /// The process limit is reached.
    #[error("no more processes can be started")]
    ProcessLimit(#[source] io::Error),
    /// The working directory cannot be entered.
    #[error("the working directory {cwd} cannot be entered")]
    Workdir {
        /// Which.
        cwd: String,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// The program does not exist or cannot be executed.
    #[error("{program} cannot be run")]
    Program {
        /// Which.
        program: String,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// The filters that bind every program of a session could not be loaded, so it was not run.
    #[error("the system call filter could not be loaded")]
    Filter(#[source] io::Error),
    /// The terminal could not be set up.
    #[error("the terminal could not be set up")]
    Terminal(#[source] io::Error),
    /// The session is gone.
    #[error("the session has ended: {0}")]
    Gone(String),
    /// The guard runs and says nothing; the program is ended should it start after all.
    #[error("the session's guard did not answer within {seconds} s")]
    Unanswered {
        /// How long was waited.
        seconds: u64,
    },
    /// The session is suspended.
    #[error("the session is suspended")]
    Frozen,
    /// A program with NUL in its arguments, or without any.
    #[error("the command line is empty or holds a NUL byte")]
    CommandLine,
}

impl ExecError {
    /// The error of a failed exec stage.
    pub(super) fn from_stage(stage: ExecStage, errno: i32, program: String, cwd: String) -> Self {
        let cause = io::Error::from_raw_os_error(errno);
        match stage {
            ExecStage::Pty if errno == libc::ENOSPC => Self::NoFreePty(cause),
            ExecStage::Pty | ExecStage::Session => Self::Terminal(cause),
            ExecStage::Fork => match errno {
                libc::EBUSY => Self::Frozen,
                libc::ESHUTDOWN => Self::Gone("it is being closed".to_owned()),
                _ => Self::ProcessLimit(cause),
            },
            ExecStage::Cwd => Self::Workdir { cwd, cause },
            ExecStage::Seccomp => Self::Filter(cause),
            ExecStage::Program => Self::Program { program, cause },
        }
    }
}

impl Coded for ExecError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoFreePty(_) => "NO_FREE_PTY",
            Self::ProcessLimit(_) => "PROCESS_LIMIT",
            Self::Workdir { .. } => "WORKDIR_GONE",
            Self::Program { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                "PROGRAM_NOT_FOUND"
            }
            Self::Program { .. } => "PROGRAM_NOT_EXECUTABLE",
            Self::Filter(_) => "FILTER_FAILED",
            Self::Terminal(cause) => shortage(cause).unwrap_or("TERMINAL_FAILED"),
            Self::Gone(_) => "SESSION_ENDED",
            Self::Unanswered { .. } => "GUARD_UNRESPONSIVE",
            Self::Frozen => "SESSION_SUSPENDED",
            Self::CommandLine => "COMMAND_LINE_INVALID",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::NoFreePty(_) => Fix::command(
                "Close some terminals, or raise the kernel's limit.",
                "sudo sysctl kernel.pty.max=8192",
            ),
            Self::ProcessLimit(_) => Fix::words(
                "End some programs, or raise the process limit of this user (ulimit -u).",
            ),
            Self::Workdir { .. } => Fix::words("Choose a folder that exists and may be entered."),
            Self::Program { .. } => {
                Fix::words("Check the spelling, and that the program is installed and executable.")
            }
            Self::Filter(_) => {
                Fix::words("Probe the host again: the report says what this kernel offers.")
            }
            Self::Terminal(cause) => shortage_fix(cause)?,
            Self::Gone(_) => Fix::words("Start a new session."),
            Self::Unanswered { .. } => Fix::words(
                "Try again when the machine is less busy, or close the session: that works without its guard.",
            ),
            Self::Frozen => Fix::words("Resume the session first."),
            Self::CommandLine => Fix::words("Give a program to run."),
        })
    }
}

/// The code of an error that says that the system has run out of something.
fn shortage(cause: &io::Error) -> Option<&'static str> {
    match cause.raw_os_error()? {
        libc::EAGAIN => Some("PROCESS_LIMIT"),
        libc::EMFILE | libc::ENFILE => Some("TOO_MANY_OPEN_FILES"),
        libc::ENOMEM => Some("OUT_OF_MEMORY"),
        libc::ENOSYS => Some("KERNEL_TOO_OLD"),
        _ => None,
    }
}

fn shortage_fix(cause: &io::Error) -> Option<Fix> {
    let words = match cause.raw_os_error()? {
        libc::EAGAIN => "End some programs, or raise the process limit of this user (ulimit -u).",
        libc::EMFILE | libc::ENFILE => {
            "Close some sessions, or raise the limit of open files (ulimit -n)."
        }
        libc::ENOMEM => "Free some memory.",
        libc::ENOSYS => "Use Linux 5.9 or later.",
        _ => return None,
    };
    Some(Fix::words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shortage_has_its_own_code_and_a_fix() {
        let failed =
            |stage, errno| ExecError::from_stage(stage, errno, "p".to_owned(), "/c".to_owned());
        let cases = [
            (failed(ExecStage::Pty, libc::ENOSPC), "NO_FREE_PTY"),
            (failed(ExecStage::Pty, libc::EMFILE), "TOO_MANY_OPEN_FILES"),
            (failed(ExecStage::Fork, libc::EAGAIN), "PROCESS_LIMIT"),
            (failed(ExecStage::Fork, libc::EBUSY), "SESSION_SUSPENDED"),
            (failed(ExecStage::Fork, libc::ESHUTDOWN), "SESSION_ENDED"),
            (failed(ExecStage::Cwd, libc::ENOENT), "WORKDIR_GONE"),
            (failed(ExecStage::Seccomp, libc::EINVAL), "FILTER_FAILED"),
            (
                failed(ExecStage::Program, libc::ENOENT),
                "PROGRAM_NOT_FOUND",
            ),
            (
                failed(ExecStage::Program, libc::EACCES),
                "PROGRAM_NOT_EXECUTABLE",
            ),
        ];
        for (error, code) in cases {
            let problem = error.problem();
            assert_eq!(problem.code, code);
            assert!(problem.fix.is_some(), "{code}");
        }
        let launch = LaunchError::Spawn(io::Error::from_raw_os_error(libc::EAGAIN)).problem();
        assert_eq!(launch.code, "PROCESS_LIMIT");
    }
}

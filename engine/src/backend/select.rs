//! Which backend a launch gets (REQ BK-5, BK-6, SW-2..4, TM-1). Pure.
//!
//! A backend that was named is honoured or refused, whatever the switch says. Nothing is ever
//! weakened in silence: the one step down, from microVM to native under `auto`, comes with a
//! line for the log, and `auto` never ends at `none`.

use super::{BackendChoice, SandboxBackend};
use crate::error::{Coded, Fix, Problem};
use crate::probe::{HostReport, Switch};

/// What a client means when it names no backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientDefault {
    /// A terminal of the panel or the API: `none` (REQ TM-1).
    Terminal,
    /// `kotak shell` and `kotak run`: `auto` while the switch is on, `none` while it is off.
    Command,
}

/// The backend that a launch gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The backend.
    pub backend: SandboxBackend,
    /// A line for the log, when the backend is not the one that the client may expect.
    pub notice: Option<String>,
}

/// Why a launch gets no backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// microvm was named.
    #[error("the microVM backend was asked for, and this host cannot start one")]
    Microvm(Option<Box<Problem>>),
    /// native was named.
    #[error("the native backend was asked for, and this host has none")]
    Native(Option<Box<Problem>>),
    /// `auto` found neither.
    #[error("no sandbox backend is available on this host")]
    Neither {
        /// Why not native.
        native: Option<Box<Problem>>,
        /// Why not microvm.
        microvm: Option<Box<Problem>>,
    },
}

impl Coded for SelectError {
    fn code(&self) -> &'static str {
        match self {
            Self::Microvm(_) => "MICROVM_UNAVAILABLE",
            Self::Native(_) => "NATIVE_UNAVAILABLE",
            Self::Neither { .. } => "BACKEND_UNAVAILABLE",
        }
    }

    fn fix(&self) -> Option<Fix> {
        let fix_of = |problem: &Option<Box<Problem>>| problem.as_ref().and_then(|p| p.fix.clone());
        match self {
            Self::Microvm(problem) | Self::Native(problem) => fix_of(problem),
            // Native is the nearer one to get.
            Self::Neither { native, microvm } => fix_of(native).or_else(|| fix_of(microvm)),
        }
    }

    fn problem(&self) -> Problem {
        let causes = match self {
            Self::Microvm(problem) | Self::Native(problem) => causes_of(problem.as_deref()),
            Self::Neither { native, microvm } => {
                let mut causes = causes_of(native.as_deref());
                causes.extend(causes_of(microvm.as_deref()));
                causes
            }
        };
        Problem {
            code: self.code().to_owned(),
            message: self.to_string(),
            causes,
            fix: self.fix(),
        }
    }
}

fn causes_of(problem: Option<&Problem>) -> Vec<String> {
    problem.map_or_else(Vec::new, |problem| {
        let mut causes = vec![problem.message.clone()];
        causes.extend(problem.causes.iter().cloned());
        causes
    })
}

/// Selects the backend of one launch.
///
/// # Errors
/// The named backend is not available, or `auto` finds none.
pub fn select(
    choice: Option<BackendChoice>,
    client: ClientDefault,
    report: &HostReport,
    switch: Switch,
) -> Result<Selection, SelectError> {
    match (choice, client, switch) {
        (Some(BackendChoice::None), _, _) => Ok(plain(SandboxBackend::None)),
        (Some(BackendChoice::Microvm), _, _) => {
            if available(report, SandboxBackend::Microvm) {
                Ok(plain(SandboxBackend::Microvm))
            } else {
                Err(SelectError::Microvm(why_not(
                    report,
                    SandboxBackend::Microvm,
                )))
            }
        }
        (Some(BackendChoice::Native), _, _) => {
            if available(report, SandboxBackend::Native) {
                Ok(plain(SandboxBackend::Native))
            } else {
                Err(SelectError::Native(why_not(report, SandboxBackend::Native)))
            }
        }
        (Some(BackendChoice::Auto), _, _) | (None, ClientDefault::Command, Switch::On) => {
            best(report)
        }
        (None, ClientDefault::Terminal, _) => Ok(plain(SandboxBackend::None)),
        (None, ClientDefault::Command, Switch::Off) => Ok(Selection {
            backend: SandboxBackend::None,
            notice: Some(
                "no backend was named and the sandbox switch is off: this session is not sandboxed"
                    .to_owned(),
            ),
        }),
    }
}

/// The best available, never `none` (REQ BK-6).
fn best(report: &HostReport) -> Result<Selection, SelectError> {
    if available(report, SandboxBackend::Microvm) {
        return Ok(plain(SandboxBackend::Microvm));
    }
    let microvm = why_not(report, SandboxBackend::Microvm);
    if !available(report, SandboxBackend::Native) {
        return Err(SelectError::Neither {
            native: why_not(report, SandboxBackend::Native),
            microvm,
        });
    }
    let reason = microvm.map_or_else(|| "no reason was reported".to_owned(), |p| p.message);
    Ok(Selection {
        backend: SandboxBackend::Native,
        notice: Some(format!(
            "no microVM for this session, native is used instead: {reason}"
        )),
    })
}

fn plain(backend: SandboxBackend) -> Selection {
    Selection {
        backend,
        notice: None,
    }
}

/// A backend that the report does not speak of is not available.
fn available(report: &HostReport, backend: SandboxBackend) -> bool {
    report.backend(backend).is_some_and(|entry| entry.available)
}

fn why_not(report: &HostReport, backend: SandboxBackend) -> Option<Box<Problem>> {
    report.backend(backend)?.problem.clone().map(Box::new)
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;

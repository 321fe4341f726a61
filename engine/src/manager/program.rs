//! What a session runs: the login shell, a preset, a command line.

use super::command_line::{SplitError, split, title};
use super::host::{HostView, is_executable};
use crate::api::Program;
use crate::error::{Coded, Fix};
use crate::workspace::presets;
use std::ffi::OsString;
use std::path::PathBuf;

/// A program to run, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundProgram {
    pub(super) argv: Vec<OsString>,
    pub(super) title: String,
    /// As typed, for the history.
    pub(super) line: String,
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    /// The login shell does not exist.
    #[error("the login shell {} does not exist or cannot be executed", .0.display())]
    ShellMissing(PathBuf),
    /// No login shell is known.
    #[error("no login shell is known for this user")]
    NoShell,
    /// The preset is not installed.
    #[error("{label} is not on the PATH")]
    PresetMissing {
        /// For people.
        label: String,
    },
    /// There is no such preset.
    #[error("there is no preset \"{0}\"")]
    UnknownPreset(String),
    /// The command line cannot be split.
    #[error(transparent)]
    Line(#[from] SplitError),
}

impl Coded for ProgramError {
    fn code(&self) -> &'static str {
        match self {
            Self::ShellMissing(_) | Self::NoShell => "SHELL_NOT_FOUND",
            Self::PresetMissing { .. } => "PROGRAM_NOT_FOUND",
            Self::UnknownPreset(_) => "UNKNOWN_PRESET",
            Self::Line(error) => error.code(),
        }
    }

    fn fix(&self) -> Option<Fix> {
        match self {
            Self::ShellMissing(_) | Self::NoShell => Some(Fix::command(
                "Choose a login shell that exists, or run a command of your own.",
                "chsh -s /bin/bash",
            )),
            Self::PresetMissing { label } => Some(Fix::words(format!("Install {label}, or add it to the PATH."))),
            Self::UnknownPreset(_) => Some(Fix::words("Choose one of the presets, or a command of your own.")),
            Self::Line(error) => error.fix(),
        }
    }
}

/// Finds what a request runs.
pub(super) fn find(program: &Program, host: &HostView) -> Result<FoundProgram, ProgramError> {
    match program {
        Program::Shell => {
            let shell = login_shell(host)?;
            let title = title(&shell.to_string_lossy());
            let line = shell.to_string_lossy().into_owned();
            Ok(FoundProgram { argv: vec![shell.into_os_string()], title, line })
        }
        Program::Preset { id } => {
            let preset = presets().into_iter().find(|preset| preset.id == *id);
            let preset = preset.ok_or_else(|| ProgramError::UnknownPreset(id.clone()))?;
            let path = preset.path.ok_or(ProgramError::PresetMissing { label: preset.label.clone() })?;
            Ok(FoundProgram { argv: vec![path.into()], title: preset.label, line: preset.id })
        }
        Program::Command { line } => {
            let words = split(line)?;
            let title = words.first().map(|word| title(word)).unwrap_or_default();
            Ok(FoundProgram { argv: words.into_iter().map(OsString::from).collect(), title, line: line.clone() })
        }
    }
}

/// The shell of the user database, else `$SHELL`.
fn login_shell(host: &HostView) -> Result<PathBuf, ProgramError> {
    let candidates = [host.shell.clone(), host.var("SHELL").map(PathBuf::from)];
    let mut missing = None;
    for shell in candidates.into_iter().flatten() {
        if shell.is_absolute() && is_executable(&shell) {
            return Ok(shell);
        }
        missing = missing.or(Some(shell));
    }
    Err(missing.map_or(ProgramError::NoShell, ProgramError::ShellMissing))
}

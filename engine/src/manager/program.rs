//! What a session runs: the login shell, a preset, a command line.

use super::command_line::{SplitError, split, title};
use crate::api::Program;
use crate::error::{Coded, Fix};
use crate::workspace::{ShellError, login_shell, presets};
use std::ffi::OsString;

/// A program to run, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundProgram {
    pub(super) argv: Vec<OsString>,
    pub(super) title: String,
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    /// The shell cannot be run.
    #[error(transparent)]
    Shell(#[from] ShellError),
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
            Self::Shell(error) => error.code(),
            Self::PresetMissing { .. } => "PROGRAM_NOT_FOUND",
            Self::UnknownPreset(_) => "UNKNOWN_PRESET",
            Self::Line(error) => error.code(),
        }
    }

    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Shell(error) => error.fix(),
            Self::PresetMissing { label } => Some(Fix::words(format!(
                "Install {label}, or add it to the PATH."
            ))),
            Self::UnknownPreset(_) => Some(Fix::words(
                "Choose one of the presets, or a command of your own.",
            )),
            Self::Line(error) => error.fix(),
        }
    }
}

/// Finds what a request runs.
pub(super) fn find(program: &Program) -> Result<FoundProgram, ProgramError> {
    match program {
        Program::Shell => {
            let shell = login_shell()?;
            let title = title(&shell.to_string_lossy());
            Ok(FoundProgram {
                argv: vec![shell.into_os_string()],
                title,
            })
        }
        Program::Preset { id } => {
            let preset = presets().into_iter().find(|preset| preset.id == *id);
            let preset = preset.ok_or_else(|| ProgramError::UnknownPreset(id.clone()))?;
            let path = preset.path.ok_or(ProgramError::PresetMissing {
                label: preset.label.clone(),
            })?;
            Ok(FoundProgram {
                argv: vec![path.into()],
                title: preset.label,
            })
        }
        Program::Command { line } => {
            let words = split(line)?;
            let title = words.first().map(|word| title(word)).unwrap_or_default();
            Ok(FoundProgram {
                argv: words.into_iter().map(OsString::from).collect(),
                title,
            })
        }
    }
}

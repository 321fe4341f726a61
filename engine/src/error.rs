//! The shape that every error takes at the boundary.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What the window and the command show of any failure. They switch on `code`, never on text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Stable, upper snake case, e.g. `BACKEND_UNAVAILABLE`.
    pub code: String,
    /// One sentence: operation and subject.
    pub message: String,
    /// The chain of causes, outermost first.
    pub causes: Vec<String>,
    /// What to do next, when there is something to do.
    pub fix: Option<Fix>,
}

/// A way out of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// In words.
    pub text: String,
    /// A command to copy, when one does it.
    pub command: Option<String>,
}

impl Fix {
    /// A fix without a command.
    #[must_use]
    pub fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            command: None,
        }
    }

    /// A fix with a command to copy.
    #[must_use]
    pub fn command(text: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            command: Some(command.into()),
        }
    }
}

/// An error with a stable code and, where there is one, a fix.
pub trait Coded: std::error::Error {
    /// Stable code, upper snake case.
    fn code(&self) -> &'static str;
    /// What to do next.
    fn fix(&self) -> Option<Fix>;

    /// The boundary form, with the chain of sources as causes.
    fn problem(&self) -> Problem
    where
        Self: Sized,
    {
        let mut causes = Vec::new();
        let mut source = self.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Problem {
            code: self.code().to_owned(),
            message: self.to_string(),
            causes,
            fix: self.fix(),
        }
    }
}

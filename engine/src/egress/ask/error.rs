//! Why an answer is not taken.

use crate::error::{Coded, Fix};

/// Why an answer is not taken. What waited goes on waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It was answered, has run out, or its session has ended.
    #[error("the question does not wait any more")]
    Gone,
    /// It came sooner than anybody can have read the question.
    #[error("the answer came before the question can have been read")]
    TooEarly,
    /// There is no such pattern for this host.
    #[error("that scope is not possible for this host")]
    Scope,
}

impl Coded for AnswerError {
    fn code(&self) -> &'static str {
        match self {
            Self::Gone => "PROMPT_GONE",
            Self::TooEarly => "ANSWER_TOO_EARLY",
            Self::Scope => "ANSWER_SCOPE_INVALID",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Gone => "Add a rule for the host, or let the program try again.",
            Self::TooEarly => "Read the question and answer again.",
            Self::Scope => "Choose the exact host.",
        }))
    }
}

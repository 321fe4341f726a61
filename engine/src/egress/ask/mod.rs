//! Ask first (REQ EG-9): attempts that no rule covers wait while the operator is asked.
//!
//! [`Broker`] is a pure state machine; [`AskFirst`] runs it against a clock and wakes those who
//! wait. Whatever is not answered in time is denied: there is no way from silence to a connection.

mod broker;
mod card;
mod error;
mod hold;
mod limits;
mod places;
mod shell;
mod view;

#[cfg(test)]
mod places_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

pub use broker::{Asked, Broker, Effect};
pub use card::{AttemptId, Lasting, Resolution, Settled};
pub use error::AnswerError;
pub use limits::{AskLimits, READING_MS};
pub use shell::{AskEvent, AskFirst, Clock, SystemClock};

use crate::backend::SandboxBackend;
use std::sync::Arc;

/// What a question says of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// Session id.
    pub id: Arc<str>,
    /// Its title.
    pub title: String,
    /// Its workspace, a folder.
    pub workspace: String,
    /// Its backend, from the launch result.
    pub backend: Option<SandboxBackend>,
}

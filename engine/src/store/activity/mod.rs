//! The history of connections and refusals: rows, and the counts of what has no row.

mod export;
mod inbox;
mod read;
mod timeline;
mod write;

#[cfg(test)]
mod tests;

pub use inbox::Recorder;
pub(super) use inbox::{Inbox, Waiting};
pub(super) use read::{allowed_before, page, totals};
pub(super) use timeline::timeline;
pub(super) use write::{apply, prune, tidy};

use crate::api::Outcome;
use crate::egress::decide::DenyReason;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How long and how much the history keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBound {
    /// Days after which a row goes.
    pub days: u32,
    /// Most rows of all sessions together.
    pub rows: u32,
}

impl Default for HistoryBound {
    fn default() -> Self {
        Self {
            days: 30,
            rows: 200_000,
        }
    }
}

impl HistoryBound {
    /// For people: `30 days or 200,000 rows`.
    #[must_use]
    pub fn in_words(self) -> String {
        let digits = self.rows.to_string();
        let mut rows = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                rows.push(',');
            }
            rows.push(digit);
        }
        format!("{} days or {rows} rows", self.days)
    }
}

/// One run of a session. A session id may be used again; the time tells the runs apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionRun {
    /// Session id.
    pub id: Arc<str>,
    /// When its network began, milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// What is counted apart: connections that passed, and refusals by their reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counted {
    /// It passed.
    Allowed,
    /// It did not; refusals of other kinds than connections have no reason.
    Refused(Option<DenyReason>),
}

impl Counted {
    /// What a row counts as.
    #[must_use]
    pub fn of(outcome: Outcome, denied: Option<DenyReason>) -> Self {
        match outcome {
            Outcome::Allowed | Outcome::Open | Outcome::Failed => Self::Allowed,
            Outcome::Refused => Self::Refused(denied),
        }
    }
}

/// All that one kind of event came to in one run of a session, so far. Each write of it replaces
/// the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Attempts.
    pub total: u64,
    /// Those of them without a row.
    pub only_counted: u64,
    /// The last one, milliseconds since the Unix epoch.
    pub last_ms: u64,
}

/// What a session's attempts came to, by the store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTotals {
    /// Connections that passed.
    pub allowed: u64,
    /// Attempts that were refused.
    pub refused: u64,
    /// Of both, those without a row: never had, or no longer.
    pub only_counted: u64,
    /// Refusals by their reason; those without one are no connections.
    pub reasons: Vec<(Option<DenyReason>, u64)>,
}

/// Milliseconds of a slot in which what has no row is counted.
pub const FLOOD_SLOT_MS: u64 = 60_000;

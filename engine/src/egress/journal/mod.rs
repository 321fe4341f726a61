//! What a session did and was refused, on its way to the history and the windows. Nothing here
//! waits: what finds no room is counted.

mod bucket;
mod ids;
mod live;
mod session;

#[cfg(test)]
pub(in crate::egress) mod tests;

pub use bucket::Bucket;
pub use ids::RowIds;
pub use live::Live;
pub use session::Journal;

use super::decide::DenyReason;
use crate::api::{ActivityKind, ActivityRow, NetworkCounts, Outcome};
use std::sync::Arc;

/// One run of a session. A session id may be used again; the time tells the runs apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionRun {
    /// Session id.
    pub id: Arc<str>,
    /// When its network began, milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// What is counted apart: connections that passed, their refusals by the reason, other refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counted {
    /// It passed.
    Allowed,
    /// It did not; a connection that is none has no reason.
    Refused(Option<DenyReason>),
    /// A file that was not made, changed, removed or read.
    File,
    /// A program that did not run.
    Exec,
}

impl Counted {
    /// What a connection counts as.
    #[must_use]
    pub fn of(outcome: Outcome, denied: Option<DenyReason>) -> Self {
        match outcome {
            Outcome::Allowed | Outcome::Open | Outcome::Failed => Self::Allowed,
            Outcome::Refused => Self::Refused(denied),
        }
    }

    /// What a row counts as.
    #[must_use]
    pub fn of_row(row: &ActivityRow) -> Self {
        match ActivityKind::of(row) {
            ActivityKind::Network => {
                let denied = row.connection.as_ref().and_then(|detail| detail.denied);
                Self::of(row.outcome, denied)
            }
            ActivityKind::Files => Self::File,
            ActivityKind::Exec => Self::Exec,
        }
    }
}

/// All that one kind of event came to in one run of a session, so far. Each replaces the one
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Attempts.
    pub total: u64,
    /// Those of them without a row.
    pub only_counted: u64,
    /// The last one, milliseconds since the Unix epoch.
    pub last_ms: u64,
}

/// Milliseconds of a slot in which what has no row is counted.
pub const FLOOD_SLOT_MS: u64 = 60_000;

/// Where rows and counts go: the history and the windows. No call may wait.
pub trait Sink: Send + Sync + 'static {
    /// Keeps a row that is new or changed; a later one of the same id replaces it. False when so
    /// much waits to be written that it was not taken.
    fn keep(&self, row: &ActivityRow) -> bool;

    /// Shows a row that is new or changed to who looks on.
    fn show(&self, row: &ActivityRow);

    /// So many rows were only counted just now.
    fn skipped(&self, rows: u64);

    /// What one kind came to so far.
    fn tally(&self, run: &SessionRun, counted: Counted, tally: Tally);

    /// How many of one kind came without a row in the slot of [`FLOOD_SLOT_MS`] that holds
    /// `at_ms`.
    fn flood(&self, run: &SessionRun, counted: Counted, at_ms: u64, count: u64);

    /// What the session's network did so far, `waiting` left out, and how many refusals are new
    /// since this was called last.
    fn counts(&self, run: &SessionRun, counts: NetworkCounts, fresh_refusals: u64);
}

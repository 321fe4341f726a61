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

use crate::egress::decide::DenyReason;
use serde::{Deserialize, Serialize};

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

/// What a session's attempts came to, by the store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTotals {
    /// Connections that passed.
    pub allowed: u64,
    /// Attempts to connect that were refused.
    pub refused: u64,
    /// Files that were refused.
    pub files: u64,
    /// Programs that did not run.
    pub programs: u64,
    /// Of all, those without a row: never had, or no longer.
    pub only_counted: u64,
    /// Refused connections by their reason.
    pub reasons: Vec<(Option<DenyReason>, u64)>,
}

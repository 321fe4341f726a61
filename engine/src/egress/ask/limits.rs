//! How much may be asked.

/// How long a question has to have been in sight before an answer counts, milliseconds: a sooner
/// one was not meant for it (REQ EG-9).
pub const READING_MS: u64 = 500;

/// Bounds of a broker. All times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskLimits {
    /// Until an unanswered question denies.
    pub countdown_ms: u64,
    /// An answer that comes sooner after a question appeared was not meant for it.
    pub early_ms: u64,
    /// Questions of one session that are shown at once.
    pub cards: usize,
    /// Questions of one session that are newly shown in a minute.
    pub cards_per_minute: usize,
    /// Further hosts of one session that wait behind those.
    pub folded: usize,
    /// Attempts of one session that wait.
    pub attempts: usize,
    /// Missed questions of one session that are kept.
    pub missed: usize,
    /// How long a missed question is kept, and how long an answer to it holds for the next
    /// attempt.
    pub missed_ms: u64,
    /// How long a question that is looked at stops its countdown, unless it is held again.
    pub hold_ms: u64,
    /// Least time between two changes of one thing that are told.
    pub tell_ms: u64,
}

impl Default for AskLimits {
    fn default() -> Self {
        Self {
            countdown_ms: 60_000,
            early_ms: READING_MS,
            cards: 8,
            cards_per_minute: 20,
            folded: 200,
            attempts: 4_096,
            missed: 20,
            missed_ms: 10 * 60_000,
            hold_ms: 10 * 60_000,
            tell_ms: 100,
        }
    }
}

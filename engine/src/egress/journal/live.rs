//! Rows on their way to the windows, in pieces, at a bounded rate.

use crate::api::ActivityRow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Least time between two pieces.
const EVERY: Duration = Duration::from_millis(100);
/// Rows of a piece; more are counted, and the windows read them from the history.
const ROWS: usize = 200;

/// Collects rows of all sessions and sends them on ten times a second.
#[derive(Clone)]
pub struct Live(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    send: Box<dyn Fn(Vec<ActivityRow>, u64) + Send + Sync>,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<i64, ActivityRow>,
    skipped: u64,
    /// A piece is on its way.
    armed: bool,
    /// When the last piece was sent.
    sent: Option<Instant>,
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Live").finish_non_exhaustive()
    }
}

impl Live {
    /// Sends pieces to `send`: rows, and how many were only counted. Its methods must be called
    /// inside a runtime.
    #[must_use]
    pub fn new(send: impl Fn(Vec<ActivityRow>, u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            send: Box::new(send),
        }))
    }

    /// A row that is new or changed; within a piece a later state replaces the earlier.
    pub fn show(&self, row: &ActivityRow) {
        let mut state = self.0.state();
        if state.rows.len() >= ROWS && !state.rows.contains_key(&row.id) {
            state.skipped = state.skipped.saturating_add(1);
        } else {
            state.rows.insert(row.id, row.clone());
        }
        self.arm(&mut state);
    }

    /// So many rows were only counted.
    pub fn skipped(&self, rows: u64) {
        let mut state = self.0.state();
        state.skipped = state.skipped.saturating_add(rows);
        self.arm(&mut state);
    }

    fn arm(&self, state: &mut State) {
        if state.armed {
            return;
        }
        state.armed = true;
        // The first after a quiet time goes out at once.
        let due = state.sent.map(|sent| sent + EVERY);
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
            let (rows, skipped) = {
                let mut state = shared.state();
                state.armed = false;
                state.sent = Some(Instant::now());
                (
                    std::mem::take(&mut state.rows),
                    std::mem::take(&mut state.skipped),
                )
            };
            (shared.send)(rows.into_values().collect(), skipped);
        });
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

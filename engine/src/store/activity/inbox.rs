//! What waits to be written: bounded, and never waited for.

use crate::api::ActivityRow;
use crate::egress::journal::{Counted, FLOOD_SLOT_MS, SessionRun, Tally};
use crate::store::writer::Message;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows that wait at most; more are only counted.
const ROWS: usize = 8_192;
/// Counts that wait at most. There is one for each session, kind and minute, so this is reached
/// only where nothing can be written for hours; the oldest minutes go then.
const COUNTS: usize = 65_536;

/// One minute's count of one kind.
pub(in crate::store) type FloodKey = (SessionRun, Counted, u64);

/// What waits, the newest state of each row and count only.
#[derive(Debug, Default)]
pub(in crate::store) struct Waiting {
    pub(super) rows: BTreeMap<i64, ActivityRow>,
    pub(super) tallies: BTreeMap<(SessionRun, Counted), Tally>,
    pub(super) floods: BTreeMap<FloodKey, u64>,
}

impl Waiting {
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.tallies.is_empty() && self.floods.is_empty()
    }
}

/// Shared by those who record and the thread that writes.
#[derive(Debug, Default)]
pub(in crate::store) struct Inbox(Mutex<Waiting>);

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// All that waits.
    pub(in crate::store) fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting())
    }

    /// Puts back what could not be written; what came meanwhile is newer.
    pub(in crate::store) fn give_back(&self, old: Waiting) {
        let mut waiting = self.waiting();
        for (id, row) in old.rows {
            waiting.rows.entry(id).or_insert(row);
        }
        for (key, tally) in old.tallies {
            waiting.tallies.entry(key).or_insert(tally);
        }
        for (key, count) in old.floods {
            waiting.floods.entry(key).or_insert(count);
        }
    }

    /// Reads what waits without taking it.
    pub(in crate::store) fn peek<T>(&self, look: impl FnOnce(&Waiting) -> T) -> T {
        look(&self.waiting())
    }
}

/// Puts rows and counts down. Cheap to clone; no call ever waits for the disk.
#[derive(Debug, Clone)]
pub struct Recorder {
    pub(in crate::store) inbox: Arc<Inbox>,
    pub(in crate::store) messages: Sender<Message>,
}

impl Recorder {
    /// A row that is new or changed; a later one of the same id replaces it. False when so many
    /// wait that this one can only be counted.
    #[must_use]
    pub fn row(&self, row: &ActivityRow) -> bool {
        let wake = {
            let mut waiting = self.inbox.waiting();
            if waiting.rows.len() >= ROWS && !waiting.rows.contains_key(&row.id) {
                return false;
            }
            let wake = waiting.is_empty();
            waiting.rows.insert(row.id, row.clone());
            wake
        };
        self.wake(wake);
        true
    }

    /// What one kind came to so far.
    pub fn tally(&self, run: &SessionRun, counted: Counted, tally: Tally) {
        let wake = {
            let mut waiting = self.inbox.waiting();
            let wake = waiting.is_empty();
            waiting.tallies.insert((run.clone(), counted), tally);
            if waiting.tallies.len() > COUNTS {
                waiting.tallies.pop_first();
            }
            wake
        };
        self.wake(wake);
    }

    /// How many of one kind came without a row in the slot that begins at `slot_ms`.
    pub fn flood(&self, run: &SessionRun, counted: Counted, at_ms: u64, count: u64) {
        let slot_ms = at_ms - at_ms % FLOOD_SLOT_MS;
        let wake = {
            let mut waiting = self.inbox.waiting();
            let wake = waiting.is_empty();
            waiting
                .floods
                .insert((run.clone(), counted, slot_ms), count);
            if waiting.floods.len() > COUNTS {
                waiting.floods.pop_first();
            }
            wake
        };
        self.wake(wake);
    }

    fn wake(&self, wanted: bool) {
        if wanted && self.messages.send(Message::Activity).is_err() {
            tracing::warn!("the store's thread does not run; the activity is not recorded");
        }
    }
}

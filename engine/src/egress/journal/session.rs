//! The journal of one session: equal refusals become one row, and a flood becomes a count.

use super::{Bucket, Counted, RowIds, SessionRun, Sink, Tally};
use crate::api::{ActivityRow, NetworkCounts, Outcome};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// For so long equal refusals are one row, milliseconds.
const WINDOW_MS: u64 = 10_000;
/// Least time between two states of one row that are passed on, milliseconds.
const TELL_MS: u64 = 100;
/// Different refusals that are followed at once.
const FOLLOWED: usize = 1_024;
/// New rows: so many at once, and so many a second after that. What is more is counted.
const REFUSED_ROWS: (u64, u64) = (500, 50);
const ALLOWED_ROWS: (u64, u64) = (2_000, 100);
/// Slots whose counts may still change: a connection is refused after all within a minute.
const SLOTS: usize = 4;
/// States of followed connections that wait for the store at once; some 10 MB.
const LATE: usize = 10_000;

/// Refusals with an equal key within a window are one row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    action: String,
    target: String,
    process: Option<String>,
    why: String,
    counted: Counted,
}

#[derive(Debug)]
struct Refusal {
    row: ActivityRow,
    told_ms: u64,
    /// Its last state was not passed on yet.
    changed: bool,
}

#[derive(Debug, Default)]
struct Count {
    tally: Tally,
    changed: bool,
    /// What was only counted, by the beginning of its slot; the newest [`SLOTS`].
    floods: BTreeMap<u64, Flood>,
}

#[derive(Debug, Default)]
struct Flood {
    count: u64,
    changed: bool,
}

#[derive(Debug)]
struct State {
    refusals: HashMap<Key, Refusal>,
    counts: BTreeMap<Counted, Count>,
    refused_rows: Bucket,
    allowed_rows: Bucket,
    fresh_refusals: u64,
    skipped: u64,
    /// States of connections that the store could not take yet, by the row's number.
    late: HashMap<i64, ActivityRow>,
}

/// The journal of one session.
pub struct Journal {
    run: SessionRun,
    ids: Arc<RowIds>,
    sink: Arc<dyn Sink>,
    state: Mutex<State>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Journal")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// An empty one.
    #[must_use]
    pub fn new(run: SessionRun, ids: Arc<RowIds>, sink: Arc<dyn Sink>) -> Self {
        Self {
            run,
            ids,
            sink,
            state: Mutex::new(State {
                refusals: HashMap::new(),
                counts: BTreeMap::new(),
                refused_rows: Bucket::new(REFUSED_ROWS.0, REFUSED_ROWS.1),
                allowed_rows: Bucket::new(ALLOWED_ROWS.0, ALLOWED_ROWS.1),
                fresh_refusals: 0,
                skipped: 0,
                late: HashMap::new(),
            }),
        }
    }

    /// The session.
    #[must_use]
    pub fn run(&self) -> &SessionRun {
        &self.run
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was refused. The row's number, times and count are set here.
    pub fn refused(&self, now_ms: u64, row: ActivityRow) {
        self.refused_times(now_ms, 1, row);
    }

    /// The same, several times at once.
    pub fn refused_times(&self, now_ms: u64, times: u64, row: ActivityRow) {
        let in_row = u32::try_from(times).unwrap_or(u32::MAX);
        let key = Key {
            action: row.action.clone(),
            target: row.target.clone(),
            process: row.process.as_ref().map(|actor| actor.name.clone()),
            why: row.why.clone(),
            counted: Counted::of_row(&row),
        };
        let mut state = self.state();
        state.fresh_refusals = state.fresh_refusals.saturating_add(times);
        state.count(key.counted, now_ms, times);
        if let Some(known) = state.refusals.get_mut(&key)
            && known.row.at_ms.saturating_add(WINDOW_MS) > now_ms
        {
            known.row.count = known.row.count.saturating_add(in_row);
            known.row.last_ms = now_ms;
            known.changed = true;
            if known.told_ms.saturating_add(TELL_MS) <= now_ms {
                self.pass_on(known, now_ms);
            }
            return;
        }
        // A window that is over makes room for its next one, once its end was passed on.
        if let Some(over) = state.refusals.get_mut(&key)
            && over.changed
        {
            self.pass_on(over, now_ms);
        }
        let room = state.refusals.len() < FOLLOWED || state.refusals.contains_key(&key);
        if !room || !state.refused_rows.take(now_ms) {
            state.only_counted(key.counted, now_ms, times);
            return;
        }
        let row = ActivityRow {
            id: self.ids.next(now_ms),
            at_ms: now_ms,
            last_ms: now_ms,
            count: in_row,
            outcome: Outcome::Refused,
            ..row
        };
        if !self.sink.keep(&row) {
            state.only_counted(key.counted, now_ms, times);
            return;
        }
        self.sink.show(&row);
        let refusal = Refusal {
            row,
            told_ms: now_ms,
            changed: false,
        };
        state.refusals.insert(key, refusal);
    }

    /// So many were refused, of which nothing else is known.
    pub fn refused_unseen(&self, now_ms: u64, counted: Counted, times: u64) {
        let mut state = self.state();
        state.fresh_refusals = state.fresh_refusals.saturating_add(times);
        state.count(counted, now_ms, times);
        state.only_counted(counted, now_ms, times);
    }

    /// A connection passes. The row as it is followed from now on; without a number when it is
    /// only counted.
    pub fn opened(&self, now_ms: u64, row: ActivityRow) -> Option<ActivityRow> {
        let mut state = self.state();
        state.count(Counted::Allowed, now_ms, 1);
        let row = ActivityRow {
            id: self.ids.next(now_ms),
            at_ms: now_ms,
            last_ms: now_ms,
            count: 1,
            outcome: Outcome::Open,
            ..row
        };
        if !state.allowed_rows.take(now_ms) || !self.sink.keep(&row) {
            state.only_counted(Counted::Allowed, now_ms, 1);
            return None;
        }
        self.sink.show(&row);
        Some(row)
    }

    /// What is known of a followed connection changed. A state that the store cannot take now is
    /// kept for the next flush: else a refused connection could stay open in the history.
    pub fn changed(&self, row: &ActivityRow) {
        let mut state = self.state();
        if self.sink.keep(row) {
            state.late.remove(&row.id);
        } else if state.late.len() < LATE || state.late.contains_key(&row.id) {
            state.late.insert(row.id, row.clone());
        } else {
            tracing::warn!(id = row.id, "the history lacks the end of a connection");
            state.skipped = state.skipped.saturating_add(1);
        }
        self.sink.show(row);
    }

    /// A followed connection moved on; this is shown, and not worth a write.
    pub fn moved(&self, row: &ActivityRow) {
        self.sink.show(row);
    }

    /// A connection that had passed was refused after all: it counts as that, and no longer as
    /// passed. `only_counted_at` is when it passed, if it has no row.
    pub fn refused_after_all(&self, now_ms: u64, counted: Counted, only_counted_at: Option<u64>) {
        let mut state = self.state();
        if let Some(count) = state.counts.get_mut(&Counted::Allowed) {
            count.tally.total = count.tally.total.saturating_sub(1);
            if let Some(at_ms) = only_counted_at {
                count.tally.only_counted = count.tally.only_counted.saturating_sub(1);
                if let Some(flood) = count.floods.get_mut(&slot_of(at_ms)) {
                    flood.count = flood.count.saturating_sub(1);
                    flood.changed = true;
                }
            }
            count.changed = true;
        }
        state.fresh_refusals = state.fresh_refusals.saturating_add(1);
        state.count(counted, now_ms, 1);
        if only_counted_at.is_some() {
            state.only_counted(counted, now_ms, 1);
        }
    }

    /// What the session's network did so far; what waits is not known here.
    #[must_use]
    pub fn counts(&self) -> NetworkCounts {
        self.state().network_counts()
    }

    /// Passes on what was held back. Called a few times a second while something happens, and at
    /// the end.
    pub fn flush(&self, now_ms: u64) {
        let mut state = self.state();
        for refusal in state.refusals.values_mut() {
            if refusal.changed {
                self.pass_on(refusal, now_ms);
            }
        }
        state
            .refusals
            .retain(|_, refusal| refusal.changed || refusal.row.at_ms + WINDOW_MS > now_ms);
        state.late.retain(|_, row| !self.sink.keep(row));
        let mut any = false;
        for (counted, count) in &mut state.counts {
            if std::mem::take(&mut count.changed) {
                any = true;
                self.sink.tally(&self.run, *counted, count.tally);
            }
            for (slot_ms, flood) in &mut count.floods {
                if std::mem::take(&mut flood.changed) {
                    self.sink.flood(&self.run, *counted, *slot_ms, flood.count);
                }
            }
            while count.floods.len() > SLOTS {
                count.floods.pop_first();
            }
        }
        let skipped = std::mem::take(&mut state.skipped);
        if skipped > 0 {
            self.sink.skipped(skipped);
        }
        if any {
            let fresh = std::mem::take(&mut state.fresh_refusals);
            self.sink.counts(&self.run, state.network_counts(), fresh);
        }
    }

    /// Whether something is held back.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        let state = self.state();
        state.counts.values().any(|count| count.changed)
            || state.refusals.values().any(|refusal| refusal.changed)
            || !state.late.is_empty()
    }

    /// Keeps it for the next flush where it was not taken.
    fn pass_on(&self, refusal: &mut Refusal, now_ms: u64) {
        if self.sink.keep(&refusal.row) {
            self.sink.show(&refusal.row);
            refusal.changed = false;
            refusal.told_ms = now_ms;
        }
    }
}

impl State {
    fn count(&mut self, counted: Counted, now_ms: u64, times: u64) {
        let count = self.counts.entry(counted).or_default();
        count.tally.total = count.tally.total.saturating_add(times);
        count.tally.last_ms = now_ms;
        count.changed = true;
    }

    fn only_counted(&mut self, counted: Counted, now_ms: u64, times: u64) {
        self.skipped = self.skipped.saturating_add(times);
        let count = self.counts.entry(counted).or_default();
        count.tally.only_counted = count.tally.only_counted.saturating_add(times);
        let flood = count.floods.entry(slot_of(now_ms)).or_default();
        flood.count = flood.count.saturating_add(times);
        flood.changed = true;
    }

    fn network_counts(&self) -> NetworkCounts {
        let mut counts = NetworkCounts::default();
        for (counted, count) in &self.counts {
            match counted {
                Counted::Allowed => counts.allowed += count.tally.total,
                Counted::Refused(_) => counts.refused += count.tally.total,
                // No connections.
                Counted::File | Counted::Exec => {}
            }
        }
        counts
    }
}

/// The beginning of the slot that a time lies in.
fn slot_of(at_ms: u64) -> u64 {
    at_ms - at_ms % super::FLOOD_SLOT_MS
}

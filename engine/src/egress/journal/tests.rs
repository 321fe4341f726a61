use super::*;
use crate::api::ConnectionDetail;
use crate::egress::gate::Route;
use crate::events::Evidence;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps what it is given.
#[derive(Default)]
pub(in crate::egress) struct Kept {
    pub(in crate::egress) rows: Mutex<BTreeMap<i64, ActivityRow>>,
    pub(in crate::egress) tallies: Mutex<BTreeMap<Counted, Tally>>,
    floods: Mutex<BTreeMap<(Counted, u64), u64>>,
    pub(in crate::egress) counts: Mutex<(NetworkCounts, u64)>,
    writes: Mutex<usize>,
    full: AtomicBool,
}

impl Sink for Kept {
    fn keep(&self, row: &ActivityRow) -> bool {
        if self.full.load(Ordering::SeqCst) {
            return false;
        }
        *self.writes.lock().unwrap() += 1;
        self.rows.lock().unwrap().insert(row.id, row.clone());
        true
    }

    fn show(&self, _row: &ActivityRow) {}

    fn skipped(&self, _rows: u64) {}

    fn tally(&self, _run: &SessionRun, counted: Counted, tally: Tally) {
        self.tallies.lock().unwrap().insert(counted, tally);
    }

    fn flood(&self, _run: &SessionRun, counted: Counted, at_ms: u64, count: u64) {
        let slot = at_ms - at_ms % FLOOD_SLOT_MS;
        self.floods.lock().unwrap().insert((counted, slot), count);
    }

    fn counts(&self, _run: &SessionRun, counts: NetworkCounts, fresh_refusals: u64) {
        let mut kept = self.counts.lock().unwrap();
        *kept = (counts, kept.1 + fresh_refusals);
    }
}

impl Kept {
    /// Attempts that have a row.
    pub(in crate::egress) fn in_rows(&self) -> u64 {
        let rows = self.rows.lock().unwrap();
        rows.values().map(|row| u64::from(row.count)).sum()
    }

    fn all(&self) -> (u64, u64) {
        let tallies = self.tallies.lock().unwrap();
        tallies.values().fold((0, 0), |(total, only), tally| {
            (total + tally.total, only + tally.only_counted)
        })
    }
}

const NOT_LISTED: Counted = Counted::Refused(Some(DenyReason::NotListed));

fn journal(kept: &Arc<Kept>) -> Journal {
    let run = SessionRun {
        id: "s".into(),
        since_ms: 0,
    };
    Journal::new(
        run,
        Arc::new(RowIds::of_process()),
        Arc::clone(kept) as Arc<dyn Sink>,
    )
}

fn row(target: &str) -> ActivityRow {
    ActivityRow {
        id: 0,
        session_id: "s".to_owned(),
        at_ms: 0,
        last_ms: 0,
        outcome: Outcome::Refused,
        action: "network-outbound".to_owned(),
        target: target.to_owned(),
        unicode: None,
        why: String::new(),
        way_out: None,
        count: 1,
        process: None,
        evidence: Evidence::Observed,
        raw: None,
        connection: Some(ConnectionDetail {
            connection: 1,
            host: target.to_owned(),
            port: 443,
            route: Route::Connect,
            address: None,
            bytes_up: 0,
            bytes_down: 0,
            duration_ms: None,
            allowed: None,
            denied: Some(DenyReason::NotListed),
        }),
        file: None,
    }
}

#[test]
fn equal_refusals_are_one_row_in_each_window_and_few_writes() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    for now in 0..25_000 {
        journal.refused(now, row("a"));
    }
    assert!(journal.holds_back());
    journal.flush(25_000);
    assert!(!journal.holds_back());
    let rows: Vec<_> = kept.rows.lock().unwrap().values().cloned().collect();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.at_ms, row.last_ms, row.count))
        .collect();
    assert_eq!(
        seen,
        [
            (0, 9_999, 10_000),
            (10_000, 19_999, 10_000),
            (20_000, 24_999, 5_000)
        ]
    );
    assert!(*kept.writes.lock().unwrap() < 300);
    let counts = NetworkCounts {
        allowed: 0,
        refused: 25_000,
        waiting: 0,
    };
    assert_eq!(*kept.counts.lock().unwrap(), (counts, 25_000));
}

#[test]
fn another_process_target_or_reason_is_another_row() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    let mut other = row("a");
    if let Some(detail) = &mut other.connection {
        detail.denied = Some(DenyReason::Timeout);
    }
    for row in [row("a"), row("b"), other, row("a")] {
        journal.refused(5, row);
    }
    assert_eq!(kept.rows.lock().unwrap().len(), 3);
}

#[test]
fn what_was_refused_several_times_is_one_row_with_that_count_and_files_are_no_connections() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    let of = |action: &str| ActivityRow {
        action: action.to_owned(),
        connection: None,
        ..row("/w/.env")
    };
    journal.refused_times(5, 7, of("file-write-create"));
    journal.refused_times(6, 3, of("file-write-create"));
    journal.refused(6, of("process-exec"));
    journal.refused_unseen(7, Counted::File, 1_000);
    journal.flush(8);
    let counts: Vec<u32> = kept
        .rows
        .lock()
        .unwrap()
        .values()
        .map(|row| row.count)
        .collect();
    assert_eq!(counts, [10, 1]);
    assert_eq!(kept.all(), (1_011, 1_000));
    let tallies = kept.tallies.lock().unwrap();
    assert_eq!(tallies[&Counted::File].total, 1_010);
    assert_eq!(tallies[&Counted::Exec].total, 1);
    let floods = kept.floods.lock().unwrap().clone();
    assert_eq!(floods, [((Counted::File, 0), 1_000)].into());
    assert_eq!(
        *kept.counts.lock().unwrap(),
        (NetworkCounts::default(), 1_011)
    );
}

#[test]
fn a_flood_of_distinct_refusals_is_bounded_and_counted_to_the_last() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    for number in 0..100_000_u64 {
        journal.refused(number / 10, row(&format!("h{number}")));
        if number % 2_500 == 0 {
            journal.flush(number / 10);
        }
    }
    journal.flush(10_000);
    let rows = u64::try_from(kept.rows.lock().unwrap().len()).unwrap();
    // Five hundred at once, and fifty in each of the ten seconds.
    assert!((500..=1_024).contains(&rows), "{rows}");
    assert_eq!(kept.all(), (100_000, 100_000 - rows));
    let floods: u64 = kept.floods.lock().unwrap().values().sum();
    assert_eq!(floods, 100_000 - rows);
    assert_eq!(kept.in_rows(), rows);
}

#[test]
fn what_cannot_be_kept_is_counted_and_what_changed_is_kept_later() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    journal.refused(0, row("a"));
    kept.full.store(true, Ordering::SeqCst);
    journal.refused(500, row("a"));
    journal.refused(500, row("b"));
    assert!(journal.opened(500, row("c")).is_none());
    journal.flush(600);
    assert!(journal.holds_back());
    kept.full.store(false, Ordering::SeqCst);
    journal.flush(700);
    assert!(!journal.holds_back());
    assert_eq!(kept.in_rows(), 2);
    assert_eq!(kept.all(), (4, 2));
}

#[test]
fn a_connection_refused_after_all_counts_once_as_that() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    assert!(journal.opened(1, row("a")).is_some());
    assert!(journal.opened(1, row("b")).is_some());
    let server_name = Counted::Refused(Some(DenyReason::ServerName));
    journal.refused_after_all(2, server_name, None);
    journal.flush(3);
    let counts = journal.counts();
    assert_eq!((counts.allowed, counts.refused), (1, 1));
    let tallies = kept.tallies.lock().unwrap();
    assert_eq!(tallies[&server_name].total, 1);
    assert_eq!(tallies[&Counted::Allowed].total, 1);
    assert!(!tallies.contains_key(&NOT_LISTED));
}

#[test]
fn a_flood_across_a_minute_is_counted_in_both_and_one_refused_after_all_moves() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    kept.full.store(true, Ordering::SeqCst);
    let slots = [FLOOD_SLOT_MS, 2 * FLOOD_SLOT_MS];
    for (at_ms, count) in [(slots[1] - 1, 3), (slots[1], 2)] {
        for _ in 0..count {
            assert!(journal.opened(at_ms, row("a:443")).is_none());
        }
    }
    let server_name = Counted::Refused(Some(DenyReason::ServerName));
    journal.refused_after_all(slots[1] + 1, server_name, Some(slots[1] - 1));
    journal.flush(slots[1] + 2);
    let floods = kept.floods.lock().unwrap().clone();
    let expected = [
        ((Counted::Allowed, slots[0]), 2),
        ((Counted::Allowed, slots[1]), 2),
        ((server_name, slots[1]), 1),
    ];
    assert_eq!(floods, expected.into());
    assert_eq!(kept.all(), (5, 5));
}

#[test]
fn the_end_of_a_connection_waits_for_a_store_that_is_full() {
    let kept = Arc::new(Kept::default());
    let journal = journal(&kept);
    let mut open = journal.opened(1, row("a:443")).unwrap();
    kept.full.store(true, Ordering::SeqCst);
    open.outcome = Outcome::Refused;
    journal.changed(&open);
    journal.flush(2);
    assert_eq!(kept.rows.lock().unwrap()[&open.id].outcome, Outcome::Open);
    assert!(journal.holds_back());
    kept.full.store(false, Ordering::SeqCst);
    journal.flush(3);
    assert_eq!(
        kept.rows.lock().unwrap()[&open.id].outcome,
        Outcome::Refused
    );
    assert!(!journal.holds_back());
}

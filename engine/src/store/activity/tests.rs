use super::*;
use crate::api::Outcome;
use crate::api::{
    ActivityKind, ActivityQuery, ActivityRow, Actor, ConnectionDetail, ExportFormat, FileDetail,
};
use crate::egress::gate::Route;
use crate::egress::journal::{Counted, FLOOD_SLOT_MS, SessionRun, Tally};
use crate::events::{Evidence, RefusalRule};
use crate::store::tests::{database, end, start};
use crate::store::{Dirs, Store};
use rusqlite::Connection;
use std::path::Path;

fn refused(id: i64, session: &str, host: &str) -> ActivityRow {
    let at_ms = u64::try_from(id).unwrap() * 10;
    ActivityRow {
        id,
        session_id: session.to_owned(),
        at_ms,
        last_ms: at_ms,
        outcome: Outcome::Refused,
        action: "network-outbound".to_owned(),
        target: format!("{host}:443"),
        unicode: None,
        why: "not on the allowlist".to_owned(),
        way_out: Some(format!("allow {host}:443")),
        count: 1,
        process: Some(Actor {
            pid: 7,
            name: "curl".to_owned(),
            executable: Some("/usr/bin/curl".to_owned()),
            command: "curl, \"x\"\n".to_owned(),
            cwd: None,
            parents: vec!["sh".to_owned()],
        }),
        evidence: Evidence::Observed,
        raw: None,
        connection: Some(ConnectionDetail {
            connection: 1,
            host: host.to_owned(),
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

fn passed(id: i64, session: &str, host: &str, outcome: Outcome) -> ActivityRow {
    let mut row = refused(id, session, host);
    row.outcome = outcome;
    if let Some(detail) = &mut row.connection {
        detail.denied = None;
    }
    row
}

fn file_read(id: i64, session: &str) -> ActivityRow {
    ActivityRow {
        action: "file-read-data".to_owned(),
        target: "/home/u/.ssh/id".to_owned(),
        connection: None,
        process: None,
        file: Some(FileDetail {
            call: "openat".to_owned(),
            error: "EACCES".to_owned(),
            other: Some("=2+2".to_owned()),
            rule: RefusalRule::Secret {
                path: "/home/u/.ssh".to_owned(),
            },
            sentence: "a secret, which no session can read".to_owned(),
            exact: true,
            approvable: false,
        }),
        ..refused(id, session, "x")
    }
}

fn run(id: &str) -> SessionRun {
    SessionRun {
        id: id.into(),
        since_ms: 1,
    }
}

fn query(session: &str) -> ActivityQuery {
    ActivityQuery {
        session_id: Some(session.to_owned()),
        ..ActivityQuery::default()
    }
}

fn ids(store: &Store, query: &ActivityQuery) -> Vec<i64> {
    let page = store.activity(query).unwrap();
    page.rows.iter().map(|row| row.id).collect()
}

#[test]
fn a_row_is_read_back_whole_by_a_later_engine_in_its_last_state() {
    let root = tempfile::tempdir().unwrap();
    let first = refused(5, "s", "a.example.com");
    let mut last = first.clone();
    last.count = 9;
    last.last_ms += 500;
    {
        let store = open_clean(root.path());
        let recorder = store.recorder();
        assert!(recorder.row(&first));
        assert!(store.flush());
        assert_eq!(
            store.activity(&query("s")).unwrap().rows,
            vec![first.clone()]
        );
        assert!(recorder.row(&last));
    }
    let store = open_clean(root.path());
    let page = store.activity(&query("s")).unwrap();
    assert_eq!((page.rows, page.more), (vec![last], false));
    assert_eq!(page.bound, "100000 days or 200,000 rows");
    let usual = HistoryBound::default().in_words();
    assert_eq!(usual, "30 days or 200,000 rows");
}

#[test]
fn every_filter_keeps_what_it_names_and_pages_go_back_to_the_first_row() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    let recorder = store.recorder();
    for row in [
        refused(1, "s", "a.example.com"),
        passed(2, "s", "b.example.com", Outcome::Allowed),
        refused(3, "t", "a.example.com"),
        file_read(4, "s"),
        passed(5, "s", "c.example.com", Outcome::Open),
    ] {
        assert!(recorder.row(&row));
    }
    let all = ActivityQuery::default();
    assert_eq!(ids(&store, &all), [5, 4, 3, 2, 1]);
    assert_eq!(ids(&store, &query("s")), [5, 4, 2, 1]);
    let with = |change: &dyn Fn(&mut ActivityQuery)| {
        let mut query = ActivityQuery::default();
        change(&mut query);
        ids(&store, &query)
    };
    assert_eq!(with(&|query| query.refused_only = true), [4, 3, 1]);
    let kind = |kind| with(&|query| query.kind = Some(kind));
    assert_eq!(kind(ActivityKind::Network), [5, 3, 2, 1]);
    assert_eq!(kind(ActivityKind::Files), [4]);
    assert_eq!(kind(ActivityKind::Exec), [] as [i64; 0]);
    let mut program = file_read(6, "s");
    program.action = "process-exec".to_owned();
    let other = open_clean(tempfile::tempdir().unwrap().path());
    assert!(other.recorder().row(&program));
    let programs = ActivityQuery {
        kind: Some(ActivityKind::Exec),
        ..ActivityQuery::default()
    };
    assert_eq!(ids(&other, &programs), [6]);
    assert_eq!(with(&|query| query.action = Some("file-".to_owned())), [4]);
    assert_eq!(
        with(&|query| query.process = Some("CUR".to_owned())),
        [5, 3, 2, 1]
    );
    assert_eq!(
        with(&|query| query.target = Some("A.example".to_owned())),
        [3, 1]
    );
    assert_eq!(with(&|query| query.from_ms = Some(40)), [5, 4]);
    assert_eq!(with(&|query| query.to_ms = Some(20)), [2, 1]);
    // A pattern is text here, not SQL.
    assert!(with(&|query| query.target = Some("%".to_owned())).is_empty());

    let mut page = ActivityQuery {
        limit: 2,
        ..ActivityQuery::default()
    };
    let first = store.activity(&page).unwrap();
    assert!(first.more);
    page.before = Some(first.rows[1].id);
    assert_eq!(ids(&store, &page), [3, 2]);
    page.before = Some(2);
    let last = store.activity(&page).unwrap();
    assert_eq!((last.rows.len(), last.more), (1, false));
    assert!(store.allowed_before("b.example.com").unwrap());
    assert!(store.allowed_before("c.example.com").unwrap());
    assert!(!store.allowed_before("a.example.com").unwrap());
}

#[test]
fn two_engines_that_took_one_number_keep_both_rows_and_their_changes() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    let other = open_clean(root.path());
    let mut theirs = refused(7, "t", "b.example.com");
    assert!(store.recorder().row(&refused(7, "s", "a.example.com")));
    assert!(store.flush());
    assert!(other.recorder().row(&theirs));
    assert!(other.flush());
    theirs.count = 3;
    assert!(other.recorder().row(&theirs));
    assert!(other.flush());
    let found: Vec<_> = store
        .activity(&ActivityQuery::default())
        .unwrap()
        .rows
        .into_iter()
        .map(|row| (row.id, row.session_id, row.count))
        .collect();
    assert_eq!(found, [(8, "t".to_owned(), 3), (7, "s".to_owned(), 1)]);
}

#[test]
fn what_has_no_row_is_counted_in_totals_pages_and_the_timeline() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    let recorder = store.recorder();
    assert!(recorder.row(&refused(1, "s", "a.example.com")));
    let not_listed = Counted::Refused(Some(DenyReason::NotListed));
    let tally = |total, only_counted| Tally {
        total,
        only_counted,
        last_ms: 10,
    };
    // Each write replaces the one before.
    recorder.tally(&run("s"), not_listed, tally(50, 40));
    recorder.tally(&run("s"), not_listed, tally(101, 100));
    recorder.tally(&run("s"), Counted::Allowed, tally(3, 0));
    recorder.flood(&run("s"), not_listed, 10, 60);
    recorder.flood(&run("s"), not_listed, 10, 100);
    let second_run = SessionRun {
        id: "s".into(),
        since_ms: 90,
    };
    recorder.tally(&second_run, Counted::Allowed, tally(2, 0));
    let totals = store.totals("s").unwrap();
    assert_eq!(
        (totals.allowed, totals.refused, totals.only_counted),
        (5, 101, 100)
    );
    assert_eq!(totals.reasons, [(Some(DenyReason::NotListed), 101)]);
    assert_eq!(store.totals("other").unwrap(), SessionTotals::default());

    let counted = |query: &ActivityQuery| store.activity(query).unwrap().only_counted;
    assert_eq!(counted(&query("s")), 100);
    assert_eq!(counted(&query("other")), 0);
    let later = ActivityQuery {
        from_ms: Some(FLOOD_SLOT_MS),
        ..query("s")
    };
    assert_eq!(counted(&later), 0);
    let by_target = ActivityQuery {
        target: Some("a".to_owned()),
        ..query("s")
    };
    assert_eq!(counted(&by_target), 0);

    let timeline = store.timeline(Some("s"), 0, FLOOD_SLOT_MS, 6).unwrap();
    assert_eq!(timeline.refused.iter().sum::<u32>(), 101);
    assert!(timeline.refused.iter().all(|step| *step >= 16));
    assert_eq!(timeline.hosts.len(), 1);
    assert_eq!(timeline.hosts[0].target, "a.example.com:443");
    assert_eq!(timeline.hosts[0].steps, [1, 0, 0, 0, 0, 0]);
    let other = store.timeline(Some("other"), 0, FLOOD_SLOT_MS, 6).unwrap();
    assert_eq!(other.refused, [0; 6]);
}

#[test]
fn refused_files_and_programs_are_counted_apart_from_connections() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    let recorder = store.recorder();
    assert!(recorder.row(&file_read(1, "s")));
    let tally = |total, only_counted| Tally {
        total,
        only_counted,
        last_ms: 10,
    };
    recorder.tally(&run("s"), Counted::File, tally(41, 40));
    recorder.tally(&run("s"), Counted::Exec, tally(7, 5));
    recorder.tally(&run("s"), Counted::Refused(None), tally(3, 1));
    recorder.flood(&run("s"), Counted::File, 10, 40);
    let totals = store.totals("s").unwrap();
    assert_eq!((totals.refused, totals.files, totals.programs), (3, 41, 7));
    assert_eq!((totals.only_counted, totals.reasons), (46, vec![(None, 3)]));
    for (kind, counted) in [
        (None, 46),
        (Some(ActivityKind::Network), 1),
        (Some(ActivityKind::Files), 40),
        (Some(ActivityKind::Exec), 5),
    ] {
        let query = ActivityQuery { kind, ..query("s") };
        assert_eq!(store.activity(&query).unwrap().only_counted, counted);
    }
    // A picture of connections shows none of it.
    let timeline = store.timeline(Some("s"), 0, FLOOD_SLOT_MS, 6).unwrap();
    assert_eq!((timeline.refused, timeline.hosts), (vec![0; 6], vec![]));
    assert_eq!(timeline.files.iter().sum::<u32>(), 41);
}

#[test]
fn the_most_refused_hosts_come_first_and_at_most_twenty() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    for number in 1..=25_u32 {
        let mut row = refused(i64::from(number), "s", &format!("h{number}.example.com"));
        row.count = number;
        assert!(store.recorder().row(&row));
    }
    let timeline = store.timeline(None, 0, 1_000, 10).unwrap();
    let counts: Vec<u32> = timeline.hosts.iter().map(|host| host.count).collect();
    let expected: Vec<u32> = (6..=25).rev().collect();
    assert_eq!(counts, expected);
    assert_eq!(timeline.refused.iter().sum::<u32>(), (1..=25).sum::<u32>());
    assert_eq!(timeline.allowed, [0; 10]);
}

/// Rows of these tests lie at the beginning of the epoch, and are kept all the same.
fn open_clean(root: &Path) -> Store {
    bounded(root, 100_000, 200_000)
}

fn bounded(root: &Path, days: u32, rows: u32) -> Store {
    let bound = HistoryBound { days, rows };
    let (store, problems) = Store::open_with(&Dirs::under(root), bound);
    assert_eq!(problems, vec![]);
    store
}

fn now() -> u64 {
    crate::store::writer::now_ms()
}

#[test]
fn past_its_bound_the_history_lets_old_rows_go_and_goes_on_counting_them() {
    let root = tempfile::tempdir().unwrap();
    let store = bounded(root.path(), 30, 10);
    let recorder = store.recorder();
    let not_listed = Counted::Refused(Some(DenyReason::NotListed));
    let mut open = passed(1, "s", "open.example.com", Outcome::Open);
    open.at_ms = now();
    open.last_ms = now();
    assert!(recorder.row(&open));
    for id in 2..=30 {
        let mut row = refused(id, "s", &format!("h{id}.example.com"));
        row.at_ms = now();
        row.last_ms = now();
        row.count = 2;
        assert!(recorder.row(&row));
    }
    let mut old = refused(31, "s", "old.example.com");
    old.at_ms = 5;
    old.last_ms = 5;
    assert!(recorder.row(&old));
    let tally = Tally {
        total: 59,
        only_counted: 0,
        last_ms: now(),
    };
    recorder.tally(&run("s"), not_listed, tally);
    assert!(store.flush());
    // Of the ten newest numbers the one that is too old went too; what is open stays.
    let expected: Vec<i64> = (22..=30).rev().chain([1]).collect();
    assert_eq!(ids(&store, &query("s")), expected);
    let totals = store.totals("s").unwrap();
    assert_eq!(totals.refused, 59);
    assert_eq!(totals.only_counted, 59 - 9 * 2);
    assert_eq!(store.activity(&query("s")).unwrap().only_counted, 41);
    // Later counts of the same session leave what went as it is.
    recorder.tally(&run("s"), not_listed, Tally { total: 60, ..tally });
    assert_eq!(store.totals("s").unwrap().only_counted, 41);
}

#[test]
fn while_nothing_can_be_written_rows_are_bounded_shown_and_written_later() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    assert!(store.flush());
    let blocker = Connection::open(database(root.path())).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let recorder = store.recorder();
    let mut taken = Vec::new();
    for id in 1..=20_000 {
        if recorder.row(&refused(id, "s", "a.example.com")) {
            taken.push(id);
        }
    }
    // No call waited, and what was not taken was said.
    assert!((8_192..20_000).contains(&taken.len()), "{}", taken.len());
    // A row that waits can still change.
    let last = *taken.last().unwrap();
    assert!(recorder.row(&refused(last, "s", "a.example.com")));
    blocker.execute_batch("ROLLBACK").unwrap();
    assert!(store.flush());
    let count: u32 = blocker
        .query_row("SELECT count(*) FROM activity", [], |row| row.get(0))
        .unwrap();
    assert_eq!(usize::try_from(count).unwrap(), taken.len());
}

#[test]
fn connections_of_an_engine_that_went_away_are_open_no_more() {
    let root = tempfile::tempdir().unwrap();
    {
        let store = open_clean(root.path());
        store.session_started(start("s"));
        store.session_started(start("alive"));
        assert!(
            store
                .recorder()
                .row(&passed(1, "s", "a.example.com", Outcome::Open))
        );
        assert!(
            store
                .recorder()
                .row(&passed(2, "alive", "a.example.com", Outcome::Open))
        );
        store.session_ended("s", end(0));
    }
    let store = open_clean(root.path());
    let outcome = |session: &str| store.activity(&query(session)).unwrap().rows[0].outcome;
    assert_eq!(outcome("s"), Outcome::Allowed);
    // This process is the engine of the other one, and it runs.
    assert_eq!(outcome("alive"), Outcome::Open);
}

#[test]
fn an_export_holds_every_row_and_no_cell_that_a_spreadsheet_would_run() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    for id in 1..=2_500 {
        let mut row = refused(id, "s", "a.example.com");
        row.why = "=HYPERLINK(\"http://evil\")".to_owned();
        row.raw = Some("-5".to_owned());
        assert!(store.recorder().row(&row));
    }
    let path = root.path().join("out.jsonl");
    let count = store
        .export_activity(&query("s"), ExportFormat::JsonLines, &path)
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let rows: Vec<ActivityRow> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((count, rows.len()), (2_500, 2_500));
    assert_eq!(rows[2_499].id, 1);

    let path = root.path().join("out.csv");
    let one = ActivityQuery {
        to_ms: Some(10),
        ..query("s")
    };
    store
        .export_activity(&one, ExportFormat::Csv, &path)
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let (header, line) = text.split_once("\r\n").unwrap();
    assert!(header.starts_with("id,session,first_ms,"), "{header}");
    assert_eq!(
        line,
        "1,s,10,10,refused,network-outbound,a.example.com:443,,\
         \"'=HYPERLINK(\"\"http://evil\"\")\",allow a.example.com:443,1,curl,7,/usr/bin/curl,\
         \"curl, \"\"x\"\"\n\",observed,connect,,0,0,,,,,,,,,,-5\r\n"
    );
    assert!(store.recorder().row(&file_read(2_501, "files")));
    store
        .export_activity(&query("files"), ExportFormat::Csv, &path)
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let end = "observed,,,,,,,,openat,EACCES,\"'=2+2\",secret,/home/u/.ssh,\
               \"a secret, which no session can read\",\r\n";
    assert!(text.ends_with(end), "{text}");
    let failed = store.export_activity(&one, ExportFormat::Csv, Path::new("/proc/none/out.csv"));
    let code = crate::error::Coded::code(&failed.unwrap_err());
    assert_eq!(code, "EXPORT_FAILED");
}

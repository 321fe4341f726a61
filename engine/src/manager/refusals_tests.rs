use super::*;
use crate::api::{ActivityKind, ActivityQuery, NetworkCounts};
use crate::egress::ask::SystemClock;
use crate::egress::journal::{RowIds, SessionRun, Sink, Tally};
use crate::events::{Evidence, Received, Subscription};
use crate::process::control_pair;
use crate::process::guard_link::GuardLink;
use crate::store::{Dirs, Recorder, Store};
use kotak_guard::proto::{Event, Request, Rule, Violation};
use kotak_guard::wire::{Receiver, send};
use std::sync::Mutex;

/// The history, and how many refusals are news.
struct ToStore {
    recorder: Recorder,
    fresh: Mutex<u64>,
    shown: Mutex<u64>,
}

impl Sink for ToStore {
    fn keep(&self, row: &ActivityRow) -> bool {
        self.recorder.row(row)
    }

    fn show(&self, _row: &ActivityRow) {
        *self.shown.lock().unwrap() += 1;
    }

    fn skipped(&self, _rows: u64) {}

    fn tally(&self, run: &SessionRun, counted: Counted, tally: Tally) {
        self.recorder.tally(run, counted, tally);
    }

    fn flood(&self, run: &SessionRun, counted: Counted, at_ms: u64, count: u64) {
        self.recorder.flood(run, counted, at_ms, count);
    }

    fn counts(&self, _run: &SessionRun, counts: NetworkCounts, fresh_refusals: u64) {
        assert_eq!(counts, NetworkCounts::default());
        *self.fresh.lock().unwrap() += fresh_refusals;
    }
}

/// A guard that says these and ends, and what became of it.
struct Scene {
    _root: tempfile::TempDir,
    store: Store,
    sink: Arc<ToStore>,
    events: Subscription<(String, SandboxEvent)>,
}

impl Scene {
    async fn with(violations: Vec<Violation>, always_refused: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (store, problems) = Store::open(&Dirs::under(root.path()));
        assert_eq!(problems, []);
        let sink = Arc::new(ToStore {
            recorder: store.recorder(),
            fresh: Mutex::default(),
            shown: Mutex::default(),
        });
        let (own, guard) = control_pair().unwrap();
        std::thread::spawn(move || {
            for violation in violations {
                send(&guard, &Event::Violation(Box::new(violation)), &[]).unwrap();
            }
        });
        let bus = Arc::new(Events::new(1024));
        let events = bus.subscribe();
        let link = GuardLink::new(own).unwrap();
        let run = SessionRun {
            id: "s".into(),
            since_ms: 1,
        };
        let recording = Recording {
            session: "s".to_owned(),
            journal: Arc::new(Journal::new(
                run,
                Arc::new(RowIds::of_process()),
                Arc::clone(&sink) as _,
            )),
            clock: Arc::new(SystemClock::default()),
            events: bus,
            always_refused: always_refused
                .iter()
                .map(|path| path.as_bytes().to_vec())
                .collect(),
        };
        // It ends by itself, with the link.
        recording.run(link.take_violations().unwrap()).await;
        assert!(link.take_violations().is_none());
        assert!(store.flush());
        Self {
            _root: root,
            store,
            sink,
            events,
        }
    }

    fn rows(&self, kind: Option<ActivityKind>) -> Vec<ActivityRow> {
        let query = ActivityQuery {
            kind,
            ..ActivityQuery::default()
        };
        self.store.activity(&query).unwrap().rows
    }
}

fn created(name: &str) -> Violation {
    Violation {
        path: format!("/w/{name}").into_bytes(),
        ..crate::events::tests::seen()
    }
}

fn program(path: &str) -> Violation {
    Violation {
        action: FileAction::Exec,
        path: path.as_bytes().to_vec(),
        rule: Rule::Exec,
        call: "execve".to_owned(),
        observed: false,
        ..created("x")
    }
}

#[tokio::test]
async fn what_the_guard_refuses_is_in_the_history_and_told_with_who_and_by_which_rule() {
    // REQ UI-5, SP (SandboxViolation)
    let mut scene = Scene::with(vec![created(".env"), program("/w/run")], &[]).await;
    let [run] = &scene.rows(Some(ActivityKind::Exec))[..] else {
        panic!("not one program");
    };
    assert_eq!(
        (run.target.as_str(), run.evidence),
        ("/w/run", Evidence::Inferred)
    );
    let detail = run.file.as_ref().unwrap();
    assert!(detail.approvable && detail.exact);
    let [file] = &scene.rows(Some(ActivityKind::Files))[..] else {
        panic!("not one file");
    };
    assert_eq!(file.action, "file-write-create");
    assert_eq!(file.why, "filename rule .env");
    let actor = file.process.as_ref().unwrap();
    assert_eq!((actor.pid, actor.command.as_str()), (7, "node setup.js"));
    assert_eq!(actor.executable.as_deref(), Some("/usr/bin/node"));
    let detail = file.file.as_ref().unwrap();
    assert_eq!(
        detail.rule,
        RefusalRule::Name {
            glob: ".env".to_owned()
        }
    );
    assert_eq!(
        (detail.call.as_str(), detail.error.as_str()),
        ("openat", "EACCES")
    );
    assert!(!detail.approvable);
    let Some(Received::Event((session, SandboxEvent::Violation(told)))) = scene.events.try_next()
    else {
        panic!("nothing was told");
    };
    assert_eq!((session.as_str(), told.target.as_str()), ("s", "/w/.env"));
    assert_eq!(*scene.sink.fresh.lock().unwrap(), 2);
    let totals = scene.store.totals("s").unwrap();
    assert_eq!((totals.files, totals.programs, totals.refused), (1, 1, 0));
}

#[tokio::test]
async fn a_program_that_never_runs_offers_no_folder_to_approve() {
    let scene = Scene::with(vec![program("/usr/bin/bwrap")], &["/usr/bin/bwrap"]).await;
    let row = &scene.rows(None)[0];
    assert!(!row.file.as_ref().unwrap().approvable);
    assert_eq!(row.way_out, None);
    assert_eq!(row.why, "never runs in a sandbox");
}

#[tokio::test]
async fn a_flood_is_bounded_in_rows_and_events_and_counted_to_the_last() {
    const FLOOD: u64 = 20_000;
    let flood = (0..FLOOD).map(|number| created(&format!("{number}.key")));
    let mut scene = Scene::with(flood.collect(), &[]).await;
    let totals = scene.store.totals("s").unwrap();
    assert_eq!(totals.files, FLOOD);
    let page = scene
        .store
        .activity(&ActivityQuery {
            limit: 1_000,
            ..ActivityQuery::default()
        })
        .unwrap();
    let in_rows = page.rows.len() as u64;
    assert!((1..=1_000).contains(&in_rows) && !page.more, "{in_rows}");
    assert_eq!(page.only_counted, FLOOD - in_rows);
    assert_eq!(*scene.sink.fresh.lock().unwrap(), FLOOD);
    let mut told = 0;
    while let Some(Received::Event((_, event))) = scene.events.try_next() {
        told += match event {
            SandboxEvent::Violation(violation) => violation.count,
            SandboxEvent::MoreViolations { count } => count,
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(told, FLOOD);
}

#[tokio::test]
async fn a_guard_that_floods_while_nobody_records_still_answers() {
    let (own, guard) = control_pair().unwrap();
    std::thread::spawn(move || {
        for number in 0..5_000 {
            let refused = created(&number.to_string());
            send(&guard, &Event::Violation(Box::new(refused)), &[]).unwrap();
        }
        let request = Receiver::default().recv::<Request>(&guard).unwrap();
        assert!(matches!(request, Some((Request::Freeze, _))));
        send(&guard, &Event::Frozen { processes: 3 }, &[]).unwrap();
        let _ = Receiver::default().recv::<Request>(&guard);
    });
    let link = GuardLink::new(own).unwrap();
    assert_eq!(link.freeze().await, Ok(Ok(3)));
    let mut violations = link.take_violations().unwrap();
    let refused = violations.next().await.unwrap();
    let counted: u64 = refused.only_counted.values().sum();
    assert_eq!(refused.violations.len() as u64 + counted, 5_000);
}

//! Sessions with a network policy, as a person starts them with `kotak run`, and what their history
//! says afterwards.

use kotak_engine::api::{ActivityRow, Outcome as Passed};
use kotak_engine::egress::decide::DenyReason;
use kotak_engine::store::Dirs;
use kotak_tests::net::{World, world};
use kotak_tests::{Outcome, Stage};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::Receiver;

/// A staged home, and the options that sessions in it are started with.
pub(crate) struct Sandbox {
    pub(crate) stage: Stage,
    options: Vec<String>,
}

impl Sandbox {
    /// Sessions with an allowlist: these domains besides the baseline.
    pub(crate) fn allowing(domains: &[&str]) -> Self {
        Self::new("allowlist", domains)
    }

    /// Sessions with a network mode and domains.
    pub(crate) fn new(network: &str, domains: &[&str]) -> Self {
        let stage = Stage::new();
        let authority = std::fs::read_to_string(world().ca_file()).expect("the authority");
        stage.write("work/ca.crt", &authority);
        stage.write("work/driver.py", include_str!("driver.py"));
        stage.write("work/websocket.py", crate::clients::WEBSOCKET);
        let mut options = vec!["--network".to_owned(), network.to_owned()];
        for domain in domains {
            options.extend(["--allow".to_owned(), (*domain).to_owned()]);
        }
        Self { stage, options }
    }

    /// The same sessions over a bridge of this name.
    pub(crate) fn over(mut self, bridge: &str) -> Self {
        self.options
            .extend(["--bridge".to_owned(), bridge.to_owned()]);
        self
    }

    /// The same sessions with further options.
    pub(crate) fn with(mut self, options: &[&str]) -> Self {
        self.options
            .extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// A script that trusts the authority of the stage.
    pub(crate) fn script(&self, script: &str) -> String {
        World::trust(&self.stage.work().join("ca.crt")) + script
    }

    /// The call that runs a script in a new session.
    pub(crate) fn call(&self, script: &str) -> kotak_tests::Kotak {
        self.stage
            .kotak()
            .args(["run", "--backend", "native", "--profile", "terminal"])
            .args(&self.options)
            .args(["--", "/bin/sh", "-c", &self.script(script)])
    }

    /// Runs a script in a new session.
    pub(crate) fn run(&self, script: &str) -> Outcome {
        self.call(script).run()
    }

    /// Kotak's own directories in this home.
    pub(crate) fn dirs(&self) -> Dirs {
        let home = self.stage.home();
        let state = home.join(".local/state/kotak");
        Dirs {
            run: state.join("run"),
            state,
            config: home.join(".config/kotak"),
            cache: home.join(".cache/kotak"),
        }
    }

    /// Starts a session that makes attempts on demand.
    pub(crate) fn driver(&self) -> Driver {
        let child = self.call("exec python3 driver.py").command().spawn();
        Driver::over(child.expect("kotak"))
    }

    /// Runs a command of `kotak` in this home, which must succeed.
    #[track_caller]
    pub(crate) fn kotak(&self, arguments: &[&str]) -> Outcome {
        let outcome = self.stage.kotak().args(arguments).run();
        assert!(outcome.succeeded(), "{arguments:?}: {outcome:?}");
        outcome
    }

    /// The history, oldest first, by `kotak log --json`.
    #[track_caller]
    pub(crate) fn log(&self) -> Log {
        let outcome = self.kotak(&["log", "--json", "--limit", "1000"]);
        let rows = outcome
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect();
        Log { rows }
    }
}

/// A history.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) rows: Vec<ActivityRow>,
}

impl Log {
    /// The refusals of a target, as `host:port`.
    pub(crate) fn refusals(&self, target: &str) -> Vec<&ActivityRow> {
        let refused = |row: &&ActivityRow| row.target == target && row.outcome == Passed::Refused;
        self.rows.iter().filter(refused).collect()
    }

    /// Asserts that a target was refused for this reason, by a process of this name, and that none
    /// of its refusals had another reason.
    #[track_caller]
    pub(crate) fn refused(&self, target: &str, reason: DenyReason, process: &str) {
        let rows = self.refusals(target);
        assert!(!rows.is_empty(), "no refusal of {target}: {:#?}", self.rows);
        for row in rows {
            let denied = row.connection.as_ref().and_then(|c| c.denied);
            assert_eq!(denied, Some(reason), "{row:#?}");
            let actor = row.process.as_ref().map(|actor| actor.name.as_str());
            assert_eq!(actor, Some(process), "{row:#?}");
        }
    }

    /// The same under so many attempts at once that not every process is looked up (the row says
    /// so where it was not).
    #[track_caller]
    pub(crate) fn refused_in_a_flood(&self, target: &str, reason: DenyReason, process: &str) {
        let rows = self.refusals(target);
        assert!(!rows.is_empty(), "no refusal of {target}: {:#?}", self.rows);
        for row in rows {
            let denied = row.connection.as_ref().and_then(|c| c.denied);
            assert_eq!(denied, Some(reason), "{row:#?}");
            match &row.process {
                Some(actor) => assert_eq!(actor.name, process, "{row:#?}"),
                None => {
                    let said = row.raw.as_deref().unwrap_or_default();
                    assert!(said.contains("too many attempts at once"), "{row:#?}");
                }
            }
        }
    }

    /// Asserts that a target passed at least once.
    #[track_caller]
    pub(crate) fn passed_somewhere(&self, target: &str) {
        let passed = |row: &ActivityRow| row.target == target && row.outcome == Passed::Allowed;
        let found = self.rows.iter().any(passed);
        assert!(found, "{target} did not pass: {:#?}", self.rows);
    }

    /// Asserts that a target passed, and that nothing to it was refused.
    #[track_caller]
    pub(crate) fn passed(&self, target: &str) {
        self.passed_somewhere(target);
        assert!(self.refusals(target).is_empty(), "{:#?}", self.rows);
    }
}

/// A session with `driver.py` in it.
pub(crate) struct Driver {
    /// `kotak`; absent where the session is one of this process's engine.
    child: Option<Child>,
    input: Option<Box<dyn Write + Send>>,
    answers: Receiver<String>,
    early: Vec<Value>,
    next: u64,
}

impl Driver {
    #[track_caller]
    fn over(mut child: Child) -> Self {
        let input = child.stdin.take().expect("standard input");
        let output = child.stdout.take().expect("standard output");
        Self::speaking(Some(child), Box::new(input), Box::new(output))
    }

    /// The driver at the other end of these streams.
    #[track_caller]
    pub(crate) fn speaking(
        child: Option<Child>,
        input: Box<dyn Write + Send>,
        output: Box<dyn Read + Send>,
    ) -> Self {
        let output = BufReader::new(output);
        let (sender, answers) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut driver = Self {
            child,
            input: Some(input),
            answers,
            early: Vec::new(),
            next: 0,
        };
        let first = driver.line();
        assert_eq!(first["ready"], json!(true), "the driver did not start");
        driver
    }

    #[track_caller]
    fn line(&mut self) -> Value {
        let line = self.answers.recv().unwrap_or_default();
        self.parsed(&line)
    }

    #[track_caller]
    fn parsed(&mut self, line: &str) -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| {
            let mut said = String::new();
            let stderr = self.child.as_mut().and_then(|child| child.stderr.take());
            if let Some(mut stderr) = stderr {
                let _ = stderr.read_to_string(&mut said);
            }
            panic!("the driver said {line:?} ({error}), and its session: {said}")
        })
    }

    /// Hands a job over; [`Self::wait`] has the answer.
    pub(crate) fn start(&mut self, mut job: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        job["id"] = json!(id);
        let input = self.input.as_mut().expect("a session that goes on");
        writeln!(input, "{job}")
            .and_then(|()| input.flush())
            .expect("the driver takes a job");
        id
    }

    /// Waits for the answer to a job.
    #[track_caller]
    pub(crate) fn wait(&mut self, id: u64) -> Value {
        loop {
            let is_it = |answer: &Value| answer["id"] == json!(id);
            if let Some(at) = self.early.iter().position(is_it) {
                return self.early.swap_remove(at);
            }
            let answer = self.line();
            self.early.push(answer);
        }
    }

    /// Whether a job is done.
    #[track_caller]
    pub(crate) fn is_answered(&mut self, id: u64) -> bool {
        while let Ok(line) = self.answers.try_recv() {
            let answer = self.parsed(&line);
            self.early.push(answer);
        }
        self.early.iter().any(|answer| answer["id"] == json!(id))
    }

    /// Makes one attempt and waits for what came of it.
    #[track_caller]
    pub(crate) fn ask(&mut self, job: Value) -> Value {
        let id = self.start(job);
        self.wait(id)
    }

    /// The process id of `kotak`.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or_else(std::process::id, Child::id)
    }

    /// Ends the session in good order.
    #[track_caller]
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        if let Some(child) = &mut self.child {
            let status = child.wait().expect("the session's end");
            assert!(status.success(), "{status}");
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Already gone after `end`; after a failed test this ends the session.
        drop(self.input.take());
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What the four routes say about one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdicts {
    pub(crate) connect: bool,
    pub(crate) socks: bool,
    pub(crate) transparent: bool,
    pub(crate) dns: bool,
}

impl Verdicts {
    pub(crate) const ALL: Self = Self::same(true);
    pub(crate) const NONE: Self = Self::same(false);

    pub(crate) const fn same(verdict: bool) -> Self {
        Self {
            connect: verdict,
            socks: verdict,
            transparent: verdict,
            dns: verdict,
        }
    }
}

/// Tries a spelling of a name on every route, port 443; `name` is the canonical name, which the
/// certificate must be for.
#[track_caller]
pub(crate) fn verdicts(driver: &mut Driver, spelling: &str, name: &str) -> Verdicts {
    let connect =
        driver.start(json!({ "op": "connect", "target": format!("{spelling}:443"), "tls": name }));
    let socks =
        driver.start(json!({ "op": "socks", "hex": hex(spelling), "port": 443, "tls": name }));
    let transparent =
        driver.start(json!({ "op": "transparent", "name": spelling, "port": 443, "tls": name }));
    let dns = driver.start(json!({ "op": "dns", "name": spelling }));
    let connect = driver.wait(connect);
    let socks = driver.wait(socks);
    let transparent = driver.wait(transparent);
    let dns = driver.wait(dns);
    // Either a whole handshake with the right server, or a refusal in good form: all else is a
    // failure of the test.
    let told = |answer: &Value, refused: bool| match answer["tls"].as_str() {
        Some("tls") => true,
        _ if refused => false,
        _ => panic!("{spelling}: {answer}"),
    };
    Verdicts {
        connect: told(&connect, connect["status"] == json!(403)),
        socks: told(&socks, socks["code"] == json!(2)),
        transparent: told(&transparent, transparent["error"].is_string()),
        dns: dns["addresses"].is_array(),
    }
}

/// Bytes of a text in hexadecimal.
pub(crate) fn hex(text: impl AsRef<[u8]>) -> String {
    kotak_tests::net::body::hex(text.as_ref())
}

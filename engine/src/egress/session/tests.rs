mod granted;
mod unseen;

use super::*;
use crate::api::{Actor, Answer, AnswerScope, Prompt};
use crate::egress::ask::{AskLimits, SessionFacts, SystemClock};
use crate::egress::decide::Source;
use crate::egress::journal::tests::Kept;
use crate::egress::journal::{RowIds, SessionRun, Sink};
use crate::egress::rules::{OperatorRule, Restriction};
use crate::spec::HostPattern;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

struct Curl;

impl WhoAsks for Curl {
    fn who(&self, _route: Route, ends: Ends) -> Boxed<'_, Option<Actor>> {
        Box::pin(async move {
            Some(Actor {
                pid: i32::from(ends.client.port()),
                name: "curl".to_owned(),
                executable: None,
                command: "curl x".to_owned(),
                cwd: None,
                parents: Vec::new(),
            })
        })
    }
}

struct Fixture {
    network: Arc<SessionNetwork>,
    ask: AskFirst,
    kept: Arc<Kept>,
}

fn rules(restriction: Restriction, operator: &[(i64, bool, &str)]) -> RuleSet {
    let operator = operator.iter().map(|(id, allow, pattern)| OperatorRule {
        id: *id,
        allow: *allow,
        pattern: HostPattern::parse(pattern).unwrap(),
    });
    let spec = vec![HostPattern::parse("spec.example.com").unwrap()];
    RuleSet::new(restriction, spec, operator.collect())
}

fn fixture(rules: RuleSet, limits: AskLimits) -> Fixture {
    fixture_by(rules, limits, Arc::new(Curl))
}

fn fixture_by(rules: RuleSet, limits: AskLimits, who: Arc<dyn WhoAsks>) -> Fixture {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ask = AskFirst::start("p".to_owned(), limits, Arc::clone(&clock), |_| {});
    ask.session(SessionFacts {
        id: "s".into(),
        title: "sh".to_owned(),
        workspace: "/w".to_owned(),
        backend: None,
    });
    ask.set_audience(true);
    let kept = Arc::new(Kept::default());
    let run = SessionRun {
        id: "s".into(),
        since_ms: 0,
    };
    let ids = Arc::new(RowIds::of_process());
    let journal = Journal::new(run, ids, Arc::clone(&kept) as Arc<dyn Sink>);
    let network = SessionNetwork::start(rules, ask.clone(), who, journal, clock);
    Fixture { network, ask, kept }
}

const ENDS: Ends = Ends {
    client: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1234),
    local: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3128)),
};

/// By a client that stays.
async fn judge(network: &SessionNetwork, attempt: Attempt) -> Verdict {
    let (_stays, leaves) = Leaves::new();
    Gate::judge(network, attempt, leaves).await
}

fn attempt(text: &str) -> Attempt {
    Attempt {
        destination: Destination::parse(text, Some(443)).unwrap(),
        route: Route::Connect,
        ends: Some(ENDS),
    }
}

fn passed(verdict: Verdict) -> Pass {
    match verdict {
        Verdict::Pass(pass) => pass,
        Verdict::Refuse(refusal) => panic!("{refusal:?}"),
    }
}

fn refused(verdict: Verdict) -> Refusal {
    match verdict {
        Verdict::Refuse(refusal) => refusal,
        Verdict::Pass(pass) => panic!("{pass:?}"),
    }
}

impl Fixture {
    async fn judge(&self, attempt: Attempt) -> Verdict {
        judge(&self.network, attempt).await
    }

    fn rows(&self) -> Vec<ActivityRow> {
        self.network.journal.flush(u64::MAX / 2);
        self.kept.rows.lock().unwrap().values().cloned().collect()
    }

    async fn prompt(&self) -> Prompt {
        loop {
            if let Some(prompt) = self.ask.prompts().into_iter().next() {
                return prompt;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Answers the one question that waits.
    async fn answer(&self, answer: Answer) {
        let prompt = self.prompt().await;
        loop {
            match self.ask.settle(&prompt.id, answer, AnswerScope::HostPort) {
                Ok(settled) => return self.ask.apply(&settled, None),
                Err(error) => assert_eq!(error, crate::egress::ask::AnswerError::TooEarly),
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Answers are taken at once, so that tests need not wait.
fn at_once() -> AskLimits {
    AskLimits {
        early_ms: 0,
        ..AskLimits::default()
    }
}

#[tokio::test]
async fn what_is_listed_passes_and_is_put_down_from_begin_to_end() {
    let test = fixture(rules(Restriction::Allowlist, &[]), at_once());
    let pass = passed(test.judge(attempt("SPEC.example.com.:443")).await);
    assert_eq!(test.network.open_connections(), 1);
    assert_eq!(test.network.counts().allowed, 1);
    while test.rows()[0].process.is_none() {
        tokio::task::yield_now().await;
    }
    pass.meter.up.store(10, Ordering::Relaxed);
    pass.meter.down.store(20, Ordering::Relaxed);
    let address: Option<IpAddr> = "93.184.216.34".parse().ok();
    test.network.closed(pass, Closed::Done { address });
    assert_eq!(test.network.open_connections(), 0);
    let rows = test.rows();
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(row.outcome, Outcome::Allowed);
    assert_eq!(row.target, "spec.example.com:443");
    assert_eq!(row.process.as_ref().unwrap().name, "curl");
    let detail = row.connection.as_ref().unwrap();
    assert_eq!((detail.bytes_up, detail.bytes_down), (10, 20));
    assert_eq!(detail.address.as_deref(), Some("93.184.216.34"));
    assert!(detail.duration_ms.is_some());
    assert_eq!(detail.allowed.as_ref().unwrap().source, Source::Spec);
}

#[tokio::test]
async fn what_is_not_listed_is_refused_with_its_process_and_a_way_out() {
    let test = fixture(rules(Restriction::Allowlist, &[]), at_once());
    let refusal = refused(test.judge(attempt("evil.example.net")).await);
    assert_eq!(refusal.reason, DenyReason::NotListed);
    let rows = test.rows();
    assert_eq!(rows[0].process.as_ref().unwrap().pid, 1234);
    assert_eq!(rows[0].why, "not on the allowlist");
    assert!(
        rows[0]
            .way_out
            .as_ref()
            .unwrap()
            .contains("evil.example.net:443")
    );
    assert_eq!(test.kept.counts.lock().unwrap().1, 1);
}

// REQ EG-7
#[tokio::test]
async fn with_the_network_off_everything_is_refused_and_seen() {
    let test = fixture(
        rules(Restriction::Off, &[(1, true, "spec.example.com")]),
        at_once(),
    );
    for host in ["spec.example.com", "github.com", "evil.example.net"] {
        let refusal = refused(test.judge(attempt(host)).await);
        assert_eq!(refusal.reason, DenyReason::NetworkOff, "{host}");
        let name = HostName::parse(host).unwrap();
        assert!(!test.network.answers(&name, None));
    }
    // The control: the same name where the network is on.
    let on = fixture(rules(Restriction::Allowlist, &[]), at_once());
    passed(on.judge(attempt("github.com")).await);
    assert!(
        on.network
            .answers(&HostName::parse("github.com").unwrap(), None)
    );
    while test.kept.in_rows() < 6 {
        test.rows();
        tokio::task::yield_now().await;
    }
    assert_eq!(test.network.counts().refused, 6);
}

#[tokio::test]
async fn an_answer_lets_a_waiting_attempt_pass_or_not() {
    for (answer, passes) in [(Answer::AllowOnce, true), (Answer::Deny, false)] {
        let test = fixture(rules(Restriction::Ask, &[]), at_once());
        let judged = test.judge(attempt("new.example.net"));
        let (verdict, ()) = tokio::join!(judged, test.answer(answer));
        if passes {
            passed(verdict);
            // Known since the question: nothing is looked up after it, when the process may be gone.
            let rows = test.rows();
            assert_eq!(rows[0].process.as_ref().unwrap().name, "curl");
        } else {
            assert_eq!(refused(verdict).reason, DenyReason::Answer);
        }
        assert_eq!(test.network.counts().waiting, 0);
    }
}

#[tokio::test]
async fn the_fixed_denylist_and_the_operators_no_never_ask() {
    let operator = [
        (1, false, "no.example.net"),
        (2, true, "*.internal.example.net"),
    ];
    let test = fixture(rules(Restriction::Ask, &operator), at_once());
    for (host, reason) in [
        ("metadata.google.internal", DenyReason::Metadata),
        ("169.254.169.254:80", DenyReason::Metadata),
        ("no.example.net", DenyReason::OperatorRule),
        ("127.0.0.1:80", DenyReason::AddressRange),
    ] {
        let refusal = refused(test.judge(attempt(host)).await);
        assert_eq!(refusal.reason, reason, "{host}");
    }
    assert_eq!(test.ask.prompts(), []);
}

#[tokio::test]
async fn rules_that_change_hold_at_once_for_what_waits_and_what_comes() {
    let test = fixture(rules(Restriction::Ask, &[]), at_once());
    let network = Arc::clone(&test.network);
    let waiting = tokio::spawn(async move { judge(&network, attempt("new.example.net")).await });
    test.prompt().await;
    let with = rules(Restriction::Ask, &[(7, true, "new.example.net:443")]);
    test.network.set_rules(with);
    let pass = passed(waiting.await.unwrap());
    let rows = test.rows();
    let allowed = rows[0]
        .connection
        .as_ref()
        .unwrap()
        .allowed
        .clone()
        .unwrap();
    assert_eq!(allowed.rule, Some(7));
    assert_eq!(test.ask.prompts(), []);
    // Taken away again, new ones are denied; the open one is listed and can be cut.
    test.network.set_rules(rules(Restriction::Allowlist, &[]));
    let refusal = refused(test.judge(attempt("new.example.net")).await);
    assert_eq!(refusal.reason, DenyReason::NotListed);
    assert!(!*pass.cut.borrow());
    assert!(test.network.cut(pass.id));
    assert!(*pass.cut.borrow());
    let how = Closed::Refused {
        reason: DenyReason::Cut,
        detail: "cut".to_owned(),
        address: None,
    };
    let id = pass.id;
    test.network.closed(pass, how);
    assert!(!test.network.cut(id));
    // What was cut had passed, and counts as that.
    let counts = test.network.counts();
    assert_eq!((counts.allowed, counts.refused), (1, 1));
}

#[tokio::test]
async fn a_client_that_gives_up_is_put_down_and_its_question_is_missed() {
    let test = fixture(rules(Restriction::Ask, &[]), at_once());
    let network = Arc::clone(&test.network);
    let waiting = tokio::spawn(async move { judge(&network, attempt("new.example.net")).await });
    test.prompt().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(test.ask.prompts()[0].state, crate::api::PromptState::Missed);
    let rows = test.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].connection.as_ref().unwrap().denied,
        Some(DenyReason::Timeout)
    );
}

#[tokio::test]
async fn what_is_refused_after_it_passed_counts_as_refused() {
    let test = fixture(rules(Restriction::Allowlist, &[]), at_once());
    let pass = passed(test.judge(attempt("spec.example.com")).await);
    let how = Closed::Refused {
        reason: DenyReason::ServerName,
        detail: "it said evil.example.net".to_owned(),
        address: None,
    };
    let id = pass.id;
    test.network.closed(pass, how);
    let counts = test.network.counts();
    assert_eq!((counts.allowed, counts.refused), (0, 1));
    // Its end is told together with its process.
    test.network.settled(id).await;
    let rows = test.rows();
    assert_eq!(rows[0].outcome, Outcome::Refused);
    assert_eq!(rows[0].process.as_ref().unwrap().name, "curl");
    assert_eq!(rows[0].raw.as_deref(), Some("it said evil.example.net"));
}

#[tokio::test]
async fn in_a_flood_not_every_process_is_looked_up_and_the_row_says_so() {
    let test = fixture(rules(Restriction::Allowlist, &[]), at_once());
    for number in 0..400 {
        let host = format!("h{number}.example.net");
        refused(test.judge(attempt(&host)).await);
    }
    let rows = test.rows();
    let (named, unnamed): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.process.is_some());
    assert!(named.len() >= 200, "{}", named.len());
    assert!(!unnamed.is_empty());
    for row in unnamed {
        assert!(row.raw.as_ref().unwrap().contains("not looked up"));
    }
    assert_eq!(test.network.counts().refused, 400);
}

#[tokio::test]
async fn the_end_of_a_session_denies_what_waits() {
    let test = fixture(rules(Restriction::Ask, &[]), at_once());
    let judged = test.judge(attempt("new.example.net"));
    let end = async {
        test.prompt().await;
        test.network.end();
    };
    let (verdict, ()) = tokio::join!(judged, end);
    assert_eq!(refused(verdict).reason, DenyReason::NobodyToAsk);
    assert_eq!(test.ask.prompts(), []);
}

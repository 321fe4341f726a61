//! No refusal goes unseen, whatever its client does, and no rule comes too late for a question.

use super::*;
use crate::egress::stream::split;
use crate::egress::ticket::{Judged, judge as judge_client};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

/// Finds who asks when it is let.
#[derive(Default)]
struct SlowWho {
    looking: Notify,
    found: Notify,
    asked: Mutex<Vec<Ends>>,
}

impl WhoAsks for SlowWho {
    fn who(&self, route: Route, ends: Ends) -> Boxed<'_, Option<Actor>> {
        self.asked.lock().unwrap().push(ends);
        Box::pin(async move {
            self.looking.notify_one();
            self.found.notified().await;
            Curl.who(route, ends).await
        })
    }
}

fn slow(rules: RuleSet) -> (Fixture, Arc<SlowWho>) {
    let who = Arc::new(SlowWho::default());
    let by = Arc::<SlowWho>::clone(&who);
    (fixture_by(rules, at_once(), by), who)
}

// REQ EG-3
#[tokio::test]
async fn what_is_denied_is_put_down_also_when_its_task_ends_during_the_look_up() {
    for (restriction, reason) in [
        (Restriction::Allowlist, DenyReason::NotListed),
        (Restriction::Ask, DenyReason::Timeout),
    ] {
        let (test, who) = slow(rules(restriction, &[]));
        let network = Arc::clone(&test.network);
        let judging = async move { judge(&network, attempt("evil.example.net")).await };
        let judging = tokio::spawn(judging);
        who.looking.notified().await;
        judging.abort();
        assert!(judging.await.unwrap_err().is_cancelled());
        assert_eq!(test.network.counts().refused, 1);
        let rows = test.rows();
        let detail = rows[0].connection.as_ref().unwrap();
        assert_eq!(detail.denied, Some(reason));
        assert!(rows[0].raw.as_ref().unwrap().contains("before its process"));
    }
}

#[tokio::test]
async fn what_was_told_already_is_put_down_when_the_session_ends_during_the_look_up() {
    let (test, who) = slow(rules(Restriction::Allowlist, &[]));
    test.network
        .malformed(Route::Socks, Some(ENDS), "seen", "no SOCKS");
    who.looking.notified().await;
    let Fixture { network, kept, .. } = test;
    drop(network);
    who.found.notify_one();
    while kept.rows.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let rows = kept.rows.lock().unwrap();
    let row = rows.values().next().unwrap();
    assert_eq!(row.process.as_ref().unwrap().name, "curl");
}

#[tokio::test]
async fn a_client_that_ends_its_side_during_the_look_up_is_denied_and_told_so() {
    let (test, who) = slow(rules(Restriction::Allowlist, &[]));
    let (mut client, server) = tokio::io::duplex(64);
    let gate = Arc::clone(&test.network) as Arc<dyn Gate>;
    let judging = tokio::spawn(async move {
        let (mut reader, _writer) = split(Box::new(server));
        match judge_client(&gate, attempt("evil.example.net"), &mut reader).await {
            Judged::Refuse(refusal) => refusal,
            Judged::Pass(_) => panic!("it passed"),
        }
    });
    who.looking.notified().await;
    client.shutdown().await.unwrap();
    // Long enough for the end to be read.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!judging.is_finished());
    who.found.notify_one();
    assert_eq!(judging.await.unwrap().reason, DenyReason::NotListed);
    let rows = test.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].process.as_ref().unwrap().name, "curl");
    assert_eq!(test.network.counts().refused, 1);
}

#[tokio::test]
async fn a_client_that_ends_its_side_is_not_asked_about_any_more() {
    let test = fixture(rules(Restriction::Ask, &[]), at_once());
    let (stays, leaves) = Leaves::new();
    let judged = Gate::judge(&*test.network, attempt("new.example.net"), leaves);
    let leave = async {
        test.prompt().await;
        drop(stays);
    };
    let (verdict, ()) = tokio::join!(judged, leave);
    assert_eq!(refused(verdict).reason, DenyReason::Timeout);
    assert_eq!(test.ask.prompts()[0].state, crate::api::PromptState::Missed);
    assert_eq!(test.network.counts().refused, 1);
}

#[tokio::test]
async fn rules_that_change_during_the_look_up_hold_for_the_question() {
    for allow in [true, false] {
        let (test, who) = slow(rules(Restriction::Ask, &[]));
        let network = Arc::clone(&test.network);
        let judging = async move { judge(&network, attempt("new.example.net")).await };
        let judging = tokio::spawn(judging);
        who.looking.notified().await;
        let new = rules(Restriction::Ask, &[(7, allow, "new.example.net")]);
        test.network.set_rules(new);
        who.found.notify_one();
        let verdict = judging.await.unwrap();
        if allow {
            passed(verdict);
        } else {
            assert_eq!(refused(verdict).reason, DenyReason::OperatorRule);
        }
        assert_eq!(test.ask.prompts(), [], "nobody was asked");
    }
}

#[tokio::test]
async fn who_asks_is_looked_for_by_both_ends() {
    let (test, who) = slow(rules(Restriction::Allowlist, &[]));
    let socks = Ends {
        local: Some(SocketAddr::new(ENDS.client.ip(), 1080)),
        ..ENDS
    };
    for ends in [ENDS, socks] {
        who.found.notify_one();
        let attempt = Attempt {
            ends: Some(ends),
            ..attempt("evil.example.net")
        };
        refused(test.judge(attempt).await);
    }
    assert_eq!(*who.asked.lock().unwrap(), [ENDS, socks]);
}

#[tokio::test]
async fn how_a_connection_ended_keeps_the_address_that_was_dialled() {
    let address: IpAddr = "93.184.216.34".parse().unwrap();
    let detail = || "x".to_owned();
    for how in [
        Closed::Done {
            address: Some(address),
        },
        Closed::Failed {
            detail: detail(),
            address: Some(address),
        },
        Closed::Refused {
            reason: DenyReason::Cut,
            detail: detail(),
            address: Some(address),
        },
        Closed::Refused {
            reason: DenyReason::ServerName,
            detail: detail(),
            address: Some(address),
        },
    ] {
        let test = fixture(rules(Restriction::Allowlist, &[]), at_once());
        let pass = passed(test.judge(attempt("spec.example.com")).await);
        let id = pass.id;
        test.network.closed(pass, how.clone());
        test.network.settled(id).await;
        let rows = test.rows();
        let told = rows[0].connection.as_ref().unwrap().address.as_deref();
        assert_eq!(told, Some("93.184.216.34"), "{how:?}");
    }
}

use super::*;
use crate::api::{Answer, AnswerScope, PromptState};
use crate::egress::decide::{DenyReason, Destination, Source};
use crate::spec::Host;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) fn to(host: &str, port: u16) -> Destination {
    Destination {
        host: Host::parse(host).unwrap(),
        port,
    }
}

pub(super) fn facts(id: &str) -> SessionFacts {
    SessionFacts {
        id: id.into(),
        title: "sh".to_owned(),
        workspace: "/w".to_owned(),
        backend: None,
    }
}

pub(super) fn broker(limits: AskLimits) -> Broker {
    let mut broker = Broker::new("p".to_owned(), limits);
    broker.session(facts("s"));
    broker.session(facts("t"));
    broker
}

pub(super) fn waits(asked: Asked) -> AttemptId {
    match asked {
        Asked::Wait(id) => id,
        other => panic!("{other:?}"),
    }
}

pub(super) fn resolved(effects: &[Effect]) -> Vec<(AttemptId, Resolution)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Resolve(id, resolution) => Some((*id, resolution.clone())),
            _ => None,
        })
        .collect()
}

fn shown(effects: &[Effect]) -> usize {
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Shown(_)))
        .count()
}

pub(super) fn deny(reason: DenyReason) -> Resolution {
    Resolution::Deny(reason)
}

/// One question of session `s`, asked at 0, and its id.
pub(super) fn one(broker: &mut Broker, host: &str) -> (AttemptId, String) {
    let id = waits(broker.ask(0, "s", to(host, 443), None));
    let prompts = broker.prompts();
    (id, prompts.last().unwrap().id.clone())
}

pub(super) fn answer(
    broker: &mut Broker,
    now: u64,
    id: &str,
    answer: Answer,
    scope: AnswerScope,
) -> Settled {
    let settled = broker.settle(now, id, answer, scope).unwrap();
    broker.apply(now, &settled, settled.lasting.map(|_| 7));
    settled
}

const LATER: u64 = 1_000;

#[test]
fn three_hundred_identical_attempts_at_once_make_one_question_and_one_answer_serves_all() {
    let mut broker = broker(AskLimits::default());
    let ids: Vec<_> = (0..300)
        .map(|_| waits(broker.ask(0, "s", to("Files.Example.com.", 443), None)))
        .collect();
    let prompts = broker.prompts();
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0].attempts, 300);
    assert_eq!(prompts[0].host, "files.example.com");
    assert_eq!(prompts[0].deadline_ms, Some(60_000));
    let patterns: Vec<_> = prompts[0]
        .words
        .iter()
        .map(|words| words.pattern.as_str())
        .collect();
    let expected = [
        "files.example.com:443",
        "files.example.com",
        "*.example.com",
    ];
    assert_eq!(patterns, expected);
    assert_eq!(shown(&broker.effects()), 1);
    answer(
        &mut broker,
        LATER,
        &prompts[0].id,
        Answer::AllowOnce,
        AnswerScope::HostPort,
    );
    let resolved = resolved(&broker.effects());
    let mut found: Vec<_> = resolved.iter().map(|(id, _)| *id).collect();
    found.sort();
    assert_eq!(found, ids);
    for (_, resolution) in resolved {
        let Resolution::Allow(allowed) = resolution else {
            panic!("{resolution:?}")
        };
        assert_eq!(allowed.source, Source::Operator);
        assert_eq!(
            (allowed.pattern.as_str(), allowed.rule),
            (expected[0], None)
        );
    }
    assert_eq!(broker.prompts(), []);
    // Once is once: the next one is asked about again.
    waits(broker.ask(LATER, "s", to("files.example.com", 443), None));
}

#[test]
fn a_time_out_denies_all_and_leaves_a_missed_question() {
    let mut broker = broker(AskLimits::default());
    let (first, id) = one(&mut broker, "a.example.com");
    let second = waits(broker.ask(30_000, "s", to("a.example.com", 443), None));
    broker.effects();
    broker.tick(59_999);
    assert_eq!(resolved(&broker.effects()), []);
    broker.tick(60_000);
    assert_eq!(
        resolved(&broker.effects()),
        [
            (first, deny(DenyReason::Timeout)),
            (second, deny(DenyReason::Timeout))
        ]
    );
    let prompts = broker.prompts();
    assert_eq!(prompts[0].id, id);
    assert_eq!(prompts[0].state, PromptState::Missed);
    assert_eq!((prompts[0].attempts, prompts[0].deadline_ms), (0, None));
    // It is kept for ten minutes.
    broker.tick(60_000 + 599_999);
    assert_eq!(broker.prompts().len(), 1);
    broker.tick(60_000 + 600_000);
    assert_eq!(broker.prompts(), []);
    assert!(broker.effects().contains(&Effect::Gone(id)));
}

#[test]
fn an_answer_after_the_client_gave_up_serves_exactly_the_next_attempt_within_its_lifetime() {
    for (answered, next, granted) in [(1_000, 600_999, true), (1_000, 601_000, false)] {
        let mut broker = broker(AskLimits::default());
        let (attempt, id) = one(&mut broker, "a.example.com");
        broker.withdraw(500, attempt);
        assert_eq!(broker.prompts()[0].state, PromptState::Missed);
        answer(
            &mut broker,
            answered,
            &id,
            Answer::AllowOnce,
            AnswerScope::HostPort,
        );
        assert_eq!(resolved(&broker.effects()), []);
        // Another host, port or session is not what was answered.
        for other in [
            broker.ask(2_000, "s", to("b.example.com", 443), None),
            broker.ask(2_000, "s", to("a.example.com", 444), None),
            broker.ask(2_000, "t", to("a.example.com", 443), None),
        ] {
            waits(other);
        }
        let asked = broker.ask(next, "s", to("a.example.com", 443), None);
        assert_eq!(matches!(asked, Asked::Granted(_)), granted, "{asked:?}");
        if granted {
            waits(broker.ask(next, "s", to("a.example.com", 443), None));
        }
    }
}

#[test]
fn each_of_the_five_answers_means_what_it_says() {
    let cases = [
        (Answer::Deny, false, None),
        (Answer::DenySession, false, Some(Lasting::Session)),
        (Answer::AllowOnce, true, None),
        (Answer::AllowSession, true, Some(Lasting::Session)),
        (Answer::AllowWorkspace, true, Some(Lasting::Workspace)),
    ];
    for (given, allow, lasting) in cases {
        let mut broker = broker(AskLimits::default());
        let (attempt, id) = one(&mut broker, "a.example.com");
        broker.effects();
        let settled = answer(&mut broker, LATER, &id, given, AnswerScope::Host);
        assert_eq!((settled.allow, settled.lasting), (allow, lasting));
        assert_eq!(settled.pattern.to_string(), "a.example.com");
        assert_eq!(
            (settled.session.as_str(), settled.workspace.as_str()),
            ("s", "/w")
        );
        let resolved = resolved(&broker.effects());
        assert_eq!(resolved.len(), 1);
        assert_eq!(resolved[0].0, attempt);
        match &resolved[0].1 {
            Resolution::Allow(allowed) => {
                assert!(allow);
                assert_eq!(allowed.rule, lasting.map(|_| 7));
            }
            Resolution::Deny(reason) => {
                assert!(!allow);
                assert_eq!(*reason, DenyReason::Answer);
            }
        }
        assert_eq!(
            broker.settle(LATER, &id, given, AnswerScope::Host),
            Err(AnswerError::Gone)
        );
    }
}

#[test]
fn an_answer_reaches_what_its_scope_covers_in_its_session_and_nothing_else() {
    let asked = [
        ("s", "a.example.com", 443),
        ("s", "a.example.com", 80),
        ("s", "b.example.com", 443),
        ("s", "a.other.net", 443),
        ("t", "a.example.com", 443),
    ];
    for (scope, covered) in [
        (AnswerScope::HostPort, 1),
        (AnswerScope::Host, 2),
        (AnswerScope::Parent, 3),
    ] {
        let mut broker = broker(AskLimits::default());
        let ids: Vec<_> = asked
            .iter()
            .map(|(session, host, port)| waits(broker.ask(0, session, to(host, *port), None)))
            .collect();
        let id = broker.prompts()[0].id.clone();
        broker.effects();
        answer(&mut broker, LATER, &id, Answer::AllowOnce, scope);
        let found: Vec<_> = resolved(&broker.effects())
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        assert_eq!(found, ids[..covered]);
        assert_eq!(broker.prompts().len(), asked.len() - covered);
    }
    let mut broker = broker(AskLimits::default());
    for host in ["example.com", "93.184.216.34", "localhost"] {
        let (_, id) = one(&mut broker, host);
        let refused = broker.settle(LATER, &id, Answer::AllowOnce, AnswerScope::Parent);
        assert_eq!(refused, Err(AnswerError::Scope), "{host}");
        assert!(
            broker
                .settle(LATER, &id, Answer::AllowOnce, AnswerScope::Host)
                .is_ok()
        );
    }
}

#[test]
fn an_early_answer_is_refused_and_the_question_goes_on_waiting() {
    let mut broker = broker(AskLimits {
        cards: 1,
        ..AskLimits::default()
    });
    let (_, first) = one(&mut broker, "a.example.com");
    waits(broker.ask(0, "s", to("b.example.com", 443), None));
    for given in [Answer::AllowOnce, Answer::Deny, Answer::AllowWorkspace] {
        assert_eq!(
            broker.settle(499, &first, given, AnswerScope::Host),
            Err(AnswerError::TooEarly)
        );
    }
    assert_eq!(resolved(&broker.effects()), []);
    answer(
        &mut broker,
        500,
        &first,
        Answer::Deny,
        AnswerScope::HostPort,
    );
    // The one behind it appears only now, under the same pointer.
    let second = broker.prompts()[0].id.clone();
    assert_ne!(first, second);
    assert_eq!(
        broker.settle(999, &second, Answer::AllowOnce, AnswerScope::Host),
        Err(AnswerError::TooEarly)
    );
    assert!(
        broker
            .settle(1_000, &second, Answer::AllowOnce, AnswerScope::Host)
            .is_ok()
    );
}

#[test]
fn a_countdown_stands_still_while_it_is_held_and_goes_on_when_the_window_is_gone() {
    let mut broker = broker(AskLimits::default());
    let (attempt, id) = one(&mut broker, "a.example.com");
    broker.hold(10_000, &id, "w").unwrap();
    broker.effects();
    broker.tick(120_000);
    assert_eq!(resolved(&broker.effects()), []);
    assert_eq!(broker.prompts()[0].deadline_ms, None);
    broker.window_gone(120_000, "another");
    assert_eq!(broker.prompts()[0].deadline_ms, None);
    broker.window_gone(120_000, "w");
    assert_eq!(broker.prompts()[0].deadline_ms, Some(170_000));
    broker.hold(130_000, &id, "w").unwrap();
    broker.release(140_000, &id);
    assert_eq!(broker.prompts()[0].deadline_ms, Some(180_000));
    // A window that neither lets go nor goes away holds for ten minutes.
    broker.hold(150_000, &id, "w").unwrap();
    broker.tick(750_000);
    assert_eq!(broker.prompts()[0].deadline_ms, Some(780_000));
    broker.tick(780_000);
    assert_eq!(
        resolved(&broker.effects()),
        [(attempt, deny(DenyReason::Timeout))]
    );
    assert_eq!(broker.hold(780_001, &id, "w"), Err(AnswerError::Gone));
}

#[test]
fn ten_thousand_distinct_names_are_bounded_flagged_and_denied() {
    let limits = AskLimits::default();
    let mut broker = broker(limits);
    let mut denied = 0;
    let mut effects = 0;
    for number in 0..10_000_u64 {
        let host = format!("h{number}.evil.net");
        match broker.ask(number / 10, "s", to(&host, 443), None) {
            Asked::Wait(_) => {}
            Asked::Denied(reason) => {
                assert_eq!(reason, DenyReason::TooManyQuestions);
                denied += 1;
            }
            Asked::Granted(allowed) => panic!("{allowed:?}"),
        }
        effects += broker.effects().len();
    }
    assert_eq!(broker.prompts().len(), limits.cards);
    let kept = limits.cards + limits.folded;
    assert_eq!(usize::try_from(broker.waiting("s")).unwrap(), kept);
    let folded = broker.folded();
    assert_eq!(folded.len(), 1);
    assert_eq!(usize::try_from(folded[0].hosts).unwrap(), limits.folded);
    assert_eq!(folded[0].denied_unasked, denied);
    assert_eq!(usize::try_from(denied).unwrap(), 10_000 - kept);
    // A second of flood is told in few words.
    assert!(effects < 200, "{effects}");
    // Another session is asked about as ever.
    waits(broker.ask(1_000, "t", to("a.example.com", 443), None));
    assert_eq!(broker.prompts().len(), limits.cards + 1);
}

#[test]
fn the_attempts_that_wait_are_bounded_too() {
    let limits = AskLimits {
        attempts: 5,
        ..AskLimits::default()
    };
    let mut broker = broker(limits);
    let first = waits(broker.ask(0, "s", to("a.example.com", 443), None));
    for _ in 0..4 {
        waits(broker.ask(0, "s", to("a.example.com", 443), None));
    }
    let full = Asked::Denied(DenyReason::TooManyQuestions);
    assert_eq!(broker.ask(0, "s", to("a.example.com", 443), None), full);
    broker.withdraw(0, first);
    waits(broker.ask(0, "s", to("a.example.com", 443), None));
}

#[test]
fn folded_questions_are_shown_when_a_place_or_a_minute_is_free() {
    let limits = AskLimits {
        cards: 2,
        cards_per_minute: 3,
        ..AskLimits::default()
    };
    let mut broker = broker(limits);
    for number in 0..5 {
        waits(broker.ask(0, "s", to(&format!("h{number}.example.com"), 443), None));
    }
    let hosts = |broker: &Broker| -> Vec<String> {
        let waiting = |prompt: &crate::api::Prompt| prompt.state == PromptState::Waiting;
        let prompts = broker.prompts();
        prompts
            .into_iter()
            .filter(waiting)
            .map(|prompt| prompt.host)
            .collect()
    };
    assert_eq!(hosts(&broker), ["h0.example.com", "h1.example.com"]);
    assert_eq!(broker.folded()[0].hosts, 3);
    let first = broker.prompts()[0].id.clone();
    answer(
        &mut broker,
        LATER,
        &first,
        Answer::Deny,
        AnswerScope::HostPort,
    );
    assert_eq!(hosts(&broker), ["h1.example.com", "h2.example.com"]);
    let next = broker.prompts()[0].id.clone();
    answer(
        &mut broker,
        LATER,
        &next,
        Answer::Deny,
        AnswerScope::HostPort,
    );
    // There is a place, but three were shown within this minute.
    assert_eq!(hosts(&broker), ["h2.example.com"]);
    broker.effects();
    // Those that nobody could see end with their own countdown, and leave nothing.
    broker.tick(60_000);
    assert_eq!(resolved(&broker.effects()).len(), 2);
    assert_eq!(broker.folded(), []);
    assert_eq!(hosts(&broker), ["h2.example.com"]);
    waits(broker.ask(60_500, "s", to("h9.example.com", 443), None));
    let shown = broker.prompts();
    assert_eq!(shown[1].host, "h9.example.com");
    assert_eq!(shown[1].deadline_ms, Some(120_500));
}

#[test]
fn rules_that_change_answer_what_they_cover() {
    let mut broker = broker(AskLimits::default());
    let (first, _) = one(&mut broker, "a.example.com");
    let (second, _) = one(&mut broker, "b.example.com");
    let (_, third) = one(&mut broker, "c.example.com");
    let other = waits(broker.ask(0, "t", to("a.example.com", 443), None));
    broker.effects();
    broker.judge_again(LATER, "s", |destination| {
        match destination.host.to_string().as_str() {
            "a.example.com" => Some(deny(DenyReason::OperatorRule)),
            "b.example.com" => Some(deny(DenyReason::NotListed)),
            _ => None,
        }
    });
    assert_eq!(
        resolved(&broker.effects()),
        [
            (first, deny(DenyReason::OperatorRule)),
            (second, deny(DenyReason::NotListed))
        ]
    );
    assert_eq!(broker.prompts()[0].id, third);
    broker.withdraw(LATER, other);
}

#[test]
fn the_end_of_a_session_and_of_the_audience_denies_what_waits() {
    let mut broker = broker(AskLimits::default());
    let (attempt, id) = one(&mut broker, "a.example.com");
    let other = waits(broker.ask(0, "t", to("a.example.com", 443), None));
    broker.effects();
    broker.session_ended("s");
    let effects = broker.effects();
    assert_eq!(
        resolved(&effects),
        [(attempt, deny(DenyReason::NobodyToAsk))]
    );
    assert!(effects.contains(&Effect::Gone(id)));
    assert_eq!(
        broker.ask(0, "s", to("a.example.com", 443), None),
        Asked::Denied(DenyReason::NobodyToAsk)
    );
    broker.nobody_to_ask();
    assert_eq!(
        resolved(&broker.effects()),
        [(other, deny(DenyReason::NobodyToAsk))]
    );
    assert_eq!(broker.prompts(), []);
}

/// A clock that tests move.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn those_who_wait_are_woken_and_a_dropped_future_withdraws() {
    let clock = Arc::new(Hand::default());
    let (sender, events) = channel();
    let events_sender = std::sync::Mutex::new(sender);
    let ask = AskFirst::start(
        "p".to_owned(),
        AskLimits::default(),
        Arc::clone(&clock) as Arc<dyn Clock>,
        move |event| events_sender.lock().unwrap().send(event).unwrap(),
    );
    ask.session(facts("s"));
    let unheard = ask.ask("s", to("a.example.com", 443), None, |_| None).await;
    assert_eq!(unheard, deny(DenyReason::NobodyToAsk));

    ask.set_audience(true);
    let waiter = |host: &'static str| {
        let ask = ask.clone();
        tokio::spawn(async move { ask.ask("s", to(host, 443), None, |_| None).await })
    };
    let waiting = waiter("a.example.com");
    while ask.waiting("s") < 1 {
        tokio::task::yield_now().await;
    }
    let prompt = ask.prompts().remove(0);
    let shown = AskEvent::Shown(Box::new(prompt.clone()));
    assert!(events.try_iter().any(|event| event == shown));
    clock.0.store(LATER, Ordering::SeqCst);
    let settled = ask
        .settle(&prompt.id, Answer::AllowOnce, AnswerScope::Host)
        .unwrap();
    ask.apply(&settled, None);
    assert!(matches!(waiting.await.unwrap(), Resolution::Allow(_)));

    let given_up = waiter("b.example.com");
    while ask.waiting("s") < 1 {
        tokio::task::yield_now().await;
    }
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_eq!(ask.waiting("s"), 0);
    assert_eq!(ask.prompts()[0].state, PromptState::Missed);

    // The countdown is kept by the timer, without anybody's call.
    ask.set_countdown(Duration::from_millis(5));
    let late = waiter("c.example.com");
    while ask.waiting("s") < 1 {
        tokio::task::yield_now().await;
    }
    clock.0.store(10 * LATER, Ordering::SeqCst);
    assert_eq!(late.await.unwrap(), deny(DenyReason::Timeout));
}

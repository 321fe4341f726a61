//! Whatever happens in whatever order, the broker loses nobody who waits, and allows nobody that
//! no answer covers.

use super::tests::{broker, facts, resolved, to};
use super::*;
use crate::api::{Answer, AnswerScope, PromptState};
use crate::egress::decide::{DenyReason, Destination};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
enum Step {
    Ask(bool, u8, bool),
    Withdraw(usize),
    Answer(usize, Answer, AnswerScope),
    Hold(usize),
    Release(usize),
    WindowGone,
    SessionEnded,
    Nobody,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let answer = prop_oneof![
        Just(Answer::Deny),
        Just(Answer::DenySession),
        Just(Answer::AllowOnce),
        Just(Answer::AllowSession),
        Just(Answer::AllowWorkspace),
    ];
    let scope = prop_oneof![
        Just(AnswerScope::HostPort),
        Just(AnswerScope::Host),
        Just(AnswerScope::Parent),
    ];
    prop_oneof![
        8 => (any::<bool>(), 0_u8..12, any::<bool>())
            .prop_map(|(session, host, port)| Step::Ask(session, host, port)),
        2 => any::<usize>().prop_map(Step::Withdraw),
        4 => (any::<usize>(), answer, scope)
            .prop_map(|(which, answer, scope)| Step::Answer(which, answer, scope)),
        1 => any::<usize>().prop_map(Step::Hold),
        1 => any::<usize>().prop_map(Step::Release),
        1 => Just(Step::WindowGone),
        1 => Just(Step::SessionEnded),
        1 => Just(Step::Nobody),
        4 => prop_oneof![0_u64..1_000, 0_u64..100_000, Just(700_000)].prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn nobody_is_lost_and_nobody_is_allowed_without_an_answer(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let limits = AskLimits {
            cards: 3,
            cards_per_minute: 6,
            folded: 4,
            attempts: 20,
            missed: 3,
            ..AskLimits::default()
        };
        let mut broker = broker(limits);
        let mut window = BTreeSet::new();
        let mut now = 0;
        // Who waits for what, and since when.
        let mut waiting: BTreeMap<AttemptId, (&str, Destination)> =
            BTreeMap::new();
        for step in steps {
            let mut covers: Option<Settled> = None;
            let mut ended = None;
            match step {
                Step::Ask(session, host, port) => {
                    let session = if session { "s" } else { "t" };
                    let port = if port { 443 } else { 80 };
                    let destination = to(&format!("h{}.z{}.example.com", host % 4, host / 4), port);
                    match broker.ask(now, session, destination.clone(), None) {
                        Asked::Wait(id) => {
                            prop_assert!(waiting.insert(id, (session, destination)).is_none());
                        }
                        Asked::Denied(reason) => prop_assert!(matches!(
                            reason,
                            DenyReason::TooManyQuestions | DenyReason::NobodyToAsk
                        )),
                        Asked::Granted(_) => {}
                    }
                }
                Step::Withdraw(which) => {
                    let ids: Vec<_> = waiting.keys().copied().collect();
                    if !ids.is_empty() {
                        let id = ids[which % ids.len()];
                        // It may be decided by the time that passes in this very call.
                        waiting.remove(&id);
                        broker.withdraw(now, id);
                    }
                }
                Step::Answer(which, answer, scope) => {
                    let prompts = broker.prompts();
                    if !prompts.is_empty() {
                        let prompt = &prompts[which % prompts.len()];
                        if let Ok(settled) = broker.settle(now, &prompt.id, answer, scope) {
                            broker.apply(now, &settled, Some(1));
                            if prompt.state == PromptState::Waiting || settled.lasting.is_some() {
                                covers = Some(settled);
                            }
                        }
                    }
                }
                Step::Hold(which) => {
                    let prompts = broker.prompts();
                    if !prompts.is_empty() {
                        let _ = broker.hold(now, &prompts[which % prompts.len()].id, "w");
                    }
                }
                Step::Release(which) => {
                    let prompts = broker.prompts();
                    if !prompts.is_empty() {
                        broker.release(now, &prompts[which % prompts.len()].id);
                    }
                }
                Step::WindowGone => broker.window_gone(now, "w"),
                Step::SessionEnded => {
                    broker.session_ended("t");
                    broker.session(facts("t"));
                    ended = Some("t");
                }
                Step::Nobody => {
                    broker.nobody_to_ask();
                    ended = Some("");
                }
                Step::Pass(ms) => {
                    now += ms;
                    broker.tick(now);
                    // Nothing is left that the same moment would have to do again.
                    prop_assert!(broker.next_wake().is_none_or(|wake| wake > now));
                }
            }
            let effects = broker.effects();
            // A window that does what it is told shows what there is.
            for effect in &effects {
                match effect {
                    Effect::Shown(prompt) => {
                        window.insert(prompt.id.clone());
                    }
                    Effect::Changed(prompt) => prop_assert!(window.contains(&prompt.id)),
                    Effect::Gone(id) => prop_assert!(window.remove(id)),
                    Effect::Resolve(..) | Effect::Folded(_) => {}
                }
            }
            let shown: BTreeSet<_> = broker.prompts().into_iter().map(|prompt| prompt.id).collect();
            prop_assert_eq!(&window, &shown);
            for (id, resolution) in resolved(&effects) {
                // A withdrawn attempt is not decided, and nobody is decided twice.
                let (session, destination) = waiting.remove(&id).unwrap();
                let covered = covers.as_ref().is_some_and(|settled| {
                    settled.session == session
                        && settled.pattern.matches(&destination.host, destination.port)
                });
                match resolution {
                    Resolution::Allow(_) => prop_assert!(covered && covers.as_ref().unwrap().allow),
                    Resolution::Deny(DenyReason::Answer) => {
                        prop_assert!(covered && !covers.as_ref().unwrap().allow);
                    }
                    Resolution::Deny(DenyReason::NobodyToAsk) => {
                        prop_assert!(ended.is_some_and(|id| id.is_empty() || id == session));
                    }
                    Resolution::Deny(reason) => prop_assert_eq!(reason, DenyReason::Timeout),
                }
            }
            if let Some(settled) = &covers {
                for (session, destination) in waiting.values() {
                    prop_assert!(
                        settled.session != **session
                            || !settled.pattern.matches(&destination.host, destination.port)
                    );
                }
            }
            // Bounds hold at every step.
            for session in ["s", "t"] {
                let of = |state| broker
                    .prompts()
                    .iter()
                    .filter(|prompt| prompt.session_id == session && prompt.state == state)
                    .count();
                prop_assert!(of(PromptState::Waiting) <= limits.cards);
                prop_assert!(of(PromptState::Missed) <= limits.missed);
                let waits = waiting.values().filter(|(own, _)| *own == session).count();
                prop_assert!(waits <= limits.attempts);
            }
        }
        // Nobody waits for ever: held or not, seen or not.
        for _ in 0..20 {
            now += 700_000;
            broker.tick(now);
        }
        for (id, _) in resolved(&broker.effects()) {
            prop_assert!(waiting.remove(&id).is_some());
        }
        prop_assert!(waiting.is_empty(), "{waiting:?}");
        prop_assert_eq!(broker.prompts(), vec![]);
        prop_assert_eq!(broker.next_wake(), None);
    }
}

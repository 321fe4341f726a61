use super::tests::{answer, broker, deny, one, resolved, to, waits};
use super::*;
use crate::api::{Answer, AnswerScope, HostHistory, Prompt, PromptState};
use crate::egress::decide::DenyReason;

const HOUR: u64 = 3_600_000;

fn few(cards: usize, cards_per_minute: usize) -> Broker {
    broker(AskLimits {
        cards,
        cards_per_minute,
        countdown_ms: HOUR,
        ..AskLimits::default()
    })
}

fn hosts(prompts: &[Prompt]) -> Vec<&str> {
    prompts.iter().map(|prompt| prompt.host.as_str()).collect()
}

#[test]
fn while_all_places_are_taken_no_minute_that_passed_wakes_anybody() {
    let mut broker = few(2, 2);
    for host in ["a.example.com", "b.example.com", "c.example.com"] {
        waits(broker.ask(0, "s", to(host, 443), None));
    }
    for now in [1_000, 59_999, 60_000, 61_000, 600_000] {
        broker.tick(now);
        // Only an answer or a countdown makes a place.
        assert_eq!(broker.next_wake(), Some(HOUR), "at {now}");
    }
    // The minute is long over: the place that an answer makes is taken at once.
    let first = broker.prompts()[0].id.clone();
    let scope = AnswerScope::HostPort;
    answer(&mut broker, 600_000, &first, Answer::Deny, scope);
    assert_eq!(hosts(&broker.prompts()), ["b.example.com", "c.example.com"]);
}

#[test]
fn a_place_that_only_the_minute_keeps_closed_is_opened_when_it_is_over() {
    let mut broker = few(2, 1);
    waits(broker.ask(5_000, "s", to("a.example.com", 443), None));
    waits(broker.ask(5_000, "s", to("b.example.com", 443), None));
    broker.tick(6_000);
    assert_eq!(broker.next_wake(), Some(65_000));
    assert_eq!(hosts(&broker.prompts()), ["a.example.com"]);
    broker.tick(65_000);
    assert_eq!(hosts(&broker.prompts()), ["a.example.com", "b.example.com"]);
    assert!(broker.next_wake() > Some(65_000));
}

#[test]
fn a_missed_question_that_is_asked_again_without_a_place_leaves_the_window() {
    let mut broker = few(1, 20);
    let (attempt, missed) = one(&mut broker, "a.example.com");
    broker.withdraw(1_000, attempt);
    assert_eq!(broker.prompts()[0].state, PromptState::Missed);
    let other = waits(broker.ask(2_000, "s", to("b.example.com", 443), None));
    broker.effects();
    // The only place is taken: it waits unseen, and the window shows it no more.
    let again = waits(broker.ask(3_000, "s", to("a.example.com", 443), None));
    assert!(broker.effects().contains(&Effect::Gone(missed.clone())));
    assert_eq!(hosts(&broker.prompts()), ["b.example.com"]);
    assert_eq!(
        broker.settle(3_600, &missed, Answer::AllowOnce, AnswerScope::Host),
        Err(AnswerError::Gone)
    );
    // A place for it: it is shown anew, and its answer serves what waits.
    broker.withdraw(4_000, other);
    let shown = |effects: &[Effect]| {
        let new = |effect: &Effect| matches!(effect, Effect::Shown(new) if new.id == missed);
        effects.iter().any(new)
    };
    assert!(shown(&broker.effects()));
    answer(&mut broker, 5_000, &missed, Answer::Deny, AnswerScope::Host);
    assert_eq!(
        resolved(&broker.effects()),
        [(again, deny(DenyReason::Answer))]
    );
}

#[test]
fn a_missed_question_that_is_asked_again_with_a_place_never_leaves_the_window() {
    let mut broker = few(1, 20);
    let (attempt, missed) = one(&mut broker, "a.example.com");
    broker.withdraw(1_000, attempt);
    broker.effects();
    waits(broker.ask(3_000, "s", to("a.example.com", 443), None));
    let effects = broker.effects();
    assert!(!effects.contains(&Effect::Gone(missed.clone())));
    assert_eq!(broker.prompts()[0].id, missed);
    assert_eq!(broker.prompts()[0].state, PromptState::Waiting);
}

#[test]
fn nothing_is_said_of_the_history_before_it_was_read() {
    let mut broker = few(1, 20);
    let (_, id) = one(&mut broker, "a.example.com");
    assert_eq!(broker.prompts()[0].history, HostHistory::Unknown);
    for (now, history) in [
        (1_000, HostHistory::NoneAllowed),
        (2_000, HostHistory::Allowed),
    ] {
        broker.effects();
        broker.set_history(now, &id, history);
        assert_eq!(broker.prompts()[0].history, history);
        let told = broker.effects();
        let changed =
            |effect: &Effect| matches!(effect, Effect::Changed(new) if new.history == history);
        assert!(told.iter().any(changed), "{told:?}");
    }
}

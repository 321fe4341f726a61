//! The questions of all sessions of one engine, as a pure state machine: every call is given the
//! time, and what follows is read by [`Broker::effects`].

use super::card::{AttemptId, Card, Countdown, Place, Resolution, Settled};
use super::{AnswerError, AskLimits, SessionFacts};
use crate::api::{Actor, Answer, AnswerScope, FoldedPrompts, HostHistory, Prompt};
use crate::egress::decide::{Allowed, DenyReason, Destination, Source};
use crate::spec::HostPattern;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// How far a new attempt may find the time behind.
const TICK_MS: u64 = 20;

/// What follows from a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// An attempt waits no more.
    Resolve(AttemptId, Resolution),
    /// A question is newly shown.
    Shown(Box<Prompt>),
    /// A question changed.
    Changed(Box<Prompt>),
    /// A question is no more.
    Gone(String),
    /// How many hosts wait unseen changed.
    Folded(FoldedPrompts),
}

/// What becomes of an attempt at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It waits.
    Wait(AttemptId),
    /// An earlier answer allows it, and no other after it.
    Granted(Allowed),
    /// Too many wait already, or its session has ended.
    Denied(DenyReason),
}

/// An answer to a missed question, for exactly the next attempt.
#[derive(Debug)]
struct Once {
    session: Arc<str>,
    pattern: HostPattern,
    until_ms: u64,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) facts: SessionFacts,
    /// When questions were newly shown, of the last minute.
    pub(super) shown: VecDeque<u64>,
    attempts: usize,
    pub(super) denied_unasked: u64,
}

/// The questions of all sessions of one engine.
#[derive(Debug)]
pub struct Broker {
    pub(super) limits: AskLimits,
    pub(super) prefix: String,
    pub(super) sessions: BTreeMap<Arc<str>, Session>,
    /// Oldest first.
    pub(super) cards: BTreeMap<u64, Card>,
    pub(super) by_destination: HashMap<(Arc<str>, Destination), u64>,
    waiting: HashMap<AttemptId, u64>,
    once: Vec<Once>,
    pub(super) next_card: u64,
    next_attempt: u64,
    /// Cards and sessions whose change was not told yet, and when something was told last.
    pub(super) changed: BTreeSet<u64>,
    pub(super) folds: BTreeSet<Arc<str>>,
    pub(super) told_ms: Option<u64>,
    pub(super) effects: Vec<Effect>,
    ticked_ms: u64,
}

impl Broker {
    /// Without sessions. `prefix` makes its questions' ids unique among all engines of a user.
    #[must_use]
    pub fn new(prefix: String, limits: AskLimits) -> Self {
        Self {
            limits,
            prefix,
            sessions: BTreeMap::new(),
            cards: BTreeMap::new(),
            by_destination: HashMap::new(),
            waiting: HashMap::new(),
            once: Vec::new(),
            next_card: 1,
            next_attempt: 1,
            changed: BTreeSet::new(),
            folds: BTreeSet::new(),
            told_ms: None,
            effects: Vec::new(),
            ticked_ms: 0,
        }
    }

    /// What followed from the calls so far, in order.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The countdown of questions that begin to wait from now on, milliseconds.
    pub fn set_countdown(&mut self, countdown_ms: u64) {
        self.limits.countdown_ms = countdown_ms;
    }

    /// A session may ask from now on; its facts are what its questions say of it.
    pub fn session(&mut self, facts: SessionFacts) {
        let id = Arc::clone(&facts.id);
        match self.sessions.get_mut(&id) {
            Some(session) => session.facts = facts,
            None => {
                let session = Session {
                    facts,
                    shown: VecDeque::new(),
                    attempts: 0,
                    denied_unasked: 0,
                };
                self.sessions.insert(id, session);
            }
        }
    }

    /// A session has ended: its questions go, and whatever still waits is denied.
    pub fn session_ended(&mut self, id: &str) {
        self.deny_all(id, DenyReason::NobodyToAsk);
        self.once.retain(|once| &*once.session != id);
        if self.sessions.remove(id).is_some() {
            self.effects.push(Effect::Folded(FoldedPrompts {
                session_id: id.to_owned(),
                hosts: 0,
                denied_unasked: 0,
            }));
        }
        self.folds.retain(|session| &**session != id);
    }

    /// Nobody can be asked any more: everything that waits is denied, and the questions go.
    pub fn nobody_to_ask(&mut self) {
        let ids: Vec<_> = self.sessions.keys().cloned().collect();
        for id in ids {
            self.deny_all(&id, DenyReason::NobodyToAsk);
            self.folds.insert(id);
        }
    }

    fn deny_all(&mut self, session: &str, reason: DenyReason) {
        for number in self.cards_of(session, |_| true) {
            self.resolve(number, &Resolution::Deny(reason));
            self.remove(number);
        }
    }

    /// An attempt that no rule covers.
    pub fn ask(
        &mut self,
        now_ms: u64,
        session: &str,
        destination: Destination,
        actor: Option<Actor>,
    ) -> Asked {
        // Not each time: in a flood this is called ten thousand times a second.
        if now_ms >= self.ticked_ms.saturating_add(TICK_MS) {
            self.tick(now_ms);
        }
        let Some((id, state)) = self.sessions.get_key_value(session) else {
            return Asked::Denied(DenyReason::NobodyToAsk);
        };
        let (id, full) = (Arc::clone(id), state.attempts >= self.limits.attempts);
        if let Some(allowed) = self.take_once(&id, &destination) {
            return Asked::Granted(allowed);
        }
        let key = (Arc::clone(&id), destination);
        let known = self.by_destination.get(&key).copied();
        let waits = known
            .and_then(|number| self.cards.get(&number))
            .is_some_and(Card::is_waiting);
        if full || (!waits && !self.has_room(now_ms, &id)) {
            if let Some(state) = self.sessions.get_mut(&id) {
                state.denied_unasked = state.denied_unasked.saturating_add(1);
            }
            self.folds.insert(id);
            self.tell(now_ms);
            return Asked::Denied(DenyReason::TooManyQuestions);
        }
        let attempt = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        let number = match known {
            Some(number) => number,
            None => self.new_card(now_ms, key, actor.clone()),
        };
        let mut missed = false;
        if let Some(card) = self.cards.get_mut(&number) {
            card.attempts.insert(attempt);
            if card.actor.is_none() {
                // In a flood the first attempt is not always one that was looked up.
                card.actor = actor;
            }
            if matches!(card.place, Place::Missed { .. }) {
                // Asked again: it waits anew, behind those that wait already.
                missed = true;
                card.place = Place::Folded;
                card.countdown = Countdown::Until(now_ms.saturating_add(self.limits.countdown_ms));
            }
        }
        if let Some(state) = self.sessions.get_mut(&id) {
            state.attempts += 1;
        }
        self.waiting.insert(attempt, number);
        self.changed.insert(number);
        self.promote(now_ms, &id);
        if missed {
            self.hide(number);
        }
        self.folds.insert(id);
        self.tell(now_ms);
        Asked::Wait(attempt)
    }

    /// A client gave up. A question that nothing waits for any more is missed.
    pub fn withdraw(&mut self, now_ms: u64, attempt: AttemptId) {
        let Some(number) = self.waiting.remove(&attempt) else {
            return;
        };
        if let Some(card) = self.cards.get_mut(&number) {
            card.attempts.remove(&attempt);
            let (session, empty) = (Arc::clone(&card.session), card.attempts.is_empty());
            self.changed.insert(number);
            if let Some(state) = self.sessions.get_mut(&session) {
                state.attempts = state.attempts.saturating_sub(1);
            }
            if empty {
                self.miss(now_ms, number);
            }
        }
        self.tick(now_ms);
    }

    /// Checks an answer and says what it means; [`Broker::apply`] does it.
    ///
    /// # Errors
    /// The question is gone, was shown too short a time ago, or has no such scope.
    pub fn settle(
        &mut self,
        now_ms: u64,
        id: &str,
        answer: Answer,
        scope: AnswerScope,
    ) -> Result<Settled, AnswerError> {
        self.tick(now_ms);
        let (number, card) = self.find(id).ok_or(AnswerError::Gone)?;
        let session = self.sessions.get(&card.session).ok_or(AnswerError::Gone)?;
        card.settle(
            number,
            &session.facts,
            (answer, scope),
            now_ms,
            &self.limits,
        )
    }

    /// Does what an answer means, to everything of its session that waits and that it covers.
    /// `rule` is the number of the stored rule, of an answer that lasts.
    pub fn apply(&mut self, now_ms: u64, settled: &Settled, rule: Option<i64>) {
        let covered = self.cards_of(&settled.session, |card| {
            let Destination { host, port } = &card.destination;
            card.is_waiting() && settled.pattern.matches(host, *port)
        });
        let answered = self.cards.get(&settled.card);
        let missed = answered.is_some_and(|card| !card.is_waiting());
        if let (true, Some(card)) = (
            missed && settled.allow && settled.lasting.is_none(),
            answered,
        ) {
            self.once.push(Once {
                session: Arc::clone(&card.session),
                pattern: settled.pattern.clone(),
                until_ms: now_ms.saturating_add(self.limits.missed_ms),
            });
        }
        if missed {
            self.remove(settled.card);
        }
        // Of a question that was missed before its answer came, nothing waits; its answer is
        // kept for the next attempt and is not spent on others that wait.
        if !missed || settled.lasting.is_some() {
            let resolution = if settled.allow {
                Resolution::Allow(allowed(&settled.pattern, rule))
            } else {
                Resolution::Deny(DenyReason::Answer)
            };
            for number in covered {
                self.resolve(number, &resolution);
                self.remove(number);
            }
        }
        self.tick(now_ms);
    }

    /// Rules changed: `decide` gives what they say now of what waits in a session, nothing where
    /// they still say to ask.
    pub fn judge_again(
        &mut self,
        now_ms: u64,
        session: &str,
        decide: impl Fn(&Destination) -> Option<Resolution>,
    ) {
        for number in self.cards_of(session, |_| true) {
            let verdict = self
                .cards
                .get(&number)
                .and_then(|card| decide(&card.destination));
            if let Some(resolution) = verdict {
                self.resolve(number, &resolution);
                self.remove(number);
            }
        }
        self.tick(now_ms);
    }

    /// What the history says of the host of a question, once it was read.
    pub fn set_history(&mut self, now_ms: u64, id: &str, history: HostHistory) {
        if let Some((number, _)) = self.find(id) {
            if let Some(card) = self.cards.get_mut(&number) {
                card.history = history;
            }
            self.changed.insert(number);
        }
        self.tick(now_ms);
    }

    /// Lets time pass.
    pub fn tick(&mut self, now_ms: u64) {
        self.ticked_ms = now_ms;
        let mut late = Vec::new();
        let mut lapsed = Vec::new();
        let mut old = Vec::new();
        for (number, card) in &self.cards {
            match (card.place, &card.countdown) {
                (Place::Missed { since_ms, .. }, _)
                    if since_ms.saturating_add(self.limits.missed_ms) <= now_ms =>
                {
                    old.push(*number);
                }
                (Place::Missed { .. }, _) => {}
                (_, Countdown::Until(at)) if *at <= now_ms => late.push(*number),
                (_, Countdown::Held { until_ms, .. }) if *until_ms <= now_ms => {
                    lapsed.push(*number);
                }
                _ => {}
            }
        }
        for number in late {
            self.resolve(number, &Resolution::Deny(DenyReason::Timeout));
            self.miss(now_ms, number);
        }
        for number in lapsed {
            self.go_on(now_ms, number);
        }
        for number in old {
            self.remove(number);
        }
        self.once.retain(|once| once.until_ms > now_ms);
        self.forget_shown(now_ms);
        let ids: Vec<_> = self.sessions.keys().cloned().collect();
        for id in ids {
            self.promote(now_ms, &id);
        }
        self.tell(now_ms);
    }

    pub(super) fn find(&self, id: &str) -> Option<(u64, &Card)> {
        let number = id.strip_prefix(self.prefix.as_str())?.strip_prefix('-')?;
        let number = number.parse().ok()?;
        // Only as it was given: another spelling of the number is another id.
        let card = self.cards.get(&number).filter(|card| card.id == id)?;
        Some((number, card))
    }

    pub(super) fn cards_of(&self, session: &str, wanted: impl Fn(&Card) -> bool) -> Vec<u64> {
        self.cards
            .iter()
            .filter(|(_, card)| &*card.session == session && wanted(card))
            .map(|(number, _)| *number)
            .collect()
    }

    fn take_once(&mut self, session: &str, destination: &Destination) -> Option<Allowed> {
        let place = self.once.iter().position(|once| {
            &*once.session == session && once.pattern.matches(&destination.host, destination.port)
        })?;
        let once = self.once.swap_remove(place);
        Some(allowed(&once.pattern, None))
    }

    fn resolve(&mut self, number: u64, resolution: &Resolution) {
        let Some(card) = self.cards.get_mut(&number) else {
            return;
        };
        let attempts = std::mem::take(&mut card.attempts);
        if let Some(state) = self.sessions.get_mut(&card.session) {
            state.attempts = state.attempts.saturating_sub(attempts.len());
        }
        for attempt in attempts {
            self.waiting.remove(&attempt);
            self.effects
                .push(Effect::Resolve(attempt, resolution.clone()));
        }
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(card) = self.cards.remove(&number) else {
            return;
        };
        self.changed.remove(&number);
        let folded = card.is_folded();
        let key = (card.session, card.destination);
        self.by_destination.remove(&key);
        if !folded {
            self.effects.push(Effect::Gone(card.id));
        }
        if self.sessions.contains_key(&key.0) {
            self.folds.insert(key.0);
        }
    }
}

fn allowed(pattern: &HostPattern, rule: Option<i64>) -> Allowed {
    Allowed {
        source: Source::Operator,
        pattern: pattern.to_string(),
        rule,
    }
}

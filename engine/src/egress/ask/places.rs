//! Which questions of a session are shown, which wait behind them, and which were missed.

use super::broker::{Broker, Effect};
use super::card::{Card, Countdown, Place};
use crate::api::{Actor, HostHistory};
use crate::egress::decide::Destination;
use std::collections::BTreeSet;
use std::sync::Arc;

const MINUTE_MS: u64 = 60_000;

impl Broker {
    /// Whether one more question can wait, shown or folded.
    pub(super) fn has_room(&self, now_ms: u64, session: &Arc<str>) -> bool {
        self.may_show(now_ms, session)
            || self.cards_of(session, Card::is_folded).len() < self.limits.folded
    }

    fn may_show(&self, now_ms: u64, session: &Arc<str>) -> bool {
        let Some(state) = self.sessions.get(session) else {
            return false;
        };
        let recent = state.shown.iter().filter(|shown| !is_old(**shown, now_ms));
        recent.count() < self.limits.cards_per_minute && self.has_place(session)
    }

    /// Whether fewer questions are shown than may be at once.
    fn has_place(&self, session: &str) -> bool {
        let shown = self.cards_of(session, |card| matches!(card.place, Place::Shown { .. }));
        shown.len() < self.limits.cards
    }

    /// Forgets what was shown more than a minute ago.
    pub(super) fn forget_shown(&mut self, now_ms: u64) {
        for session in self.sessions.values_mut() {
            session.shown.retain(|shown| !is_old(*shown, now_ms));
        }
    }

    /// When a place opens that only the minute keeps closed: when its oldest question is a minute
    /// old. Where all places are taken no time opens one, and nobody is woken for it (REQ EG-9).
    pub(super) fn next_place(&self) -> Option<u64> {
        let behind = |id: &str| !self.cards_of(id, Card::is_folded).is_empty();
        let sessions = self
            .sessions
            .iter()
            .filter(|(id, state)| !state.shown.is_empty() && self.has_place(id) && behind(id));
        let opens = sessions.filter_map(|(_, state)| state.shown.front());
        opens.map(|shown| shown.saturating_add(MINUTE_MS)).min()
    }

    pub(super) fn new_card(
        &mut self,
        now_ms: u64,
        key: (Arc<str>, Destination),
        actor: Option<Actor>,
    ) -> u64 {
        let number = self.next_card;
        self.next_card += 1;
        let card = Card {
            id: format!("{}-{number}", self.prefix),
            session: Arc::clone(&key.0),
            destination: key.1.clone(),
            first_ms: now_ms,
            actor,
            attempts: BTreeSet::new(),
            place: Place::Folded,
            countdown: Countdown::Until(now_ms.saturating_add(self.limits.countdown_ms)),
            history: HostHistory::Unknown,
        };
        self.cards.insert(number, card);
        self.by_destination.insert(key, number);
        number
    }

    /// Shows folded questions while there are places, oldest first. Each gets its whole countdown
    /// from then on: a question that nobody could see was not left unanswered by anybody.
    pub(super) fn promote(&mut self, now_ms: u64, session: &Arc<str>) {
        for number in self.cards_of(session, Card::is_folded) {
            if !self.may_show(now_ms, session) {
                return;
            }
            if let Some(state) = self.sessions.get_mut(session) {
                state.shown.push_back(now_ms);
            }
            if let Some(card) = self.cards.get_mut(&number) {
                card.place = Place::Shown { since_ms: now_ms };
                card.countdown = Countdown::Until(now_ms.saturating_add(self.limits.countdown_ms));
            }
            self.changed.remove(&number);
            self.folds.insert(Arc::clone(session));
            let prompt = self.cards.get(&number).and_then(|card| self.prompt(card));
            self.effects
                .extend(prompt.map(|prompt| Effect::Shown(Box::new(prompt))));
        }
    }

    /// A question that was seen waits unseen, when no place was free for it: its answer would serve
    /// nothing that waits, so no window goes on showing it as missed (REQ EG-9).
    pub(super) fn hide(&mut self, number: u64) {
        let gone = self.cards.get(&number).filter(|card| card.is_folded());
        let gone = gone.map(|card| Effect::Gone(card.id.clone()));
        self.effects.extend(gone);
    }

    /// Nothing waits for a question any more: it is missed, or goes when nobody saw it.
    pub(super) fn miss(&mut self, now_ms: u64, number: u64) {
        let Some(card) = self.cards.get_mut(&number) else {
            return;
        };
        let session = Arc::clone(&card.session);
        match card.place {
            Place::Shown { since_ms } => {
                card.place = Place::Missed {
                    shown_ms: since_ms,
                    since_ms: now_ms,
                };
                card.countdown = Countdown::Until(now_ms);
                self.changed.insert(number);
                let missed = self.cards_of(&session, |card| !card.is_waiting());
                let surplus = missed.len().saturating_sub(self.limits.missed);
                for number in missed.into_iter().take(surplus) {
                    self.remove(number);
                }
            }
            Place::Folded => {
                self.folds.insert(session);
                self.remove(number);
            }
            Place::Missed { .. } => {}
        }
    }
}

/// Whether a question that was shown then counts no more.
fn is_old(shown_ms: u64, now_ms: u64) -> bool {
    shown_ms.saturating_add(MINUTE_MS) <= now_ms
}

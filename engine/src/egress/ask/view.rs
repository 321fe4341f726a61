//! What a broker tells: its questions as they stand, what changed, and when it has to go on.

use super::broker::{Broker, Effect};
use super::card::{Card, Countdown, Place};
use crate::api::{FoldedPrompts, Prompt};

impl Broker {
    /// When [`Broker::tick`] has something to do next.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        let cards = self.cards.values().map(|card| match card.place {
            Place::Missed { since_ms, .. } => since_ms.saturating_add(self.limits.missed_ms),
            Place::Shown { .. } | Place::Folded => match card.countdown {
                Countdown::Until(at) => at,
                Countdown::Held { until_ms, .. } => until_ms,
            },
        });
        let tell = (!self.changed.is_empty() || !self.folds.is_empty()).then(|| {
            self.told_ms
                .unwrap_or(0)
                .saturating_add(self.limits.tell_ms)
        });
        cards.chain(tell).chain(self.next_place()).min()
    }

    /// Questions that are shown: those that wait, oldest first, then missed ones.
    #[must_use]
    pub fn prompts(&self) -> Vec<Prompt> {
        let of = |waiting: bool| {
            self.cards
                .values()
                .filter(move |card| !card.is_folded() && card.is_waiting() == waiting)
                .filter_map(|card| self.prompt(card))
        };
        of(true).chain(of(false)).collect()
    }

    /// What waits beyond those, of sessions where something does or was denied unasked.
    #[must_use]
    pub fn folded(&self) -> Vec<FoldedPrompts> {
        self.sessions
            .keys()
            .filter_map(|id| self.folded_of(id))
            .filter(|folded| folded.hosts > 0 || folded.denied_unasked > 0)
            .collect()
    }

    /// Questions of one session that wait, shown or not.
    #[must_use]
    pub fn waiting(&self, session: &str) -> u32 {
        let count = self
            .cards
            .values()
            .filter(|card| &*card.session == session && card.is_waiting())
            .count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn folded_of(&self, session: &str) -> Option<FoldedPrompts> {
        let state = self.sessions.get(session)?;
        let hosts = self.cards_of(session, Card::is_folded).len();
        Some(FoldedPrompts {
            session_id: session.to_owned(),
            hosts: u32::try_from(hosts).unwrap_or(u32::MAX),
            denied_unasked: state.denied_unasked,
        })
    }

    pub(super) fn prompt(&self, card: &Card) -> Option<Prompt> {
        let session = self.sessions.get(&card.session)?;
        Some(card.prompt(&session.facts, &self.limits))
    }

    /// Tells what changed, unless something was told just now.
    pub(super) fn tell(&mut self, now_ms: u64) {
        let soon = self
            .told_ms
            .is_some_and(|told| told.saturating_add(self.limits.tell_ms) > now_ms);
        if soon || (self.changed.is_empty() && self.folds.is_empty()) {
            return;
        }
        self.told_ms = Some(now_ms);
        for number in std::mem::take(&mut self.changed) {
            let prompt = self
                .cards
                .get(&number)
                .filter(|card| !card.is_folded())
                .and_then(|card| self.prompt(card));
            self.effects
                .extend(prompt.map(|prompt| Effect::Changed(Box::new(prompt))));
        }
        for session in std::mem::take(&mut self.folds) {
            let folded = self.folded_of(&session);
            self.effects.extend(folded.map(Effect::Folded));
        }
    }
}

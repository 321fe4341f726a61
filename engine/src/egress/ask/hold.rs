//! Countdowns that stand still while somebody looks at their question.

use super::AnswerError;
use super::broker::Broker;
use super::card::{Countdown, Place};

impl Broker {
    /// Stops the countdown: somebody looks at the question.
    ///
    /// # Errors
    /// It does not wait any more.
    pub fn hold(&mut self, now_ms: u64, id: &str, window: &str) -> Result<(), AnswerError> {
        self.tick(now_ms);
        let (number, card) = self.find(id).ok_or(AnswerError::Gone)?;
        if !matches!(card.place, Place::Shown { .. }) {
            return Err(AnswerError::Gone);
        }
        let left_ms = match card.countdown {
            Countdown::Until(at) => at.saturating_sub(now_ms),
            Countdown::Held { left_ms, .. } => left_ms,
        };
        let held = Countdown::Held {
            left_ms,
            window: window.to_owned(),
            until_ms: now_ms.saturating_add(self.limits.hold_ms),
        };
        if let Some(card) = self.cards.get_mut(&number) {
            card.countdown = held;
        }
        self.changed.insert(number);
        self.tell(now_ms);
        Ok(())
    }

    /// The countdown goes on with what was left of it.
    pub fn release(&mut self, now_ms: u64, id: &str) {
        if let Some((number, _)) = self.find(id) {
            self.go_on(now_ms, number);
        }
        self.tick(now_ms);
    }

    /// A window is gone, and holds nothing any more.
    pub fn window_gone(&mut self, now_ms: u64, gone: &str) {
        let held: Vec<u64> = self
            .cards
            .iter()
            .filter(|(_, card)| {
                matches!(&card.countdown, Countdown::Held { window, .. } if window == gone)
            })
            .map(|(number, _)| *number)
            .collect();
        for number in held {
            self.go_on(now_ms, number);
        }
        self.tick(now_ms);
    }

    pub(super) fn go_on(&mut self, now_ms: u64, number: u64) {
        if let Some(card) = self.cards.get_mut(&number)
            && let Countdown::Held { left_ms, .. } = card.countdown
        {
            card.countdown = Countdown::Until(now_ms.saturating_add(left_ms));
            self.changed.insert(number);
        }
    }
}

//! A bounded number of connections, of which the silent ones never stand in the way of others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The slots of one session.
pub(super) struct Slots {
    permits: Arc<Semaphore>,
    most_silent: usize,
    silent: Mutex<Silent>,
}

#[derive(Default)]
struct Silent {
    next: u64,
    /// By order of arrival.
    by_age: BTreeMap<u64, Arc<Notify>>,
}

impl Slots {
    /// `connections` at once, of which `most_silent` may wait for their first bytes.
    pub(super) fn new(connections: usize, most_silent: usize) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(connections)),
            most_silent: most_silent.max(1),
            silent: Mutex::default(),
        })
    }

    /// The next free slot; when none is, the oldest silent connection is sent away.
    pub(super) async fn take(self: &Arc<Self>) -> Option<Slot> {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.end_oldest();
                Arc::clone(&self.permits).acquire_owned().await.ok()?
            }
        };
        Some(Slot {
            _permit: permit,
            slots: Arc::clone(self),
        })
    }

    /// Sends the oldest silent connection away.
    pub(super) fn end_oldest(&self) {
        if let Some((_, notify)) = self.silent().by_age.pop_first() {
            notify.notify_one();
        }
    }

    fn silent(&self) -> std::sync::MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place; free again when dropped.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
    slots: Arc<Slots>,
}

impl Slot {
    /// Puts the connection among the silent ones, until the value is dropped.
    pub(super) fn silent(&self) -> SilentSlot {
        let notify = Arc::new(Notify::new());
        let mut silent = self.slots.silent();
        let number = silent.next;
        silent.next += 1;
        silent.by_age.insert(number, Arc::clone(&notify));
        let oldest = if silent.by_age.len() > self.slots.most_silent {
            silent.by_age.pop_first()
        } else {
            None
        };
        drop(silent);
        if let Some((_, oldest)) = oldest {
            oldest.notify_one();
        }
        SilentSlot {
            number,
            notify,
            slots: Arc::clone(&self.slots),
        }
    }
}

/// A place among the silent connections.
pub(super) struct SilentSlot {
    number: u64,
    notify: Arc<Notify>,
    slots: Arc<Slots>,
}

impl SilentSlot {
    /// Comes when this connection is sent away.
    pub(super) async fn sent_away(&self) {
        self.notify.notified().await;
    }
}

impl Drop for SilentSlot {
    fn drop(&mut self) {
        self.slots.silent().by_age.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[tokio::test]
    async fn one_silent_connection_too_many_sends_the_oldest_away() {
        let slots = Slots::new(8, 2);
        let (first, second, third) = (slots.take().await, slots.take().await, slots.take().await);
        let oldest = first.as_ref().unwrap().silent();
        let middle = second.as_ref().unwrap().silent();
        let youngest = third.as_ref().unwrap().silent();
        oldest.sent_away().await;
        for stays in [&middle, &youngest] {
            tokio::select! {
                biased;
                () = stays.sent_away() => panic!("only the oldest goes"),
                () = std::future::ready(()) => {}
            }
        }
    }

    #[tokio::test]
    async fn a_full_session_sends_the_oldest_silent_connection_away_and_then_waits() {
        let slots = Slots::new(1, 8);
        let only = slots.take().await.unwrap();
        let silent = only.silent();
        let next = tokio::spawn({
            let slots = std::sync::Arc::clone(&slots);
            async move { slots.take().await.is_some() }
        });
        silent.sent_away().await;
        assert!(!next.is_finished(), "the slot is still taken");
        drop((silent, only));
        assert!(next.await.unwrap());
    }
}

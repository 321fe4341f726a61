//! A bounded broadcast that counts what it drops.

use tokio::sync::broadcast;

/// Sends each event to every subscriber; never waits for one.
#[derive(Debug)]
pub struct Bus<T> {
    sender: broadcast::Sender<T>,
}

/// What a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received<T> {
    /// An event.
    Event(T),
    /// So many events were dropped, because this subscriber was slow.
    Dropped(u64),
}

/// One subscriber's end of a [`Bus`].
#[derive(Debug)]
pub struct Subscription<T> {
    receiver: broadcast::Receiver<T>,
}

impl<T: Clone> Bus<T> {
    /// A bus that holds at most `capacity` events for its slowest subscriber.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            sender: broadcast::Sender::new(capacity),
        }
    }

    /// Sends to all.
    pub fn send(&self, event: T) {
        // An error only says that nobody listens.
        let _ = self.sender.send(event);
    }

    /// A new subscriber; it sees what is sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<T> {
        Subscription {
            receiver: self.sender.subscribe(),
        }
    }
}

impl<T: Clone> Subscription<T> {
    /// The next event if one waits.
    pub fn try_next(&mut self) -> Option<Received<T>> {
        match self.receiver.try_recv() {
            Ok(event) => Some(Received::Event(event)),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(Received::Dropped(missed)),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => {
                None
            }
        }
    }

    /// The next event; `None` once the bus is gone.
    pub async fn next(&mut self) -> Option<Received<T>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Received::Event(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Received::Dropped(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_subscriber_is_told_how_much_it_lost_and_goes_on_with_the_newest() {
        let bus = Bus::new(4);
        let mut subscription = bus.subscribe();
        for event in 0..10 {
            bus.send(event);
        }
        let received: Vec<_> = std::iter::from_fn(|| subscription.try_next()).collect();
        let expected = vec![
            Received::Dropped(6),
            Received::Event(6),
            Received::Event(7),
            Received::Event(8),
            Received::Event(9),
        ];
        assert_eq!(received, expected);
    }
}

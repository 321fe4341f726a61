//! The shell's own few events on their way to the window, which may not be there yet.

use kotak_engine::api::UiEvent;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How many events may wait for a window that is still loading; the oldest are dropped.
const KEPT: usize = 32;

/// Holds events until somebody listens; the newest listener gets them.
#[derive(Debug, Default)]
pub(crate) struct ShellEvents(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    listener: Option<UnboundedSender<UiEvent>>,
    waiting: VecDeque<UiEvent>,
}

impl ShellEvents {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an event to the listener, or keeps it for the next one.
    pub(crate) fn send(&self, event: UiEvent) {
        let mut state = self.state();
        let unheard = match &state.listener {
            Some(listener) => listener.send(event).err().map(|unheard| unheard.0),
            None => Some(event),
        };
        if let Some(event) = unheard {
            state.listener = None;
            if state.waiting.len() == KEPT {
                state.waiting.pop_front();
            }
            state.waiting.push_back(event);
        }
    }

    /// Everything that waits, and everything from now on, until the next one listens.
    pub(crate) fn listen(&self) -> UnboundedReceiver<UiEvent> {
        let (sender, receiver) = unbounded_channel();
        let mut state = self.state();
        for event in state.waiting.drain(..) {
            // The receiver is here.
            let _ = sender.send(event);
        }
        state.listener = Some(sender);
        receiver
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, ShellEvents};
    use kotak_engine::api::UiEvent;

    fn folder(name: &str) -> UiEvent {
        UiEvent::Activated {
            cwd: Some(name.to_owned()),
        }
    }

    #[test]
    fn a_folder_named_before_the_window_listens_reaches_it_once() {
        let events = ShellEvents::default();
        events.send(folder("/first"));
        let mut window = events.listen();
        events.send(folder("/second"));
        assert_eq!(window.try_recv().ok(), Some(folder("/first")));
        assert_eq!(window.try_recv().ok(), Some(folder("/second")));
        assert!(window.try_recv().is_err());
        let mut reloaded = events.listen();
        assert!(reloaded.try_recv().is_err());
    }

    #[test]
    fn while_the_window_is_gone_events_wait_and_are_bounded() {
        let events = ShellEvents::default();
        drop(events.listen());
        for number in 0..=KEPT {
            events.send(folder(&number.to_string()));
        }
        let mut window = events.listen();
        assert_eq!(window.try_recv().ok(), Some(folder("1")));
        let rest = std::iter::from_fn(|| window.try_recv().ok()).count();
        assert_eq!(rest, KEPT - 1);
    }
}

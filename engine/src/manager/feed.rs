//! The stream of changes that a window reads: batched, coalesced, bounded.

use super::engine::WindowOpen;
use crate::api::{
    ActivityRow, FoldedPrompts, GrantInfo, Prompt, RuleInfo, SessionInfo, Settings, UiEvent,
};
use crate::events::{Received, Subscription};
use crate::probe::HostReport;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Least time between two batches: ten a second.
const PERIOD: Duration = Duration::from_millis(100);

/// One window's stream.
#[derive(Debug)]
pub struct EventStream {
    subscription: Subscription<UiEvent>,
    source: Box<dyn Source>,
    next_batch_at: Instant,
    /// Received and not returned yet; stays when [`EventStream::next_batch`] is dropped half-way.
    batch: Batch,
    /// Questions that the window was told of and not yet that they are gone.
    told: HashSet<String>,
    _window: WindowOpen,
}

/// Where a stream that fell behind gets the whole truth again.
pub(super) trait Source: Send + Sync + std::fmt::Debug {
    /// Everything that deltas may have changed; `None` once the engine is gone.
    fn everything(&self) -> Option<Everything>;
}

/// See [`Source::everything`].
#[derive(Debug)]
pub(super) struct Everything {
    pub(super) host: HostReport,
    pub(super) settings: Settings,
    pub(super) sessions: Vec<SessionInfo>,
    /// Ids that were dismissed in this run.
    pub(super) gone: Vec<String>,
    pub(super) rules: Vec<RuleInfo>,
    pub(super) grants: Vec<GrantInfo>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) folded: Vec<FoldedPrompts>,
}

impl EventStream {
    pub(super) fn new(
        subscription: Subscription<UiEvent>,
        source: Box<dyn Source>,
        window: WindowOpen,
    ) -> Self {
        // Those that the window's snapshot holds.
        let prompts = source.everything().map(|all| all.prompts);
        let told = prompts.into_iter().flatten().map(|prompt| prompt.id);
        Self {
            subscription,
            source,
            next_batch_at: Instant::now(),
            batch: Batch::default(),
            told: told.collect(),
            _window: window,
        }
    }

    /// The next batch: never empty, at most ten a second, each session at most once in it.
    /// `None` once the engine is gone. Nothing is lost when this future is dropped half-way.
    pub async fn next_batch(&mut self) -> Option<Vec<UiEvent>> {
        loop {
            if self.batch.is_empty() {
                let received = self.subscription.next().await?;
                self.add(received);
            }
            // The first change after a quiet time goes out at once.
            tokio::time::sleep_until(self.next_batch_at).await;
            while let Some(received) = self.subscription.try_next() {
                self.add(received);
            }
            if !self.batch.is_empty() {
                self.next_batch_at = Instant::now() + PERIOD;
                return Some(std::mem::take(&mut self.batch).events());
            }
        }
    }

    fn add(&mut self, received: Received<UiEvent>) {
        match received {
            Received::Event(event) => {
                match &event {
                    UiEvent::Prompt { prompt } => {
                        self.told.insert(prompt.id.clone());
                    }
                    UiEvent::PromptGone { id } => {
                        self.told.remove(id);
                    }
                    _ => {}
                }
                self.batch.add(event);
            }
            Received::Dropped(count) => {
                tracing::warn!(
                    count,
                    "a window reads its events too slowly; it gets the whole state again"
                );
                let Some(all) = self.source.everything() else {
                    return;
                };
                self.batch.add(UiEvent::Host {
                    host: Box::new(all.host),
                });
                self.batch.add(UiEvent::Settings {
                    settings: all.settings,
                });
                self.batch.add(UiEvent::Rules { rules: all.rules });
                self.batch.add(UiEvent::Grants { grants: all.grants });
                let now: HashSet<String> =
                    all.prompts.iter().map(|prompt| prompt.id.clone()).collect();
                // Questions that went while nobody looked.
                for id in self.told.difference(&now) {
                    self.batch.add(UiEvent::PromptGone { id: id.clone() });
                }
                self.told = now;
                for prompt in all.prompts {
                    self.batch.add(UiEvent::Prompt {
                        prompt: Box::new(prompt),
                    });
                }
                for folded in all.folded {
                    self.batch.add(UiEvent::PromptsFolded { folded });
                }
                for id in all.gone {
                    self.batch.add(UiEvent::SessionGone { id });
                }
                for session in all.sessions {
                    self.batch.add(UiEvent::Session {
                        session: Box::new(session),
                    });
                }
            }
        }
    }
}

/// Events on their way, the newest of each kind only.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<Option<UiEvent>>,
    places: HashMap<Place, usize>,
    rows: BTreeMap<i64, ActivityRow>,
    skipped: u64,
}

/// Events with an equal place replace each other.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Place {
    Session(String),
    Host,
    Settings,
    Prompt(String),
    Folded(String),
    Rules,
    Grants,
}

/// Rows that one batch carries; more are counted, and the window pages them from the store.
const ROWS: usize = 500;

impl Batch {
    fn add(&mut self, event: UiEvent) {
        if let UiEvent::Activity { rows, skipped } = event {
            self.add_rows(rows, skipped);
            return;
        }
        let place = match &event {
            UiEvent::Session { session } => Place::Session(session.id.clone()),
            UiEvent::SessionGone { id } => Place::Session(id.clone()),
            UiEvent::Host { .. } => Place::Host,
            UiEvent::Settings { .. } => Place::Settings,
            UiEvent::Prompt { prompt } => Place::Prompt(prompt.id.clone()),
            UiEvent::PromptGone { id } => Place::Prompt(id.clone()),
            UiEvent::PromptsFolded { folded } => Place::Folded(folded.session_id.clone()),
            UiEvent::Rules { .. } => Place::Rules,
            UiEvent::Grants { .. } => Place::Grants,
            // Each of these is news of its own.
            UiEvent::Activity { .. }
            | UiEvent::Notice { .. }
            | UiEvent::Activated { .. }
            | UiEvent::CloseRequested => {
                self.events.push(Some(event));
                return;
            }
        };
        if let Some(earlier) = self.places.insert(place, self.events.len()) {
            self.events[earlier] = None;
        }
        self.events.push(Some(event));
    }

    /// Rows of one batch travel in one event; a later row of the same id replaces the earlier.
    fn add_rows(&mut self, rows: Vec<ActivityRow>, skipped: u64) {
        self.skipped = self.skipped.saturating_add(skipped);
        for row in rows {
            if self.rows.len() == ROWS && !self.rows.contains_key(&row.id) {
                self.skipped = self.skipped.saturating_add(1);
            } else {
                self.rows.insert(row.id, row);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.skipped == 0 && self.events.is_empty()
    }

    fn events(self) -> Vec<UiEvent> {
        let mut events: Vec<_> = self.events.into_iter().flatten().collect();
        if !self.rows.is_empty() || self.skipped > 0 {
            events.push(UiEvent::Activity {
                rows: self.rows.into_values().collect(),
                skipped: self.skipped,
            });
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;

    fn gone(id: &str) -> UiEvent {
        UiEvent::SessionGone { id: id.to_owned() }
    }

    fn notice(code: &str) -> UiEvent {
        let problem = Problem {
            code: code.to_owned(),
            message: String::new(),
            causes: vec![],
            fix: None,
        };
        UiEvent::Notice { notice: problem }
    }

    #[test]
    fn a_batch_keeps_the_newest_of_each_session_and_every_notice() {
        let mut batch = Batch::default();
        let settings = |font_size| UiEvent::Settings {
            settings: Settings {
                font_size,
                ..Settings::default()
            },
        };
        for event in [
            gone("a"),
            notice("X"),
            settings(9),
            gone("b"),
            notice("X"),
            gone("a"),
            settings(10),
        ] {
            batch.add(event);
        }
        assert_eq!(
            batch.events(),
            vec![notice("X"), gone("b"), notice("X"), gone("a"), settings(10)]
        );
    }
}

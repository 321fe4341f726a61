//! Runs a [`Broker`] against a clock.

use super::broker::{Asked, Broker, Effect};
use super::card::{AttemptId, Resolution, Settled};
use super::{AnswerError, AskLimits, SessionFacts};
use crate::api::{Actor, Answer, AnswerScope, FoldedPrompts, HostHistory, Prompt};
use crate::egress::decide::{DenyReason, Destination};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, oneshot};

/// What the windows are told of questions. The callback is called under a lock and must neither
/// wait nor ask back.
#[derive(Debug, Clone, PartialEq)]
pub enum AskEvent {
    /// A question is newly shown.
    Shown(Box<Prompt>),
    /// A question changed.
    Changed(Box<Prompt>),
    /// A question is no more.
    Gone(String),
    /// How many hosts wait unseen changed.
    Folded(FoldedPrompts),
}

/// The time, milliseconds since the Unix epoch; never goes back.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now_ms(&self) -> u64;
}

/// The host's clock: the wall's time when it was made, and the monotonic clock since then, so
/// that nobody's change of the time of day answers a question.
#[derive(Debug)]
pub struct SystemClock {
    born: Instant,
    born_ms: u64,
}

impl Default for SystemClock {
    fn default() -> Self {
        let born_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| u64::try_from(since.as_millis()).ok());
        Self {
            born: Instant::now(),
            born_ms: born_ms.unwrap_or(0),
        }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.born_ms.saturating_add(since)
    }
}

/// The questions of all sessions of this engine. Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct AskFirst(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    events: Box<dyn Fn(AskEvent) + Send + Sync>,
    /// The broker's next wake may be sooner than the timer thinks.
    sooner: Notify,
}

struct State {
    broker: Broker,
    waiters: HashMap<AttemptId, oneshot::Sender<Resolution>>,
    /// Whether somebody is there who could answer.
    audience: bool,
}

impl fmt::Debug for AskFirst {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AskFirst").finish_non_exhaustive()
    }
}

impl AskFirst {
    /// Starts asking; without an audience, so everything is denied until there is one. Must be
    /// called inside a runtime; the timer ends with the last clone.
    #[must_use]
    pub fn start(
        prefix: String,
        limits: AskLimits,
        clock: Arc<dyn Clock>,
        events: impl Fn(AskEvent) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                broker: Broker::new(prefix, limits),
                waiters: HashMap::new(),
                audience: false,
            }),
            clock,
            events: Box::new(events),
            sooner: Notify::new(),
        });
        tokio::spawn(keep_time(Arc::downgrade(&shared)));
        Self(shared)
    }

    /// Says whether somebody is there who could answer. When nobody is, what waits is denied.
    pub fn set_audience(&self, audience: bool) {
        self.0.run(|state, _| {
            state.audience = audience;
            if !audience {
                state.broker.nobody_to_ask();
            }
        });
    }

    /// The countdown of questions that begin to wait from now on.
    pub fn set_countdown(&self, countdown: Duration) {
        let ms = u64::try_from(countdown.as_millis()).unwrap_or(u64::MAX);
        self.0.run(|state, _| state.broker.set_countdown(ms));
    }

    /// A session may ask from now on.
    pub fn session(&self, facts: SessionFacts) {
        self.0.run(|state, _| state.broker.session(facts));
    }

    /// A session has ended; what waits in it is denied.
    pub fn session_ended(&self, id: &str) {
        self.0.run(|state, _| state.broker.session_ended(id));
    }

    /// Waits until an attempt is decided. Dropping the future withdraws the attempt. `decide`
    /// gives what the rules say now, nothing where they say to ask: it is called where no
    /// [`AskFirst::judge_again`] can come between its answer and the question.
    pub async fn ask(
        &self,
        session: &str,
        destination: Destination,
        actor: Option<Actor>,
        decide: impl FnOnce(&Destination) -> Option<Resolution>,
    ) -> Resolution {
        let asked = self.0.run(|state, now_ms| {
            if let Some(resolution) = decide(&destination) {
                return Err(resolution);
            }
            if !state.audience {
                return Err(Resolution::Deny(DenyReason::NobodyToAsk));
            }
            match state.broker.ask(now_ms, session, destination, actor) {
                Asked::Wait(id) => {
                    let (answer, answered) = oneshot::channel();
                    state.waiters.insert(id, answer);
                    Ok((id, answered))
                }
                Asked::Granted(allowed) => Err(Resolution::Allow(allowed)),
                Asked::Denied(reason) => Err(Resolution::Deny(reason)),
            }
        });
        match asked {
            Err(resolution) => resolution,
            Ok((id, answered)) => {
                let _withdrawn = Withdraw {
                    shared: Arc::downgrade(&self.0),
                    id,
                };
                // The sender is dropped without an answer only with the engine.
                answered
                    .await
                    .unwrap_or(Resolution::Deny(DenyReason::NobodyToAsk))
            }
        }
    }

    /// Checks an answer and says what it means; [`AskFirst::apply`] does it, once the rule of an
    /// answer that lasts is stored.
    ///
    /// # Errors
    /// The question is gone, was shown too short a time ago, or has no such scope.
    pub fn settle(
        &self,
        id: &str,
        answer: Answer,
        scope: AnswerScope,
    ) -> Result<Settled, AnswerError> {
        self.0
            .run(|state, now_ms| state.broker.settle(now_ms, id, answer, scope))
    }

    /// Does what a settled answer means, to everything of its session that waits and that it
    /// covers.
    pub fn apply(&self, settled: &Settled, rule: Option<i64>) {
        self.0
            .run(|state, now_ms| state.broker.apply(now_ms, settled, rule));
    }

    /// Rules changed: `decide` gives what they say now of what waits in a session, nothing where
    /// they still say to ask.
    pub fn judge_again(&self, session: &str, decide: impl Fn(&Destination) -> Option<Resolution>) {
        self.0
            .run(|state, now_ms| state.broker.judge_again(now_ms, session, decide));
    }

    /// What the history says of the host of a question, once it was read.
    pub fn set_history(&self, id: &str, history: HostHistory) {
        self.0
            .run(|state, now_ms| state.broker.set_history(now_ms, id, history));
    }

    /// Stops the countdown for a window that shows the question, for ten minutes at most.
    ///
    /// # Errors
    /// It does not wait any more.
    pub fn hold(&self, id: &str, window: &str) -> Result<(), AnswerError> {
        self.0
            .run(|state, now_ms| state.broker.hold(now_ms, id, window))
    }

    /// The countdown goes on with what was left of it.
    pub fn release(&self, id: &str) {
        self.0.run(|state, now_ms| state.broker.release(now_ms, id));
    }

    /// A window is gone, and holds nothing any more.
    pub fn window_gone(&self, window: &str) {
        self.0
            .run(|state, now_ms| state.broker.window_gone(now_ms, window));
    }

    /// Whether a question is this engine's.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.0.state().broker.find(id).is_some()
    }

    /// Questions that are shown: those that wait, oldest first, then missed ones.
    #[must_use]
    pub fn prompts(&self) -> Vec<Prompt> {
        self.0.state().broker.prompts()
    }

    /// What waits beyond those, by session.
    #[must_use]
    pub fn folded(&self) -> Vec<FoldedPrompts> {
        self.0.state().broker.folded()
    }

    /// Questions of one session that wait, shown or not.
    #[must_use]
    pub fn waiting(&self, session: &str) -> u32 {
        self.0.state().broker.waiting(session)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the broker, and what follows from it before anybody else does.
    fn run<T>(&self, act: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.state();
        let now_ms = self.clock.now_ms();
        let before = state.broker.next_wake();
        let result = act(&mut state, now_ms);
        for effect in state.broker.effects() {
            match effect {
                Effect::Resolve(attempt, resolution) => {
                    if let Some(waiter) = state.waiters.remove(&attempt) {
                        // Whoever gave up in between needs no answer.
                        let _sent = waiter.send(resolution);
                    }
                }
                Effect::Shown(prompt) => (self.events)(AskEvent::Shown(prompt)),
                Effect::Changed(prompt) => (self.events)(AskEvent::Changed(prompt)),
                Effect::Gone(id) => (self.events)(AskEvent::Gone(id)),
                Effect::Folded(folded) => (self.events)(AskEvent::Folded(folded)),
            }
        }
        if state.broker.next_wake() != before {
            self.sooner.notify_one();
        }
        result
    }
}

/// Ticks the broker whenever it has something to do.
async fn keep_time(shared: Weak<Shared>) {
    loop {
        let Some(strong) = shared.upgrade() else {
            return;
        };
        strong.run(|state, now_ms| state.broker.tick(now_ms));
        let wake = strong.state().broker.next_wake();
        let wait = wake.map_or(IDLE, |wake| {
            // At least a millisecond, so that a clock that stands still is not asked without end.
            Duration::from_millis(wake.saturating_sub(strong.clock.now_ms()).max(1)).min(IDLE)
        });
        let sooner = strong.sooner.notified();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = sooner => {}
        }
    }
}

/// How long the timer keeps the engine's questions alive without anything to do.
const IDLE: Duration = Duration::from_secs(1);

/// Withdraws an attempt whose client gave up; does nothing after it was decided.
struct Withdraw {
    shared: Weak<Shared>,
    id: AttemptId,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            let id = self.id;
            shared.run(|state, now_ms| {
                state.waiters.remove(&id);
                state.broker.withdraw(now_ms, id);
            });
        }
    }
}

//! Questions of this engine, and of others of the same user that the window answers.

use crate::api::{
    ActivityRow, Answer, AnswerScope, FoldedPrompts, HostHistory, Prompt, RuleInfo, RuleOrigin,
    UiEvent,
};
use crate::desk::{DeskEvent, Guest, GuestEvent, Host, Reply};
use crate::egress::ask::{AskEvent, AskFirst, AskLimits, Clock, Lasting};
use crate::error::{Coded, Problem};
use crate::events::Bus;
use crate::store::{RuleStart, Store};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// The window of this engine, where it has one: it holds countdowns.
pub(super) const WINDOW: &str = "window";
/// The window of another engine, at the other end of the desk.
const DESK: &str = "desk";

/// Is told of every change of this engine's questions of a session. Used for counts.
pub(super) type WaitingListener = Box<dyn Fn(&str) + Send + Sync>;

/// Cheap to clone; every clone is the same.
#[derive(Clone)]
pub(super) struct Prompts(Arc<Shared>);

struct Shared {
    ask: AskFirst,
    store: Arc<Store>,
    events: Arc<Bus<UiEvent>>,
    /// The desk, where this engine is the window's.
    host: OnceLock<Host>,
    /// The way to the window's engine, where this is another.
    guest: OnceLock<Guest>,
    /// Somebody is here who answers: a window, or a terminal.
    here: AtomicBool,
    /// The window's engine is at the other end of the desk.
    there: AtomicBool,
    waiting: OnceLock<WaitingListener>,
    /// What a terminal is told, where one asks.
    terminal: Mutex<Option<mpsc::UnboundedSender<AskEvent>>>,
}

impl fmt::Debug for Prompts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Prompts").finish_non_exhaustive()
    }
}

impl Prompts {
    /// Starts asking. Must be called inside a runtime.
    pub(super) fn start(
        prefix: String,
        clock: Arc<dyn Clock>,
        countdown: Duration,
        store: Arc<Store>,
        events: Arc<Bus<UiEvent>>,
    ) -> Self {
        // Through a channel: what follows from an event asks the broker again. The broker bounds
        // how much it tells.
        let (sender, receiver) = mpsc::unbounded_channel();
        let ask = AskFirst::start(prefix, AskLimits::default(), clock, move |event| {
            // Nobody reads only while the engine goes down.
            let _sent = sender.send(event);
        });
        ask.set_countdown(countdown);
        let shared = Arc::new(Shared {
            ask,
            store,
            events,
            host: OnceLock::new(),
            guest: OnceLock::new(),
            here: AtomicBool::new(false),
            there: AtomicBool::new(false),
            waiting: OnceLock::new(),
            terminal: Mutex::new(None),
        });
        tokio::spawn(tell(Arc::downgrade(&shared), receiver));
        Self(shared)
    }

    pub(super) fn ask(&self) -> &AskFirst {
        &self.0.ask
    }

    pub(super) fn on_waiting(&self, listener: WaitingListener) {
        let _first = self.0.waiting.set(listener);
    }

    /// This engine is the window's: others may ask here.
    pub(super) fn be_host(&self, host: Host) {
        let _first = self.0.host.set(host);
        self.set_here(true);
    }

    /// This engine is a window's, and the desk is not to be had: it asks here alone.
    pub(super) fn be_alone(&self) {
        self.set_here(true);
    }

    /// This engine is another: it asks at the window's while that runs.
    pub(super) fn be_guest(&self, guest: Guest) {
        let _first = self.0.guest.set(guest);
    }

    fn set_here(&self, here: bool) {
        self.0.here.store(here, Ordering::SeqCst);
        self.0.audience_changed();
    }

    /// A terminal answers from now on, until the receiver is dropped and
    /// [`Prompts::terminal_gone`] was called.
    pub(super) fn terminal(&self) -> mpsc::UnboundedReceiver<AskEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *lock(&self.0.terminal) = Some(sender);
        self.set_here(true);
        receiver
    }

    pub(super) fn terminal_gone(&self) {
        *lock(&self.0.terminal) = None;
        self.set_here(false);
    }

    /// Whether the window of another engine shows this engine's questions.
    pub(super) fn is_at_desk(&self) -> bool {
        self.0.there.load(Ordering::SeqCst)
    }

    /// Live rows, for the window of another engine.
    pub(super) fn rows(&self, rows: &[ActivityRow], skipped: u64) {
        if let Some(guest) = self.0.guest.get() {
            guest.rows(rows, skipped);
        }
    }

    /// What the window of this engine is told by another.
    pub(super) fn desk_event(&self, event: DeskEvent) {
        let id = match &event {
            DeskEvent::Prompt(prompt) => Some(&prompt.id),
            DeskEvent::PromptGone(id) => Some(id),
            DeskEvent::Folded(_) | DeskEvent::Rows { .. } => None,
        };
        if id.is_some_and(|id| self.ask().has(id)) {
            tracing::warn!("another engine's question has the id of one of this engine's");
            return;
        }
        self.0.events.send(match event {
            DeskEvent::Prompt(prompt) => UiEvent::Prompt { prompt },
            DeskEvent::PromptGone(id) => UiEvent::PromptGone { id },
            DeskEvent::Folded(folded) => UiEvent::PromptsFolded { folded },
            DeskEvent::Rows { rows, skipped } => UiEvent::Activity { rows, skipped },
        });
    }

    /// What the window's engine wants of this one's questions.
    pub(super) async fn guest_event(&self, event: GuestEvent) -> Option<Reply> {
        match event {
            GuestEvent::Connected => {
                self.0.there.store(true, Ordering::SeqCst);
                self.0.audience_changed();
                if let Some(guest) = self.0.guest.get() {
                    for prompt in self.ask().prompts() {
                        guest.prompt(prompt);
                    }
                    for folded in self.ask().folded() {
                        guest.folded(folded);
                    }
                }
                None
            }
            GuestEvent::Disconnected => {
                self.0.there.store(false, Ordering::SeqCst);
                self.ask().window_gone(DESK);
                self.0.audience_changed();
                None
            }
            GuestEvent::Answer { id, answer, scope } => {
                Some(self.answer_own(&id, answer, scope).await)
            }
            GuestEvent::Hold(id) => {
                let held = self.ask().hold(&id, DESK);
                Some(held.map(|()| None).map_err(|error| error.problem()))
            }
            GuestEvent::Release(id) => {
                self.ask().release(&id);
                None
            }
        }
    }

    /// All questions that the window shows.
    pub(super) fn prompts(&self) -> Vec<Prompt> {
        let mut prompts = self.ask().prompts();
        let others = self.0.host.get().map(Host::prompts).unwrap_or_default();
        prompts.extend(
            others
                .into_iter()
                .filter(|prompt| !self.ask().has(&prompt.id)),
        );
        prompts.sort_by_key(|prompt| {
            (
                prompt.state != crate::api::PromptState::Waiting,
                prompt.first_ms,
            )
        });
        prompts
    }

    pub(super) fn folded(&self) -> Vec<FoldedPrompts> {
        let mut folded = self.ask().folded();
        folded.extend(self.0.host.get().map(Host::folded).unwrap_or_default());
        folded
    }

    /// Answers a question of this engine, or of another one that asks here. The rule, when the
    /// answer lasts.
    pub(super) async fn answer(
        &self,
        id: &str,
        answer: Answer,
        scope: AnswerScope,
    ) -> Result<Option<RuleInfo>, Problem> {
        match self.elsewhere(id) {
            Some(host) => host.answer(id, answer, scope).await,
            None => self.answer_own(id, answer, scope).await,
        }
    }

    /// The desk, when a question came by it. An engine that gives its question the id of one of
    /// this engine's gets no answer.
    fn elsewhere(&self, id: &str) -> Option<&Host> {
        let host = self.0.host.get()?;
        (!self.ask().has(id) && host.has(id)).then_some(host)
    }

    async fn answer_own(
        &self,
        id: &str,
        answer: Answer,
        scope: AnswerScope,
    ) -> Result<Option<RuleInfo>, Problem> {
        let ask = self.ask();
        let settled = ask
            .settle(id, answer, scope)
            .map_err(|error| error.problem())?;
        let rule = match settled.lasting {
            None => None,
            Some(lasting) => {
                let start = RuleStart {
                    pattern: settled.pattern.to_string(),
                    allow: settled.allow,
                    session_id: match lasting {
                        Lasting::Session => Some(settled.session.clone()),
                        Lasting::Workspace => None,
                    },
                    workspace: settled.workspace.clone(),
                    origin: RuleOrigin::Prompt,
                };
                // What waits goes on waiting when the rule cannot be kept.
                Some(add_rule(&self.0.store, start).await?)
            }
        };
        ask.apply(&settled, rule.as_ref().map(|rule| rule.id));
        Ok(rule)
    }

    pub(super) async fn hold(&self, id: &str) -> Result<(), Problem> {
        match self.elsewhere(id) {
            Some(host) => host.hold(id).await.map(|_| ()),
            None => self.ask().hold(id, WINDOW).map_err(|error| error.problem()),
        }
    }

    pub(super) fn release(&self, id: &str) {
        match self.elsewhere(id) {
            Some(host) => host.release(id),
            None => self.ask().release(id),
        }
    }

    /// The window is gone: what it held goes on.
    pub(super) fn window_gone(&self) {
        self.ask().window_gone(WINDOW);
        if let Some(host) = self.0.host.get() {
            host.release_all();
        }
    }
}

impl Shared {
    fn audience_changed(&self) {
        let audience = self.here.load(Ordering::SeqCst) || self.there.load(Ordering::SeqCst);
        self.ask.set_audience(audience);
    }
}

/// Keeps a rule, and returns once it holds in every session of this engine.
pub(super) async fn add_rule(store: &Arc<Store>, start: RuleStart) -> Result<RuleInfo, Problem> {
    let store = Arc::clone(store);
    super::network_api::blocking(move || {
        let rule = store.add_rule(start)?;
        // The store's thread tells of the rule before it answers anything else.
        store.rules(&crate::store::RuleFilter::default())?;
        Ok(rule)
    })
    .await
}

/// Tells everybody what the broker told.
async fn tell(shared: Weak<Shared>, mut events: mpsc::UnboundedReceiver<AskEvent>) {
    while let Some(event) = events.recv().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let session = match &event {
            AskEvent::Shown(prompt) | AskEvent::Changed(prompt) => Some(prompt.session_id.clone()),
            AskEvent::Folded(folded) => Some(folded.session_id.clone()),
            AskEvent::Gone(_) => None,
        };
        if let AskEvent::Shown(prompt) = &event {
            look_up(&shared, prompt);
        }
        if let Some(terminal) = &*lock(&shared.terminal) {
            let _sent = terminal.send(event.clone());
        }
        if let Some(guest) = shared.guest.get() {
            match &event {
                AskEvent::Shown(prompt) | AskEvent::Changed(prompt) => {
                    guest.prompt((**prompt).clone());
                }
                AskEvent::Gone(id) => guest.gone(id),
                AskEvent::Folded(folded) => guest.folded(folded.clone()),
            }
        }
        shared.events.send(match event {
            AskEvent::Shown(prompt) | AskEvent::Changed(prompt) => UiEvent::Prompt { prompt },
            AskEvent::Gone(id) => UiEvent::PromptGone { id },
            AskEvent::Folded(folded) => UiEvent::PromptsFolded { folded },
        });
        if let (Some(listener), Some(session)) = (shared.waiting.get(), session) {
            listener(&session);
        }
    }
}

/// Asks the history about the host of a question; a history that cannot be read leaves it unknown.
fn look_up(shared: &Arc<Shared>, prompt: &Prompt) {
    let (store, ask) = (Arc::clone(&shared.store), shared.ask.clone());
    let (id, host) = (prompt.id.clone(), prompt.host.clone());
    tokio::task::spawn_blocking(move || match store.allowed_before(&host) {
        Ok(true) => ask.set_history(&id, HostHistory::Allowed),
        Ok(false) => ask.set_history(&id, HostHistory::NoneAllowed),
        Err(error) => tracing::warn!(%error, "the history cannot be asked about a host"),
    });
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

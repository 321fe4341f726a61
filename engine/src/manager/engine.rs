//! The façade that the window and the command use.

mod window;

pub(super) use window::WindowOpen;

use self::window::{WeakEngine, counted};
use super::host::HostView;
use super::network::Networks;
use super::prompts::Prompts;
use super::session::{Session, now_ms};
use super::trial::ProductionTrial;
use super::{EventStream, SandboxManager};
use crate::api::{
    FolderInfo, LaunchPreview, LaunchRequest, OutputChunk, RunningProcess, SessionInfo, Settings,
    Snapshot, UiEvent,
};
use crate::egress::ask::{Clock, SystemClock};
use crate::error::{Coded, Problem};
use crate::events::Bus;
use crate::probe::{HostReport, Switch, SystemProbe, probe};
use crate::store::{Dirs, SessionRecord, SettingsFile, Store};
use crate::workspace::{folder_info, presets};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Changes that the slowest window may be behind before it gets the whole state again.
const EVENTS_KEPT: usize = 256;
/// Rows of recent folders and choices in a snapshot.
const RECENT: u32 = 20;
/// Notices kept for windows that open later.
const NOTICES_KEPT: usize = 50;
/// Ids of dismissed sessions kept for windows that fell behind.
const GONE_KEPT: usize = 4096;

/// How an engine is started.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// `--sandbox on|off`.
    pub switch: Switch,
    /// Where Kotak keeps its files.
    pub dirs: Dirs,
    /// Who embeds it.
    pub role: EngineRole,
}

/// Who embeds an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineRole {
    /// The window: a terminal that names no backend gets `none`.
    Panel,
    /// The `kotak` command: nothing named asks for the best available.
    Command,
}

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The set-up did not come to its end.
    #[error("the engine's set-up was cut short")]
    SetUp(#[source] tokio::task::JoinError),
}

impl Coded for EngineError {
    fn code(&self) -> &'static str {
        "ENGINE_NOT_STARTED"
    }

    fn fix(&self) -> Option<crate::error::Fix> {
        Some(crate::error::Fix::words(
            "Start Kotak again; the log says more.",
        ))
    }
}

/// The engine of one process. Cheap to clone; every clone is the same engine. When the last one
/// is gone, every session's tree is gone too.
#[derive(Debug, Clone)]
pub struct Engine(pub(super) Arc<Shared>);

/// What every clone shares.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) role: EngineRole,
    pub(super) view: HostView,
    pub(super) manager: SandboxManager,
    pub(super) store: Arc<Store>,
    pub(super) networks: Arc<Networks>,
    pub(super) events: Arc<Bus<UiEvent>>,
    switch: Switch,
    settings: SettingsFile,
    trial: Arc<ProductionTrial>,
    sessions: Mutex<Sessions>,
    notices: Arc<Mutex<Vec<Problem>>>,
    probing: tokio::sync::Mutex<()>,
    closing: AtomicBool,
    /// Streams that windows read.
    windows: Arc<AtomicU64>,
    born_ms: u64,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct Sessions {
    /// Oldest first.
    list: Vec<Arc<Session>>,
    gone: Vec<String>,
}

impl Engine {
    /// Probes the host, logs the one start-up line (REQ PR-6), opens the store. What the store
    /// or the settings lack is a notice in the snapshot, never a reason not to start.
    ///
    /// # Errors
    /// The set-up did not come to its end.
    pub async fn start(options: EngineOptions) -> Result<Self, EngineError> {
        let EngineOptions { switch, dirs, role } = options;
        let view = HostView::read(dirs.clone());
        let trial = Arc::new(ProductionTrial::new(view.clone()));
        let probing = Arc::clone(&trial);
        let set_up = tokio::task::spawn_blocking(move || {
            crate::process::remove_leftovers();
            super::trial::remove_leftovers(&dirs.run);
            let (settings, mut problems) = SettingsFile::load(&dirs);
            let (store, more) = Store::open(&dirs);
            problems.extend(more);
            let report = probe(&SystemProbe::new(probing), switch);
            (settings, store, problems, report)
        });
        let (settings, store, problems, report) = set_up.await.map_err(EngineError::SetUp)?;
        tracing::info!("{}", report.verdict.line);
        for problem in &problems {
            tracing::warn!(code = problem.code, "{}", problem.message);
        }
        let events = Arc::new(Bus::new(EVENTS_KEPT));
        let notices = Arc::new(Mutex::new(problems));
        store.on_problem({
            let (events, notices) = (Arc::clone(&events), Arc::clone(&notices));
            move |problem| notify(&events, &notices, problem)
        });
        let store = Arc::new(store);
        let born_ms = now_ms();
        let own: Arc<OnceLock<Weak<Shared>>> = Arc::default();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let prompts = Prompts::start(
            format!("p{born_ms:x}-{:x}", std::process::id()),
            Arc::clone(&clock),
            Duration::from_secs(settings.current().prompt_seconds.into()),
            Arc::clone(&store),
            Arc::clone(&events),
        );
        let networks = Networks::start(
            prompts,
            clock,
            (Arc::clone(&store), view.sockets()),
            Arc::clone(&events),
            Box::new({
                let own = Arc::clone(&own);
                move |session, counts, fresh| counted(&own, session, counts, fresh)
            }),
        );
        networks.prompts.on_waiting(Box::new({
            let own = Arc::clone(&own);
            move |session| counted(&own, session, None, 0)
        }));
        let dirs = view.dirs.clone();
        let engine = Self(Arc::new(Shared {
            role,
            manager: SandboxManager::new(
                switch,
                view.clone(),
                Arc::new(report),
                Arc::clone(&networks),
            ),
            networks,
            view,
            store,
            events,
            switch,
            settings,
            trial,
            sessions: Mutex::new(Sessions::default()),
            notices,
            probing: tokio::sync::Mutex::new(()),
            closing: AtomicBool::new(false),
            windows: Arc::default(),
            born_ms,
            next_id: AtomicU64::new(1),
        }));
        let _first = own.set(Arc::downgrade(&engine.0));
        engine.0.come_to_the_desk(&dirs);
        Ok(engine)
    }

    /// Everything a window needs to draw itself.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.0;
        let mut notices = lock(&shared.notices).clone();
        let mut or_notice = |problem: Problem| {
            notices.push(problem);
        };
        let layout = shared.store.layout().unwrap_or_else(|error| {
            or_notice(error.problem());
            None
        });
        let (prompts, folded) = shared.all_prompts();
        Snapshot {
            host: (*shared.manager.report()).clone(),
            sessions: shared.infos(),
            settings: shared.settings.current(),
            layout,
            presets: presets(),
            recent_folders: shared.store.recent_folders(RECENT).unwrap_or_default(),
            last_choices: shared.store.last_choices(RECENT).unwrap_or_default(),
            home: shared.view.home.to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            prompts,
            folded,
            rules: shared.networks.rules(),
            grants: shared.networks.grants(),
            notices,
        }
    }

    /// Changes from now on, in batches, at most ten a second.
    #[must_use]
    pub fn subscribe(&self) -> EventStream {
        EventStream::new(
            self.0.events.subscribe(),
            Box::new(WeakEngine(Arc::downgrade(&self.0))),
            self.0.window_opened(),
        )
    }

    /// The probe's result.
    #[must_use]
    pub fn host(&self) -> Arc<HostReport> {
        self.0.manager.report()
    }

    /// Probes again; the result holds for new sessions (REQ PR-1).
    pub async fn probe_again(&self) -> Arc<HostReport> {
        let _one_at_a_time = self.0.probing.lock().await;
        let (trial, switch) = (Arc::clone(&self.0.trial), self.0.switch);
        let probed =
            tokio::task::spawn_blocking(move || probe(&SystemProbe::new(trial), switch)).await;
        match probed {
            Ok(report) => {
                tracing::info!("probed again: {}", report.verdict.line);
                let report = Arc::new(report);
                self.0.manager.set_report(Arc::clone(&report));
                self.0.events.send(UiEvent::Host {
                    host: Box::new((*report).clone()),
                });
                report
            }
            Err(error) => {
                tracing::error!(%error, "the host could not be probed again");
                self.host()
            }
        }
    }

    /// What a launch would do.
    pub async fn preview(&self, request: &LaunchRequest) -> LaunchPreview {
        self.0.preview(request).await
    }

    /// Launches a terminal session. A launch that broke is `Ok` with phase `error`.
    ///
    /// # Errors
    /// The request is refused before anything ran.
    pub async fn launch(&self, request: LaunchRequest) -> Result<SessionInfo, Problem> {
        self.0.launch(request).await
    }

    /// Ends the session if it still runs, launches its request again under a new id, and forgets
    /// the old one.
    ///
    /// # Errors
    /// As [`Engine::close`] and [`Engine::launch`]; the old session stays in the list then.
    pub async fn restart(&self, id: &str) -> Result<SessionInfo, Problem> {
        self.0.restart(id).await
    }

    /// The session as it stands.
    #[must_use]
    pub fn session(&self, id: &str) -> Option<SessionInfo> {
        self.0.find(id).map(|session| session.info())
    }

    /// Waits until the session is over and nothing of it is left.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn wait(&self, id: &str) -> Result<SessionInfo, Problem> {
        let session = self.0.session(id)?;
        session.done().await;
        Ok(session.info())
    }

    /// Types into the terminal; waits while the program does not read.
    ///
    /// # Errors
    /// There is no such session, or it has ended.
    pub async fn write_input(&self, id: &str, bytes: &[u8]) -> Result<(), Problem> {
        self.0.write_input(id, bytes).await
    }

    /// Output from an offset on; waits up to 25 s for some. Acknowledges all before `from`. An
    /// ended session can be read until it is dismissed.
    ///
    /// # Errors
    /// There is no such session, or it never had a terminal.
    pub async fn read_output(&self, id: &str, from: u64) -> Result<OutputChunk, Problem> {
        let session = self.0.session(id)?;
        let terminal = Arc::clone(Shared::terminal(&session)?);
        // A reader that waits keeps nothing else of the session alive.
        drop(session);
        Ok(terminal.read(from).await)
    }

    /// A new terminal size.
    ///
    /// # Errors
    /// There is no such session, or its terminal refuses.
    pub fn resize(&self, id: &str, cols: u16, rows: u16) -> Result<(), Problem> {
        self.0.resize(id, cols, rows)
    }

    /// Freezes the whole tree.
    ///
    /// # Errors
    /// There is no such session, or it does not run.
    pub async fn suspend(&self, id: &str) -> Result<SessionInfo, Problem> {
        self.0.suspend(id).await
    }

    /// Undoes [`Engine::suspend`].
    ///
    /// # Errors
    /// There is no such session, or it is not suspended.
    pub async fn resume(&self, id: &str) -> Result<SessionInfo, Problem> {
        self.0.resume(id).await
    }

    /// What runs in the session besides its shell, for the close confirmation.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn processes(&self, id: &str) -> Result<Vec<RunningProcess>, Problem> {
        self.0.processes(id).await
    }

    /// Kills the whole tree; returns once nothing is left.
    ///
    /// # Errors
    /// There is no such session, or something in it does not die.
    pub async fn close(&self, id: &str) -> Result<(), Problem> {
        self.0.close(id).await
    }

    /// Forgets an ended session.
    ///
    /// # Errors
    /// There is no such session, or it still runs.
    pub async fn dismiss(&self, id: &str) -> Result<(), Problem> {
        self.0.dismiss(id)
    }

    /// Facts about a folder, read without running anything. Waits for the file system.
    #[must_use]
    pub fn folder_info(&self, path: &str) -> FolderInfo {
        folder_info(path)
    }

    /// Keeps the window's layout.
    ///
    /// # Errors
    /// It is too large.
    pub fn save_layout(&self, layout: String) -> Result<(), Problem> {
        self.0
            .store
            .set_layout(layout)
            .map_err(|error| error.problem())
    }

    /// Checks, keeps and announces settings.
    ///
    /// # Errors
    /// They are invalid, or cannot be saved (they are in force then until the process ends).
    pub fn set_settings(&self, settings: Settings) -> Result<Settings, Problem> {
        let changed = self
            .0
            .settings
            .change(settings)
            .map_err(|error| error.problem());
        let current = self.0.settings.current();
        let countdown = Duration::from_secs(current.prompt_seconds.into());
        self.0.networks.ask().set_countdown(countdown);
        self.0.events.send(UiEvent::Settings { settings: current });
        changed
    }

    /// Past sessions, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn history(&self, limit: u32) -> Result<Vec<SessionRecord>, Problem> {
        self.0
            .store
            .sessions(limit)
            .map_err(|error| error.problem())
    }

    /// Tells every window that another start of the application was asked for.
    pub fn announce_activation(&self, cwd: Option<String>) {
        self.0.events.send(UiEvent::Activated { cwd });
    }

    /// Tells every window something, now and in later snapshots.
    pub fn announce(&self, notice: Problem) {
        notify(&self.0.events, &self.0.notices, notice);
    }

    /// The history, for a client that launches through the sandbox port and keeps its own rows.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The sandbox port.
    #[must_use]
    pub fn manager(&self) -> &SandboxManager {
        &self.0.manager
    }

    /// Ends every session and waits until nothing is left and the history is written.
    pub async fn shutdown(&self) {
        self.0.closing.store(true, Ordering::SeqCst);
        let closing: Vec<_> = self
            .0
            .infos()
            .into_iter()
            .map(|info| {
                let shared = Arc::clone(&self.0);
                tokio::spawn(async move { shared.close(&info.id).await })
            })
            .collect();
        for closed in closing {
            if let Ok(Err(problem)) = closed.await {
                tracing::error!(code = problem.code, "{}", problem.message);
            }
        }
        for id in self.0.manager.running() {
            if let Err(problem) = super::SandboxPort::destroy(&self.0.manager, &id).await {
                tracing::error!(session = id, code = problem.code, "{}", problem.message);
            }
        }
        let shared = Arc::clone(&self.0);
        let flushed = tokio::task::spawn_blocking(move || shared.store.flush()).await;
        if !matches!(flushed, Ok(true)) {
            tracing::warn!("the history could not be written to its end");
        }
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions()
            .list
            .iter()
            .find(|session| session.id() == id)
            .map(Arc::clone)
    }

    /// Takes a session into the list, unless the engine is closing: whoever ends all of them has
    /// said so before it looked at the list.
    #[must_use]
    pub(super) fn add(&self, session: Arc<Session>) -> bool {
        let mut sessions = self.sessions();
        if self.is_closing() {
            return false;
        }
        sessions.list.push(session);
        true
    }

    pub(super) fn remove(&self, id: &str) {
        let mut sessions = self.sessions();
        sessions.list.retain(|session| session.id() != id);
        if sessions.gone.len() == GONE_KEPT {
            sessions.gone.remove(0);
        }
        sessions.gone.push(id.to_owned());
    }

    fn infos(&self) -> Vec<SessionInfo> {
        self.sessions()
            .list
            .iter()
            .map(|session| session.info())
            .collect()
    }

    pub(super) fn publish(&self, session: &Session) {
        self.events.send(UiEvent::Session {
            session: Box::new(session.info()),
        });
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Unique among all engines of this user: time, process, count.
    pub(super) fn new_id(&self) -> String {
        let count = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("s{:x}-{:x}-{count}", self.born_ms, std::process::id())
    }
}

fn notify(events: &Bus<UiEvent>, notices: &Mutex<Vec<Problem>>, problem: Problem) {
    tracing::warn!(code = problem.code, "{}", problem.message);
    {
        let mut notices = lock(notices);
        if notices.len() == NOTICES_KEPT {
            notices.remove(0);
        }
        notices.push(problem.clone());
    }
    events.send(UiEvent::Notice { notice: problem });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! `SandboxManager`: select, resolve, plan, launch.

use super::adapter::{Launched, NativeSandboxAdapter, NoSandboxAdapter, Prepared};
use super::host::HostView;
use super::network::Networks;
use super::sandbox::{Events, Sandbox};
use super::{
    Exec, ExecRequest, IllegalChange, SandboxHandle, SandboxPort, SandboxRequest, SandboxState,
};
use crate::backend::{BridgeChoice, SandboxBackend, Selection, select};
use crate::error::{Coded, Fix, Problem};
use crate::events::{SandboxEvent, Subscription};
use crate::probe::{HostReport, Switch};
use crate::process::native::Early;
use crate::process::{LaunchError, TreeError};
use crate::spec::{AbsPath, ValidSpec};
use kotak_guard::proto::Process;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Events that the slowest subscriber may be behind.
const EVENTS_KEPT: usize = 1024;

/// How often a policy is resolved for one launch, while what it finds keeps changing.
const LOOKS: u32 = 4;

/// Composes the stages, and holds every launched sandbox of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SandboxManager(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    switch: Switch,
    host: HostView,
    networks: Arc<Networks>,
    report: RwLock<Arc<HostReport>>,
    sandboxes: Mutex<HashMap<String, Slot>>,
    events: Arc<Events>,
}

/// A session id in use.
#[derive(Debug)]
enum Slot {
    /// Being launched.
    Reserved,
    /// Launched.
    Running(Arc<Sandbox>),
}

/// No session has this id.
#[derive(Debug, thiserror::Error)]
#[error("there is no session {0}")]
pub(super) struct NoSession(pub(super) String);

impl Coded for NoSession {
    fn code(&self) -> &'static str {
        "NO_SUCH_SESSION"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(
            "It may have ended meanwhile: look at the list of sessions.",
        ))
    }
}

impl SandboxManager {
    pub(super) fn new(
        switch: Switch,
        host: HostView,
        report: Arc<HostReport>,
        networks: Arc<Networks>,
    ) -> Self {
        Self(Arc::new(Shared {
            switch,
            host,
            networks,
            report: RwLock::new(report),
            sandboxes: Mutex::new(HashMap::new()),
            events: Arc::new(Events::new(EVENTS_KEPT)),
        }))
    }

    /// The probe's result that new launches are decided by.
    #[must_use]
    pub fn report(&self) -> Arc<HostReport> {
        Arc::clone(&self.0.report.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_report(&self, report: Arc<HostReport>) {
        *self
            .0
            .report
            .write()
            .unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// Selects, resolves and plans without running anything.
    pub(super) async fn prepare(
        &self,
        request: &SandboxRequest,
    ) -> Result<(Selection, Prepared), Problem> {
        let report = self.report();
        let selection = select(request.choice, request.client, &report, self.0.switch)
            .map_err(|error| error.problem())?;
        let (spec, bridge) = (request.spec.clone(), request.bridge);
        let prepared = self
            .prepare_for(selection.backend, spec, bridge, report)
            .await?;
        Ok((selection, prepared))
    }

    /// The same for a launch that follows: its runner starts meanwhile.
    pub(super) async fn prepare_to_launch(
        &self,
        request: &SandboxRequest,
    ) -> Result<(Selection, Prepared), Problem> {
        let report = self.report();
        let (prepared, runner) = tokio::join!(self.prepare(request), async {
            let selected = select(request.choice, request.client, &report, self.0.switch).ok()?;
            let bwrap = match selected.backend {
                SandboxBackend::Native => report.facts.bwrap_path.as_deref()?,
                SandboxBackend::None | SandboxBackend::Microvm => return None,
            };
            // What keeps it from starting is said by the launch, which meets it too.
            Early::start(&AbsPath::new(bwrap).ok()?).await.ok()
        });
        let (selection, mut prepared) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => {
                if let Some(runner) = runner {
                    runner.end().await;
                }
                return Err(problem);
            }
        };
        if let Prepared::Native { early, .. } = &mut prepared {
            *early = runner.map(Box::new);
        }
        Ok((selection, prepared))
    }

    async fn prepare_for(
        &self,
        backend: SandboxBackend,
        mut spec: ValidSpec,
        bridge: BridgeChoice,
        report: Arc<HostReport>,
    ) -> Result<Prepared, Problem> {
        let shared = Arc::clone(&self.0);
        // Reads the file system, so not on a thread of the runtime.
        tokio::task::spawn_blocking(move || match backend {
            SandboxBackend::None => NoSandboxAdapter::prepare(&spec, &shared.host),
            SandboxBackend::Native => {
                shared.networks.check(spec.grants())?;
                let asked = spec.clone();
                let joined = shared.networks.join_exec(&mut spec, &shared.host);
                let mut prepared =
                    NativeSandboxAdapter::prepare(&spec, bridge, &shared.host, &report, joined)?;
                if let Prepared::Native { from, .. } = &mut prepared {
                    from.0 = asked;
                }
                Ok(prepared)
            }
            SandboxBackend::Microvm => Err(NoStation.problem()),
        })
        .await
        .map_err(|error| LaunchError::Spawn(std::io::Error::other(error)).problem())?
    }

    /// Launches what was prepared. In folders that other programs work in, what a policy found may be
    /// gone before it is mounted: then it is resolved anew, from the same request.
    async fn launch_or_look_again(
        &self,
        id: &str,
        mut prepared: Prepared,
    ) -> Result<Result<Launched, LaunchError>, Problem> {
        let mut looks = LOOKS;
        loop {
            let again = prepared.again();
            let launched = prepared.launch().await;
            looks -= 1;
            match (launched, again) {
                (
                    Err(LaunchError::SourceChanged {
                        path, named: false, ..
                    }),
                    Some((spec, bridge)),
                ) if looks > 0 => {
                    tracing::info!(session = id, path = %path.display(), "gone before it was mounted; looking again");
                    let native = SandboxBackend::Native;
                    prepared = self
                        .prepare_for(native, spec, bridge, self.report())
                        .await?;
                }
                (launched, _) => return Ok(launched),
            }
        }
    }

    /// Launches what was prepared. Never fails without a handle: what broke is in it.
    pub(super) async fn launch_prepared(
        &self,
        id: &str,
        prepared: Prepared,
    ) -> Result<SandboxHandle, Problem> {
        self.reserve(id)?;
        let reservation = Reservation { manager: self, id };
        self.0.events.send((id.to_owned(), SandboxEvent::Starting));
        let launched = match self.launch_or_look_again(id, prepared).await {
            Ok(launched) => launched,
            Err(problem) => return Ok(failed_handle(id, problem, BTreeMap::new())),
        };
        match launched {
            Ok(mut launched) => {
                if let Some(prepared) = launched.network.take() {
                    let opening = self.0.networks.open(id, &launched.tree, prepared);
                    match opening.await {
                        Ok(env) => launched.add_env(env),
                        Err(problem) => {
                            tracing::error!(
                                session = id,
                                code = problem.code,
                                "{}",
                                problem.message
                            );
                            drop(self.0.networks.close(id));
                            // Dropping the tree ends it too; this waits until it has.
                            if let Err(error) = launched.tree.end().await {
                                tracing::error!(
                                    session = id,
                                    %error,
                                    "a failed session does not end"
                                );
                            }
                            return Ok(failed_handle(id, problem, BTreeMap::new()));
                        }
                    }
                }
                if let Some(joined) = launched.exec.take() {
                    self.0.networks.exec.started(id, joined);
                }
                let sandbox = Sandbox::new(
                    id.to_owned(),
                    launched,
                    Arc::clone(&self.0.events),
                    self.0.networks.refusals(id),
                );
                let handle = sandbox.handle();
                reservation.fill(sandbox);
                self.0.events.send((id.to_owned(), SandboxEvent::Ready));
                Ok(handle)
            }
            Err(error) => {
                tracing::error!(session = id, code = error.code(), %error, "the launch failed");
                Ok(failed_handle(id, error.problem(), error_details(&error)))
            }
        }
    }

    /// Sends a signal to the process group of one exec (its terminal's foreground group, with a
    /// PTY).
    pub async fn signal(&self, session_id: &str, exec_id: u64, signal: i32) -> Result<(), Problem> {
        self.sandbox(session_id)?
            .tree()
            .signal(exec_id, signal)
            .await
            .map_err(|error: TreeError| error.problem())
    }

    /// The processes of a session, without its guard.
    pub async fn processes(&self, session_id: &str) -> Result<Vec<Process>, Problem> {
        self.sandbox(session_id)?
            .tree()
            .processes()
            .await
            .map_err(|error| error.problem())
    }

    /// Events of every sandbox: session id and event. Bounded; a slow reader loses the oldest and
    /// is told how many.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<(String, SandboxEvent)> {
        self.0.events.subscribe()
    }

    /// Ids of the sandboxes that run.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        self.sandboxes()
            .iter()
            .filter(|(_, slot)| matches!(slot, Slot::Running(_)))
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.0
            .sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>, Problem> {
        match self.sandboxes().get(id) {
            Some(Slot::Running(sandbox)) => Ok(Arc::clone(sandbox)),
            Some(Slot::Reserved) => Err(IllegalChange::Starting.problem()),
            None => Err(NoSession(id.to_owned()).problem()),
        }
    }

    fn reserve(&self, id: &str) -> Result<(), Problem> {
        let mut sandboxes = self.sandboxes();
        if sandboxes.contains_key(id) {
            return Err(IllegalChange::Launched.problem());
        }
        sandboxes.insert(id.to_owned(), Slot::Reserved);
        Ok(())
    }
}

/// Frees a session id again unless the launch succeeded, also when the launch is given up; what was
/// opened for it is closed.
struct Reservation<'a> {
    manager: &'a SandboxManager,
    id: &'a str,
}

impl Reservation<'_> {
    fn fill(&self, sandbox: Arc<Sandbox>) {
        self.manager
            .sandboxes()
            .insert(self.id.to_owned(), Slot::Running(sandbox));
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if matches!(self.manager.sandboxes().get(self.id), Some(Slot::Reserved)) {
            // Before the id is free for another launch.
            drop(self.manager.0.networks.close(self.id));
            self.manager.sandboxes().remove(self.id);
        }
    }
}

impl SandboxPort for SandboxManager {
    async fn launch(&self, request: SandboxRequest) -> Result<SandboxHandle, Problem> {
        let (selection, prepared) = self.prepare_to_launch(&request).await?;
        let id = request.spec.session_id().as_str().to_owned();
        if let Some(notice) = &selection.notice {
            tracing::warn!(session = id, "{notice}");
        }
        self.launch_prepared(&id, prepared).await
    }

    async fn exec(&self, session_id: &str, request: ExecRequest) -> Result<Arc<Exec>, Problem> {
        self.sandbox(session_id)?.exec(request).await
    }

    async fn suspend(&self, session_id: &str) -> Result<SandboxHandle, Problem> {
        self.sandbox(session_id)?.suspend().await
    }

    async fn resume(&self, session_id: &str) -> Result<SandboxHandle, Problem> {
        self.sandbox(session_id)?.resume().await
    }

    async fn destroy(&self, session_id: &str) -> Result<(), Problem> {
        let sandbox = self.sandbox(session_id)?;
        // First: whatever may survive reaches nothing any more.
        if let Some(closed) = self.0.networks.close(session_id) {
            closed.forwards.end().await;
        }
        sandbox.destroy().await?;
        let mut sandboxes = self.sandboxes();
        // Only this very sandbox: the id may have been taken again by now.
        if matches!(sandboxes.get(session_id), Some(Slot::Running(held)) if Arc::ptr_eq(held, &sandbox))
        {
            sandboxes.remove(session_id);
        }
        Ok(())
    }

    fn handle(&self, session_id: &str) -> Option<SandboxHandle> {
        match self.sandboxes().get(session_id) {
            Some(Slot::Running(sandbox)) => Some(sandbox.handle()),
            Some(Slot::Reserved) | None => None,
        }
    }
}

/// The handle of a launch that broke: no backend runs, so none is named (REQ BK-7).
pub(super) fn failed_handle(
    id: &str,
    problem: Problem,
    details: BTreeMap<String, serde_json::Value>,
) -> SandboxHandle {
    SandboxHandle {
        session_id: id.to_owned(),
        backend: None,
        state: SandboxState::Error,
        error: Some(problem),
        enforcement: None,
        details,
    }
}

/// What the About view shows of a launch that broke.
fn error_details(error: &LaunchError) -> BTreeMap<String, serde_json::Value> {
    match error {
        LaunchError::BwrapFailed { stderr, status, .. } => BTreeMap::from([
            ("runnerStderr".to_owned(), stderr.as_str().into()),
            ("runnerStatus".to_owned(), (*status).into()),
        ]),
        _ => BTreeMap::new(),
    }
}

/// The probe said that a microVM boots, and this version cannot start one.
#[derive(Debug, thiserror::Error)]
#[error("this version of Kotak has no microVM station")]
struct NoStation;

impl Coded for NoStation {
    fn code(&self) -> &'static str {
        "MICROVM_UNAVAILABLE"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words("Choose the native backend."))
    }
}

//! Terminal sessions from a window's request to their end.

mod control;
mod refused;
mod restart;

use self::refused::RequestError;
use super::engine::{EngineRole, Shared};
use super::program::{self, FoundProgram};
use super::session::{Session, created_handle, fail, now_ms};
use super::{ExecRequest, ExecStdio, SandboxPort, SandboxRequest, SandboxState};
use crate::api::{
    FolderInfo, LaunchPreview, LaunchRequest, Program, SessionInfo, SessionPhase, UiEvent,
};
use crate::backend::{BackendChoice, BridgeChoice, ClientDefault, Enforcement, SandboxBackend};
use crate::error::{Coded, Problem};
use crate::spec::{
    AbsPath, EnvPolicy, ExecRestriction, NetworkMode, TerminalFiles, TerminalRequest, ValidSpec,
    WorkspaceId,
};
use crate::store::{SessionEnd, SessionStart};
use crate::workspace::{AgentState, agent_state, folder_info, workspace_of};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// A request that was looked at, and can be launched.
struct Checked {
    program: FoundProgram,
    sandbox: SandboxRequest,
    workspace: String,
}

impl Shared {
    /// What a launch would do.
    pub(super) async fn preview(&self, request: &LaunchRequest) -> LaunchPreview {
        let cwd = request.cwd.clone();
        let folder = tokio::task::spawn_blocking(move || folder_info(&cwd)).await;
        let missing = FolderInfo {
            path: request.cwd.clone(),
            exists: false,
            repo_root: None,
            branch: None,
        };
        let mut preview = LaunchPreview {
            backend: None,
            sentences: Vec::new(),
            gaps: Vec::new(),
            problem: None,
            folder: folder.unwrap_or(missing),
        };
        let prepared = async {
            let checked = self.check("preview", request).await?;
            let (selection, prepared) = self.manager.prepare(&checked.sandbox).await?;
            let sentences = self.sentences(&checked, &prepared);
            Ok::<_, Problem>((selection, prepared, sentences))
        };
        match prepared.await {
            Ok((selection, prepared, sentences)) => {
                preview.backend = Some(selection.backend);
                preview.sentences = sentences;
                preview.gaps = prepared
                    .enforcement()
                    .into_iter()
                    .flat_map(Enforcement::gaps)
                    .cloned()
                    .collect();
            }
            Err(problem) => preview.problem = Some(problem),
        }
        preview
    }

    /// What a session may do, with what its workspace is granted.
    fn sentences(&self, checked: &Checked, prepared: &super::adapter::Prepared) -> Vec<String> {
        let mut sentences = prepared.sentences();
        let workspace = checked.sandbox.spec.workspace_id().as_str();
        if prepared.has_own_network() {
            sentences.extend(self.networks.workspace_sentences(workspace));
        }
        sentences
    }

    async fn check(&self, id: &str, request: &LaunchRequest) -> Result<Checked, Problem> {
        let wanted = request.clone();
        // Looks at the file system, so not on a thread of the runtime.
        let looked = tokio::task::spawn_blocking(move || {
            let cwd = PathBuf::from(&wanted.cwd);
            if !cwd.is_absolute() {
                return Err(RequestError::RelativeWorkdir(wanted.cwd).problem());
            }
            if !cwd.is_dir() {
                return Err(RequestError::WorkdirMissing(wanted.cwd).problem());
            }
            let program = program::find(&wanted.program).map_err(|error| error.problem())?;
            Ok((program, workspace_of(&wanted.cwd)))
        });
        let (program, workspace) = looked.await.map_err(|error| {
            RequestError::Terminal("prepared", std::io::Error::other(error)).problem()
        })??;
        let restricts = request.network.is_some() || !request.extra_domains.is_empty();
        if request.backend == BackendChoice::None && restricts {
            return Err(RequestError::NetworkWithoutSandbox.problem());
        }
        let grants = !request.port_forwards.is_empty() || !request.socket_grants.is_empty();
        if request.backend == BackendChoice::None && grants {
            return Err(RequestError::GrantWithoutSandbox.problem());
        }
        if request.backend == BackendChoice::None
            && request.exec_restriction != ExecRestriction::Off
        {
            return Err(RequestError::ExecWithoutSandbox.problem());
        }
        // Without a sandbox there is nothing to re-open or to protect.
        let state = match (&request.program, request.backend) {
            (_, BackendChoice::None) | (Program::Shell | Program::Command { .. }, _) => {
                AgentState::default()
            }
            (Program::Preset { id }, _) => agent_state(id, &self.view.home),
        };
        let spec = ValidSpec::terminal(&TerminalRequest {
            session_id: id.to_owned(),
            workspace_id: WorkspaceId::of_folder(&workspace),
            cwd: PathBuf::from(&request.cwd),
            mode: request.mode,
            protected_paths: request
                .protected_paths
                .iter()
                .map(PathBuf::from)
                .chain(state.protected)
                .collect(),
            runner_state_dirs: state.dirs,
            network: request.network,
            extra_domains: request.extra_domains.clone(),
            port_forwards: request.port_forwards.clone(),
            socket_grants: request.socket_grants.clone(),
            env_policy: EnvPolicy::default(),
            files: TerminalFiles {
                exec_restriction: request.exec_restriction,
                ..TerminalFiles::default()
            },
        })
        .map_err(|error| error.problem())?;
        let client = match self.role {
            EngineRole::Panel => ClientDefault::Terminal,
            EngineRole::Command => ClientDefault::Command,
        };
        let sandbox = SandboxRequest {
            spec,
            choice: Some(request.backend),
            client,
            bridge: BridgeChoice::Auto,
        };
        Ok(Checked {
            program,
            sandbox,
            workspace,
        })
    }

    /// Launches a terminal session.
    pub(super) async fn launch(
        self: &Arc<Self>,
        request: LaunchRequest,
    ) -> Result<SessionInfo, Problem> {
        self.launch_with(request, Vec::new()).await
    }

    /// The same, with folders that were approved for the session alone.
    async fn launch_with(
        self: &Arc<Self>,
        request: LaunchRequest,
        approved: Vec<AbsPath>,
    ) -> Result<SessionInfo, Problem> {
        if self.is_closing() {
            return Err(RequestError::Closing.problem());
        }
        let id = self.new_id();
        let checked = self.check(&id, &request).await?;
        let workspace = checked.sandbox.spec.workspace_id().as_str();
        let prepared = async {
            self.approve_again(&id, workspace, &approved).await?;
            self.manager.prepare_to_launch(&checked.sandbox).await
        };
        let (selection, prepared) = prepared.await.inspect_err(|_| {
            // No session begins that could end them.
            self.store.grants_ended(&id);
        })?;
        let summary = self.sentences(&checked, &prepared);
        let info = SessionInfo {
            id: id.clone(),
            title: checked.program.title.clone(),
            workspace: checked.workspace,
            cwd: request.cwd.clone(),
            handle: created_handle(&id),
            network: match selection.backend {
                SandboxBackend::None => NetworkMode::Open,
                SandboxBackend::Native | SandboxBackend::Microvm => checked.sandbox.spec.network(),
            },
            phase: SessionPhase::Starting,
            exit_code: None,
            request,
            summary,
            started_at_ms: now_ms(),
            ended_at_ms: None,
            unread_refusals: 0,
            counts: crate::api::NetworkCounts::default(),
        };
        let session = Session::new(info.clone());
        session.approve(approved);
        if !self.add(Arc::clone(&session)) {
            self.store.grants_ended(&id);
            return Err(RequestError::Closing.problem());
        }
        self.store.session_started(SessionStart {
            id: id.clone(),
            workspace: info.workspace.clone(),
            title: info.title.clone(),
            cwd: info.cwd.clone(),
            // Never the arguments: they may hold secrets.
            program: checked
                .program
                .argv
                .first()
                .map(|program| program.to_string_lossy().into_owned())
                .unwrap_or_default(),
            requested_backend: Some(info.request.backend),
            network: Some(info.network),
            started_at_ms: info.started_at_ms,
        });
        self.store.remember_choice(&info.request);
        self.publish(&session);
        if let Some(notice) = &selection.notice {
            tracing::warn!(session = id, "{notice}");
        }
        let shared = Arc::clone(self);
        let started = Arc::clone(&session);
        let notice = selection.notice;
        // In a task of its own: once it has begun, a launch is finished whoever waits for it.
        let launch = tokio::spawn(async move {
            match shared
                .start(&started, prepared, checked.program, notice)
                .await
            {
                Ok(()) => {}
                Err(problem) => {
                    let info = started.update(|info| fail(info, problem));
                    shared.log_end(&info, None);
                    shared.publish(&started);
                    started.set_done();
                }
            }
        });
        if let Err(error) = launch.await {
            let problem =
                RequestError::Terminal("launched", std::io::Error::other(error)).problem();
            session.update(|info| fail(info, problem));
            session.set_done();
            self.publish(&session);
        }
        Ok(session.info())
    }

    async fn start(
        self: &Arc<Self>,
        session: &Arc<Session>,
        prepared: super::adapter::Prepared,
        program: FoundProgram,
        notice: Option<String>,
    ) -> Result<(), Problem> {
        let id = session.id();
        self.networks.name(&id, &session.info().title);
        let mut handle = self.manager.launch_prepared(&id, prepared).await?;
        if let Some(notice) = notice {
            handle.details.insert("notice".to_owned(), notice.into());
        }
        if let Some(problem) = handle.error.clone() {
            session.update(|info| info.handle = handle);
            return Err(problem);
        }
        let (cols, rows) = {
            let request = &session.info().request;
            (request.cols.max(1), request.rows.max(1))
        };
        let exec = self.manager.exec(
            &id,
            ExecRequest {
                argv: program.argv,
                cwd: None,
                env: vec![
                    ("TERM".into(), "xterm-256color".into()),
                    ("COLORTERM".into(), "truecolor".into()),
                ],
                stdio: ExecStdio::Pty { cols, rows },
            },
        );
        let exec = match exec.await {
            Ok(exec) => exec,
            Err(problem) => {
                session.update(|info| info.handle = handle);
                if let Err(left) = self.manager.destroy(&id).await {
                    tracing::error!(
                        session = id,
                        code = left.code,
                        "a failed session could not be cleaned up"
                    );
                }
                return Err(problem);
            }
        };
        handle.state = SandboxState::Active;
        let backend = handle.backend;
        session.runs(Arc::clone(&exec));
        session.update(|info| {
            info.handle = handle;
            info.phase = SessionPhase::Running;
        });
        self.store
            .session_changed(&id, backend, SandboxState::Active);
        self.publish(session);
        tokio::spawn(Self::watch(Arc::downgrade(self), Arc::clone(session), exec));
        if session.close_wanted() {
            match self.manager.destroy(&id).await {
                // It ended by itself at the same time.
                Err(problem) if problem.code != "NO_SUCH_SESSION" => return Err(problem),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Waits for the program's end, then ends everything that it left behind.
    async fn watch(weak: Weak<Self>, session: Arc<Session>, exec: Arc<super::Exec>) {
        let end = exec.wait().await;
        let Some(shared) = weak.upgrade() else { return };
        let id = session.id();
        // What broke it, before the tear-down replaces it.
        let broken = shared.manager.handle(&id).and_then(|handle| handle.error);
        shared.remember_approved(&session);
        let torn_down = shared.manager.destroy(&id).await;
        if let Some(terminal) = exec.terminal() {
            terminal.finish().await;
        }
        let lost = end.killed.is_some() && !session.close_wanted();
        let problem = match torn_down {
            // Closing a session ends it too, at the same time.
            Ok(()) => broken.filter(|_| lost),
            Err(problem) if problem.code == "NO_SUCH_SESSION" => broken.filter(|_| lost),
            Err(problem) => Some(problem),
        };
        let info = session.update(|info| match problem {
            Some(problem) => fail(info, problem),
            None => {
                info.phase = SessionPhase::Ended;
                info.handle.state = SandboxState::Destroyed;
                info.exit_code = end.killed.is_none().then_some(end.exit_code);
                info.ended_at_ms = Some(now_ms());
            }
        });
        shared.log_end(&info, end.signal);
        shared.publish(&session);
        session.set_done();
    }

    fn log_end(&self, info: &SessionInfo, signal: Option<i32>) {
        self.store.session_ended(
            &info.id,
            SessionEnd {
                state: info.handle.state,
                exit_code: info.exit_code,
                signal,
                error: info
                    .handle
                    .error
                    .as_ref()
                    .map(|error| (error.code.clone(), error.message.clone())),
                ended_at_ms: info.ended_at_ms.unwrap_or_else(now_ms),
            },
        );
    }

    /// Ends the session if it runs; waits until nothing of it is left.
    pub(super) async fn close(&self, id: &str) -> Result<(), Problem> {
        let session = self.session(id)?;
        session.want_close();
        if session.exec().is_some() && !session.is_over() {
            self.remember_approved(&session);
            match self.manager.destroy(id).await {
                Ok(()) => {}
                // It ended by itself at the same time.
                Err(problem) if problem.code == "NO_SUCH_SESSION" => {}
                Err(problem) => return Err(problem),
            }
        }
        session.done().await;
        Ok(())
    }

    pub(super) fn dismiss(&self, id: &str) -> Result<(), Problem> {
        let session = self.session(id)?;
        if !session.is_done() {
            return Err(RequestError::StillRuns.problem());
        }
        self.remove(id);
        self.events.send(UiEvent::SessionGone { id: id.to_owned() });
        Ok(())
    }
}

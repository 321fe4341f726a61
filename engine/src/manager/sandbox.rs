//! One launched sandbox: its tree, its life, its programs.

use super::adapter::Launched;
use super::exec::{Exec, ExecEnd};
use super::life::{Change, IllegalChange, Life};
use super::port::{ExecRequest, ExecStdio};
use super::refusals::Recording;
use super::secrets::SecretGuard;
use super::{SandboxHandle, SandboxState};
use crate::egress::ask::Clock;
use crate::egress::journal::Journal;
use crate::error::{Coded, Problem};
use crate::events::{Bus, SandboxEvent};
use crate::process::guard_link::LinkClosed;
use crate::process::{
    Command, ExecError, OwnedStream, Started, Streams, Terminal, Tree, output_pipe,
};
use kotak_guard::proto::ExitStatus;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinHandle;

/// How long what follows a session may take to come to its end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Events of every sandbox of a manager.
pub(super) type Events = Bus<(String, SandboxEvent)>;

/// A launched sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    id: String,
    tree: Tree,
    cwd: Vec<u8>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    state: Mutex<Inner>,
    /// Puts down what the guard refuses, until it is gone.
    recording: Mutex<Option<JoinHandle<()>>>,
    /// Hides secrets again that the host replaces.
    hiding: Mutex<Option<JoinHandle<()>>>,
    /// Execs share it; suspend and resume have it alone, so that nothing starts in between.
    gate: RwLock<()>,
    events: Arc<Events>,
}

#[derive(Debug)]
struct Inner {
    life: Life,
    handle: SandboxHandle,
    terminals: Vec<Weak<Terminal>>,
    /// Being torn down: nothing starts any more, and a guard that goes is expected to.
    ending: bool,
}

impl Sandbox {
    /// Takes over what was launched. What its guard refuses goes to `journal`, by `clock`. Must be
    /// called inside a runtime.
    pub(super) fn new(
        id: String,
        launched: Launched,
        events: Arc<Events>,
        (journal, clock): (Journal, Arc<dyn Clock>),
    ) -> Arc<Self> {
        let journal = Arc::new(journal);
        let recording = launched.tree.take_violations().map(|violations| {
            let recording = Recording {
                session: id.clone(),
                journal: Arc::clone(&journal),
                clock: Arc::clone(&clock),
                events: Arc::clone(&events),
                always_refused: launched.always_refused,
            };
            tokio::spawn(recording.run(violations))
        });
        let handle = SandboxHandle {
            session_id: id.clone(),
            backend: Some(launched.backend),
            state: SandboxState::Warm,
            error: None,
            enforcement: launched.enforcement,
            details: launched.details,
        };
        let life = Life::default().after(Change::Launched).unwrap_or_default();
        let state = Mutex::new(Inner {
            life,
            handle,
            terminals: Vec::new(),
            ending: false,
        });
        let sandbox = Arc::new(Self {
            id,
            tree: launched.tree,
            cwd: launched.cwd,
            env: launched.env,
            state,
            recording: Mutex::new(recording),
            hiding: Mutex::new(None),
            gate: RwLock::new(()),
            events,
        });
        if let Some(watch) = sandbox.tree.take_secret_watch() {
            let guard = SecretGuard {
                session: sandbox.id.clone(),
                journal,
                clock,
                events: Arc::clone(&sandbox.events),
            };
            let hiding = tokio::spawn(guard.run(
                watch,
                Arc::downgrade(&sandbox),
                sandbox.tree.closed_watch(),
            ));
            *sandbox
                .hiding
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(hiding);
        }
        tokio::spawn(Self::watch(Arc::downgrade(&sandbox)));
        sandbox
    }

    /// Notices a guard that goes away by itself.
    async fn watch(weak: Weak<Self>) {
        let Some(closed) = weak.upgrade().map(|sandbox| sandbox.tree.closed_watch()) else {
            return;
        };
        let Some(reason) = why_closed(closed).await else {
            return;
        };
        if let Some(sandbox) = weak.upgrade() {
            sandbox.broke(reason);
        }
    }

    /// Puts down that the guard went away. Nothing, when it was torn down as asked or is known.
    fn broke(&self, reason: String) {
        let error = ExecError::Gone(reason.clone()).problem();
        let problem = Problem {
            code: "SANDBOX_LOST".to_owned(),
            message: "the sandbox ended by itself".to_owned(),
            causes: vec![reason.clone()],
            fix: error.fix,
        };
        let broke = {
            let mut state = self.state();
            // Torn down as asked, it does not break.
            !state.ending && state.breaks(problem)
        };
        if broke {
            self.events
                .send((self.id.clone(), SandboxEvent::Killed { reason }));
        }
    }

    /// Kills everything in it at once, and keeps why.
    pub(super) fn kill_for(&self, problem: Problem) {
        let reason = problem.message.clone();
        let broke = {
            let mut state = self.state();
            !state.ending && state.breaks(problem)
        };
        self.tree.kill();
        if broke {
            self.events
                .send((self.id.clone(), SandboxEvent::Killed { reason }));
        }
    }

    fn state(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle(&self) -> SandboxHandle {
        self.state().handle.clone()
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    fn change(&self, change: Change) -> Result<(), IllegalChange> {
        let mut state = self.state();
        let begins = matches!(
            change,
            Change::ExecStarted | Change::Suspended | Change::Resumed
        );
        if state.ending && begins {
            return Err(IllegalChange::Ended);
        }
        state.life = state.life.after(change)?;
        state.handle.state = state.life.state();
        Ok(())
    }

    /// Starts a program.
    pub(super) async fn exec(self: &Arc<Self>, request: ExecRequest) -> Result<Arc<Exec>, Problem> {
        let _shared = self.gate.read().await;
        self.state().may_exec().map_err(|error| error.problem())?;
        let (streams, outputs) = self
            .streams(request.stdio)
            .map_err(|error| error.problem())?;
        let mut env = self.env.clone();
        for (name, value) in request.env {
            let (name, value) = (name.into_vec(), value.into_vec());
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        let command = Command {
            argv: request
                .argv
                .into_iter()
                .map(OsStringExt::into_vec)
                .collect(),
            cwd: request.cwd.map_or_else(
                || self.cwd.clone(),
                |cwd| cwd.as_os_str().as_bytes().to_vec(),
            ),
            env,
            streams,
        };
        let started = self
            .tree
            .exec(command)
            .await
            .map_err(|error| error.problem())?;
        // Destroyed meanwhile: the tree takes the program with it.
        self.change(Change::ExecStarted)
            .map_err(|error| error.problem())?;
        if let Some(terminal) = &started.terminal {
            let mut state = self.state();
            state
                .terminals
                .retain(|terminal| terminal.strong_count() > 0);
            state.terminals.push(Arc::downgrade(terminal));
        }
        for output in outputs {
            output.forward(&self.id, started.id, &self.events);
        }
        Ok(self.watch_exec(started))
    }

    fn streams(&self, stdio: ExecStdio) -> Result<(Streams, Vec<Output>), ExecError> {
        Ok(match stdio {
            ExecStdio::Pty { cols, rows } => (Streams::Pty { cols, rows }, Vec::new()),
            ExecStdio::Streams {
                stdin,
                stdout,
                stderr,
            } => (Streams::Given([stdin, stdout, stderr]), Vec::new()),
            ExecStdio::Pipes => {
                let (stdout, stdout_child) = output_pipe().map_err(ExecError::Terminal)?;
                let (stderr, stderr_child) = output_pipe().map_err(ExecError::Terminal)?;
                let stdin = crate::process::null().map_err(ExecError::Terminal)?;
                let outputs = vec![Output::Stdout(stdout), Output::Stderr(stderr)];
                (Streams::Given([stdin, stdout_child, stderr_child]), outputs)
            }
        })
    }

    fn watch_exec(self: &Arc<Self>, started: Started) -> Arc<Exec> {
        let (ended, end) = watch::channel(None);
        let exec = Arc::new(Exec {
            id: started.id,
            pid: started.pid,
            end,
            terminal: started.terminal,
        });
        let weak = Arc::downgrade(self);
        let mut status = started.end;
        let id = started.id;
        tokio::spawn(async move {
            let status = status
                .wait_for(Option::is_some)
                .await
                .map_or(None, |status| *status);
            let end = status.map_or_else(ExecEnd::lost, ExecEnd::from_status);
            if let Some(sandbox) = weak.upgrade() {
                if status.is_none()
                    && let Some(reason) = why_closed(sandbox.tree.closed_watch()).await
                {
                    // Before anybody hears of the program's end and asks what broke it.
                    sandbox.broke(reason);
                }
                // Counting down is legal in every state that an exec can have been started in.
                let _ = sandbox.change_after_exec();
                let exit = SandboxEvent::Exit {
                    exec_id: id,
                    exit_code: end.exit_code,
                    signal: end.signal,
                };
                sandbox.events.send((sandbox.id.clone(), exit));
            }
            ended.send_replace(Some(end));
        });
        exec
    }

    fn change_after_exec(&self) -> Result<(), IllegalChange> {
        self.change(Change::ExecEnded)
    }

    pub(super) async fn suspend(&self) -> Result<SandboxHandle, Problem> {
        let _alone = self.gate.write().await;
        self.state()
            .life
            .after(Change::Suspended)
            .map_err(|error| error.problem())?;
        self.tree.freeze().await.map_err(|error| error.problem())?;
        self.change(Change::Suspended)
            .map_err(|error| error.problem())?;
        Ok(self.handle())
    }

    pub(super) async fn resume(&self) -> Result<SandboxHandle, Problem> {
        let _alone = self.gate.write().await;
        self.state()
            .life
            .after(Change::Resumed)
            .map_err(|error| error.problem())?;
        self.tree.thaw().await.map_err(|error| error.problem())?;
        self.change(Change::Resumed)
            .map_err(|error| error.problem())?;
        Ok(self.handle())
    }

    /// Ends everything; waits until nothing is left and every terminal was read to its end.
    pub(super) async fn destroy(&self) -> Result<(), Problem> {
        self.state().ending = true;
        let ended = self.tree.end().await.map_err(|error| error.problem());
        // Both hear of the end by themselves; the helper of the first ends with it.
        if !finished(&self.hiding).await {
            tracing::warn!(session = self.id, "the helper of masks was cut off");
        }
        if !finished(&self.recording).await {
            tracing::warn!(session = self.id, "the last refusals may not be recorded");
        }
        let terminals: Vec<Arc<Terminal>> = self
            .state()
            .terminals
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for terminal in terminals {
            terminal.finish().await;
        }
        match &ended {
            // Destroying twice waits for the same end twice.
            Ok(()) => {
                let _ = self.change(Change::Destroyed);
            }
            Err(problem) => {
                self.state().breaks(problem.clone());
            }
        }
        ended
    }
}

/// Waits for the end of a task that comes by itself; cuts off one that does not come in time: a
/// guard that does not die holds its link open. Whether it came.
async fn finished(task: &Mutex<Option<JoinHandle<()>>>) -> bool {
    let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut task) = task else {
        return true;
    };
    let ended = tokio::time::timeout(LAST_WORDS, &mut task).await.is_ok();
    if !ended {
        task.abort();
    }
    ended
}

/// Waits until the guard is gone, and says why; nothing when the sandbox was dropped before.
async fn why_closed(mut closed: watch::Receiver<Option<LinkClosed>>) -> Option<String> {
    let end = closed.wait_for(Option::is_some).await.ok()?.clone();
    end.map(|end| end.reason)
}

impl Inner {
    fn may_exec(&self) -> Result<(), IllegalChange> {
        if self.ending {
            return Err(IllegalChange::Ended);
        }
        self.life.may_exec()
    }

    /// Keeps what went wrong; false when it is over already.
    fn breaks(&mut self, problem: Problem) -> bool {
        let Ok(life) = self.life.after(Change::Broke) else {
            return false;
        };
        self.life = life;
        self.handle.state = SandboxState::Error;
        self.handle.error = Some(problem);
        true
    }
}

/// The read end of one output of a program.
enum Output {
    Stdout(OwnedStream),
    Stderr(OwnedStream),
}

impl Output {
    /// Sends what comes as events, until the end.
    fn forward(self, session: &str, exec_id: u64, events: &Arc<Events>) {
        let session = session.to_owned();
        let events = Arc::clone(events);
        let (stream, is_error) = match self {
            Self::Stdout(stream) => (stream, false),
            Self::Stderr(stream) => (stream, true),
        };
        tokio::spawn(crate::process::read_pieces(stream, move |data| {
            let event = if is_error {
                SandboxEvent::Stderr { exec_id, data }
            } else {
                SandboxEvent::Stdout { exec_id, data }
            };
            events.send((session.clone(), event));
        }));
    }
}

impl ExecEnd {
    fn from_status(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(exit_code) => Self {
                exit_code,
                signal: None,
                killed: None,
            },
            ExitStatus::Signal(signal) => Self {
                exit_code: 128 + signal,
                signal: Some(signal),
                killed: None,
            },
        }
    }
}

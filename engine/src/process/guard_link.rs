//! The engine's end of a guard's control socket.
//!
//! One task owns the socket: it writes requests in order and hands each event to whoever waits
//! for it. When the socket ends, everything that waits is told so, and when this value is
//! dropped, the socket closes, on which the guard ends its session.

use super::requests::{Requests, Starting, Table, aborted, lock};
use super::violations::{Outlet, Violations};
use crate::sys::async_fd::register;
use kotak_guard::proto::{
    Check, Event, Exec, ExecStage, ExitStatus, Process, ReadyReport, Request, Setup, Signal, Stdio,
};
use kotak_guard::wire::{Received, Receiver, Sender, WireError};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

/// Requests that may wait for the socket; more make the caller wait.
const OUTBOX: usize = 64;

/// The guard is gone, or what it said makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct LinkClosed {
    /// Why, for people.
    pub reason: String,
    /// The system kept descriptors of the guard back (a security module, a limit).
    pub withheld: bool,
}

/// Why a set-up did not lead to a ready guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupFailure {
    /// The guard found something wrong, and has run nothing.
    Refused(Check),
    /// The link ended first.
    Closed(LinkClosed),
}

/// Why a program did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecFailure {
    /// The guard could not start it.
    Failed {
        /// What failed.
        stage: ExecStage,
        /// errno(3).
        errno: i32,
    },
    /// The link ended first.
    Closed(LinkClosed),
}

/// Why no socket could be opened inside.
#[derive(Debug)]
pub enum OpenFailure {
    /// The system's word inside.
    Refused(io::Error),
    /// The link ended first.
    Closed(LinkClosed),
}

/// A program that runs.
#[derive(Debug)]
pub struct StartedExec {
    /// Process id as the guard sees it.
    pub pid: i32,
    /// The master of its PTY, when it was asked for.
    pub master: Option<OwnedFd>,
    /// How it ended; closed without a value when the link ended first.
    pub end: watch::Receiver<Option<ExitStatus>>,
}

/// The engine's end of one control socket.
#[derive(Debug)]
pub struct GuardLink {
    requests: Requests,
    /// Until they are taken.
    violations: Mutex<Option<Violations>>,
    closed: watch::Receiver<Option<LinkClosed>>,
    task: AbortHandle,
}

impl GuardLink {
    /// Takes over the engine's end of a control socket. Must be called inside a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        super::set_nonblocking(&socket)?;
        let socket = register(socket, Interest::READABLE | Interest::WRITABLE)?;
        let (outbox, requests) = mpsc::channel(OUTBOX);
        let outlet = Outlet::default();
        let violations = Mutex::new(Some(outlet.violations()));
        // However the task ends, what it told is all.
        let closing_violations = outlet.closing();
        let table = Arc::new(Mutex::new(Table {
            violations: outlet,
            ..Table::default()
        }));
        let (closing, closed) = watch::channel(None);
        let shared = Arc::clone(&table);
        let task = tokio::spawn(async move {
            let _closing_violations = closing_violations;
            let end = match serve(&socket, requests, &shared).await {
                Ok(reason) => LinkClosed {
                    reason: reason.to_owned(),
                    withheld: false,
                },
                Err(error) => LinkClosed {
                    reason: chain(&error),
                    withheld: matches!(error, WireError::DescriptorsWithheld),
                },
            };
            drop(socket);
            lock(&shared).close(&end);
            closing.send_replace(Some(end));
        });
        let task = task.abort_handle();
        Ok(Self {
            requests: Requests {
                outbox,
                table,
                next_token: Arc::new(AtomicU64::new(1)),
            },
            violations,
            closed,
            task,
        })
    }

    /// Sends the set-up and waits for the guard's verdict: its report, and the descriptors that
    /// the set-up asks for.
    pub async fn setup(&self, setup: Setup) -> Result<(ReadyReport, Vec<OwnedFd>), SetupFailure> {
        let (answer, answered) = oneshot::channel();
        let sent = self
            .ask(Request::Setup(Box::new(setup)), Vec::new(), |table| {
                table.setup = Some(answer)
            })
            .await;
        match sent {
            Ok(()) => answered
                .await
                .unwrap_or_else(|_| Err(SetupFailure::Closed(self.reason()))),
            Err(closed) => Err(SetupFailure::Closed(closed)),
        }
    }

    /// Starts a program; the descriptors are those that its `stdio` asks for.
    pub async fn exec(
        &self,
        exec: Exec,
        descriptors: Vec<OwnedFd>,
    ) -> Result<StartedExec, ExecFailure> {
        let (answer, answered) = oneshot::channel();
        let id = exec.id;
        let wants_master = matches!(exec.stdio, Stdio::Pty { .. });
        self.ask(Request::Exec(Box::new(exec)), descriptors, |table| {
            table.starting.insert(
                id,
                Starting {
                    answer,
                    wants_master,
                },
            );
        })
        .await
        .map_err(ExecFailure::Closed)?;
        answered
            .await
            .unwrap_or_else(|_| Err(ExecFailure::Closed(self.reason())))
    }

    /// Sends a signal.
    pub async fn signal(&self, signal: Signal) -> Result<(), LinkClosed> {
        self.ask(Request::Signal(signal), Vec::new(), |_| ()).await
    }

    /// Stops every process: how many there were, or how many could not be stopped.
    pub async fn freeze(&self) -> Result<Result<u32, u32>, LinkClosed> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Freeze, Vec::new(), |table| {
            table.frozen.push_back(answer)
        })
        .await?;
        answered.await.map_err(|_| self.reason())
    }

    /// Undoes [`GuardLink::freeze`].
    pub async fn thaw(&self) -> Result<(), LinkClosed> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Thaw, Vec::new(), |table| {
            table.thawed.push_back(Some(answer))
        })
        .await?;
        answered.await.map_err(|_| self.reason())
    }

    /// Undoes a [`GuardLink::freeze`] whose answer nobody waits for any more.
    pub fn thaw_unasked(&self) {
        let mut table = lock(&self.requests.table);
        // Without a place for it the guard has long taken nothing, not even the freeze.
        if self
            .requests
            .outbox
            .try_send((Request::Thaw, Vec::new()))
            .is_ok()
        {
            table.thawed.push_back(None);
        }
    }

    /// The processes of the session.
    pub async fn processes(&self) -> Result<Vec<Process>, LinkClosed> {
        let (answer, answered) = oneshot::channel();
        let token = self.requests.token();
        self.ask(Request::Processes { token }, Vec::new(), |table| {
            table.processes.insert(token, answer);
        })
        .await?;
        answered.await.map_err(|_| self.reason())
    }

    /// Asks the guard to end everything and itself; the link closes when it has.
    pub async fn shutdown(&self, grace_ms: u32) -> Result<(), LinkClosed> {
        self.ask(Request::Shutdown { grace_ms }, Vec::new(), |_| ())
            .await
    }

    /// How many processes the guard could not kill when it ended.
    #[must_use]
    pub fn survivors(&self) -> u32 {
        lock(&self.requests.table).survivors
    }

    /// What the guard refuses, from the beginning on: once.
    pub(crate) fn take_violations(&self) -> Option<Violations> {
        self.violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// A handle for what happens beside the programs of the session.
    pub(super) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Connects to 127.0.0.1 inside.
    pub(super) async fn connect(&self, port: u16) -> Result<TcpStream, OpenFailure> {
        self.requests.connect(port).await
    }

    /// Waits until the guard is gone.
    pub async fn closed(&self) -> LinkClosed {
        let mut closed = self.closed.clone();
        match closed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_else(aborted),
            Err(_) => aborted(),
        }
    }

    /// Tells when the guard is gone; closed without a value when this link is dropped.
    #[must_use]
    pub fn closed_watch(&self) -> watch::Receiver<Option<LinkClosed>> {
        self.closed.clone()
    }

    async fn ask(
        &self,
        request: Request,
        descriptors: Vec<OwnedFd>,
        register: impl FnOnce(&mut Table),
    ) -> Result<(), LinkClosed> {
        self.requests.ask(request, descriptors, register).await
    }

    fn reason(&self) -> LinkClosed {
        self.requests.reason()
    }
}

impl Drop for GuardLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves until the socket ends; the reason in words.
async fn serve(
    socket: &AsyncFd<OwnedFd>,
    mut requests: mpsc::Receiver<(Request, Vec<OwnedFd>)>,
    table: &Mutex<Table>,
) -> Result<&'static str, WireError> {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    loop {
        tokio::select! {
            ready = socket.ready(Interest::READABLE) => {
                let mut ready = ready.map_err(WireError::Socket)?;
                loop {
                    match receiver.poll::<Event>(socket.get_ref())? {
                        Received::Message(event, descriptors) => {
                            let dispatched = lock(table).dispatch(event, descriptors);
                            match dispatched {
                                Ok(None) => {}
                                Ok(Some(request)) => {
                                    sender.queue(&request, Vec::new())?;
                                    flush(&mut sender, socket)?;
                                }
                                Err(nonsense) => return Ok(nonsense),
                            }
                        }
                        Received::Pending => break,
                        Received::Closed => return Ok("the guard is gone"),
                    }
                }
                ready.clear_ready();
            }
            request = requests.recv(), if sender.is_empty() => {
                let Some((request, descriptors)) = request else { return Ok("the session was dropped") };
                sender.queue(&request, descriptors)?;
                flush(&mut sender, socket)?;
            }
            ready = socket.ready(Interest::WRITABLE), if !sender.is_empty() => {
                let mut ready = ready.map_err(WireError::Socket)?;
                flush(&mut sender, socket)?;
                if !sender.is_empty() {
                    ready.clear_ready();
                }
            }
        }
    }
}

/// Writes what the socket takes. A guard that is gone is noticed by reading, after what it may
/// still have said.
fn flush(sender: &mut Sender, socket: &AsyncFd<OwnedFd>) -> Result<(), WireError> {
    match sender.flush(socket.get_ref()) {
        Err(WireError::Socket(error)) if error.raw_os_error() == Some(libc::EPIPE) => {
            *sender = Sender::default();
            Ok(())
        }
        other => other,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

//! The engine's end of a guard's control socket.
//!
//! One task owns the socket: it writes requests in order and hands each event to whoever waits
//! for it. When the socket ends, everything that waits is told so, and when this value is
//! dropped, the socket closes, on which the guard ends its session.

use crate::sys::async_fd::register;
use kotak_guard::proto::{
    Check, Event, Exec, ExecStage, ExitStatus, Process, ReadyReport, Request, Setup, Signal,
    SignalTarget, Stdio,
};
use kotak_guard::wire::{Received, Receiver, Sender, WireError};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
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
    outbox: mpsc::Sender<(Request, Vec<OwnedFd>)>,
    table: Arc<Mutex<Table>>,
    closed: watch::Receiver<Option<LinkClosed>>,
    next_token: AtomicU64,
    task: AbortHandle,
}

type StartAnswer = oneshot::Sender<Result<StartedExec, ExecFailure>>;

#[derive(Debug, Default)]
struct Table {
    setup: Option<oneshot::Sender<Result<ReadyReport, SetupFailure>>>,
    starting: HashMap<u64, Starting>,
    running: HashMap<u64, watch::Sender<Option<ExitStatus>>>,
    /// Answered in order, one for one.
    frozen: VecDeque<oneshot::Sender<Result<u32, u32>>>,
    /// `None` for one that nobody waits for.
    thawed: VecDeque<Option<oneshot::Sender<()>>>,
    processes: HashMap<u64, oneshot::Sender<Vec<Process>>>,
    closed: Option<LinkClosed>,
    survivors: u32,
}

#[derive(Debug)]
struct Starting {
    answer: StartAnswer,
    wants_master: bool,
}

impl GuardLink {
    /// Takes over the engine's end of a control socket. Must be called inside a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        super::set_nonblocking(&socket)?;
        let socket = register(socket, Interest::READABLE | Interest::WRITABLE)?;
        let (outbox, requests) = mpsc::channel(OUTBOX);
        let table = Arc::new(Mutex::new(Table::default()));
        let (closing, closed) = watch::channel(None);
        let shared = Arc::clone(&table);
        let task = tokio::spawn(async move {
            let reason = match serve(&socket, requests, &shared).await {
                Ok(reason) => reason.to_owned(),
                Err(error) => chain(&error),
            };
            drop(socket);
            let end = LinkClosed { reason };
            lock(&shared).close(&end);
            closing.send_replace(Some(end));
        });
        let task = task.abort_handle();
        Ok(Self {
            outbox,
            table,
            closed,
            next_token: AtomicU64::new(1),
            task,
        })
    }

    /// Sends the set-up and waits for the guard's verdict.
    pub async fn setup(&self, setup: Setup) -> Result<ReadyReport, SetupFailure> {
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
        let mut table = lock(&self.table);
        // Without a place for it the guard has long taken nothing, not even the freeze.
        if self.outbox.try_send((Request::Thaw, Vec::new())).is_ok() {
            table.thawed.push_back(None);
        }
    }

    /// The processes of the session.
    pub async fn processes(&self) -> Result<Vec<Process>, LinkClosed> {
        let (answer, answered) = oneshot::channel();
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
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
        lock(&self.table).survivors
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
        let place = self.outbox.reserve().await.map_err(|_| self.reason())?;
        let mut table = lock(&self.table);
        if let Some(closed) = &table.closed {
            return Err(closed.clone());
        }
        register(&mut table);
        place.send((request, descriptors));
        Ok(())
    }

    fn reason(&self) -> LinkClosed {
        lock(&self.table).closed.clone().unwrap_or_else(aborted)
    }
}

impl Drop for GuardLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Table {
    fn close(&mut self, end: &LinkClosed) {
        if let Some(setup) = self.setup.take() {
            let _ = setup.send(Err(SetupFailure::Closed(end.clone())));
        }
        for (_, starting) in self.starting.drain() {
            let _ = starting.answer.send(Err(ExecFailure::Closed(end.clone())));
        }
        // Dropping the senders tells everyone who waits.
        self.running.clear();
        self.frozen.clear();
        self.thawed.clear();
        self.processes.clear();
        self.closed = Some(end.clone());
    }

    /// Hands an event to who waits for it, and says what the guard must be told then; `Err` names
    /// what makes no sense.
    fn dispatch(
        &mut self,
        event: Event,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Option<Request>, &'static str> {
        match event {
            Event::Ready(report) => {
                let setup = self.setup.take().ok_or("the guard was ready unasked")?;
                let _ = setup.send(Ok(*report));
            }
            Event::Refused(check) => {
                let setup = self
                    .setup
                    .take()
                    .ok_or("the guard refused what it had accepted")?;
                let _ = setup.send(Err(SetupFailure::Refused(check)));
            }
            Event::Started { id, pid } => {
                let starting = self
                    .starting
                    .remove(&id)
                    .ok_or("the guard started an unknown program")?;
                let master = descriptors.pop();
                if starting.wants_master != master.is_some() {
                    return Err("the guard's answer holds the wrong descriptors");
                }
                let (ended, end) = watch::channel(None);
                self.running.insert(id, ended);
                let started = StartedExec { pid, master, end };
                if starting.answer.send(Ok(started)).is_err() {
                    // Whoever asked for it was told that it did not start.
                    return Ok(Some(Request::Signal(Signal {
                        signal: libc::SIGKILL,
                        to: SignalTarget::Group(id),
                    })));
                }
            }
            Event::ExecFailed { id, stage, errno } => {
                let starting = self
                    .starting
                    .remove(&id)
                    .ok_or("the guard failed an unknown program")?;
                let _ = starting
                    .answer
                    .send(Err(ExecFailure::Failed { stage, errno }));
            }
            Event::Exited { id, status } => {
                let ended = self
                    .running
                    .remove(&id)
                    .ok_or("the guard ended an unknown program")?;
                ended.send_replace(Some(status));
            }
            Event::Frozen { processes } => {
                if let Some(waiting) = self.frozen.pop_front() {
                    let _ = waiting.send(Ok(processes));
                }
            }
            Event::FreezeFailed { running } => {
                if let Some(waiting) = self.frozen.pop_front() {
                    let _ = waiting.send(Err(running));
                }
            }
            Event::Thawed => {
                if let Some(Some(waiting)) = self.thawed.pop_front() {
                    let _ = waiting.send(());
                }
            }
            Event::Processes { token, list } => {
                if let Some(waiting) = self.processes.remove(&token) {
                    let _ = waiting.send(list);
                }
            }
            Event::Survivors { processes } => self.survivors = processes,
            Event::Bye => {}
        }
        Ok(None)
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

fn aborted() -> LinkClosed {
    LinkClosed {
        reason: "the session was dropped".to_owned(),
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

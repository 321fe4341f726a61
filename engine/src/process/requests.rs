//! Asking a guard, and handing its answers to whoever waits for them.

use super::guard_link::{ExecFailure, LinkClosed, OpenFailure, SetupFailure, StartedExec};
use super::violations::Outlet;
use kotak_guard::proto::{
    Connection, Connector, Event, ExitStatus, ListenAt, Process, ReadyReport, Request, Signal,
    SignalTarget,
};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};

/// Questions after a process that may wait; in a flood, further ones are not asked.
const MOST_QUESTIONS: usize = 256;

/// A way to ask the guard that does not keep its link alive.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    pub(super) outbox: mpsc::Sender<(Request, Vec<OwnedFd>)>,
    pub(super) table: Arc<Mutex<Table>>,
    pub(super) next_token: Arc<AtomicU64>,
}

/// What the guard says of its set-up, and what came with it.
pub(super) type SetupAnswer = oneshot::Sender<Result<(ReadyReport, Vec<OwnedFd>), SetupFailure>>;

pub(super) type StartAnswer = oneshot::Sender<Result<StartedExec, ExecFailure>>;

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) setup: Option<SetupAnswer>,
    pub(super) starting: HashMap<u64, Starting>,
    pub(super) running: HashMap<u64, watch::Sender<Option<ExitStatus>>>,
    /// Answered in order, one for one.
    pub(super) frozen: VecDeque<oneshot::Sender<Result<u32, u32>>>,
    /// `None` for one that nobody waits for.
    pub(super) thawed: VecDeque<Option<oneshot::Sender<()>>>,
    pub(super) processes: HashMap<u64, oneshot::Sender<Vec<Process>>>,
    pub(super) connectors: HashMap<u64, oneshot::Sender<Option<Connector>>>,
    pub(super) opening: HashMap<u64, oneshot::Sender<io::Result<OwnedFd>>>,
    /// What the guard refuses.
    pub(super) violations: Outlet,
    pub(super) closed: Option<LinkClosed>,
    pub(super) survivors: u32,
}

#[derive(Debug)]
pub(super) struct Starting {
    pub(super) answer: StartAnswer,
    pub(super) wants_master: bool,
}

impl Requests {
    /// A number for one question.
    pub(super) fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// Who is at the client's end of a connection; none also when too many ask.
    pub(super) async fn who_connects(&self, connection: Connection) -> Option<Connector> {
        let (answer, answered) = oneshot::channel();
        let token = self.token();
        // Taken back when the caller waits no longer.
        let _question = {
            let mut table = lock(&self.table);
            if table.closed.is_some() || table.connectors.len() >= MOST_QUESTIONS {
                return None;
            }
            table.connectors.insert(token, answer);
            Question { of: self, token }
        };
        let request = Request::WhoConnects { token, connection };
        self.ask(request, Vec::new(), |_| ()).await.ok()?;
        answered.await.ok()?
    }

    /// Connects to 127.0.0.1 inside.
    pub(super) async fn connect(&self, port: u16) -> Result<TcpStream, OpenFailure> {
        let token = self.token();
        let socket = self.open(token, Request::Connect { token, port }).await?;
        let stream = std::net::TcpStream::from(socket);
        let connected = async {
            stream.set_nonblocking(true)?;
            let stream = TcpStream::from_std(stream)?;
            // It may be on its way (connect(2), EINPROGRESS).
            stream.writable().await?;
            match stream.take_error()? {
                None => Ok(stream),
                Some(error) => Err(error),
            }
        };
        connected.await.map_err(OpenFailure::Refused)
    }

    /// Listens inside.
    pub(super) async fn listen(&self, at: ListenAt) -> Result<OwnedFd, OpenFailure> {
        let token = self.token();
        self.open(token, Request::Listen { token, at }).await
    }

    async fn open(&self, token: u64, request: Request) -> Result<OwnedFd, OpenFailure> {
        let (answer, answered) = oneshot::channel();
        self.ask(request, Vec::new(), |table| {
            table.opening.insert(token, answer);
        })
        .await
        .map_err(OpenFailure::Closed)?;
        match answered.await {
            Ok(opened) => opened.map_err(OpenFailure::Refused),
            Err(_) => Err(OpenFailure::Closed(self.reason())),
        }
    }

    /// Puts down who waits for the answer, and sends the request.
    pub(super) async fn ask(
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

    /// Why the link ended.
    pub(super) fn reason(&self) -> LinkClosed {
        lock(&self.table).closed.clone().unwrap_or_else(aborted)
    }
}

/// A question that waits in the table.
struct Question<'a> {
    of: &'a Requests,
    token: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        lock(&self.of.table).connectors.remove(&self.token);
    }
}

impl Table {
    /// The link has ended: everything that waits is told so.
    pub(super) fn close(&mut self, end: &LinkClosed) {
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
        self.connectors.clear();
        self.opening.clear();
        self.closed = Some(end.clone());
    }

    /// Hands an event to who waits for it, and says what the guard must be told then; `Err` names
    /// what makes no sense.
    pub(super) fn dispatch(
        &mut self,
        event: Event,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Option<Request>, &'static str> {
        match event {
            Event::Ready(report) => {
                let setup = self.setup.take().ok_or("the guard was ready unasked")?;
                let _ = setup.send(Ok((*report, descriptors)));
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
            Event::Connector { token, found } => {
                // Unknown when nobody waits for it any more.
                if let Some(waiting) = self.connectors.remove(&token) {
                    let _ = waiting.send(found.map(|found| *found));
                }
            }
            Event::Opened { token } => {
                let socket = descriptors
                    .pop()
                    .ok_or("the guard's answer holds the wrong descriptors")?;
                if let Some(waiting) = self.opening.remove(&token) {
                    let _ = waiting.send(Ok(socket));
                }
            }
            Event::NotOpened { token, errno } => {
                if let Some(waiting) = self.opening.remove(&token) {
                    let _ = waiting.send(Err(io::Error::from_raw_os_error(errno)));
                }
            }
            Event::Violation(violation) => self.violations.put(*violation),
            Event::Survivors { processes } => self.survivors = processes,
            Event::Bye => {}
        }
        Ok(None)
    }
}

pub(super) fn aborted() -> LinkClosed {
    LinkClosed {
        reason: "the session was dropped".to_owned(),
        withheld: false,
    }
}

pub(super) fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::guard_link::GuardLink;
    use crate::process::tree::control_pair;
    use kotak_guard::proto::Transport;
    use kotak_guard::wire::{Receiver, send};

    fn connection(port: u16) -> Connection {
        Connection {
            transport: Transport::Tcp,
            client: ([127, 0, 0, 1], port).into(),
            server: None,
        }
    }

    /// A guard that knows the client at port 1, refuses port 2, opens what is asked for at port 3
    /// without a socket, and says nothing of others.
    fn guard() -> GuardLink {
        let (own, guard) = control_pair().unwrap();
        std::thread::spawn(move || {
            let mut receiver = Receiver::default();
            while let Ok(Some((request, _))) = receiver.recv::<Request>(&guard) {
                let answer = match request {
                    Request::WhoConnects { token, connection } if connection.client.port() == 1 => {
                        let found = Connector {
                            pid: 7,
                            comm: "curl".to_owned(),
                            executable: None,
                            argv: vec![],
                            cwd: None,
                            parents: vec![],
                        };
                        let found = Some(Box::new(found));
                        Event::Connector { token, found }
                    }
                    Request::Connect { token, port: 2 } => Event::NotOpened {
                        token,
                        errno: libc::ECONNREFUSED,
                    },
                    Request::Connect { token, port: 3 } => Event::Opened { token },
                    _ => continue,
                };
                send(&guard, &answer, &[]).unwrap();
            }
        });
        GuardLink::new(own).unwrap()
    }

    #[tokio::test]
    async fn an_answer_reaches_who_asked_and_the_end_of_the_link_everybody() {
        let link = guard();
        let requests = link.requests();
        let found = requests.who_connects(connection(1)).await.unwrap();
        assert_eq!((found.pid, found.comm.as_str()), (7, "curl"));
        let refused = requests.connect(2).await.unwrap_err();
        assert!(
            matches!(&refused, OpenFailure::Refused(error) if error.raw_os_error() == Some(libc::ECONNREFUSED)),
            "{refused:?}"
        );
        // An answer without the socket that it promises ends the link.
        let broken = requests.connect(3).await.unwrap_err();
        assert!(matches!(broken, OpenFailure::Closed(_)), "{broken:?}");
        assert_eq!(requests.who_connects(connection(1)).await, None);
        assert!(matches!(
            requests.connect(2).await,
            Err(OpenFailure::Closed(_))
        ));
    }

    #[tokio::test]
    async fn in_a_flood_further_questions_are_not_asked_and_dropped_ones_are_taken_back() {
        let link = guard();
        let requests = link.requests();
        let waiting = |requests: &Requests| lock(&requests.table).connectors.len();
        let mut flood = tokio::task::JoinSet::new();
        for _ in 0..MOST_QUESTIONS {
            let requests = requests.clone();
            flood.spawn(async move { requests.who_connects(connection(9)).await });
        }
        while waiting(&requests) < MOST_QUESTIONS {
            tokio::task::yield_now().await;
        }
        assert_eq!(requests.who_connects(connection(1)).await, None);
        flood.shutdown().await;
        assert_eq!(waiting(&requests), 0);
        assert!(requests.who_connects(connection(1)).await.is_some());
    }
}

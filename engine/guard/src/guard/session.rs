//! The event loop: control socket, SIGCHLD, and children on their way to execve(2).

use super::{
    connectors,
    everybody::{Killed, kill_descendants, signal_everybody},
    exec::{self, Failure},
    freeze::{Freezer, Outcome, PASS_INTERVAL_MS},
    processes::{self, Scope},
    setup::Ready,
    sockets,
    supervise::Journal,
    sys::{Reaped, reap_one, send_signal},
};
use kotak_guard::{
    proto::{Connection, Event, Exec, ExecStage, ExitStatus, Request, Signal, SignalTarget},
    wire::{Received, Receiver, Sender, WireError},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signalfd::SignalFd,
};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// Most requests handled before children are reaped again.
const REQUESTS_PER_TURN: usize = 32;

/// Unsent bytes past which no further request is read: an engine that does not read its events
/// gets no more of them.
const MOST_QUEUED_BYTES: usize = 1024 * 1024;

/// Most refusals told before requests are read again.
const VIOLATIONS_PER_TURN: usize = 64;

/// How long the last message may wait for an engine that does not read.
const FAREWELL: Duration = Duration::from_secs(2);

/// Between two rounds of killing.
const KILL_INTERVAL_MS: u16 = 10;

/// Rounds after which processes that may not be signalled are left alone.
const MOST_FORBIDDEN_ROUNDS: u32 = 200;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Asked for, and every process is gone but those that the engine was told of.
    Orderly,
    /// The engine is gone, or its stream is broken.
    EngineGone,
}

/// One program that was asked for and has not ended.
#[derive(Debug)]
struct Task {
    pid: i32,
    /// Part of the session's own workings.
    service: bool,
    /// There until it is known whether the program runs.
    starting: Option<Starting>,
}

#[derive(Debug)]
struct Starting {
    report: OwnedFd,
    master: Option<OwnedFd>,
}

/// Whether there is anybody left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Children {
    Some,
    /// No child, and so no descendant: each has an ancestor among the children.
    None,
}

/// The state of a ready guard.
#[derive(Debug)]
pub(crate) struct Session {
    control: OwnedFd,
    receiver: Receiver,
    sender: Sender,
    signals: SignalFd,
    ready: Ready,
    tasks: BTreeMap<u64, Task>,
    freezer: Freezer,
    /// Questions of this turn, which one look at the processes answers.
    questions: Vec<(u64, Connection)>,
    /// When the polite part of a shutdown is over.
    kill_at: Option<Instant>,
}

impl Session {
    /// Tells the engine that all is ready.
    pub(crate) fn new(
        control: OwnedFd,
        receiver: Receiver,
        signals: SignalFd,
        mut ready: Ready,
    ) -> Result<Self, WireError> {
        let mut sender = Sender::default();
        let report = std::mem::take(&mut ready.report);
        // Its own copies close when they are on their way: the engine alone listens.
        let descriptors = std::mem::take(&mut ready.descriptors);
        sender.queue(&Event::Ready(Box::new(report)), descriptors)?;
        Ok(Self {
            control,
            receiver,
            sender,
            signals,
            ready,
            tasks: BTreeMap::new(),
            freezer: Freezer::default(),
            questions: Vec::new(),
            kill_at: None,
        })
    }

    /// Serves until the end, and leaves no process behind.
    pub(crate) fn run(mut self) -> End {
        let end = self.serve().unwrap_or(End::EngineGone);
        match end {
            End::Orderly => {
                let survivors = self.kill_everybody();
                if survivors > 0 {
                    // Too much unsent is the engine's doing, which then does not read this either.
                    let _ = self.say(&Event::Survivors {
                        processes: survivors,
                    });
                }
                self.say_bye();
            }
            End::EngineGone => match self.ready.scope {
                // The kernel kills a PID namespace with its PID 1.
                Scope::Namespace => {}
                Scope::Descendants => {
                    // There is nobody left to tell.
                    let _ = self.kill_everybody();
                }
            },
        }
        end
    }

    fn serve(&mut self) -> Result<End, WireError> {
        loop {
            let children = self.reap()?;
            if self.freezer.is_freezing() {
                self.freeze_pass()?;
            }
            if let Some(kill_at) = self.kill_at
                && (children == Children::None || Instant::now() >= kill_at)
            {
                return Ok(End::Orderly);
            }
            self.say_news()?;
            self.sender.flush(&self.control)?;
            self.wait()?;
            self.settle_starting()?;
            for _ in 0..REQUESTS_PER_TURN {
                if self.sender.queued_bytes() >= MOST_QUEUED_BYTES {
                    break;
                }
                match self.receiver.poll(&self.control)? {
                    Received::Message(request, descriptors) => {
                        self.handle(request, descriptors)?;
                    }
                    Received::Pending => break,
                    Received::Closed => return Ok(End::EngineGone),
                }
            }
            self.answer_questions()?;
        }
    }

    /// Waits for anything to do.
    fn wait(&mut self) -> Result<(), WireError> {
        let mut control = PollFlags::empty();
        if self.sender.queued_bytes() < MOST_QUEUED_BYTES {
            control |= PollFlags::POLLIN;
        }
        if !self.sender.is_empty() {
            control |= PollFlags::POLLOUT;
        }
        let deadline = if self.freezer.is_freezing() {
            Some(Instant::now() + Duration::from_millis(u64::from(PASS_INTERVAL_MS)))
        } else {
            self.kill_at
        };
        let news = self.journal().and_then(Journal::next);
        let timeout = until(deadline.into_iter().chain(news).min());
        let mut entries = vec![
            PollFd::new(self.control.as_fd(), control),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        if let Some(journal) = self.journal() {
            entries.push(PollFd::new(journal.news(), PollFlags::POLLIN));
        }
        let starting = self
            .tasks
            .values()
            .filter_map(|task| task.starting.as_ref());
        entries.extend(starting.map(|it| PollFd::new(it.report.as_fd(), PollFlags::POLLIN)));
        match poll(&mut entries, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(WireError::Socket(errno.into())),
        }
        drop(entries);
        self.drain_signals();
        Ok(())
    }

    /// What the supervisor has to tell; nothing while the engine does not read.
    fn journal(&self) -> Option<&Journal> {
        let supervisor = self.ready.confinement.supervisor.as_ref()?;
        let reads = self.sender.queued_bytes() < MOST_QUEUED_BYTES;
        reads.then_some(&*supervisor.journal)
    }

    /// Tells what was refused.
    fn say_news(&mut self) -> Result<(), WireError> {
        let news = self
            .journal()
            .map(|journal| journal.take(VIOLATIONS_PER_TURN))
            .unwrap_or_default();
        news.into_iter()
            .try_for_each(|violation| self.say(&Event::Violation(Box::new(violation))))
    }

    /// Signals only wake the loop; what happened is asked from waitpid(2).
    fn drain_signals(&self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
    }

    fn handle(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Result<(), WireError> {
        match request {
            // Once is all: the guard does not change what it verified.
            Request::Setup(_) => Err(WireError::Socket(Errno::EPROTO.into())),
            Request::Exec(exec) => self.exec(&exec, descriptors),
            Request::Signal(signal) => {
                self.signal(signal);
                Ok(())
            }
            Request::Freeze => {
                self.freezer.begin();
                self.freeze_pass()
            }
            Request::Thaw => {
                if self.freezer.is_freezing() {
                    // The freeze that this one overtakes is answered too.
                    self.say(&Event::FreezeFailed { running: 0 })?;
                }
                self.freezer.thaw(self.ready.scope);
                self.say(&Event::Thawed)
            }
            Request::Processes { token } => {
                let tasks = self.tasks.values();
                let services = tasks.filter(|it| it.service).map(|it| it.pid).collect();
                let list = processes::report(self.ready.scope, services);
                self.say(&Event::Processes { token, list })
            }
            Request::WhoConnects { token, connection } => {
                self.questions.push((token, connection));
                Ok(())
            }
            Request::Connect { token, port } => self.opened(token, sockets::connect_to(port)),
            Request::Listen { token, at } => {
                let opened = self.ready.private.listen(&at);
                self.opened(token, opened)
            }
            Request::Shutdown { grace_ms } => {
                for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGCONT] {
                    signal_everybody(self.ready.scope, signal);
                }
                self.freezer = Freezer::default();
                let grace = Duration::from_millis(u64::from(grace_ms));
                self.kill_at = Some(Instant::now() + grace);
                Ok(())
            }
        }
    }

    /// On the host nobody's network but the host's is there, and every process could be anybody's.
    fn answer_questions(&mut self) -> Result<(), WireError> {
        if self.questions.is_empty() {
            return Ok(());
        }
        let (tokens, connections): (Vec<u64>, Vec<Connection>) =
            std::mem::take(&mut self.questions).into_iter().unzip();
        let answers = match self.ready.scope {
            Scope::Namespace => connectors::find(&connections),
            Scope::Descendants => vec![None; tokens.len()],
        };
        for (token, found) in tokens.into_iter().zip(answers) {
            let found = found.map(Box::new);
            self.say(&Event::Connector { token, found })?;
        }
        Ok(())
    }

    fn opened(&mut self, token: u64, opened: Result<OwnedFd, Errno>) -> Result<(), WireError> {
        let opened = match self.ready.scope {
            Scope::Namespace => opened,
            Scope::Descendants => Err(Errno::EOPNOTSUPP),
        };
        match opened {
            Ok(socket) => self.sender.queue(&Event::Opened { token }, vec![socket]),
            Err(errno) => self.say(&Event::NotOpened {
                token,
                errno: errno as i32,
            }),
        }
    }

    fn exec(&mut self, exec: &Exec, descriptors: Vec<OwnedFd>) -> Result<(), WireError> {
        let refused = if self.kill_at.is_some() {
            Some(Errno::ESHUTDOWN)
        } else if !self.freezer.is_running() {
            Some(Errno::EBUSY)
        } else if self.tasks.contains_key(&exec.id) {
            Some(Errno::EEXIST)
        } else {
            None
        };
        let spawned = match refused {
            Some(errno) => Err(Failure::new(ExecStage::Fork, errno)),
            None => exec::spawn(exec, descriptors, &self.ready.confinement),
        };
        match spawned {
            Ok(spawned) => {
                let starting = Starting {
                    report: spawned.report,
                    master: spawned.master,
                };
                let task = Task {
                    pid: spawned.pid,
                    service: exec.service,
                    starting: Some(starting),
                };
                self.tasks.insert(exec.id, task);
                Ok(())
            }
            Err(failure) => self.say_failed(exec.id, failure),
        }
    }

    /// Reports the children that have reached execve(2) or failed before.
    fn settle_starting(&mut self) -> Result<(), WireError> {
        let starting: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| {
                task.starting
                    .as_ref()
                    .is_some_and(|starting| is_readable(&starting.report))
            })
            .map(|(id, _)| *id)
            .collect();
        starting.into_iter().try_for_each(|id| self.settle(id))
    }

    /// Reads the report of one child, which must not make this wait.
    fn settle(&mut self, id: u64) -> Result<(), WireError> {
        let Some(task) = self.tasks.get_mut(&id) else {
            return Ok(());
        };
        let Some(starting) = task.starting.take() else {
            return Ok(());
        };
        match exec::read_report(&starting.report) {
            None => {
                task.starting = Some(starting);
                Ok(())
            }
            Some(Ok(())) => {
                let event = Event::Started { id, pid: task.pid };
                self.sender
                    .queue(&event, starting.master.into_iter().collect())
            }
            Some(Err(failure)) => {
                // Its end is reaped without a word: it never was a program.
                self.tasks.remove(&id);
                self.say_failed(id, failure)
            }
        }
    }

    /// Takes every child that has ended.
    fn reap(&mut self) -> Result<Children, WireError> {
        loop {
            match reap_one() {
                Reaped::Ended(pid, status) => self.ended(pid, status)?,
                Reaped::Nobody => return Ok(Children::Some),
                Reaped::NoChild => return Ok(Children::None),
                Reaped::Alive => {}
            }
        }
    }

    fn ended(&mut self, pid: i32, status: ExitStatus) -> Result<(), WireError> {
        let found = self.tasks.iter().find(|(_, task)| task.pid == pid);
        let Some(id) = found.map(|(id, _)| *id) else {
            return Ok(());
        };
        // The dead hold no pipe, so the report is complete.
        self.settle(id)?;
        if self.tasks.remove(&id).is_some() {
            self.say(&Event::Exited { id, status })?;
        }
        Ok(())
    }

    fn freeze_pass(&mut self) -> Result<(), WireError> {
        match self.freezer.pass(self.ready.scope) {
            Outcome::Frozen(processes) => self.say(&Event::Frozen { processes }),
            Outcome::Failed(running) => self.say(&Event::FreezeFailed { running }),
            Outcome::Again => Ok(()),
        }
    }

    /// A signal to a program that has ended meanwhile is no error.
    fn signal(&self, Signal { signal, to }: Signal) {
        if !(1..=libc::SIGRTMAX()).contains(&signal) {
            return;
        }
        let leader = |id| self.tasks.get(&id).map(|task| task.pid);
        let group = match to {
            SignalTarget::All => return signal_everybody(self.ready.scope, signal),
            SignalTarget::Group(id) => leader(id),
            SignalTarget::Foreground(id) => leader(id).map(|pid| {
                processes::member(pid).map_or(pid, |leader| match leader.tpgid {
                    foreground if foreground > 0 => foreground,
                    _ => pid,
                })
            }),
        };
        if let Some(group) = group.filter(|group| *group > 1) {
            let _ = send_signal(-group, signal);
        }
    }

    /// Kills until nobody is left, or only those who may not be signalled: how many. On the host,
    /// stops first, so that nobody forks away.
    fn kill_everybody(&mut self) -> u32 {
        let mut forbidden_rounds = 0;
        // What cannot be told any more does not keep anybody alive.
        while self.reap().unwrap_or(Children::Some) == Children::Some {
            match self.ready.scope {
                Scope::Namespace => signal_everybody(Scope::Namespace, libc::SIGKILL),
                Scope::Descendants => match kill_descendants() {
                    Killed::SomeOrNone => forbidden_rounds = 0,
                    Killed::Forbidden(left) if forbidden_rounds >= MOST_FORBIDDEN_ROUNDS => {
                        return left;
                    }
                    Killed::Forbidden(_) => forbidden_rounds += 1,
                },
            }
            let _ = self.sender.flush(&self.control);
            let mut entries = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut entries, PollTimeout::from(KILL_INTERVAL_MS));
            self.drain_signals();
        }
        0
    }

    fn say_bye(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        let supervisor = self.ready.confinement.supervisor.as_ref();
        let rest = supervisor.map(|it| it.rest(deadline)).unwrap_or_default();
        let mut last = rest
            .into_iter()
            .map(|violation| Event::Violation(Box::new(violation)))
            .chain([Event::Bye]);
        if last.any(|event| self.say(&event).is_err()) {
            return;
        }
        while self.sender.flush(&self.control).is_ok() && !self.sender.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let mut entries = [PollFd::new(self.control.as_fd(), PollFlags::POLLOUT)];
            let _ = poll(
                &mut entries,
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO),
            );
        }
    }

    fn say(&mut self, event: &Event) -> Result<(), WireError> {
        self.sender.queue(event, Vec::new())
    }

    fn say_failed(&mut self, id: u64, Failure { stage, errno }: Failure) -> Result<(), WireError> {
        self.say(&Event::ExecFailed {
            id,
            stage,
            errno: errno as i32,
        })
    }
}

/// How long to wait for a moment; rounded up, so that the loop does not spin through the last
/// millisecond.
fn until(moment: Option<Instant>) -> PollTimeout {
    let Some(moment) = moment else {
        return PollTimeout::NONE;
    };
    let left = moment.saturating_duration_since(Instant::now());
    PollTimeout::try_from(left.saturating_add(Duration::from_millis(1))).unwrap_or(PollTimeout::MAX)
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut entries = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut entries, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

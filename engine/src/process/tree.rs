//! A running session: a guard, what it watches over, and how it ends.

use super::cgroup::SessionCgroup;
use super::child::Child;
use super::descendants::kill_descendants;
use super::guard_link::{ExecFailure, GuardLink, LinkClosed};
use super::master::Master;
use super::pty::OpenPty;
use super::scrollback::Limits;
use super::{
    ExecError, Inside, LaunchError, OwnedStream, SecretWatch, SessionSockets, Terminal, Violations,
};
use crate::backend::WayIn;
use crate::error::{Coded, Fix};
use kotak_guard::proto::{Exec, ExitStatus, Process, ReadyReport, Signal, SignalTarget, Stdio};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Between the polite signals and SIGKILL when a session is closed.
const GRACE_MS: u32 = 150;

/// How long a guard may take to end everything before its root is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a guard may take to answer: it only asks the kernel for things that do not wait, so one
/// that says nothing for this long hangs, or the machine does.
const ANSWER: Duration = Duration::from_secs(15);

/// Replaces [`ANSWER`], in milliseconds, in tests of a guard that hangs.
#[cfg(test)]
pub(super) static HURRY_MS: AtomicU64 = AtomicU64::new(0);

/// Which side of the sandbox's wall the guard stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// PID 1 of a PID namespace: when it dies, so does everything in it.
    Namespace,
    /// A subreaper on the host: killing it would free what it watches.
    Subreaper,
}

/// A running session. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Tree {
    pub(super) link: GuardLink,
    pub(super) child: Child,
    pub(super) cgroup: Option<SessionCgroup>,
    pub(super) root: Root,
    pub(super) report: ReadyReport,
    pub(super) next_exec: AtomicU64,
    /// What only sessions with a network of their own have.
    pub(super) network: Option<Network>,
    pub(super) secrets: Secrets,
}

/// What keeps secrets hidden while a session runs.
#[derive(Debug, Default)]
pub(super) enum Secrets {
    /// There is nothing to keep hidden.
    #[default]
    None,
    /// It works; until it is taken.
    Watched(Mutex<Option<Box<SecretWatch>>>),
    /// It does not, and why.
    Unwatched(String),
}

/// The network of a session, from the engine's side.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) way: WayIn,
    /// The namespace, held so that its inode is not given to another.
    pub(super) namespace: Arc<OwnedFd>,
    /// Until they are taken.
    pub(super) sockets: Mutex<Option<SessionSockets>>,
}

/// A program that was started.
#[derive(Debug)]
pub struct Started {
    /// Unique in its session.
    pub id: u64,
    /// Process id as seen in the session.
    pub pid: i32,
    /// Its terminal, when it has one.
    pub terminal: Option<Arc<Terminal>>,
    /// How it ended; closed without a value when the session went away first.
    pub end: watch::Receiver<Option<ExitStatus>>,
}

/// A program to start, ready for the guard but for its number and streams.
#[derive(Debug)]
pub struct Command {
    /// `argv`.
    pub argv: Vec<Vec<u8>>,
    /// Absolute working directory.
    pub cwd: Vec<u8>,
    /// The whole environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the standard streams go.
    pub streams: Streams,
}

/// The standard streams of a [`Command`].
#[derive(Debug)]
pub enum Streams {
    /// A terminal of this size.
    Pty {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// stdin, stdout, stderr.
    Given([OwnedStream; 3]),
}

/// Why a session could not be frozen, thawed or ended.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The guard is gone.
    #[error("the session has ended")]
    Gone(#[source] LinkClosed),
    /// The guard runs and says nothing.
    #[error("the session's guard did not answer within {seconds} s")]
    Unanswered {
        /// How long was waited.
        seconds: u64,
    },
    /// Some processes could not be stopped, so all go on.
    #[error("{running} processes of the session could not be stopped")]
    NotFrozen {
        /// How many.
        running: u32,
    },
    /// Something survives SIGKILL for now, e.g. a process in an uninterruptible wait.
    #[error("a process of the session does not die")]
    StillRunning,
    /// Some processes may not be killed by this user, and live on outside of any session.
    #[error("{processes} processes of the session run as another user and live on")]
    Survivors {
        /// How many.
        processes: u32,
    },
}

impl Tree {
    /// What the guard saw before it said ready.
    #[must_use]
    pub fn report(&self) -> &ReadyReport {
        &self.report
    }

    /// The way into its network, as it was found at launch; none where the network is the host's.
    #[must_use]
    pub fn way_in(&self) -> Option<&WayIn> {
        self.network.as_ref().map(|network| &network.way)
    }

    /// What the session's proxies accept on: once, and none where the network is the host's. Who
    /// takes them holds the only way out; dropping them closes it.
    #[must_use]
    pub fn take_sockets(&self) -> Option<SessionSockets> {
        let sockets = &self.network.as_ref()?.sockets;
        sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// What hides secrets again that the host replaces or makes: once, and none where that does not
    /// work. Dropping it ends it.
    #[must_use]
    pub fn take_secret_watch(&self) -> Option<SecretWatch> {
        let Secrets::Watched(watch) = &self.secrets else {
            return None;
        };
        let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.take().map(|watch| *watch)
    }

    /// Whether secrets are hidden again, as it was seen at launch; `Err` says why not.
    pub fn watches_secrets(&self) -> Result<bool, &str> {
        match &self.secrets {
            Secrets::None => Ok(false),
            Secrets::Watched(_) => Ok(true),
            Secrets::Unwatched(reason) => Err(reason),
        }
    }

    /// Kills everything in a sandbox at once, without a moment to end by itself; [`Tree::end`]
    /// waits for that.
    pub fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if self.root == Root::Namespace {
            self.child.kill();
        }
    }

    /// What its guard refuses, from the beginning on: once. What nobody takes is bounded.
    #[must_use]
    pub fn take_violations(&self) -> Option<Violations> {
        self.link.take_violations()
    }

    /// A handle on its network: who connects, forwards in and out. None where the network is the
    /// host's.
    #[must_use]
    pub fn inside(&self) -> Option<Inside> {
        Some(Inside {
            requests: self.link.requests(),
            network: Arc::clone(&self.network.as_ref()?.namespace),
        })
    }

    /// Host process id of the runner (bubblewrap) or watcher.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// By what means [`Tree::freeze`] works.
    #[must_use]
    pub fn freezer(&self) -> &'static str {
        if self.cgroup.as_ref().is_some_and(SessionCgroup::can_freeze) {
            "cgroup"
        } else {
            "guard"
        }
    }

    /// Starts a program.
    pub async fn exec(&self, command: Command) -> Result<Started, ExecError> {
        if command.argv.is_empty() || command.argv.iter().any(|argument| argument.contains(&0)) {
            return Err(ExecError::CommandLine);
        }
        let id = self.next_exec.fetch_add(1, Ordering::Relaxed);
        let program = String::from_utf8_lossy(&command.argv[0]).into_owned();
        let cwd = String::from_utf8_lossy(&command.cwd).into_owned();
        let (stdio, descriptors, own_master) = match (command.streams, self.root) {
            (Streams::Given(streams), _) => (Stdio::Pipes, streams.into(), None),
            (Streams::Pty { cols, rows }, Root::Namespace) => {
                (Stdio::Pty { cols, rows }, Vec::new(), None)
            }
            (Streams::Pty { cols, rows }, Root::Subreaper) => {
                let pty = OpenPty::open(cols, rows)?;
                (Stdio::Slave, vec![pty.slave], Some(pty.master))
            }
        };
        let exec = Exec {
            id,
            argv: command.argv,
            cwd: command.cwd,
            env: command.env,
            stdio,
            service: false,
        };
        let started = answered(self.link.exec(exec, descriptors))
            .await
            .map_err(|Unanswered { seconds }| ExecError::Unanswered { seconds })?
            .map_err(|failure| match failure {
                ExecFailure::Failed { stage, errno } => {
                    ExecError::from_stage(stage, errno, program, cwd)
                }
                ExecFailure::Closed(closed) => ExecError::Gone(closed.reason),
            })?;
        let terminal = match own_master.or(started.master) {
            Some(fd) => Some(Arc::new(
                Master::new(fd)
                    .and_then(|master| Terminal::new(master, Limits::default()))
                    .map_err(ExecError::Terminal)?,
            )),
            None => None,
        };
        Ok(Started {
            id,
            pid: started.pid,
            terminal,
            end: started.end,
        })
    }

    /// Sends a signal to the foreground group of one exec.
    pub async fn signal(&self, exec: u64, signal: i32) -> Result<(), TreeError> {
        let signal = Signal {
            signal,
            to: SignalTarget::Foreground(exec),
        };
        answered(self.link.signal(signal))
            .await?
            .map_err(TreeError::Gone)
    }

    /// The processes of the session.
    pub async fn processes(&self) -> Result<Vec<Process>, TreeError> {
        answered(self.link.processes())
            .await?
            .map_err(TreeError::Gone)
    }

    /// Stops every process of the session.
    pub async fn freeze(&self) -> Result<(), TreeError> {
        if let Some(cgroup) = &self.cgroup {
            match cgroup.freeze().await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "the cgroup freezer failed, the guard freezes instead");
                    cgroup.thaw().await;
                }
            }
        }
        freeze_by_guard(&self.link).await
    }

    /// Undoes [`Tree::freeze`].
    pub async fn thaw(&self) -> Result<(), TreeError> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.thaw().await;
        }
        answered(self.link.thaw()).await?.map_err(TreeError::Gone)
    }

    /// Tells when the guard is gone; closed without a value when this tree is dropped.
    #[must_use]
    pub fn closed_watch(&self) -> watch::Receiver<Option<LinkClosed>> {
        self.link.closed_watch()
    }

    /// Ends everything and waits until nothing is left, whatever the guard does.
    pub async fn end(&self) -> Result<(), TreeError> {
        // One that was stopped can still end its session by itself.
        self.child.go_on();
        if let Some(cgroup) = &self.cgroup {
            cgroup.thaw().await;
        }
        let polite = async {
            if self.link.shutdown(GRACE_MS).await.is_ok() {
                self.link.closed().await;
            }
            self.child.wait().await;
        };
        let mut ended = tokio::time::timeout(PATIENCE, polite).await.is_ok();
        let mut left = 0;
        if !ended {
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            if self.root == Root::Subreaper {
                // What it watches goes first: without it, nobody could tell who that was.
                left = kill_descendants(self.child.pid()).await;
            }
            self.child.kill();
            ended = tokio::time::timeout(PATIENCE, self.child.wait())
                .await
                .is_ok();
        }
        if let Some(cgroup) = &self.cgroup {
            // A watcher that was killed from outside cannot have ended what it watched.
            cgroup.kill();
            cgroup.remove().await;
        }
        how_it_ended(ended, self.link.survivors().max(left))
    }
}

/// A process and its ancestors up to one of them, both included; `None` where `/proc` does not say
/// that it descends from there.
pub(super) fn line_of_descent(pid: i32, ancestor: i32) -> Option<Vec<i32>> {
    let mut line = vec![pid];
    let mut current = pid;
    while current != ancestor {
        let stat = std::fs::read(format!("/proc/{current}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name stands in brackets and may hold any character; state and parent follow it.
        let after_name = stat.rsplit_once(')')?.1;
        current = after_name.split_ascii_whitespace().nth(1)?.parse().ok()?;
        if current <= 0 {
            return None;
        }
        line.push(current);
    }
    Some(line)
}

/// A guard that does not answer.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    seconds: u64,
}

impl From<Unanswered> for TreeError {
    fn from(Unanswered { seconds }: Unanswered) -> Self {
        Self::Unanswered { seconds }
    }
}

/// What a guard answers, when it does.
async fn answered<T>(answer: impl Future<Output = T>) -> Result<T, Unanswered> {
    #[cfg(not(test))]
    let deadline = ANSWER;
    #[cfg(test)]
    let deadline = match HURRY_MS.load(Ordering::SeqCst) {
        0 => ANSWER,
        hurry => Duration::from_millis(hurry),
    };
    tokio::time::timeout(deadline, answer)
        .await
        .map_err(|_| Unanswered {
            seconds: deadline.as_secs(),
        })
}

/// Whether the guard came to its end, and whom it could not take with it.
fn how_it_ended(ended: bool, survivors: u32) -> Result<(), TreeError> {
    match (ended, survivors) {
        (false, _) => Err(TreeError::StillRunning),
        (true, 0) => Ok(()),
        (true, processes) => Err(TreeError::Survivors { processes }),
    }
}

/// Frozen is only what the guard says is: an answer that some run on is a failure.
async fn freeze_by_guard(link: &GuardLink) -> Result<(), TreeError> {
    let answer = answered(link.freeze()).await.inspect_err(|_| {
        // It may freeze once it goes on, when nobody counts on that any more.
        link.thaw_unasked();
    });
    match answer? {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(running)) => Err(TreeError::NotFrozen { running }),
        Err(closed) => Err(TreeError::Gone(closed)),
    }
}

/// A connected pair of control sockets: the engine's end and the guard's.
pub(crate) fn control_pair() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .map_err(io::Error::from)
    .map_err(LaunchError::descriptor("a control socket"))
}

impl Coded for TreeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Gone(_) => "SESSION_ENDED",
            Self::Unanswered { .. } => "GUARD_UNRESPONSIVE",
            Self::NotFrozen { .. } => "SUSPEND_FAILED",
            Self::StillRunning | Self::Survivors { .. } => "PROCESS_DOES_NOT_DIE",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Gone(_) => "Start a new session.",
            Self::Unanswered { .. } => {
                "Try again when the machine is less busy, or close the session: that works without its guard."
            }
            Self::NotFrozen { .. } => {
                "Try again; a program may start processes faster than they can be stopped, or run as another user."
            }
            Self::StillRunning => {
                "Look for a process that waits for a disk or a network file system, and free it."
            }
            Self::Survivors { .. } => "End them as the user that they run as, e.g. with sudo kill.",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kotak_guard::proto::{Event, Request};
    use kotak_guard::wire::{Receiver, send};

    /// A guard that answers the first request with `answer`.
    fn guard_that_says(answer: Event) -> GuardLink {
        let (own, guard) = control_pair().unwrap();
        std::thread::spawn(move || {
            let request = Receiver::default().recv::<Request>(&guard).unwrap();
            assert!(matches!(request, Some((Request::Freeze, _))));
            send(&guard, &answer, &[]).unwrap();
            // Open until the engine has closed its end.
            let _ = Receiver::default().recv::<Request>(&guard);
        });
        GuardLink::new(own).unwrap()
    }

    #[tokio::test]
    async fn a_freeze_that_left_processes_running_is_an_error_and_a_whole_one_is_not() {
        let partial = guard_that_says(Event::FreezeFailed { running: 3 });
        let error = freeze_by_guard(&partial).await.unwrap_err();
        assert!(matches!(error, TreeError::NotFrozen { running: 3 }));
        assert_eq!(error.problem().code, "SUSPEND_FAILED");

        let whole = guard_that_says(Event::Frozen { processes: 3 });
        assert!(freeze_by_guard(&whole).await.is_ok());
    }

    #[tokio::test]
    async fn a_guard_that_left_somebody_alive_did_not_end_its_session() {
        for (processes, code) in [(0, None), (2, Some("PROCESS_DOES_NOT_DIE"))] {
            let (own, guard) = control_pair().unwrap();
            send(&guard, &Event::Survivors { processes }, &[]).unwrap();
            send(&guard, &Event::Bye, &[]).unwrap();
            drop(guard);
            let link = GuardLink::new(own).unwrap();
            link.closed().await;
            let ended = how_it_ended(true, link.survivors());
            assert_eq!(ended.err().map(|error| error.code()), code);
        }
    }

    #[test]
    fn a_process_descends_from_its_parents_and_from_nobody_else() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(line_of_descent(pid, own), Some(vec![pid, own]));
        assert_eq!(line_of_descent(own, own), Some(vec![own]));
        assert_eq!(line_of_descent(own, pid), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(line_of_descent(pid, own), None);
    }
}

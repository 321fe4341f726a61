//! The supervisor: a thread that every call which makes, changes or removes a name waits for
//! (seccomp_unotify(2), REQ BW-5).
//!
//! It has the caller's user, namespaces and Landlock domain, so it can do for the caller what the
//! caller could do, and nothing more. It copies the arguments once, finds out what they mean, asks
//! the rules ([`kotak_guard::judge::rules`]), and makes the call itself on what it has judged. The
//! kernel never makes it: the caller's memory can be changed by another of its threads at any
//! time. One thread answers one call after another, so nothing inside changes the tree between a
//! look and a deed; what happens on the host meanwhile is caught by pinned descriptors and a look
//! afterwards. What it cannot find out it refuses.

mod answer;
mod attribute;
mod bare;
mod call;
mod caller;
mod exec;
mod install;
mod journal;
mod judged;
mod make;
mod mounts;
mod moved;
mod open;
mod staging;
mod sys;
mod terminal;
mod tree;
pub(crate) mod trial;
mod waiting;
mod walk;

pub(crate) use journal::Journal;
pub(crate) use mounts::Mounts;
pub(crate) use sys::send_descriptor;

use super::verify::check;
use answer::{Answer, Refusal, Stop};
use caller::{Caller, Description};
use exec::Programs;
use judged::Judged;
use kotak_guard::{
    judge::rules::Rules,
    proto::{Check, ExecPlan, FileRules, Violation},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::SigSet,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
    },
};
use staging::Staging;
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::{Duration, Instant},
};
use sys::{Reply, inject, prefer_turns, receive, receive_descriptor, reply};
use waiting::Waiting;
use walk::Settings;

/// The name of every check here.
const NAME: &str = "files";

/// With a listener: whose it is.
pub(crate) const PAYLOAD: u8 = b'P';
const TRIAL: u8 = b'T';

/// Bytes of stack: the walk through a moved directory is deep.
const STACK: usize = 8 * 1024 * 1024;

/// Between two attempts to look at what is being written.
const LOCK_INTERVAL: Duration = Duration::from_millis(1);

/// The session's side of the supervisor.
#[derive(Debug)]
pub(crate) struct Supervisor {
    /// What was refused.
    pub(crate) journal: Arc<Journal>,
    /// What was being written when the session ends.
    staging: Arc<Mutex<Staging>>,
    /// Where children send their listeners.
    pub(crate) socket: OwnedFd,
}

impl Supervisor {
    /// Starts the thread. `trial` are rules for the trial alone.
    pub(crate) fn start(
        rules: &FileRules,
        exec: Option<&ExecPlan>,
        trial: &FileRules,
    ) -> Result<Self, Check> {
        let compile = |rules| Rules::new(rules).map_err(|error| check(NAME, error.to_string()));
        let failed = |errno: Errno| check(NAME, errno.to_string());
        let (socket, listeners) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(failed)?;
        let journal = Arc::new(Journal::new().map_err(failed)?);
        let staging = Arc::new(Mutex::new(Staging::new(Arc::clone(&journal))));
        sys::let_interrupt().map_err(failed)?;
        let state = State {
            rules: compile(rules)?,
            trial: compile(trial)?,
            programs: exec.map(Programs::new),
            settings: Settings::read().map_err(failed)?,
            staging: Arc::clone(&staging),
            waiting: Waiting::default(),
            journal: Arc::clone(&journal),
            socket: listeners,
            listeners: Vec::new(),
        };
        // The thread inherits the mask, so that it is never without.
        let before = SigSet::thread_get_mask().map_err(failed)?;
        SigSet::all().thread_set_mask().map_err(failed)?;
        let started = thread::Builder::new()
            .name("supervisor".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                // Without it every call that waits would wait for ever: better no session.
                let _end = EndOfAll;
                state.run()
            });
        before.thread_set_mask().map_err(failed)?;
        started.map_err(|error| check(NAME, format!("no thread: {error}")))?;
        Ok(Self {
            journal,
            staging,
            socket,
        })
    }

    /// Everything that was refused and has not been told, when nobody is left who could call.
    /// Waits until `deadline` for a call that is still being carried out.
    pub(crate) fn rest(&self, deadline: Instant) -> Vec<Violation> {
        loop {
            match self.staging.try_lock() {
                Ok(mut staging) => break staging.look(),
                // A panic aborts this program.
                Err(TryLockError::Poisoned(staging)) => break staging.into_inner().look(),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => break,
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_INTERVAL),
            }
        }
        self.journal.rest()
    }
}

fn held(staging: &Mutex<Staging>) -> MutexGuard<'_, Staging> {
    staging.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The supervisor does not end before the guard; if it does, the guard ends.
struct EndOfAll;

impl Drop for EndOfAll {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// What the thread has.
struct State {
    rules: Rules,
    trial: Rules,
    programs: Option<Programs>,
    settings: Settings,
    /// The session looks at it once, at the end.
    staging: Arc<Mutex<Staging>>,
    waiting: Waiting,
    journal: Arc<Journal>,
    socket: OwnedFd,
    listeners: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    descriptor: OwnedFd,
    trial: bool,
}

impl State {
    fn run(mut self) {
        if sys::own_directory_and_umask().is_err() {
            return;
        }
        loop {
            let timeout = if self.waiting.is_empty() && held(&self.staging).is_empty() {
                PollTimeout::NONE
            } else {
                PollTimeout::from(waiting::LOOK_INTERVAL_MS)
            };
            let mut entries = vec![PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            let listeners = self.listeners.iter();
            entries
                .extend(listeners.map(|it| PollFd::new(it.descriptor.as_fd(), PollFlags::POLLIN)));
            let quiet = match poll(&mut entries, timeout) {
                Ok(count) => count == 0,
                Err(Errno::EINTR) => false,
                Err(_) => return,
            };
            let happened: Vec<PollFlags> = entries
                .iter()
                .map(|entry| entry.revents().unwrap_or(PollFlags::empty()))
                .collect();
            drop(entries);
            self.waiting.look();
            if quiet || happened.iter().any(|it| it.contains(PollFlags::POLLHUP)) {
                held(&self.staging).look();
            }
            let (new, calls) = happened
                .split_first()
                .map_or((false, &[][..]), |(new, calls)| (!new.is_empty(), calls));
            for (index, flags) in calls.iter().enumerate() {
                if flags.contains(PollFlags::POLLIN) {
                    self.serve(index);
                }
            }
            // Nobody is left who could call.
            let mut flags = calls.iter();
            self.listeners.retain(|_| {
                flags.next().is_none_or(|flags| {
                    flags.contains(PollFlags::POLLIN) || !flags.contains(PollFlags::POLLHUP)
                })
            });
            if new {
                while let Some((word, descriptor)) = receive_descriptor(self.socket.as_fd()) {
                    prefer_turns(descriptor.as_fd());
                    self.listeners.push(Listener {
                        descriptor,
                        trial: word == TRIAL,
                    });
                }
            }
        }
    }

    /// Answers one call.
    fn serve(&mut self, index: usize) {
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        let Ok(call) = receive(listener.descriptor.as_fd()) else {
            // It is gone, or the next poll tells what is wrong.
            return;
        };
        let caller = Caller::new(listener.descriptor.as_fd(), call);
        let judged = Judged {
            rules: if listener.trial {
                &self.trial
            } else {
                &self.rules
            },
            settings: &self.settings,
        };
        let mut parts = call::Parts {
            judged,
            staging: &mut held(&self.staging),
            waiting: &mut self.waiting,
            programs: self.programs.as_ref(),
            journal: &self.journal,
        };
        let answer = match call::carry_out(&caller, &mut parts) {
            Ok(Answer::Value(value)) => Reply::Value(value),
            Ok(Answer::Continue) => Reply::Continue,
            Ok(Answer::Later) | Err(Stop::Gone) => return,
            Ok(Answer::Descriptor {
                opened,
                number,
                cloexec,
            }) => {
                let injected = inject(caller.listener, call.id, opened.as_fd(), number, cloexec);
                // Before the caller goes on.
                drop(opened);
                match injected {
                    Ok(number) => Reply::Value(i64::from(number)),
                    // The number that it must have is beyond the caller's limit.
                    Err(Errno::EBADF) => Reply::Error(libc::EMFILE),
                    Err(errno) => Reply::Error(errno as i32),
                }
            }
            Err(Stop::Errno(errno)) => Reply::Error(errno as i32),
            Err(Stop::Refused(refusal)) => {
                let refusal = call::completed(&caller, *refusal);
                self.journal
                    .record(violation(&caller, refusal, Evidence::Observed));
                Reply::Error(libc::EACCES)
            }
        };
        // ENOENT: the caller is gone.
        let _ = reply(caller.listener, call.id, answer);
    }
}

/// Whether the guard refused it, or the kernel will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    Observed,
    Inferred,
}

fn violation(caller: &Caller<'_>, refusal: Refusal, evidence: Evidence) -> Violation {
    let name = call::name(caller.call.number);
    violation_by(caller.describe(), name, refusal, evidence)
}

/// As [`violation`], by somebody who may be gone.
fn violation_by(who: Description, call: &str, refusal: Refusal, evidence: Evidence) -> Violation {
    Violation {
        action: refusal.action,
        path: refusal.path,
        other: refusal.other,
        rule: refusal.rule,
        errno: libc::EACCES,
        call: call.to_owned(),
        observed: evidence == Evidence::Observed,
        pid: who.pid,
        comm: who.comm,
        executable: who.executable,
        argv: who.argv,
        count: 1,
    }
}

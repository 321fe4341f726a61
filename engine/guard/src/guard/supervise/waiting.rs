//! Opens that wait for somebody else: the other end of a FIFO, the holder of a lease. Each waits
//! in a thread of its own, which is called off when the caller is killed, or when a signal would
//! have ended or stopped the wait.
//!
//! Who writes into a FIFO is not waited for inside open(2): a reader that came just after the caller
//! was killed would meet the guard, and read the end of a file that nobody had written.

use super::{
    answer::{Stop, undecided},
    caller::{Caller, own_path},
    open::clear_nonblock,
    sys::{Reply, inject, interrupt, open_as_given, reply, still_waits, thread_id},
    walk::kind,
};
use nix::{errno::Errno, sys::stat::fstat};
use std::{
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread,
    time::Duration,
};

/// Most opens that wait at once.
const MOST_WAITING: usize = 64;

/// Bytes of stack of a thread that only opens.
const STACK: usize = 64 * 1024;

/// The kernel's `ERESTARTSYS`: the signal is taken, and then the call starts again, or fails with
/// EINTR where a handler was set up so.
const RESTART: i32 = 512;

/// Between two looks for a reader of a FIFO.
const READER_INTERVAL: Duration = Duration::from_millis(2);

/// Milliseconds between two looks at who still waits.
pub(super) const LOOK_INTERVAL_MS: u16 = 20;

/// The opens that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Job>);

#[derive(Debug)]
struct Job {
    listener: OwnedFd,
    id: u64,
    tid: i32,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Of the thread that waits, 0 before it runs.
    thread: AtomicI32,
    called_off: AtomicBool,
    done: AtomicBool,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over a call; its thread answers.
    pub(super) fn open(
        &mut self,
        caller: &Caller<'_>,
        pinned: OwnedFd,
        flags: i32,
        cloexec: bool,
    ) -> Result<(), Stop> {
        self.look();
        if self.0.len() >= MOST_WAITING {
            return Err(undecided("too many opens wait for another program"));
        }
        let no_descriptor = |_| undecided("the guard has no descriptor left");
        let listener = caller
            .listener
            .try_clone_to_owned()
            .map_err(no_descriptor)?;
        let for_thread = listener.try_clone().map_err(no_descriptor)?;
        let shared = Arc::new(Shared::default());
        let job = Job {
            listener,
            id: caller.call.id,
            tid: caller.call.tid,
            shared: Arc::clone(&shared),
        };
        let id = caller.call.id;
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                wait(&for_thread, id, &pinned, flags, cloexec, &shared);
                shared.done.store(true, Ordering::Release);
            })
            .map_err(|error| undecided(&format!("no thread can be made: {error}")))?;
        self.0.push(job);
        Ok(())
    }

    /// Calls off whoever has nobody to wait for.
    pub(super) fn look(&mut self) {
        self.0
            .retain(|job| !job.shared.done.load(Ordering::Acquire));
        for job in &self.0 {
            let gone = !still_waits(job.listener.as_fd(), job.id);
            if gone || has_signal(job.tid) {
                job.shared.called_off.store(true, Ordering::Release);
            }
            // Again and again: it may not have been in the call yet.
            if job.shared.called_off.load(Ordering::Acquire) {
                interrupt(job.shared.thread.load(Ordering::Acquire));
            }
        }
    }
}

fn wait(listener: &OwnedFd, id: u64, pinned: &OwnedFd, flags: i32, cloexec: bool, shared: &Shared) {
    shared.thread.store(thread_id(), Ordering::Release);
    let listener = listener.as_fd();
    let looks = is_write_to_fifo(pinned.as_fd(), flags);
    let as_opened = if looks {
        flags | libc::O_CLOEXEC | libc::O_NONBLOCK
    } else {
        flags | libc::O_CLOEXEC
    };
    let answer = loop {
        if shared.called_off.load(Ordering::Acquire) {
            break Reply::Error(RESTART);
        }
        if looks && !still_waits(listener, id) {
            return;
        }
        let opened = own_path(pinned.as_fd())
            .and_then(|path| open_as_given(pinned.as_fd(), &path, as_opened, 0))
            .and_then(|opened| {
                if looks {
                    clear_nonblock(opened.as_fd())?;
                }
                Ok(opened)
            });
        match opened {
            Err(Errno::EINTR) => {}
            // No reader yet.
            Err(Errno::ENXIO) if looks => thread::sleep(READER_INTERVAL),
            Err(errno) => break Reply::Error(errno as i32),
            Ok(opened) => {
                let injected = inject(listener, id, opened.as_fd(), None, cloexec);
                drop(opened);
                break match injected {
                    Ok(number) => Reply::Value(i64::from(number)),
                    Err(errno) => Reply::Error(errno as i32),
                };
            }
        }
    };
    // ENOENT: the caller is gone.
    let _ = reply(listener, id, answer);
}

/// fifo(7): without a reader, such an open fails with ENXIO where it may not wait.
fn is_write_to_fifo(pinned: BorrowedFd<'_>, flags: i32) -> bool {
    flags & libc::O_ACCMODE == libc::O_WRONLY
        && fstat(pinned).is_ok_and(|found| kind(&found) == libc::S_IFIFO)
}

/// Whether a thread has a signal that it neither blocks nor ignores: one that it handles, or that
/// stops it.
fn has_signal(tid: i32) -> bool {
    fs::read_to_string(format!("/proc/{tid}/status")).is_ok_and(|text| takes_signal(&text))
}

/// By proc_pid_status(5). A signal for the process may be taken by any of its threads: only one that
/// is alone is sure to take it. Were another to, this one's call would end with what only the
/// kernel may see.
fn takes_signal(status: &str) -> bool {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let set = |name: &str| u64::from_str_radix(field(name)?, 16).ok();
    let pending = || {
        let own = set("SigPnd:")?;
        let pending = match field("Threads:")? {
            "1" => own | set("ShdPnd:")?,
            _ => own,
        };
        Some(pending & !set("SigBlk:")? & !set("SigIgn:")?)
    };
    pending().is_some_and(|pending| pending != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(threads: u32, own: u64, shared: u64) -> String {
        format!(
            "Name:\tx\nThreads:\t{threads}\nSigQ:\t1/2\nSigPnd:\t{own:016x}\n\
             ShdPnd:\t{shared:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t0\n",
            2, 4
        )
    }

    #[test]
    fn a_signal_counts_only_for_who_is_sure_to_take_it() {
        assert!(takes_signal(&status(1, 8, 0)));
        assert!(takes_signal(&status(1, 0, 8)));
        assert!(takes_signal(&status(2, 8, 0)));
        assert!(!takes_signal(&status(2, 0, 8)));
        // Blocked and ignored.
        assert!(!takes_signal(&status(1, 6, 6)));
        assert!(!takes_signal("Threads:\t1\nSigPnd:\t8\n"));
    }
}

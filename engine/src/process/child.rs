//! A started program: its end, and signals to it that can never reach another process.

use crate::sys::async_fd::register;
use crate::sys::spawn::{Spawned, WaitedEnd, pidfd_send_signal, wait_for_end};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildEnd {
    /// exit(3) with this code.
    Code(i32),
    /// This signal.
    Signal(i32),
    /// Somebody else in this process waited for it.
    Unknown,
}

/// A started program; always reaped, also when this value is dropped.
#[derive(Debug)]
pub(super) struct Child {
    pid: i32,
    pidfd: Arc<AsyncFd<OwnedFd>>,
    end: watch::Receiver<Option<ChildEnd>>,
    on_drop: OnDrop,
}

/// What dropping a [`Child`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDrop {
    /// SIGKILL, to its process group too.
    Kill,
    /// Nothing: it ends by itself when its control socket closes.
    Leave,
}

impl Child {
    /// Watches a started program. Must be called inside a runtime.
    pub(super) fn watch(spawned: Spawned, on_drop: OnDrop) -> io::Result<Self> {
        let pidfd = Arc::new(register(spawned.pidfd, Interest::READABLE)?);
        let (ended, end) = watch::channel(None);
        let waiting = Arc::clone(&pidfd);
        tokio::spawn(async move {
            // A pidfd becomes readable when its process ends (pidfd_open(2)).
            let status = match waiting.readable().await {
                Ok(_) => wait_for_end(waiting.get_ref()),
                Err(error) => Err(error),
            };
            ended.send_replace(Some(match status {
                Ok(WaitedEnd::Code(code)) => ChildEnd::Code(code),
                Ok(WaitedEnd::Signal(signal)) => ChildEnd::Signal(signal),
                Err(_) => ChildEnd::Unknown,
            }));
        });
        Ok(Self {
            pid: spawned.pid,
            pidfd,
            end,
            on_drop,
        })
    }

    /// Process id.
    #[must_use]
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for the end.
    pub(super) async fn wait(&self) -> ChildEnd {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(ChildEnd::Unknown),
            Err(_) => ChildEnd::Unknown,
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub(super) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Sends SIGCONT.
    pub(super) fn go_on(&self) {
        // The only error is that it is gone already.
        let _ = pidfd_send_signal(self.pidfd.get_ref(), libc::SIGCONT);
    }

    /// Sends SIGKILL.
    pub(super) fn kill(&self) {
        // The only error is that it is gone already.
        let _ = pidfd_send_signal(self.pidfd.get_ref(), libc::SIGKILL);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Kill && !self.has_ended() {
            // Not waited for yet, so the process id cannot be anybody else's: it leads a session of
            // its own. A runner that gave its children no signal for its death leaves them in it.
            let group = nix::unistd::Pid::from_raw(self.pid);
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            self.kill();
        }
    }
}

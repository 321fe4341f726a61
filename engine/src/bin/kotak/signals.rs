//! Signals that other programs send to Kotak.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a program to end.
pub(crate) struct Forwarded {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Forwarded {
    /// From now on these signals do not end Kotak.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next one.
    pub(crate) async fn recv(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.quit.recv() => libc::SIGQUIT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hangup.recv() => libc::SIGHUP,
        }
    }
}

/// Stops this process as Ctrl-Z would; returns when it is continued.
pub(crate) fn stop_here() {
    // Stopping oneself is always allowed.
    let _stopped = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
}

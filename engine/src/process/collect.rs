//! Reads a pipe to its end in the background, keeping a bounded beginning.

use crate::sys::async_fd::register;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::Interest;
use tokio::sync::watch;

/// What came through a pipe so far.
#[derive(Debug, Clone)]
pub(super) struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Counts arrivals; closed at the end of file.
    changed: watch::Receiver<u64>,
}

impl Collected {
    /// Starts reading; keeps the first `keep` bytes and discards the rest.
    pub(super) fn start(pipe: OwnedFd, keep: usize) -> io::Result<Self> {
        super::set_nonblocking(&pipe)?;
        let pipe = register(pipe, Interest::READABLE)?;
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, changed) = watch::channel(0);
        let kept = Arc::clone(&bytes);
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            loop {
                let read = pipe
                    .async_io(Interest::READABLE, |fd| {
                        Ok(nix::unistd::read(fd, &mut buffer)?)
                    })
                    .await;
                let Ok(length @ 1..) = read else { break };
                {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = keep.saturating_sub(kept.len());
                    kept.extend_from_slice(&buffer[..length.min(room)]);
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { bytes, changed })
    }

    /// What is there now.
    #[must_use]
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until `wanted` finds what it looks for; `None` when the pipe ended without it.
    pub(super) async fn find<T>(&self, wanted: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let mut changed = self.changed.clone();
        loop {
            changed.borrow_and_update();
            if let Some(found) = wanted(&self.bytes()) {
                return Some(found);
            }
            if changed.changed().await.is_err() {
                return wanted(&self.bytes());
            }
        }
    }

    /// Waits for the end of the pipe and returns what was kept.
    pub(super) async fn to_end(&self) -> Vec<u8> {
        let mut changed = self.changed.clone();
        while changed.changed().await.is_ok() {}
        self.bytes()
    }
}

/// Hands on what comes through a pipe, piece by piece, until its end.
pub(crate) async fn read_pieces(pipe: OwnedFd, mut hand_on: impl FnMut(Vec<u8>) + Send) {
    if super::set_nonblocking(&pipe).is_err() {
        return;
    }
    let Ok(pipe) = register(pipe, Interest::READABLE) else {
        return;
    };
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let read = pipe
            .async_io(Interest::READABLE, |fd| {
                Ok(nix::unistd::read(fd, &mut buffer)?)
            })
            .await;
        match read {
            Ok(length @ 1..) => hand_on(buffer[..length].to_vec()),
            _ => return,
        }
    }
}

/// A pipe for the output of a program: the engine's end and the program's.
pub(crate) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

//! The master side of a PTY, read and written without blocking the runtime.

use super::terminal::{Screen, Turn};
use crate::sys::async_fd::register;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Bytes of one read.
const BUFFER: usize = 64 * 1024;

/// After the program's end: how long the master may stay silent before it counts as read to the
/// end, in case something outside the session holds the slave.
const SILENCE: Duration = Duration::from_millis(300);

/// After the program's end: most bytes that are still read. A terminal holds far fewer; what
/// comes beyond is written by something outside the session.
const LAST_BYTES: usize = 1024 * 1024;

/// After the program's end: how long is read at most.
const LAST_READS: Duration = Duration::from_secs(3);

/// Between two looks at a master whose slave nobody holds for now.
const NO_SLAVE: Duration = Duration::from_millis(20);

/// A PTY master.
#[derive(Debug)]
pub struct Master {
    fd: AsyncFd<OwnedFd>,
}

impl Master {
    /// Takes over a master. Must be called inside a runtime.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        super::set_nonblocking(&fd)?;
        Ok(Self {
            fd: register(fd, Interest::READABLE | Interest::WRITABLE)?,
        })
    }

    /// Writes all of it.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self
                .fd
                .async_io(Interest::WRITABLE, |fd| Ok(nix::unistd::write(fd, bytes)?))
                .await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Sets the size.
    pub fn resize(&self, cols: u16, rows: u16) -> io::Result<()> {
        crate::sys::pty::set_window_size(self.fd.get_ref().as_fd(), cols, rows)
    }

    /// Reads into the screen until the end, in the background, and then closes the master: what
    /// has ended keeps its output, and no PTY.
    pub(super) fn read_into(self: Arc<Self>, screen: Arc<Screen>) -> AbortHandle {
        let task = tokio::spawn(async move {
            self.read_to_end(&screen).await;
            drop(self);
            screen.end();
        });
        task.abort_handle()
    }

    async fn read_to_end(&self, screen: &Screen) {
        let mut buffer = vec![0; BUFFER];
        let mut bytes_left = LAST_BYTES;
        let mut drain_until = None;
        loop {
            match screen.turn() {
                Turn::Wait => screen.go_on().await,
                Turn::Drain => {
                    let until = *drain_until.get_or_insert_with(|| Instant::now() + LAST_READS);
                    let patience = SILENCE.min(until.saturating_duration_since(Instant::now()));
                    let room = bytes_left.min(buffer.len());
                    if room == 0 || patience.is_zero() {
                        return;
                    }
                    match tokio::time::timeout(patience, self.read(&mut buffer[..room])).await {
                        Ok(Ok(length @ 1..)) => {
                            bytes_left -= length;
                            screen.push(&buffer[..length]);
                        }
                        // The end, EIO (all slaves closed), or silence.
                        _ => return,
                    }
                }
                Turn::Read => {
                    let read = tokio::select! {
                        read = self.read(&mut buffer) => Some(read),
                        () = screen.go_on() => None,
                    };
                    match read {
                        Some(Ok(length @ 1..)) => screen.push(&buffer[..length]),
                        // Nobody holds the slave. Whether the session is over is not for the
                        // terminal to say: `finish` does.
                        Some(_) => {
                            let _ = tokio::time::timeout(NO_SLAVE, screen.go_on()).await;
                        }
                        None => {}
                    }
                }
            }
        }
    }

    async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd
            .async_io(Interest::READABLE, |fd| Ok(nix::unistd::read(fd, buffer)?))
            .await
    }
}

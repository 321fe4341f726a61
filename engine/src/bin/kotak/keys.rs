//! What the user types.

use nix::poll::PollFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;
use tokio::sync::mpsc;

use crate::screen::can_go_on;

/// Keys that were read at once.
pub(crate) struct Press {
    /// When they were read.
    pub(crate) at: Instant,
    /// What they sent.
    pub(crate) bytes: Vec<u8>,
}

/// Keys as they come, from a thread of their own: a terminal cannot be read without waiting.
pub(crate) struct Keys(mpsc::Receiver<Press>);

impl Keys {
    /// Begins to read standard input.
    pub(crate) fn read() -> io::Result<Self> {
        let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (sender, receiver) = mpsc::channel(16);
        std::thread::Builder::new()
            .name("kotak-keys".to_owned())
            .spawn(move || {
                let mut buffer = [0; 4096];
                loop {
                    match input.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(length) => {
                            let press = Press {
                                at: Instant::now(),
                                bytes: buffer.get(..length).unwrap_or_default().to_vec(),
                            };
                            if sender.blocking_send(press).is_err() {
                                return;
                            }
                        }
                        Err(error) => {
                            if !can_go_on(&error, &input, PollFlags::POLLIN) {
                                return;
                            }
                        }
                    }
                }
            })?;
        Ok(Self(receiver))
    }

    /// The next; nothing once the user's terminal is gone. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Option<Press> {
        self.0.recv().await
    }
}

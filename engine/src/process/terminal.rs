//! A terminal: the engine's side of a PTY, with its scrollback.

use super::master::Master;
use super::scrollback::{Asker, Limits, Scrollback};
use crate::api::OutputChunk;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// Most bytes that one [`Terminal::read`] returns.
pub const MAX_CHUNK: usize = 128 * 1024;

/// How long [`Terminal::read`] waits for output.
pub const LONG_POLL: Duration = Duration::from_secs(25);

/// The engine's side of one PTY.
#[derive(Debug)]
pub struct Terminal {
    screen: Arc<Screen>,
    /// Its reader's; gone when the terminal has ended.
    master: Weak<Master>,
    /// One writer at a time, so that pastes never mix.
    input: tokio::sync::Mutex<()>,
    reader: AbortHandle,
}

/// What the reader of the master fills and the clients read.
#[derive(Debug)]
pub(super) struct Screen {
    state: Mutex<State>,
    /// Counts changes, for readers that wait.
    changed: watch::Sender<u64>,
    /// Wakes the reader of the master when it may go on.
    go_on: Notify,
}

#[derive(Debug)]
struct State {
    scrollback: Scrollback,
    /// The program has ended: what is left is read whatever the watermarks say.
    draining: bool,
    ended: bool,
}

/// What the reader of the master should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Read,
    /// Read what is there, and end at the first pause.
    Drain,
    Wait,
}

impl Screen {
    fn new(limits: Limits) -> Self {
        let state = State {
            scrollback: Scrollback::new(limits),
            draining: false,
            ended: false,
        };
        Self {
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            go_on: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn turn(&self) -> Turn {
        let state = self.state();
        match (state.draining, state.scrollback.is_paused()) {
            (true, _) => Turn::Drain,
            (false, true) => Turn::Wait,
            (false, false) => Turn::Read,
        }
    }

    /// Waits until [`Screen::turn`] may have changed.
    pub(super) async fn go_on(&self) {
        self.go_on.notified().await;
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        self.state().scrollback.push(bytes);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn end(&self) {
        self.state().ended = true;
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Terminal {
    /// Takes over a master. Must be called inside a runtime.
    pub fn new(master: Master, limits: Limits) -> io::Result<Self> {
        let screen = Arc::new(Screen::new(limits));
        let master = Arc::new(master);
        let open = Arc::downgrade(&master);
        let reader = master.read_into(Arc::clone(&screen));
        Ok(Self {
            screen,
            master: open,
            input: tokio::sync::Mutex::new(()),
            reader,
        })
    }

    /// Output from an offset on. Acknowledges all before `from`; waits up to [`LONG_POLL`] while
    /// there is none.
    pub async fn read(&self, from: u64) -> OutputChunk {
        self.read_within(from, LONG_POLL).await
    }

    /// As [`Terminal::read`], waiting no longer than `patience`.
    pub async fn read_within(&self, from: u64, patience: Duration) -> OutputChunk {
        let mut changed = self.screen.changed.subscribe();
        // Once: while this waits, another reader may start over, whose acknowledgement counts.
        let asker = self.ask(from);
        let wait = async {
            loop {
                changed.borrow_and_update();
                let chunk = self.answer(asker, from);
                if !chunk.bytes.is_empty() || chunk.ended || chunk.truncated {
                    return chunk;
                }
                if changed.changed().await.is_err() {
                    return chunk;
                }
            }
        };
        match tokio::time::timeout(patience, wait).await {
            Ok(chunk) => chunk,
            Err(_) => self.answer(asker, from),
        }
    }

    /// As [`Terminal::read`], without waiting.
    #[must_use]
    pub fn read_now(&self, from: u64) -> OutputChunk {
        let asker = self.ask(from);
        self.answer(asker, from)
    }

    /// Acknowledges all before `from`.
    fn ask(&self, from: u64) -> Asker {
        let (asker, may_go_on) = {
            let mut state = self.screen.state();
            let was_paused = state.scrollback.is_paused();
            let asker = state.scrollback.ask(from);
            (asker, was_paused && !state.scrollback.is_paused())
        };
        if may_go_on {
            self.screen.go_on.notify_one();
        }
        asker
    }

    fn answer(&self, asker: Asker, from: u64) -> OutputChunk {
        let mut state = self.screen.state();
        let piece = state.scrollback.answer(asker, from, MAX_CHUNK);
        OutputChunk {
            offset: piece.offset,
            head: piece.head,
            ended: state.ended,
            truncated: piece.truncated,
            bytes: piece.bytes,
        }
    }

    /// Types: waits while the program does not read. An error once the terminal has ended.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let _turn = self.input.lock().await;
        let mut changed = self.screen.changed.subscribe();
        let ended = async {
            loop {
                changed.borrow_and_update();
                if self.has_ended() || changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let write = async {
            match self.master.upgrade() {
                Some(master) => master.write_all(bytes).await,
                None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            }
        };
        tokio::select! {
            biased;
            () = ended => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            written = write => written,
        }
    }

    /// A new size. Of a terminal that has ended nobody asks it any more.
    pub fn resize(&self, cols: u16, rows: u16) -> io::Result<()> {
        match self.master.upgrade() {
            Some(master) => master.resize(cols, rows),
            None => Ok(()),
        }
    }

    /// Whether no more output will come.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.screen.state().ended
    }

    /// The program and everything around it is gone: reads what is left, then ends.
    pub async fn finish(&self) {
        let mut changed = self.screen.changed.subscribe();
        self.screen.state().draining = true;
        self.screen.go_on.notify_one();
        loop {
            changed.borrow_and_update();
            if self.has_ended() || changed.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::super::pty::OpenPty;
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn a_terminal_that_has_ended_keeps_its_output_and_no_pty() {
        let pty = OpenPty::open(80, 24).unwrap();
        let slave = std::fs::File::from(pty.slave);
        let terminal = Terminal::new(Master::new(pty.master).unwrap(), Limits::default()).unwrap();
        (&slave).write_all(b"last words").unwrap();
        assert!(terminal.master.upgrade().is_some());
        drop(slave);
        terminal.finish().await;
        assert!(terminal.master.upgrade().is_none());
        assert_eq!(terminal.read(0).await.bytes, b"last words");
        let typed = terminal.write(b"x").await.unwrap_err();
        assert_eq!(typed.kind(), io::ErrorKind::BrokenPipe);
        assert!(terminal.resize(100, 50).is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stranger_that_writes_without_end_does_not_keep_an_ended_terminal_open() {
        let pty = OpenPty::open(80, 24).unwrap();
        let mut slave = std::fs::File::from(pty.slave);
        let terminal = Terminal::new(Master::new(pty.master).unwrap(), Limits::default()).unwrap();
        // Writes until the master is closed.
        let stranger = std::thread::spawn(move || while slave.write_all(&[b'x'; 4096]).is_ok() {});
        let before = terminal.read_now(0).head;
        terminal.finish().await;
        stranger.join().unwrap();
        let head = terminal.read_now(0).head;
        // What is unread at most, and then the last bytes.
        assert!(head >= before && head <= 2 * 1024 * 1024, "{head}");
    }
}

//! The user's screen: the session's output, and now and then a page of Kotak's own.

use crate::screen_modes::ScreenModes;
use kotak_engine::process::Terminal;
use kotak_engine::sys::tty;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// What a terminal of unknown size is taken for.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// The screen. Whoever writes to it has it alone meanwhile. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Screen(Arc<Shared>);

struct Shared {
    out: Arc<File>,
    modes: Mutex<ScreenModes>,
}

impl Screen {
    /// Standard output.
    pub(crate) fn open_stdout() -> io::Result<Self> {
        Ok(Self(Arc::new(Shared {
            out: Arc::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            modes: Mutex::new(ScreenModes::default()),
        })))
    }

    /// Copies a session's output until its end. Asking for more acknowledges what was shown, so
    /// a slow terminal slows the program down.
    pub(crate) async fn show(&self, terminal: &Terminal) -> io::Result<()> {
        let mut from = 0;
        loop {
            let chunk = terminal.read(from).await;
            let next = chunk.offset + u64::try_from(chunk.bytes.len()).unwrap_or_default();
            if !chunk.bytes.is_empty() {
                let mut modes = self.0.modes.lock().await;
                modes.follow(&chunk.bytes);
                self.0.write(chunk.bytes).await?;
            }
            if chunk.ended && next >= chunk.head {
                return Ok(());
            }
            from = next;
        }
    }

    /// An empty page on the alternate screen; the session's output waits until it is closed.
    pub(crate) async fn open(&self) -> io::Result<Page<'_>> {
        let modes = self.0.modes.lock().await;
        self.0.write(modes.put_aside().into_bytes()).await?;
        Ok(Page {
            shared: &self.0,
            modes: Some(modes),
        })
    }

    /// Whether the program draws on the alternate screen, and has to draw again after a page.
    pub(crate) async fn is_alternate(&self) -> bool {
        self.0.modes.lock().await.is_alternate()
    }
}

/// A page of Kotak's own.
pub(crate) struct Page<'a> {
    shared: &'a Shared,
    modes: Option<MutexGuard<'a, ScreenModes>>,
}

impl Page<'_> {
    /// Writes text with its own control sequences.
    pub(crate) async fn write(&self, text: &str) -> io::Result<()> {
        self.shared.write(text.as_bytes().to_vec()).await
    }

    /// Gives the screen back as it was.
    pub(crate) async fn close(mut self) -> io::Result<()> {
        match self.modes.take() {
            Some(modes) => self.shared.write(modes.put_back().into_bytes()).await,
            None => Ok(()),
        }
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        // Left in a hurry: by a signal, or by the session's end.
        if let Some(modes) = self.modes.take() {
            // There is nowhere to say that it failed.
            let _written = show(&self.shared.out, modes.put_back().as_bytes());
        }
    }
}

impl Shared {
    async fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        let out = Arc::clone(&self.out);
        tokio::task::spawn_blocking(move || show(&out, &bytes))
            .await
            .map_err(io::Error::other)?
    }
}

fn show(mut out: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
            Err(error) => {
                if !can_go_on(&error, out, PollFlags::POLLOUT) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Whether to try again after an error; waits until the file is ready where it does not block.
pub(crate) fn can_go_on(error: &io::Error, file: &File, wanted: PollFlags) -> bool {
    match error.kind() {
        io::ErrorKind::Interrupted => true,
        io::ErrorKind::WouldBlock => {
            let mut ready = [PollFd::new(file.as_fd(), wanted)];
            !matches!(poll(&mut ready, PollTimeout::NONE), Err(error) if error != nix::errno::Errno::EINTR)
        }
        _ => false,
    }
}

/// Columns and rows of the user's terminal.
pub(crate) fn size() -> (u16, u16) {
    match tty::window_size(io::stdin().as_fd()) {
        Ok((cols, rows)) if cols > 0 && rows > 0 => (cols, rows),
        Ok(_) | Err(_) => USUAL_SIZE,
    }
}

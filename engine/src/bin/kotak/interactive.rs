//! A session's terminal inside the user's: raw mode, sizes, signals.

use crate::failure::Failure;
use crate::raw_mode::RawMode;
use crate::session::{Ended, Session, by_signal};
use crate::signals::{Forwarded, stop_here};
use kotak_engine::manager::{Engine, Exec, ExecRequest, ExecStdio, SandboxRequest};
use kotak_engine::process::Terminal;
use kotak_engine::sys::tty;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// What a terminal of unknown size is taken for.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// Launches a sandbox, runs a program in a terminal of its own there, and joins the two terminals
/// until it ends.
pub(crate) async fn session(
    engine: &Engine,
    request: SandboxRequest,
    argv: Vec<OsString>,
    cwd: Option<PathBuf>,
    end: Forwarded,
) -> Result<u8, Failure> {
    let raw = RawMode::remember().map_err(|error| terminal_failed(&error))?;
    let mut signals = Signals::listen(end).map_err(|error| terminal_failed(&error))?;
    let session = tokio::select! {
        launched = Session::launch(engine, request, &argv) => launched?,
        // A launch that is given up leaves nothing, and has no history yet.
        number = signals.end.recv() => return Ok(by_signal(number)),
    };
    let result = async {
        let (cols, rows) = size();
        let stdio = ExecStdio::Pty { cols, rows };
        let exec = session.exec(ExecRequest {
            argv,
            cwd,
            env: Vec::new(),
            stdio,
        });
        let exec = tokio::select! {
            started = exec => started?,
            number = signals.end.recv() => return Ok(Ended::Signal(number)),
        };
        raw.enter().map_err(|error| terminal_failed(&error))?;
        join(&exec, &raw, &mut signals).await
    }
    .await;
    drop(raw);
    session.finish(result).await
}

async fn join(exec: &Arc<Exec>, raw: &RawMode, signals: &mut Signals) -> Result<Ended, Failure> {
    let Some(terminal) = exec.terminal().cloned() else {
        return Err(terminal_failed(&io::Error::other(
            "the program has no terminal",
        )));
    };
    let mut keys = read_keys().map_err(|error| terminal_failed(&error))?;
    let output = tokio::spawn(show_output(Arc::clone(&terminal)));
    let typing = {
        let terminal = Arc::clone(&terminal);
        tokio::spawn(async move {
            while let Some(bytes) = keys.recv().await {
                // A program that has ended reads nothing more; its end is reported apart.
                if terminal.write(&bytes).await.is_err() {
                    return Typing::ProgramEnded;
                }
            }
            Typing::HungUp
        })
    };
    let ended = async {
        let end = exec.wait().await;
        // Whatever else still holds the terminal is ended next; what it wrote so far is shown.
        terminal.finish().await;
        match output.await {
            Ok(Ok(())) => Ok(end),
            Ok(Err(error)) => Err(terminal_failed(&error)),
            Err(error) => Err(terminal_failed(&error)),
        }
    };
    tokio::pin!(ended, typing);
    let mut may_type = true;
    loop {
        tokio::select! {
            end = &mut ended => return end.map(Ended::Program),
            typed = &mut typing, if may_type => match typed {
                Ok(Typing::ProgramEnded) => may_type = false,
                Ok(Typing::HungUp) => return Ok(Ended::Signal(libc::SIGHUP)),
                Err(error) => return Err(terminal_failed(&error)),
            },
            _ = signals.resized.recv() => resize(&terminal),
            _ = signals.continued.recv() => {
                raw.enter().map_err(|error| terminal_failed(&error))?;
                resize(&terminal);
            }
            _ = signals.stopped.recv() => {
                raw.leave();
                stop_here();
            }
            number = signals.end.recv() => return Ok(Ended::Signal(number)),
        }
    }
}

/// Why nothing is typed any more.
enum Typing {
    ProgramEnded,
    HungUp,
}

struct Signals {
    resized: Signal,
    continued: Signal,
    stopped: Signal,
    /// By which somebody else ends Kotak; a key in raw mode sends none of them.
    end: Forwarded,
}

impl Signals {
    fn listen(end: Forwarded) -> io::Result<Self> {
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            continued: signal(SignalKind::from_raw(libc::SIGCONT))?,
            stopped: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            end,
        })
    }
}

fn resize(terminal: &Terminal) {
    let (cols, rows) = size();
    if let Err(error) = terminal.resize(cols, rows) {
        tracing::warn!(%error, "the terminal's size could not be set");
    }
}

fn size() -> (u16, u16) {
    match tty::window_size(io::stdin().as_fd()) {
        Ok((cols, rows)) if cols > 0 && rows > 0 => (cols, rows),
        Ok(_) | Err(_) => USUAL_SIZE,
    }
}

/// Keys as they come, from a thread of their own: a terminal cannot be read without waiting. The
/// channel ends when the user's terminal is gone.
fn read_keys() -> io::Result<mpsc::Receiver<Vec<u8>>> {
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
                        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                        if sender.blocking_send(bytes).is_err() {
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
    Ok(receiver)
}

/// Copies the session's output until its end. Asking for more acknowledges what was shown, so a
/// slow terminal slows the program down.
async fn show_output(terminal: Arc<Terminal>) -> io::Result<()> {
    let out = Arc::new(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let mut from = 0;
    loop {
        let chunk = terminal.read(from).await;
        let next = chunk.offset + u64::try_from(chunk.bytes.len()).unwrap_or_default();
        if !chunk.bytes.is_empty() {
            let out = Arc::clone(&out);
            tokio::task::spawn_blocking(move || show(&out, &chunk.bytes))
                .await
                .map_err(io::Error::other)??;
        }
        if chunk.ended && next >= chunk.head {
            return Ok(());
        }
        from = next;
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
fn can_go_on(error: &io::Error, file: &File, wanted: PollFlags) -> bool {
    match error.kind() {
        io::ErrorKind::Interrupted => true,
        io::ErrorKind::WouldBlock => {
            let mut ready = [PollFd::new(file.as_fd(), wanted)];
            !matches!(poll(&mut ready, PollTimeout::NONE), Err(error) if error != nix::errno::Errno::EINTR)
        }
        _ => false,
    }
}

fn terminal_failed(error: &dyn std::error::Error) -> Failure {
    Failure::engine("TERMINAL_FAILED", "the terminal cannot be used", error)
}

//! A session's terminal inside the user's: raw mode, sizes, signals, and questions.

use crate::ask::Asking;
use crate::failure::Failure;
use crate::keys::Keys;
use crate::raw_mode::RawMode;
use crate::screen::{Screen, size};
use crate::session::{Ended, Session, by_signal};
use crate::signals::{Forwarded, stop_here};
use kotak_engine::manager::{Engine, Exec, ExecRequest, ExecStdio, SandboxRequest};
use kotak_engine::process::Terminal;
use kotak_engine::spec::NetworkMode;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Launches a sandbox, runs a program in a terminal of its own there, and joins the two terminals
/// until it ends.
pub(crate) async fn session(
    engine: &Engine,
    request: SandboxRequest,
    argv: Vec<OsString>,
    cwd: Option<PathBuf>,
) -> Result<u8, Failure> {
    let raw = RawMode::remember().map_err(|error| terminal_failed(&error))?;
    // Listened to before anything is launched, so that no signal can leave a session behind.
    let mut signals = Signals::listen().map_err(|error| terminal_failed(&error))?;
    let asks = request.spec.network() == NetworkMode::Ask;
    let session = tokio::select! {
        launched = Session::launch(engine, request, &argv) => launched?,
        // A launch that is given up leaves nothing, and has no history yet.
        number = signals.end.recv() => return Ok(by_signal(number)),
    };
    let result = async {
        let (cols, rows) = size();
        let stdio = ExecStdio::Pty { cols, rows };
        // Before anything runs that could ask.
        let asking = asks.then(|| Asking::start(engine));
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
        join(&session, &exec, &raw, &mut signals, asking).await
    }
    .await;
    drop(raw);
    session.finish(result).await
}

async fn join(
    session: &Session<'_>,
    exec: &Arc<Exec>,
    raw: &RawMode,
    signals: &mut Signals,
    mut asking: Option<Asking<'_>>,
) -> Result<Ended, Failure> {
    let failed = |error: io::Error| terminal_failed(&error);
    let Some(terminal) = exec.terminal().cloned() else {
        return Err(failed(io::Error::other("the program has no terminal")));
    };
    let mut keys = Keys::read().map_err(failed)?;
    let screen = Screen::open_stdout().map_err(failed)?;
    let output = {
        let (screen, terminal) = (screen.clone(), Arc::clone(&terminal));
        tokio::spawn(async move { screen.show(&terminal).await })
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
    tokio::pin!(ended);
    let mut may_type = true;
    loop {
        // One of these at a time: keys go to the program or to a question, never to both. A signal
        // in between interrupts neither.
        let turn = {
            let turn = async {
                tokio::select! {
                    biased;
                    () = due(&mut asking) => Turn::Question,
                    typed = typing(&mut keys, &terminal), if may_type => typed,
                    () = std::future::pending(), if !may_type => Turn::ProgramEnded,
                }
            };
            tokio::pin!(turn);
            loop {
                tokio::select! {
                    end = &mut ended => return end.map(Ended::Program),
                    turn = &mut turn => break turn,
                    event = signals.next() => match event {
                        Event::Resized => resize(&terminal),
                        Event::Continued => {
                            raw.enter().map_err(failed)?;
                            resize(&terminal);
                        }
                        Event::Stopped => {
                            raw.leave();
                            stop_here();
                        }
                        Event::End(number) => return Ok(Ended::Signal(number)),
                    },
                }
            }
        };
        match turn {
            Turn::ProgramEnded => may_type = false,
            Turn::HungUp => return Ok(Ended::Signal(libc::SIGHUP)),
            Turn::Question => {
                if let Some(asking) = &mut asking {
                    let asked = asking.ask(session, &mut keys, &screen);
                    tokio::select! {
                        end = &mut ended => return end.map(Ended::Program),
                        asked = asked => asked.map_err(failed)?,
                        number = signals.end.recv() => return Ok(Ended::Signal(number)),
                    }
                    if screen.is_alternate().await {
                        redraw(&terminal);
                    }
                    resize(&terminal);
                }
            }
        }
    }
}

/// What the terminals do next.
enum Turn {
    /// The program reads nothing more; its end is reported apart.
    ProgramEnded,
    /// The user's terminal is gone.
    HungUp,
    /// A question has to be asked.
    Question,
}

async fn due(asking: &mut Option<Asking<'_>>) {
    match asking {
        Some(asking) => asking.due().await,
        None => std::future::pending().await,
    }
}

/// Types into the program until it ends, or somebody else needs the keys: then what it did not
/// take yet is dropped with this future.
async fn typing(keys: &mut Keys, terminal: &Terminal) -> Turn {
    while let Some(press) = keys.next().await {
        if terminal.write(&press.bytes).await.is_err() {
            return Turn::ProgramEnded;
        }
    }
    Turn::HungUp
}

struct Signals {
    resized: Signal,
    continued: Signal,
    stopped: Signal,
    /// By which somebody else ends Kotak; a key in raw mode sends none of them.
    end: Forwarded,
}

enum Event {
    Resized,
    Continued,
    Stopped,
    End(i32),
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            continued: signal(SignalKind::from_raw(libc::SIGCONT))?,
            stopped: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            end: Forwarded::listen()?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.resized.recv() => Event::Resized,
            _ = self.continued.recv() => Event::Continued,
            _ = self.stopped.recv() => Event::Stopped,
            number = self.end.recv() => Event::End(number),
        }
    }
}

fn resize(terminal: &Terminal) {
    let (cols, rows) = size();
    set_size(terminal, cols, rows);
}

/// Makes a program on the alternate screen draw again: only a size that is another one does.
fn redraw(terminal: &Terminal) {
    let (cols, rows) = size();
    set_size(terminal, cols, rows.saturating_sub(1).max(1));
}

fn set_size(terminal: &Terminal, cols: u16, rows: u16) {
    if let Err(error) = terminal.resize(cols, rows) {
        tracing::warn!(%error, "the terminal's size could not be set");
    }
}

fn terminal_failed(error: &dyn std::error::Error) -> Failure {
    Failure::engine("TERMINAL_FAILED", "the terminal cannot be used", error)
}

//! What comes before every launch of the command.

use crate::Context;
use crate::failure::{self, Failure};
use crate::signals::Forwarded;
use crate::text::printable;
use kotak_engine::error::Problem;
use kotak_engine::manager::{Engine, EngineOptions, EngineRole};
use std::io::Write;
use std::path::PathBuf;

/// What came of starting the engine.
pub(crate) enum Start {
    /// It runs.
    Engine(Engine),
    /// Kotak was asked to end by this signal, and nothing is left.
    Signal(i32),
}

/// The signals that ask Kotak to end. Listened to before anything is started, so that none of them
/// leaves something behind.
pub(crate) fn signals() -> Result<Forwarded, Failure> {
    Forwarded::listen()
        .map_err(|error| Failure::engine("SIGNALS_FAILED", "cannot listen to signals", &error))
}

/// Starts the engine; says the start-up line (REQ PR-6) and what could not be set up.
pub(crate) async fn start(context: &Context, signals: &mut Forwarded) -> Result<Start, Failure> {
    let options = EngineOptions {
        switch: context.switch.switch,
        dirs: context.dirs.clone(),
        role: EngineRole::Command,
    };
    let starting = Engine::start(options);
    tokio::pin!(starting);
    let started = tokio::select! {
        started = &mut starting => started,
        number = signals.recv() => {
            tokio::select! {
                // Ends the probe's trial and removes its directory.
                started = &mut starting => {
                    if let Ok(engine) = started {
                        engine.shutdown().await;
                    }
                }
                // Asked twice: the next start removes what is left.
                _ = signals.recv() => {}
            }
            return Ok(Start::Signal(number));
        }
    };
    let engine = started.map_err(|error| {
        Failure::engine("ENGINE_START_FAILED", "cannot start the engine", &error)
    })?;
    say(&format!(
        "kotak: {}",
        printable(&engine.host().verdict.line)
    ));
    let mut notices = context.notices.clone();
    notices.extend(engine.snapshot().notices);
    for (place, notice) in notices.iter().enumerate() {
        // The log and the history may miss the same directory.
        if !notices.iter().take(place).any(|earlier| earlier == notice) {
            failure::report(notice, false);
        }
    }
    Ok(Start::Engine(engine))
}

/// A session id that no other session has.
pub(crate) fn new_session_id(kind: &str) -> Result<String, Failure> {
    let unreadable =
        |error| Failure::engine("ENGINE_START_FAILED", "cannot read random bytes", &error);
    let mut bytes = [0_u8; 12];
    let mut random = std::fs::File::open("/dev/urandom").map_err(unreadable)?;
    std::io::Read::read_exact(&mut random, &mut bytes).map_err(unreadable)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{kind}-{hex}"))
}

/// The directory to work in: the one given, else the current one.
pub(crate) fn directory(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    given.map_or_else(
        || {
            std::env::current_dir().map_err(|error| {
                Failure::usage(Problem {
                    code: "WORKDIR_MISSING".to_owned(),
                    message: "the current directory is gone or cannot be looked at".to_owned(),
                    causes: vec![error.to_string()],
                    fix: Some(kotak_engine::error::Fix::words(
                        "Change to a directory that exists, or name one with --cwd.",
                    )),
                })
            })
        },
        Ok,
    )
}

/// Writes a line of Kotak's own to standard error.
pub(crate) fn say(line: &str) {
    // There is nowhere else to say it.
    let _written = writeln!(std::io::stderr(), "{line}");
}

//! The desktop control panel: a thin shell around the engine. Verdicts are made in the engine;
//! this crate passes requests, raw terminal bytes and events, and owns the window.
#![forbid(unsafe_code)]
#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod commands;
mod lifecycle;
mod link;
mod network;
mod shell_events;
mod stream;

use clap::Parser;
use kotak_engine::manager::{Engine, EngineOptions, EngineRole};
use kotak_engine::probe::resolve_switch;
use kotak_engine::store::{Dirs, Logs};
use std::path::PathBuf;
use std::process::ExitCode;

/// Kotak: terminals in a real sandbox, and an honest badge on each.
#[derive(Debug, Parser)]
#[command(name = "kotak-panel", version)]
struct Arguments {
    /// Wrap sessions where this host offers a backend (on), or opt out (off). Environment:
    /// KOTAK_SANDBOX.
    #[arg(long, value_name = "on|off")]
    sandbox: Option<String>,
    /// Folder to offer for a new session.
    folder: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kotak-panel: {error}");
            ExitCode::from(2)
        }
    }
}

fn start(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let setting = resolve_switch(arguments.sandbox.as_deref(), &|name| std::env::var_os(name))?;
    let dirs = Dirs::from_environment()?;
    // Before the engine, so that its start-up line is in the log.
    let (_, problems) = Logs::init(&dirs);
    let engine = tauri::async_runtime::block_on(Engine::start(EngineOptions {
        switch: setting.switch,
        dirs,
        role: EngineRole::Panel,
    }))?;
    let known = engine.snapshot().notices;
    for problem in problems {
        // The log and the history may miss the same directory.
        if !known.contains(&problem) {
            engine.announce(problem);
        }
    }
    lifecycle::run(engine, arguments.folder.as_deref())
}

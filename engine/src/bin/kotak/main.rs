//! `kotak`: the sandbox engine in a terminal.

mod args;
mod ask;
mod badge;
mod explain;
mod failure;
mod grants;
mod interactive;
mod keys;
mod launch;
mod layout;
mod log;
mod probe;
mod question;
mod raw_mode;
mod rules;
mod run;
mod screen;
mod screen_colours;
mod screen_modes;
mod session;
mod sessions;
mod shell;
mod signals;
mod text;

use args::{Args, Command};
use clap::Parser;
use failure::Failure;
use kotak_engine::error::{Coded, Problem};
use kotak_engine::probe::{SwitchSetting, resolve_switch};
use kotak_engine::store::{Dirs, Logs};
use std::process::ExitCode;

/// What the whole command knows.
struct Context {
    dirs: Dirs,
    switch: SwitchSetting,
    /// What could not be set up so far.
    notices: Vec<Problem>,
}

/// Commands that need an engine.
enum Launching {
    Probe,
    Shell(Box<args::ShellOptions>),
    Run(Box<args::RunOptions>),
}

fn main() -> ExitCode {
    raw_mode::restore_on_panic();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::report(&error),
    };
    let json = args.json;
    match execute(args) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.exit)
        }
    }
}

fn execute(args: Args) -> Result<u8, Failure> {
    let variable = |name: &str| std::env::var_os(name);
    let switch = resolve_switch(args.sandbox.as_deref(), &variable)
        .map_err(|error| Failure::usage(error.problem()))?;
    let dirs = Dirs::from_environment().map_err(|error| Failure::usage(error.problem()))?;
    let context = Context {
        dirs,
        switch,
        notices: Vec::new(),
    };
    // These read the history, the rules and the grants; nothing is probed or launched.
    let command = match args.command {
        Command::Sessions(options) => return sessions::list(&context.dirs, options, args.json),
        Command::Explain(options) => return explain::explain(&context.dirs, options, args.json),
        Command::Log(options) => return log::log(&context.dirs, options, args.json),
        Command::Rules(options) => return rules::rules(&context.dirs, options, args.json),
        Command::Grants(options) => return grants::grants(&context.dirs, options, args.json),
        Command::Probe => Launching::Probe,
        Command::Shell(options) => Launching::Shell(options),
        Command::Run(options) => Launching::Run(options),
    };
    let (_logs, problems) = Logs::init(&context.dirs);
    let context = Context {
        notices: problems,
        ..context
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::engine("ENGINE_START_FAILED", "cannot start the engine", &error)
        })?;
    let result = runtime.block_on(async {
        match command {
            Launching::Probe => probe::report(&context, args.json).await,
            Launching::Shell(options) => shell::open(&context, *options).await,
            Launching::Run(options) => run::run(&context, *options).await,
        }
    });
    // A thread may still wait for a key.
    runtime.shutdown_background();
    result
}

//! `kotak shell`: a sandboxed shell in this terminal.

use crate::args::{self, ShellOptions};
use crate::failure::Failure;
use crate::launch::Start;
use crate::session::by_signal;
use crate::{Context, interactive, launch};
use kotak_engine::backend::ClientDefault;
use kotak_engine::error::{Fix, Problem};
use kotak_engine::manager::SandboxRequest;
use kotak_engine::spec::{EnvPolicy, TerminalRequest, ValidSpec, WorkspaceId};
use kotak_engine::workspace::{login_shell, workspace_of};
use std::io::{IsTerminal, stdin, stdout};

/// Opens the shell and gives its exit code.
pub(crate) async fn open(context: &Context, options: ShellOptions) -> Result<u8, Failure> {
    let choice = args::backend(options.backend.as_deref())?;
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::usage(Problem {
            code: "NO_TERMINAL".to_owned(),
            message: "kotak shell needs a terminal on standard input and output".to_owned(),
            causes: Vec::new(),
            fix: Some(Fix::command(
                "Run it in a terminal, or feed a shell through pipes.",
                "kotak run -- sh",
            )),
        }));
    }
    let shell = login_shell().map_err(|error| Failure::not_found(&error))?;
    let cwd = launch::directory(options.cwd)?;
    let spec = ValidSpec::terminal(&TerminalRequest {
        session_id: launch::new_session_id("shell")?,
        workspace_id: WorkspaceId::of_folder(&workspace_of(&cwd.to_string_lossy())),
        cwd,
        mode: options.mode.into(),
        protected_paths: options.protect,
        network: options.network.map(Into::into),
        extra_domains: options.allow,
        port_forwards: options.grants.port_forwards()?,
        socket_grants: options.grants.socket_grants(),
        runner_state_dirs: Vec::new(),
        env_policy: EnvPolicy::default(),
        files: options.files.of_terminal(),
    })
    .map_err(|error| Failure::refused(&error))?;
    let request = SandboxRequest {
        spec,
        choice,
        client: ClientDefault::Command,
        bridge: options.bridge.into(),
    };
    let mut signals = launch::signals()?;
    let engine = match launch::start(context, &mut signals).await? {
        Start::Engine(engine) => engine,
        Start::Signal(number) => return Ok(by_signal(number)),
    };
    let argv = vec![shell.into_os_string()];
    let result = interactive::session(&engine, request, argv, None, signals).await;
    engine.shutdown().await;
    result
}

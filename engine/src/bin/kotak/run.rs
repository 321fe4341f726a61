//! `kotak run`: a program in a sandbox, with the caller's own streams.

use crate::args::{self, ProfileName, RunOptions};
use crate::failure::Failure;
use crate::launch::Start;
use crate::session::{Ended, Session, by_signal};
use crate::signals::{Forwarded, stop_here};
use crate::{Context, interactive, launch};
use kotak_engine::backend::ClientDefault;
use kotak_engine::error::{Fix, Problem};
use kotak_engine::manager::{
    Engine, Exec, ExecEnd, ExecRequest, ExecStdio, SandboxPort, SandboxRequest,
};
use kotak_engine::spec::{
    EnvPolicy, Mode, SandboxBindMount, SandboxSpec, TerminalRequest, ValidSpec, WorkspaceId,
};
use kotak_engine::workspace::workspace_of;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Bytes of a spec; room for far more paths than anybody lists.
const SPEC_LIMIT: u64 = 16 << 20;

/// Runs the program and gives its exit code.
pub(crate) async fn run(context: &Context, options: RunOptions) -> Result<u8, Failure> {
    let choice = args::backend(options.backend.as_deref())?;
    // Only a spec of its own leaves `--cwd` for the exec; else it is part of the spec.
    let exec_cwd = options.spec.as_ref().and(options.cwd.clone());
    let command = options.command.clone();
    let bridge = options.bridge.into();
    let spec = checked_spec(options)?;
    let request = SandboxRequest {
        spec,
        choice,
        client: ClientDefault::Command,
        bridge,
    };
    let mut signals = launch::signals()?;
    let engine = match launch::start(context, &mut signals).await? {
        Start::Engine(engine) => engine,
        Start::Signal(number) => return Ok(by_signal(number)),
    };
    let result = if has_own_terminal() {
        interactive::session(&engine, request, command, exec_cwd, signals).await
    } else {
        piped(&engine, request, command, exec_cwd, signals).await
    };
    engine.shutdown().await;
    result
}

/// Whether all three streams are a terminal in which this process is in the foreground.
fn has_own_terminal() -> bool {
    let terminals = stdin().is_terminal() && stdout().is_terminal() && stderr().is_terminal();
    terminals && nix::unistd::tcgetpgrp(stdin()).is_ok_and(|group| group == nix::unistd::getpgrp())
}

async fn piped(
    engine: &Engine,
    request: SandboxRequest,
    argv: Vec<OsString>,
    cwd: Option<PathBuf>,
    mut signals: Forwarded,
) -> Result<u8, Failure> {
    let stdio = ExecStdio::Streams {
        stdin: duplicate(stdin())?,
        stdout: duplicate(stdout())?,
        stderr: duplicate(stderr())?,
    };
    let session = tokio::select! {
        launched = Session::launch(engine, request, &argv) => launched?,
        // A launch that is given up leaves nothing, and has no history yet.
        number = signals.recv() => return Ok(by_signal(number)),
    };
    let result = async {
        // From here on signals are the program's.
        let unheard = |error| Failure::engine("SIGNALS_FAILED", "cannot listen to signals", &error);
        let mut stop = signal(SignalKind::from_raw(libc::SIGTSTP)).map_err(unheard)?;
        let exec = session
            .exec(ExecRequest {
                argv,
                cwd,
                env: Vec::new(),
                stdio,
            })
            .await?;
        Ok(Ended::Program(
            attend(&session, &exec, &mut signals, &mut stop).await,
        ))
    }
    .await;
    session.finish(result).await
}

/// Passes signals on until the program ends.
async fn attend(
    session: &Session<'_>,
    exec: &Exec,
    signals: &mut Forwarded,
    stop: &mut Signal,
) -> ExecEnd {
    let (manager, id) = (session.manager(), session.id());
    let ended = exec.wait();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            end = &mut ended => return end,
            number = signals.recv() => {
                if let Err(problem) = manager.signal(id, exec.id(), number).await {
                    // It has ended in between.
                    tracing::debug!(code = problem.code, "a signal was not passed on");
                }
            }
            _ = stop.recv() => {
                if let Err(problem) = manager.suspend(id).await {
                    tracing::warn!(code = problem.code, "the session could not be suspended");
                }
                stop_here();
                if let Err(problem) = manager.resume(id).await {
                    tracing::warn!(code = problem.code, "the session could not be resumed");
                }
            }
        }
    }
}

fn duplicate(stream: impl AsFd) -> Result<std::os::fd::OwnedFd, Failure> {
    stream.as_fd().try_clone_to_owned().map_err(|error| {
        Failure::engine(
            "STREAMS_FAILED",
            "cannot hand over the standard streams",
            &error,
        )
    })
}

/// The spec that the options mean, checked.
pub(crate) fn checked_spec(options: RunOptions) -> Result<ValidSpec, Failure> {
    let checked = match (&options.spec, options.profile) {
        (Some(file), None) => read_spec(file)?.validate(),
        (Some(file), Some(ProfileName::Dispatch)) => read_spec(file)?.validate_dispatch(),
        (_, Some(ProfileName::Terminal)) => {
            refuse_binds(&options)?;
            let cwd = launch::directory(options.cwd)?;
            ValidSpec::terminal(&TerminalRequest {
                session_id: launch::new_session_id("run")?,
                workspace_id: WorkspaceId::of_folder(&workspace_of(&cwd.to_string_lossy())),
                cwd,
                mode: options.mode.map_or(Mode::Chat, Into::into),
                protected_paths: options.protect,
                network: options.network.map(Into::into),
                extra_domains: options.allow,
                port_forwards: options.grants.port_forwards()?,
                socket_grants: options.grants.socket_grants(),
                runner_state_dirs: Vec::new(),
                env_policy: EnvPolicy {
                    pass: options.env,
                    ..EnvPolicy::default()
                },
                files: options.files.of_terminal(),
            })
        }
        (None, Some(ProfileName::Dispatch)) => bind_spec(options)?.validate_dispatch(),
        (None, None) => bind_spec(options)?.validate(),
    };
    checked.map_err(|error| Failure::refused(&error))
}

/// The terminal's profile is fixed: nothing is bound on top of it, and no spec is beside it.
fn refuse_binds(options: &RunOptions) -> Result<(), Failure> {
    let given = [
        ("--bind", !options.bind.is_empty()),
        ("--ro-bind", !options.ro_bind.is_empty()),
        ("--spec", options.spec.is_some()),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else {
        return Ok(());
    };
    Err(Failure::usage(Problem {
        code: "USAGE".to_owned(),
        message: format!("{option} cannot be used with --profile terminal"),
        causes: Vec::new(),
        fix: Some(Fix::words(
            "Leave one of them out: the terminal's profile is fixed.",
        )),
    }))
}

fn bind_spec(options: RunOptions) -> Result<SandboxSpec, Failure> {
    let current = launch::directory(None);
    let mut bind_mounts = Vec::new();
    for (paths, read_only) in [(&options.bind, false), (&options.ro_bind, true)] {
        for path in paths {
            bind_mounts.push(SandboxBindMount {
                host_path: text(path)?,
                guest_path: None,
                read_only,
            });
        }
    }
    let workdir = match (&options.cwd, bind_mounts.is_empty()) {
        (Some(cwd), false) => Some(text(cwd)?),
        (given, true) => {
            let cwd = text(&launch::directory(given.clone())?)?;
            let bind = SandboxBindMount {
                host_path: cwd.clone(),
                guest_path: None,
                read_only: false,
            };
            bind_mounts.push(bind);
            Some(cwd)
        }
        // The current directory, where it is inside one of the binds.
        (None, false) => match current {
            Ok(current)
                if bind_mounts
                    .iter()
                    .any(|bind| current.starts_with(&bind.host_path)) =>
            {
                Some(text(&current)?)
            }
            Ok(_) | Err(_) => None,
        },
    };
    let folder = workdir
        .clone()
        .or_else(|| bind_mounts.first().map(|bind| bind.host_path.clone()));
    Ok(SandboxSpec {
        session_id: launch::new_session_id("run")?,
        workspace_id: WorkspaceId::of_folder(&workspace_of(&folder.unwrap_or_default())),
        agent_id: None,
        bind_mounts,
        network_enabled: true,
        egress_allowlist: options.allow,
        guest_workdir: workdir,
        mode: options.mode.map_or(Mode::Chat, Into::into),
        protected_paths: options
            .protect
            .iter()
            .map(|path| text(path))
            .collect::<Result<_, _>>()?,
        runner_state_dirs: Vec::new(),
        exec_grant_roots: options
            .files
            .exec_grant
            .iter()
            .map(|path| text(path))
            .collect::<Result<_, _>>()?,
        network_mode: options.network.map(Into::into),
        filename_rules: options.files.filename_rules(),
        exec_restriction: options.files.exec_restriction(),
        resources: Default::default(),
        socket_grants: options.grants.socket_grants(),
        port_forwards: options.grants.port_forwards()?,
        env_policy: EnvPolicy {
            pass: options.env,
            ..EnvPolicy::default()
        },
    })
}

/// A path as a spec can hold it.
fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(Problem {
            code: "PATH_NOT_TEXT".to_owned(),
            message: format!(
                "the path {} is not UTF-8, and a spec holds text",
                path.display()
            ),
            causes: Vec::new(),
            fix: Some(Fix::words(
                "Rename it, or use --profile terminal, which takes any working directory.",
            )),
        })
    })
}

fn read_spec(file: &Path) -> Result<SandboxSpec, Failure> {
    let unreadable = |error: io::Error| {
        Failure::usage(Problem {
            code: "SPEC_UNREADABLE".to_owned(),
            message: format!("the spec {} cannot be read", file.display()),
            causes: vec![error.to_string()],
            fix: Some(Fix::words(
                "Name a readable file of JSON, or - for standard input.",
            )),
        })
    };
    let mut content = String::new();
    let read = if file == Path::new("-") {
        stdin()
            .lock()
            .take(SPEC_LIMIT + 1)
            .read_to_string(&mut content)
    } else {
        let file = std::fs::File::open(file).map_err(unreadable)?;
        file.take(SPEC_LIMIT + 1).read_to_string(&mut content)
    };
    let length = read.map_err(unreadable)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > SPEC_LIMIT {
        return Err(unreadable(io::Error::other(format!(
            "it is larger than {SPEC_LIMIT} bytes"
        ))));
    }
    SandboxSpec::from_json(&content).map_err(|error| Failure::refused(&error))
}

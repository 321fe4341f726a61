//! Launching a session and running `true` in it, against bubblewrap doing the same.

use crate::plain::plain_command;
use crate::{median, millis};
use kotak_engine::backend::{BackendChoice, BridgeChoice, ClientDefault};
use kotak_engine::error::Problem;
use kotak_engine::manager::{
    Engine, EngineOptions, EngineRole, ExecRequest, ExecStdio, SandboxManager, SandboxPort,
    SandboxRequest,
};
use kotak_engine::probe::Switch;
use kotak_engine::spec::{SandboxSpec, TerminalRequest, ValidSpec};
use kotak_engine::store::Dirs;
use kotak_tests::Stage;
use std::error::Error;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the ratio is meant to stay below.
const TARGET: f64 = 1.5;

type Spec<'a> = dyn Fn(String) -> Result<ValidSpec, Box<dyn Error>> + 'a;

/// Measures the fixed terminal profile and a launch with bind mounts.
pub(crate) async fn measure(rounds: u32) -> Result<(), Box<dyn Error>> {
    let stage = Stage::new();
    let state = tempfile::tempdir()?;
    let engine = Engine::start(EngineOptions {
        switch: Switch::On,
        dirs: Dirs::under(state.path()),
        role: EngineRole::Command,
    })
    .await?;
    let terminal = |session_id: String| {
        Ok(ValidSpec::terminal(&TerminalRequest::plain(
            &session_id,
            "bench",
            stage.work(),
        ))?)
    };
    let binds = |session_id: String| {
        let spec = serde_json::json!({
            "sessionId": session_id,
            "workspaceId": "bench",
            "bindMounts": [{ "hostPath": stage.work() }],
            "guestWorkdir": stage.work(),
        });
        Ok(SandboxSpec::from_json(&spec.to_string())?.validate()?)
    };
    println!("Launch to the end of `true`, medians of {rounds}:");
    compare(engine.manager(), "terminal profile", &terminal, rounds).await?;
    compare(engine.manager(), "bind mounts", &binds, rounds).await?;
    engine.shutdown().await;
    Ok(())
}

async fn compare(
    manager: &SandboxManager,
    name: &str,
    spec: &Spec<'_>,
    rounds: u32,
) -> Result<(), Box<dyn Error>> {
    let mut ours = Vec::new();
    let mut whole = Vec::new();
    let mut plain = Vec::new();
    let mut ready = Vec::new();
    let mut resolved = Vec::new();
    let mut mounts = 0;
    for round in 0..rounds {
        let id = format!("bench-{}-{round}", name.replace(' ', "-"));
        let checked = spec(id.clone())?;
        let began = Instant::now();
        let (shown, launch, spawn_to_ready) = run_true(manager, &id, checked).await?;
        ours.push(began.elapsed());
        ready.push(spawn_to_ready);
        resolved.push(launch.saturating_sub(spawn_to_ready));
        manager.destroy(&id).await.map_err(told)?;
        whole.push(began.elapsed());

        let command = plain_command(&shown).ok_or("the session's command line is of a new form")?;
        mounts = command
            .iter()
            .filter(|arg| arg.contains("bind") || *arg == "--tmpfs")
            .count();
        plain.push(run_plain(&command)?);
    }
    let (ours, whole, plain) = (median(&ours), median(&whole), median(&plain));
    println!(
        "  {name} ({mounts} mounts): Kotak {:.1} ms, of which policy and plan {:.0} ms and spawn to \
         ready {:.0} ms, with the session's end {:.1} ms; bubblewrap {:.1} ms; ratio {:.2} (target \
         at most {TARGET})",
        millis(ours),
        millis(median(&resolved)),
        millis(median(&ready)),
        millis(whole),
        millis(plain),
        ours.as_secs_f64() / plain.as_secs_f64(),
    );
    Ok(())
}

/// Launches, runs `true`, and returns the command line, the time of the launch and the part of it
/// from spawn to ready that the handle shows.
async fn run_true(
    manager: &SandboxManager,
    id: &str,
    spec: ValidSpec,
) -> Result<(Vec<String>, Duration, Duration), Box<dyn Error>> {
    let request = SandboxRequest {
        spec,
        choice: Some(BackendChoice::Native),
        client: ClientDefault::Command,
        bridge: BridgeChoice::Auto,
    };
    let began = Instant::now();
    let handle = manager.launch(request).await.map_err(told)?;
    let launch = began.elapsed();
    if let Some(problem) = handle.error {
        return Err(told(problem).into());
    }
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map(OwnedFd::from)
    };
    let request = ExecRequest {
        argv: vec!["/usr/bin/true".into()],
        cwd: None,
        env: Vec::new(),
        stdio: ExecStdio::Streams {
            stdin: null()?,
            stdout: null()?,
            stderr: null()?,
        },
    };
    let end = manager.exec(id, request).await.map_err(told)?.wait().await;
    if end.exit_code != 0 {
        return Err(format!("`true` ended with {}", end.exit_code).into());
    }
    let detail = |name: &str| handle.details.get(name).cloned().unwrap_or_default();
    let ready = Duration::from_millis(serde_json::from_value(detail("launchMs"))?);
    Ok((serde_json::from_value(detail("argv"))?, launch, ready))
}

fn run_plain(command: &[String]) -> Result<Duration, Box<dyn Error>> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let began = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status()?;
    let took = began.elapsed();
    if !status.success() {
        return Err(format!("plain bubblewrap failed: {status}").into());
    }
    Ok(took)
}

fn told(problem: Problem) -> String {
    format!("{}: {}", problem.code, problem.message)
}

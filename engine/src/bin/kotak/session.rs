//! One session of the command: launched, run, ended, and written to the history.

use crate::badge::badge_line;
use crate::failure::{self, Failure};
use crate::launch::say;
use crate::text::printable;
use kotak_engine::backend::SandboxBackend;
use kotak_engine::error::Problem;
use kotak_engine::manager::{
    Engine, Exec, ExecEnd, ExecRequest, SandboxManager, SandboxPort, SandboxRequest, SandboxState,
};
use kotak_engine::spec::NetworkMode;
use kotak_engine::store::{SessionEnd, SessionStart};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A launched sandbox.
pub(crate) struct Session<'a> {
    engine: &'a Engine,
    id: String,
}

/// How it came to its end.
pub(crate) enum Ended {
    /// The program ended.
    Program(ExecEnd),
    /// Kotak was asked to end by a signal.
    Signal(i32),
}

impl<'a> Session<'a> {
    /// Launches a sandbox and says what it is. An error means that nothing ran in it.
    pub(crate) async fn launch(
        engine: &'a Engine,
        request: SandboxRequest,
        argv: &[OsString],
    ) -> Result<Self, Failure> {
        let started_at_ms = now_ms();
        let network = request.spec.network();
        let mut start = session_start(&request, argv, started_at_ms);
        let session = Self {
            engine,
            id: start.id.clone(),
        };
        engine.name_session(&session.id, &start.title);
        let handle = engine
            .manager()
            .launch(request)
            .await
            .map_err(Failure::launch_refused)?;
        if handle.backend == Some(SandboxBackend::None) {
            // Whatever the default would be in a sandbox: without one, the network is the host's.
            start.network = Some(NetworkMode::Open);
        }
        engine.store().session_started(start);
        engine
            .store()
            .session_changed(&session.id, handle.backend, handle.state);
        let badge = match handle.state {
            SandboxState::Warm | SandboxState::Active => badge_line(&handle, network),
            SandboxState::Created
            | SandboxState::Suspended
            | SandboxState::Destroyed
            | SandboxState::Error => None,
        };
        if let Some(badge) = badge {
            say(&badge);
            session.say_grants();
            return Ok(session);
        }
        let problem = handle.error.unwrap_or_else(|| Problem {
            code: "LAUNCH_FAILED".to_owned(),
            message: "the sandbox did not start".to_owned(),
            causes: Vec::new(),
            fix: None,
        });
        if let Err(left) = session.end_tree().await {
            failure::report(&left, false);
        }
        let broke = Err(Failure::launch_broke(problem));
        session.record(&broke);
        broke.map(|(_, _)| session)
    }

    /// What is let through the sandbox's walls, and what of it is not open.
    fn say_grants(&self) {
        for granted in self.engine.session_grants(&self.id).unwrap_or_default() {
            match (&granted.problem, granted.grant.grant()) {
                (Some(problem), _) => failure::report(problem, false),
                (None, Some(grant)) => {
                    say(&format!(
                        "kotak: granted: {}",
                        printable(&grant.to_string())
                    ));
                }
                (None, None) => {}
            }
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn manager(&self) -> &'a SandboxManager {
        self.engine.manager()
    }

    /// Starts the program.
    pub(crate) async fn exec(&self, request: ExecRequest) -> Result<Arc<Exec>, Failure> {
        let exec = self
            .manager()
            .exec(&self.id, request)
            .await
            .map_err(Failure::not_started)?;
        if let Some(handle) = self.manager().handle(&self.id) {
            self.engine
                .store()
                .session_changed(&self.id, handle.backend, handle.state);
        }
        Ok(exec)
    }

    /// Ends whatever still runs, and gives the exit code of a program that ended by itself; an
    /// error when the sandbox broke under it.
    pub(crate) async fn finish(self, result: Result<Ended, Failure>) -> Result<u8, Failure> {
        let result = result.and_then(|ended| match ended {
            Ended::Program(ExecEnd {
                killed: Some(reason),
                ..
            }) => Err(self.broken(&reason)),
            Ended::Program(end) => Ok((end.exit_code, end.signal)),
            Ended::Signal(number) => Ok((128 + number, Some(number))),
        });
        let result = match (result, self.end_tree().await) {
            (Ok(_), Err(left)) => Err(Failure::broke(left)),
            (result, Ok(())) => result,
            (result @ Err(_), Err(left)) => {
                failure::report(&left, false);
                result
            }
        };
        self.record(&result);
        result.map(|(code, _)| exit_code(code))
    }

    fn broken(&self, reason: &str) -> Failure {
        let known = self
            .manager()
            .handle(&self.id)
            .and_then(|handle| handle.error);
        Failure::broke(known.unwrap_or_else(|| Problem {
            code: "SESSION_KILLED".to_owned(),
            message: format!("the session was ended while its program ran: {reason}"),
            causes: Vec::new(),
            fix: None,
        }))
    }

    /// Ends the tree; an error when something of it may still run.
    async fn end_tree(&self) -> Result<(), Problem> {
        match self.manager().destroy(&self.id).await {
            // It is gone already.
            Err(problem) if problem.code == "NO_SUCH_SESSION" => Ok(()),
            ended => ended,
        }
    }

    /// Writes the end to the history.
    fn record(&self, result: &Result<(i32, Option<i32>), Failure>) {
        let end = match result {
            Ok((code, signal)) => SessionEnd {
                state: SandboxState::Destroyed,
                exit_code: Some(*code),
                signal: *signal,
                error: None,
                ended_at_ms: now_ms(),
            },
            Err(failure) => SessionEnd {
                state: SandboxState::Error,
                exit_code: None,
                signal: None,
                error: Some((
                    failure.problem.code.clone(),
                    failure.problem.message.clone(),
                )),
                ended_at_ms: now_ms(),
            },
        };
        self.engine.store().session_ended(&self.id, end);
    }
}

/// The exit code of a Kotak that a signal ended.
pub(crate) fn by_signal(number: i32) -> u8 {
    exit_code(128 + number)
}

/// An exit code has eight bits, and 128 + n fits into them for every signal.
fn exit_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn session_start(request: &SandboxRequest, argv: &[OsString], started_at_ms: u64) -> SessionStart {
    let spec = &request.spec;
    let program = argv
        .first()
        .map(|program| program.to_string_lossy().into_owned())
        .unwrap_or_default();
    SessionStart {
        id: spec.session_id().to_string(),
        workspace: spec.workspace_id().to_string(),
        title: program.rsplit('/').next().unwrap_or(&program).to_owned(),
        cwd: spec.workdir().map(ToString::to_string).unwrap_or_default(),
        // Never the arguments: they may hold secrets.
        program,
        requested_backend: request.choice,
        network: Some(spec.network()),
        started_at_ms,
    }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

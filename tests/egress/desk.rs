//! The window's engine, in this process, for the home of a staged sandbox: it shows the questions
//! of every `kotak run` there and answers them, as the panel does.

use crate::sandbox::{Driver, Sandbox};
use kotak_engine::api::{Answer, AnswerScope, Prompt, PromptState, RuleInfo};
use kotak_engine::backend::{BackendChoice, BridgeChoice, ClientDefault};
use kotak_engine::error::Problem;
use kotak_engine::manager::{
    Engine, EngineOptions, EngineRole, ExecRequest, ExecStdio, SandboxPort, SandboxRequest,
};
use kotak_engine::probe::Switch;
use kotak_engine::spec::{NetworkMode, TerminalRequest, ValidSpec};
use std::cell::RefCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long something may take to appear. A bound, not an expectation.
const PATIENCE: Duration = Duration::from_secs(60);

/// The window's engine.
pub(crate) struct Desk {
    runtime: Runtime,
    pub(crate) engine: Engine,
    /// Questions that were answered: the program is let go before the window hears of it, so one
    /// may be shown a moment longer.
    answered: RefCell<HashSet<String>>,
}

impl Desk {
    /// Opens the desk of this home; sessions that are started from now on ask here.
    pub(crate) fn open(sandbox: &Sandbox) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let options = EngineOptions {
            switch: Switch::On,
            dirs: sandbox.dirs(),
            role: EngineRole::Panel,
        };
        let engine = runtime.block_on(Engine::start(options)).expect("an engine");
        Self {
            runtime,
            engine,
            answered: RefCell::default(),
        }
    }

    /// The questions that are shown now.
    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.engine.snapshot().prompts
    }

    /// Waits for a question about a host that is as wanted, and was not answered yet.
    #[track_caller]
    pub(crate) fn prompt(&self, host: &str, wanted: impl Fn(&Prompt) -> bool) -> Prompt {
        self.until(&format!("a question about {host}"), || {
            let mut prompts = self.prompts().into_iter();
            prompts.find(|prompt| {
                prompt.host == host
                    && wanted(prompt)
                    && !self.answered.borrow().contains(&prompt.id)
            })
        })
    }

    /// Waits for something.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = probe() {
                return found;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "not reached: {what}; shown: {:#?}",
                self.prompts()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Answers a question. A click that comes too early is ignored: it is repeated.
    #[track_caller]
    pub(crate) fn answer(
        &self,
        prompt: &Prompt,
        answer: Answer,
        scope: AnswerScope,
    ) -> Option<RuleInfo> {
        let given = self.until("an answer that is taken", || {
            let given = self
                .runtime
                .block_on(self.engine.answer_prompt(&prompt.id, answer, scope));
            match given {
                Err(problem) if problem.code == "ANSWER_TOO_EARLY" => None,
                other => Some(other),
            }
        });
        let given = given.unwrap_or_else(|problem| panic!("{problem:?}"));
        self.answered.borrow_mut().insert(prompt.id.clone());
        given
    }

    /// Starts a session of this engine that makes attempts on demand.
    #[track_caller]
    pub(crate) fn driver(&self, sandbox: &Sandbox, id: &str, domains: &[&str]) -> Driver {
        let spec = ValidSpec::terminal(&TerminalRequest {
            network: Some(NetworkMode::Allowlist),
            extra_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
            ..TerminalRequest::plain(id, "desk", sandbox.stage.work())
        });
        let request = SandboxRequest {
            spec: spec.expect("a spec"),
            choice: Some(BackendChoice::Native),
            client: ClientDefault::Command,
            bridge: BridgeChoice::Auto,
        };
        let manager = self.engine.manager();
        let handle = self.run(manager.launch(request)).expect("a session");
        assert!(handle.error.is_none(), "{handle:?}");
        let (stdin, input) = std::io::pipe().expect("a pipe");
        let (output, stdout) = std::io::pipe().expect("a pipe");
        let stderr = stdout.try_clone().expect("a pipe");
        let script = sandbox.script("exec python3 driver.py");
        let exec = self.run(manager.exec(
            id,
            ExecRequest {
                argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
                cwd: None,
                env: Vec::new(),
                stdio: ExecStdio::Streams {
                    stdin: stdin.into(),
                    stdout: stdout.into(),
                    stderr: stderr.into(),
                },
            },
        ));
        // It goes on by itself, until its input ends.
        drop(exec.expect("a driver"));
        Driver::speaking(None, Box::new(input), Box::new(output))
    }

    /// Runs a call of the engine.
    pub(crate) fn run<T>(
        &self,
        call: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        self.runtime.block_on(call)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.shutdown());
    }
}

/// Whether attempts wait on it.
pub(crate) fn waits(prompt: &Prompt) -> bool {
    prompt.state == PromptState::Waiting
}

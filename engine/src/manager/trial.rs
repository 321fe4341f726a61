//! The probe's trial sandbox: the production path, from spec to verified guard (REQ PR-7).

use super::adapter::NativeSandboxAdapter;
use super::host::HostView;
use crate::backend::native_plan;
use crate::error::Coded;
use crate::policy::{HostContext, KotakPaths, OsHostFs, resolve};
use crate::probe::{SupervisionLack, TrialOutcome, TrialRequest, TrialRunner};
use crate::process::{LaunchError, native};
use crate::spec::{AbsPath, TerminalRequest, ValidSpec};
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Handle;

/// First part of the name of a trial's directory; its engine's process id follows.
const PREFIX: &str = "trial-";

/// Launches the terminal profile around an empty home directory, and ends it.
#[derive(Debug)]
pub(super) struct ProductionTrial {
    host: HostView,
    runtime: Handle,
}

impl ProductionTrial {
    /// Must be called inside a runtime; [`TrialRunner::run`] must not.
    pub(super) fn new(host: HostView) -> Self {
        Self {
            host,
            runtime: Handle::current(),
        }
    }

    /// An empty directory for one trial, where the next engine finds it should this one be killed.
    fn directory(&self) -> std::io::Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        builder.prefix(&prefix);
        match self.host.dirs.prepare_run() {
            Ok(()) => builder.tempdir_in(&self.host.dirs.run),
            Err(_) => builder.tempdir(),
        }
    }

    /// The trial; where the guard refuses to supervise, once more without, so that what does not
    /// need it can still be had, and is told apart.
    fn try_both(&self, request: &TrialRequest) -> Result<TrialOutcome, String> {
        let first = self.try_run(request)?;
        match first {
            TrialOutcome::GuardRefused(_) if SupervisionLack::of(&request.facts).is_none() => {
                let mut plain = request.clone();
                plain.facts.files_supervised = Some(false);
                match self.try_run(&plain)? {
                    TrialOutcome::Ready(report) => Ok(TrialOutcome::Ready(report)),
                    // The first told more.
                    _ => Ok(first),
                }
            }
            _ => Ok(first),
        }
    }

    fn try_run(&self, request: &TrialRequest) -> Result<TrialOutcome, String> {
        let home = self
            .directory()
            .map_err(|error| format!("no directory for the trial can be made: {error}"))?;
        let home_path = AbsPath::from_path(home.path()).map_err(|error| error.to_string())?;
        let spec = ValidSpec::terminal(&TerminalRequest::plain(
            &format!("trial-{}", std::process::id()),
            "trial",
            home.path().to_path_buf(),
        ))
        .map_err(|error| error.problem().message)?;
        let mut facts = request.facts.clone();
        facts.bwrap_path = Some(request.runner.to_string_lossy().into_owned());
        let context = self
            .host
            .context(facts.clone())
            .map_err(|error| error.problem().message)?;
        // The trial must not depend on what is in the user's home.
        let context = HostContext {
            home: home_path,
            passwd_home: None,
            kotak: KotakPaths::default(),
            ..context
        };
        let policy = resolve(&spec, &context, &OsHostFs::default())
            .map_err(|error| error.problem().message)?;
        let facts =
            NativeSandboxAdapter::plan_facts(&facts).map_err(|error| error.problem().message)?;
        let plan = native_plan(&policy, &facts).map_err(|error| error.problem().message)?;
        Ok(self.runtime.block_on(async {
            match native::launch(&plan, None).await {
                Ok(tree) => {
                    let report = tree.report().clone();
                    match tree.end().await {
                        Ok(()) => TrialOutcome::Ready(Box::new(report)),
                        Err(error) => TrialOutcome::SpawnFailed(error.to_string()),
                    }
                }
                Err(error) => outcome(error),
            }
        }))
    }
}

/// Removes the directories of trials whose engine no longer runs.
pub(super) fn remove_leftovers(run_dir: &Path) {
    let Ok(entries) = std::fs::read_dir(run_dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            name.strip_prefix(PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        if let Some(owner) = owner
            && !Path::new("/proc").join(owner.to_string()).exists()
        {
            // Only an empty one: a trial puts nothing into it.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

impl TrialRunner for ProductionTrial {
    fn run(&self, request: &TrialRequest) -> TrialOutcome {
        self.try_both(request)
            .unwrap_or_else(TrialOutcome::SpawnFailed)
    }
}

fn outcome(error: LaunchError) -> TrialOutcome {
    match error {
        LaunchError::GuardRefused(check) => TrialOutcome::GuardRefused(check),
        LaunchError::BwrapFailed { stderr, status, .. } => {
            TrialOutcome::RunnerFailed { stderr, status }
        }
        LaunchError::Timeout { .. } => TrialOutcome::Timeout,
        other => {
            let problem = other.problem();
            let mut words = problem.message;
            for cause in problem.causes {
                words.push_str(": ");
                words.push_str(&cause);
            }
            TrialOutcome::SpawnFailed(words)
        }
    }
}

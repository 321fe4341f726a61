//! The adapters: how a checked spec becomes a running tree under one backend.

use super::exec_grants::{Joined, leave_out};
use super::host::{HostView, own_namespaces};
use super::network::PreparedNetwork;
use crate::backend::{
    BridgeChoice, BridgePlan, Enforcement, NativePlan, PlanFacts, SandboxBackend, SeccompArch,
    confirm, confirm_watch, native_plan, unmet,
};
use crate::egress::rules::RuleSet;
use crate::error::{Coded, Fix, Problem};
use crate::policy::resolve;
use crate::probe::{HostFacts, HostReport};
use crate::process::native::{self, Early};
use crate::process::{LaunchError, Tree, host};
use crate::spec::{AbsPath, Form, Mode, ValidSpec};
use kotak_guard::proto::Check;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

/// A launched sandbox, as an adapter hands it over.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) backend: SandboxBackend,
    pub(super) tree: Tree,
    pub(super) cwd: Vec<u8>,
    pub(super) env: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) enforcement: Option<Enforcement>,
    /// The rules of a network that waits for its proxies.
    pub(super) network: Option<PreparedNetwork>,
    /// Approved folders; absent where programs run wherever they are.
    pub(super) exec: Option<Vec<Joined>>,
    /// Programs that never run, wherever they lie.
    pub(super) always_refused: Vec<Vec<u8>>,
    pub(super) details: BTreeMap<String, serde_json::Value>,
}

impl Launched {
    /// Adds variables that what was opened for the session brings; what the operator set stands.
    pub(super) fn add_env(&mut self, more: Vec<(Vec<u8>, Vec<u8>)>) {
        for (name, value) in more {
            if self.env.iter().all(|(known, _)| *known != name) {
                self.env.push((name, value));
            }
        }
    }
}

/// What a launch would do, before anything runs.
#[derive(Debug)]
pub(super) enum Prepared {
    /// Without a sandbox.
    None {
        /// Working directory.
        cwd: Vec<u8>,
        /// The whole environment.
        env: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// By bubblewrap.
    Native {
        /// What is launched.
        plan: Box<NativePlan>,
        /// The network's rules; absent where it is open.
        network: Option<PreparedNetwork>,
        /// What it was prepared from, for another look.
        from: Box<(ValidSpec, BridgeChoice)>,
        /// Approved folders; absent where programs run wherever they are.
        exec: Option<Vec<Joined>>,
        /// A runner that was started meanwhile.
        early: Option<Box<Early>>,
    },
}

impl Prepared {
    /// What the session may do, in sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        match self {
            Self::None { .. } => vec![
                "Runs **directly on this computer**, without a sandbox.".to_owned(),
                "Can read, write and reach **everything that you can**.".to_owned(),
            ],
            Self::Native { plan, .. } => plan.sentences.clone(),
        }
    }

    /// Whether it has a network of its own, behind which something can be granted.
    pub(super) fn has_own_network(&self) -> bool {
        match self {
            Self::None { .. } => false,
            Self::Native { network, .. } => network.is_some(),
        }
    }

    /// What is enforced, as far as the plan can know.
    pub(super) fn enforcement(&self) -> Option<&Enforcement> {
        match self {
            Self::None { .. } => None,
            Self::Native { plan, .. } => Some(&plan.enforcement),
        }
    }

    /// What another look starts from; none without a sandbox, where nothing was looked for.
    pub(super) fn again(&self) -> Option<(ValidSpec, BridgeChoice)> {
        match self {
            Self::None { .. } => None,
            Self::Native { from, .. } => Some((**from).clone()),
        }
    }

    /// Starts it.
    pub(super) async fn launch(self) -> Result<Launched, LaunchError> {
        match self {
            Self::None { cwd, env } => NoSandboxAdapter::launch(cwd, env).await,
            Self::Native {
                plan,
                network,
                exec,
                early,
                ..
            } => {
                let early = early.map(|early| *early);
                let mut launched = NativeSandboxAdapter::launch(*plan, network, early).await?;
                launched.exec = exec;
                Ok(launched)
            }
        }
    }
}

/// Runs programs directly on the host (REQ NO-1).
#[derive(Debug, Clone, Copy)]
pub struct NoSandboxAdapter;

/// What a spec asks for and no sandbox cannot give.
#[derive(Debug, thiserror::Error)]
#[error("{field} cannot be enforced without a sandbox")]
pub(super) struct NotEnforced {
    field: &'static str,
}

impl Coded for NotEnforced {
    fn code(&self) -> &'static str {
        "FIELD_NOT_ENFORCED"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(format!(
            "Choose the native backend, or leave {} out.",
            self.field
        )))
    }
}

impl NoSandboxAdapter {
    pub(super) fn prepare(spec: &ValidSpec, host: &HostView) -> Result<Prepared, Problem> {
        let refuse = |field| Err(NotEnforced { field }.problem());
        if spec.mode() != Mode::Chat {
            return refuse("mode");
        }
        if !spec.protected().is_empty() {
            return refuse("protectedPaths");
        }
        if let Some(field) = spec
            .files_field()
            .or(spec.network_field())
            .or(spec.grants_field())
        {
            return refuse(field);
        }
        if let Form::Binds { binds, .. } = spec.form()
            && binds.iter().any(|bind| bind.read_only)
        {
            return refuse("bindMounts.readOnly");
        }
        let cwd = match spec.workdir() {
            Some(cwd) => cwd.as_bytes().to_vec(),
            None => host.home.as_os_str().as_bytes().to_vec(),
        };
        let mut env: BTreeMap<Vec<u8>, Vec<u8>> = host
            .env
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        for (name, value) in spec.env().set() {
            env.insert(name.clone().into_bytes(), value.clone().into_bytes());
        }
        Ok(Prepared::None {
            cwd,
            env: env.into_iter().collect(),
        })
    }

    async fn launch(cwd: Vec<u8>, env: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Launched, LaunchError> {
        let began = Instant::now();
        let tree = host::launch().await?;
        let details = details(&tree, &cwd, began);
        Ok(Launched {
            backend: SandboxBackend::None,
            tree,
            cwd,
            env,
            enforcement: None,
            network: None,
            exec: None,
            always_refused: Vec::new(),
            details,
        })
    }
}

/// Runs programs under bubblewrap (REQ BW-1).
#[derive(Debug, Clone, Copy)]
pub struct NativeSandboxAdapter;

/// The host report lacks what a native launch needs.
#[derive(Debug, thiserror::Error)]
pub(super) enum FactMissing {
    /// No trial succeeded.
    #[error("the probe found no usable bubblewrap")]
    Bwrap,
    /// No filter can be generated.
    #[error("there is no system call filter for the processor architecture {0}")]
    Arch(String),
}

impl Coded for FactMissing {
    fn code(&self) -> &'static str {
        match self {
            Self::Bwrap => "NATIVE_UNAVAILABLE",
            Self::Arch(_) => "ARCH_UNSUPPORTED",
        }
    }

    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Bwrap => Some(Fix::words(
                "Probe the host again: the report names the cause.",
            )),
            Self::Arch(_) => None,
        }
    }
}

impl NativeSandboxAdapter {
    /// Resolves and plans: reads the file system, runs nothing.
    pub(super) fn prepare(
        spec: &ValidSpec,
        bridge: BridgeChoice,
        host: &HostView,
        report: &HostReport,
        joined: Option<Vec<Joined>>,
    ) -> Result<Prepared, Problem> {
        let context = host
            .context(report.facts.clone())
            .map_err(|error| error.problem())?;
        let policy = resolve(spec, &context, &host.files).map_err(|error| error.problem())?;
        let facts = Self::plan_facts(&report.facts).map_err(|error| error.problem())?;
        let mut plan = native_plan(&policy, &facts).map_err(|error| error.problem())?;
        let socat = report.facts.socat_path.as_deref();
        plan.bridge = BridgePlan {
            choice: bridge,
            socat: socat.and_then(|path| AbsPath::new(path).ok()),
            run: None,
        };
        let network = RuleSet::of(&policy, Vec::new()).map(|rules| PreparedNetwork {
            rules,
            mode: policy.network(),
            workspace: spec.workspace_id().to_string(),
            grants: spec.grants().to_vec(),
        });
        Ok(Prepared::Native {
            plan: Box::new(plan),
            network,
            from: Box::new((spec.clone(), bridge)),
            exec: joined.map(|joined| leave_out(joined, policy.exec())),
            early: None,
        })
    }

    pub(super) fn plan_facts(facts: &HostFacts) -> Result<PlanFacts, FactMissing> {
        let arch = std::env::consts::ARCH;
        Ok(PlanFacts {
            bwrap_path: facts
                .bwrap_path
                .as_deref()
                .and_then(|path| AbsPath::new(path).ok())
                .ok_or(FactMissing::Bwrap)?,
            bwrap_version: facts.bwrap_version.ok_or(FactMissing::Bwrap)?,
            arch: SeccompArch::from_name(arch).ok_or_else(|| FactMissing::Arch(arch.to_owned()))?,
            landlock_abi: facts.landlock_abi,
            namespaces: own_namespaces(),
        })
    }

    async fn launch(
        plan: NativePlan,
        network: Option<PreparedNetwork>,
        early: Option<Early>,
    ) -> Result<Launched, LaunchError> {
        let began = Instant::now();
        let tree = native::launch(&plan, early).await?;
        if let Some(what) = unmet(&plan, tree.report()) {
            // Dropping the tree ends it; no program was started in it.
            return Err(LaunchError::GuardRefused(Check {
                name: what.replace(' ', "-"),
                detail: format!("the guard did not confirm the {what} that the session must have"),
            }));
        }
        let cwd = plan.cwd.as_bytes().to_vec();
        let mut details = details(&tree, &cwd, began);
        details.insert("argv".to_owned(), plan.command_line().into());
        details.insert("withheldVariables".to_owned(), plan.withheld.clone().into());
        let checks: Vec<String> = tree
            .report()
            .passed
            .iter()
            .map(|check| format!("{}: {}", check.name, check.detail))
            .collect();
        details.insert("verified".to_owned(), checks.into());
        let mut enforcement = confirm(&plan, tree.report(), tree.way_in());
        match tree.watches_secrets() {
            Ok(true) => confirm_watch(&mut enforcement, &plan),
            Ok(false) => {}
            Err(reason) => {
                details.insert("secretsNotHiddenAgain".to_owned(), reason.into());
            }
        }
        Ok(Launched {
            backend: SandboxBackend::Native,
            tree,
            cwd,
            env: plan.env,
            enforcement: Some(enforcement),
            network,
            exec: None,
            always_refused: plan.setup.exec.map(|exec| exec.denied).unwrap_or_default(),
            details,
        })
    }
}

fn details(tree: &Tree, cwd: &[u8], began: Instant) -> BTreeMap<String, serde_json::Value> {
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    BTreeMap::from([
        ("pid".to_owned(), tree.pid().into()),
        ("workdir".to_owned(), String::from_utf8_lossy(cwd).into()),
        ("launchMs".to_owned(), millis.into()),
        ("freezer".to_owned(), tree.freezer().into()),
    ])
}

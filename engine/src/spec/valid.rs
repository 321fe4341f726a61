//! The checked spec: a witness that validation ran.

use super::{
    AbsPath, ExecRestriction, FilenameRules, Grant, HostPattern, Mode, NetworkMode, PortForward,
    SessionId, SocketGrant, ValidFilenameRules, WorkspaceId,
};
use std::path::PathBuf;

/// A spec that passed validation. Only this can become a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidSpec {
    pub(crate) session_id: SessionId,
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) agent_id: Option<String>,
    pub(crate) form: Form,
    pub(crate) mode: Mode,
    pub(crate) network: NetworkMode,
    pub(crate) network_field: Option<&'static str>,
    pub(crate) egress: Vec<HostPattern>,
    pub(crate) protected: Vec<AbsPath>,
    pub(crate) runner_state: Vec<AbsPath>,
    pub(crate) env: ValidEnv,
    pub(crate) grants: Vec<Grant>,
    pub(crate) purpose: Purpose,
    pub(crate) filenames: ValidFilenameRules,
    pub(crate) exec: ValidExec,
    pub(crate) approved: Vec<AbsPath>,
}

/// What kind of sandbox the spec describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The fixed terminal profile (REQ TM-2).
    Terminal {
        /// Working directory, writable.
        cwd: AbsPath,
    },
    /// System runtime and listed binds only (REQ BW-1).
    Binds {
        /// The binds, each path once.
        binds: Vec<ValidBind>,
        /// Default working directory; covered by a bind when given.
        workdir: Option<AbsPath>,
    },
}

/// One bind; inside it has the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidBind {
    /// The path on the host and inside.
    pub path: AbsPath,
    /// Read-only in every mode.
    pub read_only: bool,
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Purpose {
    /// What its spec says and no more.
    #[default]
    Direct,
    /// The standard dispatch of an agent: never without its filename rules (REQ BW-4).
    Dispatch,
}

/// The checked exec restriction (REQ BW-6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ValidExec {
    /// Programs run wherever they are.
    #[default]
    Anywhere,
    /// None runs from what can be written, except below these trees.
    ReadOnly {
        /// What the operator granted, as listed, each once.
        grants: Vec<AbsPath>,
    },
}

/// The checked environment policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValidEnv {
    pub(crate) pass: Vec<String>,
    pub(crate) set: Vec<(String, String)>,
}

/// What a terminal is asked for with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalRequest {
    /// Session id.
    pub session_id: String,
    /// Workspace id.
    pub workspace_id: String,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// Mode.
    pub mode: Mode,
    /// Extra protected paths, absolute.
    pub protected_paths: Vec<PathBuf>,
    /// Where the program keeps its own state, absolute: writable in every mode.
    pub runner_state_dirs: Vec<PathBuf>,
    /// Network; absent is open (REQ TM-2).
    pub network: Option<NetworkMode>,
    /// Extra allowed domains (REQ TM-5), wildcards as REQ EG-4; only with `allowlist` and `ask`.
    pub extra_domains: Vec<String>,
    /// Loopback ports to forward (REQ EG-12); not with `open`, whose loopback is the host's.
    pub port_forwards: Vec<PortForward>,
    /// Host sockets to let in (REQ EG-12); not with `open`.
    pub socket_grants: Vec<SocketGrant>,
    /// Which variables of the host reach the payload.
    pub env_policy: super::EnvPolicy,
    /// What files may be made, and from where programs may run.
    pub files: TerminalFiles,
}

impl TerminalRequest {
    /// A terminal in a folder, with nothing that must be asked for.
    #[must_use]
    pub fn plain(session_id: &str, workspace_id: &str, cwd: PathBuf) -> Self {
        Self {
            session_id: session_id.to_owned(),
            workspace_id: workspace_id.to_owned(),
            cwd,
            mode: Mode::Chat,
            protected_paths: Vec::new(),
            runner_state_dirs: Vec::new(),
            network: None,
            extra_domains: Vec::new(),
            port_forwards: Vec::new(),
            socket_grants: Vec::new(),
            env_policy: super::EnvPolicy::default(),
            files: TerminalFiles::default(),
        }
    }
}

/// What a terminal may be asked for with on top of the fixed profile; nothing unless it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalFiles {
    /// Globs refused at creation time (REQ BW-5).
    pub filename_rules: FilenameRules,
    /// Whether programs in writable directories may run (REQ BW-6).
    pub exec_restriction: ExecRestriction,
    /// Trees in which they may all the same, absolute.
    pub exec_grant_roots: Vec<PathBuf>,
}

impl ValidSpec {
    /// Session id.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Workspace id.
    #[must_use]
    pub fn workspace_id(&self) -> &WorkspaceId {
        &self.workspace_id
    }

    /// The agent bound to the sandbox, if any.
    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        self.agent_id.as_deref()
    }

    /// Terminal profile or binds.
    #[must_use]
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The network, defaults applied.
    #[must_use]
    pub fn network(&self) -> NetworkMode {
        self.network
    }

    /// The field by which the network was chosen, where it was not left to the default: of its
    /// mode, else of its allowlist.
    #[must_use]
    pub fn network_field(&self) -> Option<&'static str> {
        self.network_field
    }

    /// What it may reach besides the baseline and GitHub (REQ EG-5), each entry once; empty unless
    /// the network is `allowlist` or `ask`.
    #[must_use]
    pub fn egress_allowlist(&self) -> &[HostPattern] {
        &self.egress
    }

    /// The working directory that the spec names.
    #[must_use]
    pub fn workdir(&self) -> Option<&AbsPath> {
        match &self.form {
            Form::Terminal { cwd } => Some(cwd),
            Form::Binds { workdir, .. } => workdir.as_ref(),
        }
    }

    /// Protected paths as listed (REQ SP-1).
    #[must_use]
    pub fn protected(&self) -> &[AbsPath] {
        &self.protected
    }

    /// Runner state directories as listed.
    #[must_use]
    pub fn runner_state(&self) -> &[AbsPath] {
        &self.runner_state
    }

    /// Ports and sockets that are let through its walls (REQ EG-12), each once; none under an open
    /// network.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The field that asks for the first of them.
    #[must_use]
    pub fn grants_field(&self) -> Option<&'static str> {
        grants_field(&self.grants)
    }

    /// The environment policy.
    #[must_use]
    pub fn env(&self) -> &ValidEnv {
        &self.env
    }

    /// What the session is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Names that cannot be made inside (REQ BW-5).
    #[must_use]
    pub fn filename_rules(&self) -> &ValidFilenameRules {
        &self.filenames
    }

    /// From where programs may run (REQ BW-6).
    #[must_use]
    pub fn exec(&self) -> &ValidExec {
        &self.exec
    }

    /// Folders that the operator approved for the workspace or the session, beside the grants of
    /// the spec. One that makes no sense in this session is left out of it, and does not refuse it.
    #[must_use]
    pub fn approved(&self) -> &[AbsPath] {
        &self.approved
    }

    /// Adds an approved folder; without an exec restriction it means nothing.
    pub fn approve(&mut self, folder: AbsPath) {
        if !self.approved.contains(&folder) {
            self.approved.push(folder);
        }
    }

    /// The field that asks for rules about files that only a sandbox can hold.
    #[must_use]
    pub fn files_field(&self) -> Option<&'static str> {
        if !self.filenames.is_empty() {
            return Some("filenameRules");
        }
        match self.exec {
            ValidExec::Anywhere => None,
            ValidExec::ReadOnly { .. } => Some("execRestriction"),
        }
    }
}

pub(super) fn grants_field(grants: &[Grant]) -> Option<&'static str> {
    grants.first().map(|grant| match grant {
        Grant::PortIn(_) | Grant::PortOut(_) => "portForwards",
        Grant::Socket(_) => "socketGrants",
        Grant::Exec(_) => "execGrantRoots",
    })
}

impl ValidEnv {
    /// Names passed on top of the allowlist.
    #[must_use]
    pub fn pass(&self) -> &[String] {
        &self.pass
    }

    /// Variables set for the payload.
    #[must_use]
    pub fn set(&self) -> &[(String, String)] {
        &self.set
    }
}

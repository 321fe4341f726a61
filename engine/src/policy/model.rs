//! The policy: what a session may see, write and reach. A value; nothing here touches the host.

use super::{ExecPolicy, FileId, FilePolicy, NodeKind};
use crate::backend::Gap;
use crate::probe::SupervisionLack;
use crate::spec::{AbsPath, HostPattern, Mode, NetworkMode, SessionId};

/// The resolved policy of one session. Made by [`super::resolve`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) session_id: SessionId,
    pub(crate) profile: Profile,
    pub(crate) mode: Mode,
    pub(crate) uid: u32,
    pub(crate) home: AbsPath,
    pub(crate) cwd: AbsPath,
    pub(crate) binds: Vec<Bind>,
    pub(crate) private: Vec<PrivateDir>,
    pub(crate) links: Vec<Link>,
    pub(crate) masks: Vec<Mask>,
    /// Secrets that are not there, where the session would see them.
    pub(crate) missing: Vec<AbsPath>,
    pub(crate) assembly: Option<AbsPath>,
    pub(crate) kernel: Vec<AbsPath>,
    /// Where the sandbox's own `/etc/resolv.conf` stands; none under an open network.
    pub(crate) resolver: Option<AbsPath>,
    pub(crate) network: NetworkMode,
    pub(crate) egress: Vec<HostPattern>,
    pub(crate) env: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) withheld: Vec<String>,
    pub(crate) gaps: Vec<Gap>,
    /// What the gaps are where the guard's supervisor does not work.
    pub(crate) unsupervised_gaps: Vec<Gap>,
    /// What the gaps of secrets are where they are hidden again while the session runs.
    pub(crate) watched_gaps: Vec<Gap>,
    pub(crate) files: FilePolicy,
    /// Absent: programs run wherever they are.
    pub(crate) exec: Option<ExecPolicy>,
    /// Why nothing supervises; absent where the supervisor works.
    pub(crate) lack: Option<SupervisionLack>,
    pub(crate) sentences: Vec<String>,
}

/// Which profile made the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The fixed terminal profile (REQ TM-2).
    Terminal,
    /// System runtime and listed binds (REQ BW-1).
    Binds,
    /// The same for an agent, never without its filename rules (REQ BW-4).
    Dispatch,
}

/// A host path visible inside at the same place. Paths are canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The path, outside and inside.
    pub path: AbsPath,
    /// Writable or not.
    pub access: Access,
    /// The inode that was looked at.
    pub id: FileId,
    /// Directory or file.
    pub kind: NodeKind,
    /// Why it is there.
    pub role: BindRole,
}

/// Whether a bind can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read-only.
    Read,
    /// Writable.
    Write,
}

/// Why a bind is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BindRole {
    /// The system's own directories.
    System,
    /// The home directory.
    Home,
    /// The working directory.
    Workdir,
    /// A bind mount of the spec.
    Listed,
    /// A runner state directory.
    RunnerState,
    /// The git directory of a linked worktree or submodule, so that commits work there.
    Repository,
    /// Write-denied inside a writable root.
    Protected,
    /// Bound onto itself so that it cannot be renamed away from what lies below.
    Pinned,
}

/// An empty directory in memory, private to the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateDir {
    /// Where.
    pub path: AbsPath,
    /// Permission bits.
    pub perms: u32,
    /// Made read-only once what belongs below it is mounted.
    pub sealed: bool,
}

/// A symlink recreated inside, where its parent is not a bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where.
    pub path: AbsPath,
    /// Target as written on the host.
    pub target: Vec<u8>,
}

/// A path that exists inside and cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// Canonical path.
    pub path: AbsPath,
    /// Directory or file.
    pub kind: NodeKind,
    /// What it hides.
    pub id: FileId,
}

impl Policy {
    /// The session.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Which profile.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The working directory, canonical.
    #[must_use]
    pub fn cwd(&self) -> &AbsPath {
        &self.cwd
    }

    /// The home directory inside, canonical.
    #[must_use]
    pub fn home(&self) -> &AbsPath {
        &self.home
    }

    /// What is visible of the host.
    #[must_use]
    pub fn binds(&self) -> &[Bind] {
        &self.binds
    }

    /// What is hidden.
    #[must_use]
    pub fn masks(&self) -> &[Mask] {
        &self.masks
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> NetworkMode {
        self.network
    }

    /// What the session may reach besides the baseline and GitHub (REQ EG-5); empty unless the
    /// network is `allowlist` or `ask`.
    #[must_use]
    pub fn egress_allowlist(&self) -> &[HostPattern] {
        &self.egress
    }

    /// The payload's whole environment.
    #[must_use]
    pub fn env(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.env
    }

    /// Names of the host's variables that do not reach the payload.
    #[must_use]
    pub fn withheld(&self) -> &[String] {
        &self.withheld
    }

    /// What the policy wants and the host cannot give, known before launch.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// What names and paths the supervisor holds; nothing does where it does not work.
    #[must_use]
    pub fn files(&self) -> &FilePolicy {
        &self.files
    }

    /// From where programs may run; absent: from wherever they are.
    #[must_use]
    pub fn exec(&self) -> Option<&ExecPolicy> {
        self.exec.as_ref()
    }

    /// What this kernel lacks for the supervisor.
    #[must_use]
    pub fn lack(&self) -> Option<SupervisionLack> {
        self.lack
    }

    /// What the session may do, in sentences; emphasised parts between `**`.
    #[must_use]
    pub fn sentences(&self) -> &[String] {
        &self.sentences
    }
}

//! The launch plan of a native session, as a value.

use super::{BridgePlan, Enforcement, Gap, SeccompArch};
use crate::error::{Coded, Fix};
use crate::policy::FileId;
use crate::spec::{AbsPath, NetworkMode};
use kotak_guard::proto::{Namespace, Setup};

/// Descriptor of bubblewrap's arguments (`--args`).
pub const FD_ARGS: i32 = 10;
/// Descriptor of bubblewrap's status (`--json-status-fd`).
pub const FD_STATUS: i32 = 11;
/// Descriptor of another guard's program, of which a copy is put inside (`--ro-bind-data`).
pub const FD_GUARD_COPY: i32 = 9;
/// Descriptor of the guard's program, which is run from there: it is sealed, so it is the one that
/// the engine carries.
pub const FD_GUARD: i32 = 12;
/// Descriptor of the control socket, kept for the guard.
pub const FD_CONTROL: i32 = 13;
/// Descriptor of the sandbox's own `/etc/resolv.conf` (`--ro-bind-data`).
pub const FD_RESOLVER: i32 = 14;
/// First descriptor of further argument blocks, for plans beyond bubblewrap's argument limit.
pub const FD_MORE_ARGS: i32 = 15;

/// Where the guard's program stands inside, for programs that connect through it; only under a
/// restricted network.
pub const GUARD_PATH: &str = "/run/kotak/guard";

/// What a plan needs to know besides the policy; all observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFacts {
    /// The bubblewrap that the probe's trial used, canonical.
    pub bwrap_path: AbsPath,
    /// Its version.
    pub bwrap_version: (u32, u32, u32),
    /// Architecture of the payload's system calls.
    pub arch: SeccompArch,
    /// Landlock ABI of the kernel, 0 without.
    pub landlock_abi: u32,
    /// The engine's own namespace inodes (`/proc/self/ns/*`), every kind that exists.
    pub namespaces: Vec<(Namespace, u64)>,
}

/// Everything that the process stage needs to launch one native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativePlan {
    /// The program to spawn, with an empty environment.
    pub bwrap: AbsPath,
    /// Its arguments after `argv[0]`: short, the mounts travel in `blocks`.
    pub argv: Vec<Vec<u8>>,
    /// Argument blocks: each goes, as it is, into a sealed memfd at its descriptor number, or through
    /// the pipe of a runner that waits for it.
    pub blocks: Vec<ArgBlock>,
    /// The content of the sandbox's own `/etc/resolv.conf`, at [`FD_RESOLVER`]; absent where there
    /// is none.
    pub resolver: Option<Vec<u8>>,
    /// How a restricted network reaches the engine; without meaning for an open one.
    pub bridge: BridgePlan,
    /// The first message to the guard.
    pub setup: Setup,
    /// Bind sources and what masks hide, to open `O_PATH` before the spawn, compare, and hold
    /// until ready.
    pub pins: Vec<Pin>,
    /// What is kept hidden while the session runs, whatever the host puts there.
    pub secrets: Vec<WatchedPath>,
    /// What is left of the gaps of secrets when that works ([`super::confirm_watch`]).
    pub watched_gaps: Vec<Gap>,
    /// Default working directory inside.
    pub cwd: AbsPath,
    /// The payload's whole environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of the host's variables that were withheld.
    pub withheld: Vec<String>,
    /// The network as launched.
    pub network: NetworkMode,
    /// What is enforced, as far as the plan can know; [`super::confirm`] settles it.
    pub enforcement: Enforcement,
    /// The same for a guard that supervises nothing, should it turn out so.
    pub unsupervised: Enforcement,
    /// What the session may do, in sentences.
    pub sentences: Vec<String>,
}

/// One block of NUL-terminated arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgBlock {
    /// The descriptor number that the child must find it at.
    pub fd: i32,
    /// The arguments.
    pub args: Vec<Vec<u8>>,
}

impl ArgBlock {
    /// The bytes of the memfd: every argument followed by NUL.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.args.iter().map(|arg| arg.len() + 1).sum());
        for arg in &self.args {
            bytes.extend_from_slice(arg);
            bytes.push(0);
        }
        bytes
    }
}

/// A bind source, or what a mask hides, as it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Canonical path on the host.
    pub path: AbsPath,
    /// The inode that must be there.
    pub id: FileId,
    /// A mask hides it; else it is bound.
    pub masked: bool,
    /// The request names it; else the policy found it, and another look finds what is there now.
    pub named: bool,
}

/// A path that a program on the host may give another file: the kernel takes a mask away with the
/// name that it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPath {
    /// Canonical path, the same outside and inside.
    pub path: AbsPath,
    /// The outermost bind that it is seen through.
    pub root: AbsPath,
    /// What must be there.
    pub root_id: FileId,
    /// A mask stood on it from the beginning; else nothing was there.
    pub masked: bool,
}

impl NativePlan {
    /// Whether it has filename rules.
    #[must_use]
    pub fn names_files(&self) -> bool {
        let files = self.setup.files.as_ref();
        files.is_some_and(|files| !files.names.is_empty())
    }

    /// The whole command line with its argument blocks spelt out, for the About view.
    #[must_use]
    pub fn command_line(&self) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut line = vec![self.bwrap.to_string()];
        line.extend(self.argv.iter().map(|arg| text(arg)));
        for block in &self.blocks {
            line.push(format!("# --args {}:", block.fd));
            line.extend(block.args.iter().map(|arg| text(arg)));
        }
        line
    }
}

/// Why no plan can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The bubblewrap found lacks what the plan needs.
    #[error("bubblewrap {}.{}.{} is too old; {}.{}.{} is needed", .found.0, .found.1, .found.2, .needed.0, .needed.1, .needed.2)]
    BubblewrapTooOld {
        /// Found.
        found: (u32, u32, u32),
        /// Needed.
        needed: (u32, u32, u32),
    },
    /// A fact about the engine's own namespaces is missing, so nothing could be compared.
    #[error("the engine's own {0} namespace is not known")]
    NamespaceUnknown(&'static str),
    /// More mounts than the kernel and bubblewrap take.
    #[error("the sandbox needs {needed} mounts, most of them in {folder}; {limit} is the most")]
    TooManyMounts {
        /// Needed.
        needed: usize,
        /// The limit.
        limit: usize,
        /// The folder that most of them lie in.
        folder: String,
    },
    /// A plan of several stages finds no directory to assemble the sandbox's root in.
    #[error("no directory outside the sandbox's paths is there to assemble {mounts} mounts in")]
    NoAssemblyPlace {
        /// How many mounts.
        mounts: usize,
    },
}

impl Coded for PlanError {
    fn code(&self) -> &'static str {
        match self {
            Self::BubblewrapTooOld { .. } => "BUBBLEWRAP_TOO_OLD",
            Self::NamespaceUnknown(_) => "NAMESPACE_UNKNOWN",
            Self::TooManyMounts { .. } | Self::NoAssemblyPlace { .. } => "TOO_MANY_MOUNTS",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::BubblewrapTooOld { .. } => Fix::words("Install a newer bubblewrap."),
            Self::NamespaceUnknown(_) => {
                Fix::words("Make /proc/self/ns readable for the engine; a container may hide it.")
            }
            Self::TooManyMounts { folder, .. } => Fix::words(format!(
                "Work in a smaller folder than {folder}, or list directories instead of the \
                 single files in them."
            )),
            Self::NoAssemblyPlace { .. } => Fix::words(
                "List directories instead of the single files in them, or fewer protected paths.",
            ),
        })
    }
}

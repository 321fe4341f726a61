//! What a probe looks at, as values, and the trait by which it looks (REQ PR-7, PR-8).
//!
//! [`HostProbe`] is the only way from this module to the host. The real one is
//! [`SystemProbe`](super::SystemProbe); tests fake it, so each row of the report can be produced
//! on any machine.

use super::HostFacts;
use kotak_guard::proto::{Check, ReadyReport};
use std::path::{Path, PathBuf};

/// The operating system, as far as backends differ by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Os {
    /// Linux, also under WSL.
    Linux,
    /// macOS.
    Macos,
    /// Windows.
    Windows,
    /// Any other, by the name Rust has for it.
    Other(String),
}

/// The host as the probe sees it. Every method returns what it observed; none judges.
pub trait HostProbe: Sync {
    /// The operating system.
    fn os(&self) -> Os;
    /// CPU architecture, as `std::env::consts::ARCH` says it.
    fn arch(&self) -> String;
    /// The kernel's release, as uname(2) says it.
    fn kernel_release(&self) -> String;
    /// The effective user id; 0 where there is none.
    fn uid(&self) -> u32;
    /// An environment variable.
    fn env(&self, name: &str) -> Option<String>;
    /// The text of a file.
    fn read(&self, path: &Path) -> FileText;
    /// Whether something is there.
    fn exists(&self, path: &Path) -> bool;
    /// Whether a file can be opened for reading.
    fn is_readable(&self, path: &Path) -> bool;
    /// The entries of a directory, sorted; empty when it cannot be listed.
    fn list(&self, dir: &Path) -> Vec<PathBuf>;
    /// Looks a tool up on PATH; see [`ToolSearch`] for what is refused.
    fn find_tool(&self, name: &str) -> ToolSearch;
    /// Runs a trusted tool with a deadline, without input and with a bare environment.
    fn run_tool(&self, path: &Path, args: &[&str]) -> ToolRun;
    /// Landlock's ABI, 0 without Landlock.
    fn landlock_abi(&self) -> u32;
    /// What seccomp can do.
    fn seccomp(&self) -> SeccompFacts;
    /// Makes a user namespace and uses it.
    fn user_namespace(&self) -> UserNamespaceTrial;
    /// Runs the KVM canary.
    fn kvm(&self) -> KvmCanary;
    /// Guest kernels in Kotak's own cache.
    fn image_dir(&self) -> Option<PathBuf>;
    /// Runs the trial sandbox under the production flags.
    fn trial(&self, request: &TrialRequest) -> TrialOutcome;
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// The text of a file, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileText {
    /// The text, lossy.
    Text(String),
    /// There is no such file.
    Missing,
    /// It may not be read.
    Denied,
    /// Something else, in words.
    Failed(String),
}

impl FileText {
    /// The text, when there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Denied | Self::Failed(_) => None,
        }
    }
}

/// The result of looking a tool up on PATH. System directories come first, whatever their place
/// on PATH; what somebody other than root could have replaced is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSearch {
    /// A trusted one.
    Found {
        /// Canonical path: what is run.
        path: PathBuf,
        /// It has the set-user-id bit.
        setuid: bool,
        /// Candidates that were passed over because they cannot be trusted.
        refused: Vec<RefusedTool>,
    },
    /// Only candidates that cannot be trusted.
    Refused(Vec<RefusedTool>),
    /// None.
    Missing,
}

impl ToolSearch {
    /// The path to run, when there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Found { path, .. } => Some(path),
            Self::Refused(_) | Self::Missing => None,
        }
    }
}

/// A candidate that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTool {
    /// As found on PATH.
    pub path: PathBuf,
    /// Why not.
    pub why: Distrust,
}

/// Why a program found on PATH is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    /// The PATH entry is relative or empty, so it means whatever directory is current.
    RelativeEntry,
    /// It lies in the project that Kotak was started in.
    Project(PathBuf),
    /// This file or directory can be written by the user who runs Kotak, and so by whatever that
    /// user runs.
    WritableByUser(PathBuf),
    /// This file or directory can be written by everybody.
    WritableByAll(PathBuf),
    /// Root runs Kotak, and this file or directory belongs to another user.
    OwnedByOther(PathBuf),
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolRun {
    /// It ended by itself.
    Ended {
        /// Its exit code; `None` when a signal ended it.
        code: Option<i32>,
        /// Standard output, lossy, bounded.
        stdout: String,
        /// Standard error, lossy, bounded.
        stderr: String,
    },
    /// It could not be started.
    NotStarted(String),
    /// It did not end in time and was killed.
    TimedOut,
}

/// What seccomp can do here (seccomp(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeccompFacts {
    /// Filters can be loaded.
    pub filters: bool,
    /// `SECCOMP_RET_USER_NOTIF` is a known action and the kernel's structures have the size that
    /// we know.
    pub notify: bool,
    /// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` is a known flag (kernel 5.19).
    pub wait_killable: bool,
}

/// What became of a user namespace made by a child of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespaceTrial {
    /// It was made, and its capabilities work in it.
    Works,
    /// unshare(2) refused it with this errno(3).
    Refused(i32),
    /// It was made, but its capabilities do not work in it: a mount namespace below it was
    /// refused with this errno(3). An AppArmor restriction looks like this.
    Powerless(i32),
    /// The child could not be started or watched.
    NotTried(i32),
}

/// What became of a minimal virtual machine that runs a few instructions in ring 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvmCanary {
    /// The guest ran every instruction and halted.
    Works,
    /// `/dev/kvm` does not exist.
    NoDevice,
    /// `/dev/kvm` may not be opened.
    Denied,
    /// `/dev/kvm` could not be opened, with this errno(3).
    OpenFailed(i32),
    /// The interface has another version than the one that has been stable since 2007.
    WrongVersion(i32),
    /// A step of the set-up failed.
    SetupFailed {
        /// The ioctl.
        step: &'static str,
        /// errno(3).
        errno: i32,
    },
    /// Machines can be made, but guest kernel code does not run on the processor: it is emulated,
    /// without this instruction.
    Emulated {
        /// The instruction that the guest stopped at.
        at: &'static str,
        /// How it stopped, for people.
        exit: String,
    },
    /// The guest did not end in time.
    TimedOut,
    /// The canary's own process died.
    Crashed(String),
    /// There is no canary for this architecture or system.
    NotChecked,
}

/// What a trial launch gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRequest {
    /// The sandbox runner to use: `bwrap` on Linux, `sandbox-exec` on macOS.
    pub runner: PathBuf,
    /// The facts so far, which the trial's policy is decided by.
    pub facts: HostFacts,
}

/// Launches the trial sandbox with the exact production flags; the manager implements it, since
/// only the manager composes stages. It must bound its own time.
pub trait TrialRunner: Send + Sync {
    /// Launches, verifies from inside, ends.
    fn run(&self, request: &TrialRequest) -> TrialOutcome;
}

/// What became of the trial sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialOutcome {
    /// The guard found everything as it should be.
    Ready(Box<ReadyReport>),
    /// The guard ran, and found that it is not where it should be.
    GuardRefused(Check),
    /// The runner failed before the guard said anything.
    RunnerFailed {
        /// What it wrote.
        stderr: String,
        /// Its exit code.
        status: Option<i32>,
    },
    /// The runner could not be started.
    SpawnFailed(String),
    /// No answer in time.
    Timeout,
    /// This version has no launcher for this platform.
    NoLauncher,
}

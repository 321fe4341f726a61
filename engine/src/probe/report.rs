//! The host report: the probe's result as a value.

use crate::backend::SandboxBackend;
use crate::error::{Fix, Problem};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The result of one probe (REQ PR-1); decides enforcement until the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    /// The verdict, as the start-up line and the status bar say it (REQ PR-6).
    pub verdict: HostVerdict,
    /// Every backend, in the order microvm, native, none.
    pub backends: Vec<BackendReport>,
    /// Every capability looked at.
    pub rows: Vec<HostRow>,
    /// The platform.
    pub platform: Platform,
    /// Facts that later stages decide by.
    pub facts: HostFacts,
    /// When, in milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub probed_at_ms: u64,
    /// How long it took, in milliseconds.
    #[ts(type = "number")]
    pub duration_ms: u64,
}

impl HostReport {
    /// The report of one backend.
    #[must_use]
    pub fn backend(&self, backend: SandboxBackend) -> Option<&BackendReport> {
        self.backends
            .iter()
            .find(|report| report.backend == backend)
    }
}

/// The one start-up verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HostVerdict {
    /// Which of the three.
    pub state: VerdictState,
    /// The exact start-up line: `agent sandbox ON` and note, `no OS-native agent sandbox on this
    /// host` and hint, or `agent sandbox DISABLED by --sandbox off`.
    pub line: String,
}

/// The verdict's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum VerdictState {
    /// Native is available and the switch is on.
    On,
    /// Native is not available.
    Unavailable,
    /// The switch is off.
    Disabled,
}

/// Whether a backend can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct BackendReport {
    /// Which.
    pub backend: SandboxBackend,
    /// Whether a session can be launched under it.
    pub available: bool,
    /// A package must be installed first (REQ PR-4).
    pub requires_install: bool,
    /// What it is and protects, one sentence.
    pub note: String,
    /// Why it is not available; set exactly when `available` is false.
    pub problem: Option<Problem>,
}

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HostRow {
    /// Stable id, lower kebab case: `bubblewrap`, `socat`, `user-namespaces`, `landlock`,
    /// `seccomp-notify`, `kernel`, `wsl`, `kvm`, `qemu`, `guest-kernel`, `trial`, …
    pub id: String,
    /// Name for people.
    pub label: String,
    /// Found or not.
    pub status: RowStatus,
    /// What was found.
    pub detail: String,
    /// What it makes possible.
    pub enables: String,
    /// Why it is not there, when it is not.
    pub cause: Option<String>,
    /// What mends it, when something does.
    pub fix: Option<Fix>,
}

/// Whether a capability is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum RowStatus {
    /// There.
    Ok,
    /// There in part.
    Partial,
    /// Not there.
    Missing,
    /// Only told.
    Info,
}

/// The platform, for people and for install hints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// `linux`, `macos`, `windows`, …
    pub os: String,
    /// Distribution or system name and version.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU architecture.
    pub arch: String,
    /// 1 or 2 under WSL.
    pub wsl: Option<u8>,
    /// What container this is, when it is one.
    pub container: Option<String>,
}

/// Facts that policies and plans are decided by; all observed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct HostFacts {
    /// The bubblewrap that the trial used, canonical.
    pub bwrap_path: Option<String>,
    /// Its version as (major, minor, patch).
    pub bwrap_version: Option<(u32, u32, u32)>,
    /// The socat found.
    pub socat_path: Option<String>,
    /// Landlock ABI, 0 without.
    pub landlock_abi: u32,
    /// `SECCOMP_RET_USER_NOTIF` works.
    pub seccomp_notify: bool,
    /// `WAIT_KILLABLE_RECV` works (kernel 5.19).
    pub seccomp_wait_killable: bool,
    /// Yama's `ptrace_scope`; absent without Yama.
    pub ptrace_scope: Option<u32>,
    /// Whether the guard of the trial sandbox could refuse a name; absent where no trial ran.
    pub files_supervised: Option<bool>,
    /// The real user id.
    pub uid: u32,
}

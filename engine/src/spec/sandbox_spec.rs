//! The spec as it stands on the wire.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The specification of one sandbox (REQ SP-0).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SandboxSpec {
    /// Stable session id, usually a space's id.
    pub session_id: String,
    /// The owning workspace.
    pub workspace_id: String,
    /// The agent bound to the sandbox now, if any.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Host to guest mounts; the sandbox sees only the host paths listed.
    #[serde(default)]
    pub bind_mounts: Vec<SandboxBindMount>,
    /// Off only when the rule resolves to deny (REQ EG-7, EG-8).
    #[serde(default = "yes")]
    pub network_enabled: bool,
    /// Extra allowed domains, wildcards as REQ EG-4.
    #[serde(default)]
    pub egress_allowlist: Vec<String>,
    /// Default working directory; a single exec may override it.
    #[serde(default)]
    pub guest_workdir: Option<String>,
    /// Shapes the write rules.
    #[serde(default)]
    pub mode: Mode,
    /// Host paths never writable inside, in any mode (REQ SP-1).
    #[serde(default)]
    pub protected_paths: Vec<String>,
    /// Host directories where the runner keeps its own state, writable in every mode.
    #[serde(default)]
    pub runner_state_dirs: Vec<String>,
    /// Operator-approved trees that re-open the exec restriction.
    #[serde(default)]
    pub exec_grant_roots: Vec<String>,
    /// What the network is. Absent: `open` for a terminal, `allowlist` for a run (REQ EG-8).
    #[serde(default)]
    pub network_mode: Option<NetworkMode>,
    /// Globs refused at creation time, with visible exceptions (REQ BW-5).
    #[serde(default)]
    pub filename_rules: FilenameRules,
    /// Whether programs in writable directories may run (REQ BW-6).
    #[serde(default)]
    pub exec_restriction: ExecRestriction,
    /// Limits.
    #[serde(default)]
    pub resources: Resources,
    /// Host sockets to let in (REQ EG-12).
    #[serde(default)]
    pub socket_grants: Vec<SocketGrant>,
    /// Loopback ports to forward (REQ EG-12).
    #[serde(default)]
    pub port_forwards: Vec<PortForward>,
    /// Which environment variables reach the payload.
    #[serde(default)]
    pub env_policy: EnvPolicy,
}

fn yes() -> bool {
    true
}

/// One host to guest mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SandboxBindMount {
    /// Absolute path on the host.
    pub host_path: String,
    /// The path inside; for native it equals `host_path`, and absent means the same.
    #[serde(default)]
    pub guest_path: Option<String>,
    /// Mount read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// How the run may write (REQ SP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Bind mounts stay writable.
    #[default]
    Chat,
    /// Read-only.
    Review,
    /// Read-only.
    Plan,
    /// Read-only.
    Orchestrate,
}

impl Mode {
    /// Whether bind mounts keep their writability in this mode.
    #[must_use]
    pub fn is_writable(self) -> bool {
        match self {
            Self::Chat => true,
            Self::Review | Self::Plan | Self::Orchestrate => false,
        }
    }
}

/// What the sandbox may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// The host's network, not observed. Terminals only.
    Open,
    /// Listed domains only.
    Allowlist,
    /// Listed domains, a prompt for others.
    Ask,
    /// Nothing.
    Off,
}

/// Filename globs refused at creation time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilenameRules {
    /// Globs, case-insensitive.
    #[serde(default)]
    pub globs: Vec<String>,
    /// Path exceptions, shown to the operator.
    #[serde(default)]
    pub exceptions: Vec<String>,
}

/// Whether programs in writable directories may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ExecRestriction {
    /// No restriction.
    #[default]
    Off,
    /// Nothing in a writable directory may be executed, unless granted.
    Writable,
    /// The same, and nothing there may be mapped executable.
    Strict,
}

/// Resource limits; absent means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// Bytes of memory.
    #[serde(default)]
    #[ts(type = "number | null")]
    pub memory_bytes: Option<u64>,
    /// Thousandths of a CPU.
    #[serde(default)]
    pub cpu_milli: Option<u32>,
    /// Processes and threads.
    #[serde(default)]
    pub processes: Option<u32>,
}

/// A host socket let into the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SocketGrant {
    /// Absolute path of the socket on the host, or `ssh-agent` for the agent that `SSH_AUTH_SOCK`
    /// names there.
    pub host_path: String,
}

/// A loopback port forwarded in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortForward {
    /// Which way.
    pub direction: ForwardDirection,
    /// Port on the host's loopback; 0, or absent, for the same as inside.
    #[serde(default)]
    pub host_port: u16,
    /// Port on the sandbox's loopback.
    pub guest_port: u16,
}

/// Which way a forward opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ForwardDirection {
    /// The host reaches a server inside.
    In,
    /// The sandbox reaches a server on the host.
    Out,
}

/// Which variables of the host's environment reach the payload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvPolicy {
    /// Names passed on top of the built-in allowlist.
    #[serde(default)]
    pub pass: Vec<String>,
    /// Variables set for the payload.
    #[serde(default)]
    pub set: std::collections::BTreeMap<String, String>,
}

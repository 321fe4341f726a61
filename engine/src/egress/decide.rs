//! The decision: a pure function of the request, the session's rules and its mode.
//!
//! Order (design, REQ EG-3…11): fixed denylist → operator deny → address guard → allowlist
//! (baseline, GitHub, spec, operator) → mode. A malformed destination never comes this far: it
//! has no [`Host`].

use crate::spec::Host;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A destination to judge.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Canonical host.
    pub host: Host,
    /// Port, 1 to 65535.
    pub port: u16,
}

/// What the decision says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It passes, and this is why.
    Allow(Allowed),
    /// It does not, and this is why.
    Deny(DenyReason),
    /// No rule covers it, and the mode is ask first.
    Ask,
}

/// Which entry let a destination pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Allowed {
    /// Where the entry comes from.
    pub source: Source,
    /// The entry as written, for example `*.githubusercontent.com`.
    pub pattern: String,
    /// The rule in the store, for entries of the operator.
    #[ts(type = "number | null")]
    pub rule: Option<i64>,
}

/// Where an allowlist entry comes from (REQ EG-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// `BASELINE_ALLOWED_DOMAINS`.
    Baseline,
    /// `GITHUB_DOMAINS`.
    Github,
    /// `SandboxSpec.egressAllowlist`.
    Spec,
    /// A rule of the operator: an answer to a prompt, or an entry made by hand.
    Operator,
}

/// Why a destination is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum DenyReason {
    /// It cannot be read as a host and port (REQ EG-11).
    Malformed,
    /// A cloud metadata endpoint: always denied (REQ EG-6).
    Metadata,
    /// A telemetry collector: always denied (REQ EG-6).
    Telemetry,
    /// A rule of the operator says no.
    OperatorRule,
    /// A loopback, link-local, private or otherwise special address (REQ EG-11).
    AddressRange,
    /// Not on the allowlist.
    NotListed,
    /// The network of the session is off (REQ EG-7).
    NetworkOff,
    /// The operator answered no.
    Answer,
    /// Nobody answered in time (REQ EG-9).
    Timeout,
    /// Nobody is there who could be asked.
    NobodyToAsk,
    /// More questions than the operator can be asked.
    TooManyQuestions,
    /// The TLS server name is not the host that was asked for (REQ EG-11).
    ServerName,
    /// The bytes are not the protocol of the port, or break it.
    Protocol,
    /// The host's name could not be resolved.
    Unresolved,
    /// The operator cut the connection.
    Cut,
}

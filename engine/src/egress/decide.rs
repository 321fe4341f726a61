//! The decision: a pure function of the request, the session's rules and its mode.
//!
//! Order (design, REQ EG-3…11): fixed denylist → operator deny → address guard → allowlist
//! (baseline, GitHub, spec, operator) → mode. A malformed destination never comes this far: it
//! has no [`Host`].

use super::rules::{Restriction, RuleSet, is_localhost};
use super::{address, baseline};
use crate::spec::{Authority, Host, HostError};
use serde::{Deserialize, Serialize};
use std::fmt;
use ts_rs::TS;

/// A destination to judge.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Canonical host.
    pub host: Host,
    /// Port, 1 to 65535.
    pub port: u16,
}

impl Destination {
    /// Reads `host:port`, or a host alone where there is a default port.
    ///
    /// # Errors
    /// As [`Authority::parse`], and [`HostError::NoPort`] without a port and a default.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, HostError> {
        let Authority { host, port } = Authority::parse(text)?;
        let port = port.or(default_port).ok_or(HostError::NoPort)?;
        if port == 0 {
            return Err(HostError::Port);
        }
        Ok(Self { host, port })
    }
}

impl fmt::Display for Destination {
    /// `host:port`, IPv6 in brackets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.host.with_port(self.port))
    }
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

/// Decides about a destination. Names are judged as names here; the addresses that an allowed one
/// resolves to go through [`address::check`] before they are dialled.
#[must_use]
pub fn decide(destination: &Destination, rules: &RuleSet) -> Decision {
    let host = &destination.host;
    if destination.port == 0 {
        return Decision::Deny(DenyReason::Malformed);
    }
    if let Some(reason) = baseline::denied(host) {
        return Decision::Deny(reason);
    }
    if rules.denying(destination).is_some() {
        return Decision::Deny(DenyReason::OperatorRule);
    }
    let special = host
        .as_ip()
        .is_some_and(|address| address::check(address).is_err());
    if special {
        // The fixed lists name no address, and a wildcard covers none: only an entry that names
        // exactly this one is found.
        return match rules.own(destination) {
            Some(allowed) => Decision::Allow(allowed),
            None => Decision::Deny(DenyReason::AddressRange),
        };
    }
    if is_localhost(host) {
        return Decision::Deny(DenyReason::AddressRange);
    }
    let allowed = rules
        .baseline(destination)
        .or_else(|| rules.own(destination));
    match (allowed, rules.restriction()) {
        (Some(allowed), _) => Decision::Allow(allowed),
        (None, Restriction::Allowlist) => Decision::Deny(DenyReason::NotListed),
        (None, Restriction::Ask) => Decision::Ask,
        (None, Restriction::Off) => Decision::Deny(DenyReason::NetworkOff),
    }
}

/// Which entry let a destination pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Allowed {
    /// Where the entry comes from.
    pub source: Source,
    /// The entry as written, for example `*.archive.ubuntu.com`.
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
    /// A port or a socket that the operator granted (REQ EG-12). No list holds one.
    Grant,
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

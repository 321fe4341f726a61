//! The rules of one session as a value (REQ EG-3…8), quick to ask.

use super::decide::{Allowed, DenyReason, Destination, Source};
use super::index::Index;
use super::{address, baseline};
use crate::api::{AnswerScope, ListEntry};
use crate::policy::Policy;
use crate::spec::{Host, HostName, HostPattern, NetworkMode};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// What becomes of a destination that no rule covers; an open network has no rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restriction {
    /// Denied.
    Allowlist,
    /// The operator is asked (REQ EG-9).
    Ask,
    /// Denied, and so is all else: the allowlist is empty (REQ EG-7).
    Off,
}

/// A rule of the operator, of the session or of its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorRule {
    /// Its number in the store.
    pub id: i64,
    /// Allow or deny.
    pub allow: bool,
    /// What it covers.
    pub pattern: HostPattern,
}

/// All rules of a session. A value; cloning it copies a pointer, and a change makes a new one.
#[derive(Debug, Clone)]
pub struct RuleSet(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    restriction: Restriction,
    spec: Vec<HostPattern>,
    operator: Vec<OperatorRule>,
    /// The spec's entries, then the operator's rules that allow, by their place in `allows`.
    allow: Index,
    /// Places in `operator`.
    allows: Vec<usize>,
    deny: Index,
    /// Places in `operator`.
    denies: Vec<usize>,
}

impl Restriction {
    /// The restriction of a network; absent for an open one.
    #[must_use]
    pub fn of(mode: NetworkMode) -> Option<Self> {
        match mode {
            NetworkMode::Open => None,
            NetworkMode::Allowlist => Some(Self::Allowlist),
            NetworkMode::Ask => Some(Self::Ask),
            NetworkMode::Off => Some(Self::Off),
        }
    }
}

impl RuleSet {
    /// Puts the rules of a session together: the baseline and GitHub, `SandboxSpec.
    /// egressAllowlist`, and the operator's rules of the session and its workspace.
    #[must_use]
    pub fn new(
        restriction: Restriction,
        spec: Vec<HostPattern>,
        operator: Vec<OperatorRule>,
    ) -> Self {
        let places = |allow: bool| {
            let rules = operator.iter().enumerate();
            rules
                .filter(|(_, rule)| rule.allow == allow)
                .map(|(place, _)| place)
                .collect::<Vec<_>>()
        };
        let (allows, denies) = (places(true), places(false));
        let patterns = |places: &[usize]| -> Vec<&HostPattern> {
            places
                .iter()
                .filter_map(|place| operator.get(*place))
                .map(|rule| &rule.pattern)
                .collect()
        };
        let allow = Index::new(spec.iter().chain(patterns(&allows)));
        let deny = Index::new(patterns(&denies));
        Self(Arc::new(Rules {
            restriction,
            spec,
            operator,
            allow,
            allows,
            deny,
            denies,
        }))
    }

    /// The rules of a session by its policy; absent for an open network.
    #[must_use]
    pub fn of(policy: &Policy, operator: Vec<OperatorRule>) -> Option<Self> {
        let restriction = Restriction::of(policy.network())?;
        Some(Self::new(
            restriction,
            policy.egress_allowlist().to_vec(),
            operator,
        ))
    }

    /// What becomes of a destination that no rule covers.
    #[must_use]
    pub fn restriction(&self) -> Restriction {
        self.0.restriction
    }

    /// The operator's rules, in the order they were given.
    #[must_use]
    pub fn operator(&self) -> &[OperatorRule] {
        &self.0.operator
    }

    /// The same with other rules of the operator.
    #[must_use]
    pub fn with_operator(&self, operator: Vec<OperatorRule>) -> Self {
        Self::new(self.0.restriction, self.0.spec.clone(), operator)
    }

    /// The rule of the operator that denies a destination.
    #[must_use]
    pub fn denying(&self, destination: &Destination) -> Option<&OperatorRule> {
        let place = self.0.deny.first(&destination.host, destination.port)?;
        self.0.operator.get(*self.0.denies.get(place)?)
    }

    /// The entry of the baseline or of GitHub that covers a destination, when the mode has an
    /// allowlist.
    pub(super) fn baseline(&self, destination: &Destination) -> Option<Allowed> {
        match self.0.restriction {
            Restriction::Allowlist | Restriction::Ask => {
                baseline::allows(&destination.host, destination.port)
            }
            Restriction::Off => None,
        }
    }

    /// The entry of the spec or the operator that covers a destination, when the mode has an
    /// allowlist. For an address that can only be an entry that names it.
    pub(super) fn own(&self, destination: &Destination) -> Option<Allowed> {
        match self.0.restriction {
            Restriction::Allowlist | Restriction::Ask => {}
            Restriction::Off => return None,
        }
        let place = self.0.allow.first(&destination.host, destination.port)?;
        if let Some(pattern) = self.0.spec.get(place) {
            return Some(Allowed {
                source: Source::Spec,
                pattern: pattern.to_string(),
                rule: None,
            });
        }
        let place = place.checked_sub(self.0.spec.len())?;
        let rule = self.0.operator.get(*self.0.allows.get(place)?)?;
        Some(Allowed {
            source: Source::Operator,
            pattern: rule.pattern.to_string(),
            rule: Some(rule.id),
        })
    }

    /// Special addresses that entries of the spec and the operator name by themselves for a port,
    /// so that they may be dialled; never one of the fixed denylist or one that a rule denies.
    #[must_use]
    pub fn excepted(&self, port: u16) -> Vec<IpAddr> {
        match self.0.restriction {
            Restriction::Allowlist | Restriction::Ask => {}
            Restriction::Off => return Vec::new(),
        }
        let operator = self.0.operator.iter().filter(|rule| rule.allow);
        let patterns = self.0.spec.iter().chain(operator.map(|rule| &rule.pattern));
        patterns
            .filter(|pattern| pattern.port().is_none_or(|own| own == port))
            .filter_map(HostPattern::address)
            .filter(|address| {
                let host = Host::Ip(*address);
                address::check(*address).is_err()
                    && baseline::denied(&host).is_none()
                    && self.0.deny.first(&host, port).is_none()
            })
            .collect()
    }

    /// Whether a name may be answered by the DNS inside: on some port it may be reached, or the
    /// operator would be asked.
    ///
    /// # Errors
    /// The reason by which every port of it is refused.
    pub fn answers(&self, name: &HostName) -> Result<(), DenyReason> {
        let host = Host::Name(name.clone());
        if let Some(reason) = baseline::denied(&host) {
            return Err(reason);
        }
        let denied: HashSet<Option<u16>> = self.0.deny.ports(&host).into_iter().collect();
        if denied.contains(&None) {
            return Err(DenyReason::OperatorRule);
        }
        if is_localhost(&host) {
            return Err(DenyReason::AddressRange);
        }
        let is_open = |port: &Option<u16>| match port {
            Some(_) => !denied.contains(port),
            None => denied.len() < usize::from(u16::MAX),
        };
        let allowed = match self.0.restriction {
            Restriction::Off => return Err(DenyReason::NetworkOff),
            Restriction::Ask => vec![None],
            Restriction::Allowlist => {
                let mut ports = baseline::ports(&host);
                ports.extend(self.0.allow.ports(&host));
                ports
            }
        };
        if allowed.is_empty() {
            return Err(DenyReason::NotListed);
        }
        if allowed.iter().any(is_open) {
            Ok(())
        } else {
            Err(DenyReason::OperatorRule)
        }
    }

    /// All that is allowed, grouped by source, in the order of the decision.
    #[must_use]
    pub fn allowed_entries(&self) -> Vec<ListEntry> {
        match self.0.restriction {
            Restriction::Allowlist | Restriction::Ask => {}
            Restriction::Off => return Vec::new(),
        }
        let spec = self.0.spec.iter().map(|pattern| ListEntry {
            pattern: pattern.to_string(),
            source: Source::Spec,
            group: "this session".to_owned(),
            rule: None,
        });
        baseline::allowed_entries()
            .chain(spec)
            .chain(self.operator_entries(true))
            .collect()
    }

    /// All that is denied before any allow: the fixed denylist, then the operator's rules.
    #[must_use]
    pub fn denied_entries(&self) -> Vec<ListEntry> {
        baseline::denied_entries()
            .chain(self.operator_entries(false))
            .collect()
    }

    fn operator_entries(&self, allow: bool) -> impl Iterator<Item = ListEntry> {
        let rules = self.0.operator.iter();
        rules
            .filter(move |rule| rule.allow == allow)
            .map(|rule| ListEntry {
                pattern: rule.pattern.to_string(),
                source: Source::Operator,
                group: "your rules".to_owned(),
                rule: Some(rule.id),
            })
    }
}

/// Names that are the machine itself (RFC 6761 §6.3), whatever a resolver says.
pub(super) fn is_localhost(host: &Host) -> bool {
    host.as_name().is_some_and(|name| {
        let last = name.labels().next_back();
        last == Some("localhost")
    })
}

/// What a lasting answer about a destination stores; absent where the scope has no pattern: an
/// address, and a host right below a public suffix, have no parent (REQ EG-4).
#[must_use]
pub fn lasting_pattern(scope: AnswerScope, destination: &Destination) -> Option<HostPattern> {
    let host = &destination.host;
    match scope {
        AnswerScope::HostPort => Some(HostPattern::exact(host.clone(), Some(destination.port))),
        AnswerScope::Host => Some(HostPattern::exact(host.clone(), None)),
        AnswerScope::Parent => HostPattern::siblings(host.as_name()?),
    }
}

#[cfg(test)]
mod tests;

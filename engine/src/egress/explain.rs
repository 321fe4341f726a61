//! Decisions in words: why, and the narrowest way out.

use super::address::{RangeKind, SpecialRange, check};
use super::baseline;
use super::decide::{Allowed, Decision, DenyReason, Destination, Source, decide};
use super::rules::{RuleSet, is_localhost};
use crate::api::{ExplainedVerdict, Explanation};
use crate::spec::{Host, visible};

/// The port that a destination is tested on when it names none.
const DEFAULT_PORT: u16 = 443;

/// Longest text that is repeated of something that is no destination, in characters.
const SHOWN: usize = 200;

/// Says what would happen to a destination, written `host` or `host:port`.
#[must_use]
pub fn explain(text: &str, rules: &RuleSet) -> Explanation {
    let text = text.trim();
    let destination = match Destination::parse(text, Some(DEFAULT_PORT)) {
        Ok(destination) => destination,
        Err(error) => {
            return Explanation {
                target: visible(&text.chars().take(SHOWN).collect::<String>()),
                unicode: None,
                verdict: ExplainedVerdict::Deny,
                why: format!("it cannot be read as a host and port: {error}"),
                way_out: None,
            };
        }
    };
    let (verdict, why, way_out) = match decide(&destination, rules) {
        Decision::Allow(allowed) => (
            ExplainedVerdict::Allow,
            format!(
                "{} is allowed by {} ({})",
                destination.host,
                allowed.pattern,
                allowed.why()
            ),
            None,
        ),
        Decision::Ask => (
            ExplainedVerdict::Ask,
            format!("no rule covers {destination}, so you are asked"),
            Some(allow(&destination)),
        ),
        Decision::Deny(DenyReason::OperatorRule) => {
            let rule = rules.denying(&destination);
            let pattern = rule.map_or_else(String::new, |rule| format!(" {}", rule.pattern));
            (
                ExplainedVerdict::Deny,
                format!(
                    "{} is denied by your rule{pattern}",
                    named(&destination.host)
                ),
                Some(format!("Remove the rule that denies{pattern}")),
            )
        }
        Decision::Deny(reason) => (
            ExplainedVerdict::Deny,
            reason.sentence(&destination),
            reason.way_out(&destination),
        ),
    };
    Explanation {
        target: destination.to_string(),
        unicode: destination.host.unicode(),
        verdict,
        why,
        way_out,
    }
}

impl Allowed {
    /// What let it pass, in a few words: `package registries`, `GitHub`, `your rule`.
    #[must_use]
    pub fn why(&self) -> &'static str {
        match self.source {
            Source::Baseline | Source::Github => {
                baseline::label(&self.pattern).unwrap_or("the built-in list")
            }
            Source::Spec => "this session's allowlist",
            Source::Operator => "your rule",
            Source::Grant => "your grant",
        }
    }
}

impl DenyReason {
    /// Why, in a few words: `not on the allowlist`.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Malformed => "not a host and port",
            Self::Metadata => "a cloud metadata endpoint, always denied",
            Self::Telemetry => "a telemetry collector, always denied",
            Self::OperatorRule => "denied by your rule",
            Self::AddressRange => "not a public address",
            Self::NotListed => "not on the allowlist",
            Self::NetworkOff => "the network is off",
            Self::Answer => "you answered no",
            Self::Timeout => "nobody answered in time",
            Self::NobodyToAsk => "nobody is there to be asked",
            Self::TooManyQuestions => "more questions than can be asked",
            Self::ServerName => "the TLS server name is another",
            Self::Protocol => "not the protocol of the port",
            Self::Unresolved => "the name could not be resolved",
            Self::Cut => "you cut the connection",
        }
    }

    /// Why, in one sentence about a destination, without a final full stop.
    #[must_use]
    pub fn sentence(self, destination: &Destination) -> String {
        let host = named(&destination.host);
        match self {
            Self::Malformed => format!("{host} cannot be read as a host and port"),
            Self::Metadata => {
                format!("{host} is a cloud metadata endpoint, which is always denied")
            }
            Self::Telemetry => format!("{host} is a telemetry collector, which is always denied"),
            Self::OperatorRule => format!("{host} is denied by your rule"),
            Self::AddressRange => match (&destination.host, special(&destination.host)) {
                (_, Some(range)) => format!("{host} is {range}"),
                (name, None) if is_localhost(name) => {
                    format!("{host} is the machine itself (RFC 6761)")
                }
                (_, None) => format!("{host} leads to an address that is not public"),
            },
            Self::NotListed => format!("{host} is not on the allowlist"),
            Self::NetworkOff => format!("{host} cannot be reached, the network is off"),
            Self::Answer => format!("{host} was denied by your answer"),
            Self::Timeout => format!("{host} was denied, nobody answered in time"),
            Self::NobodyToAsk => format!("{host} was denied, nobody is there to be asked"),
            Self::TooManyQuestions => {
                format!("{host} was denied, there are more questions than can be asked")
            }
            Self::ServerName => format!("{host} is not the TLS server name that was sent"),
            Self::Protocol => {
                format!(
                    "what was sent to {host} is not the protocol of port {}",
                    destination.port
                )
            }
            Self::Unresolved => format!("{host} could not be resolved"),
            Self::Cut => format!("you cut the connection to {host}"),
        }
    }

    /// The narrowest thing that would let a destination pass; absent where nothing can, or where
    /// no rule is in the way.
    #[must_use]
    pub fn way_out(self, destination: &Destination) -> Option<String> {
        match self {
            Self::NotListed
            | Self::Answer
            | Self::Timeout
            | Self::NobodyToAsk
            | Self::TooManyQuestions => Some(allow(destination)),
            Self::OperatorRule => Some("Remove the rule that denies it".to_owned()),
            Self::AddressRange => Some(match (&destination.host, special(&destination.host)) {
                (_, Some(range)) if is_machine(range) => forward(destination.port),
                (_, Some(_)) => allow(destination),
                (host, None) if is_localhost(host) => forward(destination.port),
                (_, None) => "Allow the address that it leads to, by itself".to_owned(),
            }),
            Self::NetworkOff => {
                Some("Start the session with the network allowlist or ask".to_owned())
            }
            Self::Malformed
            | Self::Metadata
            | Self::Telemetry
            | Self::ServerName
            | Self::Protocol
            | Self::Unresolved
            | Self::Cut => None,
        }
    }

    /// What a client is told: [`Self::sentence`] and [`Self::way_out`] as one sentence, without a
    /// final full stop.
    #[must_use]
    pub fn message(self, destination: &Destination) -> String {
        let sentence = self.sentence(destination);
        match self.way_out(destination) {
            Some(way_out) => {
                let (first, rest) = way_out.split_at(1);
                format!("{sentence}; {}{rest}", first.to_ascii_lowercase())
            }
            None => sentence,
        }
    }
}

/// Addresses by which the machine itself is reached; Linux takes the unspecified one for it.
fn is_machine(range: SpecialRange) -> bool {
    matches!(range.kind, RangeKind::Loopback | RangeKind::Unspecified)
}

fn allow(destination: &Destination) -> String {
    format!("Allow {destination} for this session")
}

fn forward(port: u16) -> String {
    format!("Forward port {port} into the session")
}

/// The host, its Unicode form beside it.
fn named(host: &Host) -> String {
    match host.unicode() {
        Some(unicode) => format!("{host} ({unicode})"),
        None => host.to_string(),
    }
}

fn special(host: &Host) -> Option<SpecialRange> {
    check(host.as_ip()?).err()
}

#[cfg(test)]
mod tests;

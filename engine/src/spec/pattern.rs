//! Host patterns: what an entry of an allowlist or a rule of the operator covers (REQ EG-4).

use super::host::{check_characters, split_port};
use super::{Host, HostError, HostName};
use crate::error::{Coded, Fix};
use psl::{List, Psl};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A host, or one of two wildcard forms, on one port or on any; canonical.
///
/// | form | covers | not |
/// |---|---|---|
/// | `example.com`, `192.0.2.1` | that host | anything below it |
/// | `*.example.com` | sub-domains of any depth | `example.com` itself, any address |
/// | `bedrock.*.amazonaws.com` | exactly one label for the `*` | none or two, any address |
///
/// What follows a `*` holds at least a registrable domain by the public suffix list, its private
/// section too: below a suffix such as `github.io` everybody can have a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    form: Form,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    /// One host.
    Exact(Host),
    /// `*.tail`.
    Below { tail: HostName },
    /// `head.*.tail`; the head is one label or more, canonical.
    Between { head: String, tail: HostName },
}

/// A text that is no host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{entry}\" is not a host pattern: {problem}")]
pub struct PatternError {
    /// The entry as written, shortened, unprintable characters escaped.
    pub entry: String,
    /// What is wrong with it.
    pub problem: PatternProblem,
}

/// What is wrong with a host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// It is no host, or has no right port.
    #[error("{0}")]
    Host(HostError),
    /// A scheme or a path.
    #[error("it holds a scheme or a path; only hosts are matched")]
    Url,
    /// `*` alone.
    #[error("it would cover every host")]
    Everything,
    /// More than one `*`.
    #[error("it holds more than one *")]
    ManyStars,
    /// A `*` beside other characters of its label.
    #[error("the * is not a whole label")]
    PartialLabel,
    /// Nothing behind the `*`.
    #[error("nothing stands behind the *")]
    TrailingStar,
    /// A `*` in front of an address.
    #[error("a * never covers addresses")]
    WildcardAddress,
    /// A public suffix behind the `*`.
    #[error("{0} is a public suffix, and below it are the domains of everybody")]
    PublicSuffix(HostName),
}

/// Longest entry that an error repeats, in characters.
const SHOWN: usize = 100;

impl HostPattern {
    /// Reads a pattern, with or without `:port`.
    ///
    /// # Errors
    /// When it is neither a host nor one of the two wildcard forms; the error names the entry.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::read(text, Reach::Owned).map_err(|problem| PatternError {
            entry: shortened(text),
            problem,
        })
    }

    /// Reads the pattern of a stored rule that denies. It may stand below a public suffix: the
    /// list of those grows, and a name that became one since must stay denied.
    ///
    /// # Errors
    /// As [`HostPattern::parse`], but for the public suffix.
    pub fn parse_denial(text: &str) -> Result<Self, PatternError> {
        Self::read(text, Reach::Any).map_err(|problem| PatternError {
            entry: shortened(text),
            problem,
        })
    }

    fn read(text: &str, reach: Reach) -> Result<Self, PatternProblem> {
        check_characters(text)?;
        if text.contains('/') {
            return Err(PatternProblem::Url);
        }
        let (host, port) = split_port(text)?;
        let form = match host.matches('*').count() {
            0 => Form::Exact(Host::parse(host)?),
            1 => wildcard(host, reach)?,
            _ => return Err(PatternProblem::ManyStars),
        };
        Ok(Self { form, port })
    }

    /// One host, on one port or on any.
    #[must_use]
    pub fn exact(host: Host, port: Option<u16>) -> Self {
        Self {
            form: Form::Exact(host),
            port,
        }
    }

    /// `*.parent` on any port, where that is a pattern (REQ EG-4).
    #[must_use]
    pub fn siblings(name: &HostName) -> Option<Self> {
        Self::parse(&format!("*.{}", name.parent()?)).ok()
    }

    /// The port; absent covers every port.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The host that it names by itself; absent for wildcards.
    #[must_use]
    pub fn host(&self) -> Option<&Host> {
        match &self.form {
            Form::Exact(host) => Some(host),
            Form::Below { .. } | Form::Between { .. } => None,
        }
    }

    /// The address that it names by itself.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host().and_then(Host::as_ip)
    }

    /// The part without the port, canonical: `*.example.com`. Two patterns with one such part and
    /// one port are the same.
    #[must_use]
    pub fn host_part(&self) -> String {
        match &self.form {
            Form::Exact(host) => host.to_string(),
            Form::Below { tail } => format!("*.{tail}"),
            Form::Between { head, tail } => format!("{head}.*.{tail}"),
        }
    }

    /// Whether it covers a host on a port.
    #[must_use]
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|own| own == port) && self.matches_host(host)
    }

    /// Whether it covers a host on some port.
    #[must_use]
    pub fn matches_host(&self, host: &Host) -> bool {
        match (&self.form, host) {
            (Form::Exact(own), host) => own == host,
            (Form::Below { .. } | Form::Between { .. }, Host::Ip(_)) => false,
            (Form::Below { tail }, Host::Name(name)) => below(name.as_str(), tail).is_some(),
            (Form::Between { head, tail }, Host::Name(name)) => below(name.as_str(), tail)
                .and_then(|rest| rest.strip_prefix(head.as_str())?.strip_prefix('.'))
                .is_some_and(|label| !label.is_empty() && !label.contains('.')),
        }
    }
}

/// What stands in front of `.tail`; absent where the name is not below the tail.
fn below<'a>(name: &'a str, tail: &HostName) -> Option<&'a str> {
    name.strip_suffix(tail.as_str())?
        .strip_suffix('.')
        .filter(|rest| !rest.is_empty())
}

/// The dots of UTS #46.
fn is_dot(character: char) -> bool {
    matches!(character, '.' | '\u{3002}' | '\u{FF0E}' | '\u{FF61}')
}

/// One of the two forms with one `*`.
/// What a wildcard may cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Names of one owner: nothing directly below a public suffix.
    Owned,
    /// Any names.
    Any,
}

fn wildcard(text: &str, reach: Reach) -> Result<Form, PatternProblem> {
    let text = text.strip_suffix(is_dot).unwrap_or(text);
    let (before, after) = text.split_once('*').unwrap_or((text, ""));
    if before.is_empty() && after.is_empty() {
        return Err(PatternProblem::Everything);
    }
    let whole_label = (before.is_empty() || before.ends_with(is_dot))
        && (after.is_empty() || after.starts_with(is_dot));
    if !whole_label {
        return Err(PatternProblem::PartialLabel);
    }
    let Some(after) = after.strip_prefix(is_dot).filter(|rest| !rest.is_empty()) else {
        return Err(PatternProblem::TrailingStar);
    };
    let tail = HostName::parse(after).map_err(|error| match error {
        HostError::NotAName | HostError::Address => PatternProblem::WildcardAddress,
        other => PatternProblem::Host(other),
    })?;
    // Read as a whole with a label for the star, so that lengths and the rules between labels
    // hold for what it covers.
    let behind = format!("x.{tail}");
    let before = before.strip_suffix(is_dot);
    let form = match before {
        None => {
            HostName::parse(&behind)?;
            Form::Below { tail }
        }
        Some(before) => {
            let whole = HostName::parse(&format!("{before}.{behind}"))?;
            let head = whole
                .as_str()
                .strip_suffix(behind.as_str())
                .and_then(|head| head.strip_suffix('.'))
                .ok_or(PatternProblem::Host(HostError::EmptyLabel))?
                .to_owned();
            Form::Between { head, tail }
        }
    };
    match &form {
        Form::Below { tail } | Form::Between { tail, .. }
            if reach == Reach::Owned && List.domain(tail.as_str().as_bytes()).is_none() =>
        {
            Err(PatternProblem::PublicSuffix(tail.clone()))
        }
        Form::Exact(_) | Form::Below { .. } | Form::Between { .. } => Ok(form),
    }
}

fn shortened(text: &str) -> String {
    let head: String = text.chars().take(SHOWN).collect();
    let mark = if head.len() < text.len() { "…" } else { "" };
    format!("{}{mark}", super::visible(&head))
}

impl From<HostError> for PatternProblem {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl Coded for PatternError {
    fn code(&self) -> &'static str {
        "HOST_PATTERN_INVALID"
    }

    fn fix(&self) -> Option<Fix> {
        Some(match &self.problem {
            PatternProblem::Host(error) => return error.fix(),
            PatternProblem::Url => Fix::words("Leave the scheme and the path out."),
            PatternProblem::Everything
            | PatternProblem::ManyStars
            | PatternProblem::PartialLabel
            | PatternProblem::TrailingStar
            | PatternProblem::WildcardAddress
            | PatternProblem::PublicSuffix(_) => Fix::words(
                "Use *.example.com for what is below a domain, or a.*.example.com for one label.",
            ),
        })
    }
}

impl std::str::FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for HostPattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host(), self.port) {
            (Some(host), Some(port)) => formatter.write_str(&host.with_port(port)),
            (None, Some(port)) => write!(formatter, "{}:{port}", self.host_part()),
            (_, None) => formatter.write_str(&self.host_part()),
        }
    }
}

#[cfg(test)]
mod tests;

//! Hosts in canonical form (REQ EG-11): one spelling for every way to write one name or address.
//!
//! Names follow UTS #46 (non-transitional) into A-labels; addresses follow the rules by which
//! platform resolvers read them (`inet_aton(3)`, RFC 4291), so that nothing that a resolver takes
//! for an address is ever judged as a name.

mod address;
mod error;
mod visible;

pub use error::HostError;
pub use visible::visible;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// Longest name in bytes, without the final dot (RFC 1035 §2.3.4 as text).
pub const MAX_NAME_BYTES: usize = 253;

/// Longest label in bytes (RFC 1035 §2.3.4).
pub const MAX_LABEL_BYTES: usize = 63;

/// Longest text that is looked at in bytes; a name of 253 letters outside ASCII is shorter.
const MAX_INPUT_BYTES: usize = 1024;

/// All of ASCII but letters, digits, hyphen, dot, and the underscore of names such as
/// `_acme-challenge.example.com`, which resolvers do look up.
const DENIED: AsciiDenyList = AsciiDenyList::new(true, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~");

/// A canonical host: what rules match and what is dialled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name.
    Name(HostName),
    /// An address; an IPv4-mapped IPv6 address is held as IPv4.
    Ip(IpAddr),
}

/// A DNS name as it stands in a query: lower-case ASCII (A-labels), without a final dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// A host with or without a port, as a `CONNECT` request line or a person writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, 1 to 65535, when there is one.
    pub port: Option<u16>,
}

impl Host {
    /// Reads a host in any spelling that a resolver takes: names in any case, in Unicode or
    /// punycode, with one final dot; IPv4 in one to four parts, decimal, octal or hexadecimal;
    /// IPv6 with or without brackets.
    ///
    /// # Errors
    /// When it is none, or holds what can only mislead: control, zero-width and bidi characters,
    /// spaces, userinfo, percent-escapes, a zone.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        check_characters(text)?;
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Brackets)?;
            return address::ipv6(inner).map(Self::Ip);
        }
        if text.contains(':') {
            return address::ipv6(text).map(Self::Ip);
        }
        let ascii = canonical_name(text)?;
        match address::ipv4(&ascii)? {
            Some(address) => Ok(Self::Ip(IpAddr::V4(address))),
            None => Ok(Self::Name(HostName(ascii))),
        }
    }

    /// The name, unless it is an address.
    #[must_use]
    pub fn as_name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Ip(_) => None,
        }
    }

    /// The address, unless it is a name.
    #[must_use]
    pub fn as_ip(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Ip(address) => Some(*address),
        }
    }

    /// The Unicode form when it differs, look-alike characters made visible by [`visible`]. To
    /// be drawn beside the canonical form, never instead of it.
    #[must_use]
    pub fn unicode(&self) -> Option<String> {
        let unicode = unicode_of(self.as_name()?)?;
        Some(visible(&unicode))
    }

    /// With a port, IPv6 in brackets (RFC 3986 §3.2.2).
    #[must_use]
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Name(name) => format!("{name}:{port}"),
            Self::Ip(IpAddr::V4(address)) => format!("{address}:{port}"),
            Self::Ip(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        }
    }
}

impl From<IpAddr> for Host {
    /// An IPv4-mapped address becomes IPv4, since that is what is reached by it.
    fn from(address: IpAddr) -> Self {
        Self::Ip(address.to_canonical())
    }
}

impl HostName {
    /// Reads a name.
    ///
    /// # Errors
    /// As [`Host::parse`], and [`HostError::NotAName`] for an address.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Ip(_) => Err(HostError::NotAName),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its labels, the host's own first.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }

    /// The name without its first label; absent for a single label.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.0.split_once('.').map(|(_, parent)| parent)
    }
}

impl Authority {
    /// Reads `host`, `host:port`, `[v6]:port`, or an IPv6 address without brackets, which then
    /// has no port.
    ///
    /// # Errors
    /// As [`Host::parse`], and [`HostError::Port`] for a port that is none.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        // First, so that what is wrong is named by what it is, and not by where it was cut.
        check_characters(text)?;
        let (host, port) = split_port(text)?;
        Ok(Self {
            host: Host::parse(host)?,
            port,
        })
    }
}

/// Cuts a port off. An unbracketed text with more than one colon is an IPv6 address without one.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let after_brackets = match text.strip_prefix('[') {
        Some(inner) => {
            let close = inner.find(']').ok_or(HostError::Brackets)?;
            close + 2
        }
        None if text.matches(':').count() > 1 => return Ok((text, None)),
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(after_brackets);
    if rest.is_empty() {
        return Ok((host, None));
    }
    let digits = rest.strip_prefix(':').ok_or(HostError::Brackets)?;
    if digits.is_empty() || digits.len() > 5 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HostError::Port);
    }
    match digits.parse::<u16>() {
        Ok(0) | Err(_) => Err(HostError::Port),
        Ok(port) => Ok((host, Some(port))),
    }
}

/// Refuses by name what must not even be normalised away: UTS #46 would drop zero-width
/// characters and map others, and two people would read two names.
pub(super) fn check_characters(text: &str) -> Result<(), HostError> {
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    if text.len() > MAX_INPUT_BYTES {
        return Err(HostError::TooLong);
    }
    for character in text.chars() {
        match character {
            _ if character.is_control() => return Err(HostError::Control),
            _ if character.is_whitespace() => return Err(HostError::Space),
            _ if visible::is_invisible(character) => return Err(HostError::Invisible),
            '@' => return Err(HostError::Userinfo),
            '%' if text.contains(':') => return Err(HostError::Zone),
            '%' => return Err(HostError::Percent),
            _ => {}
        }
    }
    Ok(())
}

/// The A-label form: lengths and labels checked, the final dot gone. May still be an address.
fn canonical_name(text: &str) -> Result<String, HostError> {
    if let Some(character) = text.chars().find(|&character| {
        character.is_ascii()
            && !(character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
    }) {
        return Err(HostError::Character(character));
    }
    let mapped = Uts46::new()
        .to_ascii(
            text.as_bytes(),
            DENIED,
            // Names with hyphens in the third and fourth place, and at the end of a label, are
            // in use.
            Hyphens::Allow,
            // Checked below, to say which length it is.
            DnsLength::Ignore,
        )
        .map_err(|_| HostError::Idna)?;
    let name = mapped.strip_suffix('.').unwrap_or(&mapped);
    if name.is_empty() {
        return Err(HostError::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(HostError::TooLong);
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(HostError::EmptyLabel);
        }
        if label.len() > MAX_LABEL_BYTES {
            return Err(HostError::LabelTooLong);
        }
        // RFC 1123 §2.1; a program would take it for an option.
        if label.starts_with('-') {
            return Err(HostError::LeadingHyphen);
        }
    }
    // One rule for both spellings: what is refused in Unicode is refused in punycode.
    let name = HostName(name.to_owned());
    if unicode_of(&name).is_some_and(|unicode| unicode.chars().any(visible::is_invisible)) {
        return Err(HostError::Invisible);
    }
    Ok(name.0)
}

fn unicode_of(name: &HostName) -> Option<String> {
    if !name.labels().any(|label| label.starts_with("xn--")) {
        return None;
    }
    let (unicode, _) = Uts46::new().to_unicode(name.0.as_bytes(), DENIED, Hyphens::Allow);
    (unicode != name.0).then(|| unicode.into_owned())
}

impl TryFrom<String> for HostName {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        Self::parse(&text)
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(formatter),
            Self::Ip(address) => address.fmt(formatter),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => formatter.write_str(&self.host.with_port(port)),
            None => self.host.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests;

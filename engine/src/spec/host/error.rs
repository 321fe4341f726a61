//! Why a text is no host.

use super::{MAX_LABEL_BYTES, MAX_NAME_BYTES};
use crate::error::{Coded, Fix};

/// Why a text is no host; none of these is ever matched against a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing, or only a dot.
    #[error("it is empty")]
    Empty,
    /// More than a name can be.
    #[error("it is longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// NUL, CR, LF or another control character.
    #[error("it holds a control character")]
    Control,
    /// A space of any kind.
    #[error("it holds a space")]
    Space,
    /// A character that is not drawn, or that turns the direction of the text.
    #[error("it holds an invisible or direction-changing character")]
    Invisible,
    /// `user@host`.
    #[error("it holds userinfo (\"@\")")]
    Userinfo,
    /// A percent-escape.
    #[error("it holds a percent-escape")]
    Percent,
    /// An IPv6 zone, which means something on one machine only.
    #[error("it holds a zone (\"%\")")]
    Zone,
    /// An ASCII character that no name holds.
    #[error("it holds {0:?}, which no host name does")]
    Character(char),
    /// Two dots, or a dot in front.
    #[error("it has an empty label")]
    EmptyLabel,
    /// A label is too long.
    #[error("one of its labels is longer than {MAX_LABEL_BYTES} bytes")]
    LabelTooLong,
    /// A label begins with a hyphen.
    #[error("one of its labels begins with a hyphen")]
    LeadingHyphen,
    /// Not a name by UTS #46: characters that no name may hold, or broken punycode.
    #[error("it is not a valid internationalised name")]
    Idna,
    /// It looks like an address to a resolver, and is none.
    #[error("it looks like an address and is none")]
    Address,
    /// Brackets that do not stand around an IPv6 address.
    #[error("its brackets do not hold an IPv6 address")]
    Brackets,
    /// Not a port from 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// No port where one is needed.
    #[error("it has no port")]
    NoPort,
    /// An address where only a name will do.
    #[error("it is an address, not a name")]
    NotAName,
}

impl Coded for HostError {
    fn code(&self) -> &'static str {
        "HOST_INVALID"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Port | Self::NoPort => "Write it as host:port, with a port from 1 to 65535.",
            Self::Zone => "Leave the zone out; an address must mean the same everywhere.",
            Self::Brackets => "Write an IPv6 address with a port as [address]:port.",
            Self::NotAName => "Write a host name.",
            Self::Empty
            | Self::TooLong
            | Self::Control
            | Self::Space
            | Self::Invisible
            | Self::Userinfo
            | Self::Percent
            | Self::Character(_)
            | Self::EmptyLabel
            | Self::LabelTooLong
            | Self::LeadingHyphen
            | Self::Idna
            | Self::Address => "Write a host name or an address, and nothing else.",
        }))
    }
}

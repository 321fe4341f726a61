//! Hosts in canonical form (REQ EG-11).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

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
#[serde(transparent)]
pub struct HostName(pub(super) String);

impl HostName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
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

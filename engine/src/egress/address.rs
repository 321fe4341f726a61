//! The address guard (REQ EG-11): which addresses are no host of the public network.
//!
//! By the special-purpose registries of IANA (RFC 6890 and its updates), stricter where they call
//! a range reachable that a sandbox has no use for. An IPv6 address that stands for an IPv4 one
//! is judged by that. Network-specific NAT64 prefixes (RFC 6052 §2.2) look like any other address
//! and cannot be told.

use super::decide::DenyReason;
use crate::policy::{BASELINE_DENIED_DOMAINS, DeniedHost};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range that is no part of the public network, and why an address counts to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpecialRange {
    /// First address of the range.
    pub base: IpAddr,
    /// Bits of it that count.
    pub prefix: u8,
    /// What it is for.
    pub kind: RangeKind,
    /// Who says so: an RFC, or the fixed denylist.
    pub source: &'static str,
    /// The form in which an IPv6 address holds the IPv4 address that was judged.
    pub embedding: Option<&'static str>,
}

/// What a special range is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RangeKind {
    /// The machine's credentials, see `BASELINE_DENIED_DOMAINS`.
    Metadata,
    /// No address at all, or "this network".
    Unspecified,
    /// The machine itself.
    Loopback,
    /// A network of one's own.
    Private,
    /// Between a provider and its customers.
    CarrierNat,
    /// The cable or radio that the machine is on.
    LinkLocal,
    /// A network of one's own, IPv6.
    UniqueLocal,
    /// The same, as it was before.
    SiteLocal,
    /// Many at once.
    Multicast,
    /// All at once.
    Broadcast,
    /// For examples in text.
    Documentation,
    /// For measuring network devices.
    Benchmarking,
    /// For protocols, not hosts.
    Protocol,
    /// Translation that means something in one network only.
    Translation,
    /// Thrown away.
    Discard,
    /// Not in use.
    Reserved,
}

impl SpecialRange {
    /// The reason by which a connection to it is refused.
    #[must_use]
    pub fn reason(&self) -> DenyReason {
        match self.kind {
            RangeKind::Metadata => DenyReason::Metadata,
            RangeKind::Unspecified
            | RangeKind::Loopback
            | RangeKind::Private
            | RangeKind::CarrierNat
            | RangeKind::LinkLocal
            | RangeKind::UniqueLocal
            | RangeKind::SiteLocal
            | RangeKind::Multicast
            | RangeKind::Broadcast
            | RangeKind::Documentation
            | RangeKind::Benchmarking
            | RangeKind::Protocol
            | RangeKind::Translation
            | RangeKind::Discard
            | RangeKind::Reserved => DenyReason::AddressRange,
        }
    }
}

impl RangeKind {
    /// For people: `a private address`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Metadata => "a cloud metadata address",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::CarrierNat => "an address of carrier-grade NAT",
            Self::LinkLocal => "a link-local address",
            Self::UniqueLocal => "a unique local address",
            Self::SiteLocal => "a site-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Documentation => "a documentation address",
            Self::Benchmarking => "a benchmarking address",
            Self::Protocol => "an address of a protocol",
            Self::Translation => "an address of a local translator",
            Self::Discard => "a discard address",
            Self::Reserved => "a reserved address",
        }
    }
}

impl fmt::Display for SpecialRange {
    /// `a private address (10.0.0.0/8, RFC 1918)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} ({}/{}, {}",
            self.kind.words(),
            self.base,
            self.prefix,
            self.source
        )?;
        if let Some(embedding) = self.embedding {
            write!(formatter, ", by way of {embedding}")?;
        }
        formatter.write_str(")")
    }
}

impl std::error::Error for SpecialRange {}

/// Base, prefix length, kind, source; the first that holds an address is its range.
type Row<A> = (A, u8, RangeKind, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(high: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits((high as u128) << 64)
}

const IPV4: [Row<Ipv4Addr>; 16] = [
    (v4(0, 0, 0, 0), 8, RangeKind::Unspecified, "RFC 1122"),
    (v4(10, 0, 0, 0), 8, RangeKind::Private, "RFC 1918"),
    (v4(100, 64, 0, 0), 10, RangeKind::CarrierNat, "RFC 6598"),
    (v4(127, 0, 0, 0), 8, RangeKind::Loopback, "RFC 1122"),
    (v4(169, 254, 0, 0), 16, RangeKind::LinkLocal, "RFC 3927"),
    (v4(172, 16, 0, 0), 12, RangeKind::Private, "RFC 1918"),
    (v4(192, 0, 0, 0), 24, RangeKind::Protocol, "RFC 6890"),
    (v4(192, 0, 2, 0), 24, RangeKind::Documentation, "RFC 5737"),
    (v4(192, 88, 99, 0), 24, RangeKind::Protocol, "RFC 7526"),
    (v4(192, 168, 0, 0), 16, RangeKind::Private, "RFC 1918"),
    (v4(198, 18, 0, 0), 15, RangeKind::Benchmarking, "RFC 2544"),
    (
        v4(198, 51, 100, 0),
        24,
        RangeKind::Documentation,
        "RFC 5737",
    ),
    (v4(203, 0, 113, 0), 24, RangeKind::Documentation, "RFC 5737"),
    (v4(224, 0, 0, 0), 4, RangeKind::Multicast, "RFC 5771"),
    (v4(255, 255, 255, 255), 32, RangeKind::Broadcast, "RFC 8190"),
    (v4(240, 0, 0, 0), 4, RangeKind::Reserved, "RFC 1112"),
];

const IPV6: [Row<Ipv6Addr>; 15] = [
    (
        Ipv6Addr::UNSPECIFIED,
        128,
        RangeKind::Unspecified,
        "RFC 4291",
    ),
    (Ipv6Addr::LOCALHOST, 128, RangeKind::Loopback, "RFC 4291"),
    // "IPv4-compatible", deprecated.
    (Ipv6Addr::UNSPECIFIED, 96, RangeKind::Reserved, "RFC 4291"),
    (
        v6(0x0064_ff9b_0001_0000),
        48,
        RangeKind::Translation,
        "RFC 8215",
    ),
    (
        v6(0x0100_0000_0000_0000),
        64,
        RangeKind::Discard,
        "RFC 6666",
    ),
    (
        v6(0x0100_0000_0000_0001),
        64,
        RangeKind::Protocol,
        "RFC 9780",
    ),
    (
        v6(0x2001_0002_0000_0000),
        48,
        RangeKind::Benchmarking,
        "RFC 5180",
    ),
    (
        v6(0x2001_0000_0000_0000),
        23,
        RangeKind::Protocol,
        "RFC 2928",
    ),
    (
        v6(0x2001_0db8_0000_0000),
        32,
        RangeKind::Documentation,
        "RFC 3849",
    ),
    (
        v6(0x3fff_0000_0000_0000),
        20,
        RangeKind::Documentation,
        "RFC 9637",
    ),
    (
        v6(0x5f00_0000_0000_0000),
        16,
        RangeKind::Protocol,
        "RFC 9602",
    ),
    (
        v6(0xfc00_0000_0000_0000),
        7,
        RangeKind::UniqueLocal,
        "RFC 4193",
    ),
    (
        v6(0xfe80_0000_0000_0000),
        10,
        RangeKind::LinkLocal,
        "RFC 4291",
    ),
    (
        v6(0xfec0_0000_0000_0000),
        10,
        RangeKind::SiteLocal,
        "RFC 3879",
    ),
    (
        v6(0xff00_0000_0000_0000),
        8,
        RangeKind::Multicast,
        "RFC 4291",
    ),
];

/// All of IPv6 outside global unicast (2000::/3).
const NOT_GLOBAL: Row<Ipv6Addr> = (
    Ipv6Addr::UNSPECIFIED,
    0,
    RangeKind::Reserved,
    "RFC 4291, outside 2000::/3",
);

/// Whether an address may be dialled without being named by a rule.
///
/// # Errors
/// The range that it counts to, when that is no part of the public network.
pub fn check(address: IpAddr) -> Result<(), SpecialRange> {
    match address.to_canonical() {
        IpAddr::V4(address) => check_v4(address, None),
        IpAddr::V6(address) => check_v6(address),
    }
}

fn check_v4(address: Ipv4Addr, embedding: Option<&'static str>) -> Result<(), SpecialRange> {
    check_metadata(IpAddr::V4(address), embedding)?;
    let bits = address.to_bits();
    let found = IPV4.iter().find(|(base, prefix, ..)| {
        let rest = 32 - u32::from(*prefix);
        (bits ^ base.to_bits()).checked_shr(rest).unwrap_or(0) == 0
    });
    match found {
        Some(&(base, prefix, kind, source)) => Err(SpecialRange {
            base: IpAddr::V4(base),
            prefix,
            kind,
            source,
            embedding,
        }),
        None => Ok(()),
    }
}

fn check_v6(address: Ipv6Addr) -> Result<(), SpecialRange> {
    check_metadata(IpAddr::V6(address), None)?;
    let special = |(base, prefix, kind, source): Row<Ipv6Addr>| SpecialRange {
        base: IpAddr::V6(base),
        prefix,
        kind,
        source,
        embedding: None,
    };
    let (translated, inner) = embedded(address);
    for (address, embedding) in inner.into_iter().flatten() {
        check_v4(address, Some(embedding))?;
    }
    if translated {
        return Ok(());
    }
    let holds = |row: &&Row<Ipv6Addr>| is_within(address, row.0, row.1);
    match IPV6.iter().find(holds) {
        Some(row) => Err(special(*row)),
        None if !is_within(address, v6(0x2000_0000_0000_0000), 3) => Err(special(NOT_GLOBAL)),
        None => Ok(()),
    }
}

fn check_metadata(address: IpAddr, embedding: Option<&'static str>) -> Result<(), SpecialRange> {
    if !is_metadata(address) {
        return Ok(());
    }
    Err(SpecialRange {
        base: address,
        prefix: if address.is_ipv4() { 32 } else { 128 },
        kind: RangeKind::Metadata,
        source: "the fixed denylist",
        embedding,
    })
}

fn is_metadata(address: IpAddr) -> bool {
    BASELINE_DENIED_DOMAINS
        .iter()
        .filter(|group| group.kind == DeniedHost::Metadata)
        .any(|group| group.addresses.contains(&address))
}

fn is_within(address: Ipv6Addr, base: Ipv6Addr, prefix: u8) -> bool {
    let rest = 128 - u32::from(prefix);
    (address.to_bits() ^ base.to_bits())
        .checked_shr(rest)
        .unwrap_or(0)
        == 0
}

/// The IPv4 addresses that an IPv6 address stands for, with the form's name; and whether its whole
/// prefix is one of translation, so that nothing but those counts.
fn embedded(address: Ipv6Addr) -> (bool, [Option<(Ipv4Addr, &'static str)>; 2]) {
    let octets = address.octets();
    let at = |first: usize, flip: u8| {
        let mut found = [0u8; 4];
        for (to, from) in found.iter_mut().zip(octets.iter().skip(first)) {
            *to = from ^ flip;
        }
        Ipv4Addr::from(found)
    };
    let within = |bits: u128, prefix| is_within(address, Ipv6Addr::from_bits(bits), prefix);
    if within(0x0064_ff9b_0000_0000_0000_0000_0000_0000, 96) {
        return (true, [Some((at(12, 0), "NAT64 (RFC 6052)")), None]);
    }
    if within(0x0000_0000_0000_0000_ffff_0000_0000_0000, 96) {
        return (true, [Some((at(12, 0), "SIIT (RFC 2765)")), None]);
    }
    if within(0x2002_0000_0000_0000_0000_0000_0000_0000, 16) {
        return (true, [Some((at(2, 0), "6to4 (RFC 3056)")), None]);
    }
    if within(0x2001_0000_0000_0000_0000_0000_0000_0000, 32) {
        // The server as it is, the client's end with every bit turned.
        let server = Some((at(4, 0), "Teredo (RFC 4380)"));
        return (true, [server, Some((at(12, 0xff), "Teredo (RFC 4380)"))]);
    }
    // Any prefix, and an interface identifier that says ISATAP.
    let isatap = matches!(octets.get(8..12), Some([0 | 2, 0, 0x5e, 0xfe]));
    let inner = isatap.then(|| (at(12, 0), "ISATAP (RFC 5214)"));
    (false, [inner, None])
}

#[cfg(test)]
mod tests;

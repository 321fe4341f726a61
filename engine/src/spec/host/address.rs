//! Addresses in every spelling that a platform's resolver takes.

use super::HostError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv6 text (RFC 4291 §2.2), an IPv4-mapped address turned into IPv4.
pub(super) fn ipv6(text: &str) -> Result<IpAddr, HostError> {
    text.parse::<Ipv6Addr>()
        .map(|address| IpAddr::V6(address).to_canonical())
        .map_err(|_| HostError::Address)
}

/// Whether a canonical name is an IPv4 address to a resolver: `inet_aton(3)`, which `getaddrinfo`
/// of glibc, musl, macOS and Windows goes by, takes one to four parts, each decimal, octal (`0`)
/// or hexadecimal (`0x`), the last of which fills the bytes that are left.
///
/// A name whose last label is a number is an address or nothing (WHATWG URL, "ends in a number").
pub(super) fn ipv4(name: &str) -> Result<Option<Ipv4Addr>, HostError> {
    let last = name.rsplit('.').next().unwrap_or(name);
    if !is_numeric(last) {
        return Ok(None);
    }
    let parts = name
        .split('.')
        .map(number)
        .collect::<Option<Vec<u32>>>()
        .ok_or(HostError::Address)?;
    let (Some((&low, high)), 1..=4) = (parts.split_last(), parts.len()) else {
        return Err(HostError::Address);
    };
    let mut octets = [0u8; 4];
    for (octet, part) in octets.iter_mut().zip(high) {
        *octet = u8::try_from(*part).map_err(|_| HostError::Address)?;
    }
    // The bytes that the last part fills, and those it must leave alone.
    let filled = low.to_be_bytes();
    for (index, (octet, byte)) in octets.iter_mut().zip(filled).enumerate() {
        if index >= high.len() {
            *octet = byte;
        } else if byte != 0 {
            return Err(HostError::Address);
        }
    }
    Ok(Some(Ipv4Addr::from(octets)))
}

/// All digits, or with a prefix by which C reads a number; binary too, which newer C libraries
/// take (C23) and none should here.
fn is_numeric(label: &str) -> bool {
    if let Some(digits) = label.strip_prefix("0x") {
        return digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if let Some(digits) = label.strip_prefix("0b") {
        return digits.bytes().all(|byte| matches!(byte, b'0' | b'1'));
    }
    label.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(label: &str) -> Option<u32> {
    let (digits, radix) = match label.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if label.len() > 1 && label.starts_with('0') => (label, 8),
        None => (label, 10),
    };
    // `from_str_radix` takes a sign; a label holds none but a hyphen, which no radix digit is.
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

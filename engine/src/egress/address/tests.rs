use super::*;
use crate::spec::Host;
use proptest::prelude::*;

fn kind(text: &str) -> Option<RangeKind> {
    let host = Host::parse(text).unwrap();
    check(host.as_ip().unwrap()).err().map(|range| range.kind)
}

#[test]
fn each_range_is_named_at_its_first_and_last_address() {
    let cases = [
        ("0.0.0.0", "0.255.255.255", RangeKind::Unspecified),
        ("10.0.0.0", "10.255.255.255", RangeKind::Private),
        ("100.64.0.0", "100.127.255.255", RangeKind::CarrierNat),
        ("127.0.0.0", "127.255.255.255", RangeKind::Loopback),
        ("169.254.0.0", "169.254.255.255", RangeKind::LinkLocal),
        ("172.16.0.0", "172.31.255.255", RangeKind::Private),
        ("192.0.0.0", "192.0.0.255", RangeKind::Protocol),
        ("192.0.2.0", "192.0.2.255", RangeKind::Documentation),
        ("192.88.99.0", "192.88.99.255", RangeKind::Protocol),
        ("192.168.0.0", "192.168.255.255", RangeKind::Private),
        ("198.18.0.0", "198.19.255.255", RangeKind::Benchmarking),
        ("198.51.100.0", "198.51.100.255", RangeKind::Documentation),
        ("203.0.113.0", "203.0.113.255", RangeKind::Documentation),
        ("224.0.0.0", "239.255.255.255", RangeKind::Multicast),
        ("240.0.0.0", "255.255.255.254", RangeKind::Reserved),
        ("255.255.255.255", "255.255.255.255", RangeKind::Broadcast),
        ("::", "::", RangeKind::Unspecified),
        ("::1", "::1", RangeKind::Loopback),
        ("::2", "::ffff:ffff", RangeKind::Reserved),
        (
            "64:ff9b:1::",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Translation,
        ),
        ("100::", "100::ffff:ffff:ffff:ffff", RangeKind::Discard),
        (
            "100:0:0:1::",
            "100:0:0:1:ffff:ffff:ffff:ffff",
            RangeKind::Protocol,
        ),
        (
            "2001:2::",
            "2001:2:0:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Benchmarking,
        ),
        (
            "2001:1::",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Protocol,
        ),
        (
            "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Documentation,
        ),
        (
            "3fff::",
            "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Documentation,
        ),
        (
            "5f00::",
            "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Protocol,
        ),
        (
            "fc00::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::UniqueLocal,
        ),
        (
            "fe80::",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::LinkLocal,
        ),
        (
            "fec0::",
            "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::SiteLocal,
        ),
        (
            "ff00::",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            RangeKind::Multicast,
        ),
        ("4000::", "5eff::", RangeKind::Reserved),
        ("64:ff9c::", "1fff::", RangeKind::Reserved),
    ];
    for (first, last, wanted) in cases {
        assert_eq!(kind(first), Some(wanted), "{first}");
        assert_eq!(kind(last), Some(wanted), "{last}");
    }
}

#[test]
fn what_lies_beside_the_ranges_is_public() {
    for public in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "203.0.114.0",
        "223.255.255.255",
        "168.63.129.15",
        "93.184.216.34",
        "2000::",
        "2001:200::",
        "2001:db7:ffff::",
        "2001:db9::",
        "2606:2800:220:1:248:1893:25c8:1946",
        "3ffe:ffff::",
        "3fff:1000::",
    ] {
        assert_eq!(kind(public), None, "{public}");
    }
}

#[test]
fn metadata_addresses_are_named_as_such_in_every_form() {
    for text in [
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "0xa9fea9fe",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "::ffff:0:169.254.169.254",
        "fe80::a9fe:a9fe",
        "2606:4700::5efe:169.254.169.254",
    ] {
        assert_eq!(kind(text), Some(RangeKind::Metadata), "{text}");
    }
    let range = check("169.254.169.254".parse().unwrap()).unwrap_err();
    assert_eq!(range.reason(), DenyReason::Metadata);
    let range = check("169.254.169.1".parse().unwrap()).unwrap_err();
    assert_eq!(range.reason(), DenyReason::AddressRange);
}

#[test]
fn a_range_says_what_it_is_and_who_says_so() {
    let words = |text: &str| {
        let host = Host::parse(text).unwrap();
        check(host.as_ip().unwrap()).unwrap_err().to_string()
    };
    assert_eq!(
        words("10.1.2.3"),
        "a private address (10.0.0.0/8, RFC 1918)"
    );
    assert_eq!(words("::1"), "a loopback address (::1/128, RFC 4291)");
    assert_eq!(
        words("64:ff9b::10.1.2.3"),
        "a private address (10.0.0.0/8, RFC 1918, by way of NAT64 (RFC 6052))"
    );
    assert_eq!(
        words("169.254.169.254"),
        "a cloud metadata address (169.254.169.254/32, the fixed denylist)"
    );
}

/// The IPv6 addresses that stand for an IPv4 one.
fn embeddings(inner: Ipv4Addr, rest: u64) -> Vec<Ipv6Addr> {
    let low = u128::from(inner.to_bits());
    let public = u128::from(Ipv4Addr::new(93, 184, 216, 34).to_bits());
    vec![
        Ipv6Addr::from_bits((0xffff << 32) | low),
        Ipv6Addr::from_bits((0x0064_ff9b << 96) | low),
        Ipv6Addr::from_bits((0xffff << 48) | low),
        Ipv6Addr::from_bits((0x2002 << 112) | (low << 80) | u128::from(rest)),
        // Teredo: as the server, and turned round as the client.
        Ipv6Addr::from_bits((0x2001_0000 << 96) | (low << 64) | (public ^ 0xffff_ffff)),
        Ipv6Addr::from_bits((0x2001_0000 << 96) | (public << 64) | (low ^ 0xffff_ffff)),
    ]
}

/// What the standard library calls special.
fn special_by_std(address: Ipv4Addr) -> bool {
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_unspecified()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn an_embedded_address_is_judged_as_the_address_itself(
        octets in prop_oneof![
            any::<[u8; 4]>(),
            any::<[u8; 3]>().prop_map(|[b, c, d]| [10, b, c, d]),
            any::<[u8; 2]>().prop_map(|[c, d]| [169, 254, c, d]),
            Just([168, 63, 129, 16]),
        ],
        rest: u64,
    ) {
        let inner = Ipv4Addr::from(octets);
        let alone = check(IpAddr::V4(inner)).map_err(|range| range.kind);
        for outer in embeddings(inner, rest) {
            prop_assert_eq!(
                check(IpAddr::V6(outer)).map_err(|range| range.kind),
                alone,
                "{} in {}", inner, outer
            );
        }
    }

    #[test]
    fn what_the_standard_library_calls_special_is_refused(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        prop_assert!(!special_by_std(address) || check(IpAddr::V4(address)).is_err());
    }

    #[test]
    fn only_global_unicast_and_translated_ipv6_passes(bits: u128) {
        let address = Ipv6Addr::from_bits(bits);
        let first = address.segments()[0];
        let translated = first == 0x64 || bits >> 48 == 0 || bits >> 48 == 0xffff;
        if check(IpAddr::V6(address)).is_ok() {
            prop_assert!((0x2000..0x4000).contains(&first) || translated, "{}", address);
        }
        prop_assert!(!address.is_multicast() || check(IpAddr::V6(address)).is_err());
        prop_assert!(!address.is_unique_local() || check(IpAddr::V6(address)).is_err());
        prop_assert!(!address.is_unicast_link_local() || check(IpAddr::V6(address)).is_err());
    }

    #[test]
    fn the_named_range_holds_the_address(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        if let Err(range) = check(IpAddr::V4(address)) {
            let IpAddr::V4(base) = range.base else { panic!("{range}") };
            let mask = u32::MAX.checked_shl(32 - u32::from(range.prefix)).unwrap_or(0);
            prop_assert_eq!(bits & mask, base.to_bits(), "{}: {}", address, range);
        }
    }
}

use super::*;
use crate::error::Coded;
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn canonical(text: &str) -> String {
    Host::parse(text)
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
        .to_string()
}

fn refused(text: &str) -> HostError {
    match Host::parse(text) {
        Ok(host) => panic!("{text:?} was read as {host}"),
        Err(error) => error,
    }
}

#[test]
fn case_and_a_final_dot_are_normalised() {
    for text in ["EXAMPLE.com", "example.com.", "Example.COM.", "example.com"] {
        assert_eq!(canonical(text), "example.com", "{text}");
    }
    assert_eq!(canonical("a_b.example.com"), "a_b.example.com");
    assert_eq!(
        canonical("r3---sn-4g5e6nsz.example"),
        "r3---sn-4g5e6nsz.example"
    );
    assert_eq!(canonical("user-.example.com"), "user-.example.com");
    assert_eq!(canonical("localhost"), "localhost");
}

#[test]
fn unicode_and_punycode_spellings_of_one_name_are_one_name() {
    for text in [
        "bücher.example",
        "BÜCHER.example",
        "bu\u{308}cher.example",
        "xn--bcher-kva.example",
        "XN--BCHER-KVA.EXAMPLE",
        "bücher。example",
        "ｂücher.ｅxample．",
    ] {
        assert_eq!(canonical(text), "xn--bcher-kva.example", "{text}");
    }
    // Non-transitional: the sharp s is a letter of its own (UTS #46 revision 31).
    assert_eq!(canonical("straße.example"), "xn--strae-oqa.example");
    assert_eq!(canonical("ｅｘａｍｐｌｅ．com"), "example.com");
}

#[test]
fn broken_punycode_and_forbidden_characters_are_refused() {
    for text in [
        "xn--a.example",
        "xn--.example",
        "xn--example-.com",
        "xn--BÜCHER.example",
        "☃\u{FFFD}.example",
        "a／b.example",
        "a＠b.example",
        "a％00.example",
        "⒈com.example",
    ] {
        assert_eq!(refused(text), HostError::Idna, "{text}");
    }
}

#[test]
fn control_characters_spaces_userinfo_and_escapes_are_refused_by_name() {
    let cases = [
        ("evil.net\0.google.com", HostError::Control),
        ("a\r\nHost: b", HostError::Control),
        ("a\nb.example", HostError::Control),
        ("a\u{85}b.example", HostError::Control),
        ("a b.example", HostError::Space),
        (" example.com", HostError::Space),
        ("example.com\u{3000}", HostError::Space),
        ("user@example.com", HostError::Userinfo),
        ("user:pw@example.com", HostError::Userinfo),
        ("example%2ecom", HostError::Percent),
        ("fe80::1%eth0", HostError::Zone),
        ("[fe80::1%25eth0]", HostError::Zone),
        ("example.com/path", HostError::Character('/')),
        ("*.example.com", HostError::Character('*')),
        ("a\\b.example", HostError::Character('\\')),
        ("", HostError::Empty),
        (".", HostError::Empty),
        ("..", HostError::EmptyLabel),
        ("a..b", HostError::EmptyLabel),
        (".example.com", HostError::EmptyLabel),
        ("example.com..", HostError::EmptyLabel),
        ("-o.example.com", HostError::LeadingHyphen),
        ("[example.com]", HostError::Address),
        ("[::1", HostError::Brackets),
        ("[127.0.0.1]", HostError::Address),
    ];
    for (text, error) in cases {
        assert_eq!(refused(text), error, "{text:?}");
        assert_eq!(error.code(), "HOST_INVALID");
        assert!(error.fix().is_some());
    }
}

#[test]
fn zero_width_and_bidi_characters_are_refused_in_both_spellings() {
    for hidden in [
        '\u{200B}',
        '\u{200C}',
        '\u{200D}',
        '\u{AD}',
        '\u{2060}',
        '\u{FEFF}',
        '\u{202E}',
        '\u{2066}',
        '\u{61C}',
        '\u{FE0F}',
        '\u{E0041}',
        '\u{3164}',
    ] {
        let text = format!("exa{hidden}mple.com");
        assert_eq!(refused(&text), HostError::Invisible, "{text:?}");
    }
    // A zero-width non-joiner where UTS #46 would let one stand, and its punycode.
    assert_eq!(refused("نامه\u{200C}ای.example"), HostError::Invisible);
    assert_eq!(refused("xn--mgba3gch31f060k.example"), HostError::Invisible);
    // The same name without it is one.
    assert_eq!(canonical("نامهای.example"), "xn--mgba3gch31f.example");
}

#[test]
fn lengths_are_those_of_rfc_1035() {
    let label = "a".repeat(63);
    assert_eq!(canonical(&label), label);
    assert_eq!(refused(&"a".repeat(64)), HostError::LabelTooLong);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(longest.len(), 253);
    assert_eq!(canonical(&format!("{longest}.")), longest);
    assert_eq!(refused(&format!("{longest}b")), HostError::TooLong);
    assert_eq!(refused(&"a.".repeat(40_000)), HostError::TooLong);
}

#[test]
fn ip_literals_in_every_spelling_of_a_resolver_are_one_address() {
    let loopback = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "0177.1",
        "017700000001",
        "0000000000000000177.0.0.01",
        "::ffff:127.0.0.1",
        "[::ffff:7f00:1]",
        "0:0:0:0:0:ffff:127.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
    ];
    for text in loopback {
        assert_eq!(
            Host::parse(text),
            Ok(Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))),
            "{text}"
        );
    }
    assert_eq!(canonical("1.2.3"), "1.2.0.3");
    assert_eq!(canonical("1.65535"), "1.0.255.255");
    assert_eq!(canonical("4294967295"), "255.255.255.255");
    assert_eq!(canonical("0"), "0.0.0.0");
    assert_eq!(canonical("[::1]"), "::1");
    assert_eq!(canonical("::1"), "::1");
    assert_eq!(canonical("2001:DB8:0:0::0001"), "2001:db8::1");
    // Not mapped, so not IPv4.
    assert_eq!(canonical("::127.0.0.1"), "::7f00:1");
}

#[test]
fn what_looks_like_an_address_and_is_none_does_not_stay_a_name() {
    for text in [
        "256.0.0.1",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.65536",
        "1.16777216",
        "4294967296",
        "99999999999999999999",
        "08",
        "127.0.0.09",
        "0x",
        "1.0x",
        "0xg.0x7f",
        "example.1",
        "example.com.0x7f",
        "0b1111111",
        "127.0.0.0b1",
        "1..2",
        ":::",
        "1:2",
        "::1::",
        "12345::6",
        "::ffff:1.2.3",
        "example:com:x",
    ] {
        let error = refused(text);
        assert!(
            matches!(error, HostError::Address | HostError::EmptyLabel),
            "{text}: {error}"
        );
    }
    // Controls: numbers elsewhere than at the end, and hexadecimal letters without a prefix.
    for text in ["1.2.3.com", "0x7f.example", "beef", "a.face", "4u", "0xyz"] {
        assert_eq!(canonical(text), text);
    }
}

#[test]
fn an_authority_is_a_host_and_a_port() {
    let read = |text: &str| {
        Authority::parse(text).map(|authority| (authority.host.to_string(), authority.port))
    };
    let host = |host: &str, port| Ok((host.to_owned(), port));
    assert_eq!(read("Example.com:443"), host("example.com", Some(443)));
    assert_eq!(read("example.com"), host("example.com", None));
    assert_eq!(read("127.1:80"), host("127.0.0.1", Some(80)));
    assert_eq!(read("[::1]:65535"), host("::1", Some(65535)));
    assert_eq!(read("[::1]"), host("::1", None));
    assert_eq!(read("::1"), host("::1", None));
    for text in [
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:123456",
        "example.com:+80",
        "example.com:http",
        "[::1]:",
        "[::1]:0",
    ] {
        assert_eq!(read(text), Err(HostError::Port), "{text}");
    }
    assert_eq!(read("[::1]80"), Err(HostError::Brackets));
    assert_eq!(read("[::1"), Err(HostError::Brackets));
    assert_eq!(read(":443"), Err(HostError::Empty));
    assert_eq!(read("a@b:443"), Err(HostError::Userinfo));
    assert_eq!(read("a\0b:443"), Err(HostError::Control));
    assert_eq!(
        Authority::parse("[::1]:80").unwrap().to_string(),
        "[::1]:80"
    );
    assert_eq!(Authority::parse("A.b:80").unwrap().to_string(), "a.b:80");
}

#[test]
fn the_unicode_form_is_given_when_it_differs() {
    let unicode = |text: &str| Host::parse(text).unwrap().unicode();
    assert_eq!(
        unicode("xn--bcher-kva.example").as_deref(),
        Some("bücher.example")
    );
    assert_eq!(unicode("例え.jp").as_deref(), Some("例え.jp"));
    assert_eq!(unicode("example.com"), None);
    assert_eq!(unicode("127.0.0.1"), None);
}

#[test]
fn look_alike_control_and_bidi_characters_are_made_visible() {
    // A Cyrillic а among Latin letters; and a name all in Cyrillic that reads "apple".
    assert_eq!(visible("pаypal.com"), "p\\u{430}ypal.com");
    assert_eq!(
        visible("аррӏе.com"),
        "\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com"
    );
    assert_eq!(
        Host::parse("аррӏе.com").unwrap().unicode().as_deref(),
        Some("\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com")
    );
    assert_eq!(
        visible("a\u{202E}b\0c\u{200B}\n"),
        "a\\u{202e}b\\u{0}c\\u{200b}\\u{a}"
    );
    assert_eq!(visible("a\u{A0}b\u{2028}"), "a\\u{a0}b\\u{2028}");
    // Honest names and sentences stay as they are.
    for honest in [
        "bücher.example",
        "例え.jp",
        "пример.рф",
        "münchen und köln",
        "a-b_c.d:80",
    ] {
        assert_eq!(visible(honest), honest);
    }
}

#[test]
fn a_stored_name_is_checked_when_it_is_read() {
    let read = |text: &str| serde_json::from_str::<HostName>(text);
    assert_eq!(read("\"Example.COM\"").unwrap().as_str(), "example.com");
    for text in ["\"a b\"", "\"127.1\"", "\"\"", "\"a\\u0000b\""] {
        assert!(read(text).is_err(), "{text}");
    }
    let name = HostName::parse("example.com").unwrap();
    assert_eq!(serde_json::to_string(&name).unwrap(), "\"example.com\"");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        let _ = Host::parse(&text);
        let _ = Authority::parse(&text);
        let _ = visible(&text);
    }

    #[test]
    fn what_was_read_is_read_again_as_itself(text in "[a-zA-Z0-9üßа。._:\\[\\]x-]{1,24}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
            if let Host::Name(name) = &host {
                prop_assert!(name.as_str().len() <= MAX_NAME_BYTES);
                prop_assert!(name.labels().all(|label| (1..=MAX_LABEL_BYTES).contains(&label.len())));
                prop_assert!(!name.as_str().bytes().any(|byte| byte.is_ascii_uppercase()));
                let last = name.labels().next_back().unwrap();
                prop_assert!(!last.bytes().all(|byte| byte.is_ascii_digit()));
            }
        }
    }

    #[test]
    fn every_ipv4_address_is_read_from_every_spelling(octets in any::<[u8; 4]>()) {
        let [a, b, c, d] = octets;
        let whole = u32::from_be_bytes(octets);
        let wanted = Ok(Host::Ip(IpAddr::V4(Ipv4Addr::from(octets))));
        for text in [
            format!("{a}.{b}.{c}.{d}"),
            format!("{whole}"),
            format!("0x{whole:x}"),
            format!("0{whole:o}"),
            format!("{a}.{}", whole & 0xff_ffff),
            format!("0x{a:X}.{b}.0{:o}", whole & 0xffff),
            format!("::ffff:{a}.{b}.{c}.{d}"),
        ] {
            prop_assert_eq!(Host::parse(&text), wanted.clone(), "{}", text);
        }
    }

    #[test]
    fn every_ipv6_address_is_read_back_with_a_port(segments in any::<[u16; 8]>(), port in 1u16..) {
        let host = Host::from(IpAddr::from(segments));
        let text = host.with_port(port);
        prop_assert_eq!(
            Authority::parse(&text),
            Ok(Authority { host, port: Some(port) })
        );
    }

    #[test]
    fn a_name_with_an_invisible_character_is_never_a_host(
        head in "[a-z]{0,5}", index in 0usize..20, tail in "[a-z]{1,5}"
    ) {
        let hidden = ['\u{200B}', '\u{200C}', '\u{200D}', '\u{200E}', '\u{202A}', '\u{202E}',
            '\u{2060}', '\u{2066}', '\u{2069}', '\u{AD}', '\u{FEFF}', '\u{180E}', '\u{FE00}',
            '\u{E0001}', '\u{E0100}', '\u{115F}', '\u{3164}', '\u{FFA0}', '\u{61C}', '\u{34F}'];
        let text = format!("{head}{}{tail}.example", hidden[index]);
        prop_assert_eq!(Host::parse(&text), Err(HostError::Invisible));
    }
}

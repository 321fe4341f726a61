use super::*;
use proptest::prelude::*;

fn pattern(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn matches(entry: &str, host: &str) -> bool {
    pattern(entry).matches(&Host::parse(host).unwrap(), 443)
}

fn problem(text: &str) -> PatternProblem {
    match HostPattern::parse(text) {
        Ok(read) => panic!("{text:?} was read as {read}"),
        Err(error) => error.problem,
    }
}

// Rows of the egress cases that are about patterns (REQ EG-4), by name.

#[test]
fn case_and_trailing_dot_with_example_com_allowed() {
    for host in ["EXAMPLE.com", "example.com.", "example.com"] {
        assert!(matches("example.com", host), "{host}");
        assert!(matches("Example.COM.", host), "{host}");
    }
    assert!(!matches("example.com", "www.example.com"));
}

#[test]
fn evilexample_com_example_com_evil_net_and_the_apex_against_a_leading_wildcard() {
    for host in ["evilexample.com", "example.com.evil.net", "example.com"] {
        assert!(!matches("*.example.com", host), "{host}");
    }
    assert!(matches("*.example.com", "a.example.com"));
}

#[test]
fn any_depth_against_a_leading_wildcard() {
    for host in ["a.example.com", "a.b.example.com", "a.b.c.d.example.com"] {
        assert!(matches("*.example.com", host), "{host}");
    }
}

#[test]
fn exactly_one_label_against_a_middle_wildcard() {
    let entry = "bedrock.*.amazonaws.com";
    assert!(matches(entry, "bedrock.us-east-1.amazonaws.com"));
    for host in [
        "bedrock.a.b.amazonaws.com",
        "bedrock.evil.attacker.amazonaws.com",
        "bedrock.amazonaws.com",
        "evilbedrock.us-east-1.amazonaws.com",
        "x.bedrock.us-east-1.amazonaws.com",
        "bedrock.us-east-1.amazonaws.com.evil.net",
    ] {
        assert!(!matches(entry, host), "{host}");
    }
    assert!(matches("a.b.*.example.com", "a.b.c.example.com"));
    assert!(!matches("a.b.*.example.com", "b.c.example.com"));
}

#[test]
fn every_other_use_of_a_wildcard_is_a_configuration_error_that_names_the_entry() {
    let name = |text: &str| HostName::parse(text).unwrap();
    let cases = [
        ("*", PatternProblem::Everything),
        ("*.", PatternProblem::Everything),
        ("*:443", PatternProblem::Everything),
        ("*.com", PatternProblem::PublicSuffix(name("com"))),
        ("*.co.uk", PatternProblem::PublicSuffix(name("co.uk"))),
        ("s3.*.com", PatternProblem::PublicSuffix(name("com"))),
        (
            "*.github.io",
            PatternProblem::PublicSuffix(name("github.io")),
        ),
        ("*.internal", PatternProblem::PublicSuffix(name("internal"))),
        ("*.中国", PatternProblem::PublicSuffix(name("xn--fiqs8s"))),
        ("*.*.x.com", PatternProblem::ManyStars),
        ("**.x.com", PatternProblem::ManyStars),
        ("a.*.b.*.x.com", PatternProblem::ManyStars),
        ("a*.x.com", PatternProblem::PartialLabel),
        ("*a.x.com", PatternProblem::PartialLabel),
        ("a.*b.x.com", PatternProblem::PartialLabel),
        ("x.*", PatternProblem::TrailingStar),
        ("x.com.*", PatternProblem::TrailingStar),
        ("x.*.", PatternProblem::TrailingStar),
        ("*.0.0.1", PatternProblem::WildcardAddress),
        ("*.127.0.0.1", PatternProblem::WildcardAddress),
        ("10.*.0.1", PatternProblem::WildcardAddress),
        ("", PatternProblem::Host(HostError::Empty)),
        ("*..x.com", PatternProblem::Host(HostError::EmptyLabel)),
        (".*.x.com", PatternProblem::Host(HostError::EmptyLabel)),
        ("a..*.x.com", PatternProblem::Host(HostError::EmptyLabel)),
        ("a b.x.com", PatternProblem::Host(HostError::Space)),
        (" *.x.com", PatternProblem::Host(HostError::Space)),
        ("x.com ", PatternProblem::Host(HostError::Space)),
        ("x.com:0", PatternProblem::Host(HostError::Port)),
        ("x.com:65536", PatternProblem::Host(HostError::Port)),
        ("*.x.com:x", PatternProblem::Host(HostError::Port)),
        ("x.com:", PatternProblem::Host(HostError::Port)),
        ("x.com:*", PatternProblem::Host(HostError::Port)),
        ("x\0.com", PatternProblem::Host(HostError::Control)),
        ("u@x.com", PatternProblem::Host(HostError::Userinfo)),
        ("x%2e.com", PatternProblem::Host(HostError::Percent)),
        (
            "a\u{200B}.x.com",
            PatternProblem::Host(HostError::Invisible),
        ),
        ("https://x.com", PatternProblem::Url),
        ("x.com/path", PatternProblem::Url),
        ("10.0.0.0/8", PatternProblem::Url),
        ("256.1.1.1", PatternProblem::Host(HostError::Address)),
        ("[x.com]:1", PatternProblem::Host(HostError::Address)),
    ];
    for (text, wanted) in cases {
        assert_eq!(problem(text), wanted, "{text:?}");
        let error = HostPattern::parse(text).unwrap_err();
        let named = format!("\"{}\" is not", super::super::visible(text));
        assert!(error.to_string().starts_with(&named), "{error}");
        assert_eq!(error.code(), "HOST_PATTERN_INVALID");
        assert!(error.fix().is_some(), "{error}");
    }
    // Controls: each is one step from a refused one.
    for good in [
        "*.x.com",
        "*.x.co.uk",
        "s3.*.x.com",
        "*.me.github.io",
        "*.corp.internal",
        "x.com:65535",
        "x.com",
        "10.0.0.1",
    ] {
        assert_eq!(pattern(good).to_string(), good);
    }
}

#[test]
fn a_wildcard_never_covers_an_address() {
    for host in ["127.0.0.1", "::1", "93.184.216.34"] {
        assert!(!matches("*.example.com", host), "{host}");
        assert!(!matches("a.*.example.com", host), "{host}");
        assert!(matches(host, host), "{host}");
    }
    assert!(matches("127.0.0.1", "0x7f.1"));
    assert!(matches("2130706433", "127.0.0.1"));
    assert!(!matches("127.0.0.1", "::1"));
}

#[test]
fn a_port_narrows_a_pattern() {
    let name = Host::parse("a.example.com").unwrap();
    for entry in ["a.example.com:22", "*.example.com:22"] {
        assert!(pattern(entry).matches(&name, 22));
        assert!(!pattern(entry).matches(&name, 443));
        assert!(pattern(entry).matches_host(&name));
        assert_eq!(pattern(entry).port(), Some(22));
    }
    assert!(pattern("a.example.com").matches(&name, 1));
}

#[test]
fn the_display_is_canonical() {
    for (text, wanted) in [
        ("*.EXAMPLE.com.", "*.example.com"),
        ("Bedrock.*.AmazonAWS.com:443", "bedrock.*.amazonaws.com:443"),
        ("*。Bücher。example", "*.xn--bcher-kva.example"),
        ("Bücher.*.x.com", "xn--bcher-kva.*.x.com"),
        ("127.1:080", "127.0.0.1:80"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
    ] {
        assert_eq!(pattern(text).to_string(), wanted, "{text}");
    }
}

#[test]
fn the_parent_of_a_host_is_a_pattern_only_where_it_may_be() {
    let siblings = |text: &str| {
        HostPattern::siblings(&HostName::parse(text).unwrap()).map(|pattern| pattern.to_string())
    };
    assert_eq!(
        siblings("files.example.com").as_deref(),
        Some("*.example.com")
    );
    assert_eq!(
        siblings("a.b.example.co.uk").as_deref(),
        Some("*.b.example.co.uk")
    );
    assert_eq!(siblings("example.com"), None);
    assert_eq!(siblings("example.co.uk"), None);
    assert_eq!(siblings("me.github.io"), None);
    assert_eq!(siblings("localhost"), None);
}

#[test]
fn a_long_entry_is_shortened_and_made_visible_in_its_error() {
    let error = HostPattern::parse(&format!("a\u{202E}{}", "b".repeat(500))).unwrap_err();
    assert!(error.entry.starts_with("a\\u{202e}bbb"), "{error}");
    assert!(error.entry.ends_with("b…"), "{error}");
    assert!(error.entry.chars().count() < 120, "{error}");
}

#[test]
fn a_stored_pattern_is_checked_when_it_is_read() {
    let read = |text: &str| serde_json::from_str::<HostPattern>(text);
    assert_eq!(
        read("\"*.Example.com:443\"").unwrap(),
        pattern("*.example.com:443")
    );
    assert!(read("\"*.com\"").is_err());
    let written = serde_json::to_string(&pattern("*.example.com:443")).unwrap();
    assert_eq!(written, "\"*.example.com:443\"");
}

/// What the table of [`HostPattern`] says, by labels and nothing else.
fn naive(pattern: &[String], name: &[String]) -> bool {
    match pattern.iter().position(|label| label == "*") {
        None => pattern == name,
        Some(0) => name.len() >= pattern.len() && name.ends_with(&pattern[1..]),
        Some(_) => {
            pattern.len() == name.len()
                && pattern
                    .iter()
                    .zip(name)
                    .all(|(wanted, found)| wanted == "*" || wanted == found)
        }
    }
}

fn labels() -> impl Strategy<Value = Vec<String>> {
    let label = prop_oneof![
        "[ab]{1,2}",
        Just("com".to_owned()),
        Just("example".to_owned())
    ];
    prop::collection::vec(label, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_matcher_agrees_with_a_naive_model(
        mut entry in labels(),
        mut name in labels(),
        star in prop::option::of(0usize..3),
        same_end in any::<bool>(),
        own_port in prop::option::of(1u16..4),
        port in 1u16..4,
    ) {
        let end = ["example".to_owned(), "com".to_owned()];
        if let Some(at) = star {
            entry.insert(at.min(entry.len()), "*".to_owned());
        }
        entry.extend(end.clone());
        if same_end {
            name.extend(end);
        }
        prop_assume!(!name.is_empty());
        let mut text = entry.join(".");
        if let Some(port) = own_port {
            text = format!("{text}:{port}");
        }
        let read = HostPattern::parse(&text).unwrap();
        prop_assert_eq!(read.to_string(), text);
        let host = Host::parse(&name.join(".")).unwrap();
        prop_assert_eq!(
            read.matches(&host, port),
            naive(&entry, &name) && own_port.is_none_or(|own| own == port),
            "{} against {}", host, read
        );
    }

    #[test]
    fn a_pattern_is_read_back_as_itself_and_no_text_makes_the_reader_panic(
        text in "[a-cA-C*.:0-9ü/ \\[\\]]{0,12}(\\.example\\.com)?(:[0-9]{1,6})?"
    ) {
        match HostPattern::parse(&text) {
            Ok(read) => prop_assert_eq!(HostPattern::parse(&read.to_string()), Ok(read)),
            Err(error) => prop_assert!(error.to_string().contains("is not a host pattern")),
        }
    }

    #[test]
    fn more_than_one_star_is_never_a_pattern(
        parts in prop::collection::vec("[a-c]{0,2}", 3..6)
    ) {
        let text = format!("{}.example.com", parts.join("*"));
        prop_assert!(HostPattern::parse(&text).is_err(), "{}", text);
    }
}

#[test]
fn a_denial_holds_below_a_public_suffix_too_and_an_allow_does_not() {
    for entry in ["*.co.uk", "*.github.io", "a.*.com"] {
        assert!(
            matches!(
                HostPattern::parse(entry).unwrap_err().problem,
                PatternProblem::PublicSuffix(_)
            ),
            "{entry}"
        );
        assert!(HostPattern::parse_denial(entry).is_ok(), "{entry}");
    }
    for entry in ["*", "", "a*.example.com", "*.*.example.com"] {
        assert!(HostPattern::parse_denial(entry).is_err(), "{entry}");
    }
}

use super::*;
use crate::egress::decide::{Decision, decide};
use proptest::prelude::*;

fn pattern(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap()
}

fn patterns(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| pattern(text)).collect()
}

/// Rules numbered from 1, written `+pattern` or `-pattern`.
fn operator(texts: &[&str]) -> Vec<OperatorRule> {
    (1..)
        .zip(texts)
        .map(|(id, text)| OperatorRule {
            id,
            allow: text.starts_with('+'),
            pattern: pattern(&text[1..]),
        })
        .collect()
}

fn rules(restriction: Restriction, spec: &[&str], rules: &[&str]) -> RuleSet {
    RuleSet::new(restriction, patterns(spec), operator(rules))
}

fn verdict(text: &str, rules: &RuleSet) -> Decision {
    decide(&Destination::parse(text, Some(443)).unwrap(), rules)
}

fn allowed(text: &str, rules: &RuleSet) -> Allowed {
    match verdict(text, rules) {
        Decision::Allow(allowed) => allowed,
        other => panic!("{text}: {other:?}"),
    }
}

fn denied(text: &str, rules: &RuleSet) -> DenyReason {
    match verdict(text, rules) {
        Decision::Deny(reason) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

// Rows of the egress cases that the decision alone answers, by name.

#[test]
fn an_empty_allowlist_lets_nothing_of_its_own_pass() {
    // REQ EG-3, EG-5
    let none = rules(Restriction::Allowlist, &[], &[]);
    assert_eq!(denied("example.com", &none), DenyReason::NotListed);
    assert_eq!(denied("93.184.216.34", &none), DenyReason::NotListed);
    // The baseline and GitHub are there, by their own entries.
    let registry = allowed("registry.npmjs.org", &none);
    assert_eq!(
        (registry.source, registry.why()),
        (Source::Baseline, "package registries")
    );
    assert_eq!(allowed("github.com:22", &none).source, Source::Github);
    assert_eq!(denied("evil.github.com", &none), DenyReason::NotListed);
    let off = rules(Restriction::Off, &[], &[]);
    for text in [
        "example.com",
        "registry.npmjs.org",
        "github.com",
        "93.184.216.34",
    ] {
        assert_eq!(denied(text, &off), DenyReason::NetworkOff);
    }
}

#[test]
fn each_source_is_told_and_comes_in_its_order() {
    let all = rules(
        Restriction::Allowlist,
        &["github.com", "*.example.com", "a.example.com"],
        &["+a.example.com", "+b.example.org:443"],
    );
    assert_eq!(allowed("github.com", &all).source, Source::Github);
    let first = allowed("a.example.com", &all);
    assert_eq!(
        (first.source, first.pattern.as_str()),
        (Source::Spec, "*.example.com")
    );
    assert_eq!(first.rule, None);
    let own = allowed("B.example.ORG.", &all);
    assert_eq!(
        (own.source, own.pattern.as_str()),
        (Source::Operator, "b.example.org:443")
    );
    assert_eq!(own.rule, Some(2));
    assert_eq!(denied("b.example.org:80", &all), DenyReason::NotListed);
}

#[test]
fn a_rule_that_denies_stands_above_every_allow() {
    let set = rules(
        Restriction::Ask,
        &["a.example.com"],
        &["+a.example.com", "-*.example.com", "-github.com:22"],
    );
    assert_eq!(denied("a.example.com", &set), DenyReason::OperatorRule);
    let destination = Destination::parse("a.example.com:1", None).unwrap();
    assert_eq!(set.denying(&destination).unwrap().id, 2);
    assert_eq!(denied("github.com:22", &set), DenyReason::OperatorRule);
    assert_eq!(allowed("github.com:443", &set).source, Source::Github);
    assert_eq!(verdict("example.com", &set), Decision::Ask);
}

#[test]
fn metadata_and_telemetry_are_denied_while_wildcards_cover_them() {
    // REQ EG-6
    let set = rules(
        Restriction::Ask,
        &[
            "*.google.internal",
            "*.segment.io",
            "169.254.169.254",
            "168.63.129.16",
        ],
        &[
            "+metadata.google.internal",
            "+*.ingest.sentry.io",
            "+100.100.100.200:80",
        ],
    );
    for text in [
        "metadata.google.internal",
        "METADATA.google.internal.",
        "x.metadata.google.internal",
        "169.254.169.254:80",
        "0xa9fea9fe:80",
        "[::ffff:169.254.169.254]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "168.63.129.16:80",
        "100.100.100.200:80",
        "[fd00:ec2::254]:80",
    ] {
        assert_eq!(denied(text, &set), DenyReason::Metadata, "{text}");
    }
    for text in ["api.segment.io", "o1.ingest.sentry.io"] {
        assert_eq!(denied(text, &set), DenyReason::Telemetry, "{text}");
    }
    assert!(set.excepted(80).is_empty());
    // Controls: the same wildcards let their other names pass.
    assert_eq!(allowed("other.google.internal", &set).source, Source::Spec);
    assert_eq!(allowed("app.segment.io", &set).source, Source::Spec);
}

#[test]
fn ask_first_asks_for_what_no_rule_covers_and_never_for_the_denylist() {
    // REQ EG-9
    let set = rules(Restriction::Ask, &["example.com"], &[]);
    assert_eq!(verdict("files.evil.net", &set), Decision::Ask);
    assert_eq!(verdict("93.184.216.34", &set), Decision::Ask);
    assert_eq!(allowed("example.com", &set).source, Source::Spec);
    assert_eq!(
        denied("metadata.google.internal", &set),
        DenyReason::Metadata
    );
    assert_eq!(denied("10.0.0.1", &set), DenyReason::AddressRange);
    assert_eq!(denied("localhost:3000", &set), DenyReason::AddressRange);
    assert_eq!(denied("app.localhost:3000", &set), DenyReason::AddressRange);
}

#[test]
fn an_address_of_a_special_range_passes_only_by_an_entry_that_names_it() {
    // REQ EG-11
    let set = rules(
        Restriction::Ask,
        &["10.0.0.5:5432", "*.example.com"],
        &["+192.168.1.1", "+127.0.0.1:8080", "-192.168.1.1:23"],
    );
    assert_eq!(allowed("10.0.0.5:5432", &set).source, Source::Spec);
    assert_eq!(allowed("10.5:5432", &set).source, Source::Spec);
    assert_eq!(allowed("192.168.1.1:80", &set).rule, Some(1));
    assert_eq!(allowed("0x7f.1:8080", &set).rule, Some(2));
    for text in [
        "10.0.0.5:80",
        "10.0.0.6:5432",
        "127.0.0.1:80",
        "127.0.0.2:8080",
        "[::1]:8080",
    ] {
        assert_eq!(denied(text, &set), DenyReason::AddressRange, "{text}");
    }
    assert_eq!(denied("192.168.1.1:23", &set), DenyReason::OperatorRule);
    let excepted = |port| {
        let found = set.excepted(port);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(excepted(5432), ["10.0.0.5", "192.168.1.1"]);
    assert_eq!(excepted(8080), ["192.168.1.1", "127.0.0.1"]);
    assert_eq!(excepted(80), ["192.168.1.1"]);
    assert!(excepted(23).is_empty());
    let off = rules(Restriction::Off, &["10.0.0.5"], &["+10.0.0.6"]);
    assert_eq!(denied("10.0.0.5", &off), DenyReason::AddressRange);
    assert!(off.excepted(443).is_empty());
}

#[test]
fn two_sessions_do_not_share_their_lists() {
    let one = rules(Restriction::Allowlist, &["one.example.com"], &[]);
    let two = rules(Restriction::Allowlist, &["two.example.com"], &[]);
    assert_eq!(allowed("one.example.com", &one).source, Source::Spec);
    assert_eq!(denied("one.example.com", &two), DenyReason::NotListed);
    assert_eq!(allowed("two.example.com", &two).source, Source::Spec);
}

#[test]
fn a_changed_rule_holds_at_once_and_the_old_value_stays_as_it_was() {
    let before = rules(Restriction::Allowlist, &[], &["+a.example.com"]);
    let after = before.with_operator(operator(&["-a.example.com"]));
    assert_eq!(denied("a.example.com", &after), DenyReason::OperatorRule);
    assert_eq!(allowed("a.example.com", &before).rule, Some(1));
    assert_eq!(after.operator().len(), 1);
}

#[test]
fn an_address_that_was_not_made_canonical_meets_the_same_rules() {
    let set = rules(Restriction::Ask, &[], &["-93.184.216.34", "+10.0.0.5"]);
    let verdict = |text: &str| {
        let host = Host::Ip(text.parse().unwrap());
        decide(&Destination { host, port: 80 }, &set)
    };
    for text in ["93.184.216.34", "::ffff:93.184.216.34"] {
        assert_eq!(
            verdict(text),
            Decision::Deny(DenyReason::OperatorRule),
            "{text}"
        );
    }
    assert!(matches!(verdict("::ffff:10.0.0.5"), Decision::Allow(_)));
    assert_eq!(
        verdict("::ffff:10.0.0.6"),
        Decision::Deny(DenyReason::AddressRange)
    );
    assert_eq!(verdict("::ffff:93.184.216.35"), Decision::Ask);
}

#[test]
fn a_port_of_zero_is_malformed() {
    let set = rules(Restriction::Ask, &["a.example.com"], &[]);
    let destination = Destination {
        host: Host::parse("a.example.com").unwrap(),
        port: 0,
    };
    assert_eq!(
        decide(&destination, &set),
        Decision::Deny(DenyReason::Malformed)
    );
}

#[test]
fn a_name_is_answered_when_some_port_of_it_may_be_reached() {
    let set = rules(
        Restriction::Allowlist,
        &["*.example.com:22", "b.example.org", "c.example.org:1"],
        &[
            "-b.example.org:443",
            "-x.example.com:22",
            "-c.example.org:1",
            "-d.example.com",
        ],
    );
    assert_eq!(set.answers(&name("a.example.com")), Ok(()));
    assert_eq!(set.answers(&name("b.example.org")), Ok(()));
    assert_eq!(set.answers(&name("github.com")), Ok(()));
    for (text, reason) in [
        ("x.example.com", DenyReason::OperatorRule),
        ("c.example.org", DenyReason::OperatorRule),
        ("d.example.com", DenyReason::OperatorRule),
        ("example.com", DenyReason::NotListed),
        ("metadata.goog", DenyReason::Metadata),
        ("api.segment.io", DenyReason::Telemetry),
        ("localhost", DenyReason::AddressRange),
    ] {
        assert_eq!(set.answers(&name(text)), Err(reason), "{text}");
    }
    let ask = rules(
        Restriction::Ask,
        &[],
        &["-a.example.com", "-b.example.com:1"],
    );
    assert_eq!(ask.answers(&name("secret.evil.net")), Ok(()));
    assert_eq!(ask.answers(&name("b.example.com")), Ok(()));
    assert_eq!(
        ask.answers(&name("a.example.com")),
        Err(DenyReason::OperatorRule)
    );
    assert_eq!(
        ask.answers(&name("metadata.goog")),
        Err(DenyReason::Metadata)
    );
    let off = rules(Restriction::Off, &["a.example.com"], &[]);
    assert_eq!(
        off.answers(&name("a.example.com")),
        Err(DenyReason::NetworkOff)
    );
}

#[test]
fn the_lists_are_told_with_their_sources() {
    let set = rules(
        Restriction::Ask,
        &["a.example.com"],
        &["+b.example.com", "-c.example.com"],
    );
    let allowed = set.allowed_entries();
    let sources: Vec<Source> = allowed.iter().map(|entry| entry.source).collect();
    assert!(sources.is_sorted());
    let own: Vec<(&str, &str, Option<i64>)> = allowed
        .iter()
        .filter(|entry| entry.source > Source::Github)
        .map(|entry| (entry.pattern.as_str(), entry.group.as_str(), entry.rule))
        .collect();
    let wanted = [
        ("a.example.com", "this session", None),
        ("b.example.com", "your rules", Some(1)),
    ];
    assert_eq!(own, wanted);
    let denied = set.denied_entries();
    assert_eq!(denied.last().unwrap().pattern, "c.example.com");
    assert!(
        denied
            .iter()
            .any(|entry| entry.pattern == "169.254.169.254")
    );
    assert!(
        rules(Restriction::Off, &["a.example.com"], &[])
            .allowed_entries()
            .is_empty()
    );
}

#[test]
fn a_lasting_answer_has_a_pattern_for_each_scope_where_one_is_legal() {
    let stored = |text: &str, scope| {
        let destination = Destination::parse(text, None).unwrap();
        lasting_pattern(scope, &destination).map(|pattern| pattern.to_string())
    };
    let text = "files.example.com:443";
    assert_eq!(stored(text, AnswerScope::HostPort).as_deref(), Some(text));
    assert_eq!(
        stored(text, AnswerScope::Host).as_deref(),
        Some("files.example.com")
    );
    assert_eq!(
        stored(text, AnswerScope::Parent).as_deref(),
        Some("*.example.com")
    );
    assert_eq!(stored("example.com:1", AnswerScope::Parent), None);
    assert_eq!(stored("example.co.uk:1", AnswerScope::Parent), None);
    assert_eq!(stored("[2606::1]:80", AnswerScope::Parent), None);
    assert_eq!(
        stored("[2606::1]:80", AnswerScope::HostPort).as_deref(),
        Some("[2606::1]:80")
    );
    assert_eq!(
        stored("[2606::1]:80", AnswerScope::Host).as_deref(),
        Some("2606::1")
    );
}

#[test]
fn thousands_of_entries_are_found_one_by_one() {
    let spec: Vec<HostPattern> = (0..3_000)
        .flat_map(|number| {
            [
                pattern(&format!("h{number}.example.com")),
                pattern(&format!("*.d{number}.example.org")),
                pattern(&format!("m{number}.*.example.net:443")),
            ]
        })
        .collect();
    let set = RuleSet::new(Restriction::Allowlist, spec, Vec::new());
    for number in [0, 1, 1_500, 2_999] {
        for (text, wanted) in [
            (
                format!("h{number}.example.com"),
                format!("h{number}.example.com"),
            ),
            (
                format!("a.b.d{number}.example.org"),
                format!("*.d{number}.example.org"),
            ),
            (
                format!("m{number}.x.example.net"),
                format!("m{number}.*.example.net:443"),
            ),
        ] {
            assert_eq!(allowed(&text, &set).pattern, wanted);
        }
    }
    assert_eq!(denied("h3000.example.com", &set), DenyReason::NotListed);
    assert_eq!(denied("d1.example.org", &set), DenyReason::NotListed);
    assert_eq!(denied("m1.x.y.example.net", &set), DenyReason::NotListed);
}

/// The order of the decision, by walking the lists.
fn naive(destination: &Destination, set: &RuleSet, spec: &[HostPattern]) -> Decision {
    let covers = |pattern: &HostPattern| pattern.matches(&destination.host, destination.port);
    let operator = set.operator();
    if operator
        .iter()
        .any(|rule| !rule.allow && covers(&rule.pattern))
    {
        return Decision::Deny(DenyReason::OperatorRule);
    }
    let from_spec = spec
        .iter()
        .find(|pattern| covers(pattern))
        .map(|pattern| Allowed {
            source: Source::Spec,
            pattern: pattern.to_string(),
            rule: None,
        });
    let from_operator = operator
        .iter()
        .find(|rule| rule.allow && covers(&rule.pattern))
        .map(|rule| Allowed {
            source: Source::Operator,
            pattern: rule.pattern.to_string(),
            rule: Some(rule.id),
        });
    match (set.restriction(), from_spec.or(from_operator)) {
        (Restriction::Off, _) => Decision::Deny(DenyReason::NetworkOff),
        (_, Some(allowed)) => Decision::Allow(allowed),
        (Restriction::Allowlist, None) => Decision::Deny(DenyReason::NotListed),
        (Restriction::Ask, None) => Decision::Ask,
    }
}

fn entry() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        "([ab]\\.){0,3}[ab]\\.x\\.example",
        "\\*\\.([ab]\\.){0,2}x\\.example",
        "[ab]\\.\\*\\.([ab]\\.){0,1}x\\.example",
        Just("93.184.216.34".to_owned()),
    ];
    (host, prop::option::of(1u16..4)).prop_map(|(host, port)| match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_index_decides_as_a_walk_over_the_lists_does(
        spec in prop::collection::vec(entry(), 0..8),
        operator in prop::collection::vec((any::<bool>(), entry()), 0..8),
        restriction in prop_oneof![
            Just(Restriction::Allowlist), Just(Restriction::Ask), Just(Restriction::Off)
        ],
        host in prop_oneof![
            4 => "([ab]\\.){0,4}x\\.example",
            1 => Just("93.184.216.34".to_owned()),
        ],
    ) {
        let spec: Vec<HostPattern> = spec.iter().map(|text| pattern(text)).collect();
        let operator: Vec<OperatorRule> = (1..)
            .zip(&operator)
            .map(|(id, (allow, text))| OperatorRule { id, allow: *allow, pattern: pattern(text) })
            .collect();
        let set = RuleSet::new(restriction, spec.clone(), operator);
        let mut reachable = false;
        for port in 1..5 {
            let destination = Destination { host: Host::parse(&host).unwrap(), port };
            let found = decide(&destination, &set);
            prop_assert_eq!(&found, &naive(&destination, &set, &spec), "{}", destination);
            reachable |= !matches!(found, Decision::Deny(_));
        }
        if let Host::Name(name) = Host::parse(&host).unwrap() {
            // No rule names a port above 3, so port 4 stands for all others.
            prop_assert_eq!(set.answers(&name).is_ok(), reachable, "{}", name);
        }
    }

    #[test]
    fn the_denylist_wins_over_every_list(
        entries in prop::collection::vec(
            prop_oneof![
                Just("*.google.internal"), Just("metadata.google.internal"),
                Just("metadata.*.google.internal"), Just("169.254.169.254"),
                Just("*.segment.io"), Just("api.segment.io:443"), Just("*.posthog.com"),
            ], 0..5),
        host in prop_oneof![
            Just("metadata.google.internal"), Just("a.metadata.google.internal"),
            Just("api.segment.io"), Just("us.i.posthog.com"), Just("169.254.169.254"),
            Just("[fd00:ec2::254]"),
        ],
        ask in any::<bool>(),
        port in 1u16..,
    ) {
        let restriction = if ask { Restriction::Ask } else { Restriction::Allowlist };
        let allows: Vec<String> = entries.iter().map(|text| format!("+{text}")).collect();
        let allows: Vec<&str> = allows.iter().map(String::as_str).collect();
        let set = rules(restriction, &entries, &allows);
        let destination = Destination { host: Host::parse(host).unwrap(), port };
        prop_assert!(matches!(
            decide(&destination, &set),
            Decision::Deny(DenyReason::Metadata | DenyReason::Telemetry)
        ));
    }

    #[test]
    fn a_lasting_pattern_covers_what_it_was_made_for(
        host in prop_oneof!["([a-c]{1,3}\\.){0,4}(com|co\\.uk|example|github\\.io)", "1\\.2\\.3\\.[1-9]"],
        port in 1u16..,
    ) {
        let destination = Destination { host: Host::parse(&host).unwrap(), port };
        for scope in [AnswerScope::HostPort, AnswerScope::Host, AnswerScope::Parent] {
            if let Some(pattern) = lasting_pattern(scope, &destination) {
                prop_assert!(pattern.matches(&destination.host, port), "{}", pattern);
                prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
            }
        }
    }
}

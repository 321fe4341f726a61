use super::*;
use crate::egress::rules::{OperatorRule, Restriction};
use crate::spec::HostPattern;

fn rules(restriction: Restriction) -> RuleSet {
    let rule = |id, allow, text: &str| OperatorRule {
        id,
        allow,
        pattern: HostPattern::parse(text).unwrap(),
    };
    RuleSet::new(
        restriction,
        vec![HostPattern::parse("*.example.com").unwrap()],
        vec![rule(1, true, "b.example.org"), rule(2, false, "*.evil.net")],
    )
}

fn told(text: &str, restriction: Restriction) -> (ExplainedVerdict, String, Option<String>) {
    let found = explain(text, &rules(restriction));
    (found.verdict, found.why, found.way_out)
}

#[test]
fn each_verdict_is_explained_with_its_way_out() {
    use ExplainedVerdict::{Allow, Ask, Deny};
    let cases: [(&str, ExplainedVerdict, &str, Option<&str>); 11] = [
        (
            "registry.npmjs.org",
            Allow,
            "registry.npmjs.org is allowed by registry.npmjs.org (package registries)",
            None,
        ),
        (
            "a.example.com",
            Allow,
            "a.example.com is allowed by *.example.com (this session's allowlist)",
            None,
        ),
        (
            "b.example.org",
            Allow,
            "b.example.org is allowed by b.example.org (your rule)",
            None,
        ),
        (
            "files.evil.org",
            Deny,
            "files.evil.org is not on the allowlist",
            Some("Allow files.evil.org:443 for this session"),
        ),
        (
            "files.evil.net:22",
            Deny,
            "files.evil.net is denied by your rule *.evil.net",
            Some("Remove the rule that denies *.evil.net"),
        ),
        (
            "metadata.google.internal",
            Deny,
            "metadata.google.internal is a cloud metadata endpoint, which is always denied",
            None,
        ),
        (
            "10.1.2.3:5432",
            Deny,
            "10.1.2.3 is a private address (10.0.0.0/8, RFC 1918)",
            Some("Allow 10.1.2.3:5432 for this session"),
        ),
        (
            "127.1:8080",
            Deny,
            "127.0.0.1 is a loopback address (127.0.0.0/8, RFC 1122)",
            Some("Forward port 8080 into the session"),
        ),
        (
            "localhost:3000",
            Deny,
            "localhost is the machine itself (RFC 6761)",
            Some("Forward port 3000 into the session"),
        ),
        (
            "a b",
            Deny,
            "it cannot be read as a host and port: it holds a space",
            None,
        ),
        (
            "bücher.example",
            Deny,
            "xn--bcher-kva.example (bücher.example) is not on the allowlist",
            Some("Allow xn--bcher-kva.example:443 for this session"),
        ),
    ];
    for (text, verdict, why, way_out) in cases {
        let wanted = (verdict, why.to_owned(), way_out.map(ToOwned::to_owned));
        assert_eq!(told(text, Restriction::Allowlist), wanted, "{text}");
    }
    let (verdict, why, _) = told("files.evil.org", Restriction::Ask);
    assert_eq!(verdict, Ask);
    assert_eq!(why, "no rule covers files.evil.org:443, so you are asked");
    let (verdict, why, _) = told("a.example.com", Restriction::Off);
    assert_eq!(verdict, Deny);
    assert_eq!(why, "a.example.com cannot be reached, the network is off");
}

#[test]
fn the_target_is_canonical_and_hostile_text_is_made_visible() {
    let set = rules(Restriction::Allowlist);
    let found = explain(" BÜCHER.example. ", &set);
    assert_eq!(found.target, "xn--bcher-kva.example:443");
    assert_eq!(found.unicode.as_deref(), Some("bücher.example"));
    let hostile = explain("evil.net\0.google.com\u{202E}", &set);
    assert_eq!(hostile.target, "evil.net\\u{0}.google.com\\u{202e}");
    assert_eq!(hostile.verdict, ExplainedVerdict::Deny);
    let look_alike = explain("pаypal.com", &set);
    assert!(look_alike.target.starts_with("xn--"), "{look_alike:?}");
    assert_eq!(look_alike.unicode.as_deref(), Some("p\\u{430}ypal.com"));
    let long = explain(&"a ".repeat(5_000), &set);
    assert!(long.target.chars().count() <= SHOWN);
}

#[test]
fn a_message_is_one_sentence_with_the_way_out_and_no_full_stop() {
    let at = |text: &str| Destination::parse(text, None).unwrap();
    assert_eq!(
        DenyReason::NotListed.message(&at("files.evil.net:443")),
        "files.evil.net is not on the allowlist; allow files.evil.net:443 for this session"
    );
    assert_eq!(
        DenyReason::Telemetry.message(&at("api.segment.io:443")),
        "api.segment.io is a telemetry collector, which is always denied"
    );
    assert_eq!(
        DenyReason::AddressRange.message(&at("rebind.evil.net:80")),
        "rebind.evil.net leads to an address that is not public; allow the address that it leads \
         to, by itself"
    );
    assert_eq!(
        DenyReason::AddressRange.message(&at("[::1]:80")),
        "::1 is a loopback address (::1/128, RFC 4291); forward port 80 into the session"
    );
    for reason in [
        DenyReason::Malformed,
        DenyReason::Metadata,
        DenyReason::Telemetry,
        DenyReason::OperatorRule,
        DenyReason::AddressRange,
        DenyReason::NotListed,
        DenyReason::NetworkOff,
        DenyReason::Answer,
        DenyReason::Timeout,
        DenyReason::NobodyToAsk,
        DenyReason::TooManyQuestions,
        DenyReason::ServerName,
        DenyReason::Protocol,
        DenyReason::Unresolved,
        DenyReason::Cut,
    ] {
        let message = reason.message(&at("files.evil.net:443"));
        assert!(message.contains("files.evil.net"), "{message}");
        assert!(
            !message.ends_with('.') && !reason.why().ends_with('.'),
            "{message}"
        );
    }
}

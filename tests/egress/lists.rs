//! What an allowlist covers, by every route (cases: empty list, spelling, look-alikes, the two
//! wildcard forms, every other pattern).

use crate::sandbox::{Sandbox, Verdicts, verdicts};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;

#[test]
fn an_empty_list_lets_nothing_pass() {
    // egress case: allowlist `[]` (CVE-2025-66479 elsewhere)
    let name = world().name("empty-list.example.net");
    let sandbox = Sandbox::allowing(&[]);
    let mut driver = sandbox.driver();
    assert_eq!(verdicts(&mut driver, name, name), Verdicts::NONE);
    driver.end();
    sandbox
        .log()
        .refused(&format!("{name}:443"), DenyReason::NotListed, "python3");
    assert_eq!(world().names.asked(name), 0, "its name left the sandbox");
    assert!(world().sites.hits(name).is_empty());
    let control = Sandbox::allowing(&[name]);
    let mut driver = control.driver();
    assert_eq!(verdicts(&mut driver, name, name), Verdicts::ALL);
    driver.end();
    control.log().passed(&format!("{name}:443"));
}

#[test]
fn the_spelling_of_an_allowed_name_makes_no_difference() {
    // egress case: `EXAMPLE.com`, `example.com.` with `example.com` allowed
    let name = world().name("spelt.example.net");
    let sandbox = Sandbox::allowing(&["Spelt.Example.NET."]);
    let mut driver = sandbox.driver();
    for spelling in [
        name,
        "SPELT.example.NET",
        "spelt.example.net.",
        "Spelt.Example.Net.",
    ] {
        assert_eq!(
            verdicts(&mut driver, spelling, name),
            Verdicts::ALL,
            "{spelling}"
        );
    }
    let other = world().name("misspelt.example.net");
    assert_eq!(
        verdicts(&mut driver, "MISSPELT.example.net.", other),
        Verdicts::NONE
    );
    driver.end();
    let log = sandbox.log();
    log.passed("spelt.example.net:443");
    log.refused("misspelt.example.net:443", DenyReason::NotListed, "python3");
}

#[test]
fn a_leading_wildcard_covers_what_is_below_and_nothing_else() {
    // egress case: `evilexample.com`, `example.com.evil.net`, `example.com`, `a.b.example.com`
    // against `*.example.com`
    let sandbox = Sandbox::allowing(&["*.wild-one.net"]);
    let mut driver = sandbox.driver();
    for (name, expected) in [
        ("evilwild-one.net", false),
        ("wild-one.net.evil.net", false),
        ("wild-one.net", false),
        ("a.wild-one.net", true),
        ("a.b.wild-one.net", true),
    ] {
        world().name(name);
        let seen = verdicts(&mut driver, name, name);
        assert_eq!(seen, Verdicts::same(expected), "{name}");
        assert_eq!(world().names.asked(name) > 0, expected, "{name}");
    }
    driver.end();
    let log = sandbox.log();
    log.passed("a.b.wild-one.net:443");
    log.refused("wild-one.net:443", DenyReason::NotListed, "python3");
}

#[test]
fn a_middle_wildcard_covers_exactly_one_label() {
    // egress case: `bedrock.*.amazonaws.com`
    let sandbox = Sandbox::allowing(&["bedrock.*.wild-two.net"]);
    let mut driver = sandbox.driver();
    for (name, expected) in [
        ("bedrock.us-east-1.wild-two.net", true),
        ("bedrock.a.b.wild-two.net", false),
        ("bedrock.wild-two.net", false),
        ("other.us-east-1.wild-two.net", false),
    ] {
        world().name(name);
        let seen = verdicts(&mut driver, name, name);
        assert_eq!(seen, Verdicts::same(expected), "{name}");
    }
    driver.end();
}

#[test]
fn a_port_of_an_entry_is_part_of_it() {
    let name = world().name("one-port.example.net");
    let sandbox = Sandbox::allowing(&["one-port.example.net:443"]);
    let curl = |url: &str| sandbox.run(&format!("curl -fsS {url}"));
    assert_eq!(
        curl(&format!("https://{name}/")).stdout,
        format!("hello from {name}\n")
    );
    let other = curl(&format!("https://{name}:8443/"));
    assert!(!other.succeeded(), "{other:?}");
    sandbox
        .log()
        .refused(&format!("{name}:8443"), DenyReason::NotListed, "curl");
}

#[test]
fn every_other_pattern_is_a_clear_error_that_names_the_entry() {
    // egress case: patterns `*`, `*.com`, …
    for entry in [
        "*",
        "*.com",
        "*.co.uk",
        "s3.*.com",
        "*.*.x.com",
        "a*.x.com",
        "x.*",
        "**.x.com",
        "",
        "two words.com",
        " x.com",
        "x.com:0",
        "x.com:65536",
        "x.com:http",
    ] {
        let sandbox = Sandbox::allowing(&[entry]);
        let outcome = sandbox.run("echo ran");
        assert_eq!(outcome.code, 2, "{entry:?}: {outcome:?}");
        assert!(!outcome.stdout.contains("ran"), "{entry:?}: {outcome:?}");
        let named = outcome.stderr.contains(&format!("\"{entry}\""));
        assert!(named, "{entry:?} is not named: {outcome:?}");
    }
    let control = Sandbox::allowing(&["*.x.com", "x.com:443", "bedrock.*.amazonaws.com"]);
    assert_eq!(control.run("echo ran").stdout, "ran\n");
}

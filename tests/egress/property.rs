//! For any name and any list, the HTTP proxy, the SOCKS proxy, the way of programs that ignore
//! proxies and the DNS inside give one verdict, and it is that of a naive model (REQ EG-3, EG-4).

use crate::sandbox::{Sandbox, Verdicts, verdicts};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Lists that are tried, each in a session of its own, and names for each.
const LISTS: u32 = 10;
const NAMES: usize = 8;

/// What a list covers, said in the plainest way: label by label.
fn covered(pattern: &str, name: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    let name: Vec<&str> = name.split('.').collect();
    match pattern.iter().position(|label| *label == "*") {
        None => pattern == name,
        Some(0) => name.len() > pattern.len() - 1 && name.ends_with(&pattern[1..]),
        Some(at) => {
            pattern.len() == name.len()
                && (0..name.len()).all(|number| number == at || pattern[number] == name[number])
        }
    }
}

/// Few labels, so that names and patterns meet often.
fn label() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("api"), Just("xn--bcher-kva")].prop_map(str::to_owned)
}

/// Registrable, not in the baseline, and made to be mistaken for each other.
fn domain() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("prop-x.net"),
        Just("evilprop-x.net"),
        Just("prop-x.net.prop-y.org"),
        Just("prop-y.co.uk")
    ]
    .prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = String> {
    (prop::collection::vec(label(), 0..3), domain()).prop_map(|(mut labels, domain)| {
        labels.push(domain);
        labels.join(".")
    })
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        name(),
        name().prop_map(|name| format!("*.{name}")),
        (label(), name()).prop_map(|(head, name)| format!("{head}.*.{name}")),
    ]
}

/// The same name, spelt otherwise.
fn spelt(name: &str, how: u8) -> String {
    match how % 3 {
        0 => name.to_owned(),
        1 => name.to_ascii_uppercase(),
        _ => format!("{name}."),
    }
}

#[test]
fn every_route_gives_the_verdict_of_the_model_for_any_name_and_any_list() {
    let lists = prop::collection::vec(pattern(), 0..4);
    let names = prop::collection::vec((name(), any::<u8>()), NAMES);
    let mut runner = TestRunner::new(Config {
        cases: LISTS,
        // A failing list is shown as it is: to shrink it would start hundreds of sessions.
        max_shrink_iters: 8,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&(lists, names), |(list, names)| {
        let entries: Vec<&str> = list.iter().map(String::as_str).collect();
        let sandbox = Sandbox::allowing(&entries);
        let mut driver = sandbox.driver();
        let mut model = Vec::new();
        for (name, how) in &names {
            world().name(name);
            let expected = list.iter().any(|pattern| covered(pattern, name));
            let seen = verdicts(&mut driver, &spelt(name, *how), name);
            prop_assert_eq!(
                seen,
                Verdicts::same(expected),
                "{} against {:?}",
                name,
                list
            );
            model.push((name, expected));
        }
        driver.end();
        let log = sandbox.log();
        for (name, expected) in model {
            let target = format!("{name}:443");
            if expected {
                log.passed(&target);
            } else {
                log.refused(&target, DenyReason::NotListed, "python3");
            }
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // That both verdicts occur is seen on fixed examples, whatever the generator did.
    for (list, name, expected) in [
        ("*.prop-x.net", "a.prop-x.net", true),
        ("*.prop-x.net", "evilprop-x.net", false),
        ("a.*.prop-y.co.uk", "a.b.prop-y.co.uk", true),
    ] {
        assert_eq!(covered(list, name), expected);
        let sandbox = Sandbox::allowing(&[list]);
        let mut driver = sandbox.driver();
        world().name(name);
        assert_eq!(
            verdicts(&mut driver, name, name),
            Verdicts::same(expected),
            "{name}"
        );
        driver.end();
    }
}

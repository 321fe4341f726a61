//! A name is not trusted alone (REQ EG-11): what it resolves to is judged too, and only what was
//! judged is dialled (cases: special addresses, rebinding, the fixed denylist).

use crate::sandbox::Sandbox;
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::{PUBLIC, PUBLIC_V6, SPECIAL, world};

#[test]
fn an_allowed_name_that_stands_for_a_special_address_is_denied() {
    // egress case: an allowed name that resolves to 127.0.0.1, 169.254.169.254, …
    let sandbox = Sandbox::allowing(&["*.special.example.net"]);
    let mut names = Vec::new();
    for (number, address) in SPECIAL.iter().enumerate() {
        let name = format!("s{number}.special.example.net");
        world().names.set(&name, &[address]);
        names.push(name);
    }
    world().names.set("good.special.example.net", &[PUBLIC]);
    let script = names
        .iter()
        .map(|name| format!("curl -sS -o /dev/null -w '%{{http_code}} ' http://{name}/; "))
        .collect::<String>();
    let outcome = sandbox.run(&format!(
        "{script} curl -fsS http://good.special.example.net/"
    ));
    assert_eq!(
        outcome.stdout,
        "403 ".repeat(names.len()) + "hello from good.special.example.net\n",
        "{outcome:?}"
    );
    let log = sandbox.log();
    for (name, address) in names.iter().zip(&SPECIAL) {
        let reason = match *address {
            "169.254.169.254" => DenyReason::Metadata,
            _ => DenyReason::AddressRange,
        };
        log.refused(&format!("{name}:80"), reason, "curl");
        assert!(world().sites.hits(name).is_empty(), "{name} was reached");
        assert!(
            world().names.asked(name) > 0,
            "{name} was not even resolved"
        );
    }
    log.passed("good.special.example.net:80");
}

#[test]
fn a_name_that_is_public_first_and_private_then_is_dialled_at_what_was_checked() {
    // egress case: first to a public and then to a private address (rebinding)
    let name = "rebinds.example.net";
    world().names.set_turns(name, &[&[PUBLIC], &["127.0.0.1"]]);
    let sandbox = Sandbox::allowing(&[name]);
    let first = sandbox.run(&format!("curl -fsS http://{name}/"));
    assert_eq!(first.stdout, format!("hello from {name}\n"), "{first:?}");
    let second = sandbox.run(&format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' http://{name}/"
    ));
    assert_eq!(second.stdout, "403", "{second:?}");
    let hits = world().sites.hits(name);
    let addresses: Vec<String> = hits
        .iter()
        .map(|hit| hit.address.ip().to_canonical().to_string())
        .collect();
    assert_eq!(
        addresses,
        [PUBLIC],
        "it was dialled at another address than the checked one"
    );
    let log = sandbox.log();
    let row = log
        .rows
        .iter()
        .find_map(|row| row.connection.as_ref()?.address.clone());
    assert_eq!(row.as_deref(), Some(PUBLIC));
    assert_eq!(log.refusals(&format!("{name}:80")).len(), 1);
}

#[test]
fn of_a_mixed_list_only_what_is_public_is_dialled() {
    for (number, list) in [
        ["127.0.0.1", PUBLIC],
        [PUBLIC, "10.1.2.3"],
        ["fd00::1", PUBLIC_V6],
        ["::1", PUBLIC],
    ]
    .iter()
    .enumerate()
    {
        let name = format!("mixed{number}.example.net");
        world().names.set(&name, list);
        let sandbox = Sandbox::allowing(&[&name]);
        let outcome = sandbox.run(&format!(
            "for i in 1 2 3; do curl -s -o /dev/null http://{name}/; done"
        ));
        drop(outcome);
        for hit in world().sites.hits(&name) {
            let address = hit.address.ip().to_canonical().to_string();
            assert!(
                [PUBLIC, PUBLIC_V6].contains(&address.as_str()),
                "{list:?}: {address}"
            );
        }
        assert!(
            !world().sites.hits(&name).is_empty(),
            "{list:?}: never reached at all"
        );
    }
}

#[test]
fn an_address_that_a_rule_names_by_itself_is_reached() {
    // The control of the guard: it is a rule, not an accident of the stage.
    let sandbox = Sandbox::allowing(&["10.1.2.3"]);
    let allowed = sandbox.run("curl -fsS http://10.1.2.3/");
    assert_eq!(allowed.stdout, "hello from 10.1.2.3\n", "{allowed:?}");
    let other = sandbox.run("curl -sS -o /dev/null -w '%{http_code}' http://172.16.5.5/");
    assert_eq!(other.stdout, "403", "{other:?}");
    let log = sandbox.log();
    log.passed("10.1.2.3:80");
    log.refused("172.16.5.5:80", DenyReason::AddressRange, "curl");
}

#[test]
fn the_fixed_denylist_wins_over_every_allow() {
    // egress case: metadata and telemetry names while `*` forms cover them
    let denied = [
        (
            "metadata.google.internal",
            "metadata.google.internal",
            DenyReason::Metadata,
        ),
        ("169.254.169.254", "169.254.169.254", DenyReason::Metadata),
        ("*.sentry.io", "o1.ingest.sentry.io", DenyReason::Telemetry),
        ("*.mixpanel.com", "api.mixpanel.com", DenyReason::Telemetry),
    ];
    for (entry, host, reason) in denied {
        if host.parse::<std::net::IpAddr>().is_err() {
            world().name(host);
        }
        let sandbox = Sandbox::allowing(&[entry]);
        let outcome = sandbox.run(&format!(
            "curl -sS -o /dev/null -w '%{{http_code}}' http://{host}/; \
             curl -sS --noproxy '*' -m 20 http://{host}/ && echo reached"
        ));
        assert!(outcome.stdout.starts_with("403"), "{host}: {outcome:?}");
        assert!(!outcome.stdout.contains("reached"), "{host}: {outcome:?}");
        sandbox.log().refused(&format!("{host}:80"), reason, "curl");
        assert!(world().sites.hits(host).is_empty());
    }
    assert!(world().names.asked_with("sentry.io").is_empty());
}

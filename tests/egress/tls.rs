//! The TLS server name must be the host that was asked for (REQ EG-11), whatever the segments.

use crate::sandbox::Sandbox;
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;
use serde_json::{Value, json};

/// The first byte of a server's handshake record (RFC 8446 §5.1).
const HANDSHAKE: u64 = 22;

#[track_caller]
fn passes(answer: &Value) {
    assert_eq!(answer["first"], json!(HANDSHAKE), "{answer}");
}

#[track_caller]
fn closed(answer: &Value) {
    assert_eq!(
        answer["status"],
        json!(200),
        "the tunnel itself stands: {answer}"
    );
    assert_ne!(
        answer["first"],
        json!(HANDSHAKE),
        "the server answered: {answer}"
    );
}

#[test]
fn a_client_hello_for_another_name_closes_the_connection() {
    // egress case: CONNECT allowed:443, then a ClientHello for another name, or with two names
    let name = world().name("hello.tls-one.net");
    let other = world().name("fronted.tls-one.net");
    let sandbox = Sandbox::allowing(&["*.tls-one.net"]);
    let mut driver = sandbox.driver();
    let target = format!("{name}:443");
    passes(&driver.ask(json!({ "op": "hello", "target": target, "name": name })));
    closed(&driver.ask(json!({ "op": "hello", "target": target, "name": other })));
    closed(&driver.ask(json!({ "op": "hello", "target": target, "name": name, "second": other })));
    closed(&driver.ask(json!({ "op": "hello", "target": target, "name": other, "second": name })));
    driver.end();
    let log = sandbox.log();
    let refusals = log.refusals(&target);
    assert_eq!(
        refusals.iter().map(|row| row.count).sum::<u32>(),
        3,
        "{refusals:#?}"
    );
    log.passed_somewhere(&target);
    let why: Vec<DenyReason> = refusals
        .iter()
        .filter_map(|row| row.connection.as_ref()?.denied)
        .collect();
    assert!(why.contains(&DenyReason::ServerName), "{refusals:#?}");
    let told = refusals.iter().any(|row| {
        row.why.contains(other) || row.raw.as_deref().is_some_and(|raw| raw.contains(other))
    });
    assert!(told, "no row tells which name was sent: {refusals:#?}");
    assert!(
        world().sites.hits(other).is_empty(),
        "the other site was reached"
    );
}

#[test]
fn a_client_hello_without_a_name_closes_the_connection() {
    let name = world().name("nameless.tls-two.net");
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    let target = format!("{name}:443");
    passes(&driver.ask(json!({ "op": "hello", "target": target, "name": name })));
    closed(&driver.ask(json!({ "op": "hello", "target": target, "name": null })));
    driver.end();
    let log = sandbox.log();
    assert_eq!(log.refusals(&target).len(), 1, "{log:#?}");
    let denied = log.refusals(&target)[0]
        .connection
        .as_ref()
        .and_then(|c| c.denied);
    assert_eq!(denied, Some(DenyReason::ServerName));
}

#[test]
fn what_is_not_tls_on_443_closes_the_connection() {
    let name = world().name("plain.tls-three.net");
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    let target = format!("{name}:443");
    passes(&driver.ask(json!({ "op": "hello", "target": target, "name": name })));
    for bytes in [
        "GET / HTTP/1.1\r\nHost: plain.tls-three.net\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\u{16}\u{3}\u{1}\0\u{5}\u{2}\0\0\u{1}\0",
    ] {
        closed(
            &driver
                .ask(json!({ "op": "hello", "target": target, "hex": crate::sandbox::hex(bytes) })),
        );
    }
    driver.end();
    let log = sandbox.log();
    let rows = log.refusals(&target);
    assert_eq!(
        rows.iter().map(|row| row.count).sum::<u32>(),
        3,
        "{rows:#?}"
    );
    for row in rows {
        let denied = row.connection.as_ref().and_then(|c| c.denied);
        assert_eq!(denied, Some(DenyReason::Protocol), "{row:#?}");
    }
}

#[test]
fn a_client_hello_in_many_segments_passes_for_the_right_name_only() {
    // egress case: split over many segments
    let name = world().name("split.tls-four.net");
    let other = world().name("splinter.tls-four.net");
    let sandbox = Sandbox::allowing(&["*.tls-four.net"]);
    let mut driver = sandbox.driver();
    let target = format!("{name}:443");
    for step in [1, 7, 100] {
        passes(&driver.ask(json!({ "op": "hello", "target": target, "name": name, "step": step })));
        closed(
            &driver.ask(json!({ "op": "hello", "target": target, "name": other, "step": step })),
        );
    }
    driver.end();
    assert_eq!(
        sandbox
            .log()
            .refusals(&target)
            .iter()
            .map(|row| row.count)
            .sum::<u32>(),
        3
    );
}

#[test]
fn programs_that_ignore_proxies_are_held_to_the_same_name() {
    let name = world().name("direct.tls-five.net");
    let other = world().name("indirect.tls-five.net");
    let sandbox = Sandbox::allowing(&["*.tls-five.net"]);
    let mut driver = sandbox.driver();
    let right = driver.ask(json!({ "op": "transparent", "name": name, "port": 443, "tls": name }));
    assert_eq!(right["tls"], "tls", "{right}");
    let wrong = driver.ask(json!({ "op": "transparent", "name": name, "port": 443, "tls": other }));
    assert_ne!(wrong["tls"], "tls", "{wrong}");
    driver.end();
    sandbox
        .log()
        .refused(&format!("{name}:443"), DenyReason::ServerName, "python3");
}

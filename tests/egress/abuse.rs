//! Clients that try to take the engine's memory and time (cases: 64 KiB without a newline, 10,000
//! headers, one byte a second, 2,000 silent connections): bounded, and others are unaffected.

use crate::memory::Watch;
use crate::sandbox::{Driver, Sandbox, hex};
use kotak_tests::net::world;
use serde_json::json;

/// What the engine may grow by in all of this, in bytes.
const BOUND: u64 = 96 << 20;

#[track_caller]
fn others_are_served(driver: &mut Driver, name: &str) {
    let answer =
        driver.ask(json!({ "op": "connect", "target": format!("{name}:443"), "tls": name }));
    assert_eq!(answer["tls"], "tls", "{answer}");
}

#[test]
fn a_head_without_end_and_one_of_ten_thousand_fields_are_refused() {
    // egress case: client sends 64 KiB without a newline; 10,000 headers
    let name = world().name("good.abuse-one.net");
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    others_are_served(&mut driver, name);
    let memory = Watch::start(driver.pid());
    let endless = "A".repeat(70_000);
    let fields = format!(
        "GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n{}\r\n",
        "X: y\r\n".repeat(10_000)
    );
    for head in [&endless, &fields] {
        for _ in 0..20 {
            let answer = driver.ask(json!({ "op": "raw", "hex": hex(head) }));
            let status = answer["answer"]
                .as_str()
                .unwrap_or_default()
                .get(..12)
                .unwrap_or_default()
                .to_owned();
            assert!(
                ["HTTP/1.1 431", "HTTP/1.1 400"].contains(&status.as_str()),
                "{answer}"
            );
        }
    }
    // A SOCKS client that goes on for ever says nothing that is one.
    let answer = driver.ask(json!({ "op": "raw", "proxy": "ALL_PROXY", "hex": hex(&endless) }));
    assert!(
        answer["answer"]
            .as_str()
            .is_some_and(|text| text.len() < 100),
        "{answer}"
    );
    others_are_served(&mut driver, name);
    let grown = memory.grown();
    assert!(grown < BOUND, "the engine grew by {grown} bytes");
    driver.end();
    assert!(
        world().sites.hits(name).is_empty(),
        "a request of these was passed on"
    );
}

#[test]
fn silent_connections_take_bounded_memory_and_stand_in_nobodys_way() {
    // egress case: opens 2,000 connections and stays silent
    let name = world().name("good.abuse-two.net");
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    others_are_served(&mut driver, name);
    let memory = Watch::start(driver.pid());
    let limit = driver.ask(json!({ "op": "descriptors", "count": 4096 }));
    assert_eq!(limit["ok"], json!(true), "{limit}");
    let opened = driver.ask(json!({ "op": "silent", "count": 2000, "as": "silent" }));
    assert_eq!(opened["open"], json!(2000), "{opened}");
    for _ in 0..20 {
        others_are_served(&mut driver, name);
    }
    let grown = memory.grown();
    assert!(grown < BOUND, "the engine grew by {grown} bytes");
    driver.ask(json!({ "op": "drop", "as": "silent" }));
    others_are_served(&mut driver, name);
    driver.end();
}

#[test]
fn one_byte_a_time_is_cut_off_by_the_engines_own_limit() {
    // egress case: one byte a second. The limit is the product's: a head that dribbles for longer
    // is answered with 408 however often a byte comes; others do not wait for it.
    let name = world().name("good.abuse-three.net");
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    let head = format!(
        "GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\nX-Slow: {}\r\n\r\n",
        "x".repeat(500)
    );
    let slow = driver.start(json!({ "op": "slow", "text": head, "pause": 1.0 }));
    for _ in 0..20 {
        others_are_served(&mut driver, name);
    }
    let answer = driver.wait(slow);
    assert_ne!(answer["how"], "sent", "all of it was taken: {answer}");
    driver.end();
    assert!(world().sites.hits(name).is_empty());
    let log = sandbox.log();
    let told = log.rows.iter().any(|row| {
        row.why.contains("time") || row.raw.as_deref().is_some_and(|raw| raw.contains("time"))
    });
    assert!(told, "{log:#?}");
}

//! Many tunnels and a flood of refusals at once: bounded memory, and the clients' own counters are
//! those of the history. Small unless `KOTAK_LOAD=full`.

use crate::memory::Watch;
use crate::sandbox::Sandbox;
use kotak_engine::api::Outcome;
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::{tunnels, world};

/// How much.
struct Load {
    tunnels: u64,
    denied_per_second: u64,
    seconds: u64,
}

const SMALL: Load = Load {
    tunnels: 200,
    denied_per_second: 500,
    seconds: 10,
};

/// What is promised.
const FULL: Load = Load {
    tunnels: 2_000,
    denied_per_second: 10_000,
    seconds: 600,
};

/// What the engine may take for itself, and for every tunnel, in bytes.
const OWN: u64 = 96 << 20;
const EACH: u64 = 64 << 10;

#[test]
fn memory_is_bounded_and_every_connection_is_counted_under_load() {
    let load = match std::env::var("KOTAK_LOAD").as_deref() {
        Ok("full") => FULL,
        Ok(other) => panic!("KOTAK_LOAD is {other:?}: only `full` is known"),
        Err(_) => SMALL,
    };
    let allowed = world().name("allowed.load.net");
    let denied = world().name("denied.load.net");
    let sandbox = Sandbox::allowing(&[allowed]);
    let client = sandbox.stage.work().join("load-client");
    std::fs::copy(kotak_tests::command::program("load-client"), &client).expect("the client");
    let mut driver = sandbox.driver();
    // Both ends of every connection are descriptors of the client or of the engine.
    let memory = Watch::start(driver.pid());
    let script = format!(
        "ulimit -n $(ulimit -Hn); exec ./load-client {allowed} {denied} {} {} {}",
        load.tunnels, load.denied_per_second, load.seconds
    );
    let answer = driver.ask(serde_json::json!({ "op": "shell", "script": script }));
    let grown = memory.grown();
    let text = answer["stdout"].as_str().unwrap_or_default();
    let counted: serde_json::Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {answer}"));
    println!("load: {counted}; the engine grew by {} KiB", grown >> 10);
    let get = |name: &str| counted[name].as_u64().unwrap_or_default();
    assert_eq!(
        (get("tunnels"), get("failed")),
        (load.tunnels, 0),
        "{answer}"
    );
    assert!(
        get("refused") > 0 && get("echoes") >= load.tunnels,
        "{answer}"
    );
    assert!(
        grown < OWN + EACH * load.tunnels,
        "the engine grew by {grown} bytes"
    );
    driver.end();

    let log = sandbox.log();
    let sum = |target: String, outcome: Outcome| -> u64 {
        let rows = log
            .rows
            .iter()
            .filter(|row| row.target == target && row.outcome == outcome);
        rows.map(|row| u64::from(row.count)).sum()
    };
    let tunnel = format!("{allowed}:{}", tunnels::ECHO);
    assert_eq!(sum(tunnel, Outcome::Allowed), load.tunnels);
    let refused = sum(format!("{denied}:443"), Outcome::Refused);
    assert_eq!(refused, get("refused"));
    log.refused_in_a_flood(
        &format!("{denied}:443"),
        DenyReason::NotListed,
        "load-client",
    );
}

//! Many tunnels and a flood of refusals at once: bounded memory, and the clients' own counters are
//! those of the history. Small unless `KOTAK_LOAD=full`.

use crate::memory::Watch;
use crate::sandbox::Sandbox;
use kotak_engine::egress::decide::DenyReason;
use kotak_engine::store::Store;
use kotak_tests::net::world;

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

    // What every attempt came to by the history: in a flood not each has a row of its own.
    let log = sandbox.log();
    let session = &log.rows.first().expect("a row").session_id;
    let (store, problems) = Store::open(&sandbox.dirs());
    assert!(problems.is_empty(), "{problems:?}");
    let totals = store.totals(session).expect("the totals");
    println!("the history: {totals:?}");
    assert_eq!(
        (totals.allowed, totals.refused),
        (load.tunnels, get("refused"))
    );
    let not_listed = (Some(DenyReason::NotListed), get("refused"));
    assert_eq!(totals.reasons, [not_listed]);
    log.refused_in_a_flood(
        &format!("{denied}:443"),
        DenyReason::NotListed,
        "load-client",
    );
}

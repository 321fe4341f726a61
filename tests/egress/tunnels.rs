//! What a tunnel must bear (cases: IPv6-only destination, happy eyeballs, half-close, idle tunnel,
//! large transfers, both directions at once).

use crate::sandbox::Sandbox;
use kotak_engine::egress::limits::Limits;
use kotak_tests::net::body::Generated;
use kotak_tests::net::{PUBLIC, PUBLIC_SILENT, PUBLIC_V6, tunnels, world};

#[test]
fn a_destination_that_has_only_ipv6_is_reached() {
    let name = "six.tunnels-one.net";
    world().names.set(name, &[PUBLIC_V6]);
    let sandbox = Sandbox::allowing(&[name]);
    let outcome = sandbox.run(&format!(
        "curl -fsS https://{name}/; curl -fsS --noproxy '*' https://{name}/"
    ));
    assert_eq!(
        outcome.stdout,
        format!("hello from {name}\n").repeat(2),
        "{outcome:?}"
    );
    let hits = world().sites.hits(name);
    assert!(
        hits.iter()
            .all(|hit| hit.address.ip().to_string() == PUBLIC_V6),
        "{hits:?}"
    );
}

#[test]
fn an_address_that_does_not_answer_does_not_hide_the_next() {
    // happy eyeballs (RFC 8305): the first address of the list refuses
    let name = "eyes.tunnels-two.net";
    world()
        .names
        .set(name, &["2606:2800:220:1::99", PUBLIC_SILENT, PUBLIC]);
    let sandbox = Sandbox::allowing(&[name]);
    let outcome = sandbox.run(&format!("curl -fsS https://{name}/"));
    assert_eq!(
        outcome.stdout,
        format!("hello from {name}\n"),
        "{outcome:?}"
    );
}

/// A tunnel by CONNECT with socat, which closes one direction when its input ends.
fn through(sandbox: &Sandbox, input: &str, host: &str, port: u16) -> String {
    let outcome = sandbox.run(&format!(
        "proxy=${{HTTP_PROXY#http://}}; proxy=${{proxy%/}}; \
         printf '{input}' | socat -t 30 - PROXY:${{proxy%:*}}:{host}:{port},proxyport=${{proxy##*:}}"
    ));
    assert!(outcome.succeeded(), "{outcome:?}");
    outcome.stdout
}

#[test]
fn a_half_closed_tunnel_still_carries_the_answer() {
    let name = world().name("half.tunnels-three.net");
    let sandbox = Sandbox::allowing(&[name]);
    assert_eq!(
        through(&sandbox, "12345", name, tunnels::TELL),
        "5 bytes came\n"
    );
    assert_eq!(through(&sandbox, "echoed", name, tunnels::ECHO), "echoed");
}

#[test]
fn an_idle_tunnel_stays() {
    // egress case: idle tunnel for 10 minutes. The wait here is short; that nothing ends a silent
    // tunnel sooner is shown by every limit that there is: none is one of a tunnel that stands. A
    // new one does not compile before it is looked at here.
    let name = world().name("idle.tunnels-four.net");
    let sandbox = Sandbox::allowing(&[name]);
    assert_eq!(
        through(&sandbox, "3000\\n", name, tunnels::IDLE),
        "ready\nstill here\n"
    );
    let Limits {
        connections: _,
        silent: _, // those that have not yet said where to
        head_bytes: _,
        head_fields: _,
        head_time: _,
        idle_time: _, // before a request
        hello_bytes: _,
        hello_time: _,
        answer_time: _,      // of a plain request
        half_closed_time: _, // the same
        resolve_time: _,
        connect_time: _,
        next_address_after: _,
        addresses: _,
        names: _,
        answer_seconds: _,
        tls_ports: _,
        http_ports: _,
    } = Limits::default();
}

#[test]
fn a_gigabyte_passes_in_both_directions_at_once() {
    let name = world().name("large.tunnels-five.net");
    let length = 1_u64 << 30;
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    let memory = crate::memory::Watch::start(driver.pid());
    let down = driver.start(serde_json::json!({ "op": "shell", "script": format!("curl -fsS https://{name}/bytes/{length} | sha256sum") }));
    let up = driver.start(serde_json::json!({ "op": "shell", "script": format!("head -c {length} /dev/zero | curl -fsS -T - https://{name}/upload") }));
    let (down, up) = (driver.wait(down), driver.wait(up));
    assert_eq!(
        down["stdout"]
            .as_str()
            .and_then(|text| text.split(' ').next()),
        Some(Generated::sha256(length).as_str()),
        "{down}"
    );
    assert!(
        up["stdout"]
            .as_str()
            .is_some_and(|text| text.starts_with(&format!("{length} "))),
        "{up}"
    );
    let grown = memory.grown();
    assert!(grown < 64 << 20, "the engine grew by {grown} bytes");
    driver.end();
    let log = sandbox.log();
    let bytes = |read: fn(&kotak_engine::api::ConnectionDetail) -> u64| -> u64 {
        log.rows
            .iter()
            .filter_map(|row| row.connection.as_ref())
            .map(read)
            .max()
            .unwrap_or_default()
    };
    assert!(
        bytes(|c| c.bytes_down) >= length && bytes(|c| c.bytes_up) >= length,
        "{log:#?}"
    );
}

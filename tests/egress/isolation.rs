//! A session's way out is its own (cases: another user or process, two sessions with different
//! lists, `networkEnabled: false`).

use crate::sandbox::{Sandbox, Verdicts, hex, verdicts};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[test]
fn nobody_outside_of_a_session_can_use_its_proxies() {
    // egress case: another local user or process connects to the session's proxy port
    let name = world().name("own.isolation-one.net");
    let sandbox = Sandbox::allowing(&[name]);
    let mut driver = sandbox.driver();
    let environment = driver.ask(json!({ "op": "environment" }));
    let mut ports = Vec::new();
    for variable in ["HTTP_PROXY", "ALL_PROXY"] {
        let proxy = environment["environment"][variable]
            .as_str()
            .unwrap_or_default();
        let port = proxy
            .trim_end_matches('/')
            .rsplit(':')
            .next()
            .and_then(|port| port.parse::<u16>().ok());
        ports.push(port.unwrap_or_else(|| panic!("{variable} is {proxy:?}")));
    }
    // From the engine's own namespace, where another user's program would be too.
    for port in &ports {
        let address = SocketAddr::from(([127, 0, 0, 1], *port));
        let outside = TcpStream::connect_timeout(&address, Duration::from_secs(10));
        assert!(outside.is_err(), "port {port} can be reached from outside");
    }
    // From another session, which has a pair of its own at most.
    let other = Sandbox::allowing(&[]);
    let mut stranger = other.driver();
    let raw = hex(format!(
        "CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n"
    ));
    let answer = stranger.ask(json!({ "op": "transparent", "name": "127.0.0.1", "port": ports[0], "hex": raw, "shut": true }));
    let text = answer["answer"].as_str().unwrap_or_default();
    assert!(!text.starts_with("HTTP/1.1 200"), "{answer}");
    // The control: the session itself.
    let own = driver.ask(json!({ "op": "transparent", "name": "127.0.0.1", "port": ports[0], "hex": raw, "shut": true }));
    assert!(
        own["answer"]
            .as_str()
            .is_some_and(|text| text.starts_with("HTTP/1.1 200")),
        "{own}"
    );
    stranger.end();
    driver.end();
}

#[test]
fn two_sessions_with_different_lists_do_not_mix() {
    // egress case: two sessions with different lists at the same time, 200 connections each
    let first = world().name("first.isolation-two.net");
    let second = world().name("second.isolation-two.net");
    let boxes = [Sandbox::allowing(&[first]), Sandbox::allowing(&[second])];
    let mut drivers = [boxes[0].driver(), boxes[1].driver()];
    let mut jobs = Vec::new();
    for (number, driver) in drivers.iter_mut().enumerate() {
        for name in [first, second] {
            let job = json!({ "op": "many", "target": format!("{name}:443"), "parallel": 100, "each": 1, "tls": name });
            jobs.push((number, name, driver.start(job)));
        }
    }
    for (number, name, job) in jobs {
        let answer = drivers[number].wait(job);
        let own = (number == 0) == (name == first);
        let expected: Value = if own {
            json!({ "tls": 100 })
        } else {
            json!({ "403": 100 })
        };
        assert_eq!(answer["counts"], expected, "session {number}, {name}");
    }
    for driver in drivers {
        driver.end();
    }
    let count = |sandbox: &Sandbox, target: &str| -> u32 {
        let log = sandbox.log();
        log.rows
            .iter()
            .filter(|row| row.target == target)
            .map(|row| row.count)
            .sum()
    };
    for sandbox in &boxes {
        for name in [first, second] {
            assert_eq!(count(sandbox, &format!("{name}:443")), 100, "{name}");
        }
    }
    boxes[0]
        .log()
        .refused_in_a_flood(&format!("{second}:443"), DenyReason::NotListed, "python3");
    boxes[1]
        .log()
        .refused_in_a_flood(&format!("{first}:443"), DenyReason::NotListed, "python3");
}

#[test]
fn a_network_that_is_off_refuses_every_attempt_and_reports_it() {
    // egress case: `networkEnabled: false`
    let name = world().name("off.isolation-three.net");
    let sandbox = Sandbox::new("off", &[]);
    let mut driver = sandbox.driver();
    assert_eq!(verdicts(&mut driver, name, name), Verdicts::NONE);
    // Baseline or not.
    let github = world().name("github.com");
    assert_eq!(verdicts(&mut driver, github, github), Verdicts::NONE);
    driver.end();
    let log = sandbox.log();
    log.refused(&format!("{name}:443"), DenyReason::NetworkOff, "python3");
    log.refused("github.com:443", DenyReason::NetworkOff, "python3");
    assert_eq!(world().names.asked(name), 0);

    let spec = |enabled: bool| {
        json!({
            "sessionId": format!("spec-{enabled}"),
            "workspaceId": "test",
            "bindMounts": [{ "hostPath": sandbox.stage.work() }],
            "guestWorkdir": sandbox.stage.work(),
            "networkEnabled": enabled,
            "egressAllowlist": [name],
        })
        .to_string()
    };
    let run = |enabled: bool| {
        let call = sandbox.stage.kotak().input(spec(enabled));
        call.args(["run", "--backend", "native", "--spec", "-", "--"])
            .args([
                "curl",
                "-sS",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                &format!("http://{name}/"),
            ])
            .run()
    };
    let (off, on) = (run(false), run(true));
    assert_eq!(off.stdout, "403", "{off:?}");
    assert_eq!(on.stdout, "200", "the control failed: {on:?}");
}

#[test]
fn a_server_inside_and_one_of_the_host_do_not_meet_without_a_grant() {
    // egress case: a dev server inside, opened from the host's browser; a host database reached
    // from inside
    let sandbox = Sandbox::allowing(&["*.isolation-four.net"]);
    let database = std::net::TcpListener::bind("127.0.0.1:0").expect("a database");
    let port = database.local_addr().expect("an address").port();
    world()
        .names
        .set("local.isolation-four.net", &["127.0.0.1"]);
    let mut driver = sandbox.driver();
    for target in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "local.isolation-four.net",
    ] {
        let answer = driver.ask(json!({ "op": "connect", "target": format!("{target}:{port}") }));
        assert_eq!(answer["status"], json!(403), "{target}: {answer}");
    }
    let direct =
        driver.ask(json!({ "op": "transparent", "name": "127.0.0.1", "port": port, "hex": "" }));
    assert!(direct["error"].is_string(), "{direct}");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_secs(10))
        .expect("the control: the host itself");

    let served = driver.ask(json!({ "op": "serve" }));
    let port = served["port"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok())
        .expect("a port");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let outside = TcpStream::connect_timeout(&address, Duration::from_secs(10));
    assert!(outside.is_err(), "the host reaches a server inside");
    let inside = driver.ask(
        json!({ "op": "transparent", "name": "127.0.0.1", "port": port, "hex": "", "shut": true }),
    );
    assert_eq!(
        inside["answer"], "dev server\n",
        "the control failed: {inside}"
    );
    driver.end();
}

#[test]
fn the_environment_names_both_proxies_and_opens_nothing() {
    // REQ EG-2
    let sandbox = Sandbox::allowing(&[]);
    let mut driver = sandbox.driver();
    let answer = driver.ask(json!({ "op": "environment" }));
    driver.end();
    let get = |name: &str| {
        answer["environment"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
        assert!(
            get(name).starts_with("http://127.0.0.1:"),
            "{name}={}",
            get(name)
        );
    }
    for name in ["ALL_PROXY", "all_proxy"] {
        assert!(
            get(name).starts_with("socks5h://127.0.0.1:"),
            "{name}={}",
            get(name)
        );
    }
    assert!(!get("GIT_SSH_COMMAND").is_empty());
    for name in ["NO_PROXY", "no_proxy"] {
        let value = get(name);
        let local = value
            .split(',')
            .all(|entry| ["", "localhost", "127.0.0.1", "::1", "[::1]"].contains(&entry.trim()));
        assert!(local, "{name}={value}");
    }
}

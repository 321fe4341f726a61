//! The tools that people use, inside a session with an allowlist: they work when their host is
//! allowed, and not when it is not.

use crate::clients;
use crate::sandbox::Sandbox;
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::{git, packages, world};

/// Runs a script with the host allowed, and with another one allowed.
#[track_caller]
fn both(host: &str, script: &dyn Fn(&Sandbox) -> String, expected: &str, port: u16, process: &str) {
    let allowed = Sandbox::allowing(&[host]);
    let outcome = allowed.run(&script(&allowed));
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
    allowed.log().passed(&format!("{host}:{port}"));
    let denied = Sandbox::allowing(&["other.tools.net"]);
    let outcome = denied.run(&format!("set -e; {}", script(&denied)));
    assert!(!outcome.succeeded(), "{outcome:?}");
    denied
        .log()
        .refused(&format!("{host}:{port}"), DenyReason::NotListed, process);
}

#[test]
fn websockets_work_when_allowed() {
    let host = world().name("ws.tools.net");
    both(
        host,
        &|_| format!("python3 websocket.py {host} proxy"),
        "echo: hello\n",
        443,
        "python3",
    );
}

#[test]
fn http2_and_grpc_inside_connect_work_when_allowed() {
    let host = world().name("grpc.tools.net");
    both(host, &|_| clients::grpc(host), "2 ok 0\n", 443, "curl");
}

#[test]
fn git_over_https_clones_and_pushes_when_allowed() {
    let host = world().name("git.tools.net");
    let expected = git::SAMPLE.to_owned() + "pushed\n";
    both(
        host,
        &|_| clients::git_https(host),
        &expected,
        443,
        "git-remote-http",
    );
}

#[test]
fn git_over_ssh_goes_through_socks_when_allowed() {
    let host = world().name("ssh.tools.net");
    both(
        host,
        &|sandbox| clients::git_ssh(&sandbox.stage, host, ""),
        git::SAMPLE,
        22,
        "guard",
    );
    // By the proxy, not by the way of programs that ignore it.
    let sandbox = Sandbox::allowing(&[host]);
    let _ = sandbox.run(&clients::git_ssh(&sandbox.stage, host, ""));
    let log = sandbox.log();
    let routes: Vec<_> = log
        .rows
        .iter()
        .filter_map(|row| row.connection.as_ref())
        .map(|c| c.route)
        .collect();
    assert!(
        routes
            .iter()
            .all(|route| *route == kotak_engine::egress::gate::Route::Socks),
        "{log:#?}"
    );
}

#[test]
fn npm_install_works_when_allowed() {
    let host = "packages.example.net";
    both(
        host,
        &|_| clients::npm(host),
        "npm sample\n",
        443,
        "npm install kot",
    );
}

#[test]
fn pip_download_works_when_allowed() {
    let host = "packages.example.net";
    both(
        host,
        &|_| clients::pip(host),
        "kotak_sample-1.0-py3-none-any.whl\n",
        443,
        "python3",
    );
}

#[test]
fn cargo_fetch_works_when_allowed() {
    let host = "packages.example.net";
    let expected = format!("{}-1.0.0\n", packages::CRATE);
    both(
        host,
        &|sandbox| clients::cargo(&sandbox.stage, host),
        &expected,
        443,
        "cargo",
    );
}

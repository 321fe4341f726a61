//! The stage itself, without a sandbox: every server answers the client that it is for, and nothing
//! can leave. These are the positive controls of everything else here.

use kotak_tests::Stage;
use kotak_tests::net::{self, PUBLIC, PUBLIC_V6, SPECIAL, World, packages, tunnels, world};
use std::process::{Command, Stdio};

/// Runs a script in the test's own namespace, with the authority trusted.
#[track_caller]
fn direct(stage: &Stage, script: &str) -> String {
    let trust = World::trust(&world().ca_file());
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("{trust} set -e; {script}")])
        .env("HOME", stage.home())
        .current_dir(stage.work())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{script}`: {stdout}\n{stderr}");
    stdout
}

#[test]
fn nothing_can_leave_the_stage() {
    assert!(net::on_stage());
    // What is mounted at /sys may show the machine's own interfaces; this is the process's.
    let table = std::fs::read_to_string("/proc/self/net/dev").expect("interfaces");
    let names: Vec<&str> = table
        .lines()
        .skip(2)
        .filter_map(|l| l.split(':').next())
        .collect();
    assert_eq!(names.iter().map(|n| n.trim()).collect::<Vec<_>>(), ["lo"]);
    for address in ["8.8.8.8:53", "1.1.1.1:443", "[2001:4860:4860::8888]:53"] {
        let error = std::net::TcpStream::connect(address).expect_err(address);
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::NetworkUnreachable,
            "{address}"
        );
    }
}

#[test]
fn names_come_from_the_stages_name_server_and_are_counted() {
    let names = &world().names;
    names.set("counted.example.net", &[PUBLIC, PUBLIC_V6]);
    assert_eq!(names.asked("counted.example.net"), 0);
    let mut found = net::names::Names::look_up("counted.example.net").expect("addresses");
    found.sort();
    let mut expected: Vec<std::net::IpAddr> =
        vec![PUBLIC.parse().expect("v4"), PUBLIC_V6.parse().expect("v6")];
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(
        names.asked("counted.example.net"),
        2,
        "one query of each kind"
    );
    assert!(net::names::Names::look_up("unknown.example.net").is_err());
    assert!(names.asked("unknown.example.net") >= 1);
    // A name whose addresses change from one query to the next.
    names.set_turns("turning.example.net", &[&[PUBLIC], &["127.0.0.1"]]);
    let turn = || net::names::Names::look_up("turning.example.net").expect("an address");
    assert_eq!(
        (turn()[0].to_string(), turn()[0].to_string()),
        (PUBLIC.into(), "127.0.0.1".into())
    );
    let stage = Stage::new();
    let answer = direct(
        &stage,
        "dig +short @93.184.216.53 counted.example.net; dig +tcp +short @93.184.216.53 counted.example.net",
    );
    assert_eq!(answer, format!("{PUBLIC}\n{PUBLIC}\n"));
}

#[test]
fn web_sites_answer_curl_over_both_protocols_and_both_families() {
    let stage = Stage::new();
    world().names.set("both.example.net", &[PUBLIC, PUBLIC_V6]);
    for url in [
        "http://both.example.net/",
        "https://both.example.net/",
        "https://both.example.net:8443/",
    ] {
        for family in ["-4", "-6"] {
            let got = direct(&stage, &format!("curl -fsS {family} {url}"));
            assert_eq!(got, "hello from both.example.net\n", "{family} {url}");
        }
    }
    let hits = world().sites.hits("both.example.net");
    assert_eq!(hits.len(), 6);
    assert!(
        hits.iter()
            .any(|hit| hit.server_name.as_deref() == Some("both.example.net"))
    );
    let version = direct(
        &stage,
        "curl -fsS --http2 -o /dev/null -w '%{http_version}' https://both.example.net/",
    );
    assert_eq!(version, "2");
    let redirected = direct(
        &stage,
        "curl -fsSL 'https://both.example.net/redirect?https://both.example.net:8443/'",
    );
    assert_eq!(redirected, "hello from both.example.net\n");
}

#[test]
fn special_addresses_have_servers_too_so_that_a_refusal_means_something() {
    let stage = Stage::new();
    for address in SPECIAL {
        let host = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        let got = direct(&stage, &format!("curl -fsS 'http://{host}/'"));
        assert_eq!(got, format!("hello from {host}\n"));
    }
}

#[test]
fn large_bodies_are_generated_and_hashed_both_ways() {
    let stage = Stage::new();
    let host = world().name("large.example.net");
    let length = 3_000_001;
    let down = direct(
        &stage,
        &format!("curl -fsS https://{host}/bytes/{length} | tee body | sha256sum"),
    );
    let hash = net::body::Generated::sha256(length);
    assert_eq!(down.split(' ').next(), Some(hash.as_str()));
    let up = direct(&stage, &format!("curl -fsS -T body https://{host}/upload"));
    assert_eq!(up, format!("{length} {hash}\n"));
}

#[test]
fn websockets_and_grpc_are_echoed() {
    let stage = Stage::new();
    let host = world().name("live.example.net");
    stage.write("work/ws.py", crate::clients::WEBSOCKET);
    let got = direct(&stage, &format!("python3 ws.py {host} direct"));
    assert_eq!(got, "echo: hello\n");
    let got = direct(&stage, &crate::clients::grpc(host));
    assert_eq!(got, "2 ok 0\n");
}

#[test]
fn plain_tcp_servers_echo_half_close_and_wait() {
    let stage = Stage::new();
    let host = world().name("tcp.example.net");
    let echo = direct(
        &stage,
        &format!("printf hello | socat -t5 - TCP:{host}:{}", tunnels::ECHO),
    );
    assert_eq!(echo, "hello");
    let tell = direct(
        &stage,
        &format!("printf 12345 | socat -t5 - TCP:{host}:{}", tunnels::TELL),
    );
    assert_eq!(tell, "5 bytes came\n");
    let idle = direct(
        &stage,
        &format!("printf '50\\n' | socat -t5 - TCP:{host}:{}", tunnels::IDLE),
    );
    assert_eq!(idle, "ready\nstill here\n");
}

#[test]
fn git_clones_and_pushes_over_https_and_ssh() {
    let stage = Stage::new();
    let host = world().name("git.example.net");
    let https = direct(&stage, &crate::clients::git_https(host));
    assert_eq!(https, net::git::SAMPLE.to_owned() + "pushed\n");
    let ssh = direct(&stage, &crate::clients::git_ssh(&stage, host, ""));
    assert_eq!(ssh, net::git::SAMPLE);
}

#[test]
fn npm_pip_and_cargo_find_their_registries() {
    let stage = Stage::new();
    let host = "packages.example.net";
    let npm = direct(&stage, &crate::clients::npm(host));
    assert_eq!(npm, "npm sample\n");
    let pip = direct(&stage, &crate::clients::pip(host));
    assert_eq!(pip, "kotak_sample-1.0-py3-none-any.whl\n");
    let cargo = direct(&stage, &crate::clients::cargo(&stage, host));
    assert_eq!(cargo, format!("{}-1.0.0\n", packages::CRATE));
}

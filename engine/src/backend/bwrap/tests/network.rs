//! The way into a restricted network, in plans and in the report.

use super::*;
use crate::backend::PROXIES_ONLY;

#[test]
fn what_the_launch_found_of_the_way_in_is_what_the_network_row_says() {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Ask);
    let plan = native_plan(&policy, &facts()).unwrap();
    let network = |way: Option<&WayIn>| {
        let confirmed = confirm(&plan, &ready(&plan), way);
        row(&confirmed, Aspect::Network).clone()
    };
    let whole = network(Some(&way_in()));
    assert_eq!(whole.level, Level::On);
    assert!(whole.detail.contains("HTTP 3128, SOCKS 1080"), "{whole:?}");
    let blind = network(Some(&WayIn {
        blind: Some("its user namespace cannot be joined".to_owned()),
        ..way_in()
    }));
    assert_eq!(blind.level, Level::Partial);
    assert_eq!(blind.gaps[0].code, PROXIES_ONLY);
    assert!(blind.gaps[0].text.contains("cannot be joined"), "{blind:?}");
    let bridged = network(Some(&WayIn {
        bridge: Bridge::Socat,
        ..way_in()
    }));
    assert!(
        bridged.detail.ends_with("; over a socat bridge"),
        "{bridged:?}"
    );
    assert_eq!(network(None).level, Level::Off);
}

#[test]
fn a_restricted_network_has_listeners_and_a_resolver_of_its_own() {
    let mut host = home();
    for (network, restricted) in [
        (NetworkMode::Open, false),
        (NetworkMode::Allowlist, true),
        (NetworkMode::Ask, true),
        (NetworkMode::Off, true),
    ] {
        let policy = terminal_policy(&host, "/home/u/code", Mode::Chat, network);
        let plan = native_plan(&policy, &facts()).unwrap();
        let expected = restricted.then(|| LoopbackPlan {
            ports: vec![3128, 1080],
        });
        assert_eq!(plan.setup.loopback, expected, "{network:?}");
        let stub = path("/run/systemd/resolve/stub-resolv.conf");
        let bound = policy.binds.iter().any(|bind| bind.path == stub);
        assert_eq!(bound, !restricted, "the host's file");
        assert_eq!(policy.resolver, restricted.then_some(stub.clone()));
        assert_eq!(plan.resolver.is_some(), restricted);
        let operand = stub.as_bytes().to_vec();
        let args = &plan.blocks.last().unwrap().args;
        let at = args.iter().position(|arg| *arg == operand).unwrap();
        let option: &[u8] = if restricted { b"14" } else { b"--ro-bind" };
        assert!(
            args[at - 2..at].iter().any(|arg| arg == option),
            "{network:?}"
        );
        assert_eq!(expectation(&plan).contents.len(), usize::from(restricted));
    }
    // Without such a file programs ask 127.0.0.1 by themselves, and nothing is made on the host.
    host.link("/etc/resolv.conf", "/run/none/resolv.conf");
    let policy = terminal_policy(&host, "/home/u/code", Mode::Chat, NetworkMode::Off);
    assert_eq!(policy.resolver, None);
    assert_eq!(native_plan(&policy, &facts()).unwrap().resolver, None);
}

#[test]
fn the_socat_bridge_binds_its_two_sockets_before_the_root_is_sealed() {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Ask);
    let plan = native_plan(&policy, &facts()).unwrap();
    let bridged = plan.over_socat(&path("/tmp/bridge-x"));
    let ports = &bridged.setup.loopback.as_ref().unwrap().ports;
    assert!(ports.is_empty());
    let args = &bridged.blocks.last().unwrap().args;
    let place = |word: &str| {
        let found = args.iter().position(|arg| arg == word.as_bytes());
        found.unwrap_or_else(|| panic!("no {word}"))
    };
    let socket = place("/run/kotak/http.sock");
    assert_eq!(args[socket - 2], b"--ro-bind");
    assert_eq!(args[socket - 1], b"/tmp/bridge-x/http.sock");
    assert!(place("/run/kotak/socks.sock") < place("--chdir"));
    assert!(place("/run/kotak/guard") < socket);
    let sealed = args
        .windows(2)
        .position(|pair| pair[0] == b"--remount-ro" && pair[1] == b"/run");
    assert!(socket < sealed.unwrap());
}

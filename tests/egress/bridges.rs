//! The socat bridge (REQ BW-2), asked for by name: the same verdicts as over the guard's listeners.

use crate::clients;
use crate::sandbox::{Sandbox, Verdicts, hex, verdicts};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::{git, tunnels, world};
use serde_json::json;

/// The refusals of a target have this reason. Over socat nobody can tell which process asked by the
/// proxies: a relay stands between.
#[track_caller]
fn refused(sandbox: &Sandbox, target: &str, reason: DenyReason) {
    let log = sandbox.log();
    let rows = log.refusals(target);
    assert!(!rows.is_empty(), "no refusal of {target}: {log:#?}");
    for row in rows {
        let denied = row.connection.as_ref().and_then(|c| c.denied);
        assert_eq!(denied, Some(reason), "{row:#?}");
    }
}

#[test]
fn both_bridges_give_one_verdict_on_every_route() {
    let good = world().name("good.bridges-one.net");
    let bad = world().name("bad.bridges-one.net");
    let special = "special.bridges-one.net";
    world().names.set(special, &["10.1.2.3"]);
    for bridge in ["guard", "socat"] {
        let sandbox = Sandbox::allowing(&[good, special]).over(bridge);
        let mut driver = sandbox.driver();
        assert_eq!(verdicts(&mut driver, good, good), Verdicts::ALL, "{bridge}");
        assert_eq!(verdicts(&mut driver, bad, bad), Verdicts::NONE, "{bridge}");
        let mut status = |target: &str| {
            let answer = driver.ask(json!({ "op": "connect", "target": target }));
            answer["status"].as_u64()
        };
        assert_eq!(status(&format!("{special}:80")), Some(403), "{bridge}");
        assert_eq!(status("127.0.0.1:80"), Some(403), "{bridge}");
        assert_eq!(status("bad host:80"), Some(400), "{bridge}");
        let wrong = json!({ "op": "hello", "target": format!("{good}:443"), "name": bad });
        assert_ne!(driver.ask(wrong)["first"], json!(22), "{bridge}");
        let nul = hex("evil.net\0.bridges-one.net");
        let answer = driver.ask(json!({ "op": "socks", "hex": nul, "port": 443 }));
        assert_ne!(answer["code"], json!(0), "{bridge}");
        driver.end();
        refused(&sandbox, &format!("{bad}:443"), DenyReason::NotListed);
        refused(&sandbox, &format!("{special}:80"), DenyReason::AddressRange);
        refused(&sandbox, &format!("{good}:443"), DenyReason::ServerName);
        assert_eq!(world().names.asked(bad), 0);
        assert!(world().sites.hits(bad).is_empty());
    }
}

#[test]
fn tools_work_over_socat_when_allowed() {
    let host = world().name("tools.bridges-two.net");
    let sandbox = Sandbox::allowing(&[host]).over("socat");
    let https = sandbox.run(&clients::git_https(host));
    assert_eq!(
        https.stdout,
        git::SAMPLE.to_owned() + "pushed\n",
        "{https:?}"
    );
    let ssh = sandbox.run(&clients::git_ssh(&sandbox.stage, host, ""));
    assert_eq!(ssh.stdout, git::SAMPLE, "{ssh:?}");
    let tell = sandbox.run(&format!(
        "proxy=${{HTTP_PROXY#http://}}; proxy=${{proxy%/}}; printf 12345 | socat -t 30 - \
         PROXY:${{proxy%:*}}:{host}:{},proxyport=${{proxy##*:}}",
        tunnels::TELL
    ));
    assert_eq!(tell.stdout, "5 bytes came\n", "{tell:?}");
}

#[test]
fn a_network_that_is_off_is_off_over_socat() {
    let name = world().name("off.bridges-three.net");
    let sandbox = Sandbox::new("off", &[]).over("socat");
    let mut driver = sandbox.driver();
    assert_eq!(verdicts(&mut driver, name, name), Verdicts::NONE);
    driver.end();
    refused(&sandbox, &format!("{name}:443"), DenyReason::NetworkOff);
}

#[test]
fn no_connection_is_lost_while_others_end() {
    let name = world().name("many.bridges-four.net");
    for bridge in ["guard", "socat"] {
        let sandbox = Sandbox::allowing(&[name]).over(bridge);
        let mut driver = sandbox.driver();
        let target = format!("{name}:{}", tunnels::ECHO);
        let job = json!({ "op": "many", "target": target, "parallel": 4, "each": 100 });
        assert_eq!(driver.ask(job)["counts"], json!({ "200": 400 }), "{bridge}");
        driver.end();
    }
}

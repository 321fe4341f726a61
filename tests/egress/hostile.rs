//! Destinations that are written to be read in two ways (cases: NUL in SOCKS5, CONNECT targets,
//! Unicode and invisible characters, every spelling of an address).

use crate::sandbox::{Log, Sandbox, Verdicts, hex, verdicts};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::{PUBLIC, world};
use serde_json::json;

/// The refusals of what is no destination.
fn malformed(log: &Log) -> Vec<String> {
    let is = |reason: Option<DenyReason>| reason == Some(DenyReason::Malformed);
    log.rows
        .iter()
        .filter(|row| row.connection.as_ref().is_some_and(|c| is(c.denied)))
        .map(|row| row.target.clone())
        .collect()
}

#[test]
fn a_socks_name_with_a_nul_is_refused_before_matching() {
    // egress case: SOCKS5 domain `evil.net\0.google.com`
    let good = world().name("nul.hostile-one.net");
    world().name("evil-nul.net");
    let sandbox = Sandbox::allowing(&["*.hostile-one.net"]);
    let mut driver = sandbox.driver();
    let control = driver.ask(json!({ "op": "socks", "hex": hex(good), "port": 443, "tls": good }));
    assert_eq!(control["tls"], "tls", "{control}");
    for name in [
        "evil-nul.net\0.hostile-one.net",
        "\0.hostile-one.net",
        "evil-nul.net\r\n.hostile-one.net",
        "evil-nul.net .hostile-one.net",
        "user@evil-nul.net.hostile-one.net",
        "evil-nul%2enet.hostile-one.net",
        "",
        ".",
        "a..hostile-one.net",
    ] {
        let answer = driver.ask(json!({ "op": "socks", "hex": hex(name), "port": 443 }));
        assert_ne!(answer["code"], json!(0), "{name:?}: {answer}");
    }
    driver.end();
    assert!(world().names.asked_with("evil-nul").is_empty());
    let seen = malformed(&sandbox.log());
    assert!(
        seen.iter().any(|target| target.contains("\\x00")),
        "{seen:?}"
    );
    let bare = |target: &String| target.chars().any(char::is_control);
    assert!(
        !seen.iter().any(bare),
        "a control character is shown as it is: {seen:?}"
    );
}

#[test]
fn a_connect_target_that_is_no_host_and_port_is_refused_before_matching() {
    // egress case: CONNECT target with NUL, CR, LF, space, userinfo, percent-escapes
    let good = world().name("target.hostile-two.net");
    let sandbox = Sandbox::allowing(&["*.hostile-two.net"]);
    let mut driver = sandbox.driver();
    let control =
        driver.ask(json!({ "op": "connect", "target": format!("{good}:443"), "tls": good }));
    assert_eq!(control["tls"], "tls", "{control}");
    for target in [
        "evil-target.net\0.hostile-two.net:443",
        "evil-target.net\r.hostile-two.net:443",
        "evil-target.net\n.hostile-two.net:443",
        "evil-target.net .hostile-two.net:443",
        "user@target.hostile-two.net:443",
        "evil-target.net%00.hostile-two.net:443",
        "evil-target%2enet.hostile-two.net:443",
        "target.hostile-two.net",
        "target.hostile-two.net:",
        "target.hostile-two.net:0",
        "target.hostile-two.net:65536",
        "target.hostile-two.net:443:443",
        "target.hostile-two.net:https",
        "http://target.hostile-two.net:443",
        "target.hostile-two.net:443/",
        ":443",
        "[target.hostile-two.net]:443",
    ] {
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: target.hostile-two.net:443\r\n\r\n");
        let answer = driver.ask(json!({ "op": "connect", "target": "", "head": head }));
        assert_eq!(answer["status"], json!(400), "{target:?}: {answer}");
    }
    driver.end();
    assert!(world().names.asked_with("evil-target").is_empty());
    let seen = malformed(&sandbox.log());
    assert!(seen.iter().any(|target| target.contains("%00")), "{seen:?}");
    let bare = |target: &String| target.chars().any(char::is_control);
    assert!(
        !seen.iter().any(bare),
        "a control character is shown as it is: {seen:?}"
    );
}

#[test]
fn unicode_and_punycode_spellings_are_one_name() {
    // egress case: Unicode and punycode spellings of one name
    let canonical = world().name("xn--bcher-kva.hostile-three.net");
    for entry in [
        "bücher.hostile-three.net",
        "XN--BCHER-KVA.hostile-three.net",
    ] {
        let sandbox = Sandbox::allowing(&[entry]);
        let mut driver = sandbox.driver();
        for spelling in [
            canonical,
            "bücher.hostile-three.net",
            "BU\u{308}CHER.hostile-three.net",
        ] {
            let answer = driver
                .ask(json!({ "op": "socks", "hex": hex(spelling), "port": 443, "tls": canonical }));
            assert_eq!(answer["tls"], "tls", "{entry}: {spelling}: {answer}");
        }
        assert_eq!(verdicts(&mut driver, canonical, canonical), Verdicts::ALL);
        driver.end();
        let log = sandbox.log();
        log.passed(&format!("{canonical}:443"));
        let row = log
            .rows
            .iter()
            .find(|row| row.target == format!("{canonical}:443"));
        let unicode = row.and_then(|row| row.unicode.clone());
        assert!(
            unicode.is_some_and(|text| text.contains("bücher")),
            "{:?}",
            log.rows
        );
    }
}

#[test]
fn names_with_invisible_characters_are_denied_and_shown_visibly() {
    // egress case: zero-width characters
    let good = world().name("plain.hostile-four.net");
    let sandbox = Sandbox::allowing(&["*.hostile-four.net"]);
    let mut driver = sandbox.driver();
    for name in [
        "pla\u{200b}in.hostile-four.net",
        "plain\u{200d}.hostile-four.net",
        "plain.\u{feff}hostile-four.net",
        "\u{202e}nialp.hostile-four.net",
        "plain.hostile\u{ad}-four.net",
    ] {
        let answer = driver.ask(json!({ "op": "socks", "hex": hex(name), "port": 443 }));
        assert_ne!(answer["code"], json!(0), "{name:?}: {answer}");
    }
    let control = driver.ask(json!({ "op": "socks", "hex": hex(good), "port": 443, "tls": good }));
    assert_eq!(control["tls"], "tls", "{control}");
    driver.end();
    let seen = malformed(&sandbox.log());
    assert!(
        seen.iter().any(|target| target.contains("\\xe2\\x80\\x8b")),
        "{seen:?}"
    );
    assert!(
        seen.iter().any(|target| target.contains("\\xe2\\x80\\xae")),
        "{seen:?}"
    );
}

#[test]
fn addresses_in_every_spelling_are_canonical_and_no_wildcard_covers_them() {
    // egress case: IP literals in every spelling the platform's resolver takes
    let sandbox = Sandbox::allowing(&["*.hostile-five.net", PUBLIC]);
    let mut driver = sandbox.driver();
    let mut status = |target: &str| {
        let answer = driver.ask(json!({ "op": "connect", "target": target }));
        answer["status"].as_u64().unwrap_or_default()
    };
    // 93.184.216.34 in other words; port 80, where no TLS is asked for.
    for spelling in [
        "93.184.216.34",
        "93.184.55330",
        "1572395042",
        "0x5db8d822",
        "0135.0270.0330.042",
        "[::ffff:93.184.216.34]",
    ] {
        assert_eq!(status(&format!("{spelling}:80")), 200, "{spelling}");
    }
    for spelling in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "0",
        "10.1.2.3",
        "10.66051",
        "169.254.169.254",
        "2852039166",
        "[fd00::1]",
        "192.168.7.7",
        "172.16.5.5",
        "100.64.0.9",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "93.184.216.35",
    ] {
        assert_eq!(status(&format!("{spelling}:80")), 403, "{spelling}");
    }
    for spelling in [
        "[fe80::1%lo]",
        "[fe80::1%25lo]",
        "127.0.0.1.hostile-five.0x1",
        "256.1.1.1",
        "1.2.3.4.5",
    ] {
        assert_eq!(status(&format!("{spelling}:80")), 400, "{spelling}");
    }
    driver.end();
    let log = sandbox.log();
    log.passed(&format!("{PUBLIC}:80"));
    log.refused("127.0.0.1:80", DenyReason::AddressRange, "python3");
    log.refused("10.1.2.3:80", DenyReason::AddressRange, "python3");
    log.refused("169.254.169.254:80", DenyReason::Metadata, "python3");
    log.refused("93.184.216.35:80", DenyReason::NotListed, "python3");
}

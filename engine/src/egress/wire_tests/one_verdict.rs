//! For any name and any list, every way in comes to one verdict.

use super::peers::{Response, echo, read_to_end};
use super::rig::{Plan, Rig, Seen};
use crate::egress::gate::Route;
use crate::spec::Host;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use tokio::io::AsyncWriteExt;

/// Names as programs write them: canonical or not, and some that are none.
fn names() -> impl Strategy<Value = String> {
    let label = "[a-c]{1,2}";
    let name = (label, label).prop_map(|(first, second)| format!("{first}.{second}.example"));
    prop_oneof![
        6 => (name, any::<u64>(), any::<bool>()).prop_map(|(name, upper, dot)| {
            let cased: String = name
                .chars()
                .enumerate()
                .map(|(at, letter)| if upper >> (at % 64) & 1 == 1 { letter.to_ascii_uppercase() } else { letter })
                .collect();
            if dot { format!("{cased}.") } else { cased }
        }),
        1 => Just("bücher.example".to_owned()),
        1 => Just("XN--BCHER-KVA.example".to_owned()),
        1 => Just("a..b.example".to_owned()),
        1 => Just("a@b.example".to_owned()),
        1 => Just("a%62.example".to_owned()),
        1 => Just("a\u{200b}b.example".to_owned()),
    ]
}

fn lists() -> impl Strategy<Value = Vec<String>> {
    let entry = prop_oneof![
        "[a-c]{1,2}\\.[a-c]{1,2}\\.example",
        "\\*\\.[a-c]{1,2}\\.example",
        Just("xn--bcher-kva.example".to_owned()),
    ];
    proptest::collection::vec(entry, 0..12)
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Verdict {
    Passes,
    Denied,
    Malformed,
}

fn verdict(seen: &[Seen], route: Route, target: &str) -> Verdict {
    match seen {
        [Seen::Passed(by, what), ..] if *by == route && what == target => Verdict::Passes,
        [Seen::Refused(by, what), ..] if *by == route && what == target => Verdict::Denied,
        [Seen::Malformed(by, ..), ..] if *by == route => Verdict::Malformed,
        other => panic!("{route:?}, {target}: {other:?}"),
    }
}

/// What each way in came to, and whether the client was let through.
async fn verdicts(name: &str, list: &[String], port: u16) -> Vec<(&'static str, Verdict)> {
    let mut plan = Plan::allowing(&[]);
    plan.allowed = list.to_vec();
    plan.limits.http_ports = vec![port + 1];
    let canonical = Host::parse(name).map_or_else(|_| name.to_owned(), |host| host.to_string());
    let target = format!("{canonical}:{port}");
    let rig = Rig::start(plan).await;
    let mut from = 0;
    let mut next = |rig: &Rig| {
        let seen = rig.gate.seen().split_off(from);
        from += seen.len();
        seen
    };
    let mut all = Vec::new();

    let socks = rig.socks(name.as_bytes(), port).await;
    all.push(("socks", verdict(&next(&rig), Route::Socks, &target)));
    assert_eq!(socks.is_ok(), all[0].1 == Verdict::Passes, "{name}");
    drop(socks);
    if all[0].1 == Verdict::Passes {
        rig.gate.closed(0).await;
        next(&rig);
    }

    let connect = rig.connect(&format!("{name}:{port}")).await;
    all.push(("connect", verdict(&next(&rig), Route::Connect, &target)));
    assert_eq!(connect.is_ok(), all[1].1 == Verdict::Passes, "{name}");
    drop(connect);
    if all[1].1 == Verdict::Passes {
        rig.gate.closed(1).await;
        next(&rig);
    }

    let host = format!("{name}:{port}");
    let request =
        format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut plain = rig.http(request).await;
    let status = Response::read(&mut plain, "GET").await.status;
    all.push(("http", verdict(&next(&rig), Route::Http, &target)));
    let wanted = match all[2].1 {
        Verdict::Passes => 502,
        Verdict::Denied => 403,
        Verdict::Malformed => 400,
    };
    assert_eq!(status, wanted, "{name}");

    if let Ok(Host::Name(host)) = Host::parse(name) {
        let found = rig.lookup(&format!("{host}.")).await;
        let dns = if found.is_some() {
            Verdict::Passes
        } else {
            Verdict::Denied
        };
        all.push(("dns", dns));
        if let Some(address) = found {
            let before = rig.gate.seen().len();
            let mut direct = rig.transparent((address, port).into()).await;
            direct.shutdown().await.unwrap();
            read_to_end(&mut direct).await;
            let seen = rig.gate.seen().split_off(before);
            all.push(("transparent", verdict(&seen, Route::Transparent, &target)));
        }
    }
    all
}

#[test]
fn http_socks_transparent_and_dns_give_one_verdict_for_any_name_and_list() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(echo());
    let mut passes = 0;
    let mut denied = 0;
    let mut runner = TestRunner::new(Config {
        cases: 128,
        ..Config::default()
    });
    let counts = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    runner
        .run(&(names(), lists()), |(name, list)| {
            let all = runtime.block_on(verdicts(&name, &list, server.port()));
            let first = all[0].1;
            assert!(
                all.iter().all(|(_, verdict)| *verdict == first),
                "{name} with {list:?}: {all:?}"
            );
            match first {
                Verdict::Passes => counts.0.set(counts.0.get() + 1),
                Verdict::Denied => counts.1.set(counts.1.get() + 1),
                Verdict::Malformed => assert!(Host::parse(&name).is_err(), "{name}"),
            }
            Ok(())
        })
        .unwrap();
    passes += counts.0.get();
    denied += counts.1.get();
    assert!(passes > 0 && denied > 0, "{passes} passed, {denied} denied");
}

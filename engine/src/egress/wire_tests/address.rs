//! Addresses: what an allowed name stands for is checked before it is dialled (REQ EG-11).

use super::peers::{Response, closed_port, echo};
use super::rig::{Plan, Rig, Seen, within};
use crate::egress::decide::DenyReason;
use crate::egress::gate::Closed;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn standing_for(addresses: &[&str], excepted: &[&str]) -> Rig {
    let mut plan = Plan::allowing(&["example.com"]);
    plan.addresses = addresses.iter().map(|text| ip(text)).collect();
    plan.excepted = excepted.iter().map(|text| ip(text)).collect();
    Rig::start(plan).await
}

#[tokio::test]
async fn an_allowed_name_that_stands_for_a_special_address_is_refused_on_every_route() {
    let server = echo().await;
    let target = format!("example.com:{}", server.port());
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "fd00::1",
        "fe80::1",
        "fd00:ec2::254",
        "::",
        "64:ff9b::7f00:1",
        "198.18.1.0",
        "224.0.0.1",
    ] {
        let rig = standing_for(&[address], &[]).await;
        let response = rig.connect(&target).await.unwrap_err();
        assert_eq!(response.status, 403, "{address}");
        assert_eq!(
            rig.socks(b"example.com", server.port()).await.unwrap_err(),
            2,
            "{address}"
        );
        let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let response = Response::read(&mut rig.http(request).await, "GET").await;
        assert_eq!(response.status, 403, "{address}");
        for number in 0..3 {
            match rig.gate.closed(number).await {
                (Closed::Refused { reason, detail, .. }, 0, 0) => {
                    let metadata = matches!(address, "169.254.169.254" | "fd00:ec2::254");
                    let wanted = if metadata {
                        DenyReason::Metadata
                    } else {
                        DenyReason::AddressRange
                    };
                    assert_eq!(reason, wanted, "{detail}");
                    let canonical = ip(address).to_canonical().to_string();
                    assert!(detail.contains(&canonical), "{detail}");
                }
                other => panic!("{address}: {other:?}"),
            }
        }
    }
    // The same server, by an address that a rule names.
    let rig = standing_for(&["127.0.0.1"], &["127.0.0.1"]).await;
    assert!(rig.connect(&target).await.is_ok());
}

#[tokio::test]
async fn of_several_addresses_only_those_that_may_be_are_dialled_and_the_name_is_resolved_once() {
    let server = echo().await;
    let target = format!("example.com:{}", server.port());
    let rig = standing_for(
        &["10.0.0.1", "169.254.169.254", "127.0.0.1", "::1"],
        &["127.0.0.1"],
    )
    .await;
    let mut stream = rig.connect(&target).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    within(stream.read_to_end(&mut back)).await.unwrap();
    assert_eq!(back, b"hello");
    let (how, up, down) = rig.gate.closed(0).await;
    assert_eq!(
        (how, up, down),
        (
            Closed::Done {
                address: Some(ip("127.0.0.1"))
            },
            5,
            5
        )
    );
    assert_eq!(
        rig.resolver.asked(),
        ["example.com"],
        "a second answer could be another"
    );
}

#[tokio::test]
async fn a_special_address_in_any_spelling_is_refused_though_a_list_names_it() {
    let server = echo().await;
    let port = server.port();
    for spelling in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
    ] {
        let mut plan = Plan::allowing(&["127.0.0.1"]);
        plan.excepted = Vec::new();
        let rig = Rig::start(plan).await;
        let response = rig
            .connect(&format!("{spelling}:{port}"))
            .await
            .unwrap_err();
        assert_eq!(response.status, 403, "{spelling}");
        let target = format!("127.0.0.1:{port}");
        let passed = rig
            .gate
            .seen()
            .iter()
            .any(|seen| matches!(seen, Seen::Passed(_, seen) if *seen == target));
        assert!(
            passed,
            "{spelling} is judged as what it is: {:?}",
            rig.gate.seen()
        );
        let (how, ..) = rig.gate.closed(0).await;
        assert!(
            matches!(
                how,
                Closed::Refused {
                    reason: DenyReason::AddressRange,
                    ..
                }
            ),
            "{how:?}"
        );
    }
}

#[tokio::test]
async fn a_name_without_an_address_is_a_failure_and_no_refusal() {
    let rig = standing_for(&[], &[]).await;
    assert_eq!(
        rig.connect("example.com:443").await.unwrap_err().status,
        502
    );
    assert_eq!(rig.socks(b"example.com", 443).await.unwrap_err(), 4);
    let (how, ..) = rig.gate.closed(1).await;
    assert!(matches!(how, Closed::Failed { .. }), "{how:?}");
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_first_is_dead() {
    let server = echo().await;
    // Nothing listens on this port of ::1.
    let rig = standing_for(&["::1", "127.0.0.1"], &["::1", "127.0.0.1"]).await;
    assert!(
        rig.connect(&format!("example.com:{}", server.port()))
            .await
            .is_ok()
    );
    assert_eq!(
        rig.connect(&format!("example.com:{}", closed_port().await))
            .await
            .unwrap_err()
            .status,
        502
    );
}

#[tokio::test]
async fn a_destination_with_an_ipv6_address_only_is_reached() {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rig = standing_for(&["::1"], &["::1"]).await;
    let _stream = rig.connect(&format!("example.com:{port}")).await.unwrap();
    within(listener.accept()).await.unwrap();
}

//! Programs that ignore proxies: by the address that DNS inside gave them.

use super::hello::hello;
use super::peers::{Canned, Response, echo, read_to_end};
use super::rig::{Plan, Rig, Seen, within};
use crate::egress::decide::DenyReason;
use crate::egress::gate::{Closed, Route};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn rig(configure: impl FnOnce(&mut Plan)) -> Rig {
    let mut plan = Plan::allowing(&["example.com", "other.example"]);
    configure(&mut plan);
    Rig::start(plan).await
}

/// The address of a name inside, with this port.
async fn address(rig: &Rig, name: &str, port: u16) -> SocketAddr {
    (rig.lookup(&format!("{name}.")).await.unwrap(), port).into()
}

#[tokio::test]
async fn the_address_leads_back_to_the_name_which_is_judged_and_dialled() {
    let server = echo().await;
    let rig = rig(|_| {}).await;
    let at = address(&rig, "example.com", server.port()).await;
    let mut stream = rig.transparent(at).await;
    stream.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    let mut back = [0; 11];
    within(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"SSH-2.0-x\r\n");
    let passed = Seen::Passed(Route::Transparent, format!("example.com:{}", server.port()));
    assert!(rig.gate.seen().contains(&passed), "{:?}", rig.gate.seen());
    assert_eq!(rig.resolver.asked(), ["example.com"]);
}

#[tokio::test]
async fn on_443_the_server_name_must_be_the_name() {
    let server = echo().await;
    let rig = rig(|plan| plan.limits.tls_ports = vec![server.port()]).await;
    let at = address(&rig, "example.com", server.port()).await;
    let mut stream = rig.transparent(at).await;
    let right = hello("example.com");
    stream.write_all(&right).await.unwrap();
    let mut back = vec![0; right.len()];
    within(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, right);
    for (bytes, wanted) in [
        (hello("other.example"), DenyReason::ServerName),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), DenyReason::Protocol),
    ] {
        let before = rig.gate.seen().len();
        let mut stream = rig.transparent(at).await;
        stream.write_all(&bytes).await.unwrap();
        read_to_end(&mut stream).await;
        let how = rig
            .gate
            .until(|seen| {
                seen[before..].iter().find_map(|seen| match seen {
                    Seen::Closed { how, .. } => Some(how.clone()),
                    _ => None,
                })
            })
            .await;
        assert!(
            matches!(how, Closed::Refused { reason, .. } if reason == wanted),
            "{how:?}"
        );
    }
}

#[tokio::test]
async fn on_80_each_request_must_name_the_name() {
    let server = Canned::hello().await;
    let port = server.port();
    let rig = rig(|plan| plan.limits.http_ports = vec![port]).await;
    let at = address(&rig, "example.com", port).await;
    let mut stream = rig.transparent(at).await;
    for _ in 0..2 {
        let request = format!("GET /x HTTP/1.1\r\nHost: Example.com:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(Response::read(&mut stream, "GET").await.body, b"hello");
    }
    assert!(
        server.requests()[0]
            .starts_with(&format!("GET /x HTTP/1.1\r\nhost: example.com:{port}\r\n"))
    );
    for wrong in [
        format!("GET / HTTP/1.1\r\nHost: other.example:{port}\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET http://other.example:{port}/ HTTP/1.1\r\nHost: other.example:{port}\r\n\r\n"),
        format!("CONNECT example.com:{port} HTTP/1.1\r\nHost: example.com:{port}\r\n\r\n"),
    ] {
        let before = rig.gate.malformed().len();
        let mut stream = rig.transparent(at).await;
        stream.write_all(wrong.as_bytes()).await.unwrap();
        assert_eq!(
            Response::read(&mut stream, "GET").await.status,
            400,
            "{wrong}"
        );
        let malformed = rig.gate.malformed();
        assert_eq!(malformed.len(), before + 1, "{wrong}");
        assert_eq!(malformed[before].0, Route::Transparent);
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn an_address_without_a_name_is_refused_and_put_down() {
    let rig = rig(|_| {}).await;
    for at in [
        "198.18.77.7:443",
        "198.18.0.1:443",
        "127.0.0.1:80",
        "[::1]:443",
    ] {
        let before = rig.gate.malformed().len();
        let mut stream = rig.transparent(at.parse().unwrap()).await;
        assert_eq!(read_to_end(&mut stream).await, b"", "{at}");
        assert_eq!(rig.gate.malformed().len(), before + 1, "{at}");
    }
    assert_eq!(rig.gate.seen().len(), 4, "nothing was judged");
}

#[tokio::test]
async fn an_address_that_is_no_name_of_ours_is_judged_as_an_address() {
    let rig = rig(|_| {}).await;
    let mut stream = rig.transparent("203.0.113.9:443".parse().unwrap()).await;
    assert_eq!(read_to_end(&mut stream).await, b"");
    let refused = Seen::Refused(Route::Transparent, "203.0.113.9:443".to_owned());
    assert_eq!(rig.gate.seen(), [refused]);
}

#[tokio::test]
async fn a_denied_name_has_no_address_and_is_never_resolved() {
    let rig = rig(|_| {}).await;
    assert_eq!(rig.lookup("denied.net.").await, None);
    assert!(rig.resolver.asked().is_empty());
}

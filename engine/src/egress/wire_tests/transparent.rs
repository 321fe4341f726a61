//! Programs that ignore proxies: by the address that DNS inside gave them.

use super::hello::hello;
use super::peers::{Canned, Response, echo, read_to_end};
use super::rig::{Plan, Rig, Seen, within};
use crate::egress::decide::DenyReason;
use crate::egress::gate::{Closed, Route};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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

/// A connection for example.com on this port: direct, or through a tunnel.
async fn way(rig: &Rig, route: Route, port: u16) -> TcpStream {
    match route {
        Route::Connect => rig.connect(&format!("example.com:{port}")).await.unwrap(),
        Route::Socks => rig.socks(b"example.com", port).await.unwrap(),
        _ => {
            let at = address(rig, "example.com", port).await;
            rig.transparent(at).await
        }
    }
}

// A server of many names takes the name from each request, whatever way the request came.
#[tokio::test]
async fn on_80_each_request_must_name_the_name() {
    for route in [Route::Transparent, Route::Connect, Route::Socks] {
        each_request_must_name_the_name(route).await;
    }
}

async fn each_request_must_name_the_name(route: Route) {
    let server = Canned::hello().await;
    let port = server.port();
    let rig = rig(|plan| plan.limits.http_ports = vec![port]).await;
    let mut stream = way(&rig, route, port).await;
    let right = format!("GET /x HTTP/1.1\r\nHost: Example.com:{port}\r\n\r\n");
    for _ in 0..2 {
        stream.write_all(right.as_bytes()).await.unwrap();
        assert_eq!(Response::read(&mut stream, "GET").await.body, b"hello");
    }
    assert!(
        server.requests()[0]
            .starts_with(&format!("GET /x HTTP/1.1\r\nhost: example.com:{port}\r\n"))
    );
    // Each request is judged and put down, those of a tunnel as well.
    let passed = Seen::Passed(route, format!("example.com:{port}"));
    let passed = |rig: &Rig| {
        rig.gate
            .seen()
            .iter()
            .filter(|seen| **seen == passed)
            .count()
    };
    assert_eq!(passed(&rig), 2, "{route:?}");
    let other = format!("GET / HTTP/1.1\r\nHost: other.example:{port}\r\n\r\n");
    let wrongs = [
        other.clone(),
        "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET http://other.example:{port}/ HTTP/1.1\r\nHost: other.example:{port}\r\n\r\n"),
        format!("CONNECT example.com:{port} HTTP/1.1\r\nHost: example.com:{port}\r\n\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\x16\x03\x01\0\x05".to_owned(),
        "SSH-2.0-x\r\n\r\n".to_owned(),
    ];
    let mut refused = 0;
    for wrong in wrongs {
        let mut stream = way(&rig, route, port).await;
        stream.write_all(wrong.as_bytes()).await.unwrap();
        let response = Response::read(&mut stream, "GET").await;
        assert_eq!(response.status, 400, "{route:?}: {wrong}");
        refused += 1;
        let malformed = rig.gate.malformed();
        assert_eq!(malformed.len(), refused, "{route:?}: {wrong}");
        assert_eq!(malformed[refused - 1].0, route);
    }
    // As a later request of a connection whose first one was right.
    let mut stream = way(&rig, route, port).await;
    stream.write_all((right + &other).as_bytes()).await.unwrap();
    for status in [200, 400] {
        assert_eq!(Response::read(&mut stream, "GET").await.status, status);
    }
    // A tunnel that was refused reached the server, and nothing was sent to it.
    let requests = server.requests();
    let said = requests.iter().filter(|request| !request.is_empty());
    assert_eq!(said.count(), 3, "{requests:?}");
}

#[tokio::test]
async fn a_tunnel_on_80_is_cut_before_its_first_request_too() {
    let server = Canned::hello().await;
    let port = server.port();
    let rig = rig(|plan| plan.limits.http_ports = vec![port]).await;
    for (number, route) in [Route::Connect, Route::Socks].into_iter().enumerate() {
        let mut stream = way(&rig, route, port).await;
        rig.gate.cut_all();
        assert_eq!(read_to_end(&mut stream).await, b"");
        let (how, ..) = rig.gate.closed(number).await;
        let reason = DenyReason::Cut;
        assert!(
            matches!(how, Closed::Refused { reason: seen, .. } if seen == reason),
            "{how:?}"
        );
    }
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

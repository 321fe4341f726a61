//! How connections end: half-close, cut, the client that gives up, the session that ends.

use super::peers::{Canned, Response, echo, listener, read_to_end};
use super::rig::{Plan, Rig, Seen, within};
use crate::egress::decide::DenyReason;
use crate::egress::gate::{Closed, Ends};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rig = Rig::allowing(&["example.com"]).await;
    let mut client = rig.connect(&format!("example.com:{port}")).await.unwrap();
    let (mut server, _) = within(listener.accept()).await.unwrap();
    client.write_all(b"request").await.unwrap();
    client.shutdown().await.unwrap();
    let mut request = Vec::new();
    within(server.read_to_end(&mut request)).await.unwrap();
    assert_eq!(request, b"request");
    // The other direction still lives.
    server.write_all(b"response").await.unwrap();
    let mut response = [0; 8];
    within(client.read_exact(&mut response)).await.unwrap();
    assert_eq!(&response, b"response");
    drop(server);
    assert_eq!(read_to_end(&mut client).await, b"");
    let (how, up, down) = rig.gate.closed(0).await;
    assert_eq!(
        (how, up, down),
        (
            Closed::Done {
                address: "127.0.0.1".parse().ok()
            },
            7,
            8
        )
    );

    let mut client = rig.connect(&format!("example.com:{port}")).await.unwrap();
    let (mut server, _) = within(listener.accept()).await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"");
    client.write_all(b"still").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    within(server.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"still");
}

#[tokio::test]
async fn a_cut_ends_both_sides_at_once_and_new_connections_are_judged_anew() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rig = Rig::allowing(&["example.com"]).await;
    let mut client = rig.connect(&format!("example.com:{port}")).await.unwrap();
    let (mut server, _) = within(listener.accept()).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let mut seen = [0; 5];
    within(server.read_exact(&mut seen)).await.unwrap();
    rig.gate.cut_all();
    assert_eq!(read_to_end(&mut client).await, b"");
    assert_eq!(read_to_end(&mut server).await, b"");
    let (how, up, _) = rig.gate.closed(0).await;
    assert!(
        matches!(
            how,
            Closed::Refused {
                reason: DenyReason::Cut,
                address: Some(_),
                ..
            }
        ),
        "{how:?}"
    );
    assert_eq!(up, 5);
    assert!(rig.connect(&format!("example.com:{port}")).await.is_ok());
}

#[tokio::test]
async fn a_plain_request_is_cut_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("example.com:{}", listener.local_addr().unwrap().port());
    let rig = Rig::allowing(&["example.com"]).await;
    let mut client = rig
        .http(format!(
            "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ))
        .await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    within(server.read_u8()).await.unwrap();
    rig.gate.cut_all();
    assert_eq!(read_to_end(&mut client).await, b"");
    let (how, ..) = rig.gate.closed(0).await;
    assert!(
        matches!(
            how,
            Closed::Refused {
                reason: DenyReason::Cut,
                address: Some(_),
                ..
            }
        ),
        "{how:?}"
    );
}

#[tokio::test]
async fn a_client_that_gives_up_while_the_operator_is_asked_withdraws_its_attempt() {
    let mut plan = Plan::allowing(&[]);
    plan.asks = true;
    let rig = Rig::start(plan).await;
    drop(rig.http("CONNECT one.example:443 HTTP/1.1\r\n\r\n").await);
    drop(
        rig.http("GET http://two.example/ HTTP/1.1\r\nHost: two.example\r\n\r\n")
            .await,
    );
    let mut socks = TcpStream::connect(rig.socks).await.unwrap();
    socks
        .write_all(b"\x05\x01\x00\x05\x01\x00\x03\x0dthree.example\x01\xbb")
        .await
        .unwrap();
    let mut method = [0; 2];
    within(socks.read_exact(&mut method)).await.unwrap();
    drop(socks);
    for target in ["one.example:443", "two.example:80", "three.example:443"] {
        rig.gate
            .until(|seen| {
                seen.contains(&Seen::Withdrawn(target.to_owned()))
                    .then_some(())
            })
            .await;
    }
    assert!(rig.resolver.asked().is_empty());
}

#[tokio::test]
async fn when_the_session_ends_everything_ends_and_every_permission_is_given_back() {
    let server = echo().await;
    let rig = Rig::allowing(&["example.com"]).await;
    let target = format!("example.com:{}", server.port());
    let mut tunnels = Vec::new();
    for _ in 0..3 {
        tunnels.push(rig.connect(&target).await.unwrap());
    }
    let (http, gate) = (rig.http, std::sync::Arc::clone(&rig.gate));
    drop(rig.pair);
    for mut tunnel in tunnels {
        assert_eq!(read_to_end(&mut tunnel).await, b"");
    }
    gate.closed(2).await;
    assert!(
        TcpStream::connect(http).await.is_err(),
        "the listener is gone"
    );
}

#[tokio::test]
async fn with_the_network_off_every_route_refuses_and_every_attempt_is_seen() {
    let server = Canned::hello().await;
    let rig = Rig::allowing(&[]).await;
    let target = format!("example.com:{}", server.port());
    assert_eq!(rig.connect(&target).await.unwrap_err().status, 403);
    assert_eq!(
        rig.socks(b"example.com", server.port()).await.unwrap_err(),
        2
    );
    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let response = Response::read(&mut rig.http(request).await, "GET").await;
    assert_eq!(response.status, 403);
    assert_eq!(rig.lookup("example.com.").await, None);
    let mut direct = rig.transparent("203.0.113.1:443".parse().unwrap()).await;
    assert_eq!(read_to_end(&mut direct).await, b"");
    let refused = rig.gate.seen();
    assert_eq!(refused.len(), 5, "{refused:?}");
    assert!(
        refused
            .iter()
            .all(|seen| matches!(seen, Seen::Refused(..) | Seen::NotAnswered(_))),
        "{refused:?}"
    );
    assert!(server.requests().is_empty() && rig.resolver.asked().is_empty());
}

// REQ EG-3
#[tokio::test]
async fn a_client_that_only_listens_is_told_of_its_denial() {
    let mut plan = Plan::allowing(&[]);
    plan.hesitates = true;
    let rig = Rig::start(plan).await;
    for request in [
        "CONNECT one.example:443 HTTP/1.1\r\nHost: one.example:443\r\n\r\n",
        "GET http://two.example/ HTTP/1.1\r\nHost: two.example\r\n\r\n",
    ] {
        let mut client = rig.http(request).await;
        client.shutdown().await.unwrap();
        let response = Response::read(&mut client, "GET").await;
        assert_eq!(response.status, 403, "{request}");
    }
    let mut socks = rig
        .socks_with(b"\x05\x01\x00\x03\x0dthree.example\x01\xbb")
        .await;
    socks.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut socks).await[..2], [5, 2]);
    assert_eq!(rig.gate.seen().len(), 3, "{:?}", rig.gate.seen());
}

#[tokio::test]
async fn an_attempt_carries_both_ends_of_its_connection() {
    let rig = Rig::allowing(&[]).await;
    let mut http = rig.http(super::http::get("denied.net", "/")).await;
    assert_eq!(Response::read(&mut http, "GET").await.status, 403);
    let mut socks = rig
        .socks_with(b"\x05\x01\x00\x03\x0adenied.net\x01\xbb")
        .await;
    within(socks.read_u8()).await.unwrap();
    let ends = |stream: &TcpStream| {
        Some(Ends {
            client: stream.local_addr().unwrap(),
            local: Some(stream.peer_addr().unwrap()),
        })
    };
    assert_eq!(rig.gate.ends(), [ends(&http), ends(&socks)]);
}

/// A plain request that reached its server, which has not answered.
async fn unanswered(plan: Plan) -> (Rig, TcpStream, TcpStream) {
    let (listener, at) = listener().await;
    let rig = Rig::start(plan).await;
    let host = format!("example.com:{}", at.port());
    let client = rig.http(super::http::get(&host, "/")).await;
    let (mut server, _) = within(listener.accept()).await.unwrap();
    super::peers::read_head(&mut server).await;
    (rig, client, server)
}

#[tokio::test]
async fn a_request_whose_client_is_gone_is_not_waited_for() {
    // One that is gone for certain: its end is a reset.
    let (rig, client, mut server) = unanswered(Plan::allowing(&["example.com"])).await;
    client.set_zero_linger().unwrap();
    drop(client);
    rig.gate.closed(0).await;
    assert_eq!(read_to_end(&mut server).await, b"");
    // One that ended its side only: gone or not, it is waited for with some patience.
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.half_closed_time = std::time::Duration::from_millis(20);
    let (rig, client, mut server) = unanswered(plan).await;
    drop(client);
    let (how, ..) = rig.gate.closed(0).await;
    assert!(
        matches!(
            how,
            Closed::Failed {
                address: Some(_),
                ..
            }
        ),
        "{how:?}"
    );
    assert_eq!(read_to_end(&mut server).await, b"");
}

#[tokio::test]
async fn a_client_that_only_listens_has_its_answer_and_one_that_says_more_too() {
    let (_rig, mut client, mut server) = unanswered(Plan::allowing(&["example.com"])).await;
    client.shutdown().await.unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    server.write_all(answer).await.unwrap();
    assert_eq!(Response::read(&mut client, "GET").await.body, b"hello");

    let (_rig, mut client, mut server) = unanswered(Plan::allowing(&["example.com"])).await;
    let next = super::http::get("denied.net", "/");
    client.write_all(next.as_bytes()).await.unwrap();
    server.write_all(answer).await.unwrap();
    drop(server);
    assert_eq!(Response::read(&mut client, "GET").await.body, b"hello");
    assert_eq!(Response::read(&mut client, "GET").await.status, 403);
}

#[tokio::test]
async fn an_answer_is_waited_for_with_an_end() {
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.answer_time = std::time::Duration::from_millis(20);
    let (rig, mut client, mut server) = unanswered(plan).await;
    assert_eq!(Response::read(&mut client, "GET").await.status, 504);
    let (how, ..) = rig.gate.closed(0).await;
    assert!(
        matches!(
            how,
            Closed::Failed {
                address: Some(_),
                ..
            }
        ),
        "{how:?}"
    );
    assert_eq!(read_to_end(&mut server).await, b"");
}

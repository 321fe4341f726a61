//! Bodies of plain requests and responses, and what follows a change of protocol.

use super::http::get;
use super::peers::{Canned, Response, read_head, read_to_end};
use super::rig::{Rig, within};
use crate::egress::decide::DenyReason;
use crate::egress::gate::Closed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bodies_pass_both_ways_in_every_framing() {
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let until_end = "HTTP/1.1 200 OK\r\n\r\nabcde";
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
    for answer in [chunked, until_end, length] {
        let server = Canned::answering(answer).await;
        let rig = Rig::allowing(&["example.com"]).await;
        let host = format!("example.com:{}", server.port());
        let mut stream = rig
            .http(format!(
                "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n\
                 4;x=y\r\nwork\r\n0\r\nTrailer: x\r\n\r\n"
            ))
            .await;
        let response = Response::read(&mut stream, "POST").await;
        assert_eq!(
            (response.status, response.body),
            (200, b"abcde".to_vec()),
            "{answer}"
        );
        let request = server.requests().pop().unwrap();
        assert!(
            request.ends_with("\r\n\r\n4\r\nwork\r\n0\r\n\r\n"),
            "{request}"
        );
        // HEAD has no body, whatever the head says, and the connection goes on.
        stream
            .write_all(format!("HEAD http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        assert_eq!(Response::read(&mut stream, "HEAD").await.status, 200);
        // HTTP/1.0 gets the bytes without chunks, and the end of the connection.
        let mut old = rig
            .http(format!("GET http://{host}/ HTTP/1.0\r\n\r\n"))
            .await;
        let answer = read_to_end(&mut old).await;
        assert!(
            answer.ends_with(b"\r\n\r\nabcde"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_whole_answer() {
    let server = Canned::answering("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabcde").await;
    let rig = Rig::allowing(&["example.com"]).await;
    let mut stream = rig
        .http(get(&format!("example.com:{}", server.port()), "/"))
        .await;
    assert!(
        read_to_end(&mut stream).await.ends_with(b"abcde"),
        "and the connection ended"
    );
}

#[tokio::test]
async fn the_client_waits_for_100_continue_before_its_body() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.contains("expect: 100-continue\r\n"), "{head}");
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).await.unwrap();
        let answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &body[..]].concat();
        stream.write_all(&answer).await.unwrap();
    });
    let rig = Rig::allowing(&["example.com"]).await;
    let host = format!("example.com:{port}");
    let mut stream = rig
        .http(format!(
            "PUT http://{host}/ HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        ))
        .await;
    assert_eq!(Response::read(&mut stream, "PUT").await.status, 100);
    stream.write_all(b"hello").await.unwrap();
    let response = Response::read(&mut stream, "PUT").await;
    assert_eq!((response.status, response.body), (200, b"hello".to_vec()));
}

#[tokio::test]
async fn a_websocket_passes_over_plain_http_and_other_upgrades_do_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.contains("upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("connection: upgrade\r\n"), "{head}");
        assert!(head.contains("sec-websocket-key: eA==\r\n"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: eQ==\r\n\r\n\u{1}first";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    });
    let rig = Rig::allowing(&["example.com"]).await;
    let host = format!("example.com:{port}");
    let mut stream = rig
        .http(format!(
            "GET http://{host}/ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: eA==\r\n\r\n"
        ))
        .await;
    let response = Response::read(&mut stream, "GET").await;
    assert_eq!(response.status, 101);
    assert!(
        response.has("sec-websocket-accept: eQ=="),
        "{}",
        response.head
    );
    let mut first = [0; 6];
    within(stream.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"\x01first");
    stream.write_all(b"\x82\x04ping").await.unwrap();
    let mut back = [0; 6];
    within(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"\x82\x04ping");

    // A server that upgrades unasked is not followed.
    let server =
        Canned::answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\nGET /").await;
    let mut stream = rig
        .http(get(&format!("example.com:{}", server.port()), "/"))
        .await;
    assert_eq!(Response::read(&mut stream, "GET").await.status, 502);
}

#[tokio::test]
async fn broken_chunks_end_the_request_and_are_put_down() {
    let server = Canned::answering("").await;
    let rig = Rig::allowing(&["example.com"]).await;
    let host = format!("example.com:{}", server.port());
    let mut stream = rig
        .http(format!(
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhelloGET /smuggled HTTP/1.1\r\n\r\n"
        ))
        .await;
    assert_eq!(Response::read(&mut stream, "POST").await.status, 400);
    let (how, ..) = rig.gate.closed(0).await;
    assert!(
        matches!(
            how,
            Closed::Refused {
                reason: DenyReason::Protocol,
                ..
            }
        ),
        "{how:?}"
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| !request.contains("smuggled"))
    );
}

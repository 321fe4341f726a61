//! Plain requests and CONNECT on the HTTP proxy.

use super::peers::{Canned, Response, closed_port, echo, read_to_end};
use super::rig::{Plan, Rig, Seen, within};
use crate::egress::gate::{Closed, Route};
use crate::egress::pair::Credentials;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(super) fn get(host: &str, path: &str) -> String {
    format!("GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: t\r\n\r\n")
}

#[tokio::test]
async fn a_denied_plain_request_is_told_why_and_an_allowed_one_passes() {
    let server = Canned::hello().await;
    let rig = Rig::allowing(&["example.com"]).await;
    let denied = format!("denied.net:{}", server.port());
    let mut stream = rig.http(get(&denied, "/")).await;
    let response = Response::read(&mut stream, "GET").await;
    assert_eq!(response.status, 403);
    assert!(
        response.has("x-kotak-reason: notListed"),
        "{}",
        response.head
    );
    let text = String::from_utf8(response.body).unwrap();
    assert_eq!(text, format!("kotak: {denied} is not on the allowlist\n"));

    let mut stream = rig
        .http(get(&format!("example.com:{}", server.port()), "/a?b"))
        .await;
    let response = Response::read(&mut stream, "GET").await;
    assert_eq!((response.status, response.body), (200, b"hello".to_vec()));
    assert_eq!(
        server.requests(),
        [format!(
            "GET /a?b HTTP/1.1\r\nhost: example.com:{}\r\nuser-agent: t\r\nconnection: close\r\n\r\n",
            server.port()
        )]
    );
    assert_eq!(
        rig.resolver.asked(),
        ["example.com"],
        "a denied name is never resolved"
    );
}

#[tokio::test]
async fn on_a_kept_connection_each_request_is_judged_by_itself() {
    let (first, second) = (Canned::hello().await, Canned::hello().await);
    let rig = Rig::allowing(&["one.example", "two.example"]).await;
    let one = format!("one.example:{}", first.port());
    let two = format!("two.example:{}", second.port());
    let mut stream = rig.http("").await;
    for (host, wanted) in [
        (&one, 200),
        (&"no.example:80".to_owned(), 403),
        (&two, 200),
        (&one, 200),
    ] {
        stream.write_all(get(host, "/").as_bytes()).await.unwrap();
        let response = Response::read(&mut stream, "GET").await;
        assert_eq!(response.status, wanted, "{host}");
        assert!(response.has("connection: keep-alive"), "{}", response.head);
    }
    assert_eq!((first.requests().len(), second.requests().len()), (2, 1));
    let judged: Vec<_> = rig
        .gate
        .seen()
        .into_iter()
        .filter(|seen| matches!(seen, Seen::Passed(..) | Seen::Refused(..)))
        .collect();
    assert_eq!(
        judged,
        [
            Seen::Passed(Route::Http, one.clone()),
            Seen::Refused(Route::Http, "no.example:80".to_owned()),
            Seen::Passed(Route::Http, two),
            Seen::Passed(Route::Http, one),
        ]
    );
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Canned::hello().await;
    let rig = Rig::allowing(&["example.com"]).await;
    let allowed = get(&format!("example.com:{}", server.port()), "/");
    let mut stream = rig
        .http([allowed.clone(), get("no.example", "/"), allowed].concat())
        .await;
    for wanted in [200, 403, 200] {
        assert_eq!(Response::read(&mut stream, "GET").await.status, wanted);
    }
}

#[tokio::test]
async fn what_two_readers_could_take_in_two_ways_is_refused() {
    let server = Canned::hello().await;
    let port = server.port();
    let rig = Rig::allowing(&["example.com"]).await;
    let host = format!("example.com:{port}");
    let post = |fields: &str| {
        format!(
            "POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n5\r\nhello\r\n0\r\n\r\n"
        )
    };
    let cases = [
        (
            "origin form",
            format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ),
        (
            "another Host",
            format!("GET http://{host}/ HTTP/1.1\r\nHost: other.example\r\n\r\n"),
        ),
        (
            "another port in Host",
            format!("GET http://{host}/ HTTP/1.1\r\nHost: example.com\r\n\r\n"),
        ),
        ("no Host", format!("GET http://{host}/ HTTP/1.1\r\n\r\n")),
        (
            "two Hosts",
            format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n"),
        ),
        (
            "chunks and a length",
            post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        ),
        (
            "two lengths",
            post("Content-Length: 5\r\nContent-Length: 5\r\n"),
        ),
        ("a list of lengths", post("Content-Length: 5, 5\r\n")),
        ("a signed length", post("Content-Length: +5\r\n")),
        (
            "two encodings",
            post("Transfer-Encoding: gzip, chunked\r\n"),
        ),
        (
            "chunks twice",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ),
        ("a space before the colon", post("Content-Length : 5\r\n")),
        (
            "a folded line",
            post("X-A: b\r\n c\r\nContent-Length: 5\r\n"),
        ),
        ("a bare LF", post("X-A: b\nContent-Length: 5\r\n")),
        ("a bare CR", post("X-A: b\rContent-Length: 5\r\n")),
        ("a NUL", post("X-A: b\0\r\n")),
        (
            "userinfo",
            format!("GET http://user@{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ),
        (
            "a percent-escape",
            format!("GET http://ex%61mple.com:{port}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ),
        (
            "a backslash",
            format!("GET http://example.com\\@{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ),
        (
            "a fragment",
            format!("GET http://{host}/#x HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ),
        (
            "https without CONNECT",
            format!("GET https://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        (
            "chunks in HTTP/1.0",
            format!(
                "POST http://{host}/ HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "CONNECT with a NUL",
            format!("CONNECT evil.net\0.example.com:{port} HTTP/1.1\r\n\r\n"),
        ),
        (
            "CONNECT with a CR",
            format!("CONNECT example.com\r:{port} HTTP/1.1\r\n\r\n"),
        ),
        (
            "CONNECT with a LF",
            format!("CONNECT example.com\n:{port} HTTP/1.1\r\n\r\n"),
        ),
        (
            "CONNECT with a space",
            format!("CONNECT example.com :{port} HTTP/1.1\r\n\r\n"),
        ),
        (
            "CONNECT with userinfo",
            format!("CONNECT user@{host} HTTP/1.1\r\n\r\n"),
        ),
        (
            "CONNECT with an escape",
            format!("CONNECT ex%61mple.com:{port} HTTP/1.1\r\n\r\n"),
        ),
        (
            "CONNECT without a port",
            "CONNECT example.com HTTP/1.1\r\n\r\n".to_owned(),
        ),
        (
            "CONNECT to port 0",
            "CONNECT example.com:0 HTTP/1.1\r\n\r\n".to_owned(),
        ),
        (
            "CONNECT past the ports",
            "CONNECT example.com:65536 HTTP/1.1\r\n\r\n".to_owned(),
        ),
        (
            "CONNECT with another Host",
            format!("CONNECT {host} HTTP/1.1\r\nHost: other.example\r\n\r\n"),
        ),
        (
            "CONNECT with a body",
            format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\nhello"),
        ),
    ];
    for (number, (what, bytes)) in cases.iter().enumerate() {
        let mut stream = rig.http(bytes).await;
        let response = Response::read(&mut stream, "GET").await;
        assert_eq!(response.status, 400, "{what}: {}", response.head);
        assert!(
            response.has("x-kotak-reason: malformed"),
            "{what}: {}",
            response.head
        );
        assert_eq!(rig.gate.malformed().len(), number + 1, "{what} is put down");
        assert_eq!(
            read_to_end(&mut stream).await,
            b"",
            "{what} ends the connection"
        );
    }
    assert_eq!(server.requests(), [""; 0], "nothing reached the server");
    assert_eq!(rig.gate.seen().len(), cases.len(), "nothing was judged");
    // The same with nothing wrong.
    let fine = post("Transfer-Encoding: chunked\r\n");
    assert_eq!(
        Response::read(&mut rig.http(fine).await, "POST")
            .await
            .status,
        200
    );
    assert!(rig.connect(&host).await.is_ok());
}

#[tokio::test]
async fn hop_by_hop_headers_and_those_they_name_stay_here() {
    let server = Canned::answering(
        "HTTP/1.1 200 OK\r\nConnection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n\
         X-Kotak-Reason: telemetry\r\nX-Kept: yes\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    let rig = Rig::allowing(&["example.com"]).await;
    let host = format!("example.com:{}", server.port());
    let mut stream = rig
        .http(format!(
            "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, X-Hop\r\n\
             X-Hop: 1\r\nTE: trailers\r\nProxy-Authorization: Basic eDp5\r\n\
             Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nAccept: */*\r\n\r\n"
        ))
        .await;
    let response = Response::read(&mut stream, "GET").await;
    assert_eq!(
        response.head,
        "HTTP/1.1 200 OK\r\nx-kept: yes\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n"
    );
    assert_eq!(
        server.requests(),
        [format!(
            "GET / HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\nconnection: close\r\n\r\n"
        )]
    );
}

#[tokio::test]
async fn a_redirect_to_a_denied_host_passes_and_leads_nowhere() {
    let server = Canned::answering(
        "HTTP/1.1 302 Found\r\nLocation: http://denied.net/\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    let rig = Rig::allowing(&["example.com"]).await;
    let mut stream = rig
        .http(get(&format!("example.com:{}", server.port()), "/"))
        .await;
    let response = Response::read(&mut stream, "GET").await;
    assert!(
        response.has("location: http://denied.net/"),
        "{}",
        response.head
    );
    stream
        .write_all(get("denied.net", "/").as_bytes())
        .await
        .unwrap();
    assert_eq!(Response::read(&mut stream, "GET").await.status, 403);
    assert!(!rig.resolver.asked().contains(&"denied.net".to_owned()));
}

#[tokio::test]
async fn connect_answers_once_the_destination_is_reached_and_failures_are_told() {
    let rig = Rig::allowing(&["example.com"]).await;
    let nobody = format!("example.com:{}", closed_port().await);
    let response = rig.connect(&nobody).await.unwrap_err();
    assert_eq!(response.status, 502);
    assert!(
        String::from_utf8_lossy(&response.body).contains(&nobody),
        "{response:?}"
    );
    let (how, ..) = rig.gate.closed(0).await;
    assert!(matches!(how, Closed::Failed { .. }), "{how:?}");

    let response = rig.connect("denied.net:443").await.unwrap_err();
    assert_eq!(response.status, 403);
    let server = echo().await;
    let mut stream = rig
        .connect(&format!("example.com:{}", server.port()))
        .await
        .unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    within(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"hello");
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_a_502() {
    for answer in [
        "",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ] {
        let server = Canned::answering(answer).await;
        let rig = Rig::allowing(&["example.com"]).await;
        let mut stream = rig
            .http(get(&format!("example.com:{}", server.port()), "/"))
            .await;
        assert_eq!(
            Response::read(&mut stream, "GET").await.status,
            502,
            "{answer:?}"
        );
        let (how, ..) = rig.gate.closed(0).await;
        assert!(matches!(how, Closed::Failed { .. }), "{answer:?}: {how:?}");
    }
}

#[tokio::test]
async fn with_credentials_only_those_who_know_them_are_served() {
    let server = Canned::hello().await;
    let mut plan = Plan::allowing(&["example.com"]);
    plan.credentials = Some(Credentials::new("kotak", "s3cret"));
    let rig = Rig::start(plan).await;
    let host = format!("example.com:{}", server.port());
    let ask = |field: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{field}\r\n");
    for (field, wanted) in [
        ("", 407),
        ("Proxy-Authorization: Basic a290YWs6d3Jvbmc=\r\n", 407),
        ("Proxy-Authorization: Bearer a290YWs6czNjcmV0\r\n", 407),
        ("Proxy-Authorization: Basic a290YWs6czNjcmV0\r\n", 200),
    ] {
        let mut stream = rig.http(ask(field)).await;
        assert_eq!(
            Response::read(&mut stream, "GET").await.status,
            wanted,
            "{field}"
        );
    }
    assert_eq!(server.requests().len(), 1);
    assert!(
        !server.requests()[0]
            .to_ascii_lowercase()
            .contains("proxy-authorization")
    );
}

//! The SOCKS5 proxy.

use super::peers::{closed_port, echo, read_to_end};
use super::rig::{Plan, Rig, Seen, within};
use crate::egress::gate::{Closed, Route};
use crate::egress::pair::Credentials;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn echoes(mut stream: TcpStream) {
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    within(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"hello");
}

#[tokio::test]
async fn connect_by_name_and_by_address_passes_when_allowed() {
    let server = echo().await;
    let port = server.port();
    let rig = Rig::allowing(&["example.com", "127.0.0.1"]).await;
    echoes(rig.socks(b"Example.COM.", port).await.unwrap()).await;
    let mut v4 = vec![5, 1, 0, 1, 127, 0, 0, 1];
    v4.extend_from_slice(&port.to_be_bytes());
    echoes(rig.socks_bytes(&v4).await.unwrap()).await;
    let mut v6 = vec![5, 1, 0, 4];
    v6.extend_from_slice(&std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
    v6.extend_from_slice(&port.to_be_bytes());
    echoes(rig.socks_bytes(&v6).await.unwrap()).await;
    assert_eq!(rig.socks(b"denied.net", port).await.unwrap_err(), 2);
}

#[tokio::test]
async fn every_refusal_has_the_reply_of_rfc_1928() {
    let rig = Rig::allowing(&["example.com"]).await;
    let named = |name: &[u8]| {
        [
            &[5, 1, 0, 3, u8::try_from(name.len()).unwrap()],
            name,
            &[0, 80],
        ]
        .concat()
    };
    for (what, bytes, wanted) in [
        ("BIND", vec![5, 2, 0, 1, 192, 0, 2, 1, 0, 80], 7),
        ("UDP ASSOCIATE", vec![5, 3, 0, 1, 0, 0, 0, 0, 0, 0], 7),
        ("an unknown address type", vec![5, 1, 0, 9, 1, 2, 3], 8),
        ("a NUL in the name", named(b"evil.net\0.google.com"), 2),
        ("bytes that are not text", named(&[0xff, 0xfe]), 2),
        ("userinfo", named(b"user@example.com"), 2),
        ("a percent-escape", named(b"ex%61mple.com"), 2),
        ("port 0", vec![5, 1, 0, 1, 192, 0, 2, 1, 0, 0], 2),
    ] {
        assert_eq!(rig.socks_bytes(&bytes).await.unwrap_err(), wanted, "{what}");
    }
    assert_eq!(rig.gate.seen().len(), 8);
    assert!(
        rig.gate
            .malformed()
            .iter()
            .all(|(route, _)| *route == Route::Socks)
    );
    assert_eq!(rig.gate.malformed().len(), 8);
    assert_eq!(
        rig.socks(b"example.com", closed_port().await)
            .await
            .unwrap_err(),
        5
    );
    let (how, ..) = rig.gate.closed(0).await;
    assert!(matches!(how, Closed::Failed { .. }), "{how:?}");
}

#[tokio::test]
async fn other_protocols_on_the_socks_port_are_put_down() {
    let rig = Rig::allowing(&["example.com"]).await;
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        &[4, 1, 0, 80, 192, 0, 2, 1, 0],
    ] {
        let mut stream = TcpStream::connect(rig.socks).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    assert_eq!(rig.gate.malformed().len(), 2);
}

#[tokio::test]
async fn a_client_that_sends_everything_at_once_is_served() {
    let server = echo().await;
    let rig = Rig::allowing(&["example.com"]).await;
    let mut stream = TcpStream::connect(rig.socks).await.unwrap();
    let mut bytes = vec![5, 2, 1, 0, 5, 1, 0, 3, 11];
    bytes.extend_from_slice(b"example.com");
    bytes.extend_from_slice(&server.port().to_be_bytes());
    bytes.extend_from_slice(b"early");
    stream.write_all(&bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert_eq!(
        answer,
        [&[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"early"].concat()
    );
}

#[tokio::test]
async fn with_credentials_only_those_who_know_them_are_served() {
    let server = echo().await;
    let mut plan = Plan::allowing(&["example.com"]);
    plan.credentials = Some(Credentials::new("kotak", "s3cret"));
    let rig = Rig::start(plan).await;
    for (password, right) in [("s3cret", true), ("wrong!", false), ("", false)] {
        let mut stream = TcpStream::connect(rig.socks).await.unwrap();
        stream.write_all(&[5, 2, 0, 2]).await.unwrap();
        let mut reply = [0; 2];
        within(stream.read_exact(&mut reply)).await.unwrap();
        assert_eq!(reply, [5, 2]);
        let length = u8::try_from(password.len()).unwrap();
        let message = [&[1, 5], b"kotak".as_slice(), &[length], password.as_bytes()].concat();
        stream.write_all(&message).await.unwrap();
        within(stream.read_exact(&mut reply)).await.unwrap();
        assert_eq!(reply, [1, u8::from(!right)], "{password}");
        let mut request = [&[5, 1, 0, 3, 11], b"example.com".as_slice()].concat();
        request.extend_from_slice(&server.port().to_be_bytes());
        if right {
            stream.write_all(&request).await.unwrap();
            let mut reply = [0; 10];
            within(stream.read_exact(&mut reply)).await.unwrap();
            assert_eq!(reply[1], 0);
        } else {
            assert_eq!(read_to_end(&mut stream).await, b"");
        }
    }
    // One that offers none is not served either.
    let mut stream = TcpStream::connect(rig.socks).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, [5, 0xff]);
    let told: Vec<_> = rig
        .gate
        .seen()
        .into_iter()
        .filter(|seen| matches!(seen, Seen::Malformed(..)))
        .collect();
    assert_eq!(told.len(), 3);
    assert!(
        !format!("{told:?}").contains("wrong!"),
        "no password is put down: {told:?}"
    );
}

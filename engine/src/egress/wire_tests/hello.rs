//! The server name of TLS against the host that was judged.

use super::peers::{Canned, echo, read_to_end};
use super::rig::{Plan, Rig, within};
use crate::egress::decide::DenyReason;
use crate::egress::gate::Closed;
use crate::egress::tls::{ClientHello, HelloError, HelloReader, is_hello_retry};
use crate::spec::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: usize = 64 * 1024;

/// A `server_name` extension with these names.
fn server_name(names: &[&[u8]]) -> Vec<u8> {
    let mut list = Vec::new();
    for name in names {
        list.push(0);
        list.extend_from_slice(&length(name.len()));
        list.extend_from_slice(name);
    }
    extension(0, &[&length(list.len())[..], &list].concat())
}

fn length(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap().to_be_bytes()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &length(data.len()), data].concat()
}

/// A ClientHello message with these extensions.
fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let extensions = extensions.concat();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend_from_slice(&[0, 4, 0x13, 1, 0x13, 2]);
    body.extend_from_slice(&[1, 0]);
    body.extend_from_slice(&length(extensions.len()));
    body.extend_from_slice(&extensions);
    let [_, high, middle, low] = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1, high, middle, low][..], &body].concat()
}

/// The message in records of at most `size` bytes.
pub(super) fn records(message: &[u8], size: usize) -> Vec<u8> {
    message
        .chunks(size)
        .flat_map(|chunk| [&[0x16, 3, 1][..], &length(chunk.len()), chunk].concat())
        .collect()
}

/// A hello for one name, in one record, with the key share of a post-quantum group (1,216 bytes).
pub(super) fn hello(name: &str) -> Vec<u8> {
    let versions = extension(43, &[2, 3, 4]);
    let share = [&length(1220)[..], &[0x11, 0xec], &length(1216), &[9; 1216]].concat();
    records(
        &message(&[
            server_name(&[name.as_bytes()]),
            versions,
            extension(51, &share),
        ]),
        16_384,
    )
}

fn read(bytes: &[u8]) -> Result<Option<ClientHello>, HelloError> {
    HelloReader::new(LIMIT).read(bytes)
}

#[test]
fn a_hello_is_read_in_whatever_records_and_segments_it_comes() {
    let message = message(&[extension(43, &[2, 3, 4]), server_name(&[b"example.com"])]);
    for size in [1, 2, 5, 40, 16_384] {
        let bytes = records(&message, size);
        let mut reader = HelloReader::new(LIMIT);
        for end in 0..bytes.len() {
            assert_eq!(
                reader.read(&bytes[..end]),
                Ok(None),
                "{end} bytes, records of {size}"
            );
        }
        let hello = reader.read(&bytes).unwrap().unwrap();
        assert_eq!(
            hello.server_name.as_deref(),
            Some(b"example.com".as_slice())
        );
        assert_eq!(read(&bytes), Ok(Some(hello)), "at once, records of {size}");
    }
}

#[test]
fn a_hello_as_openssl_sends_it_is_read() {
    let bytes = include_bytes!("../testdata/openssl-3.client-hello");
    let hello = read(bytes).unwrap().unwrap();
    assert_eq!(
        hello.server_name.as_deref(),
        Some(b"www.example.com".as_slice())
    );
}

#[test]
fn early_data_behind_the_hello_is_not_looked_at() {
    let mut bytes = hello("example.com");
    bytes.extend_from_slice(&[0x17, 3, 3, 0, 2, 1, 2]);
    assert!(matches!(read(&bytes), Ok(Some(_))));
}

#[test]
fn two_names_in_either_form_are_refused() {
    let one_list = message(&[server_name(&[b"example.com", b"evil.net"])]);
    assert_eq!(read(&records(&one_list, 99)), Err(HelloError::TwoNames));
    let twice = message(&[server_name(&[b"example.com"]), server_name(&[b"evil.net"])]);
    assert_eq!(read(&records(&twice, 99)), Err(HelloError::TwoNames));
}

#[test]
fn what_is_broken_or_too_long_is_refused_at_once() {
    let malformed = |bytes: &[u8]| matches!(read(bytes), Err(HelloError::Malformed { .. }));
    assert_eq!(read(b"GET / HTTP/1.1\r\n"), Err(HelloError::NotTls));
    assert_eq!(read(b"SSH-2.0-x"), Err(HelloError::NotTls));
    assert_eq!(
        read(&[0x80, 0x2e, 1, 3, 1]),
        Err(HelloError::NotTls),
        "SSL 2"
    );
    assert_eq!(read(&[0x16, 2, 0, 0, 1]), Err(HelloError::NotTls));
    assert!(malformed(&[0x16, 3, 1, 0, 0]), "an empty record");
    assert!(malformed(&[0x16, 3, 1, 0x40, 1]), "a record past 16 KiB");
    assert!(malformed(&[0x16, 3, 1, 0, 4, 2, 0, 0, 0]), "a server hello");
    let long = [0x16, 3, 1, 0, 4, 1, 1, 0, 1];
    assert_eq!(read(&long), Err(HelloError::TooLong { limit: LIMIT }));
    let whole = message(&[server_name(&[b"example.com"])]);
    let mut interleaved = records(&whole[..20], 99);
    interleaved.extend_from_slice(&[0x17, 3, 3, 0, 1, 0]);
    assert!(malformed(&interleaved), "another record in between");
    assert!(
        malformed(&records(&[&whole[..], &whole].concat(), 999)),
        "two messages"
    );
    for at in 0..whole.len() {
        let mut shorter = whole.clone();
        shorter.remove(at);
        shorter[3] = shorter[3].wrapping_sub(u8::from(at > 3));
        let outcome = read(&records(&shorter, 999));
        let same_name = matches!(&outcome, Ok(Some(hello))
            if hello.server_name.as_deref() == Some(b"example.com"));
        assert!(!same_name || at > 5, "byte {at} missing: {outcome:?}");
    }
}

#[test]
fn an_address_takes_no_name_or_itself_and_a_name_only_itself() {
    let named = |name: Option<&str>| ClientHello {
        server_name: name.map(|name| name.as_bytes().to_vec()),
    };
    let host = |text| Host::parse(text).unwrap();
    assert_eq!(
        named(Some("Example.COM.")).agrees_with(&host("example.com")),
        Ok(())
    );
    assert_eq!(named(None).agrees_with(&host("192.0.2.1")), Ok(()));
    assert_eq!(
        named(Some("192.0.2.1")).agrees_with(&host("192.0.2.1")),
        Ok(())
    );
    for (name, wanted) in [
        (Some("evil.net"), "example.com"),
        (Some("www.example.com"), "example.com"),
        (Some("example.com\0"), "example.com"),
        (Some("example.com"), "192.0.2.1"),
        (Some("192.0.2.2"), "192.0.2.1"),
        (None, "example.com"),
    ] {
        let error = named(name).agrees_with(&host(wanted)).unwrap_err();
        assert_eq!(
            error.reason(),
            DenyReason::ServerName,
            "{name:?} for {wanted}"
        );
    }
}

/// A pair whose server's port speaks TLS only.
async fn tls_rig(port: u16) -> Rig {
    let mut plan = Plan::allowing(&["example.com", "127.0.0.1"]);
    plan.limits.tls_ports = vec![port];
    Rig::start(plan).await
}

/// Sends bytes through a tunnel in pieces; whether all came back.
async fn comes_back(rig: &Rig, port: u16, bytes: &[u8], piece: usize) -> bool {
    let mut stream = rig.connect(&format!("example.com:{port}")).await.unwrap();
    for piece in bytes.chunks(piece) {
        if stream.write_all(piece).await.is_err() {
            return false;
        }
        tokio::task::yield_now().await;
    }
    let mut back = vec![0; bytes.len()];
    within(stream.read_exact(&mut back)).await.is_ok() && back == bytes
}

#[tokio::test]
async fn a_hello_for_the_judged_name_passes_however_it_is_split() {
    let server = echo().await;
    let rig = tls_rig(server.port()).await;
    for piece in [1, 7, 517, 65_536] {
        assert!(
            comes_back(&rig, server.port(), &hello("example.com"), piece).await,
            "{piece}"
        );
    }
    let small_records = records(&message(&[server_name(&[b"EXAMPLE.com"])]), 3);
    assert!(comes_back(&rig, server.port(), &small_records, 2).await);
}

#[tokio::test]
async fn another_name_no_name_two_names_or_no_tls_on_443_is_closed_and_nothing_reaches_the_server()
{
    let server = Canned::answering("").await;
    let cases: [(&str, Vec<u8>, DenyReason, &str); 5] = [
        (
            "another",
            hello("evil.net"),
            DenyReason::ServerName,
            "evil.net",
        ),
        (
            "none",
            records(&message(&[]), 99),
            DenyReason::ServerName,
            "no TLS server name",
        ),
        (
            "two",
            records(&message(&[server_name(&[b"example.com", b"evil.net"])]), 99),
            DenyReason::ServerName,
            "more than one",
        ),
        (
            "no TLS",
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            DenyReason::Protocol,
            "not a TLS",
        ),
        (
            "SSH",
            b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
            DenyReason::Protocol,
            "not a TLS",
        ),
    ];
    for (what, bytes, wanted, text) in cases {
        let rig = tls_rig(server.port()).await;
        let mut stream = rig
            .connect(&format!("example.com:{}", server.port()))
            .await
            .unwrap();
        stream.write_all(&bytes).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        let alert: &[u8] = &[0x15, 3, 3, 0, 2, 2, 49];
        let told = wanted == DenyReason::ServerName;
        assert_eq!(answer, if told { alert } else { b"" }, "{what}");
        match rig.gate.closed(0).await {
            (Closed::Refused { reason, detail, .. }, 0, 0) => {
                assert_eq!(reason, wanted, "{what}");
                assert!(detail.contains(text), "{what}: {detail}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert!(
        server.requests().iter().all(String::is_empty),
        "{:?}",
        server.requests()
    );
}

#[tokio::test]
async fn tls_on_any_port_is_checked_and_other_protocols_pass_there() {
    let server = echo().await;
    let rig = Rig::allowing(&["example.com"]).await;
    assert!(comes_back(&rig, server.port(), b"SSH-2.0-OpenSSH_9.2\r\n", 4).await);
    assert!(comes_back(&rig, server.port(), &hello("example.com"), 100).await);
    assert!(!comes_back(&rig, server.port(), &hello("evil.net"), 100).await);
    let (how, ..) = rig.gate.closed(2).await;
    assert!(
        matches!(
            how,
            Closed::Refused {
                reason: DenyReason::ServerName,
                ..
            }
        ),
        "{how:?}"
    );
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_on_other_ports() {
    let server = Canned::answering("").await;
    let greeting = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = greeting.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = greeting.accept().await.unwrap();
        stream.write_all(b"220 hello\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let rig = Rig::allowing(&["example.com"]).await;
    let mut stream = rig.connect(&format!("example.com:{port}")).await.unwrap();
    let mut line = [0; 11];
    within(stream.read_exact(&mut line)).await.unwrap();
    assert_eq!(&line, b"220 hello\r\n");
    drop(server);
}

#[tokio::test]
async fn the_same_check_holds_through_socks_and_for_addresses() {
    let server = echo().await;
    let rig = tls_rig(server.port()).await;
    let mut stream = rig.socks(b"example.com", server.port()).await.unwrap();
    stream.write_all(&hello("evil.net")).await.unwrap();
    read_to_end(&mut stream).await;
    let (how, ..) = rig.gate.closed(0).await;
    assert!(
        matches!(
            how,
            Closed::Refused {
                reason: DenyReason::ServerName,
                ..
            }
        ),
        "{how:?}"
    );

    let mut stream = rig.socks(b"127.0.0.1", server.port()).await.unwrap();
    let nameless = records(&message(&[]), 99);
    stream.write_all(&nameless).await.unwrap();
    let mut back = vec![0; nameless.len()];
    within(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, nameless);
}

#[tokio::test]
async fn a_hello_that_never_ends_is_given_up() {
    let server = echo().await;
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.tls_ports = vec![server.port()];
    plan.limits.hello_time = std::time::Duration::from_millis(50);
    let rig = Rig::start(plan).await;
    let mut stream = rig
        .connect(&format!("example.com:{}", server.port()))
        .await
        .unwrap();
    stream.write_all(&hello("example.com")[..40]).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, b"");
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
}

#[tokio::test]
async fn a_client_that_connects_and_says_nothing_is_no_violation() {
    let server = echo().await;
    let rig = tls_rig(server.port()).await;
    drop(
        rig.connect(&format!("example.com:{}", server.port()))
            .await
            .unwrap(),
    );
    let (how, up, down) = rig.gate.closed(0).await;
    assert_eq!(
        (how, up, down),
        (
            Closed::Done {
                address: "127.0.0.1".parse().ok()
            },
            0,
            0
        )
    );
}

/// A server's first record with this random.
fn server_hello(random: [u8; 32]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&random);
    body.extend_from_slice(&[0, 0x13, 1, 0, 0, 0]);
    let [_, high, middle, low] = u32::try_from(body.len()).unwrap().to_be_bytes();
    records(&[&[2, high, middle, low][..], &body].concat(), 16_384)
}

/// SHA-256 of "HelloRetryRequest" (RFC 8446 §4.1.3).
fn retry() -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(b"HelloRetryRequest").into()
}

#[test]
fn a_request_for_a_second_hello_is_told_from_a_hello() {
    assert_eq!(is_hello_retry(&server_hello([1; 32])), Some(false));
    let again = server_hello(retry());
    for end in 0..43 {
        assert_eq!(is_hello_retry(&again[..end]), None, "{end} bytes");
    }
    assert_eq!(is_hello_retry(&again[..43]), Some(true));
    assert_eq!(is_hello_retry(b"220 hello"), Some(false));
    assert_eq!(
        is_hello_retry(&[0x15, 3, 3, 0, 2, 2, 40]),
        Some(false),
        "an alert"
    );
    assert_eq!(
        is_hello_retry(&records(&again[5..], 20)),
        Some(true),
        "in pieces"
    );
}

/// What a server with this first answer gets of a client that sends these bytes all at once.
async fn reaches(answer: Vec<u8>, bytes: &[u8]) -> (Vec<u8>, Closed) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = vec![0; hello("example.com").len()];
        stream.read_exact(&mut got).await.unwrap();
        stream.write_all(&answer).await.unwrap();
        stream.shutdown().await.unwrap();
        got.extend_from_slice(&read_to_end(&mut stream).await);
        got
    });
    let rig = tls_rig(port).await;
    let mut stream = rig.connect(&format!("example.com:{port}")).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    read_to_end(&mut stream).await;
    (within(server).await.unwrap(), rig.gate.closed(0).await.0)
}

#[tokio::test]
async fn a_second_hello_is_checked_as_the_first_also_behind_early_data() {
    let first = hello("example.com");
    let early = [&[0x14, 3, 3, 0, 1, 1, 0x17, 3, 3, 0, 3][..], b"abc"].concat();
    let after = [0x17, 3, 3, 0, 1, 9];
    for between in [Vec::new(), early] {
        let fine = [&first[..], &between, &first, &after].concat();
        let (got, how) = reaches(server_hello(retry()), &fine).await;
        assert_eq!(got, fine);
        assert!(matches!(how, Closed::Done { .. }), "{how:?}");
        let evil = [&first[..], &between, &hello("evil.net"), &after].concat();
        let (got, how) = reaches(server_hello(retry()), &evil).await;
        assert_eq!(
            got,
            [&first[..], &between].concat(),
            "nothing of the second hello passed"
        );
        assert!(
            matches!(
                how,
                Closed::Refused {
                    reason: DenyReason::ServerName,
                    ..
                }
            ),
            "{how:?}"
        );
    }
    // Where no second hello was asked for, a server takes none.
    let all = [&first[..], &after].concat();
    let (got, _) = reaches(server_hello([1; 32]), &all).await;
    assert_eq!(got, all);
}

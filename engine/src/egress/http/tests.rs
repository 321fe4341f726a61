//! Heads, without sockets.

use super::head::{Framing, HeadError, RequestHead, ResponseHead, Scanner, Target};
use crate::egress::decide::Destination;

fn scan(bytes: &[u8]) -> Result<Option<usize>, HeadError> {
    Scanner::new(1000).scan(bytes)
}

#[test]
fn a_head_is_found_in_whatever_pieces_it_comes() {
    let head = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let bytes = [&head[..], b"what follows\n"].concat();
    assert_eq!(scan(&bytes), Ok(Some(head.len())));
    let mut scanner = Scanner::new(1000);
    for end in 0..head.len() {
        assert_eq!(scanner.scan(&bytes[..end]), Ok(None));
    }
    assert_eq!(scanner.scan(&bytes), Ok(Some(head.len())));
}

#[test]
fn a_head_is_refused_at_its_first_wrong_byte() {
    for (bytes, at) in [
        (b"GET / HTTP/1.1\nHost".as_slice(), 15),
        (b"GET / HTTP/1.1\rHost", 16),
        (b"GET / HTTP/1.1\r\n Host", 17),
        (b"GET / HTTP/1.1\r\n\tHost", 17),
        (b" GET", 1),
        (b"GET \0", 5),
        (b"\n", 1),
    ] {
        assert_eq!(scan(&bytes[..at - 1]), Ok(None), "{bytes:?}");
        assert!(
            matches!(scan(&bytes[..at]), Err(HeadError::Bytes(_))),
            "{bytes:?}"
        );
    }
    assert_eq!(scan(&[b'a'; 1000]), Ok(None));
    assert_eq!(scan(&[b'a'; 1001]), Err(HeadError::TooLong(1000)));
}

fn parse(text: &str) -> Result<RequestHead, HeadError> {
    RequestHead::parse(text.as_bytes(), 64)
}

#[test]
fn the_target_is_read_with_its_default_port_and_path() {
    let to = |text: &str| Destination::parse(text, None).unwrap();
    for (line, host, target) in [
        (
            "GET http://A.example",
            "a.example",
            Target::Absolute(to("a.example:80"), "/".to_owned()),
        ),
        (
            "GET HTTP://a.example?q",
            "a.example",
            Target::Absolute(to("a.example:80"), "/?q".to_owned()),
        ),
        (
            "GET http://a.example:8080/x?y=http://b/",
            "a.example:8080",
            Target::Absolute(to("a.example:8080"), "/x?y=http://b/".to_owned()),
        ),
        (
            "GET http://[2001:db8::1]/",
            "[2001:DB8:0::1]",
            Target::Absolute(to("[2001:db8::1]:80"), "/".to_owned()),
        ),
        (
            "CONNECT a.example:443",
            "a.example",
            Target::Connect(to("a.example:443")),
        ),
        ("GET /x", "a.example", Target::Origin("/x".to_owned())),
    ] {
        let head = parse(&format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
        assert_eq!(head.target, target);
    }
}

#[test]
fn the_connection_is_kept_as_the_version_and_the_client_say() {
    for (version, field, kept) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Proxy-Connection: Close\r\n", false),
        ("1.1", "Connection: x, CLOSE\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
    ] {
        let head = parse(&format!(
            "GET http://a.example/ HTTP/{version}\r\nHost: a.example\r\n{field}\r\n"
        ));
        assert_eq!(head.unwrap().keeps_alive(), kept, "{version} {field}");
    }
}

#[test]
fn a_response_has_the_length_that_its_method_and_status_allow() {
    let framing = |method, status, fields: &str| {
        let head = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        ResponseHead::parse(head.as_bytes(), 64, method).map(|head| head.framing)
    };
    assert_eq!(
        framing("GET", 200, "Content-Length: 7\r\n"),
        Ok(Framing::Length(7))
    );
    assert_eq!(
        framing("HEAD", 200, "Content-Length: 7\r\n"),
        Ok(Framing::Empty)
    );
    assert_eq!(
        framing("GET", 304, "Content-Length: 7\r\n"),
        Ok(Framing::Empty)
    );
    assert_eq!(framing("GET", 204, ""), Ok(Framing::Empty));
    assert_eq!(
        framing("GET", 200, "Transfer-Encoding: chunked\r\n"),
        Ok(Framing::Chunked)
    );
    assert_eq!(framing("GET", 200, ""), Ok(Framing::UntilEnd));
    assert!(
        framing(
            "GET",
            200,
            "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n"
        )
        .is_err()
    );
    assert!(framing("GET", 200, "Content-Length: 18446744073709551616\r\n").is_err());
}

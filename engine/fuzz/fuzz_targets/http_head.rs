//! Heads of requests and responses: no panic, one reading however they are cut, and nothing
//! ambiguous in what is taken.
#![no_main]

use kotak_engine::egress::http::head::{Framing, RequestHead, ResponseHead, Scanner, Target};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let at_once = Scanner::new(LIMIT).scan(bytes);
    let mut scanner = Scanner::new(LIMIT);
    let mut piecewise = Ok(None);
    for end in 1..=bytes.len() {
        piecewise = scanner.scan(&bytes[..end]);
        if piecewise != Ok(None) {
            break;
        }
    }
    assert_eq!(at_once, piecewise);
    let Ok(Some(length)) = at_once else {
        return;
    };
    let head = &bytes[..length];
    if let Ok(request) = RequestHead::parse(head, 64) {
        let count = |name: &str| {
            request
                .fields
                .iter()
                .filter(|field| field.name == name)
                .count()
        };
        assert!(count("host") <= 1);
        assert!(count("content-length") + count("transfer-encoding") <= 1);
        assert!(
            request.framing != Framing::UntilEnd,
            "only responses end with the connection"
        );
        let control = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
        assert!(
            !request
                .fields
                .iter()
                .any(|field| field.value.iter().any(|byte| control(byte)))
        );
        match &request.target {
            Target::Connect(named) | Target::Absolute(named, _) => {
                assert!(named.port > 0);
                assert!(request.host.as_ref().is_none_or(|host| host == named));
            }
            Target::Origin(path) => {
                assert!(path.starts_with('/'));
                assert!(request.host.is_some());
            }
        }
        let _ = (request.keeps_alive(), request.wants_websocket());
    }
    for method in ["GET", "HEAD"] {
        let _ = ResponseHead::parse(head, 64, method);
    }
});

//! SOCKS5 requests: no panic, and no prefix of a request is one.
#![no_main]

use kotak_engine::egress::socks5::request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(whole)) = request(bytes) else {
        return;
    };
    assert!(whole.destination.port > 0);
    assert!(whole.length <= bytes.len());
    for end in 0..whole.length {
        assert_eq!(request(&bytes[..end]), Ok(None));
    }
    assert_eq!(request(&bytes[..whole.length]), Ok(Some(whole)));
});

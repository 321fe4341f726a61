//! TLS ClientHellos: no panic, and one reading in whatever segments and records they come.
#![no_main]

use kotak_engine::egress::tls::HelloReader;
use kotak_engine::spec::Host;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 8192;

fuzz_target!(|bytes: &[u8]| {
    let at_once = HelloReader::new(LIMIT).read(bytes);
    let mut reader = HelloReader::new(LIMIT);
    let mut piecewise = Ok(None);
    for end in 1..=bytes.len() {
        piecewise = reader.read(&bytes[..end]);
        if piecewise != Ok(None) {
            break;
        }
    }
    assert_eq!(at_once, piecewise);
    if let Ok(Some(hello)) = at_once {
        if let Ok(host) = Host::parse("example.com") {
            if hello.agrees_with(&host).is_ok() {
                let name = hello.server_name.unwrap_or_default().to_ascii_lowercase();
                // Also in the full-width and other forms that UTS #46 maps to this name.
                assert!(!name.is_ascii() || matches!(&name[..], b"example.com" | b"example.com."));
            }
        }
    }
});

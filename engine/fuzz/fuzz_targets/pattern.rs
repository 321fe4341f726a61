//! Hosts and host patterns: no panic, and the canonical form is its own canonical form.
#![no_main]

use kotak_engine::spec::{Host, HostPattern};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()).as_ref(), Ok(&host));
    }
    if let Ok(pattern) = HostPattern::parse(text) {
        assert_eq!(
            HostPattern::parse(&pattern.to_string()).as_ref(),
            Ok(&pattern)
        );
        if let Ok(apex) = Host::parse(text.trim_start_matches("*.")) {
            let covered = text.starts_with("*.") && pattern.matches(&apex, 443);
            assert!(!covered, "a leading wildcard covers no apex: {text}");
        }
    }
});

//! DNS messages: no panic, every answer is one and has the id of its query, and a denied name has
//! no data.
#![no_main]

use hickory_proto::op::{Message, MessageType};
use kotak_engine::egress::decide::DenyReason;
use kotak_engine::egress::dns::{Zone, answer};
use kotak_engine::egress::gate::{
    Attempt, Boxed, Closed, Ends, Gate, Leaves, Pass, Refusal, Route, Verdict,
};
use kotak_engine::egress::pool::Pool;
use kotak_engine::spec::HostName;
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

/// Knows names below `example.com` only.
struct Names;

impl Gate for Names {
    fn judge(&self, _attempt: Attempt, _leaves: Leaves) -> Boxed<'_, Verdict> {
        Box::pin(async {
            Verdict::Refuse(Refusal {
                reason: DenyReason::NotListed,
                message: String::new(),
            })
        })
    }

    fn answers(&self, name: &HostName, _ends: Option<Ends>) -> bool {
        name.as_str().ends_with(".example.com")
    }

    fn malformed(&self, _route: Route, _ends: Option<Ends>, seen: &str, _detail: &str) {
        assert!(!seen.chars().any(char::is_control));
    }

    fn closed(&self, _pass: Pass, _how: Closed) {}

    fn settled(&self, _id: u64) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let pool = Pool::new(4, Duration::ZERO);
    let zone = Zone {
        gate: &Names,
        pool: &pool,
        answer_seconds: 30,
    };
    let Some(reply) = answer(&zone, bytes, None) else {
        return;
    };
    assert_eq!(reply[..2], bytes[..2]);
    let reply = Message::from_vec(&reply).expect("an answer can be read");
    assert_eq!(reply.metadata.message_type, MessageType::Response);
    for record in &reply.answers {
        let name = record.name.to_ascii().to_ascii_lowercase();
        assert!(name.ends_with(".example.com."), "{name}");
    }
});

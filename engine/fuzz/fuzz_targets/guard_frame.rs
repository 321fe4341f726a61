//! Frames of the guard: no panic, one reading in whatever pieces they come, and what was read can
//! be written and read again.
#![no_main]

use kotak_guard::proto::{Event, Request};
use kotak_guard::wire::{Assembler, decode, encode};
use libfuzzer_sys::fuzz_target;

/// The bodies in a stream, read `piece` bytes at a time, up to what is no frame.
fn bodies(bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let mut assembler = Assembler::default();
    let mut bodies = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while !piece.is_empty() {
            let Ok((taken, body)) = assembler.push(piece) else {
                return bodies;
            };
            bodies.extend(body);
            piece = &piece[taken..];
        }
    }
    bodies
}

fuzz_target!(|bytes: &[u8]| {
    let whole = bodies(bytes, 4096);
    for piece in [1, 3] {
        assert_eq!(bodies(bytes, piece), whole);
    }
    for body in whole {
        if let Ok(event) = decode::<Event>(&body) {
            let frame = encode(&event).expect("what was read can be written");
            decode::<Event>(&frame[4..]).expect("and read again");
        }
        if let Ok(request) = decode::<Request>(&body) {
            let frame = encode(&request).expect("what was read can be written");
            decode::<Request>(&frame[4..]).expect("and read again");
        }
    }
});

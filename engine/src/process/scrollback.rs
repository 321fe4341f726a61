//! The bounded scrollback of one terminal, and the watermarks of its flow control. Pure.
//!
//! Bytes have absolute offsets from the start of the session. Asking for offset N acknowledges
//! all before N. While too much is unacknowledged, the terminal is not read, so the program waits
//! and nothing unread is ever dropped; what was acknowledged is kept as scrollback, oldest
//! dropped first.

use std::collections::VecDeque;

/// Sizes of a [`Scrollback`], in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Scrollback kept.
    pub capacity: usize,
    /// Stop reading the terminal when this much is unacknowledged.
    pub high: usize,
    /// Go on when less than this is.
    pub low: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            capacity: 4 * 1024 * 1024,
            high: 512 * 1024,
            low: 128 * 1024,
        }
    }
}

/// A piece of the scrollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte.
    pub offset: u64,
    /// Offset after the newest byte held.
    pub head: u64,
    /// The wanted offset was no longer held.
    pub truncated: bool,
    /// The bytes, oldest first.
    pub bytes: Vec<u8>,
}

/// Bytes with absolute offsets, bounded.
#[derive(Debug)]
pub struct Scrollback {
    limits: Limits,
    bytes: VecDeque<u8>,
    /// Offset of the oldest byte held.
    tail: u64,
    /// All before this was received by the reader.
    acknowledged: u64,
    /// All before this was handed to the reader, which may not have received it yet.
    handed: u64,
    /// Counts the readers: a reloaded window starts over and is a new one.
    reader: u64,
    paused: bool,
}

/// On whose behalf an answer is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker(Option<u64>);

impl Scrollback {
    /// An empty scrollback.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            bytes: VecDeque::new(),
            tail: 0,
            acknowledged: 0,
            handed: 0,
            reader: 0,
            paused: false,
        }
    }

    /// Offset after the newest byte.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.tail + self.bytes.len() as u64
    }

    /// Offset of the oldest byte held.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Whether the terminal must not be read now.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Appends what the terminal produced.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let surplus = self.bytes.len().saturating_sub(self.limits.capacity);
        let received = usize::try_from(self.acknowledged - self.tail).unwrap_or(usize::MAX);
        let drop = surplus.min(received);
        self.bytes.drain(..drop);
        self.tail += drop as u64;
        self.update_pause();
    }

    /// Acknowledges everything before `from` and returns up to `max` bytes from there on.
    pub fn read(&mut self, from: u64, max: usize) -> Piece {
        let asker = self.ask(from);
        self.answer(asker, from, max)
    }

    /// Acknowledges everything before `from`, once for each question.
    ///
    /// A reader that starts over (a reloaded window asks from 0) takes its acknowledgement back,
    /// so it too loses nothing from where it stands. An offset past the head is taken as the head.
    /// A reader can have received only what it was handed: a question from beyond that comes from
    /// the window before the reload. It is answered, and acknowledges nothing.
    pub fn ask(&mut self, from: u64) -> Asker {
        let offset = from.clamp(self.tail, self.head());
        if self.reader == 0 || offset < self.acknowledged {
            self.reader += 1;
            self.handed = offset;
        } else if offset > self.handed {
            return Asker(None);
        }
        self.acknowledged = offset;
        self.update_pause();
        Asker(Some(self.reader))
    }

    /// Up to `max` bytes from `from` on. An answer to a reader that another has replaced since it
    /// asked counts for nobody.
    pub fn answer(&mut self, asker: Asker, from: u64, max: usize) -> Piece {
        let head = self.head();
        let offset = from.clamp(self.tail, head);
        let start = usize::try_from(offset - self.tail).unwrap_or(self.bytes.len());
        let end = start.saturating_add(max).min(self.bytes.len());
        let mut bytes = Vec::with_capacity(end - start);
        let (first, second) = self.bytes.as_slices();
        bytes.extend_from_slice(&first[start.min(first.len())..end.min(first.len())]);
        bytes.extend_from_slice(
            &second[start.saturating_sub(first.len())..end.saturating_sub(first.len())],
        );
        if asker == Asker(Some(self.reader)) {
            self.handed = self.handed.max(offset + bytes.len() as u64);
        }
        Piece {
            offset,
            head,
            truncated: from < self.tail,
            bytes,
        }
    }

    /// Whether a read from `from` would return bytes at once.
    #[must_use]
    pub fn has_after(&self, from: u64) -> bool {
        from < self.head()
    }

    fn unacknowledged(&self) -> u64 {
        self.head() - self.acknowledged
    }

    fn update_pause(&mut self) {
        if self.unacknowledged() >= self.limits.high as u64 {
            self.paused = true;
        } else if self.unacknowledged() < self.limits.low as u64 {
            self.paused = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Limits = Limits {
        capacity: 64,
        high: 32,
        low: 8,
    };

    /// Receives all that is held, and says so.
    fn catch_up(ring: &mut Scrollback) {
        let piece = ring.read(ring.acknowledged, usize::MAX);
        ring.read(piece.offset + piece.bytes.len() as u64, 0);
        assert_eq!(ring.acknowledged, ring.head());
    }

    #[test]
    fn reading_from_the_start_returns_everything_held() {
        let mut ring = Scrollback::new(SMALL);
        ring.push(b"hello");
        let piece = Piece {
            offset: 0,
            head: 5,
            truncated: false,
            bytes: b"hello".to_vec(),
        };
        assert_eq!(ring.read(0, 100), piece);
    }

    #[test]
    fn the_terminal_pauses_at_the_high_mark_and_goes_on_below_the_low_mark() {
        let mut ring = Scrollback::new(SMALL);
        ring.push(&[1; 31]);
        assert!(!ring.is_paused());
        ring.push(&[1; 1]);
        assert!(ring.is_paused());
        ring.read(0, 32);
        ring.read(24, 1); // 8 unacknowledged: not below the low mark
        assert!(ring.is_paused());
        ring.read(25, 1);
        assert!(!ring.is_paused());
    }

    #[test]
    fn acknowledged_bytes_past_the_capacity_are_dropped_oldest_first() {
        let mut ring = Scrollback::new(SMALL);
        let all: Vec<u8> = (0..100).collect();
        for part in all.chunks(20) {
            ring.push(part);
            catch_up(&mut ring);
        }
        assert_eq!(ring.tail(), 36);
        let piece = Piece {
            offset: 36,
            head: 100,
            truncated: true,
            bytes: all[36..].to_vec(),
        };
        assert_eq!(ring.read(0, 1000), piece);
    }

    #[test]
    fn a_reader_that_starts_over_stops_the_terminal_until_it_caught_up() {
        let mut ring = Scrollback::new(SMALL);
        for _ in 0..3 {
            ring.push(&[7; 16]);
            catch_up(&mut ring);
        }
        assert!(!ring.is_paused());
        assert_eq!(ring.read(0, 8).bytes.len(), 8);
        assert!(ring.is_paused());
        for from in (8..=40).step_by(8) {
            assert!(ring.is_paused());
            ring.read(from, 8);
        }
        ring.read(41, 8);
        assert!(!ring.is_paused());
    }

    #[test]
    fn an_offset_past_the_head_is_the_head() {
        let mut ring = Scrollback::new(SMALL);
        ring.push(b"abc");
        let piece = Piece {
            offset: 3,
            head: 3,
            truncated: false,
            bytes: Vec::new(),
        };
        assert_eq!(ring.read(99, 10), piece);
    }

    proptest! {
        /// A reader that always asks for the next byte gets the very stream, whatever the sizes,
        /// as long as the producer keeps to the pause.
        #[test]
        fn a_reader_receives_every_byte_in_order(
            writes in proptest::collection::vec(0usize..40, 1..200),
            reads in proptest::collection::vec(1usize..50, 1..50),
        ) {
            let mut ring = Scrollback::new(SMALL);
            let mut sent = Vec::new();
            let mut got = Vec::new();
            let mut next = 0u8;
            let mut reads = reads.iter().cycle();
            for length in writes {
                if !ring.is_paused() {
                    let part: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                    ring.push(&part);
                    sent.extend(part);
                }
                let max = reads.next().copied().unwrap_or(1);
                let piece = ring.read(got.len() as u64, max);
                prop_assert!(!piece.truncated);
                prop_assert_eq!(piece.offset, got.len() as u64);
                got.extend(piece.bytes);
            }
            loop {
                let piece = ring.read(got.len() as u64, 17);
                if piece.bytes.is_empty() { break }
                got.extend(piece.bytes);
            }
            prop_assert_eq!(sent, got);
        }

        /// Whatever an old window still asks for after a reload, before or after its answers come,
        /// and however late: nothing is acknowledged that the new one was not handed, and the new
        /// one gets the very stream.
        #[test]
        fn a_window_before_the_reload_acknowledges_nothing_for_the_one_after(
            before in 1usize..31,
            steps in proptest::collection::vec((0usize..40, 1usize..50, any::<bool>(), 0u64..200), 1..200),
        ) {
            let mut ring = Scrollback::new(SMALL);
            let mut bytes = (0..=u8::MAX).cycle();
            let mut sent: Vec<u8> = bytes.by_ref().take(before).collect();
            ring.push(&sent);
            catch_up(&mut ring);
            // It waits for more when the window reloads.
            let old = (ring.head(), ring.ask(ring.head()));
            let mut got: Vec<u8> = ring.read(0, 1).bytes;
            for (length, max, waits, late) in steps {
                if !ring.is_paused() {
                    let part: Vec<u8> = bytes.by_ref().take(length).collect();
                    ring.push(&part);
                    sent.extend(part);
                }
                if waits {
                    ring.answer(old.1, old.0, max);
                } else {
                    ring.ask(got.len() as u64 + 1 + late);
                }
                prop_assert!(ring.acknowledged <= got.len() as u64);
                let piece = ring.read(got.len() as u64, max);
                prop_assert!(!piece.truncated);
                prop_assert_eq!(piece.offset, got.len() as u64);
                got.extend(piece.bytes);
            }
            loop {
                let piece = ring.read(got.len() as u64, 17);
                if piece.bytes.is_empty() { break }
                got.extend(piece.bytes);
            }
            prop_assert_eq!(sent, got);
        }

        /// Memory stays within the capacity, or what is unread where that is more.
        #[test]
        fn what_is_held_is_bounded(steps in proptest::collection::vec((0usize..40, any::<bool>()), 1..200)) {
            let mut ring = Scrollback::new(SMALL);
            for (length, acknowledge) in steps {
                if !ring.is_paused() { ring.push(&vec![0; length]); }
                if acknowledge { catch_up(&mut ring); }
                prop_assert!(ring.head() - ring.tail() <= SMALL.capacity as u64 + 40);
            }
        }
    }
}

//! Numbers of rows: they hold the time, so that rows of all engines lie in one order, and no
//! engine has to ask another for one.

use std::sync::atomic::{AtomicI64, Ordering};

/// 2020-01-01, milliseconds since the Unix epoch. From then on, times have 41 bits until 2089,
/// which leaves 12 of the 53 that a number of JavaScript holds exactly.
const EPOCH_MS: u64 = 1_577_836_800_000;
/// Numbers of one millisecond.
const PER_MS: i64 = 1 << 12;
/// Of those, numbers that one engine takes by itself; 32 engines have ranges of their own, and
/// the history moves the rows of a thirty-third.
const PER_ENGINE: i64 = 1 << 7;

/// The numbers of one engine's rows, each larger than all before.
#[derive(Debug)]
pub struct RowIds {
    last: AtomicI64,
    engine: i64,
}

impl RowIds {
    /// The numbers of the engine in this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::new(std::process::id())
    }

    fn new(process: u32) -> Self {
        Self {
            last: AtomicI64::new(0),
            engine: i64::from(process % 32) * PER_ENGINE,
        }
    }

    /// The next number.
    pub fn next(&self, now_ms: u64) -> i64 {
        let since = i64::try_from(now_ms.saturating_sub(EPOCH_MS)).unwrap_or(i64::MAX / PER_MS);
        let first = since.saturating_mul(PER_MS).saturating_add(self.engine);
        let next = |last: i64| first.max(last.saturating_add(1));
        match self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(next(last))
            }) {
            Ok(last) | Err(last) => next(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_with_the_time_and_fit_into_a_number_of_javascript() {
        let ids = RowIds::new(33);
        let now = EPOCH_MS + 5;
        let numbers = [now, now, now - 3, now + 1].map(|now| ids.next(now));
        let first = 5 * PER_MS + PER_ENGINE;
        assert_eq!(numbers, [first, first + 1, first + 2, first + PER_MS]);
        assert_eq!(RowIds::new(32).next(now), 5 * PER_MS);
        // 2089-01-01.
        assert!(ids.next(3_755_289_600_000) < 1 << 53);
    }
}

//! How much of something may happen.

/// A token bucket: so many at once, and so many a second after that.
#[derive(Debug, Clone)]
pub struct Bucket {
    burst: u64,
    per_second: u64,
    /// Thousandths of what may happen now.
    left: u64,
    seen_ms: u64,
}

impl Bucket {
    /// A full one.
    #[must_use]
    pub fn new(burst: u64, per_second: u64) -> Self {
        Self {
            burst,
            per_second,
            left: burst.saturating_mul(1_000),
            seen_ms: 0,
        }
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.seen_ms);
        self.seen_ms = self.seen_ms.max(now_ms);
        self.left = self
            .left
            .saturating_add(passed.saturating_mul(self.per_second))
            .min(self.burst.saturating_mul(1_000));
        match self.left.checked_sub(1_000) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let mut bucket = Bucket::new(5, 10);
        let taken = |bucket: &mut Bucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, 1_000), 5);
        assert_eq!(taken(&mut bucket, 1_099), 0);
        assert_eq!(taken(&mut bucket, 1_300), 3);
        assert_eq!(taken(&mut bucket, 500), 0);
        assert_eq!(taken(&mut bucket, 1_000_000), 5);
    }
}

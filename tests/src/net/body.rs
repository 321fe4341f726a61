//! Bodies that are generated and hashed as they pass: as long as wanted, without a file.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

/// A prime, so that a block that is lost, doubled or moved changes what follows.
const BLOCK: usize = 65_521;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    bytes.flatten().take(BLOCK).collect()
});

/// So many bytes of the pattern.
#[derive(Debug)]
pub struct Generated {
    left: u64,
}

impl Generated {
    /// A body of `length` bytes.
    #[must_use]
    pub fn new(length: u64) -> Self {
        Self { left: length }
    }

    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let take = usize::try_from(self.left).map_or(BLOCK, |left| left.min(BLOCK));
        self.left -= u64::try_from(take).unwrap_or_default();
        Some(PATTERN.slice(..take))
    }

    /// The SHA-256 of `length` bytes of the pattern, in hexadecimal.
    #[must_use]
    pub fn sha256(length: u64) -> String {
        let mut body = Self::new(length);
        let mut hash = Sha256::new();
        while let Some(block) = body.next() {
            hash.update(&block);
        }
        hex(&hash.finalize())
    }
}

impl Body for Generated {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|block| Ok(Frame::data(block))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.left)
    }
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

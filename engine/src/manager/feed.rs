//! The stream of changes that a window reads.

use crate::api::UiEvent;

/// One window's stream.
#[derive(Debug)]
pub struct EventStream {}

impl EventStream {
    /// The next batch: never empty, at most ten a second, each session at most once in it.
    /// `None` once the engine is gone.
    pub async fn next_batch(&mut self) -> Option<Vec<UiEvent>> {
        unimplemented!()
    }
}

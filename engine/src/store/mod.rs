//! The store, settings and logs.

mod dirs;

pub use dirs::*;

/// A session as the store remembers it.
#[derive(Debug, Clone)]
pub struct SessionRecord {}

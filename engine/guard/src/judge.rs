//! What the guard decides by: pure functions from what is tried to what the rules say.

pub mod git;
#[cfg(unix)]
pub mod rules;

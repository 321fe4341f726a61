//! Spawning, the guard link, PTYs.

mod stream;
mod terminal;

pub use stream::*;
pub use terminal::*;

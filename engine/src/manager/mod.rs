//! Composition: the sandbox port, the manager, the session state machine.

mod handle;

pub use handle::*;

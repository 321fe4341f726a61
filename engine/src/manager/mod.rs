//! Composition: the sandbox port, the manager, the session state machine.

mod engine;
mod exec;
mod feed;
mod handle;
mod port;
mod sandbox_manager;

pub use engine::*;
pub use exec::*;
pub use feed::*;
pub use handle::*;
pub use port::*;
pub use sandbox_manager::*;

//! What a session may see, write and reach. [`resolve`] makes a [`Policy`] of a checked spec and
//! the host; the host's file system is read through [`HostFs`] alone.

mod context;
mod error;
mod host_fs;
mod model;
mod resolve;

pub use context::*;
pub use error::*;
pub use host_fs::*;
pub use model::*;
pub use resolve::resolve;

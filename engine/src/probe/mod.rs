//! What this machine can do, and why not (REQ PR).

mod facts;
mod report;
mod switch;

pub use facts::*;
pub use report::*;
pub use switch::*;

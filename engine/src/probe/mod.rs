//! What this machine can do, and why not (REQ PR).

mod report;
mod switch;

pub use report::*;
pub use switch::*;

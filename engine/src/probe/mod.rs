//! What this machine can do, and why not (REQ PR).

mod report;

pub use report::*;

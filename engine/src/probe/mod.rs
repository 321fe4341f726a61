//! What this machine can do, and why not (REQ PR).
//!
//! [`probe`] looks through a [`HostProbe`] and interprets what it saw; the interpretation is pure.
//! Only the leaf modules (`linux`, `macos`, `other`) touch the host.

mod diagnose;
mod distribution;
mod facts;
mod interpret;
mod microvm;
mod observe;
mod report;
mod rows;
mod supervision;
mod surroundings;
mod switch;
mod system;
mod text;
#[cfg(any(unix, test))]
mod tool;
#[cfg(unix)]
mod unix;

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(target_os = "macos", path = "macos.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), path = "other.rs")]
mod host;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod microvm_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod real_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod trial_tests;

pub use facts::*;
pub use observe::kernel_facts;
pub use report::*;
pub use supervision::*;
pub use switch::*;
pub use system::*;
pub use text::*;

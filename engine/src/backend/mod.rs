//! Backends by name, what they enforce, and the pure generators of launch plans.

mod bridge;
mod bwrap;
mod confirm;
mod enforcement;
mod explain;
mod kind;
mod plan;
mod rows;
mod seccomp;
mod select;
mod supervised;

pub use bridge::*;
pub(crate) use bwrap::guard_command;
pub use bwrap::native_plan;
pub use confirm::{NOT_CONFIRMED, PROXIES_ONLY, confirm, confirm_watch, unmet};
pub use enforcement::*;
pub use explain::*;
pub use kind::*;
pub use plan::*;
pub use seccomp::*;
pub use select::*;

use rows::{Supervised, enforcement_of};

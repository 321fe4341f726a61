//! Backends by name, what they enforce, and the pure generators of launch plans.

mod enforcement;
mod kind;
mod select;

pub use enforcement::*;
pub use kind::*;
pub use select::*;

//! Backends by name, what they enforce, and the pure generators of launch plans.

mod enforcement;
mod kind;

pub use enforcement::*;
pub use kind::*;

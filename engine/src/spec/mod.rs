//! `SandboxSpec`: what a client asks for (REQ SP). Pure data; [`ValidSpec`] is the witness that
//! it was checked, and only a `ValidSpec` can become a policy.
//!
//! Wire form: camelCase, unknown fields refused, defaults that change nothing.

mod sandbox_spec;
mod valid;

pub use sandbox_spec::*;
pub use valid::*;

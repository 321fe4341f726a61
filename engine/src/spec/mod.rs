//! `SandboxSpec`: what a client asks for (REQ SP). Pure data; [`ValidSpec`] is the witness that
//! it was checked, and only a `ValidSpec` can become a policy.
//!
//! Wire form: camelCase, unknown fields refused, defaults that change nothing.

mod error;
mod filename;
mod grant;
mod host;
mod ids;
mod json;
mod path;
mod pattern;
mod sandbox_spec;
mod valid;
mod validate;

pub use error::*;
pub use filename::*;
pub use grant::*;
pub use host::*;
pub use ids::*;
pub use path::*;
pub use pattern::*;
pub use sandbox_spec::*;
pub use valid::*;

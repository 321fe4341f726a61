//! What a session may see, write and reach. [`resolve`] makes a [`Policy`] of a checked spec and
//! the host; the host's file system is read through [`HostFs`] alone.

mod context;
mod control;
mod deny;
mod domains;
mod env;
mod error;
mod exec;
#[cfg(test)]
pub(crate) mod fake;
mod files;
mod gap;
mod git;
mod hard_links;
mod host_fs;
mod layout;
mod model;
mod protect;
mod resolve;
mod secrets;
mod summary;
mod system;
mod walk;

pub use context::*;
pub use control::{host_control, well_known_controls};
pub use domains::{
    BASELINE_ALLOWED_DOMAINS, BASELINE_DENIED_DOMAINS, DeniedGroup, DeniedHost, DomainGroup,
    GITHUB_DOMAINS,
};
pub use env::{HTTP_PORT, SOCKS_PORT, proxy_environment};
pub use error::*;
pub use exec::ExecPolicy;
pub use files::FilePolicy;
pub use gap::GapKind;
pub use git::SEARCH_ENTRIES;
pub use host_fs::*;
pub use model::*;
pub use resolve::resolve;
pub use walk::leads_to;

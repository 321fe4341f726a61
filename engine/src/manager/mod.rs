//! Composition: the sandbox port, the manager, the session state machine.

mod adapter;
mod command_line;
mod engine;
mod exec;
mod exec_grants;
mod explain;
mod feed;
mod forwards;
mod from_inside;
mod grants_api;
mod handle;
mod host;
mod life;
mod network;
mod network_api;
mod port;
mod program;
mod prompts;
mod refusals;
mod sandbox;
mod sandbox_manager;
mod session;
mod terminals;
mod trial;

pub use adapter::{NativeSandboxAdapter, NoSandboxAdapter};
pub use engine::*;
pub use exec::*;
pub use explain::explain_path_of;
pub use feed::*;
pub use grants_api::{look_at_folder, look_at_sockets};
pub use handle::*;
pub use life::*;
pub use network::operator_rules;
pub use port::*;
pub use sandbox_manager::*;

#[cfg(test)]
mod tests;

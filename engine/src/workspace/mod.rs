//! Facts about folders and programs, for showing them. Nothing is run to find them.

mod folder;
mod preset;
mod shell;

pub use folder::{folder_info, workspace_of};
pub use preset::{AgentState, agent_state, presets};
pub use shell::{ShellError, login_shell};

//! Where Kotak keeps its own files.

use std::path::PathBuf;

/// The user's Kotak directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// `XDG_STATE_HOME/kotak`.
    pub state: PathBuf,
    /// `XDG_CONFIG_HOME/kotak`.
    pub config: PathBuf,
}

//! The files of the user's that Kotak keeps: directories, the database, settings, logs.
//!
//! Nothing here may stop a terminal from starting. Where a file cannot be used, the engine works
//! on without it and says so: every `open` returns what it could set up *and* the problems.

mod activity;
mod dirs;
mod engine_id;
mod error;
mod grants;
mod history;
mod logs;
mod open;
mod record;
mod row;
mod rules;
mod schema;
mod settings;
mod watch;
mod writer;

#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;

pub use activity::{HistoryBound, Recorder, SessionTotals};
pub use dirs::{DirError, DirKind, Dirs};
pub use error::StoreError;
pub use grants::{GrantStart, GrantsListener};
pub use history::Store;
pub use logs::{LogError, Logs};
pub use record::{SessionEnd, SessionNetworkRecord, SessionRecord, SessionStart};
pub use rules::{RuleFilter, RuleStart, RulesListener};
pub use settings::{SettingsError, SettingsFile};

//! What can go wrong with the database. None of it stops a session.

use crate::error::{Coded, Fix};
use std::path::PathBuf;
use std::time::Duration;

/// A database problem.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file was damaged, or is not Kotak's; it was kept under another name.
    #[error("the database was damaged and has been kept as {}; a new one was made", kept.display())]
    SetAside {
        /// Where the damaged file is now.
        kept: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
    /// The file was written by a later version of Kotak.
    #[error("the database {} was written by a newer version of Kotak (schema {found}, this one knows {known})", path.display())]
    TooNew {
        /// Which file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// No space is left.
    #[error("the disk that holds {} is full", path.display())]
    DiskFull {
        /// Which file.
        path: PathBuf,
        /// The error as it came.
        #[source]
        source: Option<rusqlite::Error>,
    },
    /// Another process held the database all the time.
    #[error("another process kept the database {} locked for {} s", path.display(), waited.as_secs())]
    Busy {
        /// Which file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The file exists and cannot be opened.
    #[error("the database {} cannot be opened", path.display())]
    Unopenable {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A statement failed.
    #[error("the database {} cannot be used", path.display())]
    Sql {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// More was waiting to be written than is kept in memory.
    #[error("{dropped} history rows could not be kept")]
    RowsDropped {
        /// How many were let go.
        dropped: u64,
    },
    /// The thread that owns the database is gone or was never started.
    #[error("the history is not available: its thread does not run")]
    Stopped,
    /// The history cannot be written out.
    #[error("the history cannot be written to {}", path.display())]
    Export {
        /// To which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No rule or grant can be kept any more.
    #[error("there are {limit} rules or grants already, and no more are kept")]
    TooManyRules {
        /// How many there are.
        limit: u32,
    },
    /// The window's layout is larger than any layout is.
    #[error("the layout is {size} bytes, more than the {limit} that are kept")]
    LayoutTooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

impl Coded for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::SetAside { .. } => "DATABASE_SET_ASIDE",
            Self::TooNew { .. } => "DATABASE_TOO_NEW",
            Self::DiskFull { .. } => "DISK_FULL",
            Self::Busy { .. } => "DATABASE_BUSY",
            Self::Unopenable { .. } | Self::Sql { .. } => "DATABASE_UNAVAILABLE",
            Self::RowsDropped { .. } => "HISTORY_ROWS_DROPPED",
            Self::Stopped => "HISTORY_STOPPED",
            Self::Export { .. } => "EXPORT_FAILED",
            Self::TooManyRules { .. } => "TOO_MANY_RULES",
            Self::LayoutTooLarge { .. } => "LAYOUT_TOO_LARGE",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::SetAside { reason, .. } => Fix::words(format!(
                "Nothing needs doing: sessions go on, and the old file is kept. What was wrong: {reason}."
            )),
            Self::TooNew { .. } => Fix::words(
                "Start the newer version of Kotak again. Until then this one keeps its history in memory only.",
            ),
            Self::DiskFull { .. } => Fix::words(
                "Free some space. Sessions go on; what could not be saved is kept in memory and saved then.",
            ),
            Self::Busy { .. } => Fix::words(
                "Close other Kotak processes that hang. Until then the history is kept in memory.",
            ),
            Self::Unopenable { path, .. } | Self::Sql { path, .. } => Fix::words(format!(
                "Look at {}. Sessions go on; their history is kept in memory.",
                path.display()
            )),
            Self::RowsDropped { .. } => {
                Fix::words("Free some space, or make the state directory writable.")
            }
            Self::Stopped => Fix::words("Start Kotak again."),
            Self::Export { .. } => {
                Fix::words("Choose a folder that exists, that you may write to, and that has room.")
            }
            Self::TooManyRules { .. } => {
                Fix::words("Remove rules that are not needed, or use patterns that cover several.")
            }
            Self::LayoutTooLarge { .. } => Fix::words("Close some tabs."),
        })
    }
}

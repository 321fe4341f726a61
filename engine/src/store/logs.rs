//! Logs: one file a day in the state directory, seven kept.

use super::dirs::{DirKind, Dirs, prepare};
use crate::error::{Coded, Fix, Problem};
use std::path::PathBuf;
use tracing_appender::rolling::{InitError, RollingFileAppender, Rotation};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Sets what is logged, as `tracing` filters: `debug`, `kotak_engine=trace`, …
const LEVEL_VARIABLE: &str = "KOTAK_LOG";
const DEFAULT_LEVEL: &str = "info";
const KEPT_FILES: usize = 7;

/// Why logging is not as it should be. It never stops anything else.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No file can be made; warnings go to standard error.
    #[error("the log directory {} cannot be written; warnings go to standard error", path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: InitError,
    },
    /// The variable holds no filter.
    #[error("{LEVEL_VARIABLE} is not a log filter: {value}")]
    Level {
        /// What it holds.
        value: String,
    },
    /// Another part of the program set up logging before.
    #[error("logging was already set up")]
    AlreadySet,
}

impl Coded for LogError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unwritable { .. } => "LOG_UNWRITABLE",
            Self::Level { .. } => "LOG_LEVEL_INVALID",
            Self::AlreadySet => "LOG_ALREADY_SET",
        }
    }

    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Unwritable { path, .. } => Some(Fix::words(format!(
                "Make {} writable for this user.",
                path.display()
            ))),
            Self::Level { .. } => Some(Fix::words(format!(
                "Set {LEVEL_VARIABLE} to error, warn, info, debug or trace, or unset it."
            ))),
            Self::AlreadySet => None,
        }
    }
}

/// Where the log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logs {
    /// Into files of this directory, named `kotak.<date>.log`.
    Files(PathBuf),
    /// To standard error, because there can be no files.
    Stderr,
}

impl Logs {
    /// Sets up logging for the process. Always leaves a working log.
    #[must_use]
    pub fn init(dirs: &Dirs) -> (Self, Vec<Problem>) {
        let (logs, subscriber, mut problems) =
            Self::build(dirs, std::env::var(LEVEL_VARIABLE).ok());
        if tracing::subscriber::set_global_default(subscriber).is_err() {
            problems.push(LogError::AlreadySet.problem());
        }
        (logs, problems)
    }

    fn build(
        dirs: &Dirs,
        level: Option<String>,
    ) -> (
        Self,
        Box<dyn tracing::Subscriber + Send + Sync>,
        Vec<Problem>,
    ) {
        let mut problems = Vec::new();
        let level = level.filter(|level| !level.is_empty());
        let filter = level.as_deref().map_or_else(
            || EnvFilter::new(DEFAULT_LEVEL),
            |value| {
                EnvFilter::try_new(value).unwrap_or_else(|_| {
                    problems.push(
                        LogError::Level {
                            value: value.to_owned(),
                        }
                        .problem(),
                    );
                    EnvFilter::new(DEFAULT_LEVEL)
                })
            },
        );
        let path = dirs.state.join("logs");
        let file = dirs
            .prepare_state()
            .and_then(|()| prepare(&path, DirKind::State))
            .map_err(|error| error.problem())
            .and_then(|()| {
                appender(&path).map_err(|source| {
                    LogError::Unwritable {
                        path: path.clone(),
                        source,
                    }
                    .problem()
                })
            });
        match file {
            Ok(file) => {
                let layer = tracing_subscriber::fmt::layer()
                    .with_ansi(false)
                    .with_writer(file);
                (
                    Self::Files(path),
                    Box::new(Registry::default().with(layer.with_filter(filter))),
                    problems,
                )
            }
            Err(problem) => {
                problems.push(problem);
                let layer = tracing_subscriber::fmt::layer()
                    .with_ansi(false)
                    .with_writer(std::io::stderr)
                    .with_filter(tracing_subscriber::filter::LevelFilter::WARN);
                (
                    Self::Stderr,
                    Box::new(Registry::default().with(layer)),
                    problems,
                )
            }
        }
    }
}

/// Written without a thread in between: a command that exits at once loses no line.
fn appender(path: &std::path::Path) -> Result<RollingFileAppender, InitError> {
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("kotak")
        .filename_suffix("log")
        .max_log_files(KEPT_FILES)
        .build(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_a_file_of_the_state_directory() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(root.path());
        let (logs, subscriber, problems) = Logs::build(&dirs, None);
        assert_eq!(
            (logs, problems),
            (Logs::Files(dirs.state.join("logs")), vec![])
        );
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("agent sandbox ON");
            tracing::debug!("not at this level");
        });
        let files: Vec<_> = std::fs::read_dir(dirs.state.join("logs"))
            .unwrap()
            .collect();
        assert_eq!(files.len(), 1);
        let text = std::fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
        assert!(text.contains("agent sandbox ON"), "{text}");
        assert!(!text.contains("not at this level"), "{text}");
    }

    #[test]
    fn a_state_directory_that_is_a_file_sends_the_log_to_standard_error_and_says_so() {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(root.path());
        std::fs::write(&dirs.state, "in the way").unwrap();
        let (logs, _, problems) = Logs::build(&dirs, None);
        assert_eq!(logs, Logs::Stderr);
        let codes: Vec<_> = problems
            .iter()
            .map(|problem| problem.code.as_str())
            .collect();
        assert_eq!(codes, ["STATE_DIR_UNWRITABLE"]);
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_reported_and_the_default_holds() {
        let root = tempfile::tempdir().unwrap();
        let (_, _, problems) =
            Logs::build(&Dirs::under(root.path()), Some("kotak=loud".to_owned()));
        let codes: Vec<_> = problems
            .iter()
            .map(|problem| problem.code.as_str())
            .collect();
        assert_eq!(codes, ["LOG_LEVEL_INVALID"]);
        let (_, _, problems) = Logs::build(&Dirs::under(root.path()), Some("debug".to_owned()));
        assert_eq!(problems, vec![]);
    }
}

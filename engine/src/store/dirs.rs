//! Where Kotak keeps its files, and whether those places can be trusted.

use crate::error::{Coded, Fix};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Moves the state directory, for tests and for people.
const STATE_VARIABLE: &str = "KOTAK_STATE_DIR";
/// Moves the configuration directory.
const CONFIG_VARIABLE: &str = "KOTAK_CONFIG_DIR";

/// Kotak's own directories. A value of this type says where they are, not that they exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// Database, logs and `run`.
    pub state: PathBuf,
    /// `config.toml`.
    pub config: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
    /// Sockets and other files of running engines; inside `state`.
    pub run: PathBuf,
}

impl Dirs {
    /// The directories of this user: `KOTAK_STATE_DIR` and `KOTAK_CONFIG_DIR` where they are set,
    /// else the platform's (`XDG_STATE_HOME/kotak`, `XDG_CONFIG_HOME/kotak`, …).
    pub fn from_environment() -> Result<Self, DirError> {
        let state = override_from(STATE_VARIABLE)?;
        let config = override_from(CONFIG_VARIABLE)?;
        let project = directories::ProjectDirs::from("", "", "kotak");
        let (state, config, cache) = match (state, config, project) {
            (Some(state), Some(config), None) => {
                let cache = state.join("cache");
                (state, config, cache)
            }
            (_, _, None) => return Err(DirError::NoHome),
            (state, config, Some(project)) => (
                state.unwrap_or_else(|| {
                    project
                        .state_dir()
                        .unwrap_or_else(|| project.data_local_dir())
                        .to_path_buf()
                }),
                config.unwrap_or_else(|| project.config_dir().to_path_buf()),
                project.cache_dir().to_path_buf(),
            ),
        };
        let run = state.join("run");
        Ok(Self {
            state,
            config,
            cache,
            run,
        })
    }

    /// All directories below one root.
    #[must_use]
    pub fn under(root: &Path) -> Self {
        let state = root.join("state");
        Self {
            run: state.join("run"),
            state,
            config: root.join("config"),
            cache: root.join("cache"),
        }
    }

    /// Makes the state directory where it is missing and checks it.
    pub fn prepare_state(&self) -> Result<(), DirError> {
        prepare(&self.state, DirKind::State)
    }

    /// Makes the run directory where it is missing and checks it.
    pub fn prepare_run(&self) -> Result<(), DirError> {
        prepare(&self.state, DirKind::State)?;
        prepare(&self.run, DirKind::State)
    }

    /// Makes the configuration directory where it is missing and checks it.
    pub fn prepare_config(&self) -> Result<(), DirError> {
        prepare(&self.config, DirKind::Config)
    }
}

/// Which directory is meant, for the error's code and its fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirKind {
    /// Database, logs, run.
    State,
    /// Configuration.
    Config,
}

impl DirKind {
    fn variable(self) -> &'static str {
        match self {
            Self::State => STATE_VARIABLE,
            Self::Config => CONFIG_VARIABLE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Config => "configuration",
        }
    }
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// No home directory and no overrides.
    #[error("find this user's home directory")]
    NoHome,
    /// An override is not an absolute path.
    #[error("{variable} is not an absolute path: {value}")]
    RelativeOverride {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// It cannot be made or written to.
    #[error("the {} directory {} cannot be written", kind.name(), path.display())]
    Unwritable {
        /// Which.
        kind: DirKind,
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It, or the place it would be made in, belongs to somebody else.
    #[error("the {} directory {} belongs to user id {owner}, not to this user", kind.name(), path.display())]
    ForeignOwner {
        /// Which.
        kind: DirKind,
        /// Where.
        path: PathBuf,
        /// Whose.
        owner: u32,
    },
    /// Others may write into it.
    #[error("the {} directory {} can be written by other users (mode {mode:03o})", kind.name(), path.display())]
    OpenToOthers {
        /// Which.
        kind: DirKind,
        /// Where.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

impl Coded for DirError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "NO_HOME_DIR",
            Self::RelativeOverride { .. } => "DIR_OVERRIDE_INVALID",
            Self::Unwritable {
                kind: DirKind::State,
                ..
            } => "STATE_DIR_UNWRITABLE",
            Self::Unwritable {
                kind: DirKind::Config,
                ..
            } => "CONFIG_DIR_UNWRITABLE",
            Self::ForeignOwner { .. } | Self::OpenToOthers { .. } => match self.kind() {
                DirKind::State => "STATE_DIR_UNSAFE",
                DirKind::Config => "CONFIG_DIR_UNSAFE",
            },
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::NoHome => Fix::words(format!(
                "Set HOME, or name absolute directories in {STATE_VARIABLE} and {CONFIG_VARIABLE}."
            )),
            Self::RelativeOverride { variable, .. } => {
                Fix::words(format!("Set {variable} to an absolute path, or unset it."))
            }
            Self::Unwritable { kind, path, .. } => Fix::words(format!(
                "Make {} writable for this user, or set {} to a directory that is.",
                path.display(),
                kind.variable()
            )),
            Self::ForeignOwner { kind, path, .. } => Fix::words(format!(
                "Give {} to this user, or set {} to a directory of this user's.",
                path.display(),
                kind.variable()
            )),
            Self::OpenToOthers { path, .. } => Fix::command(
                "Take the write permission away from other users.",
                format!("chmod go-w {}", shell_quoted(&path.to_string_lossy())),
            ),
        })
    }
}

impl DirError {
    fn kind(&self) -> DirKind {
        match self {
            Self::NoHome | Self::RelativeOverride { .. } => DirKind::State,
            Self::Unwritable { kind, .. }
            | Self::ForeignOwner { kind, .. }
            | Self::OpenToOthers { kind, .. } => *kind,
        }
    }
}

fn override_from(variable: &'static str) -> Result<Option<PathBuf>, DirError> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(&value);
    if path.is_absolute() {
        Ok(Some(path))
    } else {
        Err(DirError::RelativeOverride {
            variable,
            value: value.to_string_lossy().into_owned(),
        })
    }
}

/// Makes `path` (mode 0700) where it is missing, and checks that it is a directory of this user's
/// that nobody else can write to. An existing directory's mode is never changed: the path may be
/// one that somebody named by mistake.
pub(super) fn prepare(path: &Path, kind: DirKind) -> Result<(), DirError> {
    let unwritable = |source| DirError::Unwritable {
        kind,
        path: path.to_path_buf(),
        source,
    };
    let user = nix::unistd::geteuid().as_raw();
    if let Some(parent) = missing_from(path) {
        // Run as root with another user's HOME, nothing may be left there that its owner could
        // not use afterwards.
        let owner = fs::metadata(parent).map_err(unwritable)?.uid();
        if owner != user && owner != 0 {
            return Err(DirError::ForeignOwner {
                kind,
                path: parent.to_path_buf(),
                owner,
            });
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(unwritable)?;
    }
    let found = fs::metadata(path).map_err(unwritable)?;
    if !found.is_dir() {
        return Err(unwritable(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    if found.uid() != user {
        return Err(DirError::ForeignOwner {
            kind,
            path: path.to_path_buf(),
            owner: found.uid(),
        });
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(DirError::OpenToOthers {
            kind,
            path: path.to_path_buf(),
            mode,
        });
    }
    match tempfile::tempfile_in(path) {
        Ok(_) => Ok(()),
        // A full disk is not a wrong directory; whoever writes next meets it and says so.
        Err(error) if is_disk_full(&error) => Ok(()),
        Err(error) => Err(unwritable(error)),
    }
}

/// The nearest existing ancestor of a missing path; `None` when the path exists.
fn missing_from(path: &Path) -> Option<&Path> {
    if fs::symlink_metadata(path).is_ok() {
        return None;
    }
    path.ancestors()
        .skip(1)
        .find(|ancestor| fs::symlink_metadata(ancestor).is_ok())
}

pub(super) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

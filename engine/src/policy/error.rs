//! Why no policy can be made.

use crate::error::{Coded, Fix};
use crate::probe::SupervisionLack;
use crate::spec::AbsPath;
use std::io;

/// A spec that is well formed and cannot be honoured on this host.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A path that must exist does not.
    #[error("{role} \"{path}\" does not exist")]
    Missing {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// A path that must be a directory is something else.
    #[error("{role} \"{path}\" is not a directory")]
    NotADirectory {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
    },
    /// A path that cannot be bound: a socket, FIFO or device.
    #[error("{role} \"{path}\" is a socket, pipe or device")]
    SpecialFile {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
    },
    /// A path that cannot be looked at.
    #[error("cannot look at {role} \"{path}\"")]
    Unreadable {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// A path that must be denied inside cannot be looked at, so nothing could deny it.
    #[error("cannot look at {kind} \"{path}\", so it could not be {} inside", kind.denial())]
    NotVisible {
        /// What must be denied.
        kind: DeniedKind,
        /// The denied path, as listed.
        path: AbsPath,
        /// The directory or symlink in the way.
        blocker: AbsPath,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// `/`, a system root or an ancestor of the home directory would become writable.
    #[error("{role} \"{path}\" is too wide: {reason}")]
    TooWide {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
        /// Why.
        reason: &'static str,
    },
    /// A path at or inside something that no sandbox may see.
    #[error("{role} \"{path}\" lies inside \"{secret}\", which no sandbox may read")]
    InsideSecret {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
        /// The secret.
        secret: AbsPath,
    },
    /// A path at or inside Kotak's own files.
    #[error("{role} \"{path}\" lies inside Kotak's own files at \"{own}\"")]
    InsideKotak {
        /// What it is for.
        role: PathRole,
        /// The path.
        path: AbsPath,
        /// Kotak's path.
        own: AbsPath,
    },
    /// A runner state directory that resolves into a protected path.
    #[error("runner state directory \"{path}\" lies inside the protected path \"{protected}\"")]
    RunnerStateProtected {
        /// The state directory.
        path: AbsPath,
        /// The protected path.
        protected: AbsPath,
    },
    /// Two binds that resolve to one place, read-only and writable.
    #[error("the bind mounts \"{first}\" and \"{second}\" are one place, read-only and writable")]
    ConflictingBinds {
        /// One.
        first: AbsPath,
        /// The other.
        second: AbsPath,
    },
    /// The home directory cannot serve as one.
    #[error("the home directory \"{path}\" cannot be used: {reason}")]
    Home {
        /// The path.
        path: AbsPath,
        /// Why.
        reason: &'static str,
    },
    /// Filename rules were asked for, or dispatch, which needs them, and this kernel cannot hold
    /// them (REQ BW-4).
    #[error("{what}, and they cannot be held here: {}", lack.reason())]
    FilenameRulesUnavailable {
        /// Who wants them.
        what: &'static str,
        /// What is missing.
        lack: SupervisionLack,
    },
    /// The exec restriction was asked for, and this kernel cannot hold it (REQ BW-6).
    #[error("the exec restriction cannot be held here: {reason}")]
    ExecRestrictionUnavailable {
        /// What is missing.
        reason: String,
        /// What mends it.
        fix: Fix,
    },
    /// A tree that cannot be granted as a place of programs (REQ BW-6).
    #[error("the exec grant \"{path}\" cannot be made: {reason}")]
    ExecGrant {
        /// The tree, as listed.
        path: AbsPath,
        /// Why.
        reason: &'static str,
    },
    /// The working directory resolves to where the sandbox shows nothing.
    #[error("the working directory \"{path}\" is not visible inside")]
    WorkdirHidden {
        /// The path.
        path: AbsPath,
    },
}

/// Why a path is denied, in an error's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeniedKind {
    /// No sandbox may read it.
    Secret,
    /// Kotak's own.
    Own,
    /// No sandbox may write it.
    Protected,
    /// A folder in which repositories are searched for.
    Searched,
}

impl DeniedKind {
    fn denial(self) -> &'static str {
        match self {
            Self::Secret | Self::Own => "hidden",
            Self::Protected | Self::Searched => "held read-only",
        }
    }
}

impl std::fmt::Display for DeniedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Secret => "the secret path",
            Self::Own => "Kotak's own path",
            Self::Protected => "the protected path",
            Self::Searched => "what lies in the writable folder",
        })
    }
}

/// What a path is for, in an error's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathRole {
    /// The working directory.
    Workdir,
    /// The home directory.
    Home,
    /// A bind mount.
    Bind,
    /// A runner state directory.
    RunnerState,
    /// A tree in which programs may run.
    ExecGrant,
}

impl std::fmt::Display for PathRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Workdir => "working directory",
            Self::Home => "home directory",
            Self::Bind => "bind mount",
            Self::RunnerState => "runner state directory",
            Self::ExecGrant => "exec grant",
        })
    }
}

impl Coded for PolicyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing {
                role: PathRole::Workdir,
                ..
            } => "WORKDIR_MISSING",
            Self::Missing {
                role: PathRole::Bind,
                ..
            } => "BIND_SOURCE_MISSING",
            Self::Missing { .. } => "PATH_MISSING",
            Self::NotADirectory { .. } => "NOT_A_DIRECTORY",
            Self::SpecialFile { .. } => "SPECIAL_FILE",
            Self::Unreadable { .. } => "PATH_UNREADABLE",
            Self::NotVisible {
                kind: DeniedKind::Secret,
                ..
            } => "SECRET_NOT_VISIBLE",
            Self::NotVisible { .. } => "PATH_NOT_VISIBLE",
            Self::TooWide {
                role: PathRole::Workdir,
                ..
            } => "WORKDIR_TOO_WIDE",
            Self::TooWide { .. } => "PATH_TOO_WIDE",
            Self::InsideSecret { .. } => "PATH_INSIDE_SECRET",
            Self::InsideKotak { .. } => "PATH_INSIDE_KOTAK",
            Self::RunnerStateProtected { .. } => "RUNNER_STATE_PROTECTED",
            Self::ConflictingBinds { .. } => "BINDS_CONFLICT",
            Self::Home { .. } => "HOME_UNUSABLE",
            Self::FilenameRulesUnavailable { .. } => "FILENAME_RULES_UNAVAILABLE",
            Self::ExecRestrictionUnavailable { .. } => "EXEC_RESTRICTION_UNAVAILABLE",
            Self::ExecGrant { .. } => "EXEC_GRANT_INVALID",
            Self::WorkdirHidden { .. } => "WORKDIR_HIDDEN",
        }
    }

    fn fix(&self) -> Option<Fix> {
        if let Self::NotVisible { blocker, cause, .. } = self {
            let denied = cause.kind() == io::ErrorKind::PermissionDenied;
            return Some(if denied {
                Fix::command(
                    format!("Give yourself back the permissions of {blocker}."),
                    format!("chmod u+rwx {}", quoted(blocker)),
                )
            } else {
                Fix::words(format!("Look at {blocker}: {cause}. Repair or remove it."))
            });
        }
        match self {
            Self::FilenameRulesUnavailable { lack, .. } => return Some(lack.fix()),
            Self::ExecRestrictionUnavailable { fix, .. } => return Some(fix.clone()),
            _ => {}
        }
        Some(Fix::words(match self {
            Self::NotVisible { blocker, .. } => format!("Look at {blocker}."),
            Self::FilenameRulesUnavailable { .. } | Self::ExecRestrictionUnavailable { .. } => {
                return None;
            }
            Self::ExecGrant { .. } => {
                "Grant a folder of build results inside a writable one.".to_owned()
            }
            Self::Missing { path, .. } => {
                format!("Create {path}, or choose a path that exists.")
            }
            Self::NotADirectory { .. } => "Choose a folder.".to_owned(),
            Self::SpecialFile { .. } => "Choose a file or a folder.".to_owned(),
            Self::Unreadable { path, .. } => {
                format!("Check the permissions of {path} and of the folders above it.")
            }
            Self::TooWide { .. } => "Choose a folder of a project instead.".to_owned(),
            Self::InsideSecret { .. } | Self::InsideKotak { .. } => {
                "Choose a folder outside it.".to_owned()
            }
            Self::RunnerStateProtected { .. } => {
                "Keep the runner's state outside every protected path.".to_owned()
            }
            Self::ConflictingBinds { .. } => "List the place once.".to_owned(),
            Self::Home { .. } => "Set HOME to a directory of your own.".to_owned(),
            Self::WorkdirHidden { .. } => {
                "Choose a folder inside a bind mount; a symbolic link may lead out of it."
                    .to_owned()
            }
        }))
    }
}

/// A path as one word of a shell.
fn quoted(path: &AbsPath) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(byte);
    let text = String::from_utf8_lossy(path.as_bytes()).into_owned();
    if path.as_bytes().iter().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

//! Why a spec is refused.

use super::{GrantError, IdError, MOST_GLOBS, PathError, PatternError};
use crate::error::{Coded, Fix};

/// A spec that cannot be launched as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is no JSON, or not of the spec's shape.
    #[error("the spec cannot be read at {at}: {reason}")]
    Malformed {
        /// Field path, e.g. `bindMounts[2].readOnly`, or line and column.
        at: String,
        /// What is wrong and what is allowed.
        reason: String,
    },
    /// An id is empty or unusable.
    #[error("{field} is not usable as an id")]
    Id {
        /// Field name on the wire.
        field: &'static str,
        /// Why.
        #[source]
        cause: IdError,
    },
    /// A path is relative, empty, or holds NUL.
    #[error("{field} \"{path}\" is not usable as a path")]
    Path {
        /// Field path on the wire.
        field: String,
        /// As given, lossy.
        path: String,
        /// Why.
        #[source]
        cause: PathError,
    },
    /// A path lies where nothing can be granted.
    #[error("{field} \"{path}\" lies under {below}, which every sandbox has of its own")]
    ReservedPath {
        /// Field path on the wire.
        field: String,
        /// The path.
        path: String,
        /// `/proc`, `/sys`, `/dev` or `/run/kotak`.
        below: &'static str,
    },
    /// `guestPath` differs from `hostPath`.
    #[error(
        "{field} maps \"{host}\" to \"{guest}\", and the native backend keeps paths as they are"
    )]
    GuestPathDiffers {
        /// Field path on the wire.
        field: String,
        /// Host path.
        host: String,
        /// Guest path.
        guest: String,
    },
    /// One path is bound twice, read-only and writable.
    #[error("bindMounts lists \"{path}\" both read-only and writable")]
    ConflictingBinds {
        /// The path.
        path: String,
    },
    /// The working directory would not exist inside.
    #[error("guestWorkdir \"{path}\" is not inside any bind mount")]
    WorkdirNotBound {
        /// The path.
        path: String,
    },
    /// A runner state directory inside a protected path: one must be writable, the other never.
    #[error("runnerStateDirs \"{path}\" lies inside the protected path \"{protected}\"")]
    RunnerStateProtected {
        /// The state directory.
        path: String,
        /// The protected path.
        protected: String,
    },
    /// A field asks for something that no mechanism enforces yet.
    #[error("{field} cannot be enforced: {reason}")]
    FieldNotEnforced {
        /// Field name on the wire.
        field: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// An open network for something that is no terminal (REQ EG-8).
    #[error("networkMode \"open\" is for terminals only")]
    OpenNetworkForRun,
    /// `networkEnabled: false` beside a mode that has a network.
    #[error("networkEnabled is false and networkMode is \"{mode}\"")]
    NetworkContradiction {
        /// The mode's name.
        mode: &'static str,
    },
    /// An entry of an allowlist is no host pattern (REQ EG-4).
    #[error("{field} cannot be matched: {cause}")]
    HostPattern {
        /// Field path on the wire.
        field: String,
        /// Why, with the entry.
        cause: PatternError,
    },
    /// An allowlist beside a network that has none.
    #[error("{field} lists domains and networkMode is \"{mode}\", which has no allowlist")]
    AllowlistUnused {
        /// Field name on the wire.
        field: &'static str,
        /// The mode's name.
        mode: &'static str,
    },
    /// A port or a socket cannot be granted as written (REQ EG-12).
    #[error("the grant cannot be made: {0}")]
    Grant(GrantError),
    /// Forwards into a session that shares the host's network.
    #[error("{field} need a network of the session's own, and the network is \"open\"")]
    GrantsWithOpenNetwork {
        /// Field name on the wire.
        field: &'static str,
    },
    /// An environment variable's name or value cannot be one.
    #[error("{field} \"{name}\" cannot be an environment variable: {reason}")]
    EnvName {
        /// Field path on the wire.
        field: &'static str,
        /// As given.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A filename rule that matches no name (REQ BW-5).
    #[error("{field} \"{glob}\" is not usable as a filename rule: {reason}")]
    Glob {
        /// Field path on the wire.
        field: String,
        /// As given, escaped.
        glob: String,
        /// Why.
        reason: String,
    },
    /// More filename rules than are tried at each creation.
    #[error("{field} holds {count} globs; {MOST_GLOBS} is the most")]
    TooManyGlobs {
        /// Field name on the wire.
        field: &'static str,
        /// How many.
        count: usize,
    },
    /// Exceptions to no rule.
    #[error("filenameRules.exceptions are given without filenameRules.globs")]
    ExceptionsWithoutGlobs,
    /// A tree in which programs may run, where they may run everywhere (REQ BW-6).
    #[error(
        "execGrantRoots are given and execRestriction is \"off\", so there is nothing to re-open"
    )]
    GrantWithoutRestriction,
    /// A tree that cannot be granted as a place of programs.
    #[error("{field} \"{path}\" cannot be granted: {reason}")]
    ExecGrant {
        /// Field path on the wire.
        field: String,
        /// The path.
        path: String,
        /// Why.
        reason: &'static str,
    },
}

impl Coded for SpecError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "SPEC_MALFORMED",
            Self::Id { .. } => "SPEC_ID_INVALID",
            Self::Path { .. } => "SPEC_PATH_INVALID",
            Self::ReservedPath { .. } => "SPEC_PATH_RESERVED",
            Self::GuestPathDiffers { .. } => "SPEC_GUEST_PATH_DIFFERS",
            Self::ConflictingBinds { .. } => "SPEC_BINDS_CONFLICT",
            Self::WorkdirNotBound { .. } => "SPEC_WORKDIR_NOT_BOUND",
            Self::RunnerStateProtected { .. } => "SPEC_RUNNER_STATE_PROTECTED",
            Self::FieldNotEnforced { .. } => "FIELD_NOT_ENFORCED",
            Self::OpenNetworkForRun => "SPEC_OPEN_NETWORK_FOR_RUN",
            Self::NetworkContradiction { .. } => "SPEC_NETWORK_CONTRADICTION",
            Self::HostPattern { .. } => "SPEC_HOST_PATTERN_INVALID",
            Self::AllowlistUnused { .. } => "SPEC_ALLOWLIST_UNUSED",
            Self::Grant(cause) => cause.code(),
            Self::GrantsWithOpenNetwork { .. } => "GRANTS_WITH_OPEN_NETWORK",
            Self::EnvName { .. } => "SPEC_ENV_INVALID",
            Self::Glob { .. } => "SPEC_GLOB_INVALID",
            Self::TooManyGlobs { .. } => "SPEC_GLOBS_TOO_MANY",
            Self::ExceptionsWithoutGlobs => "SPEC_EXCEPTIONS_UNUSED",
            Self::GrantWithoutRestriction => "SPEC_EXEC_GRANTS_UNUSED",
            Self::ExecGrant { .. } => "EXEC_GRANT_INVALID",
        }
    }

    fn fix(&self) -> Option<Fix> {
        let text = match self {
            Self::Malformed { at, .. } => format!("Correct the spec at {at}."),
            Self::Id { field, .. } => {
                format!("Give {field} a name of 1 to 128 bytes without control characters.")
            }
            Self::Path { field, .. } => format!("Give {field} an absolute path."),
            Self::ReservedPath { field, below, .. } => {
                format!("Remove {field}; the sandbox mounts its own {below}.")
            }
            Self::GuestPathDiffers { field, .. } => {
                format!("Leave {field} out, or make it equal to hostPath.")
            }
            Self::ConflictingBinds { .. } => "List the path once.".to_owned(),
            Self::WorkdirNotBound { path } => {
                format!("Add a bind mount that covers {path}, or choose a folder inside one.")
            }
            Self::RunnerStateProtected { .. } => {
                "Keep the runner's state outside every protected path.".to_owned()
            }
            Self::FieldNotEnforced { field, .. } => {
                format!("Leave {field} out to launch without it.")
            }
            Self::OpenNetworkForRun => {
                "Use networkMode \"allowlist\", \"ask\" or \"off\".".to_owned()
            }
            Self::NetworkContradiction { .. } => {
                "Set networkMode to \"off\", or leave networkEnabled out.".to_owned()
            }
            Self::HostPattern { cause, .. } => return cause.fix(),
            Self::AllowlistUnused { field, .. } => {
                format!("Use networkMode \"allowlist\" or \"ask\", or leave {field} out.")
            }
            Self::Grant(cause) => return cause.fix(),
            Self::GrantsWithOpenNetwork { .. } => {
                "Choose the network allowlist, ask or off. Under an open network the session's \
                 loopback is this computer's: ports need no forward there."
                    .to_owned()
            }
            Self::EnvName { .. } => {
                "Use letters, digits and underscores, not starting with a digit.".to_owned()
            }
            Self::Glob { field, .. } => format!(
                "Give {field} a name like .env, a pattern like *.key, or a path below the folder \
                 like certs/*.pem."
            ),
            Self::TooManyGlobs { .. } => {
                "Write several names as one pattern: *.{key,pem}.".to_owned()
            }
            Self::ExceptionsWithoutGlobs => {
                "Give the globs that they are exceptions to, or leave them out.".to_owned()
            }
            Self::GrantWithoutRestriction => {
                "Set execRestriction to \"writable\", or leave execGrantRoots out.".to_owned()
            }
            Self::ExecGrant { .. } => {
                "Grant a folder of build results inside a writable one.".to_owned()
            }
        };
        Some(Fix::words(text))
    }
}

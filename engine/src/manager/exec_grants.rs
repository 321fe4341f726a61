//! Folders whose programs may run though the session can write there (REQ UI-7, BW-6): which make
//! sense, which a launch takes, and where each stands.

use super::host::HostView;
use crate::api::{ExecGrant, ExecStanding, GrantInfo};
use crate::error::{Coded, Fix, Problem};
use crate::policy::ExecPolicy;
use crate::spec::{AbsPath, Grant, GrantKind, ValidExec, ValidSpec};
use crate::store::Store;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Every sandbox has these for itself, and they are empty when it starts.
const PRIVATE: [&str; 7] = [
    "/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys",
];
/// Nobody but root writes these, and programs run there in every session.
const SYSTEM: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/etc",
];

/// Why programs of a folder are not let run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecFolderError {
    /// Nothing is there.
    #[error("there is no folder {0}")]
    Missing(String),
    /// Something else is there.
    #[error("{0} is not a folder")]
    NotAFolder(String),
    /// The path leads through a symlink, which a sandbox may have made.
    #[error("{path} leads through a symbolic link to {leads_to}")]
    BehindSymlink {
        /// As given.
        path: String,
        /// Where it leads now.
        leads_to: String,
    },
    /// It holds so much that the restriction would mean nothing.
    #[error("{path} is too wide to be approved: {reason}")]
    TooWide {
        /// Which.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// It is another folder in each session.
    #[error("{0} is private to each session, and empty when one starts")]
    Private(String),
    /// It is not writable inside.
    #[error("{0} is the system's, and programs there run in every session")]
    System(String),
    /// Kotak keeps its own files there.
    #[error("{0} is Kotak's own")]
    Kotak(String),
    /// It cannot be looked at.
    #[error("the folder {path} cannot be looked at")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The session's policy has no use for it.
    #[error("{0}")]
    LeftOut(String),
    /// It was kept by another version of Kotak.
    #[error("this version of Kotak cannot read the grant")]
    Unknown,
}

impl Coded for ExecFolderError {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "EXEC_FOLDER_MISSING",
            Self::NotAFolder(_) => "EXEC_FOLDER_IS_NONE",
            Self::BehindSymlink { .. } => "EXEC_FOLDER_BEHIND_SYMLINK",
            Self::TooWide { .. } => "EXEC_FOLDER_TOO_WIDE",
            Self::Private(_) => "EXEC_FOLDER_PRIVATE",
            Self::System(_) => "EXEC_FOLDER_NEEDLESS",
            Self::Kotak(_) => "EXEC_FOLDER_IS_KOTAKS",
            Self::Unreadable { .. } => "EXEC_FOLDER_UNREADABLE",
            Self::LeftOut(_) => "EXEC_FOLDER_LEFT_OUT",
            Self::Unknown => "GRANT_UNREADABLE",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Missing(_) => "Approve it once it exists, or choose a folder that does.",
            Self::NotAFolder(_) => "Choose the folder that holds the program.",
            Self::BehindSymlink { leads_to, .. } => {
                return Some(Fix::words(format!(
                    "If {leads_to} is what is meant, approve that."
                )));
            }
            Self::TooWide { .. } => {
                "Choose the folder that holds the program, or one between it and the workspace."
            }
            Self::Private(_) => "Build the program in the workspace, and approve its folder there.",
            Self::System(_) => "Nothing needs doing.",
            Self::Kotak(_) => "Choose another folder.",
            Self::Unreadable { .. } => "Choose a folder that you may read.",
            Self::LeftOut(_) => "Revoke it, or choose a folder that the session can write.",
            Self::Unknown => "Revoke it, and approve the folder again.",
        }))
    }
}

/// Looks at a folder as it is now; waits for the file system.
///
/// # Errors
/// It is not there, lies behind a symlink, or makes no sense to approve for `workspace`, which is
/// the path of a folder where it is a path at all.
pub(super) fn look(
    host: &HostView,
    folder: &AbsPath,
    workspace: &str,
) -> Result<(), ExecFolderError> {
    let shown = || crate::text::printable(&folder.to_string());
    let path = folder.to_path_buf();
    let real = match std::fs::canonicalize(&path) {
        Ok(real) => real,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => {
            return Err(ExecFolderError::Missing(shown()));
        }
        Err(source) => {
            return Err(ExecFolderError::Unreadable {
                path: shown(),
                source,
            });
        }
    };
    if real != path {
        return Err(ExecFolderError::BehindSymlink {
            path: shown(),
            leads_to: crate::text::printable(&real.to_string_lossy()),
        });
    }
    if !real.is_dir() {
        return Err(ExecFolderError::NotAFolder(shown()));
    }
    let too_wide = |reason| {
        Err(ExecFolderError::TooWide {
            path: shown(),
            reason,
        })
    };
    // A home that is reached by a symlink is still the home.
    let homes = [Some(&host.home), host.passwd_home.as_ref()];
    for home in homes.into_iter().flatten() {
        let home = std::fs::canonicalize(home).unwrap_or_else(|_| home.clone());
        if home.starts_with(&real) {
            return too_wide("it holds your whole home folder");
        }
    }
    let workspace = std::fs::canonicalize(workspace).ok();
    if let Some(workspace) = &workspace
        && workspace.starts_with(&real)
        && *workspace != real
    {
        return too_wide("it holds more than the workspace");
    }
    let dirs = &host.dirs;
    for own in [&dirs.state, &dirs.run, &dirs.config, &dirs.cache] {
        if real.starts_with(own) {
            return Err(ExecFolderError::Kotak(shown()));
        }
    }
    if workspace.is_some_and(|workspace| real.starts_with(workspace)) {
        return Ok(());
    }
    if PRIVATE.iter().any(|place| real.starts_with(place)) {
        return Err(ExecFolderError::Private(shown()));
    }
    if SYSTEM.iter().any(|place| real.starts_with(place)) {
        return Err(ExecFolderError::System(shown()));
    }
    Ok(())
}

/// An approved folder at a launch: taken, or why not.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    grant: GrantInfo,
    outcome: Result<(), Problem>,
}

/// Puts the approved folders of a session and its workspace into its spec, where programs are
/// refused at all. One that cannot be used now is left out: the session is the narrower for it.
pub(super) fn join(spec: &mut ValidSpec, store: &Store, host: &HostView) -> Option<Vec<Joined>> {
    if *spec.exec() == ValidExec::Anywhere {
        return None;
    }
    let place = (
        spec.session_id().as_str().to_owned(),
        spec.workspace_id().as_str().to_owned(),
    );
    let grants = store
        .grants(Some((&place.0, &place.1)))
        .unwrap_or_else(|error| {
            tracing::error!(%error, "approved folders cannot be read; none is taken");
            Vec::new()
        });
    let approved = grants
        .into_iter()
        .filter(|grant| grant.kind == GrantKind::Exec);
    let joined = approved.map(|grant| {
        let outcome = match grant.grant() {
            Some(Grant::Exec(folder)) => {
                look(host, &folder, &place.1).map(|()| spec.approve(folder))
            }
            Some(_) | None => Err(ExecFolderError::Unknown),
        };
        let outcome = outcome.map_err(|error| error.problem());
        if let Err(problem) = &outcome {
            tracing::warn!(
                code = problem.code,
                "an approved folder is left out: {}",
                problem.message
            );
        }
        Joined { grant, outcome }
    });
    Some(joined.collect())
}

/// The same, as the policy took them: what it left out is not in force, with its reason.
pub(super) fn leave_out(mut joined: Vec<Joined>, policy: Option<&ExecPolicy>) -> Vec<Joined> {
    let left_out = policy.map_or(&[][..], ExecPolicy::left_out);
    for each in &mut joined {
        let folder = match each.grant.grant() {
            Some(Grant::Exec(folder)) => folder,
            Some(Grant::PortIn(_) | Grant::PortOut(_) | Grant::Socket(_)) | None => continue,
        };
        if let Some((_, why)) = left_out.iter().find(|(path, _)| *path == folder) {
            each.outcome = Err(ExecFolderError::LeftOut(why.clone()).problem());
        }
    }
    joined
}

/// What each running session was launched with.
#[derive(Debug)]
pub(super) struct ExecGrants {
    store: Arc<Store>,
    sessions: Mutex<HashMap<String, Vec<Joined>>>,
}

impl ExecGrants {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            sessions: Mutex::default(),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Vec<Joined>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session runs with these.
    pub(super) fn started(&self, session: &str, joined: Vec<Joined>) {
        for Joined { grant, outcome } in &joined {
            let path = || grant.path.clone().unwrap_or_default();
            let used = outcome.clone().map(|()| path());
            self.store.grant_used(grant.id, session, used);
        }
        self.sessions().insert(session.to_owned(), joined);
    }

    /// A session is over.
    pub(super) fn ended(&self, session: &str) {
        self.sessions().remove(session);
    }

    /// Whether a session runs whose programs are refused where it can write.
    pub(super) fn restricts(&self, session: &str) -> bool {
        self.sessions().contains_key(session)
    }

    /// Where the approved folders of a session and its workspace stand, by all grants as they are
    /// known now.
    pub(super) fn standings(
        &self,
        session: &str,
        workspace: &str,
        known: Vec<GrantInfo>,
    ) -> Vec<ExecGrant> {
        let joined = self.sessions().get(session).cloned().unwrap_or_default();
        let of_session = |grant: &GrantInfo| match &grant.session_id {
            Some(own) => own == session,
            None => grant.workspace == workspace,
        };
        let mut known: Vec<GrantInfo> = known
            .into_iter()
            .filter(|grant| grant.kind == GrantKind::Exec && of_session(grant))
            .collect();
        let mut all = Vec::new();
        for Joined { grant, outcome } in joined {
            let before = known.len();
            known.retain(|each| each.id != grant.id);
            let is_known = known.len() < before;
            let standing = match (&outcome, is_known) {
                (Ok(()), true) => ExecStanding::InForce,
                (Ok(()), false) => ExecStanding::Revoked,
                (Err(_), true) => ExecStanding::Unusable,
                (Err(_), false) => continue,
            };
            all.push(ExecGrant {
                grant,
                standing,
                problem: outcome.err(),
            });
        }
        all.extend(known.into_iter().map(|grant| ExecGrant {
            grant,
            standing: ExecStanding::NextStart,
            problem: None,
        }));
        all.sort_by_key(|each| each.grant.id);
        all
    }
}

#[cfg(test)]
#[path = "exec_grants_tests.rs"]
mod tests;

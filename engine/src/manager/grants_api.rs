//! What the window and the command ask about grants (REQ EG-12).

use super::engine::Engine;
use super::exec_grants;
use super::forwards::look;
use super::host::HostView;
use super::network_api::blocking;
use super::sandbox_manager::NoSession;
use crate::api::{ExecPolicy, GrantInfo, NewGrant, SessionGrant};
use crate::error::{Coded, Fix, Problem};
use crate::process::HostSockets;
use crate::spec::{AbsPath, Grant, WorkspaceId};
use crate::store::{Dirs, GrantStart};
use std::sync::Arc;

/// Looks at the sockets of this host that are to be let in, for a client without an engine.
///
/// # Errors
/// The first that is not there, is no socket, lies behind a symbolic link, or controls the host.
pub fn look_at_sockets(dirs: &Dirs, grants: &[Grant]) -> Result<(), Problem> {
    check(&HostView::read(dirs.clone()).sockets(), grants)
}

/// Looks at a folder whose programs may run in sessions of a workspace, for a client without an
/// engine.
///
/// # Errors
/// It is not there, lies behind a symbolic link, or makes no sense to approve.
pub fn look_at_folder(dirs: &Dirs, folder: &AbsPath, workspace: &str) -> Result<(), Problem> {
    exec_grants::look(&HostView::read(dirs.clone()), folder, workspace)
        .map_err(|error| error.problem())
}

/// The same for this engine; waits for the file system.
pub(super) fn check(host: &HostSockets, grants: &[Grant]) -> Result<(), Problem> {
    for grant in grants {
        match grant {
            // Looked at by themselves, with the workspace.
            Grant::PortIn(_) | Grant::PortOut(_) | Grant::Exec(_) => {}
            Grant::Socket(name) => {
                look(host, name).map_err(|error| error.problem())?;
            }
        }
    }
    Ok(())
}

/// Why a grant is not made or revoked.
#[derive(Debug, thiserror::Error)]
enum GrantRefusal {
    /// There is none of that number.
    #[error("there is no grant {0}")]
    NoGrant(i64),
    /// It holds for nothing.
    #[error("the grant names no session and no workspace")]
    WithoutPlace,
    /// The session's walls are not its own.
    #[error("session {0} has no network of its own")]
    NoWalls(String),
    /// Nothing is refused that could be approved.
    #[error("session {0} runs programs wherever they lie")]
    RunsAnywhere(String),
    /// It holds for nothing any more.
    #[error("session {0} has ended")]
    SessionOver(String),
    /// The work did not come to its end.
    #[error("the request was cut short")]
    Cut(#[source] tokio::task::JoinError),
}

impl Coded for GrantRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::NoGrant(_) => "NO_SUCH_GRANT",
            Self::WithoutPlace => "GRANT_WITHOUT_PLACE",
            Self::NoWalls(_) => "GRANTS_WITH_OPEN_NETWORK",
            Self::RunsAnywhere(_) => "EXEC_NOT_RESTRICTED",
            Self::SessionOver(_) => "SESSION_ENDED",
            Self::Cut(_) => "REQUEST_CUT_SHORT",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::NoGrant(_) => "It may have been revoked already, or have ended with its session.",
            Self::WithoutPlace => "Name a session or a workspace.",
            Self::NoWalls(_) => {
                "Start it in a sandbox with the network allowlist, ask or off. Under an open \
                 network the session's loopback is this computer's: ports need no forward there."
            }
            Self::RunsAnywhere(_) => {
                "Nothing needs doing. Approve the folder for the workspace, for sessions that refuse \
                 programs in folders that they can write."
            }
            Self::SessionOver(_) => "Approve the folder for the workspace.",
            Self::Cut(_) => "Try again; the log says more.",
        }))
    }
}

impl Engine {
    /// Grants of all sessions and workspaces, oldest first.
    #[must_use]
    pub fn grants(&self) -> Vec<GrantInfo> {
        self.0.networks.grants()
    }

    /// What a session of this engine is granted, and what became of it; nothing where it has no
    /// network of its own.
    ///
    /// # Errors
    /// No session of this engine has that id.
    pub fn session_grants(&self, session: &str) -> Result<Vec<SessionGrant>, Problem> {
        match self.0.networks.session_grants(session) {
            Some(grants) => Ok(grants),
            None => match self.0.find(session) {
                Some(_) => Ok(Vec::new()),
                None => Err(NoSession(session.to_owned()).problem()),
            },
        }
    }

    /// Grants a port or a socket, or approves a folder whose programs may run. For a session of this
    /// engine a port or a socket is open when this returns, and a folder holds from its restart on;
    /// for a workspace all hold for every session that starts there from now on.
    ///
    /// # Errors
    /// It cannot be read, the socket is never let in, it names no session and no workspace, the
    /// session has no network of its own, or it cannot be opened: then it is not kept.
    pub async fn add_grant(&self, new: NewGrant) -> Result<GrantInfo, Problem> {
        let grant = new.checked().map_err(|error| error.problem())?;
        if let Grant::Exec(folder) = grant {
            return self.approve(new, folder).await;
        }
        let networks = Arc::clone(&self.0.networks);
        let looked = grant.clone();
        tokio::task::spawn_blocking(move || networks.check(&[looked]))
            .await
            .map_err(|error| GrantRefusal::Cut(error).problem())??;
        let running =
            match &new.session_id {
                None => None,
                Some(session) => {
                    Some(self.0.networks.find(session).ok_or_else(
                        || match self.0.find(session) {
                            Some(_) => GrantRefusal::NoWalls(session.clone()).problem(),
                            None => NoSession(session.clone()).problem(),
                        },
                    )?)
                }
            };
        let workspace = match (&running, &new.workspace) {
            (Some(running), _) => running.workspace().to_owned(),
            (None, Some(workspace)) => WorkspaceId::of_folder(workspace),
            (None, None) => return Err(GrantRefusal::WithoutPlace.problem()),
        };
        let start = GrantStart {
            grant,
            session_id: new.session_id,
            workspace,
        };
        let store = Arc::clone(&self.0.store);
        let added = blocking(move || store.add_grant(start)).await?;
        let Some(running) = running else {
            return Ok(added);
        };
        running.forwards.follow().await;
        let standing = running.forwards.list();
        let problem = standing
            .into_iter()
            .find(|each| each.grant.id == added.id)
            .and_then(|each| each.problem);
        match problem {
            None => Ok(added),
            Some(problem) => {
                self.revoke(added.id).await?;
                Err(problem)
            }
        }
    }

    /// Approves a folder whose programs may run, from the next start on.
    async fn approve(&self, new: NewGrant, folder: AbsPath) -> Result<GrantInfo, Problem> {
        let shared = &self.0;
        let workspace = match (&new.session_id, &new.workspace) {
            (Some(session), _) => {
                let found = shared.session(session)?;
                if !shared.networks.exec.restricts(session) {
                    let refusal = if found.is_over() {
                        GrantRefusal::SessionOver(session.clone())
                    } else {
                        GrantRefusal::RunsAnywhere(session.clone())
                    };
                    return Err(refusal.problem());
                }
                WorkspaceId::of_folder(&found.info().workspace)
            }
            (None, Some(workspace)) => WorkspaceId::of_folder(workspace),
            (None, None) => return Err(GrantRefusal::WithoutPlace.problem()),
        };
        let (view, looked, of) = (shared.view.clone(), folder.clone(), workspace.clone());
        tokio::task::spawn_blocking(move || exec_grants::look(&view, &looked, &of))
            .await
            .map_err(|error| GrantRefusal::Cut(error).problem())?
            .map_err(|error| error.problem())?;
        let start = GrantStart {
            grant: Grant::Exec(folder),
            session_id: new.session_id,
            workspace,
        };
        let store = Arc::clone(&shared.store);
        blocking(move || store.add_grant(start)).await
    }

    /// From where a session of this engine may run programs, and which folders are approved.
    ///
    /// # Errors
    /// No session of this engine has that id.
    pub fn exec_policy(&self, session: &str) -> Result<ExecPolicy, Problem> {
        let shared = &self.0;
        let info = shared.session(session)?.info();
        let workspace = WorkspaceId::of_folder(&info.workspace);
        let known = shared.networks.grants();
        Ok(ExecPolicy {
            restriction: info.request.exec_restriction,
            grants: shared.networks.exec.standings(session, &workspace, known),
        })
    }

    /// Revokes a grant: its listeners are closed and its connections cut when this returns, those
    /// of other engines' sessions within half a second.
    ///
    /// # Errors
    /// There is no such grant, or it cannot be revoked now.
    pub async fn revoke_grant(&self, id: i64) -> Result<(), Problem> {
        match self.revoke(id).await? {
            Some(_) => Ok(()),
            None => Err(GrantRefusal::NoGrant(id).problem()),
        }
    }

    async fn revoke(&self, id: i64) -> Result<Option<GrantInfo>, Problem> {
        let store = Arc::clone(&self.0.store);
        let removed = blocking(move || store.remove_grant(id)).await?;
        for running in self.0.networks.all() {
            running.forwards.follow().await;
        }
        Ok(removed)
    }
}

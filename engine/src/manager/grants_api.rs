//! What the window and the command ask about grants (REQ EG-12).

use super::engine::Engine;
use super::forwards::look;
use super::host::HostView;
use super::network_api::blocking;
use super::sandbox_manager::NoSession;
use crate::api::{GrantInfo, NewGrant, SessionGrant};
use crate::error::{Coded, Fix, Problem};
use crate::process::HostSockets;
use crate::spec::{Grant, WorkspaceId};
use crate::store::{Dirs, GrantStart};
use std::sync::Arc;

/// Looks at the sockets of this host that are to be let in, for a client without an engine.
///
/// # Errors
/// The first that is not there, is no socket, lies behind a symbolic link, or controls the host.
pub fn look_at_sockets(dirs: &Dirs, grants: &[Grant]) -> Result<(), Problem> {
    check(&HostView::read(dirs.clone()).sockets(), grants)
}

/// The same for this engine; waits for the file system.
pub(super) fn check(host: &HostSockets, grants: &[Grant]) -> Result<(), Problem> {
    for grant in grants {
        match grant {
            Grant::PortIn(_) | Grant::PortOut(_) => {}
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

    /// Grants a port or a socket. For a session of this engine it is open when this returns; for a
    /// workspace it holds for every session that starts there from now on.
    ///
    /// # Errors
    /// It cannot be read, the socket is never let in, it names no session and no workspace, the
    /// session has no network of its own, or it cannot be opened: then it is not kept.
    pub async fn add_grant(&self, new: NewGrant) -> Result<GrantInfo, Problem> {
        let grant = new.checked().map_err(|error| error.problem())?;
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

//! Starting a session again, with what was approved for it alone (REQ UI-7).

use super::super::engine::Shared;
use super::super::network_api::blocking;
use super::super::session::Session;
use crate::api::SessionInfo;
use crate::error::Problem;
use crate::spec::{AbsPath, Grant};
use crate::store::GrantStart;
use std::sync::Arc;

impl Shared {
    pub(in crate::manager) async fn restart(
        self: &Arc<Self>,
        id: &str,
    ) -> Result<SessionInfo, Problem> {
        let old = self.session(id)?;
        let request = old.info().request;
        self.close(id).await?;
        let fresh = self.launch_with(request, old.approved()).await?;
        self.dismiss(id)?;
        Ok(fresh)
    }

    /// Keeps what was approved for a session before its restart for the session that takes its place.
    pub(super) async fn approve_again(
        &self,
        id: &str,
        workspace: &str,
        approved: &[AbsPath],
    ) -> Result<(), Problem> {
        for folder in approved {
            let start = GrantStart {
                grant: Grant::Exec(folder.clone()),
                session_id: Some(id.to_owned()),
                workspace: workspace.to_owned(),
            };
            let store = Arc::clone(&self.store);
            blocking(move || store.add_grant(start)).await?;
        }
        Ok(())
    }

    /// Before a session is torn down, and its own grants with it: what a restart takes along.
    pub(super) fn remember_approved(&self, session: &Session) {
        let id = session.id();
        if !self.networks.exec.restricts(&id) {
            return;
        }
        let own = self
            .networks
            .grants()
            .into_iter()
            .filter(|grant| grant.session_id.as_ref() == Some(&id));
        let folders = own.filter_map(|grant| match grant.grant() {
            Some(Grant::Exec(folder)) => Some(folder),
            Some(Grant::PortIn(_) | Grant::PortOut(_) | Grant::Socket(_)) | None => None,
        });
        session.approve(folders.collect());
    }
}

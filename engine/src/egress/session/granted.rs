//! Connections through a grant (REQ EG-12). The grant alone decided: no rule of the network is
//! asked, and none is loosened.

use super::{SessionNetwork, attempt};
use crate::egress::decide::DenyReason;
use crate::egress::gate::{Closed, Ends, Meter, Route};
use crate::spec::ForwardDirection;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What a grant opens, as its connections are put down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedWay {
    /// Which way connections are made.
    pub direction: ForwardDirection,
    /// What they lead to: `127.0.0.1:5432`, or a path, control characters escaped.
    pub target: String,
    /// The host of that, or the path.
    pub host: String,
    /// The port; 0 of a Unix socket.
    pub port: u16,
    /// A port or a socket.
    pub route: Route,
    /// The address that is dialled; absent for a Unix socket.
    pub address: Option<IpAddr>,
    /// The grant in words.
    pub words: String,
}

/// A connection through a grant. However it ends, it is put down.
#[derive(Debug)]
pub(in crate::egress) struct GrantedPass {
    network: Arc<SessionNetwork>,
    id: u64,
    address: Option<IpAddr>,
    failed: Mutex<Option<String>>,
    cut: watch::Receiver<bool>,
    revoked: watch::Receiver<bool>,
    /// Counts as bytes pass.
    pub(in crate::egress) meter: Arc<Meter>,
}

impl SessionNetwork {
    /// Lets a connection through a grant; `ends` are its own inside, where it comes from there.
    pub(in crate::egress) fn granted(
        self: &Arc<Self>,
        way: &GrantedWay,
        ends: Option<Ends>,
        revoked: watch::Receiver<bool>,
    ) -> GrantedPass {
        let id = self.next_id();
        let row = attempt::granted_row(self.id(), id, way);
        let (meter, cut) = self.admit(id, row, None, (way.route, ends));
        GrantedPass {
            network: Arc::clone(self),
            id,
            address: way.address,
            failed: Mutex::default(),
            cut,
            revoked,
            meter,
        }
    }
}

impl GrantedPass {
    /// Comes when the operator cuts the connection, or revokes the grant.
    pub(in crate::egress) async fn cut(&self) {
        let (mut cut, mut revoked) = (self.cut.clone(), self.revoked.clone());
        tokio::select! {
            () = told(&mut cut) => {}
            () = told(&mut revoked) => {}
        }
    }

    /// The other end could not be reached.
    pub(in crate::egress) fn failed(&self, detail: String) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(detail);
    }

    fn end(&mut self) -> Closed {
        let address = self.address;
        let ended = |detail: &str| Closed::Refused {
            reason: DenyReason::Cut,
            detail: detail.to_owned(),
            address,
        };
        if *self.revoked.borrow() {
            return ended("the grant was revoked");
        }
        if *self.cut.borrow() {
            return ended("the operator cut it");
        }
        let failed = self.failed.get_mut();
        match failed.unwrap_or_else(PoisonError::into_inner).take() {
            Some(detail) => Closed::Failed { detail, address },
            None => Closed::Done { address },
        }
    }
}

impl Drop for GrantedPass {
    fn drop(&mut self) {
        let how = self.end();
        self.network.ended(self.id, how);
    }
}

async fn told(turned: &mut watch::Receiver<bool>) {
    if turned.wait_for(|turned| *turned).await.is_err() {
        // Nobody is left who could say it.
        std::future::pending::<()>().await;
    }
}

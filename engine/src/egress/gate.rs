//! What the proxies ask of a session, and tell it.

use super::decide::{DenyReason, Destination};
use crate::spec::HostName;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::{oneshot, watch};
use ts_rs::TS;

/// A future that a trait object can return.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How an attempt came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Route {
    /// `CONNECT` on the HTTP proxy.
    Connect,
    /// A plain request on the HTTP proxy.
    Http,
    /// The SOCKS5 proxy.
    Socks,
    /// A program that ignores proxies, by the address that DNS inside gave it.
    Transparent,
    /// A DNS query inside.
    Dns,
    /// A port forward that was granted (REQ EG-12).
    Forward,
    /// A Unix socket of the host that was granted (REQ EG-12).
    Socket,
}

/// The two ends of a connection from inside, as accepted: by both the guard finds the process.
/// One source port may lead to two listeners at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The client's.
    pub client: SocketAddr,
    /// What it connected to, where that is known.
    pub local: Option<SocketAddr>,
}

/// One attempt to reach a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Where to.
    pub destination: Destination,
    /// How it came.
    pub route: Route,
    /// The connection that it came by, when the carrier knows it.
    pub ends: Option<Ends>,
}

/// Held while the client of an attempt may still send; dropped when it does not any more.
#[derive(Debug)]
pub struct Stays {
    _held: oneshot::Sender<()>,
}

/// Tells when the client of an attempt has ended its side: it gave up, or it said all it had to
/// say and listens still.
#[derive(Debug)]
pub struct Leaves(oneshot::Receiver<()>);

impl Leaves {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Stays, Self) {
        let (held, leaves) = oneshot::channel();
        (Stays { _held: held }, Self(leaves))
    }

    /// Comes when the other end is dropped.
    pub async fn gone(self) {
        // Nothing is ever sent.
        let _gone = self.0.await;
    }
}

/// What becomes of an attempt.
#[derive(Debug)]
pub enum Verdict {
    /// It may pass.
    Pass(Pass),
    /// It may not; it has been put down already.
    Refuse(Refusal),
}

/// A refusal, as the client is told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: DenyReason,
    /// One sentence for people, without a final full stop: what was refused and the narrowest way
    /// out.
    pub message: String,
}

/// The permission to open one connection; given back by [`Gate::closed`].
#[derive(Debug)]
pub struct Pass {
    /// Unique in the session.
    pub id: u64,
    /// What it is for.
    pub destination: Destination,
    /// Special addresses that an operator's rule names by itself, and that may be dialled.
    pub excepted: Vec<IpAddr>,
    /// Bytes so far, counted as they pass.
    pub meter: Arc<Meter>,
    /// Turns true when the operator cuts the connection.
    pub cut: watch::Receiver<bool>,
}

/// Bytes that passed, without the proxy's own.
#[derive(Debug, Default)]
pub struct Meter {
    /// From the sandbox to the destination.
    pub up: AtomicU64,
    /// From the destination to the sandbox.
    pub down: AtomicU64,
}

/// How an allowed connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// By either side, in good order or not.
    Done {
        /// The address that was checked and dialled; absent for a Unix socket.
        address: Option<IpAddr>,
    },
    /// Refused after all: by the address guard, the server name, the operator's cut.
    Refused {
        /// Why.
        reason: DenyReason,
        /// One sentence with what was seen.
        detail: String,
        /// The address that was checked and dialled, when it came to that.
        address: Option<IpAddr>,
    },
    /// Allowed, and the destination could not be reached.
    Failed {
        /// What the system said.
        detail: String,
        /// The address that was checked and dialled, when it came to that.
        address: Option<IpAddr>,
    },
}

/// The session behind a pair of proxies. All methods are cheap but [`Gate::judge`], which waits
/// while the operator is asked. Dropping its future withdraws the attempt, and what is denied is
/// put down even so.
pub trait Gate: Send + Sync + 'static {
    /// Decides one attempt, and puts down what was decided. Once its client leaves, nobody is
    /// asked about it any more, and the verdict comes in bounded time.
    fn judge(&self, attempt: Attempt, leaves: Leaves) -> Boxed<'_, Verdict>;

    /// Whether a name may be answered by the DNS inside: it may be reached on some port, or asked
    /// about. Puts a refusal down.
    fn answers(&self, name: &HostName, ends: Option<Ends>) -> bool;

    /// Puts down a refusal of something that is no [`Destination`]: malformed bytes, an unknown
    /// protocol. `seen` is what stood there, shortened, control characters escaped.
    fn malformed(&self, route: Route, ends: Option<Ends>, seen: &str, detail: &str);

    /// An allowed connection is over.
    fn closed(&self, pass: Pass, how: Closed);

    /// Resolves once it is known who opened the allowed connection of this number, or that it
    /// cannot be known, in bounded time. Proxies wait for it after [`Gate::closed`] before they let
    /// go of a client that they refuse after all: a process that is gone has no name.
    fn settled(&self, id: u64) -> Boxed<'_, ()>;
}

/// How names become addresses; the host's resolver outside of tests.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name, in the order to try them. Asked for allowed names only.
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, std::io::Result<Vec<IpAddr>>>;

    /// Nothing answered at the addresses of a name: whoever remembers them asks anew next time.
    fn forget(&self, _: &HostName) {}
}

//! What the proxies ask of a session, and tell it.

use super::decide::{DenyReason, Destination};
use crate::spec::HostName;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::watch;
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

/// One attempt to reach a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Where to.
    pub destination: Destination,
    /// How it came.
    pub route: Route,
    /// The client's end of its connection, as accepted: by it the guard finds the process.
    pub client: Option<SocketAddr>,
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
    },
    /// Allowed, and the destination could not be reached.
    Failed {
        /// What the system said.
        detail: String,
    },
}

/// The session behind a pair of proxies. All methods are cheap but [`Gate::judge`], which waits
/// while the operator is asked; dropping its future withdraws the attempt.
pub trait Gate: Send + Sync + 'static {
    /// Decides one attempt, and puts down what was decided.
    fn judge(&self, attempt: Attempt) -> Boxed<'_, Verdict>;

    /// Whether a name may be answered by the DNS inside: it may be reached on some port, or asked
    /// about. Puts a refusal down.
    fn answers(&self, name: &HostName, client: Option<SocketAddr>) -> bool;

    /// Puts down a refusal of something that is no [`Destination`]: malformed bytes, an unknown
    /// protocol. `seen` is what stood there, shortened, control characters escaped.
    fn malformed(&self, route: Route, client: Option<SocketAddr>, seen: &str, detail: &str);

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
}

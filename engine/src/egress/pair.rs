//! The pair of proxies of one session, with its DNS and its transparent listeners (REQ EG-1).
//! It runs also when the network is off: then every attempt is refused, and seen (REQ EG-7).

use super::accepting::{AFTER_ERROR, next};
use super::gate::{Gate, Resolve};
use super::http::head::Field;
use super::http::{self, Role};
use super::limits::Limits;
use super::pool::Pool;
use super::slots::{Slot, Slots};
use super::stream::{Accept, Accepted};
use super::{dns, socks5, transparent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// The listening sockets of a session, bound inside of it.
#[derive(Default)]
pub struct PairSockets {
    /// For the HTTP proxy.
    pub http: Vec<Box<dyn Accept>>,
    /// For the SOCKS5 proxy.
    pub socks: Vec<Box<dyn Accept>>,
    /// For DNS over UDP.
    pub dns_udp: Vec<UdpSocket>,
    /// For DNS over TCP.
    pub dns_tcp: Vec<Box<dyn Accept>>,
    /// For programs that ignore proxies, on ports 80, 443 and 22 of every address.
    pub transparent: Vec<Box<dyn Accept>>,
    /// What clients of the two proxies must know, where others could reach them.
    pub credentials: Option<Credentials>,
}

/// A user name and password, kept as digests and compared as such, so that the time a comparison
/// takes tells nothing.
#[derive(Clone)]
pub struct Credentials {
    /// Of the name and the password, each by its own digest.
    pair: [u8; 32],
    /// Of the value of `Proxy-Authorization`.
    basic: [u8; 32],
}

impl Credentials {
    /// Each at most 255 bytes (RFC 1929), the name without a colon (RFC 7617).
    #[must_use]
    pub fn new(name: &str, password: &str) -> Self {
        let basic = STANDARD.encode(format!("{name}:{password}"));
        Self {
            pair: Self::digest(name.as_bytes(), password.as_bytes()),
            basic: Sha256::digest(basic.as_bytes()).into(),
        }
    }

    /// Whether these are the right ones.
    pub(super) fn are(&self, name: &[u8], password: &[u8]) -> bool {
        Self::digest(name, password) == self.pair
    }

    /// Whether a request carries the right ones (RFC 7617).
    pub(super) fn are_in(&self, fields: &[Field]) -> bool {
        let mut values = http::head::values(fields, "proxy-authorization");
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        value
            .split_at_checked("basic ".len())
            .is_some_and(|(scheme, token)| {
                scheme.eq_ignore_ascii_case(b"basic ")
                    && <[u8; 32]>::from(Sha256::digest(token.trim_ascii())) == self.basic
            })
    }

    fn digest(name: &[u8], password: &[u8]) -> [u8; 32] {
        let both = [Sha256::digest(name), Sha256::digest(password)].concat();
        Sha256::digest(both).into()
    }
}

/// What all connections of a session share.
pub(super) struct Shared {
    pub(super) gate: Arc<dyn Gate>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) limits: Limits,
    pub(super) credentials: Option<Credentials>,
    pub(super) pool: Arc<Pool>,
    slots: Arc<Slots>,
}

/// A running pair. Dropping it ends its listeners and every connection; what was open is given
/// back to the gate.
pub struct ProxyPair {
    _tasks: JoinSet<()>,
}

impl ProxyPair {
    /// Serves these sockets for this session, inside a tokio runtime.
    #[must_use]
    pub fn start(
        gate: Arc<dyn Gate>,
        resolver: Arc<dyn Resolve>,
        sockets: PairSockets,
        limits: Limits,
    ) -> Self {
        let hold = Duration::from_secs(u64::from(limits.answer_seconds));
        let shared = Arc::new(Shared {
            gate,
            resolver,
            credentials: sockets.credentials,
            pool: Arc::new(Pool::new(limits.names, hold)),
            slots: Slots::new(limits.connections, limits.silent),
            limits,
        });
        let mut tasks = JoinSet::new();
        let kinds = [
            (Kind::Http, sockets.http),
            (Kind::Socks, sockets.socks),
            (Kind::Dns, sockets.dns_tcp),
            (Kind::Transparent, sockets.transparent),
        ];
        for (kind, listeners) in kinds {
            for listener in listeners {
                tasks.spawn(serve(Arc::clone(&shared), kind, listener));
            }
        }
        for socket in sockets.dns_udp {
            let shared = Arc::clone(&shared);
            tasks.spawn(async move { dns::serve_udp(&shared, socket).await });
        }
        Self { _tasks: tasks }
    }
}

/// What a listener is for.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Http,
    Socks,
    Dns,
    Transparent,
}

/// Accepts for ever. The connections are tasks of this one: they end with it.
async fn serve(shared: Arc<Shared>, kind: Kind, mut listener: Box<dyn Accept>) {
    let mut connections = JoinSet::new();
    let mut failing = false;
    while let Some(slot) = shared.slots.take().await {
        let accepted = next(listener.as_mut(), &mut connections).await;
        match accepted {
            Ok(accepted) => {
                failing = false;
                connections.spawn(connection(Arc::clone(&shared), kind, accepted, slot));
            }
            Err(error) => {
                accept_failed(&shared.slots, kind, &error, &mut failing);
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Says so once, not at every try. Out of descriptors, the oldest silent connection goes.
fn accept_failed(slots: &Slots, kind: Kind, error: &io::Error, failing: &mut bool) {
    if !*failing {
        tracing::warn!(%error, ?kind, "could not accept a connection from a session");
        *failing = true;
    }
    slots.end_oldest();
}

/// Serves one connection.
fn connection(
    shared: Arc<Shared>,
    kind: Kind,
    accepted: Accepted,
    slot: Slot,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        match kind {
            Kind::Http => http::serve(&shared, accepted, slot, Role::Proxy).await,
            Kind::Socks => socks5::serve(&shared, accepted, slot).await,
            Kind::Dns => dns::serve_tcp(&shared, accepted, slot).await,
            Kind::Transparent => transparent::serve(&shared, accepted, slot).await,
        }
    })
}

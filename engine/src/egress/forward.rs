//! One granted way through a sandbox's walls: a listener at one end, joined connection by
//! connection to a server at the other (REQ EG-12).

use super::accepting::{AFTER_ERROR, next};
use super::gate::Boxed;
use super::relay::join;
use super::session::{GrantedPass, GrantedWay, SessionNetwork};
use super::stream::{Accept, Accepted, Duplex};
use crate::spec::ForwardDirection;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Connections of one grant at once. More wait in the kernel's queue until one ends.
pub(super) const CONNECTIONS: usize = 128;
/// How long the server at the other end may take to be reached.
const REACH_TIME: Duration = Duration::from_secs(10);

/// How the server at the other end is reached.
pub trait Reach: Send + Sync + 'static {
    /// A new connection to it.
    fn reach(&self) -> Boxed<'_, io::Result<Box<dyn Duplex>>>;
}

/// A granted way that is open. Dropping it closes the listener and every connection.
pub struct Forward {
    revoked: watch::Sender<bool>,
    places: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Forward")
            .field("open", &self.open())
            .finish_non_exhaustive()
    }
}

impl Forward {
    /// Opens the way. Must be called inside a runtime.
    #[must_use]
    pub fn start(
        listener: Box<dyn Accept>,
        reach: Arc<dyn Reach>,
        network: Arc<SessionNetwork>,
        way: GrantedWay,
    ) -> Self {
        let (revoked, watched) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut tasks = JoinSet::new();
        let serving = Serving {
            reach,
            network,
            way,
            revoked: watched,
        };
        tasks.spawn(serve(listener, Arc::new(serving), Arc::clone(&places)));
        Self {
            revoked,
            places,
            tasks,
        }
    }

    /// Connections through it now.
    #[must_use]
    pub fn open(&self) -> u32 {
        let taken = CONNECTIONS.saturating_sub(self.places.available_permits());
        // The one that is waited for has its place already, and is no connection yet.
        u32::try_from(taken.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Closes it, and cuts what is open: each says that the grant was revoked. Returns once the
    /// listener is closed.
    pub async fn revoke(self) {
        self.revoked.send_replace(true);
        self.end().await;
    }

    /// Closes it with its session. Returns once the listener is closed.
    pub async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

/// What every connection of a way needs.
struct Serving {
    reach: Arc<dyn Reach>,
    network: Arc<SessionNetwork>,
    way: GrantedWay,
    revoked: watch::Receiver<bool>,
}

/// Accepts until it is dropped. The connections are tasks of this one: they end with it.
async fn serve(mut listener: Box<dyn Accept>, serving: Arc<Serving>, places: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    let mut failing = false;
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let accepted = next(listener.as_mut(), &mut connections).await;
        match accepted {
            Ok(accepted) => {
                failing = false;
                let serving = Arc::clone(&serving);
                connections.spawn(async move {
                    connection(&serving, accepted).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Said once, not at every try.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "could not accept a connection of a grant");
                }
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

async fn connection(serving: &Serving, accepted: Accepted) {
    let ends = match serving.way.direction {
        ForwardDirection::Out => accepted.ends(),
        // Of the host: nobody inside has that address.
        ForwardDirection::In => None,
    };
    let pass = serving
        .network
        .granted(&serving.way, ends, serving.revoked.clone());
    tokio::select! {
        biased;
        () = pass.cut() => {}
        () = carry(serving, accepted.stream, &pass) => {}
    }
}

async fn carry(serving: &Serving, stream: Box<dyn Duplex>, pass: &GrantedPass) {
    let reached = tokio::time::timeout(REACH_TIME, serving.reach.reach()).await;
    let reached = match reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(reached) => reached,
        Err(error) => {
            return pass.failed(format!(
                "{} could not be reached: {error}",
                serving.way.target
            ));
        }
    };
    let (host, inside) = match serving.way.direction {
        ForwardDirection::In => (stream, reached),
        ForwardDirection::Out => (reached, stream),
    };
    join(host, inside, &pass.meter).await;
}

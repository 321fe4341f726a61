//! Who makes an attempt. In a flood only some are looked up, and the rows of the others say so.

use crate::api::{ActivityRow, Actor};
use crate::egress::gate::{Attempt, Boxed, Ends, Route};
use crate::egress::journal::Bucket;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Look-ups at the same time.
const AT_ONCE: usize = 32;
/// Look-ups in a burst, and each second after that.
const LOOK_UPS: (u64, u64) = (200, 100);
/// What a row says of an attempt that was not looked up.
const SAMPLED: &str = "too many attempts at once: this one's process was not looked up";
/// What a row says of an attempt that did not wait for its look-up.
const HURRIED: &str = "the connection ended before its process was found";

/// Finds the process at the other end of a connection that was accepted.
pub trait WhoAsks: Send + Sync + 'static {
    /// Who is at the client's end; nobody when it is gone, or cannot be told. Must end in bounded
    /// time.
    fn who(&self, route: Route, ends: Ends) -> Boxed<'_, Option<Actor>>;
}

/// What a look-up gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) actor: Option<Actor>,
    /// Why there was no look-up, or no end of it.
    unknown: Option<&'static str>,
}

impl Who {
    /// Not looked up.
    pub(super) fn sampled() -> Self {
        Self {
            actor: None,
            unknown: Some(SAMPLED),
        }
    }

    /// Gone before the look-up ended.
    pub(super) fn hurried() -> Self {
        Self {
            actor: None,
            unknown: Some(HURRIED),
        }
    }

    /// Puts it into a row.
    pub(super) fn sign(self, row: &mut ActivityRow) {
        if let Some(unknown) = self.unknown {
            row.raw = Some(match row.raw.take() {
                Some(raw) => format!("{raw} ({unknown})"),
                None => unknown.to_owned(),
            });
        }
        row.process = self.actor;
    }
}

/// Looks up who asks, as often as is good.
#[derive(Clone)]
pub struct Asker {
    who: Arc<dyn WhoAsks>,
    permits: Arc<Semaphore>,
    bucket: Arc<Mutex<Bucket>>,
}

impl fmt::Debug for Asker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asker").finish_non_exhaustive()
    }
}

impl Asker {
    /// By this means.
    #[must_use]
    pub fn new(who: Arc<dyn WhoAsks>) -> Self {
        Self {
            who,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            bucket: Arc::new(Mutex::new(Bucket::new(LOOK_UPS.0, LOOK_UPS.1))),
        }
    }

    /// Who makes an attempt.
    pub(super) async fn ask(&self, attempt: &Attempt, now_ms: u64) -> Who {
        match self.begin(attempt.route, attempt.ends, now_ms) {
            Some(look) => look.await,
            None => Who::sampled(),
        }
    }

    /// Begins a look-up; nothing when there are too many.
    pub(super) fn begin(
        &self,
        route: Route,
        ends: Option<Ends>,
        now_ms: u64,
    ) -> Option<impl Future<Output = Who> + Send + use<>> {
        let permit: OwnedSemaphorePermit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let may = ends.is_none() || bucket.take(now_ms);
        drop(bucket);
        let who = Arc::clone(&self.who);
        may.then_some(async move {
            let actor = match ends {
                Some(ends) => who.who(route, ends).await,
                None => None,
            };
            drop(permit);
            Who {
                actor,
                unknown: None,
            }
        })
    }
}

//! What every listener does between two connections.

use super::stream::{Accept, Accepted};
use std::io;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};

/// Pause after a socket failed, so that a lasting failure takes no processor.
pub(super) const AFTER_ERROR: Duration = Duration::from_millis(20);

/// The next connection; those that end meanwhile are let go of.
///
/// # Errors
/// As accept(2).
pub(super) async fn next(
    listener: &mut dyn Accept,
    connections: &mut JoinSet<()>,
) -> io::Result<Accepted> {
    // One future until it is done: what was accepted and is still being looked at would be lost
    // with it.
    let accept = listener.accept();
    tokio::pin!(accept);
    loop {
        tokio::select! {
            biased;
            Some(ended) = connections.join_next() => report(ended),
            accepted = &mut accept => return accepted,
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection of a session failed");
    }
}

//! Programs that ignore proxies: they connect to the address that DNS inside gave them, and the
//! address leads back to the name (REQ EG-1). The same rules hold on this way in.

use super::decide::Destination;
use super::dial::dial;
use super::first_bytes::FirstBytes;
use super::gate::{Attempt, Route};
use super::http::{self, Role};
use super::pair::Shared;
use super::pool::{Lease, Pool};
use super::relay::{counted, relay};
use super::slots::Slot;
use super::stream::{Accepted, split};
use super::ticket::{Judged, judge};
use crate::spec::Host;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// Serves one connection.
pub(super) async fn serve(shared: &Shared, accepted: Accepted, slot: Slot) {
    let (destination, _lease) = match destination(shared, accepted.local) {
        Ok(found) => found,
        Err(detail) => {
            let shown = accepted
                .local
                .map(|local| local.to_string())
                .unwrap_or_default();
            shared
                .gate
                .malformed(Route::Transparent, accepted.ends(), &shown, detail);
            return;
        }
    };
    if shared.limits.http_ports.contains(&destination.port) {
        let role = Role::Server {
            destination,
            route: Route::Transparent,
        };
        return http::serve(shared, accepted, slot, role).await;
    }
    let ends = accepted.ends();
    let (mut reader, writer) = split(accepted.stream);
    let attempt = Attempt {
        destination,
        route: Route::Transparent,
        ends,
    };
    let mut ticket = match judge(&shared.gate, attempt, &mut reader).await {
        Judged::Pass(ticket) => *ticket,
        Judged::Refuse(_) => return,
    };
    match dial(&mut ticket, shared.resolver.as_ref(), &shared.limits).await {
        Ok(server) => {
            let first = FirstBytes::on_port(ticket.destination.port, &shared.limits);
            let server = counted(server, &ticket);
            relay((reader, writer), server, ticket, first, &shared.limits).await;
        }
        Err(error) => ticket.close(error.closed()).await,
    }
}

/// What the client meant by the address that it connected to: the name that has it, or, outside of
/// the pool, the address itself.
fn destination(
    shared: &Shared,
    local: Option<SocketAddr>,
) -> Result<(Destination, Option<Lease>), &'static str> {
    let local = local.ok_or("a connection to no known address")?;
    let port = local.port();
    match local.ip().to_canonical() {
        IpAddr::V4(address) if Pool::contains(address) => {
            let lease = shared
                .pool
                .name_of(address, Instant::now())
                .ok_or("an address of the pool that no name has")?;
            let host = Host::Name(lease.name().clone());
            Ok((Destination { host, port }, Some(lease)))
        }
        address if address.is_loopback() || address.is_unspecified() => {
            Err("nothing listens on this port inside")
        }
        address => {
            let host = Host::Ip(address);
            Ok((Destination { host, port }, None))
        }
    }
}

//! Dialling: resolved after the allow, checked address by address, and only checked addresses
//! are dialled (REQ EG-11).

use super::address::{self, SpecialRange};
use super::decide::{DenyReason, Destination};
use super::gate::{Closed, Resolve};
use super::limits::Limits;
use super::stream;
use super::ticket::Ticket;
use crate::error::{Coded, Fix};
use crate::spec::Host;
use std::io;
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Why an allowed destination was not reached.
#[derive(Debug, Error)]
pub enum DialError {
    /// The resolver said no, or nothing.
    #[error("could not resolve `{host}`")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// Every address is a special one.
    #[error("`{host}` stands for {address}, {range}")]
    Special {
        /// The name or address.
        host: String,
        /// The first refused address.
        address: IpAddr,
        /// What it is.
        range: SpecialRange,
    },
    /// No address answered.
    #[error("could not connect to {target}")]
    Unreachable {
        /// Host and port.
        target: String,
        /// The last failure.
        #[source]
        source: io::Error,
    },
    /// The operator cut it while it was dialled.
    #[error("the connection to {target} was cut")]
    Cut {
        /// Host and port.
        target: String,
    },
}

impl Coded for DialError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unresolved { .. } => "EGRESS_UNRESOLVED",
            Self::Special { .. } => "EGRESS_ADDRESS_RANGE",
            Self::Unreachable { .. } => "EGRESS_UNREACHABLE",
            Self::Cut { .. } => "EGRESS_CUT",
        }
    }

    fn fix(&self) -> Option<Fix> {
        match self {
            Self::Special { address, .. } => Some(Fix::words(format!(
                "allow {address} by itself if this is meant"
            ))),
            Self::Unresolved { .. } | Self::Unreachable { .. } | Self::Cut { .. } => None,
        }
    }
}

impl DialError {
    /// What the gate is told.
    pub(super) fn closed(&self) -> Closed {
        match self.refused() {
            Some(reason) => Closed::Refused {
                reason,
                detail: self.told(),
                address: None,
            },
            None => Closed::Failed {
                detail: self.told(),
                address: None,
            },
        }
    }

    /// The reason, when it is a refusal and no failure.
    pub(super) fn refused(&self) -> Option<DenyReason> {
        match self {
            Self::Special { range, .. } => Some(range.reason()),
            Self::Cut { .. } => Some(DenyReason::Cut),
            Self::Unresolved { .. } | Self::Unreachable { .. } => None,
        }
    }

    /// Whether time ran out.
    pub(super) fn timed_out(&self) -> bool {
        self.io()
            .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    /// What the system said.
    pub(super) fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Unresolved { source, .. } | Self::Unreachable { source, .. } => Some(source),
            Self::Special { .. } | Self::Cut { .. } => None,
        }
    }

    /// One sentence with its cause.
    pub(super) fn told(&self) -> String {
        match self.io() {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}

/// Reaches an allowed destination, or says why not. The ticket notes the address.
pub(super) async fn dial(
    ticket: &mut Ticket,
    resolver: &dyn Resolve,
    limits: &Limits,
) -> Result<TcpStream, DialError> {
    let destination = ticket.destination.clone();
    let cut = ticket.cut();
    let reached = async {
        let addresses = checked(&destination, &ticket.excepted, resolver, limits).await?;
        let connected = connect(&addresses, destination.port, limits).await;
        connected.map_err(|source| {
            forget(&destination, resolver);
            DialError::Unreachable {
                target: destination.to_string(),
                source,
            }
        })
    };
    let (stream, address) = tokio::select! {
        biased;
        () = cut => Err(DialError::Cut {
            target: destination.to_string(),
        }),
        reached = reached => reached,
    }?;
    stream::tune(&stream);
    ticket.dialled(address);
    Ok(stream)
}

/// The addresses of a destination that may be dialled, in the order to try them.
async fn checked(
    destination: &Destination,
    excepted: &[IpAddr],
    resolver: &dyn Resolve,
    limits: &Limits,
) -> Result<Vec<IpAddr>, DialError> {
    let found = match &destination.host {
        Host::Ip(address) => vec![*address],
        Host::Name(name) => {
            let resolved = tokio::time::timeout(limits.resolve_time, resolver.resolve(name)).await;
            let resolved = resolved.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let unresolved = |source| DialError::Unresolved {
                host: name.to_string(),
                source,
            };
            let found = resolved.map_err(unresolved)?;
            if found.is_empty() {
                return Err(unresolved(io::Error::new(
                    io::ErrorKind::NotFound,
                    "it has no address",
                )));
            }
            found
        }
    };
    let mut kept: Vec<IpAddr> = Vec::new();
    let mut special = None;
    for address in found {
        // An IPv4 address in IPv6 clothing is judged, and dialled, as what it is.
        let address = address.to_canonical();
        match address::check(address) {
            Err(range) if !excepted.contains(&address) => {
                special.get_or_insert((address, range));
            }
            Ok(()) | Err(_) if !kept.contains(&address) => kept.push(address),
            Ok(()) | Err(_) => {}
        }
    }
    if let (true, Some((address, range))) = (kept.is_empty(), special) {
        forget(destination, resolver);
        return Err(DialError::Special {
            host: destination.host.to_string(),
            address,
            range,
        });
    }
    let mut ordered = interleaved(&kept);
    ordered.truncate(limits.addresses.max(1));
    Ok(ordered)
}

/// Has the resolver look anew next time.
fn forget(destination: &Destination, resolver: &dyn Resolve) {
    if let Host::Name(name) = &destination.host {
        resolver.forget(name);
    }
}

/// The two families in turn, beginning with the family that the resolver put first (RFC 8305 §4).
fn interleaved(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .iter()
        .copied()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut second = second.into_iter();
    let mut ordered = Vec::with_capacity(addresses.len());
    for address in first {
        ordered.push(address);
        ordered.extend(second.next());
    }
    ordered.extend(second);
    ordered
}

/// The first address that answers; the next is tried beside it when one is slow (RFC 8305 §5).
async fn connect(
    addresses: &[IpAddr],
    port: u16,
    limits: &Limits,
) -> io::Result<(TcpStream, IpAddr)> {
    let time = limits.connect_time;
    let one = move |address: IpAddr| async move {
        let connected =
            tokio::time::timeout(time, TcpStream::connect(SocketAddr::new(address, port))).await;
        connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map(|stream| (stream, address))
    };
    if let [only] = addresses {
        return one(*only).await;
    }
    let mut rest = addresses.iter().copied();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        if let Some(address) = rest.next() {
            attempts.spawn(one(address));
        } else if attempts.is_empty() {
            return Err(last);
        }
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(error)) => last = error,
                Err(error) => last = io::Error::other(error),
            },
            () = tokio::time::sleep(limits.next_address_after), if rest.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::interleaved;
    use std::net::IpAddr;

    #[test]
    fn families_are_tried_in_turn_beginning_with_the_resolvers_first() {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        let mixed = ["2001:db8::1", "2001:db8::2", "192.0.2.1", "2001:db8::3"].map(parse);
        let turned = ["2001:db8::1", "192.0.2.1", "2001:db8::2", "2001:db8::3"].map(parse);
        assert_eq!(interleaved(&mixed), turned);
        let v4_first = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(parse);
        let turned = ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(parse);
        assert_eq!(interleaved(&v4_first), turned);
        assert!(interleaved(&[]).is_empty());
    }
}

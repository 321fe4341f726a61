//! The SOCKS5 proxy (RFC 1928): CONNECT by name, IPv4 and IPv6; with a user name and password
//! (RFC 1929) where others could reach it.

use super::decide::Destination;
use super::dial::{DialError, dial};
use super::first_bytes::FirstBytes;
use super::gate::{Attempt, Route};
use super::http;
use super::pair::{Credentials, Shared};
use super::relay::{counted, relay};
use super::slots::Slot;
use super::stream::{Accepted, ClientReader, ClientWriter, seen, split};
use super::ticket::{Judged, judge};
use crate::spec::Host;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;
use tokio::io::AsyncWriteExt;

/// Protocol version.
const VERSION: u8 = 5;
/// Version of the user name and password exchange (RFC 1929 §2).
const PASSWORD_VERSION: u8 = 1;
/// Methods (RFC 1928 §3).
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
/// The one command that is served (RFC 1928 §4).
const CONNECT: u8 = 1;

/// Replies (RFC 1928 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Succeeded,
    GeneralFailure,
    NotAllowed,
    NetworkUnreachable,
    HostUnreachable,
    ConnectionRefused,
    CommandNotSupported,
    AddressTypeNotSupported,
}

impl Reply {
    /// On the wire, with an address of which no client has use.
    fn bytes(self) -> [u8; 10] {
        let code = match self {
            Self::Succeeded => 0,
            Self::GeneralFailure => 1,
            Self::NotAllowed => 2,
            Self::NetworkUnreachable => 3,
            Self::HostUnreachable => 4,
            Self::ConnectionRefused => 5,
            Self::CommandNotSupported => 7,
            Self::AddressTypeNotSupported => 8,
        };
        [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
    }

    fn for_error(error: &DialError) -> Self {
        match (error.refused(), error.io().map(io::Error::kind)) {
            (Some(_), _) => Self::NotAllowed,
            (None, Some(io::ErrorKind::ConnectionRefused)) => Self::ConnectionRefused,
            (None, Some(io::ErrorKind::NetworkUnreachable)) => Self::NetworkUnreachable,
            (None, _) => Self::HostUnreachable,
        }
    }
}

/// Why a SOCKS5 message is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SocksError {
    /// Another protocol, or another version of this one.
    #[error("not SOCKS version 5")]
    Version,
    /// A reserved byte that is not zero.
    #[error("a reserved byte is not zero")]
    Reserved,
    /// BIND, UDP ASSOCIATE, or no command at all.
    #[error("command {0} is not served; only CONNECT is")]
    Command(u8),
    /// No known address type.
    #[error("address type {0} is unknown")]
    AddressType(u8),
    /// The name is none.
    #[error("the host is malformed: {0}")]
    Host(String),
    /// Port 0.
    #[error("port 0 cannot be connected to")]
    Port,
    /// No method that is served.
    #[error("no authentication method in common")]
    Method,
    /// A wrong user name or password.
    #[error("a wrong user name or password")]
    Password,
}

impl SocksError {
    fn reply(&self) -> Reply {
        match self {
            Self::Command(_) => Reply::CommandNotSupported,
            Self::AddressType(_) => Reply::AddressTypeNotSupported,
            Self::Host(_) | Self::Port => Reply::NotAllowed,
            Self::Version | Self::Reserved | Self::Method | Self::Password => Reply::GeneralFailure,
        }
    }
}

/// A request that was understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Where to.
    pub destination: Destination,
    /// Its length in bytes.
    pub length: usize,
}

/// Reads a request (RFC 1928 §4); `None` wants more bytes.
///
/// # Errors
///
/// As soon as the bytes cannot become a request that is served.
pub fn request(bytes: &[u8]) -> Result<Option<Request>, SocksError> {
    match bytes.first() {
        None => return Ok(None),
        Some(&VERSION) => {}
        Some(_) => return Err(SocksError::Version),
    }
    let Some((&[_, command, reserved, kind], rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    if reserved != 0 {
        return Err(SocksError::Reserved);
    }
    if command != CONNECT {
        return Err(SocksError::Command(command));
    }
    let (host, rest) = match kind {
        1 => {
            let Some((address, rest)) = rest.split_first_chunk::<4>() else {
                return Ok(None);
            };
            (Host::Ip(IpAddr::V4(Ipv4Addr::from(*address))), rest)
        }
        3 => {
            let Some((&length, rest)) = rest.split_first() else {
                return Ok(None);
            };
            let Some((name, rest)) = rest.split_at_checked(usize::from(length)) else {
                return Ok(None);
            };
            (named(name)?, rest)
        }
        4 => {
            let Some((address, rest)) = rest.split_first_chunk::<16>() else {
                return Ok(None);
            };
            let address = IpAddr::V6(Ipv6Addr::from(*address)).to_canonical();
            (Host::Ip(address), rest)
        }
        unknown => return Err(SocksError::AddressType(unknown)),
    };
    let Some((port, rest)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let port = u16::from_be_bytes(*port);
    if port == 0 {
        return Err(SocksError::Port);
    }
    Ok(Some(Request {
        destination: Destination { host, port },
        length: bytes.len() - rest.len(),
    }))
}

fn named(name: &[u8]) -> Result<Host, SocksError> {
    let text = std::str::from_utf8(name)
        .map_err(|_| SocksError::Host(format!("`{}` is not UTF-8", seen(name))))?;
    Host::parse(text).map_err(|error| SocksError::Host(error.to_string()))
}

/// Serves one connection.
pub(super) async fn serve(shared: &Shared, accepted: Accepted, slot: Slot) {
    let ends = accepted.ends();
    let (mut reader, mut writer) = split(accepted.stream);
    let silent = slot.silent();
    let asked = tokio::select! {
        biased;
        () = silent.sent_away() => return,
        asked = tokio::time::timeout(
            shared.limits.head_time,
            ask(&mut reader, &mut writer, shared.credentials.as_ref()),
        ) => asked,
    };
    drop(silent);
    let destination = match asked {
        Ok(Ok(destination)) => destination,
        Ok(Err(Asked::Gone)) => return,
        Ok(Err(Asked::Bad(error))) => {
            let shown = seen(reader.ahead());
            shared
                .gate
                .malformed(Route::Socks, ends, &shown, &error.to_string());
            if !matches!(
                error,
                SocksError::Version | SocksError::Method | SocksError::Password
            ) {
                answer(&mut writer, error.reply()).await;
            }
            return;
        }
        Err(_) => {
            if !reader.ahead().is_empty() {
                let shown = seen(reader.ahead());
                let detail = "the SOCKS5 request did not come in time";
                shared.gate.malformed(Route::Socks, ends, &shown, detail);
            }
            return;
        }
    };
    let attempt = Attempt {
        destination,
        route: Route::Socks,
        ends,
    };
    let mut ticket = match judge(&shared.gate, attempt, &mut reader).await {
        Judged::Pass(ticket) => ticket,
        Judged::Refuse(_) => return answer(&mut writer, Reply::NotAllowed).await,
    };
    let server = match dial(&mut ticket, shared.resolver.as_ref(), &shared.limits).await {
        Ok(server) => server,
        Err(error) => {
            ticket.close(error.closed()).await;
            return answer(&mut writer, Reply::for_error(&error)).await;
        }
    };
    if writer.write_all(&Reply::Succeeded.bytes()).await.is_err() {
        return ticket.done();
    }
    let port = ticket.destination.port;
    if shared.limits.http_ports.contains(&port) {
        let tunnel = (Route::Socks, (server, *ticket));
        return http::serve_tunnel(shared, (reader, writer), ends, slot, tunnel).await;
    }
    let first = FirstBytes::on_port(port, &shared.limits);
    let server = counted(server, &ticket);
    relay((reader, writer), server, *ticket, first, &shared.limits).await;
}

/// Tells the client, and ends its input. A client that is gone needs no answer.
async fn answer(writer: &mut ClientWriter, reply: Reply) {
    if writer.write_all(&reply.bytes()).await.is_ok() {
        let _ = writer.shutdown().await;
    }
}

/// Why there is no destination.
enum Asked {
    Gone,
    Bad(SocksError),
}

impl From<io::Error> for Asked {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<SocksError> for Asked {
    fn from(error: SocksError) -> Self {
        Self::Bad(error)
    }
}

/// Greeting, password, request. What is read ahead at an error is what was wrong.
async fn ask(
    reader: &mut ClientReader,
    writer: &mut ClientWriter,
    credentials: Option<&Credentials>,
) -> Result<Destination, Asked> {
    reader.need(1).await?;
    if reader.ahead().first() != Some(&VERSION) {
        return Err(SocksError::Version.into());
    }
    reader.need(2).await?;
    let count = usize::from(reader.ahead().get(1).copied().unwrap_or(0));
    reader.need(2 + count).await?;
    let wanted = if credentials.is_some() {
        PASSWORD
    } else {
        NO_AUTHENTICATION
    };
    let offered = reader
        .ahead()
        .get(2..2 + count)
        .unwrap_or_default()
        .contains(&wanted);
    if !offered {
        writer.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(SocksError::Method.into());
    }
    reader.consume(2 + count);
    writer.write_all(&[VERSION, wanted]).await?;
    if let Some(credentials) = credentials {
        password(reader, writer, credentials).await?;
    }
    loop {
        if let Some(request) = request(reader.ahead())? {
            reader.consume(request.length);
            return Ok(request.destination);
        }
        if reader.fill().await? == 0 {
            return Err(Asked::Gone);
        }
    }
}

/// The exchange of RFC 1929.
async fn password(
    reader: &mut ClientReader,
    writer: &mut ClientWriter,
    credentials: &Credentials,
) -> Result<(), Asked> {
    reader.need(2).await?;
    if reader.ahead().first() != Some(&PASSWORD_VERSION) {
        return Err(SocksError::Password.into());
    }
    let name_length = usize::from(reader.ahead().get(1).copied().unwrap_or(0));
    reader.need(3 + name_length).await?;
    let password_length = usize::from(reader.ahead().get(2 + name_length).copied().unwrap_or(0));
    reader.need(3 + name_length + password_length).await?;
    // Taken out before anything can fail: a wrong password is not shown in the history.
    let message = reader.take(3 + name_length + password_length);
    let name = message.get(2..2 + name_length).unwrap_or_default();
    let word = message.get(3 + name_length..).unwrap_or_default();
    let right = credentials.are(name, word);
    writer
        .write_all(&[PASSWORD_VERSION, u8::from(!right)])
        .await?;
    if right {
        Ok(())
    } else {
        Err(SocksError::Password.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, SocksError, request};
    use crate::egress::decide::Destination;
    use crate::spec::Host;

    fn named(name: &[u8], port: u16) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes
    }

    #[test]
    fn a_name_with_a_nul_is_refused_before_matching() {
        assert!(matches!(
            request(&named(b"evil.net\0.google.com", 443)),
            Err(SocksError::Host(_))
        ));
        let fine = named(b"www.google.com", 443);
        assert_eq!(
            request(&fine),
            Ok(Some(Request {
                destination: Destination {
                    host: Host::parse("www.google.com").unwrap(),
                    port: 443
                },
                length: fine.len(),
            }))
        );
    }

    #[test]
    fn every_prefix_of_a_request_wants_more() {
        for whole in [
            named(b"example.com", 80),
            vec![5, 1, 0, 1, 192, 0, 2, 1, 0, 80],
        ] {
            for length in 0..whole.len() {
                assert_eq!(request(&whole[..length]), Ok(None), "{length} bytes");
            }
            assert!(matches!(request(&whole), Ok(Some(_))));
        }
    }

    #[test]
    fn other_commands_types_versions_and_port_0_are_refused() {
        assert_eq!(
            request(&[5, 2, 0, 1, 1, 1, 1, 1, 0, 80]),
            Err(SocksError::Command(2))
        );
        assert_eq!(
            request(&[5, 3, 0, 1, 1, 1, 1, 1, 0, 80]),
            Err(SocksError::Command(3))
        );
        assert_eq!(request(&[5, 1, 0, 2, 1]), Err(SocksError::AddressType(2)));
        assert_eq!(request(&[5, 1, 7, 1, 1]), Err(SocksError::Reserved));
        assert_eq!(request(b"GET / HTTP/1.1"), Err(SocksError::Version));
        assert_eq!(
            request(&[4, 1, 0, 80, 1, 1, 1, 1, 0]),
            Err(SocksError::Version)
        );
        assert_eq!(request(&named(b"example.com", 0)), Err(SocksError::Port));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothing_is_ipv4() {
        let mut bytes = vec![5, 1, 0, 4];
        bytes.extend_from_slice(&std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        bytes.extend_from_slice(&[0, 80]);
        let request = request(&bytes).unwrap().unwrap();
        assert_eq!(
            request.destination.host,
            Host::Ip("127.0.0.1".parse().unwrap())
        );
    }
}

//! The server name of a TLS ClientHello (REQ EG-11), read without taking part in the handshake.
//!
//! Records and the body are parsed by `tls-parser`. What decides, the extensions and the list of
//! names (RFC 6066 §3), is walked here with every length exact: a passive parser may skip what it
//! does not understand, and what is skipped here could be read by the server. With Encrypted
//! ClientHello the outer name is what is checked.

use super::decide::DenyReason;
use crate::spec::Host;
use std::collections::HashSet;
use thiserror::Error;
use tls_parser::{
    TlsRecordHeader, TlsRecordType, parse_tls_handshake_client_hello, parse_tls_record_header,
};

/// Bytes of a record's header.
const RECORD_HEADER: usize = 5;
/// Most bytes of a plaintext record (RFC 8446 §5.1).
const RECORD_BODY: usize = 1 << 14;
/// Bytes of a handshake message's header.
const MESSAGE_HEADER: usize = 4;
/// `client_hello` (RFC 8446 §4).
const CLIENT_HELLO: u8 = 1;
/// `server_name` (RFC 6066 §3).
const SERVER_NAME: u16 = 0;
/// `host_name` (RFC 6066 §3).
const HOST_NAME: u8 = 0;

/// `server_hello` (RFC 8446 §4).
const SERVER_HELLO: u8 = 2;
/// The random of a ServerHello that is a HelloRetryRequest (RFC 8446 §4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// What the first byte of a TLS connection is: a handshake record.
pub(super) const FIRST_BYTE: u8 = 0x16;

/// Why a ClientHello does not pass.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HelloError {
    /// Something else than TLS.
    #[error("not a TLS handshake")]
    NotTls,
    /// Longer than the limit.
    #[error("a TLS ClientHello of more than {limit} bytes")]
    TooLong {
        /// The limit, bytes.
        limit: usize,
    },
    /// Broken TLS.
    #[error("a broken TLS ClientHello: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The stream ended first.
    #[error("the stream ended within the TLS ClientHello")]
    Ended,
    /// It took too long.
    #[error("the TLS ClientHello did not come in time")]
    Slow,
    /// No server name, where one is needed.
    #[error("no TLS server name; `{wanted}` was asked for")]
    NoName {
        /// The judged host.
        wanted: String,
    },
    /// More than one server name.
    #[error("more than one TLS server name")]
    TwoNames,
    /// Another server name than the judged one.
    #[error("the TLS server name is `{seen}`; `{wanted}` was asked for")]
    OtherName {
        /// What stood there, escaped.
        seen: String,
        /// The judged host.
        wanted: String,
    },
}

impl HelloError {
    /// The reason that is put down.
    #[must_use]
    pub fn reason(&self) -> DenyReason {
        match self {
            Self::NotTls
            | Self::TooLong { .. }
            | Self::Malformed { .. }
            | Self::Ended
            | Self::Slow => DenyReason::Protocol,
            Self::NoName { .. } | Self::TwoNames | Self::OtherName { .. } => DenyReason::ServerName,
        }
    }
}

/// A whole ClientHello.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The one server name, as it stood there.
    pub server_name: Option<Vec<u8>>,
}

impl ClientHello {
    /// Whether the name agrees with the judged host: the same name for a name; for an address no
    /// name, or the same address.
    ///
    /// # Errors
    ///
    /// [`HelloError::NoName`], [`HelloError::OtherName`].
    pub fn agrees_with(&self, host: &Host) -> Result<(), HelloError> {
        let Some(name) = &self.server_name else {
            return match host {
                Host::Ip(_) => Ok(()),
                Host::Name(_) => Err(HelloError::NoName {
                    wanted: host.to_string(),
                }),
            };
        };
        let named = std::str::from_utf8(name)
            .ok()
            .and_then(|text| Host::parse(text).ok());
        if named.as_ref() == Some(host) {
            return Ok(());
        }
        Err(HelloError::OtherName {
            seen: super::stream::seen(name),
            wanted: host.to_string(),
        })
    }
}

/// Puts a ClientHello together from however many records and segments it comes in.
#[derive(Debug)]
pub struct HelloReader {
    limit: usize,
    /// Where the next record begins.
    next: usize,
    /// The handshake message so far.
    message: Vec<u8>,
}

impl HelloReader {
    /// Reads at most `limit` bytes, records included.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            next: 0,
            message: Vec::new(),
        }
    }

    /// Looks at all bytes since the beginning of the connection; `None` wants more of them.
    ///
    /// # Errors
    ///
    /// As soon as the bytes cannot become a ClientHello.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<ClientHello>, HelloError> {
        if bytes.first().is_some_and(|&byte| byte != FIRST_BYTE) {
            return Err(HelloError::NotTls);
        }
        while let Some(header) = bytes.get(self.next..self.next + RECORD_HEADER) {
            let length = record_length(header, self.next == 0)?;
            let body = self.next + RECORD_HEADER;
            if body + length > self.limit {
                return Err(HelloError::TooLong { limit: self.limit });
            }
            let Some(body) = bytes.get(body..body + length) else {
                return Ok(None);
            };
            self.next += RECORD_HEADER + length;
            self.message.reserve_exact(body.len());
            self.message.extend_from_slice(body);
            if let Some(hello) = self.whole()? {
                return Ok(Some(hello));
            }
        }
        Ok(None)
    }

    /// How many bytes the hello takes, once it is whole.
    #[must_use]
    pub fn length(&self) -> usize {
        self.next
    }

    /// The message, once it is complete.
    fn whole(&self) -> Result<Option<ClientHello>, HelloError> {
        if self
            .message
            .first()
            .is_some_and(|&kind| kind != CLIENT_HELLO)
        {
            return Err(malformed("another handshake message comes first"));
        }
        let Some((header, body)) = self.message.split_at_checked(MESSAGE_HEADER) else {
            return Ok(None);
        };
        let length = header
            .iter()
            .skip(1)
            .fold(0_usize, |length, &byte| length << 8 | usize::from(byte));
        if length > self.limit {
            return Err(HelloError::TooLong { limit: self.limit });
        }
        match body.len().cmp(&length) {
            std::cmp::Ordering::Less => Ok(None),
            std::cmp::Ordering::Equal => parse_body(body).map(Some),
            // Nothing may follow before the server answered.
            std::cmp::Ordering::Greater => Err(malformed("its record holds more than the message")),
        }
    }
}

/// The length of the record with this header.
fn record_length(header: &[u8], first: bool) -> Result<usize, HelloError> {
    let (
        _,
        TlsRecordHeader {
            record_type,
            version,
            len,
        },
    ) = parse_tls_record_header(header).map_err(|_| malformed("a record header"))?;
    let [major, _] = version.0.to_be_bytes();
    if record_type != TlsRecordType::Handshake || major != 3 {
        return Err(if first {
            HelloError::NotTls
        } else {
            malformed("another record comes between its fragments")
        });
    }
    match usize::from(len) {
        0 => Err(malformed("an empty record")),
        length if length > RECORD_BODY => Err(malformed("a record past 16 KiB")),
        length => Ok(length),
    }
}

fn parse_body(body: &[u8]) -> Result<ClientHello, HelloError> {
    let (rest, hello) = parse_tls_handshake_client_hello(body)
        .map_err(|_| malformed("its fields do not fit its length"))?;
    if !rest.is_empty() {
        return Err(malformed("its extensions do not fit its length"));
    }
    let mut kinds = HashSet::new();
    let mut server_name = None;
    let mut rest = hello.ext.unwrap_or_default();
    while !rest.is_empty() {
        let (kind, data, after) = extension(rest).ok_or(malformed("an extension's length"))?;
        rest = after;
        if !kinds.insert(kind) {
            return Err(if kind == SERVER_NAME {
                HelloError::TwoNames
            } else {
                malformed("an extension stands twice")
            });
        }
        if kind == SERVER_NAME {
            server_name = Some(single_name(data)?.to_vec());
        }
    }
    Ok(ClientHello { server_name })
}

/// Type, data and what follows.
fn extension(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first_chunk()?;
    let (data, after) = vector(rest)?;
    Some((u16::from_be_bytes(*kind), data, after))
}

/// The content of a vector with a two-byte length, and what follows it.
fn vector(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// The one host name of a `server_name` extension (RFC 6066 §3).
fn single_name(data: &[u8]) -> Result<&[u8], HelloError> {
    let bad = || malformed("its server name's length");
    let (list, after) = vector(data).ok_or_else(bad)?;
    let (&kind, rest) = list.split_first().ok_or_else(bad)?;
    if kind != HOST_NAME {
        return Err(malformed("an unknown kind of server name"));
    }
    let (name, more) = vector(rest).ok_or_else(bad)?;
    if !more.is_empty() {
        return Err(HelloError::TwoNames);
    }
    if !after.is_empty() || name.is_empty() {
        return Err(bad());
    }
    Ok(name)
}

/// Whether a server's first bytes are a HelloRetryRequest; `None` wants more of them. A server that
/// cuts its hello within the first 43 bytes into several records is taken to send one: the check
/// that follows only holds back what the client sends in the clear.
#[must_use]
pub fn is_hello_retry(bytes: &[u8]) -> Option<bool> {
    /// The version before the random.
    const VERSION: usize = 2;
    if bytes.first().is_some_and(|&kind| kind != FIRST_BYTE) {
        return Some(false);
    }
    let message = RECORD_HEADER..RECORD_HEADER + MESSAGE_HEADER + VERSION + RETRY.len();
    let record = bytes.first_chunk::<RECORD_HEADER>()?;
    if usize::from(u16::from_be_bytes([record[3], record[4]])) < message.len() {
        return Some(true);
    }
    let message = bytes.get(message)?;
    Some(message.first() == Some(&SERVER_HELLO) && message.ends_with(&RETRY))
}

fn malformed(what: &'static str) -> HelloError {
    HelloError::Malformed { what }
}

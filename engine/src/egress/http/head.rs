//! Heads of HTTP/1 messages (RFC 9112), strictly.
//!
//! The bytes are looked at before `httparse` normalises anything: bare CR or LF, NUL, folded
//! lines, two lengths, a length beside chunks. Whatever two readers could take in two ways is
//! refused, so that what was judged is what the destination reads.

use super::super::decide::Destination;
use thiserror::Error;

/// Why a head is refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum HeadError {
    /// A byte that may not stand in a head, or a line that is not one.
    #[error("{0}")]
    Bytes(&'static str),
    /// Longer than the limit.
    #[error("a head of more than {0} bytes")]
    TooLong(usize),
    /// More headers than the limit.
    #[error("more than {0} headers")]
    TooManyFields(usize),
    /// `httparse` refused it.
    #[error("broken HTTP: {0}")]
    Syntax(httparse::Error),
    /// Another version than 1.0 and 1.1.
    #[error("only HTTP/1.0 and HTTP/1.1 are served")]
    Version,
    /// What follows the method is not what the method needs.
    #[error("{0}")]
    Target(&'static str),
    /// The host or port is malformed.
    #[error("the destination is malformed: {0}")]
    Destination(String),
    /// No `Host`, two of them, or one that names something else.
    #[error("{0}")]
    Host(&'static str),
    /// The length of the body can be read in two ways.
    #[error("{0}")]
    Framing(&'static str),
}

/// Looks for the end of a head while it comes in, and refuses bytes that two readers could take in
/// two ways.
#[derive(Debug)]
pub struct Scanner {
    limit: usize,
    /// The first byte that was not looked at.
    at: usize,
    /// Where the line begins.
    line: usize,
    before: u8,
}

impl Scanner {
    /// For a head of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            at: 0,
            line: 0,
            before: 0,
        }
    }

    /// Looks at what came in; `bytes` are all since the beginning. The length of the head, once it
    /// is whole.
    ///
    /// # Errors
    ///
    /// [`HeadError::Bytes`], [`HeadError::TooLong`].
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        for &byte in bytes.get(self.at..).unwrap_or_default() {
            if self.before == b'\r' && byte != b'\n' {
                return Err(HeadError::Bytes("a bare CR in the head"));
            }
            match byte {
                0 => return Err(HeadError::Bytes("a NUL in the head")),
                b'\n' if self.before != b'\r' => {
                    return Err(HeadError::Bytes("a bare LF in the head"));
                }
                b'\n' if self.at == self.line + 1 => return Ok(Some(self.at + 1)),
                b'\n' => self.line = self.at + 1,
                b' ' | b'\t' if self.at == self.line => {
                    return Err(HeadError::Bytes("a line of the head begins with a space"));
                }
                _ => {}
            }
            if self.at >= self.limit {
                return Err(HeadError::TooLong(self.limit));
            }
            self.before = byte;
            self.at += 1;
        }
        Ok(None)
    }
}

/// How the length of a body is told (RFC 9112 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// None.
    Empty,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Up to the end of the connection; responses only.
    UntilEnd,
}

/// One header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Lower case.
    pub name: String,
    /// Without the space around it.
    pub value: Vec<u8>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `CONNECT host:port`.
    Connect(Destination),
    /// `GET http://host/path`: the path with its query.
    Absolute(Destination, String),
    /// `GET /path`.
    Origin(String),
}

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// As written.
    pub method: String,
    /// What is asked for.
    pub target: Target,
    /// `Host`, as the destination that it names; on port 80 when it names none (for CONNECT: the
    /// port of the target).
    pub host: Option<Destination>,
    /// HTTP/1.1, not 1.0.
    pub modern: bool,
    /// In their order.
    pub fields: Vec<Field>,
    /// The body's length.
    pub framing: Framing,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status.
    pub status: u16,
    /// As written.
    pub reason: String,
    /// In their order.
    pub fields: Vec<Field>,
    /// The body's length, when the method and status allow one.
    pub framing: Framing,
}

impl RequestHead {
    /// Reads a head that a [`Scanner`] found whole.
    ///
    /// # Errors
    ///
    /// Whatever makes the request ambiguous or its destination unreadable.
    pub fn parse(bytes: &[u8], most_fields: usize) -> Result<Self, HeadError> {
        let mut storage = vec![httparse::EMPTY_HEADER; most_fields];
        let mut parsed = httparse::Request::new(&mut storage);
        whole(parsed.parse(bytes), bytes, most_fields)?;
        let (Some(method), Some(path), Some(version)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(HeadError::Bytes("an incomplete head"));
        };
        let modern = version == 1;
        let fields = owned(parsed.headers);
        let target = Target::parse(method, path)?;
        let framing = framing(&fields)?.unwrap_or(Framing::Empty);
        if framing == Framing::Chunked && !modern {
            // RFC 9112 §6.1: the framing is faulty.
            return Err(HeadError::Framing("Transfer-Encoding in HTTP/1.0"));
        }
        let host = target.check_host(&fields, modern)?;
        if matches!(target, Target::Connect(_)) && framing != Framing::Empty {
            return Err(HeadError::Framing("CONNECT with a body"));
        }
        Ok(Self {
            method: method.to_owned(),
            target,
            host,
            modern,
            fields,
            framing,
        })
    }

    /// Whether the client wants its connection kept (RFC 9112 §9.3).
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        let named = |word| {
            has_token(&self.fields, "connection", word)
                || has_token(&self.fields, "proxy-connection", word)
        };
        !named("close") && (self.modern || named("keep-alive"))
    }

    /// Whether it asks for a WebSocket (RFC 6455 §4.1). Other upgrades are not passed on: within
    /// them no request could be judged any more.
    #[must_use]
    pub fn wants_websocket(&self) -> bool {
        self.modern
            && self.framing == Framing::Empty
            && has_token(&self.fields, "connection", "upgrade")
            && values(&self.fields, "upgrade").eq([b"websocket".as_slice()])
    }
}

impl ResponseHead {
    /// Reads a head that a [`Scanner`] found whole, an answer to this method.
    ///
    /// # Errors
    ///
    /// Whatever makes the response ambiguous.
    pub fn parse(bytes: &[u8], most_fields: usize, method: &str) -> Result<Self, HeadError> {
        let mut storage = vec![httparse::EMPTY_HEADER; most_fields];
        let mut parsed = httparse::Response::new(&mut storage);
        whole(parsed.parse(bytes), bytes, most_fields)?;
        let (Some(status), Some(reason)) = (parsed.code, parsed.reason) else {
            return Err(HeadError::Bytes("an incomplete head"));
        };
        let fields = owned(parsed.headers);
        let told = framing(&fields)?;
        let bodiless = method == "HEAD" || matches!(status, 100..=199 | 204 | 304);
        Ok(Self {
            status,
            reason: reason.to_owned(),
            framing: if bodiless {
                Framing::Empty
            } else {
                told.unwrap_or(Framing::UntilEnd)
            },
            fields,
        })
    }
}

/// Whether the parser took exactly these bytes.
fn whole(
    parsed: httparse::Result<usize>,
    bytes: &[u8],
    most_fields: usize,
) -> Result<(), HeadError> {
    match parsed {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => Ok(()),
        Ok(httparse::Status::Complete(_) | httparse::Status::Partial) => {
            Err(HeadError::Bytes("an incomplete head"))
        }
        Err(httparse::Error::TooManyHeaders) => Err(HeadError::TooManyFields(most_fields)),
        Err(httparse::Error::Version) => Err(HeadError::Version),
        Err(error) => Err(HeadError::Syntax(error)),
    }
}

fn owned(headers: &[httparse::Header<'_>]) -> Vec<Field> {
    headers
        .iter()
        .map(|header| Field {
            name: header.name.to_ascii_lowercase(),
            value: header.value.trim_ascii().to_vec(),
        })
        .collect()
}

impl Target {
    fn parse(method: &str, text: &str) -> Result<Self, HeadError> {
        if method == "CONNECT" {
            return Ok(Self::Connect(authority(text, None)?));
        }
        if text.starts_with('/') {
            return Ok(Self::Origin(text.to_owned()));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(HeadError::Target("the request names no http:// address"));
        };
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(HeadError::Target(
                "only http:// is passed on; others need CONNECT",
            ));
        }
        if rest.contains('#') {
            return Err(HeadError::Target("a fragment in the request's address"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (named, path) = rest.split_at(end);
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self::Absolute(authority(named, Some(80))?, path))
    }

    /// The `Host` header: one, and naming what the request names (RFC 9112 §3.2). Some clients
    /// send CONNECT without it, or without the port in it; there the target alone counts.
    fn check_host(&self, fields: &[Field], modern: bool) -> Result<Option<Destination>, HeadError> {
        let mut hosts = values(fields, "host");
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err(HeadError::Host("more than one Host header"));
        }
        let Some(host) = host else {
            let needed = match self {
                Self::Connect(_) => false,
                Self::Absolute(..) => modern,
                Self::Origin(_) => true,
            };
            return if needed {
                Err(HeadError::Host("no Host header"))
            } else {
                Ok(None)
            };
        };
        let port = match self {
            Self::Connect(destination) => destination.port,
            Self::Absolute(..) | Self::Origin(_) => 80,
        };
        let host = std::str::from_utf8(host)
            .map_err(|_| HeadError::Host("a Host header that is not text"))?;
        let host = authority(host, Some(port))?;
        match self {
            Self::Connect(named) | Self::Absolute(named, _) if *named != host => Err(
                HeadError::Host("the Host header names another host than the request"),
            ),
            Self::Connect(_) | Self::Absolute(..) | Self::Origin(_) => Ok(Some(host)),
        }
    }
}

/// `host[:port]` without anything else: no userinfo, no escapes (REQ EG-11).
fn authority(text: &str, default_port: Option<u16>) -> Result<Destination, HeadError> {
    if text.contains('@') {
        return Err(HeadError::Target("userinfo in the destination"));
    }
    if text.contains('%') {
        return Err(HeadError::Target("a percent-escape in the destination"));
    }
    Destination::parse(text, default_port)
        .map_err(|error| HeadError::Destination(error.to_string()))
}

/// How long the body is; `None` when nothing tells. Two ways to tell are refused, even when they
/// agree (RFC 9112 §6.3, request smuggling).
fn framing(fields: &[Field]) -> Result<Option<Framing>, HeadError> {
    let mut lengths = values(fields, "content-length");
    let mut encodings = values(fields, "transfer-encoding");
    let (length, encoding) = (lengths.next(), encodings.next());
    if lengths.next().is_some() || encodings.next().is_some() {
        return Err(HeadError::Framing("the body's length is told twice"));
    }
    match (length, encoding) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(HeadError::Framing(
            "Content-Length beside Transfer-Encoding",
        )),
        (None, Some(encoding)) if encoding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Some(Framing::Chunked))
        }
        (None, Some(_)) => Err(HeadError::Framing("another Transfer-Encoding than chunked")),
        (Some(length), None) => {
            let digits = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let length = digits
                .then(|| std::str::from_utf8(length).ok()?.parse().ok())
                .flatten()
                .ok_or(HeadError::Framing("a Content-Length that is no number"))?;
            Ok(Some(Framing::Length(length)))
        }
    }
}

/// The values of all headers of this name.
pub(in super::super) fn values<'a>(
    fields: &'a [Field],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> + 'a {
    fields
        .iter()
        .filter(move |field| field.name == name)
        .map(|field| field.value.as_slice())
}

/// The words of a list header, lower case.
pub(super) fn tokens<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = String> + 'a {
    values(fields, name).flat_map(|value| {
        value
            .split(|&byte| byte == b',')
            .map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
    })
}

fn has_token(fields: &[Field], name: &str, word: &str) -> bool {
    tokens(fields, name).any(|token| token == word)
}

/// Hop-by-hop headers (RFC 9110 §7.6.1), those that speak to a proxy, and those that are written
/// anew.
const NOT_PASSED_ON: [&str; 12] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    REASON_FIELD,
];

/// Tells a client why it was refused. Never passed on: only the proxy says it.
pub(super) const REASON_FIELD: &str = "x-kotak-reason";

fn pass_on(out: &mut Vec<u8>, fields: &[Field]) {
    let named: Vec<String> = tokens(fields, "connection").collect();
    for field in fields {
        if NOT_PASSED_ON.contains(&field.name.as_str()) || named.contains(&field.name) {
            continue;
        }
        write_field(out, &field.name, &field.value);
    }
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Empty | Framing::UntilEnd => {}
        Framing::Length(length) => {
            write_field(out, "content-length", length.to_string().as_bytes());
        }
        Framing::Chunked => write_field(out, "transfer-encoding", b"chunked"),
    }
}

/// The request as the destination reads it: origin form, its own `Host`, one request a connection,
/// so that no two requests can be mixed up. No `Via`: the destination learns nothing of Kotak.
pub(super) fn request_to_server(
    head: &RequestHead,
    destination: &Destination,
    path: &str,
) -> Vec<u8> {
    let version = if head.modern { "1.1" } else { "1.0" };
    let mut out = format!("{} {path} HTTP/{version}\r\n", head.method).into_bytes();
    let host = destination.to_string();
    let host = host.strip_suffix(":80").unwrap_or(&host);
    write_field(&mut out, "host", host.as_bytes());
    pass_on(&mut out, &head.fields);
    write_framing(&mut out, head.framing);
    if head.wants_websocket() {
        write_field(&mut out, "connection", b"upgrade");
        write_field(&mut out, "upgrade", b"websocket");
    } else {
        write_field(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The response as the client reads it. `framing` is how the body is sent on.
pub(super) fn response_to_client(head: &ResponseHead, framing: Framing, keep: bool) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {} {}\r\n", head.status, head.reason).into_bytes();
    pass_on(&mut out, &head.fields);
    if framing == Framing::Empty && !matches!(head.status, 100..=199 | 204) {
        // To HEAD, and with 304: what the body would have.
        for length in values(&head.fields, "content-length") {
            write_field(&mut out, "content-length", length);
        }
    }
    write_framing(&mut out, framing);
    match head.status {
        101 => {
            write_field(&mut out, "connection", b"upgrade");
            write_field(&mut out, "upgrade", b"websocket");
        }
        100..=199 => {}
        _ if keep => write_field(&mut out, "connection", b"keep-alive"),
        _ => write_field(&mut out, "connection", b"close"),
    }
    out.extend_from_slice(b"\r\n");
    out
}

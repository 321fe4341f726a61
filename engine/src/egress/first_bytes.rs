//! What a client says first on its way out: the TLS name against the judged host (REQ EG-11).
//!
//! A server may answer a ClientHello with HelloRetryRequest (RFC 8446 §4.1.4), and the client then
//! sends a second one, in the clear like the first. Some servers take the name of the second. So
//! after the first hello the client's bytes wait for the server's first ones, and when these ask
//! for another hello, it is checked as the first was.

use super::limits::Limits;
use super::stream::{ClientReader, ReadAhead};
use super::tls::{FIRST_BYTE, HelloError, HelloReader, is_hello_retry};
use crate::spec::Host;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Bytes of a record's header.
const HEADER: usize = 5;
/// Most bytes of a protected record (RFC 8446 §5.2).
const PROTECTED: usize = (1 << 14) + 256;

/// What the client's first bytes must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstBytes {
    /// A ClientHello for the judged host, before anything passes either way.
    Tls,
    /// Anything; but when they are TLS, a ClientHello for the judged host. A host that plain HTTP
    /// names is not looked at: ports where it is spoken are served as HTTP, and never come here.
    Any,
    /// They passed a check already.
    Checked,
}

impl FirstBytes {
    /// By the port that was judged.
    pub(super) fn on_port(port: u16, limits: &Limits) -> Self {
        if limits.tls_ports.contains(&port) {
            Self::Tls
        } else {
            Self::Any
        }
    }

    /// Reads ahead until the client's first bytes are seen to be right; how long the ClientHello
    /// is, when they are one. An end before the first byte is right: nothing was said.
    pub(super) async fn check(
        self,
        client: &mut ClientReader,
        host: &Host,
        limits: &Limits,
    ) -> Result<Option<usize>, HelloError> {
        let first = match (self, client.ahead().first()) {
            (Self::Checked, _) => return Ok(None),
            (Self::Tls | Self::Any, Some(&first)) => Some(first),
            (Self::Any, None) => more(client)
                .await
                .then(|| client.ahead().first().copied())
                .flatten(),
            (Self::Tls, None) => tokio::time::timeout(limits.hello_time, more(client))
                .await
                .map_err(|_| HelloError::Slow)?
                .then(|| client.ahead().first().copied())
                .flatten(),
        };
        match (self, first) {
            (_, None) => Ok(None),
            (Self::Any | Self::Checked, Some(first)) if first != FIRST_BYTE => Ok(None),
            (Self::Tls | Self::Any | Self::Checked, Some(_)) => {
                hello(client, host, limits).await.map(Some)
            }
        }
    }
}

/// Whether more came.
async fn more(client: &mut ClientReader) -> bool {
    matches!(client.fill().await, Ok(1..))
}

/// Reads ahead until a ClientHello for this host is whole; how long it is.
async fn hello(
    client: &mut ClientReader,
    host: &Host,
    limits: &Limits,
) -> Result<usize, HelloError> {
    let mut reader = HelloReader::new(limits.hello_bytes);
    let whole = async {
        loop {
            if let Some(hello) = reader.read(client.ahead())? {
                return hello.agrees_with(host);
            }
            if !more(client).await {
                return Err(HelloError::Ended);
            }
        }
    };
    tokio::time::timeout(limits.hello_time, whole)
        .await
        .unwrap_or(Err(HelloError::Slow))?;
    Ok(reader.length())
}

/// Whether the server's first bytes ask for a second hello. They are read ahead, not used.
pub(super) async fn asks_again<R>(server: &mut ReadAhead<R>) -> io::Result<bool>
where
    R: AsyncRead + Unpin,
{
    loop {
        if let Some(answer) = is_hello_retry(server.ahead()) {
            return Ok(answer);
        }
        if server.fill().await? == 0 {
            return Ok(false);
        }
    }
}

/// Why a second hello was not passed on.
pub(super) enum Second {
    /// It is not right.
    Hello(HelloError),
    /// Either side is gone.
    Gone,
}

/// Passes a second hello on once it is seen to be right, and what stands before it: early data,
/// which the server skips, and the records that help TLS 1.3 through old middleboxes.
pub(super) async fn pass_second_hello<W>(
    client: &mut ClientReader,
    server: &mut W,
    host: &Host,
    limits: &Limits,
) -> Result<(), Second>
where
    W: AsyncWrite + Unpin,
{
    loop {
        client.need(HEADER).await.map_err(|_| Second::Gone)?;
        let Some(&[kind, _, _, high, low]) = client.ahead().first_chunk() else {
            return Err(Second::Gone);
        };
        let length = if kind == FIRST_BYTE {
            hello(client, host, limits).await.map_err(Second::Hello)?
        } else {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length > PROTECTED {
                let what = "a record past its longest";
                return Err(Second::Hello(HelloError::Malformed { what }));
            }
            let whole = HEADER + length;
            client.need(whole).await.map_err(|_| Second::Gone)?;
            whole
        };
        let record = client.take(length);
        server.write_all(&record).await.map_err(|_| Second::Gone)?;
        if kind == FIRST_BYTE {
            return Ok(());
        }
    }
}

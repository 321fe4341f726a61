//! Two streams joined: half-close, bounded memory, a name check on the first bytes, and a cut.

use super::decide::DenyReason;
use super::first_bytes::{FirstBytes, Second, asks_again, pass_second_hello};
use super::gate::Meter;
use super::limits::Limits;
use super::stream::{ClientReader, ClientWriter, Counted, Duplex, ReadAhead};
use super::ticket::Ticket;
use super::tls::HelloError;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;

/// Buffer of a direction that is idle or slow.
const SMALL: usize = 16 * 1024;
/// Buffer of a busy direction.
const LARGE: usize = 256 * 1024;
/// Silence after which a busy direction gives its large buffer back.
const CALM: Duration = Duration::from_secs(2);

/// The reading half of a destination, counted.
pub(super) type ServerReader = ReadAhead<Counted<OwnedReadHalf>>;

/// The writing half of a destination, counted.
pub(super) type ServerWriter = Counted<OwnedWriteHalf>;

/// The fatal alert `access_denied` (RFC 8446 §6) in a record of its own.
const ACCESS_DENIED: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 49];

/// Splits a dialled stream and counts what passes.
pub(super) fn counted(server: TcpStream, ticket: &Ticket) -> (ServerReader, ServerWriter) {
    let (reader, writer) = server.into_split();
    let reader = ReadAhead::new(Counted::new(reader, ticket.meter.clone()));
    (reader, Counted::new(writer, ticket.meter.clone()))
}

/// Why a relay ended before both sides were done.
enum Stop {
    /// The name check.
    Hello(HelloError),
    /// The other side is gone; nothing to tell.
    Gone,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Second> for Stop {
    fn from(second: Second) -> Self {
        match second {
            Second::Hello(error) => Self::Hello(error),
            Second::Gone => Self::Gone,
        }
    }
}

/// Joins both sides until both are done, one is gone, or the operator cuts; gives the ticket back.
pub(super) async fn relay(
    client: (ClientReader, ClientWriter),
    server: (ServerReader, ServerWriter),
    ticket: Ticket,
    first: FirstBytes,
    limits: &Limits,
) {
    let (mut client_reader, mut client_writer) = client;
    let (mut server_reader, mut server_writer) = server;
    let host = ticket.destination.host.clone();
    let (checked, may_answer) = oneshot::channel();
    let (answered, again) = oneshot::channel();
    // Nobody listens to either any more only when the whole relay is over.
    let up = async {
        let hello = first
            .check(&mut client_reader, &host, limits)
            .await
            .map_err(Stop::Hello)?;
        let _ = checked.send(());
        if let Some(length) = hello {
            server_writer.write_all(&client_reader.take(length)).await?;
            if again.await.map_err(|_| Stop::Gone)? {
                pass_second_hello(&mut client_reader, &mut server_writer, &host, limits).await?;
            }
        }
        copy(&mut client_reader, &mut server_writer).await?;
        Ok::<(), Stop>(())
    };
    let down = async {
        if first == FirstBytes::Tls {
            may_answer.await.map_err(|_| Stop::Gone)?;
        }
        if first != FirstBytes::Checked {
            let _ = answered.send(asks_again(&mut server_reader).await?);
        }
        copy(&mut server_reader, &mut client_writer).await?;
        Ok::<(), Stop>(())
    };
    let ended = tokio::select! {
        biased;
        () = ticket.cut() => None,
        ended = async { tokio::try_join!(up, down) } => Some(ended),
    };
    match ended {
        None => ticket.refuse(DenyReason::Cut, "the operator cut it").await,
        Some(Err(Stop::Hello(error))) => {
            ticket.refuse(error.reason(), error.to_string()).await;
            // A client that speaks TLS can tell people more than that the connection closed. One
            // that does not read is not waited for.
            if error.reason() == DenyReason::ServerName {
                let told = client_writer.write_all(&ACCESS_DENIED);
                let _ = tokio::time::timeout(CALM, told).await;
            }
        }
        Some(Ok(_) | Err(Stop::Gone)) => ticket.done(),
    }
}

/// Joins a stream of the host's and one from inside until both are done or one is gone. What passes
/// is counted, whichever of the two connected.
pub(super) async fn join(host: Box<dyn Duplex>, inside: Box<dyn Duplex>, meter: &Arc<Meter>) {
    let (host_reader, host_writer) = tokio::io::split(host);
    let (inside_reader, mut inside_writer) = tokio::io::split(inside);
    let mut host_reader = ReadAhead::new(Counted::new(host_reader, Arc::clone(meter)));
    let mut host_writer = Counted::new(host_writer, Arc::clone(meter));
    let mut inside_reader = ReadAhead::new(inside_reader);
    let up = copy(&mut inside_reader, &mut host_writer);
    let down = copy(&mut host_reader, &mut inside_writer);
    if let Err(error) = tokio::try_join!(up, down) {
        tracing::debug!(%error, "a connection of a grant ended early");
    }
}

/// Copies one direction to its end, then ends the other side's input.
async fn copy<R, W>(from: &mut ReadAhead<R>, to: &mut W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    if !from.ahead().is_empty() {
        to.write_all(from.ahead()).await?;
        from.consume(from.ahead().len());
    }
    from.rest();
    let from = from.reader();
    let mut buffer = vec![0; SMALL];
    loop {
        let read = if buffer.len() > SMALL {
            match tokio::time::timeout(CALM, from.read(&mut buffer)).await {
                Ok(read) => read?,
                Err(_) => {
                    buffer = vec![0; SMALL];
                    continue;
                }
            }
        } else {
            from.read(&mut buffer).await?
        };
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return to.shutdown().await;
        };
        to.write_all(bytes).await?;
        if read == buffer.len() && read < LARGE {
            buffer = vec![0; LARGE];
        }
    }
}

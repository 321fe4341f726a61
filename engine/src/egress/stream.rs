//! What the proxies read from and write to: streams from inside, whatever carried them out.

use super::gate::{Boxed, Ends, Meter};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Bytes asked for at once while a head is read.
const HEAD_CHUNK: usize = 4096;

/// Silence after which TCP asks whether the other end still lives, and between questions. No
/// other idle limit ends a connection (REQ EG-1: an idle tunnel lives past ten minutes).
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A byte stream in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that a program inside made.
pub struct Accepted {
    /// Its bytes.
    pub stream: Box<dyn Duplex>,
    /// The client's end inside, when the carrier knows it.
    pub client: Option<SocketAddr>,
    /// The address that the client connected to, when the carrier knows it.
    pub local: Option<SocketAddr>,
}

impl Accepted {
    /// Both ends, when the carrier knows the client's.
    pub(super) fn ends(&self) -> Option<Ends> {
        self.client.map(|client| Ends {
            client,
            local: self.local,
        })
    }
}

/// Where connections from inside arrive.
pub trait Accept: Send + 'static {
    /// The next connection. Dropping the future loses none.
    fn accept(&mut self) -> Boxed<'_, io::Result<Accepted>>;
}

impl Accept for TcpListener {
    fn accept(&mut self) -> Boxed<'_, io::Result<Accepted>> {
        Box::pin(async move {
            let (stream, client) = Self::accept(self).await?;
            let local = stream.local_addr().ok();
            tune(&stream);
            Ok(Accepted {
                stream: Box::new(stream),
                client: Some(client),
                local,
            })
        })
    }
}

#[cfg(unix)]
impl Accept for tokio::net::UnixListener {
    fn accept(&mut self) -> Boxed<'_, io::Result<Accepted>> {
        Box::pin(async move {
            let (stream, _) = Self::accept(self).await?;
            Ok(Accepted {
                stream: Box::new(stream),
                client: None,
                local: None,
            })
        })
    }
}

/// Makes a listening socket that was bound inside the sandbox ready to be accepted on here.
///
/// # Errors
///
/// When the socket cannot be made non-blocking or registered. Must run inside a tokio runtime.
pub fn tcp(listener: std::net::TcpListener) -> io::Result<Box<dyn Accept>> {
    listener.set_nonblocking(true)?;
    Ok(Box::new(TcpListener::from_std(listener)?))
}

/// The same for a socket of datagrams.
///
/// # Errors
///
/// As [`tcp`].
pub fn udp(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// No delay for small writes, and a question to the other end now and then. Neither can make a
/// connection unsafe, so a system that refuses them only makes it slower.
pub(super) fn tune(stream: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE);
    let tuned = stream
        .set_nodelay(true)
        .and_then(|()| socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = tuned {
        tracing::debug!(%error, "could not tune a socket");
    }
}

/// The reading half of a client, with what was read ahead.
pub(super) type ClientReader = ReadAhead<ReadHalf<Box<dyn Duplex>>>;

/// The writing half of a client.
pub(super) type ClientWriter = WriteHalf<Box<dyn Duplex>>;

/// Splits an accepted stream, for the two directions are often busy at once.
pub(super) fn split(stream: Box<dyn Duplex>) -> (ClientReader, ClientWriter) {
    let (reader, writer) = tokio::io::split(stream);
    (ReadAhead::new(reader), writer)
}

/// A reader whose bytes can be looked at before they are used.
pub(super) struct ReadAhead<R> {
    reader: R,
    buffer: Vec<u8>,
    used: usize,
}

impl<R: AsyncRead + Unpin> ReadAhead<R> {
    /// Nothing read yet.
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            used: 0,
        }
    }

    /// What was read and not used.
    pub(super) fn ahead(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    /// Marks the first `count` bytes as used.
    pub(super) fn consume(&mut self, count: usize) {
        self.used = self.used.saturating_add(count).min(self.buffer.len());
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Takes the first `count` bytes out.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.ahead().iter().take(count).copied().collect();
        self.consume(count);
        taken
    }

    /// Reads once more, a head's worth at most; 0 at the end. Dropping the future loses nothing.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        self.fill_up_to(HEAD_CHUNK).await
    }

    /// Reads once more, at most `chunk` bytes; 0 at the end.
    pub(super) async fn fill_up_to(&mut self, chunk: usize) -> io::Result<usize> {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        // Exactly: doubling would take twice the bound of whoever reads.
        self.buffer.reserve_exact(chunk);
        let mut limited = (&mut self.reader).take(u64::try_from(chunk).unwrap_or(u64::MAX));
        limited.read_buf(&mut self.buffer).await
    }

    /// Waits until `count` bytes are there.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the stream ends before.
    pub(super) async fn need(&mut self, count: usize) -> io::Result<()> {
        while self.ahead().len() < count {
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Gives memory back that holds nothing.
    pub(super) fn rest(&mut self) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.shrink_to_fit();
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// The reader itself; what is read ahead must have been used.
    pub(super) fn reader(&mut self) -> &mut R {
        &mut self.reader
    }
}

/// Adds what is read to a meter as bytes to the sandbox, and what is written as bytes from it.
pub(super) struct Counted<T> {
    inner: T,
    meter: Arc<Meter>,
}

impl<T> Counted<T> {
    /// Counts on this meter.
    pub(super) fn new(inner: T, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(context, buffer);
        count(
            &this.meter.down,
            buffer.filled().len().saturating_sub(before),
        );
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            count(&this.meter.up, written);
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

fn count(counter: &std::sync::atomic::AtomicU64, bytes: usize) {
    if bytes > 0 {
        counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// What stood where a destination should be, for people: at most 200 bytes, escaped to ASCII.
pub(super) fn seen(bytes: &[u8]) -> String {
    const MOST: usize = 200;
    let shown: String = bytes
        .iter()
        .take(MOST)
        .flat_map(|&byte| std::ascii::escape_default(byte))
        .map(char::from)
        .collect();
    if bytes.len() > MOST {
        format!("{shown}…")
    } else {
        shown
    }
}

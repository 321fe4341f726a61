//! What a session's proxies accept on: listeners that stand inside the sandbox's network and are
//! held by the engine alone.

use super::relay::RelayListener;
use crate::backend::Bridge;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};

/// The listeners of one restricted session. Dropping them closes the way out.
#[derive(Debug)]
pub struct SessionSockets {
    /// The HTTP proxy's, 127.0.0.1:3128 inside.
    pub http: Listener,
    /// The SOCKS5 proxy's, 127.0.0.1:1080 inside.
    pub socks: Listener,
    /// For programs that ignore proxy variables; absent where they could not be opened, which the
    /// enforcement report names.
    pub direct: Option<DirectSockets>,
    /// How connections to the proxies arrive.
    pub bridge: Bridge,
}

/// What programs that ignore proxy variables meet.
#[derive(Debug)]
pub struct DirectSockets {
    /// 127.0.0.1:53 inside.
    pub dns_udp: UdpSocket,
    /// 127.0.0.1:53 inside.
    pub dns_tcp: Listener,
    /// By port, on every address inside: [`Accepted::local`] is the one that was meant. It is of
    /// the pool, or of 127.0.0.0/8 when a program meant the sandbox itself.
    pub transparent: Vec<(u16, Listener)>,
}

/// A listener inside.
#[derive(Debug)]
pub enum Listener {
    /// In the sandbox's own network.
    Tcp(TcpListener),
    /// A Unix socket that socat inside connects to.
    Relay(RelayListener),
}

/// A connection from inside.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The client's end, by which [`super::Inside::who_connects`] finds the process. Absent when
    /// socat does not tell.
    pub client: Option<SocketAddr>,
    /// The end that the client meant.
    pub local: Option<SocketAddr>,
}

impl Listener {
    /// A listening TCP socket of the guard or the helper. Must be called inside a runtime.
    pub(super) fn tcp(listener: OwnedFd) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(listener)?))
    }

    /// The next connection.
    ///
    /// # Errors
    /// The system's word; of those, EMFILE and ENFILE pass.
    pub async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                Ok(Accepted {
                    local: stream.local_addr().ok(),
                    client: Some(client),
                    stream: Stream::Tcp(stream),
                })
            }
            Self::Relay(listener) => listener.accept().await,
        }
    }
}

/// A connection from inside, whatever it came over.
#[derive(Debug)]
pub enum Stream {
    /// Straight from the program.
    Tcp(TcpStream),
    /// Through socat.
    Unix(UnixStream),
}

impl Stream {
    /// Sends small writes at once (tcp(7) `TCP_NODELAY`); a Unix socket always does.
    ///
    /// # Errors
    /// The system's word.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

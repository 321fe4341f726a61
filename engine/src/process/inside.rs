//! A running session's network from the engine's side: who connects, and forwards in and out, at
//! any time in its life (REQ EG-12).

use super::guard_link::{LinkClosed, OpenFailure};
use super::low_ports::{DEADLINE, Helper};
use super::requests::Requests;
use super::sockets::Listener;
use crate::error::{Coded, Fix};
use kotak_guard::proto::{
    Connection, Connector, HelperRequest, ListenAt, LowSocket, PROTOCOL_VERSION, Transport,
};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixListener};

/// How long the guard may look for a process; a connection waits for the answer.
const WHO_DEADLINE: Duration = Duration::from_millis(500);

/// Ports below this need the helper.
const FIRST_FREE_PORT: u16 = 1024;

/// The inside of a session with a network of its own. Clones stand for the same session, and none
/// keeps it alive.
#[derive(Debug, Clone)]
pub struct Inside {
    pub(super) requests: Requests,
    /// Its network namespace.
    pub(super) network: Arc<OwnedFd>,
}

/// Why nothing could be opened inside.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// The system's word inside, e.g. that nobody listens there.
    #[error("the sandbox says: {0}")]
    Refused(#[source] io::Error),
    /// The path lies in a folder of the host, where nothing is made.
    #[error("{path} is not in a private folder of the session")]
    NotPrivate {
        /// Which.
        path: String,
    },
    /// A port below 1024 cannot be opened on this host.
    #[error("port {port} cannot be opened inside: {reason}")]
    LowPort {
        /// Which.
        port: u16,
        /// Why.
        reason: String,
    },
    /// The session is gone.
    #[error("the session has ended")]
    Gone(#[source] LinkClosed),
    /// The engine ran short of something.
    #[error("the socket cannot be used")]
    Socket(#[source] io::Error),
}

impl Coded for InsideError {
    fn code(&self) -> &'static str {
        match self {
            Self::Refused(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                "NOBODY_LISTENS"
            }
            Self::Refused(cause) if cause.kind() == io::ErrorKind::AddrInUse => "PORT_IN_USE",
            Self::Refused(_) => "FORWARD_FAILED",
            Self::NotPrivate { .. } => "PATH_NOT_PRIVATE",
            Self::LowPort { .. } => "LOW_PORT_UNAVAILABLE",
            Self::Gone(_) => "SESSION_ENDED",
            Self::Socket(_) => "SOCKET_FAILED",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Refused(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                "Start the server inside the session first."
            }
            Self::Refused(_) => "Choose another port, or end the program inside that holds it.",
            Self::NotPrivate { .. } => "Choose a path below /tmp or the session's XDG_RUNTIME_DIR.",
            Self::LowPort { .. } => "Choose a port from 1024 on.",
            Self::Gone(_) => "Start a new session.",
            Self::Socket(_) => "Close some sessions, or raise the limit of open files (ulimit -n).",
        }))
    }
}

impl Inside {
    /// Who is at the client's end of a connection that was accepted. None when it is gone, hides
    /// itself, cannot be told, or is not found in time: attribution never delays a verdict for
    /// long.
    pub async fn who_connects(
        &self,
        transport: Transport,
        client: SocketAddr,
        server: Option<SocketAddr>,
    ) -> Option<Connector> {
        let connection = Connection {
            transport,
            client,
            server,
        };
        let answer = self.requests.who_connects(connection);
        tokio::time::timeout(WHO_DEADLINE, answer).await.ok()?
    }

    /// Connects to a server on 127.0.0.1 inside.
    ///
    /// # Errors
    /// [`InsideError::Refused`] when nobody listens there.
    pub async fn connect(&self, port: u16) -> Result<TcpStream, InsideError> {
        self.requests.connect(port).await.map_err(refused)
    }

    /// Listens on 127.0.0.1 inside; dropping the listener closes the port.
    ///
    /// # Errors
    /// [`InsideError::Refused`] when the port is taken, [`InsideError::LowPort`].
    pub async fn listen(&self, port: u16) -> Result<Listener, InsideError> {
        let listener = if port < FIRST_FREE_PORT {
            self.listen_low(port).await?
        } else {
            let at = ListenAt::Port(port);
            self.requests.listen(at).await.map_err(refused)?
        };
        Listener::tcp(listener).map_err(InsideError::Socket)
    }

    /// Listens on a Unix socket inside, for a host socket that was granted; dropping the listener
    /// closes it. The path must lie in a private folder of the session (`/tmp`, its
    /// `XDG_RUNTIME_DIR`, a private home); missing folders are made.
    ///
    /// # Errors
    /// [`InsideError::NotPrivate`]; [`InsideError::Refused`] when something else is there.
    pub async fn listen_unix(&self, path: &[u8]) -> Result<UnixListener, InsideError> {
        let at = ListenAt::Path(path.to_vec());
        let listener = self
            .requests
            .listen(at)
            .await
            .map_err(|failure| match failure {
                OpenFailure::Refused(cause) if cause.raw_os_error() == Some(libc::EXDEV) => {
                    InsideError::NotPrivate {
                        path: String::from_utf8_lossy(path).escape_debug().to_string(),
                    }
                }
                other => refused(other),
            })?;
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener))
            .map_err(InsideError::Socket)
    }

    async fn listen_low(&self, port: u16) -> Result<OwnedFd, InsideError> {
        let request = HelperRequest {
            protocol: PROTOCOL_VERSION,
            local: None,
            sockets: vec![LowSocket {
                transport: Transport::Tcp,
                address: Ipv4Addr::LOCALHOST,
                port,
            }],
        };
        let opened = match Helper::start(DEADLINE).await {
            Ok(helper) => helper.open(&self.network, request).await,
            Err(error) => Err(error),
        };
        opened
            .map_err(|error| error.to_string())
            .and_then(|mut sockets| sockets.pop().ok_or_else(|| "nothing came".to_owned()))
            .map_err(|reason| InsideError::LowPort { port, reason })
    }
}

fn refused(failure: OpenFailure) -> InsideError {
    match failure {
        OpenFailure::Refused(cause) => InsideError::Refused(cause),
        OpenFailure::Closed(closed) => InsideError::Gone(closed),
    }
}

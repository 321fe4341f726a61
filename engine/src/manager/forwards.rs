//! The granted ways of one session: opened, listed, revoked (REQ EG-12).

use super::from_inside::FromInside;
use crate::api::{GrantInfo, SessionGrant};
use crate::egress::forward::{Forward, Reach};
use crate::egress::gate::{Boxed, Route};
use crate::egress::session::{GrantedWay, SessionNetwork};
use crate::egress::stream::{Accept, Duplex};
use crate::error::{Coded, Fix, Problem};
use crate::process::{HostSocketError, HostSockets, Inside, InsideError};
use crate::spec::{AbsPath, ForwardDirection, Grant, GrantKind, Ports, SocketName};
use crate::store::Store;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// Below the session's `XDG_RUNTIME_DIR`: sockets whose own path is no private place inside.
const FOLDER: &str = "kotak";
/// The name of the agent's socket there.
const AGENT: &str = "ssh-agent.sock";

/// Why a grant is not open.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    /// Another program of the host has the port.
    #[error("port {0} of this computer is taken")]
    HostPortTaken(u16),
    /// The system gives low ports to root only.
    #[error("port {0} of this computer needs root")]
    HostPortDenied(u16),
    /// The port cannot be opened on the host.
    #[error("port {port} of this computer cannot be opened")]
    HostPort {
        /// Which.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be opened inside.
    #[error("{what} cannot be opened inside: {cause}")]
    Inside {
        /// Which.
        what: String,
        /// Why.
        cause: InsideError,
    },
    /// The socket of the host is not let in.
    #[error(transparent)]
    Socket(#[from] HostSocketError),
    /// It was kept by another version of Kotak.
    #[error("this version of Kotak cannot read the grant")]
    Unreadable,
    /// The store, or a thread, is gone.
    #[error("the host's sockets cannot be looked at")]
    Cut(#[source] tokio::task::JoinError),
}

impl Coded for ForwardError {
    fn code(&self) -> &'static str {
        match self {
            Self::HostPortTaken(_) => "HOST_PORT_TAKEN",
            Self::HostPortDenied(_) => "HOST_PORT_DENIED",
            Self::HostPort { .. } => "HOST_PORT_FAILED",
            Self::Inside { cause, .. } => cause.code(),
            Self::Socket(cause) => cause.code(),
            Self::Unreadable => "GRANT_UNREADABLE",
            Self::Cut(_) => "REQUEST_CUT_SHORT",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::HostPortTaken(_) => {
                "Name another port of this computer behind a colon, as in 3000:8080, or end the \
                 program that has it."
            }
            Self::HostPortDenied(_) => {
                "Name a port of this computer from 1024 on behind a colon, as in 3000:8080."
            }
            Self::HostPort { .. } => "Name another port of this computer behind a colon.",
            Self::Inside { cause, .. } => return cause.fix(),
            Self::Socket(cause) => return cause.fix(),
            Self::Unreadable => "Revoke it, and grant it again.",
            Self::Cut(_) => "Try again; the log says more.",
        }))
    }
}

/// A grant as this session has it.
#[derive(Debug)]
struct Way {
    grant: GrantInfo,
    outcome: Result<Opened, Problem>,
}

#[derive(Debug)]
struct Opened {
    forward: Forward,
    reached_by: String,
}

/// The granted ways of one session. Dropping it closes them all.
#[derive(Debug)]
pub(super) struct SessionForwards {
    session: String,
    workspace: String,
    inside: Inside,
    network: Arc<SessionNetwork>,
    host: Arc<HostSockets>,
    store: Arc<Store>,
    ways: Mutex<BTreeMap<i64, Way>>,
    /// One change at a time; whether the session has begun, before which it follows nothing.
    turn: tokio::sync::Mutex<bool>,
}

impl SessionForwards {
    pub(super) fn new(
        (session, workspace): (&str, &str),
        inside: Inside,
        network: Arc<SessionNetwork>,
        host: Arc<HostSockets>,
        store: Arc<Store>,
    ) -> Self {
        Self {
            session: session.to_owned(),
            workspace: workspace.to_owned(),
            inside,
            network,
            host,
            store,
            ways: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn ways(&self) -> MutexGuard<'_, BTreeMap<i64, Way>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens what the session begins with: its own grants and those of its workspace. One of its
    /// own that cannot be opened is an error; one of the workspace is listed with its problem.
    ///
    /// # Errors
    /// The store cannot be read, or the first grant of its own that cannot be opened.
    pub(super) async fn begin(&self) -> Result<(), Problem> {
        let mut begun = self.turn.lock().await;
        *begun = true;
        for grant in self.stored().await? {
            let own = grant.session_id.is_some();
            if let Err(problem) = self.open(grant).await {
                if own {
                    return Err(problem);
                }
                tracing::warn!(
                    session = self.session,
                    code = problem.code,
                    "a grant of the workspace is not open: {}",
                    problem.message
                );
            }
        }
        Ok(())
    }

    /// Follows the store: what was revoked is cut, what the session was granted meanwhile is
    /// opened. A grant of the workspace that is new holds for later sessions only.
    pub(super) async fn follow(&self) {
        let begun = self.turn.lock().await;
        if !*begun {
            return;
        }
        // Read in turn, so that it is never older than what is open.
        let stored = match self.stored().await {
            Ok(stored) => stored,
            Err(problem) => {
                tracing::error!(code = problem.code, "grants cannot be read");
                return;
            }
        };
        let revoked: Vec<Way> = {
            let mut ways = self.ways();
            let gone: Vec<i64> = ways
                .keys()
                .filter(|id| stored.iter().all(|grant| grant.id != **id))
                .copied()
                .collect();
            gone.iter().filter_map(|id| ways.remove(id)).collect()
        };
        for way in revoked {
            if let Ok(opened) = way.outcome {
                opened.forward.revoke().await;
            }
        }
        for grant in stored {
            let is_new = grant.session_id.is_some() && !self.ways().contains_key(&grant.id);
            if is_new && let Err(problem) = self.open(grant).await {
                tracing::warn!(
                    session = self.session,
                    code = problem.code,
                    "a grant is not open: {}",
                    problem.message
                );
            }
        }
    }

    /// Closes everything with the session; nothing is opened any more.
    pub(super) async fn end(&self) {
        let mut begun = self.turn.lock().await;
        *begun = false;
        let ways = std::mem::take(&mut *self.ways());
        for way in ways.into_values() {
            if let Ok(opened) = way.outcome {
                opened.forward.end().await;
            }
        }
    }

    async fn stored(&self) -> Result<Vec<GrantInfo>, Problem> {
        let store = Arc::clone(&self.store);
        let (session, workspace) = (self.session.clone(), self.workspace.clone());
        super::network_api::blocking(move || {
            let mut grants = store.grants(Some((&session, &workspace)))?;
            // Folders are the launch's to take.
            grants.retain(|grant| grant.kind != GrantKind::Exec);
            Ok(grants)
        })
        .await
    }

    /// Grants as they stand, oldest first.
    pub(super) fn list(&self) -> Vec<SessionGrant> {
        self.ways()
            .values()
            .map(|way| SessionGrant {
                grant: way.grant.clone(),
                reached_by: way.outcome.as_ref().ok().map(|it| it.reached_by.clone()),
                problem: way.outcome.as_ref().err().cloned(),
                open: way.outcome.as_ref().map_or(0, |it| it.forward.open()),
            })
            .collect()
    }

    /// Where the agent's socket is inside, when it is granted and open.
    pub(super) fn agent(&self) -> Option<String> {
        let is_agent = |way: &Way| way.grant.grant() == Some(Grant::Socket(SocketName::SshAgent));
        let ways = self.ways();
        let opened = ways.values().find(|way| is_agent(way));
        opened.and_then(|way| Some(way.outcome.as_ref().ok()?.reached_by.clone()))
    }

    /// Opens one, and puts down what came of it.
    async fn open(&self, grant: GrantInfo) -> Result<(), Problem> {
        let outcome = self.opened(&grant).await.map_err(|error| error.problem());
        let told = outcome.as_ref().map(|opened| opened.reached_by.clone());
        let told = told.map_err(Problem::clone);
        self.store.grant_used(grant.id, &self.session, told.clone());
        self.ways().insert(grant.id, Way { grant, outcome });
        told.map(|_| ())
    }

    async fn opened(&self, info: &GrantInfo) -> Result<Opened, ForwardError> {
        let grant = info.grant().ok_or(ForwardError::Unreadable)?;
        let loopback = Ipv4Addr::LOCALHOST;
        let port = |direction, port: u16| GrantedWay {
            direction,
            target: format!("{loopback}:{port}"),
            host: loopback.to_string(),
            port,
            route: Route::Forward,
            address: Some(IpAddr::V4(loopback)),
            words: grant.to_string(),
        };
        let (listener, reach, way, reached_by): (
            Box<dyn Accept>,
            Arc<dyn Reach>,
            GrantedWay,
            String,
        ) = match &grant {
            Grant::PortIn(Ports { host, guest }) => {
                let (host, guest) = (host.get(), guest.get());
                // The loopback alone, never an address that another computer reaches.
                let listener = TcpListener::bind((loopback, host))
                    .await
                    .map_err(|error| host_port(host, error))?;
                (
                    Box::new(listener),
                    Arc::new(IntoSandbox(self.inside.clone(), guest)),
                    port(ForwardDirection::In, guest),
                    format!("{loopback}:{host}"),
                )
            }
            Grant::PortOut(Ports { host, guest }) => {
                let (host, guest) = (host.get(), guest.get());
                let listener =
                    self.inside
                        .listen(guest)
                        .await
                        .map_err(|cause| ForwardError::Inside {
                            what: format!("port {guest}"),
                            cause,
                        })?;
                (
                    Box::new(FromInside(listener)),
                    Arc::new(ToHostPort(host)),
                    port(ForwardDirection::Out, host),
                    format!("{loopback}:{guest}"),
                )
            }
            Grant::Exec(_) => return Err(ForwardError::Unreadable),
            Grant::Socket(name) => {
                let path = self.looked_at(name).await?;
                let (listener, reached_by) = self.listen_at(info.id, name, &path).await?;
                let target = crate::text::printable(&path.to_string());
                let way = GrantedWay {
                    direction: ForwardDirection::Out,
                    host: target.clone(),
                    target,
                    port: 0,
                    route: Route::Socket,
                    address: None,
                    words: grant.to_string(),
                };
                let reach = ToHostSocket(Arc::clone(&self.host), path);
                (Box::new(listener), Arc::new(reach), way, reached_by)
            }
        };
        let forward = Forward::start(listener, reach, Arc::clone(&self.network), way);
        Ok(Opened {
            forward,
            reached_by,
        })
    }

    /// The path of a socket of the host, which may be let in as it is now.
    async fn looked_at(&self, name: &SocketName) -> Result<AbsPath, ForwardError> {
        let (host, name) = (Arc::clone(&self.host), name.clone());
        tokio::task::spawn_blocking(move || look(&host, &name))
            .await
            .map_err(ForwardError::Cut)?
            .map_err(ForwardError::Socket)
    }

    /// A socket inside, at the path that it has on the host where that is a private place of the
    /// session, so that programs find it where they look; else in a folder of its own.
    async fn listen_at(
        &self,
        id: i64,
        name: &SocketName,
        path: &AbsPath,
    ) -> Result<(UnixListener, String), ForwardError> {
        let folder = format!("/run/user/{}/{FOLDER}", self.host.uid);
        let own = match name {
            SocketName::SshAgent => format!("{folder}/{AGENT}"),
            SocketName::Path(path) => {
                let taken = |at: &str| self.ways().values().any(|way| way.is_at(at));
                if !taken(&path.to_string())
                    && let Ok(listener) = self.inside.listen_unix(path.as_bytes()).await
                {
                    return Ok((listener, path.to_string()));
                }
                let name = String::from_utf8_lossy(path.file_name().unwrap_or_default());
                let plain = format!("{folder}/{name}");
                if taken(&plain) {
                    format!("{folder}/{id}-{name}")
                } else {
                    plain
                }
            }
        };
        let listener = self.inside.listen_unix(own.as_bytes()).await;
        let listener = listener.map_err(|cause| ForwardError::Inside {
            what: format!("the socket {}", crate::text::printable(&path.to_string())),
            cause,
        })?;
        Ok((listener, own))
    }
}

impl Way {
    fn is_at(&self, at: &str) -> bool {
        self.outcome
            .as_ref()
            .is_ok_and(|opened| opened.reached_by == at)
    }
}

/// The path of a socket that may be let in; waits for the file system.
pub(super) fn look(host: &HostSockets, name: &SocketName) -> Result<AbsPath, HostSocketError> {
    let path = match name {
        SocketName::SshAgent => host.agent.clone().ok_or(HostSocketError::NoAgent)?,
        SocketName::Path(path) => path.clone(),
    };
    host.look(&path)?;
    Ok(path)
}

fn host_port(port: u16, error: io::Error) -> ForwardError {
    match error.kind() {
        io::ErrorKind::AddrInUse => ForwardError::HostPortTaken(port),
        io::ErrorKind::PermissionDenied => ForwardError::HostPortDenied(port),
        _ => ForwardError::HostPort {
            port,
            source: error,
        },
    }
}

fn at_once(stream: TcpStream) -> Box<dyn Duplex> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket could not be tuned");
    }
    Box::new(stream)
}

/// A server on 127.0.0.1 inside.
struct IntoSandbox(Inside, u16);

impl Reach for IntoSandbox {
    fn reach(&self) -> Boxed<'_, io::Result<Box<dyn Duplex>>> {
        Box::pin(async move {
            let reached = self.0.connect(self.1).await;
            reached.map(at_once).map_err(io::Error::other)
        })
    }
}

/// A server on the host's 127.0.0.1.
struct ToHostPort(u16);

impl Reach for ToHostPort {
    fn reach(&self) -> Boxed<'_, io::Result<Box<dyn Duplex>>> {
        Box::pin(async move {
            let reached = TcpStream::connect((Ipv4Addr::LOCALHOST, self.0)).await;
            reached.map(at_once)
        })
    }
}

/// A Unix socket of the host.
struct ToHostSocket(Arc<HostSockets>, AbsPath);

impl Reach for ToHostSocket {
    fn reach(&self) -> Boxed<'_, io::Result<Box<dyn Duplex>>> {
        Box::pin(async move {
            let reached = self.0.connect(&self.1).await?;
            Ok(Box::new(reached) as Box<dyn Duplex>)
        })
    }
}

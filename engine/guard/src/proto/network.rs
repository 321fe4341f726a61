//! What the protocol says about the network of a session: its loopback listeners, who connects,
//! and the ports that need a helper.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};

/// Most listeners that a guard or a helper opens for one request; they fit into one frame.
pub const MAX_LISTENERS: usize = super::MAX_FRAME_FDS - 1;

/// What a guard opens in a network namespace of its own (REQ EG-1). The descriptors come with
/// [`super::Event::Ready`]: one listening TCP socket on 127.0.0.1 for each port, in order, and
/// then the network namespace itself, by which the engine's helper finds it without a process id
/// that could be recycled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopbackPlan {
    /// TCP ports on 127.0.0.1, 1024 and above: the guard has no capability.
    pub ports: Vec<u16>,
}

/// Where a listener is wanted inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenAt {
    /// TCP on 127.0.0.1.
    Port(u16),
    /// A Unix stream socket at this absolute path, in one of the session's private directories
    /// ([`super::Expectation::private`]); directories on the way are made, a socket that is there
    /// is replaced.
    Path(Vec<u8>),
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Which connection is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Connection {
    /// Transport.
    pub transport: Transport,
    /// The end of the process that is looked for, as the engine accepted it.
    pub client: SocketAddr,
    /// The other end, where it is known: it tells two connections from one port apart.
    pub server: Option<SocketAddr>,
}

/// The process at the other end of a connection. Names and arguments are the process's own words:
/// anything may stand in them, and nothing is escaped here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connector {
    /// Process id inside.
    pub pid: i32,
    /// `comm`, at most 15 bytes, lossy.
    pub comm: String,
    /// What `/proc/PID/exe` names, at most 4 KiB, lossy.
    pub executable: Option<String>,
    /// Command line, at most 4 KiB, lossy.
    pub argv: Vec<String>,
    /// Working directory, at most 4 KiB, lossy.
    pub cwd: Option<String>,
    /// `comm` of the parents, nearest first, without the guard; at most 32.
    pub parents: Vec<String>,
}

/// Engine to helper, once, with the network namespace as its one descriptor: what to open in it.
/// The helper is the guard's program in a third mode, on the host and for a moment only: it joins
/// the user namespace that owns the network namespace and so has there the capabilities that the
/// guard has not (user_namespaces(7), ioctl_ns(2)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperRequest {
    /// Must equal [`super::PROTOCOL_VERSION`].
    pub protocol: u32,
    /// A network whose every address becomes local inside, so that connections to it arrive at
    /// listeners on 0.0.0.0 (a `local` route through `lo`; rtnetlink(7)).
    pub local: Option<LocalNetwork>,
    /// Sockets to bind, in this order; TCP ones listen.
    pub sockets: Vec<LowSocket>,
}

/// An IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalNetwork {
    /// Its first address.
    pub address: Ipv4Addr,
    /// Bits of its prefix, 8 to 32.
    pub prefix: u8,
}

/// One socket to bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowSocket {
    /// Transport.
    pub transport: Transport,
    /// Address inside.
    pub address: Ipv4Addr,
    /// Port.
    pub port: u16,
}

/// Helper to engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelperAnswer {
    /// All is done; the sockets come along in the order of the request.
    Bound,
    /// It is not, and no socket comes along.
    Failed {
        /// What failed.
        step: HelperStep,
        /// errno(3).
        errno: i32,
    },
}

/// A step of the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelperStep {
    /// The request makes no sense, or its descriptor is no network namespace of a sandbox.
    Request,
    /// Finding the user namespace that owns the network namespace (Linux 4.9).
    Owner,
    /// Joining that user namespace. EPERM when it does not belong to this user, as under a
    /// bubblewrap installed setuid root.
    JoinUser,
    /// Joining the network namespace.
    JoinNetwork,
    /// Making the network local.
    Route,
    /// Binding or listening on a port.
    Bind(u16),
}

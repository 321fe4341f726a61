//! The way into a session's network, as a plan and as it was found at launch.

use super::{FD_ARGS, GUARD_PATH, NativePlan};
use crate::spec::AbsPath;
use kotak_guard::proto::{HelperRequest, LocalNetwork, LowSocket, PROTOCOL_VERSION, Transport};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use ts_rs::TS;

pub use crate::policy::{HTTP_PORT, SOCKS_PORT};
/// Port of the DNS inside, on 127.0.0.1, UDP and TCP.
pub const DNS_PORT: u16 = 53;
/// Ports at which connections of programs that ignore proxies arrive, on every address of the
/// pool: HTTPS, HTTP, SSH.
pub const TRANSPARENT_PORTS: [u16; 3] = [443, 80, 22];
/// The addresses that DNS inside answers with: for benchmarks (RFC 2544, RFC 6890), so nobody's.
pub const POOL: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);

/// Where the sockets of the socat bridge stand inside.
pub const BRIDGE_HTTP: &str = "/run/kotak/http.sock";
/// As [`BRIDGE_HTTP`], for SOCKS.
pub const BRIDGE_SOCKS: &str = "/run/kotak/socks.sock";

/// What a program inside reads as `/etc/resolv.conf` (resolv.conf(5)): the DNS inside, large
/// answers, and no search list, since each of its suffixes would be judged as a name of its own.
pub const RESOLV_CONF: &[u8] = b"nameserver 127.0.0.1\nsearch .\noptions edns0 timeout:5\n";

/// How connections get from inside to the engine (REQ BW-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Bridge {
    /// The engine accepts on listeners that the guard made: nothing stands between.
    Guard,
    /// `socat` inside relays to Unix sockets of the engine.
    Socat,
}

impl Bridge {
    /// `guard` or `socat`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Socat => "socat",
        }
    }
}

/// Which bridge a launch uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BridgeChoice {
    /// The guard's; socat's where the guard's listeners cannot be handed over.
    #[default]
    Auto,
    /// This one, or none.
    Only(Bridge),
}

/// The bridge of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BridgePlan {
    /// Which.
    pub choice: BridgeChoice,
    /// `socat`, as the probe found it; without it there is no socat bridge.
    pub socat: Option<AbsPath>,
    /// Where the private directory of the socat bridge is made; the system's directory for
    /// temporary files where absent. It is removed once the session is ready.
    pub run: Option<AbsPath>,
}

/// The way into a session's network, as it was found at launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayIn {
    /// How connections to the proxies arrive.
    pub bridge: Bridge,
    /// Why DNS and the ports of [`TRANSPARENT_PORTS`] could not be opened inside; absent when
    /// they were.
    pub blind: Option<String>,
}

/// What the helper opens inside, in this order: DNS over UDP, DNS over TCP, then
/// [`TRANSPARENT_PORTS`]. The latter listen on all addresses: the pool has 131,072.
#[must_use]
pub fn low_ports() -> HelperRequest {
    let tcp = |address, port| LowSocket {
        transport: Transport::Tcp,
        address,
        port,
    };
    let dns = tcp(Ipv4Addr::LOCALHOST, DNS_PORT);
    let mut sockets = vec![
        LowSocket {
            transport: Transport::Udp,
            ..dns
        },
        dns,
    ];
    sockets.extend(TRANSPARENT_PORTS.map(|port| tcp(Ipv4Addr::UNSPECIFIED, port)));
    HelperRequest {
        protocol: PROTOCOL_VERSION,
        local: Some(LocalNetwork {
            address: POOL.0,
            prefix: POOL.1,
        }),
        sockets,
    }
}

impl NativePlan {
    /// The same plan over the socat bridge: no listeners of the guard; the two sockets in `dir`, a
    /// private directory of the engine, are bound in read-only.
    #[must_use]
    pub fn over_socat(&self, dir: &AbsPath) -> Self {
        let mut plan = self.clone();
        if let Some(loopback) = &mut plan.setup.loopback {
            loopback.ports.clear();
        }
        for block in plan.blocks.iter_mut().filter(|block| block.fd == FD_ARGS) {
            let guard = block
                .args
                .iter()
                .position(|arg| arg == GUARD_PATH.as_bytes());
            let at = guard.map_or(block.args.len(), |at| at + 1);
            let mounts = [("http.sock", BRIDGE_HTTP), ("socks.sock", BRIDGE_SOCKS)];
            let args = mounts.into_iter().flat_map(|(name, inside)| {
                let source = dir.join(name).as_bytes().to_vec();
                [b"--ro-bind".to_vec(), source, inside.as_bytes().to_vec()]
            });
            block.args.splice(at..at, args);
        }
        plan
    }
}

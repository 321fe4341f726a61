//! The socat bridge (REQ BW-2): inside, two `socat` relay the proxies' ports to two Unix sockets
//! of the engine, which stand in a private directory and are bound in.

use super::guard_link::{ExecFailure, GuardLink, OpenFailure, StartedExec};
use super::sockets::{Accepted, Listener, Stream};
use super::{LaunchError, null};
use crate::backend::{BRIDGE_HTTP, BRIDGE_SOCKS, HTTP_PORT, SOCKS_PORT};
use crate::spec::AbsPath;
use kotak_guard::proto::{Exec, Stdio};
use kotak_guard::table::{read_table, socket_inode};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixListener;

/// Between two looks whether socat listens.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Which network namespace a process is in: device and inode of its `/proc/PID/ns/net`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NetworkId(u64, u64);

impl NetworkId {
    /// Of an open namespace. While it is open, its inode is not given to another.
    pub(super) fn of(namespace: &OwnedFd) -> io::Result<Self> {
        let found = std::fs::metadata(format!("/proc/self/fd/{}", namespace.as_raw_fd()))?;
        Ok(Self(found.dev(), found.ino()))
    }

    fn of_process(pid: i32) -> io::Result<Self> {
        let found = std::fs::metadata(format!("/proc/{pid}/ns/net"))?;
        Ok(Self(found.dev(), found.ino()))
    }
}

/// The two sockets before anything runs, in a directory that only this user may enter.
pub(super) struct RelaySockets {
    dir: TempDir,
    http: UnixListener,
    socks: UnixListener,
}

impl RelaySockets {
    /// Makes the directory and the sockets. Must be called inside a runtime.
    pub(super) fn make(run: Option<&AbsPath>) -> Result<Self, LaunchError> {
        let make = || -> io::Result<Self> {
            let base = run.map_or_else(std::env::temp_dir, AbsPath::to_path_buf);
            let dir = tempfile::Builder::new()
                .prefix("bridge-")
                .permissions(std::fs::Permissions::from_mode(0o700))
                .tempdir_in(base)?;
            let http = bind(dir.path(), "http.sock")?;
            let socks = bind(dir.path(), "socks.sock")?;
            Ok(Self { dir, http, socks })
        };
        make().map_err(LaunchError::descriptor("the socat bridge"))
    }

    /// Where they are.
    pub(super) fn directory(&self) -> Result<AbsPath, LaunchError> {
        AbsPath::from_path(self.dir.path()).map_err(|error| LaunchError::Bridge {
            reason: error.to_string(),
        })
    }

    /// Starts socat inside, and waits until each relays. Then the directory goes: what is bound in
    /// stays reachable inside, and nobody on the host finds the sockets any more.
    pub(super) async fn connect(
        self,
        link: &GuardLink,
        socat: &AbsPath,
        network: NetworkId,
    ) -> Result<(Listener, Listener), LaunchError> {
        let http = RelayListener::new(self.http, network, HTTP_PORT);
        let socks = RelayListener::new(self.socks, network, SOCKS_PORT);
        for (id, listener, inside) in [(1, &http, BRIDGE_HTTP), (2, &socks, BRIDGE_SOCKS)] {
            let relay = start(link, socat, id, listener.port, inside).await?;
            until_it_relays(link, &relay, listener).await?;
            watch_over(relay, listener.port);
        }
        self.dir
            .close()
            .map_err(LaunchError::descriptor("the socat bridge"))?;
        Ok((Listener::Relay(http), Listener::Relay(socks)))
    }
}

/// Execs that a session's own workings take, and so the first number for others.
pub(super) const FIRST_EXEC: u64 = 3;

/// Binds by the directory, since an address holds 108 bytes only.
fn bind(dir: &Path, name: &str) -> io::Result<UnixListener> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let directory = nix::fcntl::open(dir, flags, Mode::empty())?;
    let address = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    UnixListener::bind(address)
}

async fn start(
    link: &GuardLink,
    socat: &AbsPath,
    id: u64,
    port: u16,
    inside: &str,
) -> Result<StartedExec, LaunchError> {
    let words = [
        // Half-closed connections live on: socat's own default ends them after half a second.
        "-t".to_owned(),
        "86400".to_owned(),
        format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=4096"),
        format!("UNIX-CONNECT:{inside}"),
    ];
    let words = words.map(String::into_bytes);
    let exec = Exec {
        id,
        argv: std::iter::once(socat.as_bytes().to_vec())
            .chain(words)
            .collect(),
        cwd: b"/".to_vec(),
        env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        stdio: Stdio::Pipes,
        service: true,
    };
    let null = || null().map_err(LaunchError::descriptor("/dev/null"));
    let streams = vec![null()?, null()?, null()?];
    link.exec(exec, streams).await.map_err(|failure| {
        let reason = match failure {
            ExecFailure::Failed { errno, .. } => format!(
                "{socat} cannot be run inside: {}",
                io::Error::from_raw_os_error(errno)
            ),
            ExecFailure::Closed(closed) => closed.reason,
        };
        LaunchError::Bridge { reason }
    })
}

/// Connects inside until it arrives here.
async fn until_it_relays(
    link: &GuardLink,
    relay: &StartedExec,
    listener: &RelayListener,
) -> Result<(), LaunchError> {
    let failed = |reason| LaunchError::Bridge { reason };
    loop {
        if relay.end.borrow().is_some() {
            return Err(failed(format!("socat on port {} ended", listener.port)));
        }
        match link.connect(listener.port).await {
            Ok(attempt) => {
                let arrived = listener.accept().await;
                drop(attempt);
                return arrived
                    .map(drop)
                    .map_err(LaunchError::descriptor("the socat bridge"));
            }
            Err(OpenFailure::Refused(error))
                if error.kind() == io::ErrorKind::ConnectionRefused =>
            {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(OpenFailure::Refused(error)) => return Err(failed(error.to_string())),
            Err(OpenFailure::Closed(closed)) => return Err(failed(closed.reason)),
        }
    }
}

/// A program inside can end socat, and then nothing gets out any more: that is said.
fn watch_over(relay: StartedExec, port: u16) {
    let mut end = relay.end;
    tokio::spawn(async move {
        // Without a value the whole session ended.
        if let Ok(Some(status)) = end.wait_for(Option::is_some).await.map(|end| *end) {
            tracing::warn!(
                port,
                ?status,
                "socat ended inside; the session has no way out there"
            );
        }
    });
}

/// A Unix listener for socat inside.
#[derive(Debug)]
pub struct RelayListener {
    listener: UnixListener,
    /// The only network that connections may come from.
    network: NetworkId,
    /// The port inside that is relayed.
    port: u16,
}

impl RelayListener {
    fn new(listener: UnixListener, network: NetworkId, port: u16) -> Self {
        Self {
            listener,
            network,
            port,
        }
    }

    /// The next connection that comes from this sandbox; others are closed.
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // unix(7) `SO_PEERCRED`: who connected, in this process's own numbers.
            let peer = stream.peer_cred()?.pid().filter(|pid| *pid > 0);
            let Some(peer) = peer.filter(|pid| self.is_inside(*pid)) else {
                tracing::warn!(?peer, "a process outside of the sandbox tried its bridge");
                continue;
            };
            let port = self.port;
            let client = tokio::task::spawn_blocking(move || relayed_client(peer, port))
                .await
                .unwrap_or(None);
            return Ok(Accepted {
                stream: Stream::Unix(stream),
                client,
                local: Some(SocketAddr::from(([127, 0, 0, 1], port))),
            });
        }
    }

    fn is_inside(&self, pid: i32) -> bool {
        NetworkId::of_process(pid).is_ok_and(|network| network == self.network)
    }
}

/// The other end of the connection that a socat accepted on `port`.
fn relayed_client(pid: i32, port: u16) -> Option<SocketAddr> {
    let held: BTreeSet<u64> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .ok()?
        .flatten()
        .filter_map(|entry| socket_inode(&std::fs::read_link(entry.path()).ok()?))
        .collect();
    let mut client = None;
    let table = format!("/proc/{pid}/net/tcp");
    read_table(table.as_ref(), |entry| {
        if entry.local.port() == port && entry.remote.port() != 0 && held.contains(&entry.inode) {
            client = Some(entry.remote);
        }
    });
    client
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[tokio::test]
    async fn a_process_of_another_network_is_turned_away() {
        let own = NetworkId::of_process(std::process::id().try_into().unwrap()).unwrap();
        let other = NetworkId(own.0, own.1 + 1);
        for (network, passes) in [(own, true), (other, false)] {
            let sockets = RelaySockets::make(None).unwrap();
            let path = sockets.dir.path().join("http.sock");
            let mode = std::fs::metadata(sockets.dir.path()).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700);
            let listener = RelayListener::new(sockets.http, network, HTTP_PORT);
            let client = UnixStream::connect(path).unwrap();
            if passes {
                let accepted = listener.accept().await.unwrap();
                assert_eq!(accepted.client, None);
                continue;
            }
            let accept = tokio::spawn(async move { listener.accept().await.map(drop) });
            // Closed by the other side, without a byte.
            let read = tokio::task::spawn_blocking(move || {
                io::Read::read(&mut &client, &mut [0]).unwrap()
            });
            assert_eq!(read.await.unwrap(), 0);
            assert!(!accept.is_finished());
            accept.abort();
        }
    }

    #[test]
    fn the_client_of_a_relay_is_the_other_end_of_what_it_accepted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(at).unwrap();
        let own = std::process::id().try_into().unwrap();
        let (_accepted, from) = listener.accept().unwrap();
        assert_eq!(relayed_client(own, at.port()), Some(from));
        assert_eq!(from, client.local_addr().unwrap());
        assert_eq!(relayed_client(own, 1), None);
    }
}

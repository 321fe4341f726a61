//! A small internet inside a network namespace of the test's own: real servers at addresses of a
//! public range, so that the address guard stays on, and no way out (`.ci/lib/own-network.sh`).
//! Every name that a test makes up is a site here, with a certificate of the test's authority.

pub mod authority;
pub mod body;
pub mod git;
pub mod names;
pub mod packages;
pub mod ssh;
pub mod tunnels;
pub mod web;

use authority::Authority;
use git::Repositories;
use names::Names;
use ssh::SshServer;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use web::Sites;

/// The public address that names have when a test says nothing else.
pub const PUBLIC: &str = "93.184.216.34";
/// Another one.
pub const PUBLIC_OTHER: &str = "93.184.216.35";
/// A public address of IPv6.
pub const PUBLIC_V6: &str = "2606:2800:220:1::34";
/// A public address at which nothing listens, so that connections are refused at once.
pub const PUBLIC_SILENT: &str = "93.184.216.200";
/// Addresses that exist on the stage, with the same servers, and that no session may reach.
pub const SPECIAL: [&str; 9] = [
    "127.0.0.1",
    "::1",
    "10.1.2.3",
    "172.16.5.5",
    "192.168.7.7",
    "100.64.0.9",
    "169.254.169.254",
    "169.254.7.7",
    "fd00::1",
];

/// Ports of plain HTTP and of HTTPS on every address but [`PUBLIC_SILENT`].
pub const WEB: [u16; 2] = [80, 8080];
/// Ports of HTTPS.
pub const WEB_TLS: [u16; 2] = [443, 8443];

/// The servers, started once for all tests of a process.
#[derive(Debug)]
pub struct World {
    /// The name server.
    pub names: Names,
    /// The web sites.
    pub sites: Arc<Sites>,
    /// The authority of their certificates.
    pub authority: Arc<Authority>,
    /// The SSH server.
    pub ssh: SshServer,
    /// The repositories behind `/git/` and SSH.
    pub repositories: Arc<Repositories>,
    dir: PathBuf,
    runtime: Runtime,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    // A thread of its own: the test that asks first may be inside of a runtime.
    let started = std::thread::spawn(World::start).join();
    started.unwrap_or_else(|_| panic!("the servers of the network tests did not start"))
});

/// The servers.
///
/// # Panics
/// Outside of the stage, and when a server does not start.
#[must_use]
pub fn world() -> &'static World {
    &WORLD
}

/// Whether this process runs in a network of its own.
#[must_use]
pub fn on_stage() -> bool {
    std::env::var_os("KOTAK_TEST_NETWORK").is_some_and(|value| value == "own")
}

impl World {
    fn start() -> Self {
        assert!(
            on_stage(),
            "these tests need a network namespace of their own; `.ci/test.sh rust` gives them one"
        );
        let home = PathBuf::from(std::env::var_os("HOME").expect("HOME"));
        // Not removed: the home of the stage is a file system that ends with it.
        let dir = tempfile::Builder::new().prefix("world-").tempdir_in(home);
        let dir = dir.expect("a folder for the servers").keep();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let authority = Arc::new(Authority::new());
        std::fs::write(dir.join("ca.crt"), authority.pem()).expect("the authority's certificate");
        let sites = Arc::new(Sites::default());
        let _inside = runtime.enter();
        for port in WEB {
            runtime.spawn(Arc::clone(&sites).serve(listener(port)));
        }
        for port in WEB_TLS {
            let authority = Arc::clone(&authority);
            runtime.spawn(Arc::clone(&sites).serve_tls(listener(port), authority));
        }
        for port in tunnels::PORTS {
            runtime.spawn(tunnels::serve(listener(port), port));
        }
        let folder = |name: &str| {
            let folder = dir.join(name);
            std::fs::create_dir(&folder).expect("a folder");
            folder
        };
        let repositories = Arc::new(Repositories::make(&folder("git")));
        *sites.repositories.lock().expect("the repositories") = Some(Arc::clone(&repositories));
        let ssh = SshServer::start(&folder("ssh"), PUBLIC);
        let names = Names::serve();
        names.set("packages.example.net", &[PUBLIC]);
        packages::publish(&sites, &folder("packages"), "https://packages.example.net");
        Self {
            names,
            sites,
            authority,
            ssh,
            repositories,
            dir,
            runtime,
        }
    }

    /// The authority's certificate as a file.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Gives a name the usual public address, and returns it.
    pub fn name<'a>(&self, name: &'a str) -> &'a str {
        self.names.set(name, &[PUBLIC]);
        name
    }

    /// The runtime that the servers live in, for servers of one test.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// A shell line that makes every client trust the authority whose certificate is in `file`.
    #[must_use]
    pub fn trust(file: &Path) -> String {
        let names = [
            "CURL_CA_BUNDLE",
            "SSL_CERT_FILE",
            "GIT_SSL_CAINFO",
            "NODE_EXTRA_CA_CERTS",
            "REQUESTS_CA_BUNDLE",
            "PIP_CERT",
            "CARGO_HTTP_CAINFO",
        ];
        let file = file.display();
        names
            .iter()
            .map(|name| format!("export {name}='{file}'; "))
            .collect()
    }
}

/// A listener on a port of every address; IPv4 clients come as mapped addresses.
fn listener(port: u16) -> TcpListener {
    let socket = tokio::net::TcpSocket::new_v6().expect("a socket");
    socket.set_reuseaddr(true).expect("SO_REUSEADDR");
    socket
        .bind(SocketAddr::from(([0_u16; 8], port)))
        .expect("a free port");
    socket.listen(4096).expect("a listener")
}

/// The numbers of an address of the public range, for tests that want many.
#[must_use]
pub fn public(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(93, 184, 216, number)
}

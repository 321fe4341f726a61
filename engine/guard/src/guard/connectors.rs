//! Who is at the other end of a connection: from its addresses to a socket (`/proc/net/tcp`,
//! proc_pid_net(5)), from the socket to the processes that hold it (`/proc/PID/fd`).
//!
//! Programs inside choose how many sockets, descriptors and processes there are, so everything is
//! bounded, and all the questions of one turn are answered by one look.

use super::processes::{Member, Scope, command_line, member, members};
use kotak_guard::{
    proto::{Connection, Connector, Transport},
    table::{Entry, LISTENING, read_table, socket_inode},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Most descriptors looked at for one turn, and of one process in the first round: a process with
/// very many cannot hide the others.
const LINKS: usize = 65_536;
const LINKS_OF_ONE: usize = 4_096;

/// Most parents that are named.
const PARENTS: usize = 32;

/// Longest path that is reported, in bytes.
const PATH_BYTES: usize = 4096;

/// Answers questions, in their order.
pub(crate) fn find(questions: &[Connection]) -> Vec<Option<Connector>> {
    let inodes = sockets(questions);
    let wanted: BTreeSet<u64> = inodes.iter().flatten().copied().collect();
    let holders = if wanted.is_empty() {
        BTreeMap::new()
    } else {
        holders(&wanted)
    };
    inodes
        .into_iter()
        .map(|inode| holders.get(&inode?).and_then(describe))
        .collect()
}

/// The inode of each client's socket; none where there is no such socket, or more than one.
fn sockets(questions: &[Connection]) -> Vec<Option<u64>> {
    let mut found: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); questions.len()];
    for (transport, tables) in [
        (Transport::Tcp, ["/proc/net/tcp", "/proc/net/tcp6"]),
        (Transport::Udp, ["/proc/net/udp", "/proc/net/udp6"]),
    ] {
        if !questions.iter().any(|it| it.transport == transport) {
            continue;
        }
        for table in tables {
            read_table(table.as_ref(), |entry| {
                for (question, found) in questions.iter().zip(&mut found) {
                    if question.transport == transport && is_client_of(&entry, question) {
                        found.insert(entry.inode);
                    }
                }
            });
        }
    }
    found
        .into_iter()
        .map(|inodes| match inodes.len() {
            1 => inodes.first().copied(),
            _ => None,
        })
        .collect()
}

fn is_client_of(entry: &Entry, question: &Connection) -> bool {
    // A socket without an owner any more has inode 0.
    if entry.inode == 0 || entry.local.port() != question.client.port() {
        return false;
    }
    let client = question.client.ip().to_canonical();
    let remote = question
        .server
        .map(|it| (it.ip().to_canonical(), it.port()));
    let right_remote = remote.is_none_or(|it| it == (entry.remote.ip(), entry.remote.port()));
    match question.transport {
        Transport::Tcp => entry.state != LISTENING && entry.local.ip() == client && right_remote,
        // Not connected, it has no remote end, and often no address.
        Transport::Udp => {
            let unconnected = entry.remote.port() == 0;
            (entry.local.ip() == client || entry.local.ip().is_unspecified())
                && (unconnected || right_remote)
        }
    }
}

/// A process that holds a wanted socket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    pid: i32,
    start: u64,
    descriptor: String,
    inode: u64,
}

/// For each socket the process that has run for longest of those that hold it: a child that was
/// given a copy does not stand in for its parent.
fn holders(wanted: &BTreeSet<u64>) -> BTreeMap<u64, Holder> {
    let mut found: BTreeMap<u64, Holder> = BTreeMap::new();
    let mut budget = LINKS;
    let mut unfinished = Vec::new();
    for process in members(Scope::Namespace) {
        let Some(mut look) = Look::begin(&process) else {
            continue;
        };
        let share = budget.min(LINKS_OF_ONE);
        let looked = look.at_most(share, wanted, &mut found);
        budget -= looked;
        if looked == share {
            unfinished.push(look);
        }
    }
    for mut look in unfinished {
        budget -= look.at_most(budget, wanted, &mut found);
    }
    found
}

/// A list of descriptors, partly read.
struct Look {
    pid: i32,
    start: u64,
    entries: fs::ReadDir,
}

impl Look {
    /// None where the process is gone, or does not let itself be looked at.
    fn begin(process: &Member) -> Option<Self> {
        let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).ok()?;
        Some(Self {
            pid: process.pid,
            start: process.start,
            entries,
        })
    }

    /// Reads at most so many; how many it read.
    fn at_most(
        &mut self,
        most: usize,
        wanted: &BTreeSet<u64>,
        found: &mut BTreeMap<u64, Holder>,
    ) -> usize {
        let mut looked = 0;
        for entry in self.entries.by_ref().take(most) {
            looked += 1;
            let Ok(entry) = entry else {
                continue;
            };
            let inode = fs::read_link(entry.path())
                .ok()
                .and_then(|target| socket_inode(&target));
            let Some(inode) = inode.filter(|inode| wanted.contains(inode)) else {
                continue;
            };
            let holder = Holder {
                pid: self.pid,
                start: self.start,
                descriptor: entry.file_name().to_string_lossy().into_owned(),
                inode,
            };
            let longest = found.entry(inode).or_insert_with(|| holder.clone());
            if (holder.start, holder.pid) < (longest.start, longest.pid) {
                *longest = holder;
            }
        }
        looked
    }
}

/// What the process is, if it is still the one that was seen with the socket.
fn describe(holder: &Holder) -> Option<Connector> {
    let process = member(holder.pid)?;
    let path = |name: &str| fs::read_link(format!("/proc/{}/{name}", holder.pid)).ok();
    let connector = Connector {
        pid: holder.pid,
        parents: parents(process.ppid),
        executable: path("exe").map(|path| shortened(&path)),
        argv: command_line(holder.pid),
        cwd: path("cwd").map(|path| shortened(&path)),
        comm: process.comm,
    };
    let again = path(&format!("fd/{}", holder.descriptor)).and_then(|path| socket_inode(&path));
    let same = member(holder.pid).is_some_and(|it| it.start == holder.start)
        && process.start == holder.start
        && again == Some(holder.inode);
    same.then_some(connector)
}

fn shortened(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    String::from_utf8_lossy(bytes.get(..PATH_BYTES).unwrap_or(bytes)).into_owned()
}

fn parents(nearest: i32) -> Vec<String> {
    let guard = i32::try_from(std::process::id()).unwrap_or(1);
    let mut names = Vec::new();
    let mut next = nearest;
    while next > 1 && next != guard && names.len() < PARENTS {
        let Some(parent) = member(next) else { break };
        names.push(parent.comm);
        next = parent.ppid;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_connection_of_this_process_is_its_own_by_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_accepted, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        let question = |server| Connection {
            transport: Transport::Tcp,
            client: from,
            server,
        };
        let found = sockets(&[
            question(None),
            question(Some(listener.local_addr().unwrap())),
            question(Some("127.0.0.1:1".parse().unwrap())),
        ]);
        assert!(found[0].is_some());
        assert_eq!(found[0], found[1]);
        assert_eq!(found[2], None);
        let wanted = BTreeSet::from([found[0].unwrap()]);
        // This process stands for the guard, which is nobody's client.
        assert!(holders(&wanted).is_empty());
        let own = member(i32::try_from(std::process::id()).unwrap()).unwrap();
        let mut holders = BTreeMap::new();
        let look =
            |most, holders: &mut _| Look::begin(&own).unwrap().at_most(most, &wanted, holders);
        assert_eq!(look(2, &mut holders), 2);
        assert!(look(LINKS, &mut holders) > 2);
        let holder = &holders[&found[0].unwrap()];
        assert_eq!(holder.pid, own.pid);
        let connector = describe(holder).unwrap();
        assert!(connector.executable.unwrap().contains("kotak_guard"));
        assert!(!connector.argv.is_empty() && connector.cwd.is_some());
        // Gone meanwhile, or another process with its number.
        let other = Holder {
            start: holder.start + 1,
            ..holder.clone()
        };
        assert_eq!(describe(&other), None);
        drop(client);
        assert_eq!(describe(holder), None);
    }

    #[test]
    fn a_socket_that_sends_datagrams_is_found_connected_or_not() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(to).unwrap();
        let anywhere = UdpSocket::bind("0.0.0.0:0").unwrap();
        let from = |socket: &UdpSocket| {
            let port = socket.local_addr().unwrap().port();
            Connection {
                transport: Transport::Udp,
                client: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                server: Some(to),
            }
        };
        let found = sockets(&[from(&connected), from(&anywhere)]);
        assert!(found[0].is_some() && found[1].is_some() && found[0] != found[1]);
    }

    #[test]
    fn a_path_is_shortened() {
        let long = "x".repeat(PATH_BYTES + 10);
        assert_eq!(shortened(Path::new(&long)).len(), PATH_BYTES);
    }
}

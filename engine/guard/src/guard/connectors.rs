//! Who is at the other end of a connection: from its addresses to a socket (`/proc/net/tcp`,
//! proc_pid_net(5)), from the socket to the processes that hold it (`/proc/PID/fd`).
//!
//! Programs inside choose how many sockets, descriptors and processes there are, so everything is
//! bounded, and all the questions of one turn are answered by one look.

use super::processes::{Member, Scope, command_line, member, members};
use kotak_guard::proto::{Connection, Connector, Transport};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Most lines of one socket table.
const TABLE_LINES: usize = 65_536;

/// Longest line of a socket table; the kernel's have 150 to 200 bytes.
const LINE_BYTES: u64 = 1024;

/// Most descriptors looked at for one turn, and of one process in the first round: a process with
/// very many cannot hide the others.
const LINKS: usize = 65_536;
const LINKS_OF_ONE: usize = 4_096;

/// Most parents that are named.
const PARENTS: usize = 32;

/// Longest path that is reported, in bytes.
const PATH_BYTES: usize = 4096;

/// `LISTEN` in a socket table.
const LISTENING: u8 = 0x0a;

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
            read_table(table, |entry| {
                for (question, found) in questions.iter().zip(&mut found) {
                    if question.transport == transport && entry.is_client_of(question) {
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

/// One line of a socket table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    inode: u64,
}

impl Entry {
    fn is_client_of(&self, question: &Connection) -> bool {
        // A socket without an owner any more has inode 0.
        if self.inode == 0 || self.local.port() != question.client.port() {
            return false;
        }
        let client = question.client.ip().to_canonical();
        let remote = question
            .server
            .map(|it| (it.ip().to_canonical(), it.port()));
        match question.transport {
            Transport::Tcp => {
                self.state != LISTENING
                    && self.local.ip() == client
                    && remote.is_none_or(|it| it == (self.remote.ip(), self.remote.port()))
            }
            // Not connected, it has no remote end, and often no address.
            Transport::Udp => {
                let unconnected = self.remote.port() == 0;
                (self.local.ip() == client || self.local.ip().is_unspecified())
                    && (unconnected
                        || remote.is_none_or(|it| it == (self.remote.ip(), self.remote.port())))
            }
        }
    }
}

fn read_table(path: &str, mut each: impl FnMut(Entry)) {
    let Ok(file) = fs::File::open(path) else {
        return;
    };
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut line = Vec::new();
    for _ in 0..TABLE_LINES {
        line.clear();
        let mut bounded = std::io::Read::take(&mut reader, LINE_BYTES);
        match bounded.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if let Some(entry) = parse(&line) {
                    each(entry);
                }
            }
        }
    }
}

/// `sl: local remote state queues timer retransmits uid timeout inode …`; the heading is no entry.
fn parse(line: &[u8]) -> Option<Entry> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let local = address(fields.nth(1)?)?;
    let remote = address(fields.next()?)?;
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Entry {
        local,
        remote,
        state,
        inode,
    })
}

/// An address as the kernel prints it: 32-bit words in hexadecimal, each in the machine's order,
/// and the port. An IPv4 address in IPv6 becomes IPv4.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    let count = words.len() / 8;
    if !words.is_ascii() || words.len() % 8 != 0 || count > 4 {
        return None;
    }
    for (index, place) in bytes.chunks_exact_mut(4).take(count).enumerate() {
        let word = u32::from_str_radix(words.get(index * 8..index * 8 + 8)?, 16).ok()?;
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let ip = match count {
        1 => {
            let [a, b, c, d, ..] = bytes;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        4 => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
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

/// `socket:[INODE]`.
fn socket_inode(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
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
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn the_kernels_lines_are_read_and_others_are_none() {
        let local = if cfg!(target_endian = "little") {
            "0100007F"
        } else {
            "7F000001"
        };
        let line = format!(
            "   3: {local}:0C38 {local}:9D1E 01 00000000:00000000 00:00000000 00000000  1000        \
             0 4711 1 0000000000000000 20 4 30 10 -1\n"
        );
        let entry = parse(line.as_bytes()).unwrap();
        assert_eq!(entry.local, "127.0.0.1:3128".parse().unwrap());
        assert_eq!(entry.remote, "127.0.0.1:40222".parse().unwrap());
        assert_eq!((entry.state, entry.inode), (1, 4711));
        for wrong in [
            "",
            "  sl  local_address rem_address   st",
            "0: 0:0 0:0 01",
            "\u{ff}",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(address("é0000000:0000"), None);
        assert_eq!(address("000000000000000000000000:0000"), None);
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let word = |value: u32| format!("{:08X}", u32::from_ne_bytes(value.to_be_bytes()));
        let mapped = format!(
            "{}{}{}{}:0050",
            word(0),
            word(0),
            word(0xffff),
            word(0x7f00_0001)
        );
        assert_eq!(address(&mapped), Some("127.0.0.1:80".parse().unwrap()));
        let own = format!("{}{}{}{}:0050", word(0), word(0), word(0), word(1));
        assert_eq!(address(&own), Some("[::1]:80".parse().unwrap()));
    }

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
    fn a_path_is_shortened_and_a_link_to_something_else_is_no_socket() {
        let long = "x".repeat(PATH_BYTES + 10);
        assert_eq!(shortened(Path::new(&long)).len(), PATH_BYTES);
        assert_eq!(socket_inode(Path::new("socket:[12]")), Some(12));
        for other in ["pipe:[12]", "socket:[12", "socket:[x]", "/tmp/socket:[12]"] {
            assert_eq!(socket_inode(Path::new(other)), None);
        }
    }
}

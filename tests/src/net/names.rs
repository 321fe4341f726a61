//! The only name server of the stage (RFC 1035): it answers from a table and counts who was asked
//! for, so that a test can show that a name never left the machine.

use hickory_proto::op::{Message, MessageType, Metadata, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

/// Where `/etc/resolv.conf` of the stage points.
pub const NAME_SERVER: &str = "93.184.216.53:53";

/// What a name has: one list of addresses after another, the last one for good.
#[derive(Debug, Clone, Default)]
struct Entry {
    lists: Vec<Vec<IpAddr>>,
    /// How many A and AAAA queries there were: each kind has its turns.
    turns: [usize; 2],
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<String, Entry>,
    asked: HashMap<String, usize>,
}

/// The name server.
#[derive(Debug, Clone, Default)]
pub struct Names {
    table: Arc<Mutex<Table>>,
}

impl Names {
    /// Serves on [`NAME_SERVER`], over UDP and TCP, for the life of the process.
    ///
    /// # Panics
    /// When the address cannot be bound: the tests run outside of their stage.
    #[must_use]
    pub fn serve() -> Self {
        let names = Self::default();
        let udp = UdpSocket::bind(NAME_SERVER).expect("the name server's UDP socket");
        let tcp = TcpListener::bind(NAME_SERVER).expect("the name server's TCP socket");
        let datagrams = names.clone();
        std::thread::spawn(move || datagrams.serve_udp(&udp));
        let streams = names.clone();
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let names = streams.clone();
                std::thread::spawn(move || names.serve_tcp(stream));
            }
        });
        names
    }

    /// Gives a name its addresses.
    pub fn set(&self, name: &str, addresses: &[&str]) {
        self.set_turns(name, &[addresses]);
    }

    /// Gives a name one list after another: the first query of a kind is answered from the first,
    /// and so on; the last list stays.
    ///
    /// # Panics
    /// When something is not an address.
    pub fn set_turns(&self, name: &str, lists: &[&[&str]]) {
        let parse = |address: &&str| address.parse().expect("an address");
        let lists = lists
            .iter()
            .map(|list| list.iter().map(parse).collect())
            .collect();
        let entry = Entry {
            lists,
            turns: [0, 0],
        };
        self.locked().entries.insert(name.to_owned(), entry);
    }

    /// How many queries there were for a name.
    #[must_use]
    pub fn asked(&self, name: &str) -> usize {
        self.locked().asked.get(name).copied().unwrap_or_default()
    }

    /// Every name that was asked for and contains `part`.
    #[must_use]
    pub fn asked_with(&self, part: &str) -> Vec<String> {
        let table = self.locked();
        let names = table.asked.keys().filter(|name| name.contains(part));
        names.cloned().collect()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().expect("the table of names")
    }

    fn answer(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let query = Message::from_vec(bytes).ok()?;
        let question = query.queries.first()?;
        let name = question.name().to_ascii();
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let id = query.metadata.id;
        let mut answer = Message::new(id, MessageType::Response, query.metadata.op_code);
        answer.metadata = Metadata::response_from_request(&query.metadata);
        answer.metadata.recursion_available = true;
        answer.add_query(question.clone());
        match self.addresses(&name, question.query_type()) {
            None => answer.metadata.response_code = ResponseCode::NXDomain,
            Some(addresses) => {
                for address in addresses {
                    let data = match address {
                        IpAddr::V4(address) => RData::A(A(address)),
                        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
                    };
                    answer.add_answer(Record::from_rdata(question.name().clone(), 0, data));
                }
            }
        }
        answer.to_vec().ok()
    }

    /// Counts the query; `None` for a name that does not exist.
    fn addresses(&self, name: &str, kind: RecordType) -> Option<Vec<IpAddr>> {
        let mut table = self.locked();
        *table.asked.entry(name.to_owned()).or_default() += 1;
        let entry = table.entries.get_mut(name)?;
        let turn = match kind {
            RecordType::A => 0,
            RecordType::AAAA => 1,
            _ => return Some(Vec::new()),
        };
        let at = entry.turns.get_mut(turn)?;
        let list = entry.lists.get(*at).or(entry.lists.last())?;
        *at += 1;
        let fits = |address: &&IpAddr| address.is_ipv4() == (turn == 0);
        Some(list.iter().filter(fits).copied().collect())
    }

    fn serve_udp(&self, socket: &UdpSocket) {
        let mut buffer = [0; 4096];
        loop {
            // An error is that of an earlier answer to a client that is gone.
            let Ok((length, client)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            if let Some(answer) = buffer.get(..length).and_then(|bytes| self.answer(bytes)) {
                let _ = socket.send_to(&answer, client);
            }
        }
    }

    fn serve_tcp(&self, mut stream: std::net::TcpStream) {
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut bytes).is_err() {
                return;
            }
            let Some(answer) = self.answer(&bytes) else {
                return;
            };
            let size = u16::try_from(answer.len()).unwrap_or_default();
            let framed = [&size.to_be_bytes()[..], &answer].concat();
            if stream.write_all(&framed).is_err() {
                return;
            }
        }
    }

    /// Looks a name up as the engine does, through the system's resolver.
    ///
    /// # Errors
    /// What the resolver says.
    pub fn look_up(name: &str) -> std::io::Result<Vec<IpAddr>> {
        use std::net::ToSocketAddrs;
        let found = (name, 443).to_socket_addrs()?;
        let mut addresses: Vec<IpAddr> = found.map(|address: SocketAddr| address.ip()).collect();
        addresses.dedup();
        Ok(addresses)
    }
}

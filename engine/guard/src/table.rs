//! The kernel's socket tables (`/proc/net/tcp` and its like, proc_pid_net(5)), read by the guard
//! from inside and by the engine for a relay.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// Most lines of one table.
const TABLE_LINES: usize = 65_536;

/// Longest line of a table; the kernel's have 150 to 200 bytes.
const LINE_BYTES: u64 = 1024;

/// [`Entry::state`] of a socket that listens.
pub const LISTENING: u8 = 0x0a;

/// One socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its own end. An IPv4 address in IPv6 is given as IPv4, here and below.
    pub local: SocketAddr,
    /// The other end; all zero when there is none.
    pub remote: SocketAddr,
    /// TCP state (`include/net/tcp_states.h`).
    pub state: u8,
    /// Its inode, 0 when no process owns it any more.
    pub inode: u64,
}

/// Reads the entries of a table such as `/proc/net/tcp`, at most 65,536; none where it cannot be
/// read.
pub fn read_table(path: &Path, mut each: impl FnMut(Entry)) {
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

/// The inode in the target of a `/proc/PID/fd` link, `socket:[INODE]`.
#[must_use]
pub fn socket_inode(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_link_to_something_else_is_no_socket() {
        assert_eq!(socket_inode(Path::new("socket:[12]")), Some(12));
        for other in ["pipe:[12]", "socket:[12", "socket:[x]", "/tmp/socket:[12]"] {
            assert_eq!(socket_inode(Path::new(other)), None);
        }
    }
}

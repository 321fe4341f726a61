//! Names by the host's own resolver.

use super::gate::{Boxed, Resolve};
use crate::spec::HostName;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};

/// Where the system keeps names that are not asked for over the network.
const HOSTS: &str = if cfg!(windows) {
    r"C:\Windows\System32\drivers\etc\hosts"
} else {
    "/etc/hosts"
};

/// The host's resolver: its hosts file, then what `getaddrinfo(3)` asks.
///
/// The name is asked for as an absolute one (with its final dot), so that no search domain of the
/// host can turn the name that was judged into another. The C library looks an absolute name up
/// in no hosts file, so that is done here.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostResolver;

impl Resolve for HostResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        let name = name.to_string();
        // Both block, and one hop to a thread that may is enough.
        let looked_up = tokio::task::spawn_blocking(move || look_up(&name));
        Box::pin(async move { looked_up.await.map_err(io::Error::other)? })
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    if let Ok(text) = std::fs::read_to_string(HOSTS) {
        let addresses = in_hosts_file(&text, name);
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    let found = (format!("{name}."), 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// The addresses that a hosts file (hosts(5)) has for a name.
fn in_hosts_file(text: &str, name: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words
                .any(|word| word.eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::in_hosts_file;

    #[test]
    fn a_hosts_file_is_read_by_whole_names_without_comments() {
        let text = "127.0.0.1 localhost\n# 192.0.2.9 example.com\n203.0.113.1\tExample.com www # x\n\
                    2001:db8::1 example.com\nrubbish example.com\n192.0.2.1 notexample.com\n";
        assert_eq!(
            in_hosts_file(text, "example.com"),
            [
                "203.0.113.1".parse::<std::net::IpAddr>().unwrap(),
                "2001:db8::1".parse().unwrap()
            ]
        );
        assert!(in_hosts_file(text, "x").is_empty());
    }
}

//! How much one session may take of the engine.

use std::time::Duration;

/// Bounds of one pair, each of which holds against a hostile client, and what its ports speak.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once. More wait in the kernel's queue until one ends.
    pub connections: usize,
    /// Connections at once that have not yet said where to. One more ends the oldest of them, so
    /// that silent ones never stand in the way of others.
    pub silent: usize,
    /// Longest HTTP head, bytes.
    pub head_bytes: usize,
    /// Most headers of an HTTP head.
    pub head_fields: usize,
    /// From the first byte of a head, a SOCKS5 greeting or a DNS message to its last.
    pub head_time: Duration,
    /// Until the first byte of the first or next request.
    pub idle_time: Duration,
    /// Longest TLS ClientHello with its records, bytes: one record's worth. Post-quantum key shares
    /// take about 2 KiB, tickets and Encrypted ClientHello some more. Every connection at once may
    /// hold so much that is not whole.
    pub hello_bytes: usize,
    /// Until the ClientHello is whole.
    pub hello_time: Duration,
    /// From the last byte of a plain request to the head of its answer. Some answers take minutes
    /// to compute; none holds a connection for ever.
    pub answer_time: Duration,
    /// The same from when the client has ended its side: it may be one that only listens from then
    /// on, or one that is gone.
    pub half_closed_time: Duration,
    /// Until a name is resolved.
    pub resolve_time: Duration,
    /// Until one address answers.
    pub connect_time: Duration,
    /// Until the next address is tried beside the first (RFC 8305 §5 recommends 250 ms).
    pub next_address_after: Duration,
    /// Most addresses of one name that are tried.
    pub addresses: usize,
    /// Names that the DNS inside has an address for at once.
    pub names: u32,
    /// How long an answer of the DNS inside may be kept, seconds; so long its address is given to
    /// no other name.
    pub answer_seconds: u32,
    /// Ports on which nothing but TLS is spoken.
    pub tls_ports: Vec<u16>,
    /// Ports on which nothing but plain HTTP is spoken, through a tunnel as on the direct way: each
    /// request is judged by the host that it names.
    pub http_ports: Vec<u16>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            silent: 1024,
            head_bytes: 64 * 1024,
            head_fields: 128,
            head_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(120),
            hello_bytes: 16 * 1024,
            hello_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(600),
            half_closed_time: Duration::from_secs(60),
            resolve_time: Duration::from_secs(15),
            connect_time: Duration::from_secs(20),
            next_address_after: Duration::from_millis(250),
            addresses: 16,
            names: 65_536,
            answer_seconds: 30,
            tls_ports: vec![443],
            http_ports: vec![80],
        }
    }
}

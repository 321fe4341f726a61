//! A pair with a gate, a resolver, servers and clients for tests.

use crate::egress::decide::DenyReason;
use crate::egress::gate::{
    Attempt, Boxed, Closed, Gate, Meter, Pass, Refusal, Resolve, Route, Verdict,
};
use crate::egress::limits::Limits;
use crate::egress::pair::{Credentials, PairSockets, ProxyPair};
use crate::egress::stream::{Accept, Accepted};
use crate::spec::{Host, HostName};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::{Notify, watch};

/// Nothing here takes long; what hangs fails.
pub(super) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("it hangs")
}

/// What a gate was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Passed(Route, String),
    Refused(Route, String),
    Withdrawn(String),
    Answered(String),
    NotAnswered(String),
    Malformed(Route, String, String),
    Closed {
        target: String,
        how: Closed,
        up: u64,
        down: u64,
    },
}

/// A gate with a list of names, `*.` before one for those below it.
pub(super) struct TestGate {
    allowed: Vec<String>,
    /// What may be dialled although it is special.
    excepted: Vec<IpAddr>,
    /// Whether a judge waits for ever, as for an operator who does not answer.
    asks: bool,
    next: AtomicU64,
    seen: Mutex<Vec<Seen>>,
    cuts: Mutex<Vec<watch::Sender<bool>>>,
    changed: Notify,
}

impl TestGate {
    fn allows(&self, host: &Host) -> bool {
        let text = host.to_string();
        self.allowed
            .iter()
            .any(|entry| match entry.strip_prefix("*.") {
                Some(parent) => text
                    .strip_suffix(parent)
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
                None => *entry == text,
            })
    }

    fn note(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
        self.changed.notify_waiters();
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// All that was refused as malformed: route and detail.
    pub(super) fn malformed(&self) -> Vec<(Route, String)> {
        self.seen()
            .into_iter()
            .filter_map(|seen| match seen {
                Seen::Malformed(route, _, detail) => Some((route, detail)),
                _ => None,
            })
            .collect()
    }

    /// Waits until something was seen, and returns it.
    pub(super) async fn until<T>(&self, look: impl Fn(&[Seen]) -> Option<T>) -> T {
        within(async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = look(&self.seen()) {
                    return found;
                }
                changed.await;
            }
        })
        .await
    }

    /// Waits for the `count`th connection to end, and returns how.
    pub(super) async fn closed(&self, count: usize) -> (Closed, u64, u64) {
        self.until(|seen| {
            seen.iter()
                .filter_map(|seen| match seen {
                    Seen::Closed { how, up, down, .. } => Some((how.clone(), *up, *down)),
                    _ => None,
                })
                .nth(count)
        })
        .await
    }

    pub(super) fn cut_all(&self) {
        for cut in self.cuts.lock().unwrap().iter() {
            cut.send_replace(true);
        }
    }
}

/// Notes when a question is dropped unanswered.
struct Asking<'a>(&'a TestGate, String);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.note(Seen::Withdrawn(self.1.clone()));
    }
}

impl Gate for TestGate {
    fn judge(&self, attempt: Attempt) -> Boxed<'_, Verdict> {
        Box::pin(async move {
            let target = attempt.destination.to_string();
            if self.asks {
                let _asking = Asking(self, target);
                std::future::pending::<()>().await;
                unreachable!("nobody answers");
            }
            if !self.allows(&attempt.destination.host) {
                self.note(Seen::Refused(attempt.route, target.clone()));
                return Verdict::Refuse(Refusal {
                    reason: DenyReason::NotListed,
                    message: format!("{target} is not on the allowlist"),
                });
            }
            self.note(Seen::Passed(attempt.route, target));
            let (cut, receiver) = watch::channel(false);
            self.cuts.lock().unwrap().push(cut);
            Verdict::Pass(Pass {
                id: self.next.fetch_add(1, Ordering::Relaxed),
                destination: attempt.destination,
                excepted: self.excepted.clone(),
                meter: Arc::new(Meter::default()),
                cut: receiver,
            })
        })
    }

    fn answers(&self, name: &HostName, _client: Option<SocketAddr>) -> bool {
        let yes = self.allows(&Host::Name(name.clone()));
        self.note(if yes {
            Seen::Answered(name.to_string())
        } else {
            Seen::NotAnswered(name.to_string())
        });
        yes
    }

    fn malformed(&self, route: Route, _client: Option<SocketAddr>, seen: &str, detail: &str) {
        assert!(
            seen.is_ascii() || seen.ends_with('…'),
            "{seen:?} is escaped"
        );
        assert!(!seen.chars().any(char::is_control), "{seen:?} is escaped");
        self.note(Seen::Malformed(route, seen.to_owned(), detail.to_owned()));
    }

    fn closed(&self, pass: Pass, how: Closed) {
        self.note(Seen::Closed {
            target: pass.destination.to_string(),
            how,
            up: pass.meter.up.load(Ordering::Relaxed),
            down: pass.meter.down.load(Ordering::Relaxed),
        });
    }
}

/// Answers every name with the same addresses, and notes what was asked.
pub(super) struct TestResolver {
    addresses: Vec<IpAddr>,
    asked: Mutex<Vec<String>>,
}

impl TestResolver {
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for TestResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_string());
        Box::pin(async { Ok(self.addresses.clone()) })
    }
}

/// What a rig is made of.
pub(super) struct Plan {
    pub(super) allowed: Vec<String>,
    pub(super) excepted: Vec<IpAddr>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) asks: bool,
    pub(super) limits: Limits,
    pub(super) credentials: Option<Credentials>,
}

impl Plan {
    /// Allows these; every name stands for this machine, and may.
    pub(super) fn allowing(names: &[&str]) -> Self {
        Self {
            allowed: names.iter().map(|&name| name.to_owned()).collect(),
            excepted: vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            asks: false,
            limits: Limits {
                tls_ports: Vec::new(),
                http_ports: Vec::new(),
                ..Limits::default()
            },
            credentials: None,
        }
    }
}

/// A running pair and the way to its sockets.
pub(super) struct Rig {
    pub(super) gate: Arc<TestGate>,
    pub(super) resolver: Arc<TestResolver>,
    pub(super) http: SocketAddr,
    pub(super) socks: SocketAddr,
    pub(super) dns_udp: SocketAddr,
    pub(super) dns_tcp: SocketAddr,
    transparent: SocketAddr,
    meant: Arc<Mutex<HashMap<u16, SocketAddr>>>,
    pub(super) pair: ProxyPair,
}

/// Listens on the loopback network as if it were on the addresses of the pool: which one a client
/// meant is looked up by its port.
struct Transparent {
    listener: TcpListener,
    meant: Arc<Mutex<HashMap<u16, SocketAddr>>>,
}

impl Accept for Transparent {
    fn accept(&mut self) -> Boxed<'_, io::Result<Accepted>> {
        Box::pin(async move {
            let mut accepted = Accept::accept(&mut self.listener).await?;
            let port = accepted.client.unwrap().port();
            accepted.local = self.meant.lock().unwrap().get(&port).copied();
            Ok(accepted)
        })
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

impl Rig {
    pub(super) async fn allowing(names: &[&str]) -> Self {
        Self::start(Plan::allowing(names)).await
    }

    pub(super) async fn start(plan: Plan) -> Self {
        let gate = Arc::new(TestGate {
            allowed: plan.allowed,
            excepted: plan.excepted,
            asks: plan.asks,
            next: AtomicU64::new(1),
            seen: Mutex::default(),
            cuts: Mutex::default(),
            changed: Notify::new(),
        });
        let resolver = Arc::new(TestResolver {
            addresses: plan.addresses,
            asked: Mutex::default(),
        });
        let ((http, http_at), (socks, socks_at)) = (listener().await, listener().await);
        let ((dns_tcp, dns_tcp_at), (other, other_at)) = (listener().await, listener().await);
        let dns_udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let dns_udp_at = dns_udp.local_addr().unwrap();
        let meant = Arc::<Mutex<HashMap<_, _>>>::default();
        let transparent = Transparent {
            listener: other,
            meant: Arc::clone(&meant),
        };
        let sockets = PairSockets {
            http: vec![Box::new(http)],
            socks: vec![Box::new(socks)],
            dns_udp: vec![dns_udp],
            dns_tcp: vec![Box::new(dns_tcp)],
            transparent: vec![Box::new(transparent)],
            credentials: plan.credentials,
        };
        let pair = ProxyPair::start(
            Arc::<TestGate>::clone(&gate),
            Arc::<TestResolver>::clone(&resolver),
            sockets,
            plan.limits,
        );
        Self {
            gate,
            resolver,
            http: http_at,
            socks: socks_at,
            dns_udp: dns_udp_at,
            dns_tcp: dns_tcp_at,
            transparent: other_at,
            meant,
            pair,
        }
    }

    /// A connection to the HTTP proxy that has sent these bytes.
    pub(super) async fn http(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.http).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        stream
    }

    /// A tunnel by CONNECT, or the answer that refused it.
    pub(super) async fn connect(&self, target: &str) -> Result<TcpStream, Response> {
        let mut stream = self
            .http(format!(
                "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
            ))
            .await;
        let head = read_head(&mut stream).await;
        if head.starts_with("HTTP/1.1 200 ") {
            return Ok(stream);
        }
        Err(Response::rest_of(head, &mut stream, "CONNECT").await)
    }

    /// A tunnel by SOCKS5, or the reply that refused it.
    pub(super) async fn socks(&self, host: &[u8], port: u16) -> Result<TcpStream, u8> {
        let mut request = vec![5, 1, 0, 3, u8::try_from(host.len()).unwrap()];
        request.extend_from_slice(host);
        request.extend_from_slice(&port.to_be_bytes());
        self.socks_bytes(&request).await
    }

    /// The same, with a request of the test's own.
    pub(super) async fn socks_bytes(&self, request: &[u8]) -> Result<TcpStream, u8> {
        let mut stream = TcpStream::connect(self.socks).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        within(stream.read_exact(&mut method)).await.unwrap();
        assert_eq!(method, [5, 0]);
        stream.write_all(request).await.unwrap();
        let mut reply = [0; 10];
        within(stream.read_exact(&mut reply)).await.unwrap();
        assert_eq!(reply[0], 5);
        assert_eq!(reply[2..], [0, 1, 0, 0, 0, 0, 0, 0]);
        if reply[1] == 0 {
            Ok(stream)
        } else {
            Err(reply[1])
        }
    }

    /// A connection as of a program that ignores proxies.
    pub(super) async fn transparent(&self, meant: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = socket.local_addr().unwrap().port();
        self.meant.lock().unwrap().insert(port, meant);
        socket.connect(self.transparent).await.unwrap()
    }

    /// What DNS inside answers for the address of a name.
    pub(super) async fn lookup(&self, name: &str) -> Option<Ipv4Addr> {
        use hickory_proto::op::{Message, Query};
        use hickory_proto::rr::{Name, RData, RecordType};
        let mut query = Message::query();
        query.add_query(Query::query(Name::from_ascii(name).ok()?, RecordType::A));
        let answer = self.ask(&query.to_vec().unwrap()).await;
        let answer = Message::from_vec(&answer).unwrap();
        answer.answers.first().map(|record| match &record.data {
            RData::A(address) => address.0,
            other => panic!("{other} is no address"),
        })
    }

    /// A datagram to DNS inside, and its answer.
    pub(super) async fn ask(&self, query: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.send_to(query, self.dns_udp).await.unwrap();
        let mut answer = vec![0; 4096];
        let length = within(socket.recv(&mut answer)).await.unwrap();
        answer.truncate(length);
        answer
    }
}

/// A response as a client reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// The next response to a request of this method.
    pub(super) async fn read(stream: &mut TcpStream, method: &str) -> Self {
        let head = read_head(stream).await;
        Self::rest_of(head, stream, method).await
    }

    async fn rest_of(head: String, stream: &mut TcpStream, method: &str) -> Self {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let lower = head.to_ascii_lowercase();
        let mut body = Vec::new();
        if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
        } else if lower.contains("transfer-encoding: chunked") {
            loop {
                let line = read_line(stream).await;
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                within(stream.read_exact(&mut chunk)).await.unwrap();
                assert_eq!(&chunk[size..], b"\r\n");
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        } else if let Some(length) = lower.split("content-length: ").nth(1) {
            body = vec![0; length.split('\r').next().unwrap().parse().unwrap()];
            within(stream.read_exact(&mut body)).await.unwrap();
        } else {
            within(stream.read_to_end(&mut body)).await.unwrap();
        }
        Self { status, head, body }
    }

    pub(super) fn has(&self, line: &str) -> bool {
        self.head
            .lines()
            .any(|seen| seen.eq_ignore_ascii_case(line))
    }
}

/// Up to the empty line.
pub(super) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    loop {
        let line = read_line(stream).await;
        head.push_str(&line);
        if line == "\r\n" {
            return head;
        }
        assert!(!line.is_empty(), "the connection closed after {head:?}");
    }
}

async fn read_line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        match within(stream.read_u8()).await {
            Ok(byte) => line.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(line).unwrap()
}

/// Up to the end, whether in order or not.
pub(super) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end too; what came before it counts.
    let _ = within(stream.read_to_end(&mut bytes)).await;
    bytes
}

/// A server that sends back what it gets.
pub(super) async fn echo() -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

/// A server that answers every connection's first request with the same bytes and closes, and
/// keeps what it read.
pub(super) struct Canned {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    pub(super) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let (listener, address) = listener().await;
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let answer = answer.into();
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), answer.clone());
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !complete(&request) {
                        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            break;
                        }
                    }
                    kept.lock()
                        .unwrap()
                        .push(String::from_utf8_lossy(&request).into_owned());
                    let _ = stream.write_all(&answer).await;
                    let _ = stream.shutdown().await;
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                });
            }
        });
        Self { address, requests }
    }

    /// Says hello with a length.
    pub(super) async fn hello() -> Self {
        Self::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Whether a request is whole, as a simple server sees it.
fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    head.split("content-length: ")
        .nth(1)
        .and_then(|length| length.split('\r').next()?.parse::<usize>().ok())
        .is_none_or(|length| body.len() >= length)
}

/// A port on which nothing listens.
pub(super) async fn closed_port() -> u16 {
    listener().await.1.port()
}

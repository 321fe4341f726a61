//! A pair with a gate, a resolver, servers and clients for tests.

use super::peers::{Response, listener, read_head};
use crate::egress::decide::DenyReason;
use crate::egress::gate::{
    Attempt, Boxed, Closed, Ends, Gate, Leaves, Meter, Pass, Refusal, Resolve, Route, Verdict,
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
    /// Whether a denial comes only once the client has ended its side.
    hesitates: bool,
    /// The ends of every attempt's connection.
    ends: Mutex<Vec<Option<Ends>>>,
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

    pub(super) fn ends(&self) -> Vec<Option<Ends>> {
        self.ends.lock().unwrap().clone()
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
    fn judge(&self, attempt: Attempt, leaves: Leaves) -> Boxed<'_, Verdict> {
        Box::pin(async move {
            let target = attempt.destination.to_string();
            self.ends.lock().unwrap().push(attempt.ends);
            if self.asks {
                let _asking = Asking(self, target.clone());
                leaves.gone().await;
                return Verdict::Refuse(Refusal {
                    reason: DenyReason::Timeout,
                    message: format!("nobody answered about {target}"),
                });
            }
            if !self.allows(&attempt.destination.host) {
                if self.hesitates {
                    leaves.gone().await;
                }
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

    fn answers(&self, name: &HostName, _ends: Option<Ends>) -> bool {
        let yes = self.allows(&Host::Name(name.clone()));
        self.note(if yes {
            Seen::Answered(name.to_string())
        } else {
            Seen::NotAnswered(name.to_string())
        });
        yes
    }

    fn malformed(&self, route: Route, _ends: Option<Ends>, seen: &str, detail: &str) {
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

    fn settled(&self, _id: u64) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
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
    pub(super) hesitates: bool,
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
            hesitates: false,
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

impl Rig {
    pub(super) async fn allowing(names: &[&str]) -> Self {
        Self::start(Plan::allowing(names)).await
    }

    pub(super) async fn start(plan: Plan) -> Self {
        let gate = Arc::new(TestGate {
            allowed: plan.allowed,
            excepted: plan.excepted,
            asks: plan.asks,
            hesitates: plan.hesitates,
            ends: Mutex::default(),
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
        let mut stream = self.socks_with(request).await;
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

    /// A connection to the SOCKS5 proxy that has sent this request.
    pub(super) async fn socks_with(&self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.socks).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        within(stream.read_exact(&mut method)).await.unwrap();
        assert_eq!(method, [5, 0]);
        stream.write_all(request).await.unwrap();
        stream
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

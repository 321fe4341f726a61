//! Hostile clients: bounded, timed out, and in nobody's way.

use super::peers::{Response, echo, read_to_end};
use super::rig::{Plan, Rig, within};
use crate::egress::decide::Destination;
use crate::egress::first_bytes::FirstBytes;
use crate::egress::gate::{Attempt, Gate, Route};
use crate::egress::limits::Limits;
use crate::egress::stream::split;
use crate::egress::ticket::judge;
use crate::egress::tls::HelloError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[tokio::test]
async fn a_head_without_an_end_and_ten_thousand_headers_are_refused() {
    let rig = Rig::allowing(&["example.com"]).await;
    let endless = vec![b'a'; 65 * 1024];
    let mut stream = rig.http(&endless).await;
    assert_eq!(Response::read(&mut stream, "GET").await.status, 431);
    let mut many = "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n".to_owned();
    for number in 0..10_000 {
        many.push_str(&format!("a{number}: b\r\n"));
    }
    many.push_str("\r\n");
    let mut stream = TcpStream::connect(rig.http).await.unwrap();
    // The rest may meet a closed connection.
    let _ = stream.write_all(many.as_bytes()).await;
    assert_eq!(Response::read(&mut stream, "GET").await.status, 431);
    let mut short = "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n".to_owned();
    short.push_str(&"a: b\r\n".repeat(200));
    let mut stream = rig.http(short + "\r\n").await;
    assert_eq!(
        Response::read(&mut stream, "GET").await.status,
        431,
        "200 short headers"
    );
    assert_eq!(rig.gate.malformed().len(), 3);
}

#[tokio::test]
async fn a_client_that_sends_a_byte_now_and_then_is_timed_out() {
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.head_time = Duration::from_millis(200);
    let rig = Rig::start(plan).await;
    let mut stream = rig.http("").await;
    let (mut reader, mut writer) = stream.split();
    let drip = async {
        for byte in b"GET http://example.com/ HTTP/1.1\r\n".iter().cycle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        () = drip => {}
        read = within(reader.read_to_end(&mut answer)) => { let _ = read; }
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 408 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(rig.gate.malformed()[0].0, Route::Http);
}

#[tokio::test]
async fn silent_clients_of_every_port_are_closed_in_time_and_not_put_down() {
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.head_time = Duration::from_millis(50);
    plan.limits.idle_time = Duration::from_millis(50);
    let rig = Rig::start(plan).await;
    for address in [rig.http, rig.socks, rig.dns_tcp] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    assert!(rig.gate.seen().is_empty());
}

/// Allows as many open files as the system lets this process have.
#[cfg(unix)]
fn many_files() -> u64 {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = hard.min(16_384);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    wanted
}

#[cfg(unix)]
#[tokio::test]
async fn two_thousand_silent_connections_are_in_nobodys_way() {
    const SILENT: usize = 2000;
    assert!(
        many_files() > 2 * 2 * u64::try_from(SILENT).unwrap(),
        "too few open files allowed"
    );
    let server = echo().await;
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.connections = 300;
    plan.limits.silent = 100;
    let rig = Rig::start(plan).await;
    let target = format!("example.com:{}", server.port());
    let mut open = vec![rig.connect(&target).await.unwrap()];
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let address = if number % 2 == 0 { rig.http } else { rig.socks };
        silent.push(within(TcpStream::connect(address)).await.unwrap());
        if number % 200 == 0 {
            open.push(rig.connect(&target).await.unwrap());
        }
    }
    open.push(rig.connect(&target).await.unwrap());
    for stream in &mut open {
        stream.write_all(b"x").await.unwrap();
        assert_eq!(within(stream.read_u8()).await.unwrap(), b'x');
    }
    // Those that came first were sent away; the last ones still may speak.
    assert_eq!(read_to_end(&mut silent[0]).await, b"");
    let last = silent.last_mut().unwrap();
    last.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    within(last.read_exact(&mut method)).await.unwrap();
    assert_eq!(method, [5, 0]);
}

#[tokio::test]
async fn past_the_limit_connections_wait_and_none_is_lost() {
    const LIMIT: usize = 8;
    let server = echo().await;
    let mut plan = Plan::allowing(&["example.com"]);
    plan.limits.connections = LIMIT;
    let rig = Arc::new(Rig::start(plan).await);
    let target = format!("example.com:{}", server.port());
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut all = JoinSet::new();
    for _ in 0..40 {
        let (rig, target) = (Arc::clone(&rig), target.clone());
        let (open, most) = (Arc::clone(&open), Arc::clone(&most));
        all.spawn(async move {
            let mut stream = rig.connect(&target).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            assert_eq!(within(stream.read_u8()).await.unwrap(), b'x');
            most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Held, so that others must wait for its place.
            tokio::time::sleep(Duration::from_millis(20)).await;
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
    let mut done = 0;
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
        done += 1;
    }
    assert_eq!(done, 40);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=LIMIT).contains(&most), "{most} were open at once");
}

/// What one connection may take of memory while it waits: thousands do at once.
const WAITING: usize = 8 * 1024;
/// The same with a ClientHello that is not whole, and what was read with its last byte.
const HELLO: usize = (16 + 4) * 1024;

#[tokio::test]
async fn a_client_that_sends_while_it_is_judged_takes_little() {
    let mut plan = Plan::allowing(&[]);
    plan.asks = true;
    let rig = Rig::start(plan).await;
    let gate = Arc::clone(&rig.gate) as Arc<dyn Gate>;
    let (mut client, server) = tokio::io::duplex(1024 * 1024);
    client.write_all(&vec![b'x'; 1024 * 1024]).await.unwrap();
    let (mut reader, _writer) = split(Box::new(server));
    let attempt = Attempt {
        destination: Destination::parse("new.example", Some(443)).unwrap(),
        route: Route::Connect,
        ends: None,
    };
    tokio::select! {
        biased;
        _ = judge(&gate, attempt, &mut reader) => panic!("nobody answers"),
        // Everything is there already: it is read as far as it will ever be.
        () = async { for _ in 0..1000 { tokio::task::yield_now().await } } => {}
    }
    assert!(!reader.ahead().is_empty());
    assert!(reader.memory() <= WAITING, "{}", reader.memory());
}

#[tokio::test]
async fn a_client_hello_that_is_not_whole_takes_little() {
    let host = crate::spec::Host::parse("example.com").unwrap();
    // A message of 16 000 bytes: in records of one byte each, in large ones, and of 60 000.
    let message = [&[1, 0, 0x3e, 0x80][..], &[0; 16_000]].concat();
    let long = [&[1, 0, 0xea, 0x60][..], &[0; 60_000]].concat();
    for (message, size) in [(&message, 1), (&long, 1), (&long, 16_000)] {
        let bytes = super::hello::records(message, size);
        let (mut client, server) = tokio::io::duplex(bytes.len());
        client.write_all(&bytes).await.unwrap();
        let (mut reader, _writer) = split(Box::new(server));
        let limits = Limits::default();
        let checked = FirstBytes::Tls.check(&mut reader, &host, &limits).await;
        let limit = limits.hello_bytes;
        assert_eq!(checked, Err(HelloError::TooLong { limit }), "{size}");
        assert!(reader.memory() <= HELLO, "{size}: {}", reader.memory());
    }
}

#[tokio::test]
async fn a_dns_message_that_is_no_question_is_not_waited_for() {
    let rig = Rig::allowing(&["example.com"]).await;
    let mut stream = TcpStream::connect(rig.dns_tcp).await.unwrap();
    stream.write_all(&[0xff, 0xff]).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, b"");
    assert_eq!(rig.gate.malformed()[0].0, Route::Dns);
}

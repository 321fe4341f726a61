//! Connections through grants, on real sockets of the loopback. REQ EG-12.

use super::*;
use crate::egress::forward::{CONNECTIONS, Forward, Reach};
use crate::egress::stream::{Accept, Duplex};
use crate::spec::ForwardDirection;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server on the loopback.
struct To(SocketAddr);

impl Reach for To {
    fn reach(&self) -> Boxed<'_, io::Result<Box<dyn Duplex>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(self.0).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

struct Way {
    test: Fixture,
    forward: Forward,
    /// Where connections to the forward are made.
    at: SocketAddr,
    server: TcpListener,
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn ends(direction: ForwardDirection, restriction: Restriction) -> Way {
    let test = fixture(rules(restriction, &[]), at_once());
    let (listener, at) = listener().await;
    let (server, to) = self::listener().await;
    let way = GrantedWay {
        direction,
        target: "127.0.0.1:5432".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 5432,
        route: Route::Forward,
        address: Some("127.0.0.1".parse().unwrap()),
        words: "a port".to_owned(),
    };
    let network = Arc::clone(&test.network);
    let listener: Box<dyn Accept> = Box::new(listener);
    let forward = Forward::start(listener, Arc::new(To(to)), network, way);
    Way {
        test,
        forward,
        at,
        server,
    }
}

/// The row of the one connection, once it is as wanted.
async fn row(test: &Fixture, wanted: impl Fn(&ActivityRow) -> bool) -> ActivityRow {
    loop {
        if let Some(row) = test.rows().into_iter().find(&wanted) {
            return row;
        }
        tokio::task::yield_now().await;
    }
}

fn is_over(row: &ActivityRow) -> bool {
    row.outcome != Outcome::Open
}

#[tokio::test]
async fn a_connection_out_goes_both_ways_to_its_end_and_is_put_down_as_granted() {
    // Even where the network is off: the grant alone decides.
    let ends = ends(ForwardDirection::Out, Restriction::Off).await;
    let mut client = TcpStream::connect(ends.at).await.unwrap();
    client.write_all(b"query").await.unwrap();
    // The client is done; the server still answers.
    client.shutdown().await.unwrap();
    let (mut server, _) = ends.server.accept().await.unwrap();
    let mut asked = String::new();
    server.read_to_string(&mut asked).await.unwrap();
    assert_eq!(asked, "query");
    server.write_all(b"the answer").await.unwrap();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "the answer");
    let row = row(&ends.test, |row| is_over(row) && row.process.is_some()).await;
    assert_eq!(row.outcome, Outcome::Allowed);
    assert_eq!(row.action, "network-outbound");
    assert_eq!(
        (row.target.as_str(), row.why.as_str()),
        ("127.0.0.1:5432", "your grant")
    );
    let detail = row.connection.unwrap();
    assert_eq!((detail.bytes_up, detail.bytes_down), (5, 10));
    assert_eq!(detail.route, Route::Forward);
    assert_eq!(detail.address.as_deref(), Some("127.0.0.1"));
    let allowed = detail.allowed.unwrap();
    assert_eq!((allowed.source, allowed.rule), (Source::Grant, None));
    assert_eq!(ends.test.network.counts().refused, 0);
}

#[tokio::test]
async fn a_connection_in_counts_what_comes_from_the_sandbox_as_up_and_has_no_process_inside() {
    let ends = ends(ForwardDirection::In, Restriction::Allowlist).await;
    let mut browser = TcpStream::connect(ends.at).await.unwrap();
    browser.write_all(b"GET").await.unwrap();
    let (mut server, _) = ends.server.accept().await.unwrap();
    let mut asked = [0; 3];
    server.read_exact(&mut asked).await.unwrap();
    server.write_all(b"page").await.unwrap();
    drop(server);
    let mut page = String::new();
    browser.read_to_string(&mut page).await.unwrap();
    assert_eq!(page, "page");
    drop(browser);
    let row = row(&ends.test, is_over).await;
    assert_eq!(row.action, "network-inbound");
    // Whoever has that address inside did not make it.
    assert_eq!(row.process, None);
    let detail = row.connection.unwrap();
    assert_eq!((detail.bytes_up, detail.bytes_down), (4, 3));
}

#[tokio::test]
async fn a_revoked_grant_cuts_what_is_open_and_takes_no_more() {
    let ends = ends(ForwardDirection::Out, Restriction::Allowlist).await;
    let mut client = TcpStream::connect(ends.at).await.unwrap();
    let (mut server, _) = ends.server.accept().await.unwrap();
    server.write_all(b"x").await.unwrap();
    client.read_exact(&mut [0]).await.unwrap();
    assert_eq!(ends.forward.open(), 1);
    ends.forward.revoke().await;
    let end = client.read(&mut [0]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let end = server.read(&mut [0]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let refused = TcpStream::connect(ends.at).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let row = row(&ends.test, is_over).await;
    assert_eq!(row.raw.as_deref(), Some("the grant was revoked"));
    let denied = row.connection.unwrap().denied;
    assert_eq!(denied, Some(DenyReason::Cut));
    // It had passed.
    assert_eq!(row.outcome, Outcome::Allowed);
    assert_eq!(ends.test.network.open_connections(), 0);
}

#[tokio::test]
async fn one_connection_is_cut_and_the_others_stay() {
    let ends = ends(ForwardDirection::Out, Restriction::Allowlist).await;
    let mut first = TcpStream::connect(ends.at).await.unwrap();
    let (_first_server, _) = ends.server.accept().await.unwrap();
    let number = row(&ends.test, |row| row.connection.is_some()).await;
    let number = number.connection.unwrap().connection;
    let mut second = TcpStream::connect(ends.at).await.unwrap();
    let (mut second_server, _) = ends.server.accept().await.unwrap();
    assert!(ends.test.network.cut(number));
    let end = first.read(&mut [0]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    second_server.write_all(b"y").await.unwrap();
    second.read_exact(&mut [0]).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_put_down_as_that() {
    let Way {
        test,
        forward: _forward,
        at,
        server,
    } = ends(ForwardDirection::Out, Restriction::Allowlist).await;
    drop(server);
    let mut client = TcpStream::connect(at).await.unwrap();
    let end = client.read(&mut [0]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let row = row(&test, is_over).await;
    assert_eq!(row.outcome, Outcome::Failed);
    let raw = row.raw.unwrap();
    assert!(raw.contains("127.0.0.1:5432 could not be reached"), "{raw}");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_until_one_ends() {
    let ends = ends(ForwardDirection::Out, Restriction::Allowlist).await;
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(TcpStream::connect(ends.at).await.unwrap());
        servers.push(ends.server.accept().await.unwrap().0);
    }
    // The kernel takes it; nobody joins it.
    let mut late = TcpStream::connect(ends.at).await.unwrap();
    late.write_all(b"late").await.unwrap();
    let open = u32::try_from(CONNECTIONS).unwrap();
    assert_eq!(ends.test.network.open_connections(), open);
    drop((clients.pop(), servers.pop()));
    let (mut server, _) = ends.server.accept().await.unwrap();
    let mut said = [0; 4];
    server.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"late");
}

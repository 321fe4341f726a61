//! Clients and servers for tests.

use super::rig::within;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A listener on a free port.
pub(super) async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
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

    pub(super) async fn rest_of(head: String, stream: &mut TcpStream, method: &str) -> Self {
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

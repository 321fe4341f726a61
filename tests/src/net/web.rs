//! Web sites of every name: HTTP/1.1 and HTTP/2, with and without TLS.

use super::authority::Authority;
use super::body::{Generated, hex};
use super::git::Repositories;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, LOCATION, UPGRADE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

type Page = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A request that reached a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The host that it named, lower case, without a port.
    pub host: String,
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The server's address that it came to.
    pub address: SocketAddr,
    /// Whether it came over TLS, and which name the client had asked for there.
    pub server_name: Option<String>,
}

/// What the sites share.
#[derive(Debug, Default)]
pub struct Sites {
    hits: Mutex<Vec<Hit>>,
    files: Mutex<HashMap<String, (&'static str, Bytes)>>,
    /// Repositories under `/git/`.
    pub repositories: Mutex<Option<Arc<Repositories>>>,
}

impl Sites {
    /// The requests that reached a server for this host.
    ///
    /// # Panics
    /// When another test of this process failed in the middle of writing one down.
    #[must_use]
    pub fn hits(&self, host: &str) -> Vec<Hit> {
        let hits = self.hits.lock().expect("the hits");
        hits.iter()
            .filter(|hit| hit.host == host || hit.server_name.as_deref() == Some(host))
            .cloned()
            .collect()
    }

    /// Puts a file at a path of every site.
    ///
    /// # Panics
    /// As [`Self::hits`].
    pub fn put(&self, path: &str, kind: &'static str, bytes: impl Into<Bytes>) {
        let mut files = self.files.lock().expect("the files");
        files.insert(path.to_owned(), (kind, bytes.into()));
    }

    /// Serves plain HTTP.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let address = local(&stream);
            tokio::spawn(Arc::clone(&self).connection(stream, address, None));
        }
    }

    /// Serves HTTPS with a certificate for whatever name is asked for.
    pub async fn serve_tls(self: Arc<Self>, listener: TcpListener, authority: Arc<Authority>) {
        let acceptor = TlsAcceptor::from(authority.server(&["h2", "http/1.1"]));
        while let Ok((stream, _)) = listener.accept().await {
            let address = local(&stream);
            let (sites, acceptor) = (Arc::clone(&self), acceptor.clone());
            tokio::spawn(async move {
                // A client that gives up, or that another test cut off, is no failure of ours.
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let name = stream.get_ref().1.server_name().map(str::to_owned);
                let name = name.unwrap_or_default();
                sites.connection(stream, address, Some(name)).await;
            });
        }
    }

    async fn connection<S>(
        self: Arc<Self>,
        stream: S,
        address: SocketAddr,
        server_name: Option<String>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request: Request<Incoming>| {
            let sites = Arc::clone(&self);
            let server_name = server_name.clone();
            async move {
                sites.note(&request, address, server_name);
                Ok::<_, Infallible>(sites.page(request).await)
            }
        });
        // As above: how a connection ends is for the client to judge.
        let _ = Builder::new(TokioExecutor::new())
            .serve_connection_with_upgrades(TokioIo::new(stream), service)
            .await;
    }

    fn note(&self, request: &Request<Incoming>, address: SocketAddr, server_name: Option<String>) {
        let target = request.uri().path_and_query();
        let hit = Hit {
            host: host_of(request),
            method: request.method().to_string(),
            target: target.map(ToString::to_string).unwrap_or_default(),
            address,
            server_name,
        };
        self.hits.lock().expect("the hits").push(hit);
    }

    async fn page(&self, request: Request<Incoming>) -> Response<Page> {
        let path = request.uri().path().to_owned();
        let file = self.files.lock().expect("the files").get(&path).cloned();
        if let Some((kind, bytes)) = file {
            let mut response = Response::new(full(bytes));
            set(&mut response, CONTENT_TYPE, kind);
            return response;
        }
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        match (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        ) {
            ("", "") => text(format!("hello from {}\n", host_of(&request))),
            ("redirect", _) => {
                let mut response = status(StatusCode::FOUND);
                set(
                    &mut response,
                    LOCATION,
                    request.uri().query().unwrap_or_default(),
                );
                response
            }
            ("bytes", length) => length.parse().map_or_else(
                |_| status(StatusCode::BAD_REQUEST),
                |length| Response::new(Generated::new(length).map_err(Into::into).boxed_unsync()),
            ),
            ("upload", _) => text(receive(request.into_body()).await),
            ("echo", _) => Response::new(request.into_body().map_err(Into::into).boxed_unsync()),
            ("wait", millis) => {
                tokio::time::sleep(Duration::from_millis(millis.parse().unwrap_or(0))).await;
                text("waited\n".to_owned())
            }
            ("websocket", _) => websocket(request),
            ("grpc", _) => grpc(request).await,
            ("git", _) => {
                let repositories = self.repositories.lock().expect("the repositories").clone();
                match repositories {
                    Some(repositories) => repositories.answer(request).await.map(full),
                    None => status(StatusCode::NOT_FOUND),
                }
            }
            _ => status(StatusCode::NOT_FOUND),
        }
    }
}

fn local(stream: &TcpStream) -> SocketAddr {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    stream
        .local_addr()
        .unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

/// The host that a request names, without its port.
fn host_of(request: &Request<Incoming>) -> String {
    let header = || request.headers().get(HOST).and_then(|h| h.to_str().ok());
    let authority = request.uri().authority().map(|a| a.as_str());
    let whole = authority.or_else(header).unwrap_or_default();
    let host = match whole.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => whole,
    };
    host.to_ascii_lowercase()
}

fn full(bytes: Bytes) -> Page {
    Full::new(bytes).map_err(Into::into).boxed_unsync()
}

fn text(text: String) -> Response<Page> {
    Response::new(full(text.into()))
}

fn status(code: StatusCode) -> Response<Page> {
    let mut response = text(format!("{code}\n"));
    *response.status_mut() = code;
    response
}

fn set(response: &mut Response<Page>, name: hyper::header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Takes a body in; says how long it was, and its SHA-256.
async fn receive(mut body: Incoming) -> String {
    let (mut length, mut hash) = (0, Sha256::new());
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            length += data.len();
            hash.update(&data);
        }
    }
    format!("{length} {}\n", hex(&hash.finalize()))
}

/// Answers as a gRPC server does: what came, as it came, and the status in the trailers.
async fn grpc(request: Request<Incoming>) -> Response<Page> {
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    let Ok(message) = request.into_body().collect().await else {
        return status(StatusCode::BAD_REQUEST);
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [
        Ok(Frame::data(message.to_bytes())),
        Ok(Frame::trailers(trailers)),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames));
    let mut response = Response::new(body.boxed_unsync());
    if let Some(kind) = kind {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// Accepts a WebSocket (RFC 6455) and echoes its messages.
fn websocket(mut request: Request<Incoming>) -> Response<Page> {
    let Some(key) = request.headers().get("sec-websocket-key") else {
        return status(StatusCode::UPGRADE_REQUIRED);
    };
    let accept = derive_accept_key(key.as_bytes());
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else {
            return;
        };
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            let echo = message.is_text() || message.is_binary();
            if echo && socket.send(message).await.is_err() {
                return;
            }
        }
    });
    let mut response = status(StatusCode::SWITCHING_PROTOCOLS);
    *response.body_mut() = full(Bytes::new());
    set(&mut response, CONNECTION, "upgrade");
    set(&mut response, UPGRADE, "websocket");
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        response
            .headers_mut()
            .insert("sec-websocket-accept", accept);
    }
    response
}

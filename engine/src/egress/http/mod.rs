//! The HTTP proxy: CONNECT, and plain requests, each judged by itself (REQ EG-1, EG-3).

mod body;
mod exchange;
pub mod head;
mod reply;
#[cfg(test)]
mod tests;

use self::exchange::Next;
use self::head::{HeadError, RequestHead, Target};
use self::reply::Reply;
use super::decide::{DenyReason, Destination};
use super::dial::{DialError, dial};
use super::first_bytes::FirstBytes;
use super::gate::{Attempt, Ends, Refusal, Route};
use super::pair::Shared;
use super::relay::{counted, relay};
use super::slots::Slot;
use super::stream::{Accepted, ClientReader, ClientWriter, seen, split};
use super::ticket::{Judged, Ticket, judge};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What a connection is to the client.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// A proxy that it knows of.
    Proxy,
    /// The server itself: by the address that DNS inside gave it, or at the end of a tunnel.
    Server {
        /// Which server: each request must name it.
        destination: Destination,
        /// How the connection came.
        route: Route,
    },
}

/// One connection.
struct Connection<'a> {
    shared: &'a Shared,
    role: Role,
    ends: Option<Ends>,
    reader: ClientReader,
    writer: ClientWriter,
    /// What a tunnel was opened to; the first request of the tunnel takes it.
    ready: Option<Ready>,
}

/// A destination that was judged and reached.
type Ready = (TcpStream, Ticket);

/// Serves one connection.
pub(super) async fn serve(shared: &Shared, accepted: Accepted, slot: Slot, role: Role) {
    let ends = accepted.ends();
    let (reader, writer) = split(accepted.stream);
    let connection = Connection {
        shared,
        role,
        ends,
        reader,
        writer,
        ready: None,
    };
    connection.serve(slot).await;
}

/// Serves a tunnel on a port of plain HTTP. One destination may serve many names on one address,
/// and takes the name from each request, so a tunnel does not carry what the direct way would
/// refuse (REQ EG-3).
pub(super) async fn serve_tunnel(
    shared: &Shared,
    (reader, writer): (ClientReader, ClientWriter),
    ends: Option<Ends>,
    slot: Slot,
    (route, ready): (Route, Ready),
) {
    let connection = Connection {
        shared,
        role: Role::end_of(route, &ready),
        ends,
        reader,
        writer,
        ready: Some(ready),
    };
    connection.serve(slot).await;
}

impl Role {
    fn end_of(route: Route, (_, ticket): &Ready) -> Self {
        Self::Server {
            destination: ticket.destination.clone(),
            route,
        }
    }
}
impl Connection<'_> {
    async fn serve(mut self, slot: Slot) {
        while let Some(head) = self.next_head(&slot).await {
            match self.answer(head).await {
                Next::KeepAlive => {}
                Next::Close => return,
                Next::Tunnel(tunnel) => {
                    let (server, ticket, first) = *tunnel;
                    let client = (self.reader, self.writer);
                    return relay(client, server, ticket, first, &self.shared.limits).await;
                }
            }
        }
    }

    /// The next request; `None` when there is none, or none that can be served.
    async fn next_head(&mut self, slot: &Slot) -> Option<RequestHead> {
        let limits = &self.shared.limits;
        self.reader.rest();
        let silent = slot.silent();
        let read = async {
            if self.reader.ahead().is_empty() {
                match tokio::time::timeout(limits.idle_time, self.reader.fill()).await {
                    Ok(Ok(1..)) => {}
                    Ok(Ok(_) | Err(_)) | Err(_) => return Ok(None),
                }
            }
            tokio::time::timeout(
                limits.head_time,
                read_head(&mut self.reader, limits.head_bytes),
            )
            .await
            .unwrap_or(Err(ReadError::Slow))
        };
        let cut = self.ready.as_ref().map(|(_, ticket)| ticket.cut());
        let cut = async {
            match cut {
                Some(cut) => cut.await,
                None => std::future::pending().await,
            }
        };
        let read = tokio::select! {
            biased;
            () = silent.sent_away() => return None,
            () = cut => {
                if let Some((_, ticket)) = self.ready.take() {
                    ticket.refuse(DenyReason::Cut, "the operator cut it").await;
                }
                return None;
            }
            read = read => read,
        };
        drop(silent);
        let (status, error) = match read {
            Ok(None) => return None,
            Ok(Some(bytes)) => match RequestHead::parse(&bytes, limits.head_fields) {
                Ok(head) => return Some(head),
                Err(error) => {
                    self.malformed(&bytes, &error.to_string());
                    (status_for(&error), error.to_string())
                }
            },
            Err(ReadError::Head(error)) => {
                self.malformed(self.reader.ahead(), &error.to_string());
                (status_for(&error), error.to_string())
            }
            Err(ReadError::Slow) => {
                let detail = "the head did not come in time";
                self.malformed(self.reader.ahead(), detail);
                (408, detail.to_owned())
            }
        };
        self.refuse_last(status, error).await;
        None
    }

    fn malformed(&self, bytes: &[u8], detail: &str) {
        let route = match self.role {
            Role::Server { route, .. } => route,
            Role::Proxy if bytes.starts_with(b"CONNECT ") => Route::Connect,
            Role::Proxy => Route::Http,
        };
        let line = bytes
            .split(|&byte| byte == b'\n')
            .next()
            .unwrap_or_default();
        let shown = seen(line.strip_suffix(b"\r").unwrap_or(line));
        self.shared.gate.malformed(route, self.ends, &shown, detail);
    }

    async fn refuse_last(&mut self, status: u16, message: String) -> Next {
        let reply = Reply {
            status,
            reason: Some(DenyReason::Malformed),
            message,
            keep: false,
            head_only: false,
        };
        reply.send_last(&mut self.reader, &mut self.writer).await;
        Next::Close
    }

    /// Judges one request and answers it.
    async fn answer(&mut self, head: RequestHead) -> Next {
        let proxy = matches!(self.role, Role::Proxy);
        let credentials = self.shared.credentials.as_ref().filter(|_| proxy);
        if !credentials.is_none_or(|known| known.are_in(&head.fields)) {
            let reply = Reply {
                status: 407,
                reason: None,
                message: "this proxy serves its own session only".to_owned(),
                keep: false,
                head_only: head.method == "HEAD",
            };
            reply.send_last(&mut self.reader, &mut self.writer).await;
            return Next::Close;
        }
        let (route, destination, path) = match (&self.role, &head.target) {
            (Role::Proxy, Target::Connect(destination)) => {
                (Route::Connect, destination.clone(), None)
            }
            (Role::Proxy, Target::Absolute(destination, path)) => {
                (Route::Http, destination.clone(), Some(path.clone()))
            }
            (
                Role::Server { destination, route },
                Target::Origin(path) | Target::Absolute(_, path),
            ) if head.host.as_ref() == Some(destination) => {
                (*route, destination.clone(), Some(path.clone()))
            }
            (Role::Proxy, Target::Origin(_)) => {
                let detail = "this is a proxy: the request names no http:// address";
                return self.wrong(&head, detail).await;
            }
            (Role::Server { .. }, Target::Connect(_)) => {
                return self.wrong(&head, "CONNECT where no proxy is").await;
            }
            (Role::Server { .. }, Target::Origin(_) | Target::Absolute(..)) => {
                let detail = "the Host header names another host than the connection is for";
                return self.wrong(&head, detail).await;
            }
        };
        if let (Some((server, ticket)), Some(path)) = (self.ready.take(), &path) {
            // Judged and reached when the tunnel was opened.
            return self.exchange(head, path, server, ticket).await;
        }
        let attempt = Attempt {
            destination,
            route,
            ends: self.ends,
        };
        // It may wait for long.
        self.reader.rest();
        let mut ticket = match judge(&self.shared.gate, attempt, &mut self.reader).await {
            Judged::Pass(ticket) => *ticket,
            Judged::Refuse(refusal) => return self.refuse(&head, refusal).await,
        };
        let server = dial(
            &mut ticket,
            self.shared.resolver.as_ref(),
            &self.shared.limits,
        )
        .await;
        match (server, path) {
            (Err(error), _) => {
                ticket.close(error.closed()).await;
                self.unreached(&head, &error).await
            }
            (Ok(server), None) => self.tunnel(server, ticket).await,
            (Ok(server), Some(path)) => self.exchange(head, &path, server, ticket).await,
        }
    }

    /// Puts down a request that is well-formed and out of place.
    async fn wrong(&mut self, head: &RequestHead, detail: &str) -> Next {
        let target = match &head.target {
            Target::Connect(destination) | Target::Absolute(destination, _) => {
                destination.to_string()
            }
            Target::Origin(path) => path.clone(),
        };
        let host = head
            .host
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let shown = format!("{} {target} (Host: {host})", head.method);
        self.malformed(shown.as_bytes(), detail);
        self.refuse_last(400, detail.to_owned()).await
    }

    /// 403. The connection stays when nothing of the request is left in it.
    async fn refuse(&mut self, head: &RequestHead, refusal: Refusal) -> Next {
        let plain = !matches!(head.target, Target::Connect(_));
        let empty = head.framing == head::Framing::Empty;
        let keep = plain && empty && head.keeps_alive();
        let reply = Reply {
            status: 403,
            reason: Some(refusal.reason),
            message: refusal.message,
            keep,
            head_only: head.method == "HEAD",
        };
        if !keep {
            reply.send_last(&mut self.reader, &mut self.writer).await;
            return Next::Close;
        }
        if reply.send(&mut self.writer).await {
            Next::KeepAlive
        } else {
            Next::Close
        }
    }

    /// Allowed, and not reached; or refused by its address.
    async fn unreached(&mut self, head: &RequestHead, error: &DialError) -> Next {
        let status = match error.refused() {
            Some(_) => 403,
            None if error.timed_out() => 504,
            None => 502,
        };
        let reply = Reply {
            status,
            reason: error.refused(),
            message: error.told(),
            keep: false,
            head_only: head.method == "HEAD",
        };
        reply.send_last(&mut self.reader, &mut self.writer).await;
        Next::Close
    }

    /// The client learns of the tunnel only once it stands.
    async fn tunnel(&mut self, server: TcpStream, ticket: Ticket) -> Next {
        let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
        if self.writer.write_all(established).await.is_err() {
            ticket.done();
            return Next::Close;
        }
        let port = ticket.destination.port;
        if self.shared.limits.http_ports.contains(&port) {
            let ready = (server, ticket);
            self.role = Role::end_of(Route::Connect, &ready);
            self.ready = Some(ready);
            return Next::KeepAlive;
        }
        let first = FirstBytes::on_port(port, &self.shared.limits);
        let server = counted(server, &ticket);
        Next::Tunnel(Box::new((server, ticket, first)))
    }
}

fn status_for(error: &HeadError) -> u16 {
    match error {
        HeadError::TooLong(_) | HeadError::TooManyFields(_) => 431,
        HeadError::Bytes(_)
        | HeadError::Syntax(_)
        | HeadError::Version
        | HeadError::Target(_)
        | HeadError::Destination(_)
        | HeadError::Host(_)
        | HeadError::Framing(_) => 400,
    }
}

/// Why a head was not read.
enum ReadError {
    /// It is none.
    Head(HeadError),
    /// It did not come in time.
    Slow,
}

/// Reads one head; `None` when the stream ends or fails first. Empty lines before a request are
/// skipped (RFC 9112 §2.2).
async fn read_head(reader: &mut ClientReader, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
    const EMPTY_LINES: usize = 2;
    for _ in 0..EMPTY_LINES {
        if reader.ahead() == b"\r" && !matches!(reader.fill().await, Ok(1..)) {
            return Ok(None);
        }
        if reader.ahead().starts_with(b"\r\n") {
            reader.consume(2);
        }
    }
    exchange::read_whole_head(reader, limit).await
}

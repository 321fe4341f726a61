//! One plain request and its response.

use super::super::decide::DenyReason;
use super::super::first_bytes::FirstBytes;
use super::super::gate::Closed;
use super::super::relay::{ServerReader, ServerWriter, counted};
use super::super::stream::{ClientWriter, ReadAhead};
use super::super::ticket::Ticket;
use super::body::{BodyError, pump};
use super::head::{
    Framing, HeadError, RequestHead, ResponseHead, Scanner, request_to_server, response_to_client,
};
use super::reply::Reply;
use super::{Connection, ReadError};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::TcpStream;

/// What becomes of the connection.
pub(super) enum Next {
    /// It takes the next request.
    KeepAlive,
    /// It ends.
    Close,
    /// It carries bytes from now on.
    Tunnel(Box<((ServerReader, ServerWriter), Ticket, FirstBytes)>),
}

/// How the response went.
enum Answered {
    /// Whole; the connection may stay.
    Whole { keep: bool },
    /// To a WebSocket.
    Upgraded,
    /// The client went away.
    ClientGone,
    /// The destination did not answer, or not in HTTP; the client was told nothing yet.
    Unanswered(String),
    /// The destination broke off within its answer.
    BrokenOff,
}

/// How the request went.
enum Asked {
    /// Whole, or the destination stopped reading: its answer says why.
    Sent,
    /// The client went away.
    ClientGone,
    /// The client's body is broken.
    Broken(&'static str),
}

impl Connection<'_> {
    /// Passes one request on and its response back.
    pub(super) async fn exchange(
        &mut self,
        head: RequestHead,
        path: &str,
        server: TcpStream,
        ticket: Ticket,
    ) -> Next {
        let (mut server_reader, mut server_writer) = counted(server, &ticket);
        let request = request_to_server(&head, &ticket.destination, path);
        let limits = &self.shared.limits;
        let mut started = false;
        let outcome = {
            let up = ask(&head, &request, &mut self.reader, &mut server_writer);
            let down = answer(
                &head,
                &mut server_reader,
                &mut self.writer,
                limits,
                &mut started,
            );
            tokio::pin!(up, down);
            let mut sent = false;
            loop {
                tokio::select! {
                    biased;
                    () = ticket.cut() => break Outcome::Cut,
                    asked = &mut up, if !sent => match asked {
                        Asked::Sent => sent = true,
                        Asked::ClientGone => break Outcome::Answered(Answered::ClientGone),
                        Asked::Broken(what) => break Outcome::Broken(what),
                    },
                    answered = &mut down => break match answered {
                        // What is left of the request would be taken for the next one.
                        Answered::Whole { keep } => {
                            Outcome::Answered(Answered::Whole { keep: keep && sent })
                        }
                        other => Outcome::Answered(other),
                    },
                }
            }
        };
        match outcome {
            Outcome::Answered(Answered::Whole { keep }) => {
                ticket.done();
                if keep {
                    return Next::KeepAlive;
                }
                // The client may still be sending: it reads the answer all the same.
                super::reply::end(&mut self.reader, &mut self.writer).await;
                Next::Close
            }
            Outcome::Answered(Answered::Upgraded) => Next::Tunnel(Box::new((
                (server_reader, server_writer),
                ticket,
                FirstBytes::Checked,
            ))),
            Outcome::Answered(Answered::ClientGone | Answered::BrokenOff) => {
                ticket.done();
                Next::Close
            }
            Outcome::Answered(Answered::Unanswered(detail)) => {
                let failed = Closed::Failed {
                    detail: detail.clone(),
                };
                ticket.close(failed).await;
                self.last(502, None, detail, head.method == "HEAD").await
            }
            Outcome::Broken(what) => {
                ticket.refuse(DenyReason::Protocol, what).await;
                if started {
                    return Next::Close;
                }
                self.last(400, Some(DenyReason::Protocol), what.to_owned(), false)
                    .await
            }
            Outcome::Cut => {
                ticket.refuse(DenyReason::Cut, "the operator cut it").await;
                Next::Close
            }
        }
    }

    async fn last(
        &mut self,
        status: u16,
        reason: Option<DenyReason>,
        message: String,
        head_only: bool,
    ) -> Next {
        let reply = Reply {
            status,
            reason,
            message,
            keep: false,
            head_only,
        };
        reply.send_last(&mut self.reader, &mut self.writer).await;
        Next::Close
    }
}

enum Outcome {
    Answered(Answered),
    Broken(&'static str),
    Cut,
}

/// Sends the request.
async fn ask<R: AsyncRead + Unpin>(
    head: &RequestHead,
    request: &[u8],
    client: &mut ReadAhead<R>,
    server: &mut ServerWriter,
) -> Asked {
    if server.write_all(request).await.is_err() {
        return Asked::Sent;
    }
    let chunked = head.framing == Framing::Chunked;
    match pump(head.framing, client, server, chunked).await {
        Ok(()) | Err(BodyError::Write) => Asked::Sent,
        Err(BodyError::Read) => Asked::ClientGone,
        Err(BodyError::Chunks(what)) => Asked::Broken(what),
    }
}

/// Passes the response back; interim ones (RFC 9110 §15.2) before it.
async fn answer(
    request: &RequestHead,
    server: &mut ServerReader,
    client: &mut ClientWriter,
    limits: &super::super::limits::Limits,
    started: &mut bool,
) -> Answered {
    loop {
        let read = read_whole_head(server, limits.head_bytes).await;
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                return Answered::Unanswered("the destination closed without an answer".to_owned());
            }
            Err(ReadError::Head(error)) => return Answered::Unanswered(unreadable(&error)),
            Err(ReadError::Slow) => {
                return Answered::Unanswered("the destination did not answer in time".to_owned());
            }
        };
        let head = match ResponseHead::parse(&bytes, limits.head_fields, &request.method) {
            Ok(head) => head,
            Err(error) => return Answered::Unanswered(unreadable(&error)),
        };
        match head.status {
            101 if !request.wants_websocket() => {
                return Answered::Unanswered(
                    "the destination changed the protocol unasked".to_owned(),
                );
            }
            100..=199 if head.status != 101 && !request.modern => continue,
            _ => {}
        }
        // What ends with the connection is sent on in chunks, so that an answer that broke off is
        // told from one that ended. HTTP/1.0 knows no chunks.
        let framing = match head.framing {
            Framing::UntilEnd | Framing::Chunked if request.modern => Framing::Chunked,
            Framing::Chunked => Framing::UntilEnd,
            other => other,
        };
        let keep = request.keeps_alive() && framing != Framing::UntilEnd;
        *started = true;
        if client
            .write_all(&response_to_client(&head, framing, keep))
            .await
            .is_err()
        {
            return Answered::ClientGone;
        }
        match head.status {
            101 => return Answered::Upgraded,
            100..=199 => {}
            _ => {
                let chunked = framing == Framing::Chunked;
                return match pump(head.framing, server, client, chunked).await {
                    Ok(()) => Answered::Whole { keep },
                    Err(BodyError::Write) => Answered::ClientGone,
                    Err(BodyError::Read | BodyError::Chunks(_)) => Answered::BrokenOff,
                };
            }
        }
    }
}

fn unreadable(error: &HeadError) -> String {
    format!("the destination's answer cannot be read: {error}")
}

/// Reads one head; `None` when the stream ends or fails first.
pub(super) async fn read_whole_head<R: AsyncRead + Unpin>(
    reader: &mut ReadAhead<R>,
    limit: usize,
) -> Result<Option<Vec<u8>>, ReadError> {
    let mut scanner = Scanner::new(limit);
    loop {
        match scanner.scan(reader.ahead()) {
            Ok(Some(length)) => return Ok(Some(reader.take(length))),
            Ok(None) => {}
            Err(error) => return Err(ReadError::Head(error)),
        }
        if !matches!(reader.fill().await, Ok(1..)) {
            return Ok(None);
        }
    }
}

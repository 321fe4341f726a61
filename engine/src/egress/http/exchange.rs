//! One plain request and its response.

use super::super::decide::DenyReason;
use super::super::first_bytes::FirstBytes;
use super::super::limits::Limits;
use super::super::relay::{ServerReader, ServerWriter, counted};
use super::super::stream::{ClientReader, ClientWriter, ReadAhead};
use super::super::ticket::{EAGER, Ticket};
use super::body::{BodyError, pump};
use super::head::{
    Framing, HeadError, RequestHead, ResponseHead, Scanner, request_to_server, response_to_client,
};
use super::reply::Reply;
use super::{Connection, ReadError};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

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
    /// The destination did not answer, or not in HTTP; the client was told nothing yet, and gets
    /// this status.
    Unanswered(u16, String),
    /// The destination broke off within its answer.
    BrokenOff,
}

/// Why a request was not sent.
enum Unsent {
    /// The client went away.
    ClientGone,
    /// The client's body is broken.
    Broken(&'static str),
}

/// What of a request matters to its answer. The head itself is not kept while that is awaited.
struct Asked {
    method: String,
    modern: bool,
    keep: bool,
    websocket: bool,
}

impl Asked {
    fn by(head: &RequestHead) -> Self {
        Self {
            method: head.method.clone(),
            modern: head.modern,
            keep: head.keeps_alive(),
            websocket: head.wants_websocket(),
        }
    }
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
        let (framing, asked) = (head.framing, Asked::by(&head));
        drop(head);
        let limits = &self.shared.limits;
        let mut started = false;
        let whole = AtomicBool::new(false);
        let (sent, was_sent) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let outcome = {
            let up = async {
                match ask(framing, request, &mut self.reader, &mut server_writer).await {
                    Ok(all) => whole.store(all, Ordering::Relaxed),
                    Err(unsent) => return unsent,
                }
                // Whoever listens ends with this.
                let _ = sent.send(());
                gone(&mut self.reader, ended).await;
                Unsent::ClientGone
            };
            let late = late(limits, was_sent, has_ended);
            tokio::pin!(up, late);
            let down = answer(
                &asked,
                &mut server_reader,
                &mut self.writer,
                (limits, late),
                &mut started,
            );
            tokio::pin!(down);
            tokio::select! {
                biased;
                () = ticket.cut() => Outcome::Cut,
                unsent = &mut up => match unsent {
                    Unsent::ClientGone => Outcome::Answered(Answered::ClientGone),
                    Unsent::Broken(what) => Outcome::Broken(what),
                },
                answered = &mut down => match answered {
                    // What is left of the request would be taken for the next one.
                    Answered::Whole { keep } => {
                        let keep = keep && whole.load(Ordering::Relaxed);
                        Outcome::Answered(Answered::Whole { keep })
                    }
                    other => Outcome::Answered(other),
                },
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
            Outcome::Answered(Answered::Unanswered(status, detail)) => {
                ticket.fail(detail.clone()).await;
                self.last(status, None, detail, asked.method == "HEAD")
                    .await
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

/// Sends the request; whether the whole of it. A destination that stops reading says why in its
/// answer.
async fn ask<R: AsyncRead + Unpin>(
    framing: Framing,
    request: Vec<u8>,
    client: &mut ReadAhead<R>,
    server: &mut ServerWriter,
) -> Result<bool, Unsent> {
    if server.write_all(&request).await.is_err() {
        return Ok(false);
    }
    drop(request);
    match pump(framing, client, server, framing == Framing::Chunked).await {
        Ok(()) => Ok(true),
        Err(BodyError::Write) => Ok(false),
        Err(BodyError::Read) => Err(Unsent::ClientGone),
        Err(BodyError::Chunks(what)) => Err(Unsent::Broken(what)),
    }
}

/// Comes when a client whose answer is awaited is gone for certain. An end of its input is told,
/// and is no such certainty. What it sends waits for its turn, within bounds.
async fn gone(client: &mut ClientReader, ended: oneshot::Sender<()>) {
    while client.ahead().len() < EAGER {
        match client.fill().await {
            Ok(0) => {
                let _ = ended.send(());
                break;
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
    std::future::pending().await
}

/// Comes when the head of the answer is late.
async fn late(limits: &Limits, sent: oneshot::Receiver<()>, ended: oneshot::Receiver<()>) {
    let half_closed = async {
        match ended.await {
            Ok(()) => tokio::time::sleep(limits.half_closed_time).await,
            Err(_) => std::future::pending().await,
        }
    };
    match sent.await {
        Ok(()) => tokio::select! {
            () = tokio::time::sleep(limits.answer_time) => {}
            () = half_closed => {}
        },
        Err(_) => std::future::pending().await,
    }
}

/// Passes the response back; interim ones (RFC 9110 §15.2) before it.
async fn answer(
    asked: &Asked,
    server: &mut ServerReader,
    client: &mut ClientWriter,
    (limits, mut late): (&Limits, Pin<&mut impl Future<Output = ()>>),
    started: &mut bool,
) -> Answered {
    loop {
        let read = tokio::select! {
            biased;
            read = read_whole_head(server, limits.head_bytes) => read,
            () = late.as_mut() => Err(ReadError::Slow),
        };
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                return unanswered("the destination closed without an answer");
            }
            Err(ReadError::Head(error)) => return unreadable(&error),
            Err(ReadError::Slow) => {
                let detail = "the destination did not answer in time";
                return Answered::Unanswered(504, detail.to_owned());
            }
        };
        let head = match ResponseHead::parse(&bytes, limits.head_fields, &asked.method) {
            Ok(head) => head,
            Err(error) => return unreadable(&error),
        };
        match head.status {
            101 if !asked.websocket => {
                return unanswered("the destination changed the protocol unasked");
            }
            100..=199 if head.status != 101 && !asked.modern => continue,
            _ => {}
        }
        // What ends with the connection is sent on in chunks, so that an answer that broke off is
        // told from one that ended. HTTP/1.0 knows no chunks.
        let framing = match head.framing {
            Framing::UntilEnd | Framing::Chunked if asked.modern => Framing::Chunked,
            Framing::Chunked => Framing::UntilEnd,
            other => other,
        };
        let keep = asked.keep && framing != Framing::UntilEnd;
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

fn unanswered(detail: impl Into<String>) -> Answered {
    Answered::Unanswered(502, detail.into())
}

fn unreadable(error: &HeadError) -> Answered {
    unanswered(format!("the destination's answer cannot be read: {error}"))
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

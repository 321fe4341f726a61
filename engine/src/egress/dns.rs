//! DNS inside the sandbox (RFC 1035): answers from the private pool, and asks nobody. Whatever a
//! query says, nothing of it leaves the machine.

use super::gate::{Ends, Gate, Route};
use super::pair::Shared;
use super::pool::Pool;
use super::slots::Slot;
use super::stream::{Accepted, seen, split};
use crate::spec::{Host, HostName};
use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use std::time::Instant;
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

/// Longest UDP message that is taken, and that clients are told of (DNS flag day 2020).
const UDP_PAYLOAD: u16 = 1232;
/// Longest TCP message that is waited for: one question takes a few hundred bytes.
const TCP_MESSAGE: u16 = 4096;
/// Bytes of a header.
const HEADER: usize = 12;

/// What a query is answered from.
pub struct Zone<'a> {
    /// Says which names may be known.
    pub gate: &'a dyn Gate,
    /// Gives them addresses.
    pub pool: &'a Pool,
    /// How long an answer may be kept, seconds.
    pub answer_seconds: u32,
}

/// The answer to a message, or `None` when it deserves none: an answer, or less than a header.
#[must_use]
pub fn answer(zone: &Zone<'_>, bytes: &[u8], ends: Option<Ends>) -> Option<Vec<u8>> {
    let (&[id_high, id_low, flags, ..], true) = (bytes.first_chunk::<3>()?, bytes.len() >= HEADER)
    else {
        return None;
    };
    if flags & 0x80 != 0 {
        // An answer; to answer it could begin an endless exchange.
        return None;
    }
    let answer = match Message::from_vec(bytes) {
        Ok(query) => answer_query(zone, &query, ends),
        Err(error) => {
            let detail = format!("a DNS message that cannot be read: {error}");
            zone.gate.malformed(Route::Dns, ends, &seen(bytes), &detail);
            let id = u16::from_be_bytes([id_high, id_low]);
            Message::error_msg(id, OpCode::Query, ResponseCode::FormErr)
        }
    };
    answer.to_vec().ok()
}

fn answer_query(zone: &Zone<'_>, query: &Message, ends: Option<Ends>) -> Message {
    let mut answer = Message::new(
        query.metadata.id,
        MessageType::Response,
        query.metadata.op_code,
    );
    answer.metadata = Metadata::response_from_request(&query.metadata);
    answer.metadata.authoritative = true;
    answer.metadata.recursion_available = true;
    answer.add_queries(query.queries.iter().cloned());
    let mut extended = query.edns.as_ref().map(|_| Edns::new());
    if let Some(edns) = &mut extended {
        edns.set_max_payload(UDP_PAYLOAD);
    }
    answer.edns = extended;
    answer.metadata.response_code = if query.version() > 0 {
        ResponseCode::BADVERS
    } else if query.metadata.op_code != OpCode::Query {
        ResponseCode::NotImp
    } else if let [question] = query.queries.as_slice() {
        answer_question(zone, question, ends, &mut answer)
    } else {
        let detail = "a DNS query without exactly one question";
        zone.gate.malformed(Route::Dns, ends, "", detail);
        ResponseCode::FormErr
    };
    answer
}

fn answer_question(
    zone: &Zone<'_>,
    question: &Query,
    ends: Option<Ends>,
    answer: &mut Message,
) -> ResponseCode {
    let class = question.query_class();
    if !matches!(class, DNSClass::IN | DNSClass::ANY) {
        return ResponseCode::NotImp;
    }
    if question.query_type() == RecordType::PTR && question.name().parse_arpa_name().is_ok() {
        // The name of an address: no host is asked for, and no address here has another name.
        return ResponseCode::NXDomain;
    }
    let name = match host_name(question.name()) {
        Ok(name) => name,
        Err((shown, detail)) => {
            zone.gate.malformed(Route::Dns, ends, &shown, &detail);
            return ResponseCode::NXDomain;
        }
    };
    if !zone.gate.answers(&name, ends) {
        return ResponseCode::NXDomain;
    }
    if question.query_type() == RecordType::A {
        let Some(address) = zone.pool.address_of(&name, Instant::now()) else {
            tracing::warn!(%name, "the address pool of the session is used up");
            return ResponseCode::ServFail;
        };
        let owner = question.name().clone();
        let data = RData::A(A(address));
        answer.add_answer(Record::from_rdata(owner, zone.answer_seconds, data));
    }
    ResponseCode::NoError
}

/// The name as a host, or what stood there and why it is none.
fn host_name(name: &Name) -> Result<HostName, (String, String)> {
    let labels: Vec<&[u8]> = name.iter().collect();
    let shown = || seen(&labels.join(b".".as_slice()));
    let bad = labels.iter().any(|label| label.contains(&b'.'));
    if bad || labels.is_empty() {
        return Err((shown(), "a DNS name that is no host".to_owned()));
    }
    let text = String::from_utf8(labels.join(b".".as_slice()))
        .map_err(|_| (shown(), "a DNS name that is not text".to_owned()))?;
    match Host::parse(&text) {
        Ok(Host::Name(name)) => Ok(name),
        Ok(Host::Ip(_)) => Err((shown(), "an address, asked for as a DNS name".to_owned())),
        Err(error) => Err((shown(), error.to_string())),
    }
}

impl Shared {
    fn zone(&self) -> Zone<'_> {
        Zone {
            gate: self.gate.as_ref(),
            pool: &self.pool,
            answer_seconds: self.limits.answer_seconds,
        }
    }
}

/// Answers datagrams for ever.
pub(super) async fn serve_udp(shared: &Shared, socket: UdpSocket) {
    let local = socket.local_addr().ok();
    let mut buffer = vec![0; 65_536];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, client)) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                let ends = Some(Ends { client, local });
                let Some(answer) = answer(&shared.zone(), bytes, ends) else {
                    continue;
                };
                if let Err(error) = socket.send_to(&answer, client).await {
                    tracing::debug!(%error, "could not send a DNS answer");
                }
            }
            Err(error) => {
                // The answer to a client that is gone comes back as an error of the next call.
                tracing::debug!(%error, "could not receive a DNS query");
                tokio::time::sleep(super::accepting::AFTER_ERROR).await;
            }
        }
    }
}

/// Answers the messages of one connection (RFC 7766).
pub(super) async fn serve_tcp(shared: &Shared, accepted: Accepted, slot: Slot) {
    let ends = accepted.ends();
    let (mut reader, mut writer) = split(accepted.stream);
    loop {
        let silent = slot.silent();
        let read = async {
            reader.need(2).await?;
            let length = reader
                .ahead()
                .first_chunk()
                .map_or(0, |length| u16::from_be_bytes(*length));
            if length > TCP_MESSAGE {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            reader.need(2 + usize::from(length)).await?;
            reader.consume(2);
            Ok::<_, std::io::Error>(reader.take(usize::from(length)))
        };
        let message = tokio::select! {
            biased;
            () = silent.sent_away() => return,
            read = tokio::time::timeout(shared.limits.head_time, read) => match read {
                Ok(Ok(message)) => message,
                Ok(Err(error)) => {
                    if error.kind() == std::io::ErrorKind::InvalidData {
                        let shown = seen(reader.ahead());
                        let detail = "a DNS message of more than 4 KiB";
                        shared.gate.malformed(Route::Dns, ends, &shown, detail);
                    }
                    return;
                }
                Err(_) => return,
            },
        };
        drop(silent);
        let Some(answer) = answer(&shared.zone(), &message, ends) else {
            return;
        };
        let Ok(length) = u16::try_from(answer.len()) else {
            return;
        };
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        if writer.write_all(&framed).await.is_err() {
            return;
        }
    }
}

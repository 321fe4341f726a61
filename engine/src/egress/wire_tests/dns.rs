//! DNS inside.

use super::rig::{Plan, Rig, Seen, within};
use crate::egress::gate::Route;
use crate::egress::pool::Pool;
use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

async fn answer(rig: &Rig, query: &Message) -> Message {
    let answer = Message::from_vec(&rig.ask(&query.to_vec().unwrap()).await).unwrap();
    assert_eq!(answer.metadata.id, query.metadata.id);
    assert_eq!(answer.queries, query.queries);
    answer
}

#[tokio::test]
async fn an_allowed_name_gets_an_address_of_the_pool_and_a_denied_one_does_not_exist() {
    let rig = Rig::allowing(&["example.com"]).await;
    let first = rig.lookup("example.com.").await.unwrap();
    assert!(Pool::contains(first), "{first}");
    assert_eq!(
        rig.lookup("EXAMPLE.com.").await,
        Some(first),
        "one name, one address"
    );
    let denied = answer(&rig, &query("secret.evil.net.", RecordType::A)).await;
    assert_eq!(denied.metadata.response_code, ResponseCode::NXDomain);
    assert!(denied.answers.is_empty());
    assert!(
        rig.gate
            .seen()
            .contains(&Seen::NotAnswered("secret.evil.net".to_owned()))
    );
    assert!(
        rig.resolver.asked().is_empty(),
        "nobody outside is asked about any name"
    );
}

#[tokio::test]
async fn other_types_exist_without_data_and_denied_names_do_not_exist_for_any_type() {
    let rig = Rig::allowing(&["example.com"]).await;
    for kind in [
        RecordType::AAAA,
        RecordType::TXT,
        RecordType::MX,
        RecordType::HTTPS,
        RecordType::SRV,
        RecordType::ANY,
        RecordType::Unknown(65_280),
    ] {
        let empty = answer(&rig, &query("example.com.", kind)).await;
        assert_eq!(
            (empty.metadata.response_code, empty.answers.len()),
            (ResponseCode::NoError, 0),
            "{kind}"
        );
        let denied = answer(&rig, &query("data.evil.net.", kind)).await;
        assert_eq!(
            denied.metadata.response_code,
            ResponseCode::NXDomain,
            "{kind}"
        );
    }
    let reverse = answer(&rig, &query("1.1.18.198.in-addr.arpa.", RecordType::PTR)).await;
    assert_eq!(reverse.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn the_same_is_answered_over_tcp_several_times_on_one_connection() {
    let rig = Rig::allowing(&["example.com"]).await;
    let over_udp = rig.lookup("example.com.").await.unwrap();
    let mut stream = TcpStream::connect(rig.dns_tcp).await.unwrap();
    for _ in 0..3 {
        let bytes = query("example.com.", RecordType::A).to_vec().unwrap();
        let framed = [
            &u16::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            &bytes,
        ]
        .concat();
        for piece in framed.chunks(5) {
            stream.write_all(piece).await.unwrap();
        }
        let length = within(stream.read_u16()).await.unwrap();
        let mut bytes = vec![0; length.into()];
        within(stream.read_exact(&mut bytes)).await.unwrap();
        let answer = Message::from_vec(&bytes).unwrap();
        assert_eq!(answer.answers[0].data.ip_addr(), Some(over_udp.into()));
    }
}

#[tokio::test]
async fn malformed_messages_are_told_so_and_put_down_and_answers_are_not_answered() {
    let rig = Rig::allowing(&["example.com"]).await;
    let mut cut_short = query("example.com.", RecordType::A).to_vec().unwrap();
    cut_short.truncate(20);
    let mut loops = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    loops.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
    let two = {
        let mut two = query("example.com.", RecordType::A);
        two.add_query(Query::query(
            Name::from_ascii("example.com.").unwrap(),
            RecordType::AAAA,
        ));
        two.to_vec().unwrap()
    };
    for bytes in [cut_short, loops, two] {
        let answer = Message::from_vec(&rig.ask(&bytes).await).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
        assert_eq!(answer.metadata.id.to_be_bytes(), bytes[..2]);
    }
    let malformed = rig.gate.malformed();
    assert_eq!(malformed.len(), 3);
    assert!(malformed.iter().all(|(route, _)| *route == Route::Dns));

    // An answer and half a header get none: the next thing that comes back is the next answer's.
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let mut own_answer = query("example.com.", RecordType::A).to_vec().unwrap();
    own_answer[2] |= 0x80;
    let real = query("example.com.", RecordType::A);
    for bytes in [&own_answer[..], &[1, 2, 3], &real.to_vec().unwrap()] {
        socket.send_to(bytes, rig.dns_udp).await.unwrap();
    }
    let mut bytes = vec![0; 512];
    let length = within(socket.recv(&mut bytes)).await.unwrap();
    assert_eq!(
        Message::from_vec(&bytes[..length]).unwrap().metadata.id,
        real.metadata.id
    );
}

#[tokio::test]
async fn a_name_that_is_no_host_does_not_exist_and_is_put_down() {
    let rig = Rig::allowing(&["example.com"]).await;
    for labels in [
        vec![b"evil.net\0".as_slice(), b"example", b"com"],
        vec![b"example.com".as_slice()],
        vec![b"exa mple".as_slice(), b"com"],
        vec![b"2130706433".as_slice()],
        vec![&[0xff; 4], b"com"],
    ] {
        let mut message = Message::query();
        message.add_query(Query::query(
            Name::from_labels(labels.clone()).unwrap(),
            RecordType::A,
        ));
        let answer = Message::from_vec(&rig.ask(&message.to_vec().unwrap()).await).unwrap();
        assert_eq!(
            answer.metadata.response_code,
            ResponseCode::NXDomain,
            "{labels:?}"
        );
    }
    assert_eq!(rig.gate.malformed().len(), 5);
}

#[tokio::test]
async fn other_operations_classes_and_versions_are_not_served() {
    let rig = Rig::allowing(&["example.com"]).await;
    let mut notify = query("example.com.", RecordType::A);
    notify.metadata.op_code = OpCode::Notify;
    assert_eq!(
        answer(&rig, &notify).await.metadata.response_code,
        ResponseCode::NotImp
    );
    let mut chaos = query("example.com.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(
        answer(&rig, &chaos).await.metadata.response_code,
        ResponseCode::NotImp
    );
    let mut future = query("example.com.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_version(1);
    future.set_edns(edns);
    // RFC 6891 §9: 16 is BADVERS; a signature would make it BADSIG.
    let code = answer(&rig, &future).await.metadata.response_code;
    assert_eq!(u16::from(code), 16, "BADVERS");
    let mut now = query("example.com.", RecordType::A);
    now.set_edns(Edns::new());
    let answer = answer(&rig, &now).await;
    assert_eq!(answer.answers.len(), 1);
    assert!(answer.edns.is_some(), "RFC 6891 §6.1.1");
}

#[tokio::test]
async fn a_used_up_pool_fails_and_gives_no_name_the_address_of_another() {
    let mut plan = Plan::allowing(&["*.example.com"]);
    plan.limits.names = 2;
    let rig = Rig::start(plan).await;
    let first = rig.lookup("a.example.com.").await.unwrap();
    let second = rig.lookup("b.example.com.").await.unwrap();
    let third = answer(&rig, &query("c.example.com.", RecordType::A)).await;
    assert_eq!(third.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(rig.lookup("a.example.com.").await, Some(first));
    assert_eq!(rig.lookup("b.example.com.").await, Some(second));
}

//! Many connections, and several sessions, at once.

use super::peers::echo;
use super::rig::{Rig, within};
use crate::egress::gate::Closed;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// A tunnel that says something of its own and hears just that.
async fn echoes(rig: &Rig, target: &str, number: usize) {
    let mut stream = match number % 2 {
        0 => rig.connect(target).await.unwrap(),
        _ => {
            let (host, port) = target.split_once(':').unwrap();
            rig.socks(host.as_bytes(), port.parse().unwrap())
                .await
                .unwrap()
        }
    };
    let words = format!("{target} {number}").repeat(50);
    stream.write_all(words.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = String::new();
    within(stream.read_to_string(&mut back)).await.unwrap();
    assert_eq!(back, words);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_with_different_lists_and_200_connections_each_do_not_mix() {
    let server = echo().await;
    let first = Arc::new(Rig::allowing(&["one.example"]).await);
    let second = Arc::new(Rig::allowing(&["two.example"]).await);
    let mut all = JoinSet::new();
    for number in 0..200 {
        for (rig, own, other) in [
            (&first, "one.example", "two.example"),
            (&second, "two.example", "one.example"),
        ] {
            let rig = Arc::clone(rig);
            let (own, other) = (format!("{own}:{}", server.port()), format!("{other}:443"));
            all.spawn(async move {
                echoes(&rig, &own, number).await;
                assert_eq!(rig.connect(&other).await.unwrap_err().status, 403);
            });
        }
    }
    within(async {
        while let Some(ended) = all.join_next().await {
            ended.unwrap()
        }
    })
    .await;
    for (rig, own) in [(&first, "one.example"), (&second, "two.example")] {
        rig.gate.closed(199).await;
        assert!(rig.resolver.asked().iter().all(|name| name == own));
        assert_eq!(rig.resolver.asked().len(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_parallel_connections_are_counted_to_the_byte() {
    let server = echo().await;
    let rig = Arc::new(Rig::allowing(&["example.com"]).await);
    let target = format!("example.com:{}", server.port());
    let mut all = JoinSet::new();
    for number in 0..300 {
        let (rig, target) = (Arc::clone(&rig), target.clone());
        all.spawn(async move { echoes(&rig, &target, number).await });
    }
    within(async {
        while let Some(ended) = all.join_next().await {
            ended.unwrap()
        }
    })
    .await;
    let (mut up, mut down) = (0, 0);
    for number in 0..300 {
        let (how, more_up, more_down) = rig.gate.closed(number).await;
        assert!(matches!(how, Closed::Done { .. }), "{how:?}");
        up += more_up;
        down += more_down;
    }
    let said: usize = (0..300)
        .map(|number| 50 * format!("{target} {number}").len())
        .sum();
    assert_eq!(
        (up, down),
        (u64::try_from(said).unwrap(), u64::try_from(said).unwrap())
    );
}

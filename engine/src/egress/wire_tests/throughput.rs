//! Large transfers in both directions at once. What is asserted is what arrived; the numbers are
//! printed (`--nocapture`).

use super::peers::echo;
use super::rig::{Rig, within};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MIB: usize = 1024 * 1024;

/// A server that sends `SIZE` bytes to everybody.
async fn source() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let block = vec![7; MIB];
            for _ in 0..SIZE / MIB {
                stream.write_all(&block).await.unwrap();
            }
        }
    });
    port
}

const SIZE: usize = 1024 * MIB;

/// Reads to the end; how many bytes, and how many of them a second, in GB.
async fn drained(mut stream: TcpStream) -> (usize, f64) {
    let (begun, mut block, mut got) = (Instant::now(), vec![0; MIB], 0);
    loop {
        match within(stream.read(&mut block)).await.unwrap() {
            0 => break,
            count => got += count,
        }
    }
    let megabytes = f64::from(u32::try_from(got / MIB).unwrap()) * 1.048_576;
    (got, megabytes / 1000.0 / begun.elapsed().as_secs_f64())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gibibyte_passes_and_every_byte_is_counted() {
    let port = source().await;
    let direct = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (_, direct) = drained(direct).await;
    let rig = Rig::allowing(&["example.com"]).await;
    let tunnel = rig.connect(&format!("example.com:{port}")).await.unwrap();
    let (got, through) = drained(tunnel).await;
    println!("1 GiB direct at {direct:.2} GB/s, through a tunnel at {through:.2} GB/s");
    assert_eq!(got, SIZE);
    let (_, _, down) = rig.gate.closed(0).await;
    assert_eq!(down, u64::try_from(SIZE).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_new_connections_are_all_served() {
    let server = echo().await;
    let rig = Rig::allowing(&["example.com"]).await;
    let target = format!("example.com:{}", server.port());
    let mut medians = Vec::new();
    for direct in [true, false] {
        let mut times = Vec::new();
        for _ in 0..500 {
            let begun = Instant::now();
            let mut stream = if direct {
                TcpStream::connect(server).await.unwrap()
            } else {
                rig.connect(&target).await.unwrap()
            };
            stream.write_all(b"x").await.unwrap();
            assert_eq!(within(stream.read_u8()).await.unwrap(), b'x');
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        medians.push(times[times.len() / 2]);
    }
    println!("connect and first byte, p50, direct and through a tunnel: {medians:?}");
    rig.gate.closed(499).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upload_and_download_pass_at_once() {
    const SIZE: usize = 64 * MIB;
    let server = echo().await;
    let rig = Rig::allowing(&["example.com"]).await;
    let stream = rig
        .connect(&format!("example.com:{}", server.port()))
        .await
        .unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let up = tokio::spawn(async move {
        let block: Vec<u8> = (0..MIB).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for _ in 0..SIZE / MIB {
            writer.write_all(&block).await.unwrap();
        }
        writer.shutdown().await.unwrap();
    });
    let mut back = Vec::with_capacity(SIZE);
    within(reader.read_to_end(&mut back)).await.unwrap();
    up.await.unwrap();
    assert_eq!(back.len(), SIZE);
    let right = back.chunks(MIB).all(|block| {
        block
            .iter()
            .enumerate()
            .all(|(at, &byte)| usize::from(byte) == at % 251)
    });
    assert!(right, "the bytes are those that were sent");
}

//! Large transfers in both directions at once. What is asserted is what arrived; the numbers are
//! printed (`--nocapture`).

use super::rig::{Rig, echo, within};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const MIB: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gibibyte_passes_and_every_byte_is_counted() {
    const SIZE: usize = 1024 * MIB;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sender = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let block = vec![7; MIB];
        for _ in 0..SIZE / MIB {
            stream.write_all(&block).await.unwrap();
        }
    });
    let rig = Rig::allowing(&["example.com"]).await;
    let mut stream = rig.connect(&format!("example.com:{port}")).await.unwrap();
    let (begun, mut block, mut got) = (Instant::now(), vec![0; MIB], 0);
    loop {
        match within(stream.read(&mut block)).await.unwrap() {
            0 => break,
            count => got += count,
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("1 GiB in {seconds:.2} s");
    assert_eq!(got, SIZE);
    sender.await.unwrap();
    drop(stream);
    let (_, _, down) = rig.gate.closed(0).await;
    assert_eq!(down, u64::try_from(SIZE).unwrap());
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

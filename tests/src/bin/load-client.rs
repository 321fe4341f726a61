//! Runs inside a session and loads its HTTP proxy: tunnels that stay open and carry bytes, and
//! connections to a denied host, as many a second as wanted. Prints what it counted as JSON.
//!
//! `load-client ALLOWED DENIED TUNNELS DENIED_PER_SECOND SECONDS`

use kotak_tests::net::tunnels;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Those who connect to the denied host, at once.
const DENIED_WORKERS: u64 = 32;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Default)]
struct Counters {
    /// Tunnels that stood, and were closed by this program at the end.
    tunnels: AtomicU64,
    /// Messages that came back through them.
    echoes: AtomicU64,
    /// Connections that were answered with 403.
    refused: AtomicU64,
    /// Whatever else came of anything.
    failed: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [allowed, denied, tunnels, rate, seconds] = arguments.as_slice() else {
        return Err("five arguments are needed".into());
    };
    let tunnels: usize = tunnels.parse()?;
    let rate: u64 = rate.parse()?;
    let proxy = std::env::var("HTTP_PROXY")?;
    let proxy: Arc<str> = proxy
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .into();
    let began = Instant::now();
    let counters = Arc::new(Counters::default());
    // All tunnels stand before the clock starts, so that they are really open at once.
    let ready = Arc::new(Barrier::new(tunnels + 1));
    let mut tasks = JoinSet::new();
    let seconds = Duration::from_secs(seconds.parse()?);
    for _ in 0..tunnels {
        let (proxy, counters) = (Arc::clone(&proxy), Arc::clone(&counters));
        let ready = Arc::clone(&ready);
        let target = format!("{allowed}:{}", tunnels::ECHO);
        tasks.spawn(async move {
            let opened = connect(&proxy, &target).await;
            ready.wait().await;
            let held = match opened {
                Ok((stream, 200)) => hold(stream, Instant::now() + seconds, &counters).await,
                Ok((_, status)) => Err(format!("a tunnel: {status}").into()),
                Err(error) => Err(error),
            };
            match held {
                Ok(()) => counters.tunnels.fetch_add(1, Ordering::Relaxed),
                Err(error) => failed(&counters, error),
            };
        });
    }
    ready.wait().await;
    let standing = began.elapsed();
    let until = Instant::now() + seconds;
    for worker in 0..DENIED_WORKERS.min(rate) {
        let (proxy, counters) = (Arc::clone(&proxy), Arc::clone(&counters));
        let target = format!("{denied}:443");
        let share = rate / DENIED_WORKERS + u64::from(worker < rate % DENIED_WORKERS);
        let pause = Duration::from_secs(1) / u32::try_from(share.max(1))?;
        tasks.spawn(async move {
            let mut next = Instant::now();
            while Instant::now() < until {
                match connect(&proxy, &target).await {
                    Ok((_, 403)) => counters.refused.fetch_add(1, Ordering::Relaxed),
                    Ok((_, status)) => failed(&counters, format!("a refusal: {status}").into()),
                    Err(error) => failed(&counters, error),
                };
                next += pause;
                tokio::time::sleep_until(next.into()).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let result = serde_json::json!({
        "tunnels": get(&counters.tunnels),
        "echoes": get(&counters.echoes),
        "refused": get(&counters.refused),
        "failed": get(&counters.failed),
        "openedInMs": u64::try_from(standing.as_millis())?,
    });
    println!("{result}");
    Ok(())
}

fn failed(counters: &Counters, error: Box<dyn Error + Send + Sync>) -> u64 {
    eprintln!("{error}");
    counters.failed.fetch_add(1, Ordering::Relaxed)
}

/// CONNECT; the stream and the status.
async fn connect(proxy: &str, target: &str) -> Result<(TcpStream, u16)> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err("the proxy hung up".into());
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).ok_or("no status")?;
    Ok((stream, status.parse()?))
}

/// Sends a message once a second, or oftener, and wants it back.
async fn hold(mut stream: TcpStream, until: Instant, counters: &Counters) -> Result<()> {
    let message = [0x5a; 1000];
    let mut back = [0; 1000];
    loop {
        stream.write_all(&message).await?;
        stream.read_exact(&mut back).await?;
        if back != message {
            return Err("another message came back".into());
        }
        counters.echoes.fetch_add(1, Ordering::Relaxed);
        if Instant::now() >= until {
            stream.shutdown().await?;
            // Until the other side is done too.
            stream.read_to_end(&mut Vec::new()).await?;
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

//! Servers of plain TCP: for tunnels that are idle, half-closed, or many.

use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Sends back what comes, as it comes.
pub const ECHO: u16 = 9007;
/// Takes everything in until the client has nothing more to say, then tells how much it was: shows
/// that a half-closed tunnel still carries the other direction.
pub const TELL: u16 = 9008;
/// Says `ready`, waits as many milliseconds as the line that it gets says, and says `still here`.
pub const IDLE: u16 = 9009;
/// Sends as fast as it is read, without end.
pub const SOURCE: u16 = 9010;

/// All of them.
pub const PORTS: [u16; 4] = [ECHO, TELL, IDLE, SOURCE];

/// Serves one of the ports.
pub async fn serve(listener: TcpListener, port: u16) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            // How it ends is for the client to judge.
            let _ = match port {
                ECHO => echo(stream).await,
                TELL => tell(stream).await,
                SOURCE => source(stream).await,
                _ => idle(stream).await,
            };
        });
    }
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.split();
    tokio::io::copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

async fn tell(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let answer = format!("{} bytes came\n", bytes.len());
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

async fn idle(mut stream: TcpStream) -> std::io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    writer.write_all(b"ready\n").await?;
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    let millis = line.trim().parse().unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(millis)).await;
    writer.write_all(b"still here\n").await?;
    writer.shutdown().await
}

async fn source(mut stream: TcpStream) -> std::io::Result<()> {
    let block = vec![0x6b; 256 * 1024];
    loop {
        stream.write_all(&block).await?;
    }
}

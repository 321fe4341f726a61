//! Frames: a length of four bytes, little end first, and so many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Most bytes of a frame.
pub(super) const MOST_BYTES: usize = 256 * 1024;
/// How long the rest of a frame may take once it began, and how long a frame may take to be sent.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// A message as bytes of a frame; nothing when it is too long.
pub(super) fn encode<T: Serialize>(message: &T) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(message).ok()?;
    let length = u32::try_from(json.len()).ok()?;
    if json.len() > MOST_BYTES {
        return None;
    }
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(json);
    Some(frame)
}

/// Reads one message; nothing at the end of the stream. Memory grows with what really comes, and
/// never past the bound.
pub(super) async fn read<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    if reader.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    let body = async {
        reader.read_exact(&mut length[1..]).await?;
        let length = u64::from(u32::from_le_bytes(length));
        if length > u64::try_from(MOST_BYTES).unwrap_or(u64::MAX) {
            return Err(nonsense("a frame is too long"));
        }
        let mut body = Vec::new();
        let read = reader.take(length).read_to_end(&mut body).await?;
        if u64::try_from(read).unwrap_or(u64::MAX) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(body)
    };
    let body = tokio::time::timeout(FRAME_TIME, body)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    serde_json::from_slice(&body)
        .map(Some)
        .map_err(|_| nonsense("a frame makes no sense"))
}

/// Writes a frame.
pub(super) async fn write(writer: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    tokio::time::timeout(FRAME_TIME, writer.write_all(frame))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

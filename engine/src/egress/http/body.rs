//! Bodies of HTTP/1 messages (RFC 9112 §6, §7), streamed.

use super::super::stream::ReadAhead;
use super::head::Framing;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Longest line of a chunk's size with its extensions, and of one trailer.
const LINE: usize = 4096;
/// Longest trailers.
const TRAILERS: usize = 16 * 1024;
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Why a body was not passed on whole.
#[derive(Debug)]
pub(super) enum BodyError {
    /// Its sender went away, or it ended early.
    Read,
    /// Its receiver went away.
    Write,
    /// Its chunks are broken.
    Chunks(&'static str),
}

/// Where a body stands.
enum State {
    Data { left: u64 },
    UntilEnd,
    Size,
    Chunk { left: u64 },
    ChunkEnd,
    Trailers { seen: usize },
    Done,
}

/// A body that is being read.
pub(super) struct Body {
    state: State,
}

impl Body {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            state: match framing {
                Framing::Empty | Framing::Length(0) => State::Done,
                Framing::Length(left) => State::Data { left },
                Framing::Chunked => State::Size,
                Framing::UntilEnd => State::UntilEnd,
            },
        }
    }

    /// How many of the bytes ahead are body; 0 at its end.
    async fn ready<R>(&mut self, from: &mut ReadAhead<R>) -> Result<usize, BodyError>
    where
        R: AsyncRead + Unpin,
    {
        loop {
            match self.state {
                State::Done => return Ok(0),
                State::UntilEnd => {
                    if from.ahead().is_empty() && fill(from).await? == 0 {
                        self.state = State::Done;
                    } else {
                        return Ok(from.ahead().len());
                    }
                }
                State::Data { left } | State::Chunk { left } => {
                    if from.ahead().is_empty() && fill(from).await? == 0 {
                        return Err(BodyError::Read);
                    }
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    return Ok(from.ahead().len().min(most));
                }
                State::Size => {
                    let left = chunk_size(&line(from).await?)?;
                    self.state = if left == 0 {
                        State::Trailers { seen: 0 }
                    } else {
                        State::Chunk { left }
                    };
                }
                State::ChunkEnd => {
                    if !line(from).await?.is_empty() {
                        return Err(BodyError::Chunks("a chunk is longer than its size"));
                    }
                    self.state = State::Size;
                }
                // Read, and not passed on: RFC 9110 §6.5.1 lets an intermediary drop them.
                State::Trailers { seen } => {
                    let line = line(from).await?;
                    let seen = seen + line.len();
                    if seen > TRAILERS {
                        return Err(BodyError::Chunks("trailers past 16 KiB"));
                    }
                    self.state = if line.is_empty() {
                        State::Done
                    } else {
                        State::Trailers { seen }
                    };
                }
            }
        }
    }

    /// Notes that `count` bytes of body were used.
    fn used(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        match &mut self.state {
            State::Data { left } => {
                *left = left.saturating_sub(count);
                if *left == 0 {
                    self.state = State::Done;
                }
            }
            State::Chunk { left } => {
                *left = left.saturating_sub(count);
                if *left == 0 {
                    self.state = State::ChunkEnd;
                }
            }
            State::UntilEnd
            | State::Size
            | State::ChunkEnd
            | State::Trailers { .. }
            | State::Done => {}
        }
    }
}

/// Passes a body on, in chunks of our own making when `chunked`.
pub(super) async fn pump<R, W>(
    framing: Framing,
    from: &mut ReadAhead<R>,
    to: &mut W,
    chunked: bool,
) -> Result<(), BodyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut body = Body::new(framing);
    loop {
        let count = body.ready(from).await?;
        if count == 0 {
            break;
        }
        let bytes = from.ahead().get(..count).unwrap_or_default();
        let sent = if chunked {
            chunk(to, bytes).await
        } else {
            to.write_all(bytes).await
        };
        sent.map_err(|_| BodyError::Write)?;
        from.consume(count);
        body.used(count);
    }
    if chunked {
        to.write_all(b"0\r\n\r\n")
            .await
            .map_err(|_| BodyError::Write)?;
    }
    to.flush().await.map_err(|_| BodyError::Write)
}

async fn chunk<W: AsyncWrite + Unpin>(to: &mut W, bytes: &[u8]) -> io::Result<()> {
    to.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())
        .await?;
    to.write_all(bytes).await?;
    to.write_all(b"\r\n").await
}

async fn fill<R: AsyncRead + Unpin>(from: &mut ReadAhead<R>) -> Result<usize, BodyError> {
    from.fill_up_to(CHUNK).await.map_err(|_| BodyError::Read)
}

/// The next line without its end.
async fn line<R: AsyncRead + Unpin>(from: &mut ReadAhead<R>) -> Result<Vec<u8>, BodyError> {
    loop {
        let ahead = from.ahead();
        if let Some(at) = ahead.iter().take(LINE).position(|&byte| byte == b'\n') {
            let mut line = from.take(at + 1);
            line.truncate(at);
            if line.pop() != Some(b'\r') || line.iter().any(|&byte| matches!(byte, 0 | b'\r')) {
                return Err(BodyError::Chunks(
                    "a line of the chunks does not end in CR LF",
                ));
            }
            return Ok(line);
        }
        if ahead.len() >= LINE {
            return Err(BodyError::Chunks("a line of the chunks past 4 KiB"));
        }
        if fill(from).await? == 0 {
            return Err(BodyError::Read);
        }
    }
}

/// `1*HEXDIG [ chunk-ext ]` (RFC 9112 §7.1), no space, no sign, no more than 16 digits.
fn chunk_size(line: &[u8]) -> Result<u64, BodyError> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(BodyError::Chunks("a chunk's size is no number"));
    }
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or(BodyError::Chunks("a chunk's size is no number"))
}

#[cfg(test)]
mod tests {
    use super::super::super::stream::ReadAhead;
    use super::super::head::Framing;
    use super::{BodyError, chunk_size, pump};

    async fn passed_on(
        framing: Framing,
        input: &[u8],
        chunked: bool,
    ) -> Result<Vec<u8>, BodyError> {
        let mut from = ReadAhead::new(input);
        let mut out = Vec::new();
        pump(framing, &mut from, &mut out, chunked).await?;
        out.extend_from_slice(b"|");
        out.extend_from_slice(from.ahead());
        Ok(out)
    }

    #[tokio::test]
    async fn bodies_end_where_they_say_and_leave_what_follows() {
        let length = passed_on(Framing::Length(5), b"helloGET /", false)
            .await
            .unwrap();
        assert_eq!(length, b"hello|GET /");
        let chunks = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\nGET /";
        let again = passed_on(Framing::Chunked, chunks, true).await.unwrap();
        assert_eq!(again, b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n|GET /");
        let end = passed_on(Framing::UntilEnd, b"all", true).await.unwrap();
        assert_eq!(end, b"3\r\nall\r\n0\r\n\r\n|");
    }

    #[tokio::test]
    async fn broken_and_short_bodies_are_refused() {
        for bad in [
            b"5\r\nhelloX\r\n0\r\n\r\n".as_slice(),
            b"5\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"\r\n",
        ] {
            let ended = passed_on(Framing::Chunked, bad, false).await;
            assert!(matches!(ended, Err(BodyError::Chunks(_))), "{bad:?}");
        }
        for (framing, short) in [
            (Framing::Length(5), b"hell".as_slice()),
            (Framing::Chunked, b"5\r\nhell"),
            (Framing::Chunked, b"5\r\nhello\r\n0\r\n"),
        ] {
            let ended = passed_on(framing, short, false).await;
            assert!(matches!(ended, Err(BodyError::Read)), "{short:?}");
        }
    }

    #[test]
    fn a_chunk_size_takes_no_more_than_it_can_hold() {
        assert!(matches!(chunk_size(b"ffffffffffffffff"), Ok(u64::MAX)));
        assert!(chunk_size(b"00000000000000001").is_err());
    }
}

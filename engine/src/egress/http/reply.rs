//! Answers of the proxy's own.

use super::super::decide::DenyReason;
use super::super::stream::{ClientReader, ClientWriter};
use super::head::REASON_FIELD;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// How long, and how much, a client may go on to send after an answer that ends the connection.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1024 * 1024;

/// An answer of the proxy's own.
pub(super) struct Reply {
    /// Status.
    pub(super) status: u16,
    /// Machine-readable reason, when it is a refusal.
    pub(super) reason: Option<DenyReason>,
    /// One sentence.
    pub(super) message: String,
    /// Whether the connection stays.
    pub(super) keep: bool,
    /// The request was HEAD: no body is sent.
    pub(super) head_only: bool,
}

impl Reply {
    fn bytes(&self) -> Vec<u8> {
        let phrase = match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            407 => "Proxy Authentication Required",
            408 => "Request Timeout",
            431 => "Request Header Fields Too Large",
            502 => "Bad Gateway",
            504 => "Gateway Timeout",
            _ => "Refused",
        };
        let body = format!("kotak: {}\n", self.message);
        let mut out = format!(
            "HTTP/1.1 {} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n",
            self.status,
            body.len(),
        );
        if let Some(reason) = self.reason {
            out.push_str(&format!("{REASON_FIELD}: {}\r\n", name(reason)));
        }
        if self.status == 407 {
            out.push_str("proxy-authenticate: Basic realm=\"kotak\"\r\n");
        }
        out.push_str(if self.keep {
            "connection: keep-alive\r\n\r\n"
        } else {
            "connection: close\r\n\r\n"
        });
        if !self.head_only {
            out.push_str(&body);
        }
        out.into_bytes()
    }

    /// Sends it; `false` when the client is gone.
    pub(super) async fn send(&self, writer: &mut ClientWriter) -> bool {
        writer.write_all(&self.bytes()).await.is_ok()
    }

    /// Sends it and ends the connection.
    pub(super) async fn send_last(&self, reader: &mut ClientReader, writer: &mut ClientWriter) {
        if self.send(writer).await {
            end(reader, writer).await;
        }
    }
}

/// Ends a connection so that the client can still read what was sent: a close with unread bytes
/// would be a reset, which throws the answer away (RFC 9112 §9.6).
pub(super) async fn end(reader: &mut ClientReader, writer: &mut ClientWriter) {
    if writer.shutdown().await.is_err() {
        return;
    }
    let drained = async {
        let mut seen = 0;
        loop {
            reader.consume(reader.ahead().len());
            match reader.fill().await {
                Ok(count) if count > 0 && seen < LINGER_BYTES => seen += count,
                Ok(_) | Err(_) => return,
            }
        }
    };
    // A client that goes on longer is cut off.
    let _ = tokio::time::timeout(LINGER, drained).await;
}

/// The reason as the store and the window write it.
fn name(reason: DenyReason) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(_) | Err(_) => format!("{reason:?}"),
    }
}

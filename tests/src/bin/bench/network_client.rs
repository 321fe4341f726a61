//! The client that is measured, the same everywhere: directly, or by the HTTP proxy that its
//! environment names. Runs as `bench network-client HOST` and prints one line of JSON.

use kotak_tests::net::tunnels;
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The first argument by which the bench becomes this.
pub(crate) const NAME: &str = "network-client";
/// Connections before the first that counts, and those that count.
const WARM: u32 = 50;
const COUNTED: u32 = 500;
/// For how long bytes are counted.
const FLOW: Duration = Duration::from_secs(3);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The proxy of the environment.
struct Proxy {
    place: String,
    /// The value of `Proxy-Authorization`, already encoded.
    credentials: Option<String>,
}

pub(crate) fn run() -> Result<()> {
    let host = std::env::args().nth(2).ok_or("no host")?;
    let proxy = std::env::var("HTTP_PROXY").ok().map(|url| proxy(&url));
    let proxy = proxy.transpose()?;
    let mut samples = Vec::new();
    for round in 0..WARM + COUNTED {
        let began = Instant::now();
        let mut stream = open(proxy.as_ref(), &host, tunnels::ECHO)?;
        // Open is what answers: a byte there and back.
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        if round >= WARM {
            samples.push(began.elapsed());
        }
    }
    let mut stream = open(proxy.as_ref(), &host, tunnels::SOURCE)?;
    let mut buffer = vec![0; 256 * 1024];
    let (began, mut bytes) = (Instant::now(), 0);
    while began.elapsed() < FLOW {
        match stream.read(&mut buffer)? {
            0 => return Err("the source ended".into()),
            count => bytes += count,
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let result = serde_json::json!({
        "newMicros": crate::median(&samples).as_secs_f64() * 1e6,
        "bytes": bytes,
        "seconds": seconds,
    });
    println!("{result}");
    Ok(())
}

fn proxy(url: &str) -> Result<Proxy> {
    let rest = url
        .strip_prefix("http://")
        .ok_or("the proxy is not http://")?;
    let rest = rest.trim_end_matches('/');
    let (credentials, place) = match rest.rsplit_once('@') {
        Some((pair, place)) => (Some(base64(&unescaped(pair)?)), place),
        None => (None, rest),
    };
    let place = place.to_owned();
    Ok(Proxy { place, credentials })
}

/// Opens a connection to a port of the host, by CONNECT where there is a proxy.
fn open(proxy: Option<&Proxy>, host: &str, port: u16) -> Result<TcpStream> {
    let Some(proxy) = proxy else {
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        return Ok(stream);
    };
    let mut stream = TcpStream::connect(&proxy.place)?;
    stream.set_nodelay(true)?;
    let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some(credentials) = &proxy.credentials {
        head.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        answer.extend(byte);
    }
    let answer = String::from_utf8_lossy(&answer);
    if answer.split(' ').nth(1) != Some("200") {
        return Err(format!("the proxy said: {answer}").into());
    }
    Ok(stream)
}

/// Undoes percent-escapes (RFC 3986 §2.1).
fn unescaped(text: &str) -> Result<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits: Vec<u8> = bytes.by_ref().take(2).collect();
            plain.push(u8::from_str_radix(std::str::from_utf8(&digits)?, 16)?);
        } else {
            plain.push(byte);
        }
    }
    Ok(plain)
}

/// Base64 (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(block);
        for at in 0..4_usize {
            let index = usize::try_from((bits >> (18 - 6 * at)) & 63).unwrap_or_default();
            text.push(if at <= chunk.len() {
                char::from(ALPHABET[index])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{base64, proxy};

    #[test]
    fn credentials_of_a_proxy_are_taken_out_of_its_address() {
        let plain = proxy("http://127.0.0.1:3128/").unwrap();
        assert_eq!(
            (plain.place.as_str(), plain.credentials),
            ("127.0.0.1:3128", None)
        );
        let with = proxy("http://a.b%3D:c@localhost:1").unwrap();
        assert_eq!(with.place, "localhost:1");
        assert_eq!(with.credentials.as_deref(), Some("YS5iPTpj"));
        assert_eq!(
            (base64(b"a"), base64(b"ab")),
            ("YQ==".into(), "YWI=".into())
        );
    }
}

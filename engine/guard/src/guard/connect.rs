//! `kotak-guard connect SOCKS_PORT HOST PORT`: a ProxyCommand for ssh(1) (ssh_config(5)). Asks the
//! session's SOCKS5 proxy (RFC 1928) for a connection by name, and copies both ways.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, TcpStream},
    os::fd::AsFd,
    process::ExitCode,
    thread,
};

/// The reply codes of RFC 1928, section 6.
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;

/// Where to, and by which proxy.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    socks: u16,
    host: String,
    port: u16,
}

/// Everything that this mode does.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(target) = target(words) else {
        eprintln!("kotak: usage: guard connect SOCKS_PORT HOST PORT");
        return ExitCode::from(super::MISUSED);
    };
    match open(&target).and_then(relay) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("kotak: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn target(mut words: impl Iterator<Item = OsString>) -> Option<Target> {
    let port = |word: OsString| word.to_str()?.parse().ok().filter(|port| *port > 0);
    let socks = port(words.next()?)?;
    let host = words.next()?.into_string().ok()?;
    let port = port(words.next()?)?;
    let target = Target { socks, host, port };
    words.next().is_none().then_some(target)
}

fn open(target: &Target) -> Result<TcpStream, String> {
    let shown = target.host.escape_debug();
    let request = request(target).ok_or_else(|| format!("{shown} is no host name"))?;
    let broken = |error: io::Error| format!("the session's SOCKS proxy failed: {error}");
    let mut proxy = TcpStream::connect((Ipv4Addr::LOCALHOST, target.socks))
        .map_err(|error| format!("the session's SOCKS proxy cannot be reached: {error}"))?;
    // Not delayed: ssh sends single keys.
    proxy.set_nodelay(true).map_err(broken)?;
    match negotiate(&mut proxy, &request).map_err(broken)? {
        SUCCEEDED => Ok(proxy),
        NOT_ALLOWED => Err(format!("{shown} is refused by the session's network rules")),
        code => Err(format!(
            "{shown} port {} cannot be reached: {}",
            target.port,
            words_of(code)
        )),
    }
}

/// The CONNECT request; a name goes as a name, so that the proxy judges what was asked for.
fn request(target: &Target) -> Option<Vec<u8>> {
    let mut bytes = vec![5, 1, 0];
    match target.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            bytes.push(1);
            bytes.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            bytes.push(4);
            bytes.extend(address.octets());
        }
        Err(_) => {
            let length = u8::try_from(target.host.len()).ok().filter(|it| *it > 0)?;
            bytes.extend([3, length]);
            bytes.extend(target.host.as_bytes());
        }
    }
    bytes.extend(target.port.to_be_bytes());
    Some(bytes)
}

/// Greets without authentication, sends the request; the reply code. What follows the reply
/// belongs to the connection and stays unread.
fn negotiate(proxy: &mut (impl Read + Write), request: &[u8]) -> io::Result<u8> {
    let senseless = || io::Error::from(io::ErrorKind::InvalidData);
    proxy.write_all(&[5, 1, 0])?;
    let mut method = [0; 2];
    proxy.read_exact(&mut method)?;
    if method != [5, 0] {
        return Err(senseless());
    }
    proxy.write_all(request)?;
    let mut reply = [0; 4];
    proxy.read_exact(&mut reply)?;
    let [5, code, _, kind] = reply else {
        return Err(senseless());
    };
    let address = match kind {
        1 => 4,
        4 => 16,
        3 => {
            let mut length = [0];
            proxy.read_exact(&mut length)?;
            usize::from(length[0])
        }
        _ => return Err(senseless()),
    };
    let mut bound = vec![0; address + 2];
    proxy.read_exact(&mut bound)?;
    Ok(code)
}

fn words_of(code: u8) -> &'static str {
    match code {
        3 => "network unreachable",
        4 => "host unreachable, or its name is not known",
        5 => "connection refused",
        6 => "it timed out",
        7 => "the proxy does not take this request",
        8 => "the proxy does not take this kind of address",
        _ => "the proxy failed",
    }
}

/// Copies both ways; the end of the input is passed on, and the end of the connection is the end.
fn relay(proxy: TcpStream) -> Result<(), String> {
    let broken = |error: io::Error| format!("the connection broke: {error}");
    let up = proxy.try_clone().map_err(broken)?;
    let pass_on = move || {
        let _ = copy(&mut io::stdin().lock(), &mut &up);
        // An end that is gone already needs no goodbye.
        let _ = up.shutdown(Shutdown::Write);
    };
    thread::Builder::new().spawn(pass_on).map_err(broken)?;
    // Without the buffer of `io::stdout`, which waits for whole lines.
    let mut output = unbuffered_output().map_err(broken)?;
    match copy(&mut &proxy, &mut output) {
        Ok(()) => Ok(()),
        // Whoever read has gone: nothing is wrong with the connection.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(broken(error)),
    }
}

/// Copies to the end, by a buffer. Not `io::copy`, which is splice(2) between a socket and a pipe:
/// the kernel holds the pipe's lock while it waits for the socket, and whoever reads the pipe, even
/// without blocking, as ssh does, waits for that lock.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(buffer.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unbuffered_output() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Option<Target> {
        target(words.iter().map(OsString::from))
    }

    #[test]
    fn the_command_line_is_a_proxy_a_host_and_a_port() {
        let expected = Target {
            socks: 1080,
            host: "example.com".into(),
            port: 22,
        };
        assert_eq!(parsed(&["1080", "example.com", "22"]), Some(expected));
        for wrong in [
            &["1080", "example.com"][..],
            &["0", "example.com", "22"],
            &["1080", "example.com", "70000"],
            &["1080", "example.com", "22", "x"],
        ] {
            assert_eq!(parsed(wrong), None);
        }
    }

    #[test]
    fn names_go_as_names_and_addresses_as_addresses() {
        let of = |host: &str| {
            request(&Target {
                socks: 1080,
                host: host.into(),
                port: 22,
            })
        };
        assert_eq!(of("a.b").unwrap(), b"\x05\x01\0\x03\x03a.b\0\x16");
        assert_eq!(
            of("192.0.2.1").unwrap(),
            b"\x05\x01\0\x01\xc0\0\x02\x01\0\x16"
        );
        assert_eq!(of("::1").unwrap()[..4], [5, 1, 0, 4]);
        assert_eq!(of(""), None);
        assert_eq!(of(&"x".repeat(256)), None);
    }

    /// A proxy that says what it was told to.
    struct Proxy {
        says: io::Cursor<Vec<u8>>,
        heard: Vec<u8>,
    }

    impl Read for Proxy {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.says.read(buffer)
        }
    }

    impl Write for Proxy {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_reply_is_read_to_its_end_and_not_further() {
        for (reply, code) in [
            (&b"\x05\0\x05\0\0\x01abcd\0\x16rest"[..], Some(0)),
            (b"\x05\0\x05\x02\0\x03\x03xyz\0\0rest", Some(2)),
            (b"\x05\0\x05\x04\0\x04aaaabbbbccccdddd\0\0rest", Some(4)),
            (b"\x05\xff", None),
            (b"\x04\0", None),
            (b"\x05\0\x04\0\0\x01abcd\0\0", None),
            (b"\x05\0\x05\0\0\x09abcd\0\0", None),
            (b"\x05\0\x05\0\0\x01ab", None),
        ] {
            let mut proxy = Proxy {
                says: io::Cursor::new(reply.to_vec()),
                heard: Vec::new(),
            };
            let negotiated = negotiate(&mut proxy, b"request").ok();
            assert_eq!(negotiated, code, "{reply:?}");
            if code.is_some() {
                assert_eq!(proxy.heard, b"\x05\x01\0request");
                let mut rest = Vec::new();
                proxy.read_to_end(&mut rest).unwrap();
                assert_eq!(rest, b"rest");
            }
        }
    }
}

//! Forwards and grants by request, services of the session, and the ProxyCommand. REQ EG-2, EG-12.

use crate::harness::{BINARY, Guard, Place, Program, users};
use crate::network::{client, started};
use kotak_guard::proto::{Event, ExitStatus, ListenAt, Request};
use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixListener,
    },
    process::Command,
};

fn opened(guard: &mut Guard, token: u64) -> Result<OwnedFd, i32> {
    let (outcome, mut descriptors) = guard.expect(|event| match event {
        Event::Opened { token: found } if *found == token => Some(Ok(())),
        Event::NotOpened {
            token: found,
            errno,
        } if *found == token => Some(Err(*errno)),
        _ => None,
    });
    outcome.map(|()| descriptors.pop().unwrap())
}

#[test]
fn a_forward_reaches_a_server_inside_and_a_port_inside_reaches_the_engine() {
    for user in users() {
        let (mut guard, _, _, _) = started(*user);
        let server = "import socket\ns=socket.create_server(('127.0.0.1',8080))\n\
                      print('ready',flush=True)\nc,_=s.accept()\nc.sendall(b'served')\nc.close()";
        let (_, mut output) = guard.exec_reading(&["python3", "-c", server]);
        let mut ready = [0; 5];
        output.read_exact(&mut ready).unwrap();
        guard.send(
            &Request::Connect {
                token: 1,
                port: 8080,
            },
            &[],
        );
        let mut stream = TcpStream::from(opened(&mut guard, 1).unwrap());
        stream.set_nonblocking(false).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "served");
        let port = 8081;
        guard.send(&Request::Connect { token: 2, port }, &[]);
        // Where nobody listens, the socket says so, now or on its first use.
        let refused = match opened(&mut guard, 2) {
            Ok(socket) => {
                let mut stream = TcpStream::from(socket);
                stream.set_nonblocking(false).unwrap();
                let error = stream.read(&mut [0]).unwrap_err();
                error.raw_os_error().unwrap()
            }
            Err(errno) => errno,
        };
        assert!(
            [libc::ECONNREFUSED, libc::ENOTCONN].contains(&refused),
            "{refused}"
        );

        let at = ListenAt::Port(5432);
        guard.send(&Request::Listen { token: 3, at }, &[]);
        let listener = TcpListener::from(opened(&mut guard, 3).unwrap());
        let script = client("127.0.0.1", 5432);
        guard.exec_silent(&["python3", "-c", &script]);
        drop(listener.accept().unwrap());
        drop(listener);
        let refused = guard.run(&["python3", "-c", &script]);
        assert!(refused.stderr.contains("refused"), "{refused:?}");
        let at = ListenAt::Port(99);
        guard.send(&Request::Listen { token: 4, at }, &[]);
        assert_eq!(opened(&mut guard, 4).unwrap_err(), libc::EACCES);
    }
}

#[test]
fn a_unix_listener_inside_is_the_engines_and_stands_in_private_places_only() {
    for user in users() {
        let (mut guard, _, _, _) = started(*user);
        let at = ListenAt::Path(b"/tmp/agent-x/agent.1".to_vec());
        guard.send(&Request::Listen { token: 1, at }, &[]);
        let listener = UnixListener::from(opened(&mut guard, 1).unwrap());
        let attempt = "import socket\ns=socket.socket(socket.AF_UNIX)\n\
                       s.connect('/tmp/agent-x/agent.1')\nprint(s.recv(10).decode())";
        let (_, mut output) = guard.exec_reading(&["python3", "-c", attempt]);
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"keys").unwrap();
        drop(accepted);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "keys\n");
        drop(listener);
        let refused = guard.run(&["python3", "-c", attempt]);
        assert!(refused.stderr.contains("refused"), "{refused:?}");
        for (token, path) in (2..).zip(["/var/x.sock", "/x.sock"]) {
            let at = ListenAt::Path(path.into());
            guard.send(&Request::Listen { token, at }, &[]);
            assert_eq!(
                opened(&mut guard, token).unwrap_err(),
                libc::EXDEV,
                "{path}"
            );
        }
    }
    let mut host = Guard::start(&Place::Host);
    let at = ListenAt::Port(2000);
    host.send(&Request::Listen { token: 1, at }, &[]);
    assert_eq!(opened(&mut host, 1).unwrap_err(), libc::EOPNOTSUPP);
}

#[test]
fn a_service_is_not_listed_and_ends_with_the_session() {
    for user in users() {
        let (mut guard, _, _, _) = started(*user);
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let argv = ["sh", "-c", "sleep 1000; true"];
        let program = Program {
            service: true,
            ..Program::new(&argv)
        };
        let service = guard.exec(program, &[null.as_fd(); 3]);
        let own = guard.exec_silent(&["sleep", "1001"]);
        guard.started(service);
        let (pid, _) = guard.started(own);
        let listed: Vec<i32> = guard.processes().iter().map(|it| it.pid).collect();
        assert_eq!(listed, [pid]);
        guard.send(&Request::Shutdown { grace_ms: 0 }, &[]);
        assert!(matches!(
            guard.exited(service),
            ExitStatus::Signal(_) | ExitStatus::Code(_)
        ));
        guard.expect(|event| matches!(event, Event::Bye).then_some(()));
    }
}

/// A SOCKS5 proxy that gives one reply, and then echoes.
fn socks_proxy(reply: u8) -> (u16, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&[5, 0]).unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let mut rest = vec![0; usize::from(head[4]) + 2];
        stream.read_exact(&mut rest).unwrap();
        stream
            .write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0])
            .unwrap();
        if reply == 0 {
            stream.write_all(b"SSH-2.0-x\n").unwrap();
            // To the client's end, which must be passed on while the other way still works.
            let mut sent = Vec::new();
            stream.read_to_end(&mut sent).unwrap();
            stream.write_all(&sent).unwrap();
        }
        rest
    });
    (port, serve)
}

#[test]
fn the_proxy_command_copies_both_ways_and_says_when_it_is_refused() {
    use std::process::Stdio;
    let run = |port: u16, input: &[u8]| {
        let mut child = Command::new(BINARY)
            .args(["connect", &port.to_string(), "git.example.com", "22"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    };
    let (port, served) = socks_proxy(0);
    let large = vec![b'x'; 300_000];
    let output = run(port, &large);
    assert!(output.status.success());
    assert_eq!(output.stdout[..10], *b"SSH-2.0-x\n");
    assert_eq!(output.stdout[10..], large);
    assert_eq!(served.join().unwrap(), b"git.example.com\0\x16");

    let (port, served) = socks_proxy(2);
    let refused = run(port, b"");
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "kotak: git.example.com is refused by the session's network rules\n"
    );
    served.join().unwrap();

    let (port, served) = socks_proxy(4);
    let unknown = String::from_utf8(run(port, b"").stderr).unwrap();
    assert!(unknown.contains("cannot be reached"), "{unknown}");
    served.join().unwrap();
    let usage = Command::new(BINARY).arg("connect").output().unwrap();
    assert_eq!(usage.status.code(), Some(122));
}

//! The way into the sandbox: listeners handed out, low ports by the helper, who connects,
//! forwards. REQ EG-1, EG-12.

use crate::harness::{
    BINARY, Flags, Guard, Place, User, bubblewrap, expectation, fix_descriptors, guard_image,
    host_setup, native_setup, users,
};
use kotak_guard::{
    proto::{
        Connection, Connector, Event, FileCheck, HelperAnswer, HelperRequest, HelperStep,
        LocalNetwork, LoopbackPlan, LowSocket, PROTOCOL_VERSION, Request, Setup, Transport,
    },
    wire::{recv, send},
};
use std::{
    fs::File,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::Command,
};

const PROXY: u16 = 3128;
const SOCKS: u16 = 1080;

fn setup() -> Setup {
    Setup {
        loopback: Some(LoopbackPlan {
            ports: vec![PROXY, SOCKS],
        }),
        ..native_setup(expectation())
    }
}

/// A ready guard, its two listeners and its network namespace.
pub(crate) fn started(user: User) -> (Guard, TcpListener, TcpListener, OwnedFd) {
    let mut guard = Guard::spawn(&Place::Native(user, Flags::default()));
    guard.send(&Request::Setup(Box::new(setup())), &[]);
    let (report, descriptors) = guard.expect(|event| match event {
        Event::Ready(report) => Some(report.clone()),
        Event::Refused(check) => panic!("{check:?}"),
        _ => None,
    });
    assert!(report.passed.iter().any(|check| check.name == "listeners"));
    let [proxy, socks, namespace] = <[OwnedFd; 3]>::try_from(descriptors).unwrap();
    (guard, proxy.into(), socks.into(), namespace)
}

/// A program inside that connects, sends `hello`, and shows what comes back.
pub(crate) fn client(address: &str, port: u16) -> String {
    format!(
        "import socket,sys\ns=socket.create_connection(('{address}',{port}))\n\
         s.sendall(b'hello')\nsys.stdout.write(s.recv(100).decode())"
    )
}

fn who(guard: &mut Guard, connection: Connection) -> Option<Connector> {
    guard.send(
        &Request::WhoConnects {
            token: 77,
            connection,
        },
        &[],
    );
    guard
        .expect(|event| match event {
            Event::Connector { token: 77, found } => Some(found.clone()),
            _ => None,
        })
        .0
        .map(|found| *found)
}

fn helper(
    namespace: &OwnedFd,
    user: User,
    request: &HelperRequest,
) -> Result<Vec<OwnedFd>, HelperAnswer> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = match user {
        User::Root => Command::new(BINARY),
        User::Ordinary if nix::unistd::Uid::effective().is_root() => {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--",
                BINARY,
            ]);
            command
        }
        User::Ordinary => Command::new(BINARY),
    };
    command.args(["helper", "13"]);
    fix_descriptors(&mut command, &[(theirs.as_fd(), 13)]);
    let mut child = command.spawn().unwrap();
    drop(theirs);
    send(&ours, request, &[namespace.as_fd()]).unwrap();
    let (answer, descriptors) = recv::<HelperAnswer>(&ours).unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    match answer {
        HelperAnswer::Bound => Ok(descriptors),
        failed @ HelperAnswer::Failed { .. } => Err(failed),
    }
}

fn low_ports() -> HelperRequest {
    let socket = |transport, address, port| LowSocket {
        transport,
        address,
        port,
    };
    HelperRequest {
        protocol: PROTOCOL_VERSION,
        local: Some(LocalNetwork {
            address: Ipv4Addr::new(198, 18, 0, 0),
            prefix: 15,
        }),
        sockets: vec![
            socket(Transport::Udp, Ipv4Addr::LOCALHOST, 53),
            socket(Transport::Tcp, Ipv4Addr::LOCALHOST, 53),
            socket(Transport::Tcp, Ipv4Addr::UNSPECIFIED, 443),
        ],
    }
}

#[test]
fn the_engine_accepts_what_connects_inside_and_knows_who_it_is() {
    for user in users() {
        let (mut guard, proxy, socks, _) = started(*user);
        for (listener, port) in [(&proxy, PROXY), (&socks, SOCKS)] {
            let script = client("127.0.0.1", port);
            let (id, mut output) = guard.exec_reading(&["python3", "-c", &script, "marked-word"]);
            let (mut accepted, from) = listener.accept().unwrap();
            let mut hello = [0; 5];
            accepted.read_exact(&mut hello).unwrap();
            assert_eq!(&hello, b"hello");
            let (pid, _) = guard.started(id);
            let connection = Connection {
                transport: Transport::Tcp,
                client: from,
                server: Some(listener.local_addr().unwrap()),
            };
            let found = who(&mut guard, connection).unwrap();
            assert_eq!(found.pid, pid);
            assert!(found.comm.starts_with("python3"));
            assert_eq!(found.argv.last().unwrap(), "marked-word");
            assert!(found.executable.unwrap().starts_with("/usr/"));
            assert_eq!(found.cwd.as_deref(), Some("/"));
            assert!(found.parents.is_empty());
            // Positive control the other way round: what nobody has is nobody's.
            let nobody = Connection {
                client: SocketAddr::new(from.ip(), 1),
                ..connection
            };
            assert_eq!(who(&mut guard, nobody), None);
            accepted.write_all(b"answer").unwrap();
            drop(accepted);
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            assert_eq!(text, "answer");
        }
    }
}

#[test]
fn parents_are_named_nearest_first_and_a_hidden_process_is_not_guessed() {
    for user in users() {
        let (mut guard, proxy, _, _) = started(*user);
        let script = format!("{}\nimport os", client("127.0.0.1", PROXY));
        let nested = format!("python3 -c \"{script}\"; true");
        let env = format!("env sh -c '{}'; true", nested.replace('\'', "'\\''"));
        guard.exec_silent(&["dash", "-c", &env]);
        let (accepted, client) = proxy.accept().unwrap();
        let connection = Connection {
            transport: Transport::Tcp,
            client,
            server: None,
        };
        let found = who(&mut guard, connection).unwrap();
        assert_eq!(found.parents, ["sh", "dash"], "{found:?}");
        drop(accepted);

        let hidden = "import ctypes,socket\nctypes.CDLL(None).prctl(4,0,0,0,0)\n\
                      s=socket.create_connection(('127.0.0.1',3128))\ns.recv(1)";
        guard.exec_silent(&["python3", "-c", hidden]);
        let (_accepted, client) = proxy.accept().unwrap();
        let connection = Connection {
            client,
            ..connection
        };
        assert_eq!(who(&mut guard, connection), None);
    }
}

#[test]
fn a_process_with_very_many_sockets_does_not_hide_another() {
    for user in users() {
        let (mut guard, proxy, _, _) = started(*user);
        let many = "import resource,socket,sys\n\
                    resource.setrlimit(resource.RLIMIT_NOFILE,(resource.getrlimit(7)[1],)*2)\n\
                    held=[socket.create_connection(('127.0.0.1',3128)) for _ in range(1500)]\n\
                    print('ready',flush=True)\nheld[0].recv(1)";
        let (_, mut output) = guard.exec_reading(&["python3", "-c", many]);
        let held: Vec<_> = (0..1500).map(|_| proxy.accept().unwrap()).collect();
        let mut ready = [0; 5];
        output.read_exact(&mut ready).unwrap();
        let script = client("127.0.0.1", PROXY);
        let id = guard.exec_silent(&["python3", "-c", &script, "the-other"]);
        let (_accepted, from) = proxy.accept().unwrap();
        let (pid, _) = guard.started(id);
        let ask = |client| Connection {
            transport: Transport::Tcp,
            client,
            server: Some(proxy.local_addr().unwrap()),
        };
        // Many questions at once, as a flood brings them; each has its answer.
        for (token, client) in (0..).zip(held.iter().take(200).map(|it| it.1).chain([from])) {
            let connection = ask(client);
            guard.send(&Request::WhoConnects { token, connection }, &[]);
        }
        for token in 0..201 {
            let (found, _) = guard.expect(|event| match event {
                Event::Connector { token: it, found } if *it == token => Some(found.clone()),
                _ => None,
            });
            assert_eq!(found.unwrap().pid == pid, token == 200);
        }
    }
}

#[test]
fn nobody_outside_can_connect_and_no_program_holds_a_listener() {
    for user in users() {
        let (mut guard, proxy, _, _) = started(*user);
        assert!(TcpStream::connect(proxy.local_addr().unwrap()).is_err());
        let listed = guard.sh("ls -l /proc/self/fd /proc/1/fd 2>&1 | grep -c socket");
        assert_eq!(listed.stdout.trim(), "0", "{listed:?}");
        // Once the engine lets go, nobody listens: neither the guard nor a program has a copy.
        let attempt = client("127.0.0.1", PROXY);
        drop(proxy);
        let refused = guard.run(&["python3", "-c", &attempt]);
        assert!(refused.stderr.contains("refused"), "{refused:?}");
    }
}

#[test]
fn a_port_that_cannot_be_had_is_a_refusal() {
    for user in users() {
        let place = Place::Native(*user, Flags::default());
        let with = |ports: Vec<u16>| Setup {
            loopback: Some(LoopbackPlan { ports }),
            ..setup()
        };
        for ports in [vec![80], vec![PROXY, PROXY], (2000..2100).collect()] {
            let refused = Guard::start_with(&place, with(ports)).unwrap_err();
            assert_eq!(refused.name, "listeners");
        }
        assert!(Guard::start_with(&place, with(vec![PROXY])).is_ok());
    }
    let on_the_host = Setup {
        loopback: Some(LoopbackPlan::default()),
        ..host_setup()
    };
    let refused = Guard::start_with(&Place::Host, on_the_host).unwrap_err();
    assert_eq!(refused.name, "role");
}

#[test]
fn a_file_with_other_content_and_a_private_place_of_the_host_are_refused() {
    let write = "--file 14 /tmp/resolv.conf";
    let memory = || {
        let flags = nix::sys::memfd::MFdFlags::empty();
        let mut file = File::from(nix::sys::memfd::memfd_create("content", flags).unwrap());
        file.write_all(b"nameserver 127.0.0.1\n").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        file
    };
    for user in users() {
        let verdict = |content: &[u8], private: &str| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let image = guard_image();
            let file = memory();
            let mut command = bubblewrap(*user);
            command.args(Flags::with(write).arguments()).args([
                "--",
                "/run/kotak/guard",
                "native",
                "13",
            ]);
            let moves = [
                (image.as_fd(), 12),
                (theirs.as_fd(), 13),
                (file.as_fd(), 14),
            ];
            fix_descriptors(&mut command, &moves);
            let mut guard = Guard::around(ours, command.spawn().unwrap());
            let mut expect = expectation();
            expect.contents = vec![FileCheck {
                path: b"/tmp/resolv.conf".to_vec(),
                content: content.to_vec(),
            }];
            expect.private = vec![private.into()];
            let verdict = guard.set_up(native_setup(expect));
            verdict.err().map(|check| check.name)
        };
        let right = b"nameserver 127.0.0.1\n";
        assert_eq!(verdict(right, "/tmp"), None);
        assert_eq!(verdict(b"nameserver", "/tmp").as_deref(), Some("content"));
        assert_eq!(verdict(right, "/usr").as_deref(), Some("private"));
        assert_eq!(verdict(right, "/none").as_deref(), Some("private"));
    }
}

#[test]
fn the_helper_opens_low_ports_and_makes_the_pool_local() {
    for user in users() {
        let (mut guard, _, _, namespace) = started(*user);
        // Before: nothing of the pool is anywhere.
        let attempt = client("198.18.7.9", 443);
        let before = guard.run(&["python3", "-c", &attempt]);
        assert!(before.stderr.contains("unreachable"), "{before:?}");

        let sockets = helper(&namespace, *user, &low_ports()).unwrap();
        let [dns, dns_tcp, https] = <[OwnedFd; 3]>::try_from(sockets).unwrap();
        let (dns, dns_tcp) = (UdpSocket::from(dns), TcpListener::from(dns_tcp));
        let https = TcpListener::from(https);

        let (id, mut output) = guard.exec_reading(&["python3", "-c", &attempt]);
        let (mut accepted, from) = https.accept().unwrap();
        assert_eq!(
            accepted.local_addr().unwrap(),
            "198.18.7.9:443".parse().unwrap()
        );
        let connection = Connection {
            transport: Transport::Tcp,
            client: from,
            server: Some(accepted.local_addr().unwrap()),
        };
        let (pid, _) = guard.started(id);
        assert_eq!(who(&mut guard, connection).unwrap().pid, pid);
        accepted.write_all(b"answer").unwrap();
        drop(accepted);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");

        let query = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
                     s.sendto(b'query',('127.0.0.1',53))\nprint(s.recv(100).decode())";
        let (id, mut output) = guard.exec_reading(&["python3", "-c", query]);
        let mut buffer = [0; 100];
        let (count, from) = dns.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"query");
        let connection = Connection {
            transport: Transport::Udp,
            client: from,
            server: Some(dns.local_addr().unwrap()),
        };
        let (pid, _) = guard.started(id);
        assert_eq!(who(&mut guard, connection).unwrap().pid, pid);
        dns.send_to(b"reply", from).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "reply\n");

        let script = client("127.0.0.1", 53);
        guard.exec_silent(&["python3", "-c", &script]);
        assert!(dns_tcp.accept().is_ok());

        // A port that is taken is told, and nothing comes along.
        let again = helper(&namespace, *user, &low_ports()).unwrap_err();
        let HelperAnswer::Failed { step, errno } = again else {
            panic!("bound twice");
        };
        assert_eq!((step, errno), (HelperStep::Bind(53), libc::EADDRINUSE));
    }
}

#[test]
fn the_helper_of_another_user_gets_nowhere() {
    if !users().contains(&User::Root) {
        // Two accounts are needed.
        return;
    }
    let (_guard, _, _, namespace) = started(User::Root);
    let refused = helper(&namespace, User::Ordinary, &low_ports()).unwrap_err();
    let HelperAnswer::Failed { step, errno } = refused else {
        panic!("it was bound");
    };
    assert!(
        matches!(step, HelperStep::Owner | HelperStep::JoinUser),
        "{step:?}"
    );
    assert_eq!(errno, libc::EPERM);
    assert!(helper(&namespace, User::Root, &low_ports()).is_ok());
}

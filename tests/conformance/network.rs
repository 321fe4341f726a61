//! The way into a restricted network: what its proxies accept, who is behind it, and that it is
//! nobody else's. REQ EG-1, EG-2, EG-12, BW-2.

mod session;

use kotak_engine::backend::{
    Aspect, Bridge, BridgeChoice, BridgePlan, Level, NOT_CONFIRMED, confirm,
};
use kotak_engine::error::Coded;
use kotak_engine::process::{Accepted, Listener, native};
use kotak_engine::spec::NetworkMode;
use kotak_guard::proto::Transport;
use kotak_tests::stage::Stage;
use session::{BRIDGES, Session, abs, only, plan};
use std::net::TcpStream;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Where a test gives up waiting; no test measures time.
const PATIENCE: Duration = Duration::from_secs(60);

async fn accepted(listener: &Listener) -> Accepted {
    tokio::time::timeout(PATIENCE, listener.accept())
        .await
        .expect("a connection in time")
        .expect("a connection")
}

/// Connects, says hello, closes its side, and shows what comes back until the other side closes.
fn client(address: &str, port: u16) -> String {
    format!(
        "import socket\ns=socket.create_connection(('{address}',{port}))\ns.sendall(b'hello')\n\
         s.shutdown(socket.SHUT_WR)\nprint(s.makefile().read())"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_accepts_what_connects_inside_and_knows_who_it_is() {
    for bridge in BRIDGES {
        let session = Session::launch(bridge).await;
        assert_eq!(session.sockets.bridge, bridge);
        for (listener, port) in [
            (&session.sockets.http, 3128),
            (&session.sockets.socks, 1080),
        ] {
            let script = client("127.0.0.1", port);
            let argv = ["python3", "-c", &script, "a marked word"];
            let program = session.start(&argv).await;
            let mut connection = accepted(listener).await;
            let mut text = String::new();
            connection
                .stream
                .read_to_string(&mut text)
                .await
                .expect("what it sent");
            assert_eq!(text, "hello");
            let inside = session.tree.inside().expect("a network of its own");
            let client = connection.client.expect("the client's end");
            let found = inside
                .who_connects(Transport::Tcp, client, connection.local)
                .await
                .expect("the process");
            assert_eq!(found.pid, program.pid, "{bridge:?}");
            assert_eq!(found.argv.last().map(String::as_str), Some("a marked word"));
            assert!(found.comm.starts_with("python3"), "{found:?}");
            // Half-closed, the other way still works.
            connection
                .stream
                .write_all(b"answer")
                .await
                .expect("an answer");
            connection.stream.shutdown().await.expect("the end");
            drop(connection);
            assert_eq!(program.output().await.trim(), "answer", "{bridge:?}");
        }
        // The bridge itself is none of the session's programs.
        assert_eq!(session.tree.processes().await.expect("a list").len(), 0);
        session.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_ignore_proxies_arrive_by_name_or_by_address() {
    for bridge in BRIDGES {
        let session = Session::launch(bridge).await;
        let direct = session.sockets.direct.as_ref().expect("low ports");
        let resolver = session.run(&["cat", "/etc/resolv.conf"]).await;
        assert!(resolver.starts_with("nameserver 127.0.0.1\n"), "{resolver}");
        let change = session
            .run(&["sh", "-c", "echo x > /etc/resolv.conf || echo refused"])
            .await;
        assert!(change.ends_with("refused\n"), "{change}");

        // The system's own resolver asks the DNS inside, and for this name alone.
        let lookup = session
            .python(
                "import socket\ntry: socket.getaddrinfo('wanted.example',443,socket.AF_INET)\n\
                 except socket.gaierror as error: print('no answer')",
            )
            .await;
        let mut query = [0; 512];
        let (count, from) = tokio::time::timeout(PATIENCE, direct.dns_udp.recv_from(&mut query))
            .await
            .expect("a query in time")
            .expect("a query");
        let name = b"\x06wanted\x07example\0";
        let asked = query[..count].windows(name.len()).any(|part| part == name);
        assert!(asked, "{:?}", &query[..count]);
        let inside = session.tree.inside().expect("a network of its own");
        let who = inside
            .who_connects(Transport::Udp, from, direct.dns_udp.local_addr().ok())
            .await;
        assert_eq!(who.map(|it| it.pid), Some(lookup.pid));
        // RFC 1035, section 4.1.1: an answer, refused.
        let mut refusal = query[..12].to_vec();
        refusal[2] |= 0x80;
        refusal[3] = 5;
        refusal[6..12].fill(0);
        refusal.extend_from_slice(&query[12..12 + name.len() + 4]);
        direct
            .dns_udp
            .send_to(&refusal, from)
            .await
            .expect("a reply");
        // Some resolvers ask once more before they give up.
        let again = async {
            while let Ok((count, from)) = direct.dns_udp.recv_from(&mut query).await {
                refusal[..2].copy_from_slice(&query[..2.min(count)]);
                direct
                    .dns_udp
                    .send_to(&refusal, from)
                    .await
                    .expect("a reply");
            }
        };
        tokio::select! {
            () = again => panic!("the socket failed"),
            text = lookup.output() => assert_eq!(text, "no answer\n"),
        }

        for (port, listener) in &direct.transparent {
            let program = session.python(&client("198.19.255.254", *port)).await;
            let connection = accepted(listener).await;
            let local = connection.local.expect("what it meant");
            assert_eq!(local.to_string(), format!("198.19.255.254:{port}"));
            let client = connection.client.expect("the client's end");
            let found = inside
                .who_connects(Transport::Tcp, client, connection.local)
                .await;
            assert_eq!(found.map(|it| it.pid), Some(program.pid));
        }
        let ports: Vec<u16> = direct.transparent.iter().map(|it| it.0).collect();
        assert_eq!(ports, [443, 80, 22]);
        let _program = session.python(&client("127.0.0.1", 53)).await;
        drop(accepted(&direct.dns_tcp).await);

        // What is not of the pool goes nowhere.
        let nowhere = session.python(&client("192.0.2.1", 443)).await;
        assert!(nowhere.output().await.contains("unreachable"));
        session.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_on_the_host_can_connect_and_the_helper_is_gone() {
    // egress case: another local user or process connects to the session's proxy port
    for bridge in BRIDGES {
        let run = tempfile::tempdir().expect("a directory");
        let stage = Stage::new();
        let mut wanted = plan(&stage, NetworkMode::Ask);
        wanted.bridge = BridgePlan {
            run: Some(abs(run.path())),
            ..only(bridge)
        };
        let session = Session::launch_plan(stage, wanted)
            .await
            .expect("a session");
        for port in [3128, 1080] {
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port}");
        }
        // Nothing by which the sockets of a bridge could be found is left.
        let left = std::fs::read_dir(run.path()).expect("a directory").count();
        assert_eq!(left, 0);
        let tasks = std::fs::read_dir("/proc/self/task").expect("the threads");
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            for child in children.unwrap_or_default().split_ascii_whitespace() {
                let words = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).into_owned();
                assert!(!words.contains("helper"), "{words:?}");
            }
        }
        // The control: from inside it is there.
        let program = session.python(&client("127.0.0.1", 3128)).await;
        drop(accepted(&session.sockets.http).await);
        program.output().await;
        // No program holds a listener: once the engine lets go, nobody listens.
        if bridge == Bridge::Guard {
            let Session {
                tree,
                sockets,
                plan,
                ..
            } = session;
            drop(sockets);
            let inside = tree.inside().expect("a network of its own");
            let refused = inside.connect(3128).await.expect_err("nobody listens");
            assert_eq!(refused.code(), "NOBODY_LISTENS");
            assert_eq!(confirmed(&plan, &tree).0, Level::On);
            tree.end().await.expect("the end of the session");
        } else {
            assert!(confirmed(&session.plan, &session.tree).1.contains("socat"));
            session.end().await;
        }
    }
}

/// What the report says of the network.
fn confirmed(
    plan: &kotak_engine::backend::NativePlan,
    tree: &kotak_engine::process::Tree,
) -> (Level, String) {
    let enforcement = confirm(plan, tree.report(), tree.way_in());
    let row = enforcement
        .aspects
        .into_iter()
        .find(|row| row.aspect == Aspect::Network)
        .expect("a row");
    assert!(
        row.gaps.iter().all(|gap| gap.code != NOT_CONFIRMED),
        "{row:?}"
    );
    (row.level, row.detail)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_network_has_no_listeners_and_keeps_the_hosts_resolver() {
    let stage = Stage::new();
    let wanted = plan(&stage, NetworkMode::Open);
    assert_eq!(wanted.resolver, None);
    let tree = native::launch(&wanted, None).await.expect("a session");
    assert!(tree.take_sockets().is_none());
    assert!(tree.way_in().is_none() && tree.inside().is_none());
    assert_eq!(confirmed(&wanted, &tree).0, Level::Off);
    tree.end().await.expect("the end of the session");
    // The control: restricted, it has them, also with the network off (REQ EG-7).
    let wanted = plan(&stage, NetworkMode::Off);
    let tree = native::launch(&wanted, None).await.expect("a session");
    assert!(tree.take_sockets().is_some());
    tree.end().await.expect("the end of the session");
}

#[tokio::test(flavor = "multi_thread")]
async fn socat_bridges_where_the_guards_listeners_cannot_be_had() {
    // REQ BW-2
    let with = |bridge: BridgePlan| {
        let stage = Stage::new();
        let mut wanted = plan(&stage, NetworkMode::Ask);
        wanted.bridge = bridge;
        // A port that the guard cannot bind stands for listeners that it cannot hand over.
        if let Some(loopback) = &mut wanted.setup.loopback {
            loopback.ports = vec![80, 1080];
        }
        (stage, wanted)
    };
    let automatic = BridgePlan {
        choice: BridgeChoice::Auto,
        ..only(Bridge::Guard)
    };
    let (stage, wanted) = with(automatic.clone());
    let session = Session::launch_plan(stage, wanted)
        .await
        .expect("a session");
    assert_eq!(session.sockets.bridge, Bridge::Socat);
    let program = session.python(&client("127.0.0.1", 3128)).await;
    drop(accepted(&session.sockets.http).await);
    program.output().await;
    session.end().await;

    let no_socat = BridgePlan {
        socat: None,
        ..automatic
    };
    for (bridge, code) in [
        (no_socat, "GUARD_REFUSED"),
        (only(Bridge::Guard), "GUARD_REFUSED"),
        (
            BridgePlan {
                socat: None,
                ..only(Bridge::Socat)
            },
            "SOCAT_MISSING",
        ),
        (
            BridgePlan {
                socat: Some(abs("/nonexistent/socat")),
                ..only(Bridge::Socat)
            },
            "BRIDGE_FAILED",
        ),
    ] {
        let (stage, wanted) = with(bridge);
        let refused = Session::launch_plan(stage, wanted).await.err();
        assert_eq!(refused.map(|error| error.code()), Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwards_and_sockets_work_while_they_are_held_and_no_longer() {
    // REQ EG-12
    let session = Session::launch(Bridge::Guard).await;
    let inside = session.tree.inside().expect("a network of its own");
    // In: a server inside, reached from the host.
    let server = session
        .python(
            "import socket\ns=socket.create_server(('127.0.0.1',8080))\nc,_=s.accept()\n\
             c.sendall(b'served')",
        )
        .await;
    let mut stream = loop {
        match inside.connect(8080).await {
            Ok(stream) => break stream,
            Err(error) => assert_eq!(error.code(), "NOBODY_LISTENS"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("its answer");
    assert_eq!(text, "served");
    server.output().await;
    // Out: a port inside that the engine answers, also one below 1024.
    for port in [5432, 25] {
        let listener = inside.listen(port).await.expect("a listener");
        let program = session.python(&client("127.0.0.1", port)).await;
        drop(accepted(&listener).await);
        program.output().await;
        let taken = inside.listen(port).await.expect_err("it is taken");
        assert!(["PORT_IN_USE", "LOW_PORT_UNAVAILABLE"].contains(&taken.code()));
        drop(listener);
        let refused = session.python(&client("127.0.0.1", port)).await;
        assert!(refused.output().await.contains("refused"), "{port}");
    }
    // A socket at the place that programs expect.
    let path = format!("/run/user/{}/agent/ssh", nix::unistd::getuid());
    let ask = format!(
        "import socket\ns=socket.socket(socket.AF_UNIX)\ns.connect('{path}')\n\
         print(s.recv(10).decode())"
    );
    let listener = inside
        .listen_unix(path.as_bytes())
        .await
        .expect("a listener");
    let program = session.python(&ask).await;
    let (mut stream, _) = listener.accept().await.expect("a connection");
    stream.write_all(b"keys").await.expect("an answer");
    drop(stream);
    assert_eq!(program.output().await, "keys\n");
    drop(listener);
    assert!(
        session
            .run(&["python3", "-c", &ask])
            .await
            .contains("refused")
    );
    let in_home = session.plan.cwd.join("agent.sock");
    let refused = inside.listen_unix(in_home.as_bytes()).await;
    let refused = refused.expect_err("it would be made on the host");
    assert_eq!(refused.code(), "PATH_NOT_PRIVATE");
    session.end().await;
    let gone = inside.connect(8080).await.expect_err("it has ended");
    assert_eq!(gone.code(), "SESSION_ENDED");
    let nobody = inside
        .who_connects(Transport::Tcp, ([127, 0, 0, 1], 1).into(), None)
        .await;
    assert_eq!(nobody, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_command_stands_inside_and_asks_by_name() {
    // REQ EG-2
    for bridge in BRIDGES {
        let session = Session::launch(bridge).await;
        let command = ["/run/kotak/guard", "connect", "1080", "git.example", "22"];
        let program = session.start(&command).await;
        let mut connection = accepted(&session.sockets.socks).await;
        let mut greeting = [0; 3];
        let stream = &mut connection.stream;
        stream.read_exact(&mut greeting).await.expect("a greeting");
        stream.write_all(&[5, 0]).await.expect("a method");
        let mut request = [0; 18];
        stream.read_exact(&mut request).await.expect("a request");
        assert_eq!(&request, b"\x05\x01\0\x03\x0bgit.example\0\x16");
        let reply = [5, 2, 0, 1, 0, 0, 0, 0, 0, 0];
        stream.write_all(&reply).await.expect("a reply");
        assert_eq!(
            program.output().await,
            "kotak: git.example is refused by the session's network rules\n"
        );
        session.end().await;
    }
}

use super::*;

fn forward(direction: ForwardDirection, guest_port: u16, host_port: u16) -> PortForward {
    PortForward {
        direction,
        host_port,
        guest_port,
    }
}

fn socket(path: &str) -> SocketGrant {
    SocketGrant {
        host_path: path.to_owned(),
    }
}

#[test]
fn a_port_is_written_alone_or_with_the_hosts_behind_it() {
    let read = |text| Ports::parse(text).map(|ports| (ports.guest.get(), ports.host.get()));
    assert_eq!(read("3000"), Ok((3000, 3000)));
    assert_eq!(read("3000:8080"), Ok((3000, 8080)));
    assert_eq!(read("65535:1"), Ok((65535, 1)));
    for wrong in [
        "", "0", "3000:0", "65536", "-1", "+80", " 80", "3000:", ":80", "1:2:3", "http", "1.5",
    ] {
        let error = Ports::parse(wrong).unwrap_err();
        assert_eq!(error.code(), "GRANT_PORT_INVALID", "{wrong}");
    }
}

#[test]
fn the_sessions_own_ports_are_forwarded_neither_way() {
    // REQ EG-1, EG-12: another local user never reaches a session's proxies.
    for port in [
        crate::policy::HTTP_PORT,
        crate::policy::SOCKS_PORT,
        22,
        53,
        80,
        443,
    ] {
        assert_eq!(
            Ports::parse(&format!("{port}:9000")),
            Err(GrantError::OwnPort { port })
        );
        for direction in [ForwardDirection::In, ForwardDirection::Out] {
            assert_eq!(
                forward(direction, port, 9000).checked(),
                Err(GrantError::OwnPort { port })
            );
        }
    }
    // Of the host they are ports as any other.
    assert!(Ports::parse("8080:80").is_ok());
}

#[test]
fn a_port_of_the_host_that_controls_it_is_reached_from_no_sandbox() {
    use ForwardDirection::{In, Out};
    for port in [2375, 2376, 6000, 6010] {
        let refused = forward(Out, 9000, port).checked().unwrap_err();
        assert_eq!(refused.code(), "PORT_CONTROLS_HOST", "{port}");
        // A server inside may be opened there: nothing of the host is reached by it.
        assert!(forward(In, 9000, port).checked().is_ok(), "{port}");
        let kept = format!("{port}:9000");
        assert_eq!(Grant::stored(GrantKind::PortOut, &kept), None);
    }
    assert!(forward(Out, 6000, 5999).checked().is_ok());
}

#[test]
fn without_a_host_port_it_is_the_same_as_inside() {
    let listed = [forward(ForwardDirection::In, 3000, 0)];
    let ports = Ports::parse("3000").unwrap();
    assert_eq!(grants(&listed, &[]), Ok(vec![Grant::PortIn(ports)]));
}

#[test]
fn every_grant_is_kept_as_it_is_read() {
    let all = grants(
        &[
            forward(ForwardDirection::In, 3000, 8080),
            forward(ForwardDirection::Out, 5432, 5433),
        ],
        &[socket("ssh-agent"), socket("/run/postgresql/.s.PGSQL.5432")],
    )
    .unwrap();
    assert_eq!(all.len(), 4);
    for grant in &all {
        assert_eq!(
            Grant::stored(grant.kind(), &grant.value()).as_ref(),
            Some(grant)
        );
    }
    let values: Vec<_> = all.iter().map(Grant::value).collect();
    assert_eq!(
        values,
        [
            "8080:3000",
            "5433:5432",
            "ssh-agent",
            "/run/postgresql/.s.PGSQL.5432"
        ]
    );
    // What another version or another program wrote there grants nothing.
    for (kind, value) in [
        (GrantKind::PortIn, "3000"),
        (GrantKind::PortIn, "0:3000"),
        (GrantKind::PortOut, "9000:3128"),
        (GrantKind::Socket, "relative"),
    ] {
        assert_eq!(Grant::stored(kind, value), None, "{value}");
    }
}

#[test]
fn two_forwards_at_one_place_are_refused_and_equal_ones_are_one() {
    use ForwardDirection::{In, Out};
    let same = [forward(In, 3000, 0), forward(In, 3000, 3000)];
    assert_eq!(grants(&same, &[]).unwrap().len(), 1);
    let host = [forward(In, 3000, 8080), forward(In, 3001, 8080)];
    assert_eq!(
        grants(&host, &[]),
        Err(GrantError::Conflict {
            port: 8080,
            side: "of the host"
        })
    );
    let inside = [forward(Out, 5432, 1), forward(Out, 5432, 2)];
    assert_eq!(
        grants(&inside, &[]),
        Err(GrantError::Conflict {
            port: 5432,
            side: "inside"
        })
    );
    // One server inside may be opened at two ports of the host, and the other way round.
    let fine = [
        forward(In, 3000, 8080),
        forward(In, 3000, 8081),
        forward(Out, 5432, 5432),
        forward(Out, 5433, 5432),
    ];
    assert_eq!(grants(&fine, &[]).unwrap().len(), 4);
}

#[test]
fn a_socket_is_named_by_a_whole_path_or_as_the_agent() {
    assert_eq!(SocketName::parse("ssh-agent"), Ok(SocketName::SshAgent));
    for wrong in ["", "agent.sock", "~/x", "/", "/run/\u{1b}[2J", "/run/a\0b"] {
        let error = SocketName::parse(wrong).unwrap_err();
        assert_eq!(error.code(), "GRANT_SOCKET_PATH_INVALID", "{wrong:?}");
    }
    let many: Vec<_> = (0..65).map(|at| socket(&format!("/run/{at}"))).collect();
    assert_eq!(grants(&[], &many), Err(GrantError::TooMany { count: 65 }));
}

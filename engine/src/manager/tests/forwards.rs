//! Grants of real sandboxes: made, listed, revoked. REQ EG-12.

use super::*;
use crate::api::{GrantInfo, NewGrant, SessionGrant, SessionPhase};
use crate::spec::{ForwardDirection, GrantKind, NetworkMode, PortForward, SocketGrant};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

/// A port of the host that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server inside that says one word to everybody, until its terminal ends.
const SERVER: &str = r#"exec python3 -c "
import socket
s = socket.create_server(('127.0.0.1', 8123))
print('serving', flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b'inside')
    c.close()
"
"#;

fn inward(host_port: u16) -> PortForward {
    PortForward {
        direction: ForwardDirection::In,
        host_port,
        guest_port: 8123,
    }
}

impl Rig {
    fn with(&self, forwards: &[PortForward], sockets: &[&str]) -> LaunchRequest {
        let line = self.script("server.sh", SERVER);
        LaunchRequest {
            network: Some(NetworkMode::Off),
            port_forwards: forwards.to_vec(),
            socket_grants: sockets
                .iter()
                .map(|path| SocketGrant {
                    host_path: (*path).to_owned(),
                })
                .collect(),
            ..self.request(BackendChoice::Native, &line)
        }
    }

    async fn serving(&self, request: LaunchRequest) -> String {
        let info = self.engine.launch(request).await.unwrap();
        assert_eq!(info.handle.error, None);
        let mut text = String::new();
        while !text.contains("serving") {
            let from = text.len() as u64;
            let chunk = self.engine.read_output(&info.id, from).await.unwrap();
            assert!(!chunk.ended, "{text}");
            text.push_str(&String::from_utf8_lossy(&chunk.bytes));
        }
        info.id
    }

    fn granted(&self, session: &str) -> Vec<SessionGrant> {
        self.engine.session_grants(session).unwrap()
    }
}

fn new(kind: GrantKind, what: &str, session: Option<&str>, workspace: Option<&Path>) -> NewGrant {
    NewGrant {
        kind,
        what: what.to_owned(),
        session_id: session.map(str::to_owned),
        workspace: workspace.map(|path| path.to_str().unwrap().to_owned()),
    }
}

/// What is said at a port of the host.
fn said(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_opened_while_its_grant_stands_and_goes_with_the_session() {
    let rig = Rig::start().await;
    rig.assert_native();
    let port = free_port();
    let id = rig.serving(rig.with(&[inward(port)], &[])).await;
    assert_eq!(said(port).unwrap(), "inside");
    let [granted] = rig.granted(&id).try_into().unwrap();
    assert_eq!(granted.reached_by, Some(format!("127.0.0.1:{port}")));
    assert_eq!(granted.problem, None);
    assert_eq!(granted.grant.session_id.as_ref(), Some(&id));
    assert!(rig.engine.grants().contains(&granted.grant));

    // Revoked, it is closed by the time that is said.
    rig.engine.revoke_grant(granted.grant.id).await.unwrap();
    let refused = said(port).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(rig.granted(&id), []);
    let again = rig.engine.revoke_grant(granted.grant.id).await.unwrap_err();
    assert_eq!(again.code, "NO_SUCH_GRANT");

    // And granted again, to the session that runs.
    let what = format!("8123:{port}");
    let grant = new(GrantKind::PortIn, &what, Some(&id), None);
    let granted = rig.engine.add_grant(grant).await.unwrap();
    assert_eq!(said(port).unwrap(), "inside");
    rig.engine.close(&id).await.unwrap();
    let refused = said(port).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    eventually("the session's grant is gone", || {
        !rig.engine.grants().contains(&granted)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_the_workspace_holds_for_later_sessions_and_is_revoked_in_all() {
    let rig = Rig::start().await;
    rig.assert_native();
    let port = free_port();
    let first = rig.serving(rig.with(&[], &[])).await;
    let what = format!("8123:{port}");
    let grant = new(GrantKind::PortIn, &what, None, Some(&rig.work()));
    let granted: GrantInfo = rig.engine.add_grant(grant).await.unwrap();
    // The one that runs was started without.
    assert_eq!(rig.granted(&first), []);
    assert!(said(port).is_err());
    let request = rig.with(&[], &[]);
    let preview = rig.engine.preview(&request).await;
    let named = |sentence: &String| sentence.contains(&format!("**127.0.0.1:{port}**"));
    assert!(preview.sentences.iter().any(named), "{preview:?}");
    let second = rig.serving(request).await;
    assert_eq!(said(port).unwrap(), "inside");
    // A second one finds the port taken; it runs, and says so.
    let third = rig.serving(rig.with(&[], &[])).await;
    let [late] = rig.granted(&third).try_into().unwrap();
    assert_eq!(late.problem.unwrap().code, "HOST_PORT_TAKEN");
    assert_eq!(late.reached_by, None);
    rig.engine.revoke_grant(granted.id).await.unwrap();
    assert!(said(port).is_err());
    assert_eq!(rig.granted(&second), []);
    assert_eq!(rig.granted(&third), []);
    for id in [first, second, third] {
        rig.engine.close(&id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_is_an_error_with_a_fix_and_nothing_is_kept() {
    let rig = Rig::start().await;
    rig.assert_native();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let info = rig.engine.launch(rig.with(&[inward(port)], &[])).await;
    let info = info.unwrap();
    assert_eq!(info.phase, SessionPhase::Error);
    let problem = info.handle.error.unwrap();
    assert_eq!(problem.code, "HOST_PORT_TAKEN", "{problem:?}");
    assert!(problem.fix.is_some());
    eventually("nothing is kept", || rig.engine.grants().is_empty()).await;
    // The same for a session that runs, which goes on.
    let id = rig.serving(rig.with(&[], &[])).await;
    let grant = new(GrantKind::PortIn, &format!("8123:{port}"), Some(&id), None);
    let refused = rig.engine.add_grant(grant).await.unwrap_err();
    assert_eq!(refused.code, "HOST_PORT_TAKEN");
    assert_eq!(rig.granted(&id), []);
    assert!(rig.engine.session(&id).unwrap().is_live());
    rig.engine.close(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_controls_the_host_is_refused_before_anything_runs() {
    let rig = Rig::start().await;
    rig.assert_native();
    let docker = rig.root.path().join("docker.sock");
    let _listener = UnixListener::bind(&docker).unwrap();
    let docker = docker.to_str().unwrap();
    let request = rig.with(&[], &[docker]);
    let preview = rig.engine.preview(&request).await;
    assert_eq!(preview.problem.unwrap().code, "SOCKET_CONTROLS_HOST");
    let refused = rig.engine.launch(request).await.unwrap_err();
    assert_eq!(refused.code, "SOCKET_CONTROLS_HOST");
    let id = rig.serving(rig.with(&[], &[])).await;
    let kotak = Dirs::under(rig.kotak.path()).run.join("desk.sock");
    for (path, code) in [
        (docker, "SOCKET_CONTROLS_HOST"),
        (kotak.to_str().unwrap(), "SOCKET_CONTROLS_HOST"),
        ("/var/run/docker.sock", "SOCKET_CONTROLS_HOST"),
        ("/nowhere/x.sock", "SOCKET_MISSING"),
        ("relative", "GRANT_SOCKET_PATH_INVALID"),
    ] {
        for place in [(Some(id.as_str()), None), (None, Some(rig.work()))] {
            let grant = new(GrantKind::Socket, path, place.0, place.1.as_deref());
            let refused = rig.engine.add_grant(grant).await.unwrap_err();
            assert_eq!(refused.code, code, "{path}");
        }
    }
    assert_eq!(rig.engine.grants(), []);
    rig.engine.close(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_walls_of_its_own_is_granted_nothing() {
    let rig = Rig::start().await;
    rig.assert_native();
    let forwards = [inward(0)];
    for network in [None, Some(NetworkMode::Open)] {
        let request = LaunchRequest {
            network,
            ..rig.with(&forwards, &[])
        };
        let refused = rig.engine.launch(request).await.unwrap_err();
        assert_eq!(refused.code, "GRANTS_WITH_OPEN_NETWORK");
    }
    let bare = LaunchRequest {
        network: None,
        backend: BackendChoice::None,
        ..rig.with(&forwards, &[])
    };
    let refused = rig.engine.launch(bare).await.unwrap_err();
    assert_eq!(refused.code, "FIELD_NOT_ENFORCED");
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let id = rig.launch(backend, "sleep 1000").await.id;
        assert_eq!(rig.granted(&id), []);
        let grant = new(GrantKind::PortIn, "8123", Some(&id), None);
        let refused = rig.engine.add_grant(grant).await.unwrap_err();
        assert_eq!(refused.code, "GRANTS_WITH_OPEN_NETWORK");
        rig.engine.close(&id).await.unwrap();
    }
    let grant = new(GrantKind::PortIn, "8123", Some("nobody"), None);
    let refused = rig.engine.add_grant(grant).await.unwrap_err();
    assert_eq!(refused.code, "NO_SUCH_SESSION");
    let nowhere = new(GrantKind::PortIn, "8123", None, None);
    let refused = rig.engine.add_grant(nowhere).await.unwrap_err();
    assert_eq!(refused.code, "GRANT_WITHOUT_PLACE");
}

//! Host sockets are hidden unless granted, also abstract ones under an open network.

use kotak_tests::stage::{Stage, is_root, skip};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

fn connect(address: &str) -> String {
    format!(
        "python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect({address}); \
         print(\"connected\")' 2>&1"
    )
}

#[test]
fn an_abstract_socket_of_the_host_is_out_of_reach() {
    let stage = Stage::new();
    let name = format!("kotak-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let _listener = UnixListener::bind_addr(&address).expect("a listener");
    let attempt = connect(&format!("\"\\0{name}\""));
    let inside = stage.terminal(&attempt);
    assert!(!inside.stdout.contains("connected"), "{inside:?}");
    assert!(
        inside.stdout.contains("Operation not permitted"),
        "{inside:?}"
    );
    let outside = stage.bare(&attempt);
    assert!(
        outside.stdout.contains("connected"),
        "the control failed: {outside:?}"
    );
}

#[test]
fn abstract_sockets_between_programs_inside_work() {
    let stage = Stage::new();
    let inside = stage.terminal(
        "python3 -c 'import socket; a=socket.socket(socket.AF_UNIX); a.bind(\"\\0inside\"); \
         a.listen(); b=socket.socket(socket.AF_UNIX); b.connect(\"\\0inside\"); print(\"ok\")'",
    );
    assert_eq!(inside.stdout.trim(), "ok", "{inside:?}");
}

#[test]
fn sockets_in_the_hosts_temporary_and_run_directories_are_hidden() {
    // launch case: docker.sock, D-Bus, X11, Wayland
    let stage = Stage::new();
    let mut places = vec![std::path::PathBuf::from("/tmp"), "/var/tmp".into()];
    if is_root() {
        places.push("/run".into());
    } else {
        skip("hidden sockets: only root can make one in /run");
    }
    for place in places {
        let path = place.join(format!("kotak-test-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a listener");
        let attempt = connect(&format!("\"{}\"", path.display()));
        let inside = stage.terminal(&attempt);
        let outside = stage.bare(&attempt);
        drop(listener);
        std::fs::remove_file(&path).expect("removal");
        assert!(
            !inside.stdout.contains("connected"),
            "{}: {inside:?}",
            place.display()
        );
        assert!(
            outside.stdout.contains("connected"),
            "the control failed: {outside:?}"
        );
    }
}

#[test]
fn display_and_agent_variables_do_not_come_in() {
    let stage = Stage::new();
    let names = [
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "GPG_AGENT_INFO",
        "DOCKER_HOST",
        "XAUTHORITY",
    ];
    for backend in ["native", "none"] {
        let mut call = stage
            .kotak()
            .args(["run", "--backend", backend, "--profile", "terminal"]);
        for name in names {
            call = call.env(name, "leaked-value");
        }
        let outcome = call.args(["--", "env"]).run();
        let leaked = outcome.stdout.contains("leaked-value");
        assert_eq!(leaked, backend == "none", "{backend}: {outcome:?}");
    }
}

#[test]
fn an_agents_socket_in_a_secret_directory_is_out_of_reach() {
    // launch case: `gpg-agent`, `ssh-agent` without a grant
    let stage = Stage::new();
    for place in [".gnupg/S.gpg-agent", ".ssh/agent.sock"] {
        let path = stage.home().join(place);
        let listener = UnixListener::bind(&path).expect("a listener");
        let attempt = connect(&format!("\"{}\"", path.display()));
        let inside = stage.terminal(&attempt);
        let outside = stage.bare(&attempt);
        drop(listener);
        assert!(!inside.stdout.contains("connected"), "{place}: {inside:?}");
        assert!(
            outside.stdout.contains("connected"),
            "the control failed: {outside:?}"
        );
    }
}

#[test]
fn the_runtime_directory_inside_is_a_private_one() {
    // launch case: D-Bus, Wayland
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let runtime = tempfile::Builder::new()
        .prefix("kotak-runtime-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in("/var/tmp")
        .expect("a directory");
    let _listener = UnixListener::bind(runtime.path().join("bus")).expect("a listener");
    let run = |backend: &str, script: &str| {
        let call = stage.kotak().env("XDG_RUNTIME_DIR", runtime.path());
        call.args(["run", "--backend", backend, "--profile", "terminal"])
            .args(["--", "sh", "-c", script])
            .run()
    };
    let listing = "ls -A \"$XDG_RUNTIME_DIR\"";
    assert_eq!(run("none", listing).stdout, "bus\n", "the control failed");
    let inside = run("native", listing);
    assert_eq!((inside.code, inside.stdout.as_str()), (0, ""), "{inside:?}");
    let usable = run(
        "native",
        "test -O \"$XDG_RUNTIME_DIR\" && echo x > \"$XDG_RUNTIME_DIR/x\" \
         && stat -c %a \"$XDG_RUNTIME_DIR\"",
    );
    assert_eq!(usable.stdout, "700\n", "{usable:?}");
    let left = std::fs::read_dir(runtime.path()).expect("a directory");
    assert_eq!(left.count(), 1, "something was left on the host");
}

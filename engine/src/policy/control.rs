//! Sockets of the host that are never let into a sandbox, whoever asks: whoever can speak to one of
//! these acts on the host with no wall in between, so a grant of it would be an escape and not a
//! grant (REQ EG-12).

use super::KotakPaths;
use crate::spec::AbsPath;

/// Directories in which every socket is one of these, `*` standing for one component.
const DIRECTORIES: [(&str, &str); 44] = [
    ("/run/docker", CONTAINERS),
    ("/run/containerd", CONTAINERS),
    ("/run/podman", CONTAINERS),
    ("/run/crio", CONTAINERS),
    ("/run/k3s", CONTAINERS),
    ("/run/buildkit", CONTAINERS),
    ("/run/libpod", CONTAINERS),
    ("/run/netns", CONTAINERS),
    ("/run/user/*/podman", CONTAINERS),
    ("/run/user/*/libpod", CONTAINERS),
    ("/run/user/*/docker", CONTAINERS),
    ("/run/user/*/containerd", CONTAINERS),
    ("/run/user/*/containerd-rootless", CONTAINERS),
    ("/run/user/*/buildkit", CONTAINERS),
    ("/var/lib/docker", CONTAINERS),
    ("/var/lib/kubelet", CONTAINERS),
    ("/var/lib/lxd", CONTAINERS),
    ("/var/lib/incus", CONTAINERS),
    ("/var/snap/lxd", CONTAINERS),
    ("/run/incus", CONTAINERS),
    ("/run/lxd", CONTAINERS),
    ("/run/libvirt", MACHINES),
    ("/run/user/*/libvirt", MACHINES),
    ("/run/qemu", MACHINES),
    ("/run/systemd", SERVICES),
    ("/run/user/*/systemd", SERVICES),
    ("/run/udev", SERVICES),
    ("/run/initctl", SERVICES),
    ("/run/dbus", BUS),
    ("/run/user/*/dbus-1", BUS),
    ("/run/user/*/at-spi", BUS),
    ("/tmp/.X11-unix", DISPLAY),
    ("/tmp/.ICE-unix", DISPLAY),
    ("/run/user/*/hypr", DISPLAY),
    ("/run/user/*/gnome-shell", DISPLAY),
    ("/run/user/*/pulse", SOUND),
    ("/run/pulse", SOUND),
    ("/run/snapd", PACKAGES),
    ("/run/screen", TERMINALS),
    ("/run/screens", TERMINALS),
    ("/tmp/screens", TERMINALS),
    ("/run/user/*/emacs", EDITORS),
    ("/run/user/*/wezterm", TERMINALS),
    ("/run/user/*/zellij", TERMINALS),
];

/// Names of such sockets, wherever they lie; `*` stands for the rest of the name.
const NAMES: [(&str, &str); 31] = [
    ("docker.sock", CONTAINERS),
    ("docker.raw.sock", CONTAINERS),
    ("docker-cli.sock", CONTAINERS),
    ("dockerd.sock", CONTAINERS),
    ("podman.sock", CONTAINERS),
    ("podman-api.sock", CONTAINERS),
    ("containerd.sock", CONTAINERS),
    ("containerd.sock.ttrpc", CONTAINERS),
    ("buildkitd.sock", CONTAINERS),
    ("crio.sock", CONTAINERS),
    ("dockershim.sock", CONTAINERS),
    ("cri-dockerd.sock", CONTAINERS),
    ("nerdctl.sock", CONTAINERS),
    ("libvirt-sock*", MACHINES),
    ("virtqemud-sock*", MACHINES),
    ("qmp*", MACHINES),
    ("system_bus_socket", BUS),
    ("dbus-*", BUS),
    ("snapd.socket", PACKAGES),
    ("snapd-snap.socket", PACKAGES),
    ("packagekit*", PACKAGES),
    ("wayland-*", DISPLAY),
    ("sway-ipc.*", DISPLAY),
    ("i3-ipc*", DISPLAY),
    ("pipewire-*", SOUND),
    ("vscode-ipc-*", EDITORS),
    ("vscode-git-*", EDITORS),
    ("code-*.sock", EDITORS),
    ("nvim.*", EDITORS),
    ("kitty-*", TERMINALS),
    ("mykitty*", TERMINALS),
];

const CONTAINERS: &str = "it controls containers, and a container can mount the whole host";
const MACHINES: &str = "it controls virtual machines, which can be given the host's disks";
const SERVICES: &str = "it controls the system's services, which run outside of every sandbox";
const BUS: &str = "it is a message bus, by which programs of the host are started and controlled";
const DISPLAY: &str = "it controls the display, on which keys can be read and typed for others";
const SOUND: &str = "it records from this computer, and loads modules into a server of the host";
const PACKAGES: &str = "it installs software on the host";
const TERMINALS: &str = "it types into terminals of the host";
const EDITORS: &str = "it runs commands in an editor of the host";
const KOTAK: &str = "it is Kotak's own, by which sandboxes are controlled";

/// Why a socket is never granted, or none. By its name alone: it need not exist.
#[must_use]
pub fn host_control(socket: &AbsPath, kotak: &KotakPaths) -> Option<&'static str> {
    let own = kotak.state.iter().chain(&kotak.config);
    if own.into_iter().any(|dir| socket.is_within(dir)) {
        return Some(KOTAK);
    }
    // The old name of /run, where it is a symlink to it and where it is a directory of its own.
    let bytes = socket.as_bytes();
    let bytes = if bytes.starts_with(b"/var/run/") {
        bytes.get(b"/var".len()..).unwrap_or(bytes)
    } else {
        bytes
    };
    let parts: Vec<&[u8]> = bytes
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    let in_directory = DIRECTORIES
        .iter()
        .find(|(directory, _)| is_below(&parts, directory));
    if let Some((_, why)) = in_directory {
        return Some(why);
    }
    // The user's bus, and the sockets of tmux in /tmp/tmux-UID, have names that others share.
    match parts.as_slice() {
        [b"run", b"user", _, b"bus"] => return Some(BUS),
        [b"tmp", directory, ..] | [b"run", b"user", _, directory, ..]
            if directory.starts_with(b"tmux-") =>
        {
            return Some(TERMINALS);
        }
        _ => {}
    }
    let name = parts.last()?.to_ascii_lowercase();
    NAMES
        .iter()
        .find(|(pattern, _)| is_named(&name, pattern.as_bytes()))
        .map(|(_, why)| *why)
}

/// The well-known ones, by which the same socket is recognised under another name.
#[must_use]
pub fn well_known_controls(uid: u32) -> Vec<AbsPath> {
    let user = format!("/run/user/{uid}");
    let mut paths: Vec<String> = [
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/snapd.socket",
        "/run/libvirt/libvirt-sock",
        "/var/lib/incus/unix.socket",
        "/var/snap/lxd/common/lxd/unix.socket",
        "/tmp/.X11-unix/X0",
    ]
    .map(str::to_owned)
    .into();
    let of_user = [
        "bus",
        "systemd/private",
        "wayland-0",
        "podman/podman.sock",
        "docker.sock",
    ];
    paths.extend(of_user.map(|name| format!("{user}/{name}")));
    paths
        .into_iter()
        .filter_map(|path| AbsPath::new(path).ok())
        .collect()
}

fn is_below(parts: &[&[u8]], directory: &str) -> bool {
    let wanted: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    parts.len() >= wanted.len()
        && wanted
            .iter()
            .zip(parts)
            .all(|(wanted, part)| *wanted == "*" || wanted.as_bytes() == *part)
}

fn is_named(name: &[u8], pattern: &[u8]) -> bool {
    match pattern.iter().position(|byte| *byte == b'*') {
        None => name == pattern,
        Some(star) => {
            let (start, end) = pattern.split_at(star);
            let end = end.get(1..).unwrap_or_default();
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::path;
    use super::*;

    fn why(text: &str) -> Option<&'static str> {
        host_control(&path(text), &KotakPaths::default())
    }

    #[test]
    fn what_controls_the_host_is_recognised_under_each_of_its_names() {
        // REQ EG-12
        for (socket, reason) in [
            ("/run/docker.sock", CONTAINERS),
            ("/var/run/docker.sock", CONTAINERS),
            ("/home/u/.docker/run/docker.sock", CONTAINERS),
            ("/home/u/.colima/default/docker.sock", CONTAINERS),
            ("/home/u/Docker.Sock", CONTAINERS),
            ("/run/user/1000/docker.sock", CONTAINERS),
            ("/run/user/1000/podman/podman.sock", CONTAINERS),
            ("/run/user/1000/podman/other", CONTAINERS),
            ("/run/podman/podman.sock", CONTAINERS),
            ("/run/containerd/containerd.sock", CONTAINERS),
            ("/run/containerd/s/0a1b", CONTAINERS),
            ("/run/k3s/containerd/containerd.sock", CONTAINERS),
            ("/var/run/crio/crio.sock", CONTAINERS),
            ("/var/lib/incus/unix.socket", CONTAINERS),
            ("/var/snap/lxd/common/lxd/unix.socket", CONTAINERS),
            ("/run/libvirt/libvirt-sock", MACHINES),
            ("/run/user/1000/libvirt/virtqemud-sock", MACHINES),
            ("/run/systemd/private", SERVICES),
            ("/var/run/systemd/notify", SERVICES),
            ("/run/user/1000/systemd/private", SERVICES),
            ("/run/dbus/system_bus_socket", BUS),
            ("/run/user/1000/bus", BUS),
            ("/run/user/1000/at-spi/bus_0", BUS),
            ("/tmp/dbus-AbC123", BUS),
            ("/tmp/.X11-unix/X0", DISPLAY),
            ("/run/user/1000/wayland-0", DISPLAY),
            ("/run/user/1000/sway-ipc.1000.42.sock", DISPLAY),
            ("/run/user/1000/pulse/native", SOUND),
            ("/run/user/1000/pipewire-0", SOUND),
            ("/run/snapd.socket", PACKAGES),
            ("/tmp/tmux-1000/default", TERMINALS),
            ("/run/user/1000/tmux-1000/default", TERMINALS),
            ("/run/screen/S-u/1.pts", TERMINALS),
            ("/run/user/1000/vscode-ipc-9.sock", EDITORS),
            ("/run/user/1000/emacs/server", EDITORS),
        ] {
            assert_eq!(why(socket), Some(reason), "{socket}");
        }
    }

    #[test]
    fn services_that_a_developer_means_can_be_granted() {
        for socket in [
            "/run/postgresql/.s.PGSQL.5432",
            "/run/mysqld/mysqld.sock",
            "/run/redis/redis-server.sock",
            "/tmp/ssh-AbC/agent.42",
            "/run/user/1000/keyring/ssh",
            "/run/user/1000/gnupg/S.gpg-agent.ssh",
            "/home/u/app/server.sock",
            "/run/user/1000/buses.sock",
        ] {
            assert_eq!(why(socket), None, "{socket}");
        }
    }

    #[test]
    fn kotaks_own_sockets_are_never_granted() {
        let kotak = KotakPaths {
            state: vec![path("/home/u/.local/state/kotak")],
            ..KotakPaths::default()
        };
        let desk = path("/home/u/.local/state/kotak/run/desk.sock");
        assert_eq!(host_control(&desk, &kotak), Some(KOTAK));
        let beside = path("/home/u/.local/state/kotak-app/x.sock");
        assert_eq!(host_control(&beside, &kotak), None);
    }

    #[test]
    fn every_well_known_control_is_refused_by_its_name_too() {
        for socket in well_known_controls(1000) {
            assert!(
                host_control(&socket, &KotakPaths::default()).is_some(),
                "{socket}"
            );
        }
    }
}

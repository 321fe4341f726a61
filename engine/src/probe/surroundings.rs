//! What kind of machine this is: WSL, a container, a changed root. Pure.

use super::facts::FileText;

/// 1 or 2 under WSL (REQ PR-8). WSL1 translates system calls and reports a 4.4 kernel of
/// Microsoft's; WSL2 runs a real kernel, stock or custom, and always has an interop socket.
pub(crate) fn wsl_version(
    kernel_release: &str,
    proc_version: Option<&str>,
    interop: bool,
) -> Option<u8> {
    let release = kernel_release.to_ascii_lowercase();
    let version = proc_version.unwrap_or_default().to_ascii_lowercase();
    if release.contains("wsl2") || release.contains("microsoft-standard") {
        return Some(2);
    }
    if release.contains("microsoft") || version.contains("microsoft@microsoft.com") {
        return Some(if release.starts_with("4.4.") { 1 } else { 2 });
    }
    interop.then_some(2)
}

/// What tells of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerSigns<'a> {
    /// `/.dockerenv` is there.
    pub(crate) dockerenv: bool,
    /// `/run/.containerenv` is there (podman).
    pub(crate) containerenv: bool,
    /// `/run/systemd/container`, written by the container manager.
    pub(crate) systemd_container: &'a FileText,
    /// `/proc/1/environ`.
    pub(crate) init_environment: &'a FileText,
    /// `/proc/1/cgroup`.
    pub(crate) init_cgroup: &'a FileText,
    /// `KUBERNETES_SERVICE_HOST` is set.
    pub(crate) kubernetes: bool,
}

/// The container's kind, when this is one.
pub(crate) fn container_kind(signs: &ContainerSigns<'_>) -> Option<String> {
    let named = |name: &str| {
        let name = name.trim();
        // WSL's own init also says `container=`.
        (!name.is_empty() && name != "wsl").then(|| name.escape_debug().take(40).collect())
    };
    if signs.kubernetes {
        return Some("kubernetes".to_owned());
    }
    if let Some(name) = signs.systemd_container.text().and_then(named) {
        return Some(name);
    }
    let environment = signs.init_environment.text().unwrap_or_default();
    let from_init = environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("container="));
    if let Some(name) = from_init.and_then(named) {
        return Some(name);
    }
    if signs.dockerenv {
        return Some("docker".to_owned());
    }
    if signs.containerenv {
        return Some("podman".to_owned());
    }
    let cgroup = signs.init_cgroup.text().unwrap_or_default();
    let hints = [
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("/lxc", "lxc"),
        ("containerd", "containerd"),
    ];
    hints
        .iter()
        .find(|(hint, _)| cgroup.contains(hint))
        .map(|(_, kind)| (*kind).to_owned())
}

/// Whether the root directory was changed with chroot(2) to a plain directory: then no mount of
/// `/proc/self/mountinfo` (proc_pid_mountinfo(5)) is mounted at `/`. The kernel makes no user
/// namespace for such a process.
pub(crate) fn is_chrooted(mountinfo: Option<&str>) -> bool {
    let Some(text) = mountinfo else { return false };
    let mut points = text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .peekable();
    points.peek().is_some() && !points.any(|point| point == "/")
}

/// A field of `/proc/self/status`.
pub(crate) fn status_field<'a>(status: Option<&'a str>, name: &str) -> Option<&'a str> {
    status?
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // REQ PR-8
    #[test]
    fn wsl1_and_wsl2_are_told_apart() {
        let cases = [
            (
                "4.4.0-19041-Microsoft",
                Some("Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)"),
                false,
                Some(1),
            ),
            ("5.15.153.1-microsoft-standard-WSL2", None, true, Some(2)),
            ("5.10.16.3-microsoft-standard", None, false, Some(2)),
            ("6.1.21-custom-WSL2+", None, false, Some(2)),
            (
                "6.1.21-my-own",
                Some("Linux version 6.1.21 (me@here)"),
                true,
                Some(2),
            ),
            (
                "6.8.0-1010-azure",
                Some("Linux version 6.8.0-1010-azure (buildd@lcy02)"),
                false,
                None,
            ),
            ("6.12.0", None, false, None),
        ];
        for (release, version, interop, wanted) in cases {
            assert_eq!(wsl_version(release, version, interop), wanted, "{release}");
        }
    }

    #[test]
    fn every_sign_of_a_container_names_its_kind() {
        let (missing, denied) = (FileText::Missing, FileText::Denied);
        let none = ContainerSigns {
            dockerenv: false,
            containerenv: false,
            systemd_container: &missing,
            init_environment: &denied,
            init_cgroup: &missing,
            kubernetes: false,
        };
        let text = |text: &str| FileText::Text(text.to_owned());
        let nspawn = text("systemd-nspawn\n");
        let lxc = text("PATH=/bin\0container=lxc\0");
        let wsl = text("container=wsl\0");
        let docker = text("0::/system.slice/docker-abc.scope");
        let host = text("0::/init.scope");
        let cases = [
            (none.clone(), None),
            (
                ContainerSigns {
                    dockerenv: true,
                    ..none.clone()
                },
                Some("docker"),
            ),
            (
                ContainerSigns {
                    containerenv: true,
                    ..none.clone()
                },
                Some("podman"),
            ),
            (
                ContainerSigns {
                    systemd_container: &nspawn,
                    ..none.clone()
                },
                Some("systemd-nspawn"),
            ),
            (
                ContainerSigns {
                    init_environment: &lxc,
                    ..none.clone()
                },
                Some("lxc"),
            ),
            (
                ContainerSigns {
                    init_environment: &wsl,
                    ..none.clone()
                },
                None,
            ),
            (
                ContainerSigns {
                    init_cgroup: &docker,
                    ..none.clone()
                },
                Some("docker"),
            ),
            (
                ContainerSigns {
                    init_cgroup: &host,
                    ..none.clone()
                },
                None,
            ),
            (
                ContainerSigns {
                    kubernetes: true,
                    dockerenv: true,
                    ..none.clone()
                },
                Some("kubernetes"),
            ),
        ];
        for (signs, wanted) in cases {
            assert_eq!(container_kind(&signs).as_deref(), wanted, "{signs:?}");
        }
    }

    #[test]
    fn a_changed_root_has_no_mount_at_the_root_directory() {
        let inside = "36 35 98:0 /mnt1 /proc rw - proc proc rw\n";
        let outside =
            "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n36 22 0:5 / /proc rw - proc proc rw\n";
        assert!(is_chrooted(Some(inside)));
        assert!(!is_chrooted(Some(outside)));
        assert!(!is_chrooted(Some("")));
        assert!(!is_chrooted(None));
    }

    #[test]
    fn a_status_field_is_read_by_its_whole_name() {
        let status = "Seccomp_filters:\t1\nSeccomp:\t2\n";
        assert_eq!(status_field(Some(status), "Seccomp"), Some("2"));
        assert_eq!(status_field(Some(status), "Sec"), None);
        assert_eq!(status_field(None, "Seccomp"), None);
    }
}

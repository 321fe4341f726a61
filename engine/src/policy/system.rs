//! The system's part of a layout: what of the host every sandbox needs to run programs, and what
//! is too wide to be given.

use super::layout::{Layout, Place};
use super::{Access, BindRole, NodeKind};
use crate::spec::AbsPath;

/// What programs run from; read-only in both forms.
const RUNTIME: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// What the terminal profile shows besides, read-only.
const TERMINAL: [&str; 8] = [
    "/etc", "/opt", "/nix", "/snap", "/srv", "/var", "/sys", "/gnu",
];

/// What the bind-mount form shows of `/etc`.
const ETC: [&str; 44] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "environment",
    "gai.conf",
    "gitconfig",
    "group",
    "gtk-3.0",
    "host.conf",
    "hosts",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "mime.types",
    "mke2fs.conf",
    "networks",
    "nsswitch.conf",
    "openssl",
    "os-release",
    "passwd",
    "perl",
    "pki",
    "profile",
    "protocols",
    "python3",
    "resolv.conf",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
];

/// Never given as they are, to read or to write: they hold the host's sockets and processes.
const OWN: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];

/// Of the system: not writable, and nothing inside is.
const CLOSED: [&str; 20] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/gnu",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/proc",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/spool",
    "/lost+found",
];

/// Inside what is closed, and open all the same.
const OPEN: [&str; 2] = ["/usr/local", "/usr/src"];

/// Not writable as a whole; what is inside may be.
const WIDE: [&str; 18] = [
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/run/user",
    "/srv",
    "/tmp",
    "/usr/local",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/home",
    "/var/lib",
    "/var/log",
    "/var/tmp",
    "/Users",
];

/// Why a path is too wide to be written, or none.
pub(super) fn too_wide(path: &AbsPath, home: &AbsPath) -> Option<&'static str> {
    let is = |names: &[&str]| names.iter().any(|name| path.as_bytes() == name.as_bytes());
    let within = |names: &[&str]| {
        names
            .iter()
            .any(|name| AbsPath::new(name).is_ok_and(|dir| path.is_within(&dir)))
    };
    if path.is_root() {
        return Some("it is the root of the file system");
    }
    if path == home {
        return None;
    }
    if home.is_within(path) {
        return Some("the home directory lies inside it");
    }
    if is(&WIDE) || (within(&CLOSED) && !within(&OPEN)) {
        return Some("it belongs to the system");
    }
    None
}

/// Why a directory cannot serve as a home, or none.
pub(super) fn unusable_home(path: &AbsPath) -> Option<&'static str> {
    // As if the home were elsewhere: a home may be what nobody else may write, but not a directory
    // of the system. Root's own is the one exception.
    if path.as_bytes() == b"/root" {
        return None;
    }
    too_wide(path, &AbsPath::root().join("root"))
}

/// Why a path cannot even be read as a whole, or none.
pub(super) fn not_bindable(path: &AbsPath) -> Option<&'static str> {
    if path.is_root() {
        return Some("it is the root of the file system");
    }
    let is_own = OWN.iter().any(|name| path.as_bytes() == name.as_bytes());
    let inside = |name: &str| AbsPath::new(name).is_ok_and(|dir| path.is_within(&dir));
    let kernel = ["/proc", "/sys", "/dev"].into_iter().any(inside);
    let run = inside("/run") && !inside("/run/media");
    let display = inside("/tmp/.X11-unix") || inside("/tmp/.ICE-unix");
    if is_own || kernel || run || display {
        return Some("every sandbox has its own");
    }
    None
}

impl Layout<'_> {
    /// The system's directories for the terminal profile.
    pub(super) fn add_terminal_system(&mut self) {
        self.add_read_only(&RUNTIME);
        self.add_read_only(&TERMINAL);
        self.private_system();
        self.add_read_only(&["/etc/resolv.conf", "/run/current-system"]);
    }

    /// The system's directories for the bind-mount form.
    pub(super) fn add_runtime(&mut self) {
        self.add_read_only(&RUNTIME);
        let etc: Vec<String> = ETC.iter().map(|name| format!("/etc/{name}")).collect();
        self.private_system();
        self.add_read_only(&etc.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// `/run`, `/tmp`, `/var/tmp` and the user's runtime directory, private and empty. `/run` is
    /// sealed once what belongs below it stands.
    fn private_system(&mut self) {
        let runtime = format!("/run/user/{}", self.context.uid);
        for (path, perms, sealed) in [
            ("/run", 0o755, true),
            ("/tmp", 0o1777, false),
            ("/var/tmp", 0o1777, false),
            (runtime.as_str(), 0o700, false),
        ] {
            if let Ok(path) = AbsPath::new(path) {
                self.private(path, perms, sealed);
            }
        }
        // A /var/tmp that is a symlink leads to another private place, or must be made apart.
        let var_tmp = AbsPath::root().join("var/tmp");
        if let Some(found) = self.locate_if_there(&var_tmp) {
            if found.path != var_tmp {
                self.places.remove(&var_tmp);
            }
        } else if self.is_visible(&AbsPath::root().join("var")) {
            // No mount point, and none is made on the host.
            self.places.remove(&var_tmp);
        }
    }

    fn add_read_only(&mut self, paths: &[&str]) {
        for text in paths {
            let Ok(path) = AbsPath::new(text) else {
                continue;
            };
            let Some(found) = self.locate_if_there(&path) else {
                continue;
            };
            match found.info.kind {
                NodeKind::Dir | NodeKind::File => {
                    let private = matches!(
                        self.places.get(&found.path),
                        Some(Place::Private(_) | Place::Mask(_))
                    );
                    if !private && !found.path.is_root() {
                        self.bind(&found, Access::Read, BindRole::System);
                    }
                }
                NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {}
            }
        }
    }

    /// Where `/etc/resolv.conf` leads, for a file of the sandbox's own in place of the host's. None
    /// where the host has no such file: then programs ask 127.0.0.1 by themselves
    /// (resolv.conf(5)), and no mount point is made on the host.
    pub(super) fn take_resolver(&mut self) -> Option<AbsPath> {
        let found = self.locate_if_there(&AbsPath::root().join("etc/resolv.conf"))?;
        match found.info.kind {
            NodeKind::File => {}
            NodeKind::Dir | NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {
                return None;
            }
        }
        match self.governing(&found.path) {
            // Hidden stays hidden.
            Some((_, Place::Mask(_))) => return None,
            Some((_, Place::Bind(_) | Place::Private(_))) | None => {}
        }
        self.places.remove(&found.path);
        Some(found.path)
    }

    /// Kernel controls in `/proc` that user 0 could write even without capabilities.
    pub(super) fn kernel_controls(&self) -> Vec<AbsPath> {
        [
            "/proc/sys",
            "/proc/sysrq-trigger",
            "/proc/irq",
            "/proc/bus",
            "/proc/fs",
        ]
        .into_iter()
        .filter_map(|text| AbsPath::new(text).ok())
        .filter(|path| self.host.symlink_metadata(path).is_ok())
        .collect()
    }

    /// Where a root of many mounts can be put together: a directory that exists, and that nothing
    /// inside comes from.
    pub(super) fn assembly(&self) -> Option<AbsPath> {
        [
            "/dev/shm",
            "/dev/mqueue",
            "/mnt",
            "/media",
            "/srv",
            "/boot",
            "/opt",
        ]
        .into_iter()
        .filter_map(|text| AbsPath::new(text).ok())
        .filter(|path| {
            self.host
                .symlink_metadata(path)
                .is_ok_and(|info| info.kind == NodeKind::Dir)
        })
        .find(|path| {
            !self
                .places
                .keys()
                .any(|at| at.is_within(path) || path.is_within(at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::path;
    use super::*;

    #[test]
    fn roots_system_directories_and_ancestors_of_home_are_too_wide() {
        let home = path("/home/u");
        for wide in [
            "/",
            "/home",
            "/usr",
            "/usr/share/x",
            "/etc",
            "/etc/nginx",
            "/var",
            "/tmp",
            "/boot/x",
            "/var/spool/cron",
            "/usr/local",
            "/mnt",
            "/proc/self",
            "/run/user",
            "/root",
        ] {
            assert!(too_wide(&path(wide), &home).is_some(), "{wide}");
        }
    }

    #[test]
    fn home_and_folders_of_work_are_not_too_wide() {
        let home = path("/home/u");
        for fine in [
            "/home/u",
            "/home/u/code",
            "/srv/www",
            "/opt/app",
            "/usr/local/src/x",
            "/usr/src/linux",
            "/tmp/x",
            "/mnt/disk/x",
            "/var/www",
            "/code/x",
            "/home/other",
        ] {
            assert_eq!(too_wide(&path(fine), &home), None, "{fine}");
        }
        assert_eq!(too_wide(&path("/root"), &path("/root")), None);
    }

    #[test]
    fn the_hosts_own_sockets_and_processes_cannot_be_bound_at_all() {
        for own in [
            "/",
            "/run",
            "/run/user/1000",
            "/tmp",
            "/proc/1",
            "/dev",
            "/sys/x",
        ] {
            assert!(not_bindable(&path(own)).is_some(), "{own}");
        }
        for fine in ["/tmp/x", "/run/media/u/disk", "/etc", "/usr", "/home"] {
            assert_eq!(not_bindable(&path(fine)), None, "{fine}");
        }
    }
}

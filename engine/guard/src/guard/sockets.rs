//! Sockets that the guard opens inside and hands to the engine. A socket belongs to the network
//! namespace that it was made in, whoever holds it, so the engine accepts on these itself and
//! nothing stands between it and the programs inside.

use super::verify::check;
use kotak_guard::proto::{Check, ListenAt, LoopbackPlan, MAX_LISTENERS};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::{
        socket::{
            AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, UnixAddr, bind, connect,
            listen, setsockopt, socket, sockopt,
        },
        stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat},
        statfs::{TMPFS_MAGIC, fstatfs},
    },
    unistd::{UnlinkatFlags, unlinkat},
};
use std::{
    ffi::OsStr,
    net::{Ipv4Addr, SocketAddrV4},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path},
};

/// Ports below this need a capability (ip(7), `ip_unprivileged_port_start`).
const FIRST_FREE_PORT: u16 = 1024;

/// Directories below a private one that a listener's path may need.
const MOST_DIRECTORIES: usize = 16;

/// What [`LoopbackPlan`] asks for, in the order of the protocol.
pub(crate) fn open_loopback(plan: &LoopbackPlan) -> Result<(Vec<OwnedFd>, Check), Check> {
    const NAME: &str = "listeners";
    if plan.ports.len() > MAX_LISTENERS {
        return Err(check(
            NAME,
            format!("{} are more than can be", plan.ports.len()),
        ));
    }
    let mut descriptors = Vec::with_capacity(plan.ports.len() + 1);
    for port in &plan.ports {
        let listener = listen_on(*port)
            .map_err(|errno| check(NAME, format!("127.0.0.1 port {port}: {errno}")))?;
        descriptors.push(listener);
    }
    let namespace = open(
        "/proc/self/ns/net",
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| check(NAME, format!("/proc/self/ns/net: {errno}")))?;
    descriptors.push(namespace);
    let detail = format!("{} on 127.0.0.1", plan.ports.len());
    Ok((descriptors, check(NAME, detail)))
}

/// A listener on 127.0.0.1.
pub(crate) fn listen_on(port: u16) -> Result<OwnedFd, Errno> {
    if port < FIRST_FREE_PORT {
        // Without a capability it would fail too, but not where the sysctl was lowered.
        return Err(Errno::EACCES);
    }
    let listener = tcp(SockFlag::empty())?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    bind(listener.as_raw_fd(), &loopback(port))?;
    listen(&listener, Backlog::MAXCONN)?;
    Ok(listener)
}

/// A connection to 127.0.0.1, which may still be on its way: the guard never waits.
pub(crate) fn connect_to(port: u16) -> Result<OwnedFd, Errno> {
    if port == 0 {
        return Err(Errno::EADDRNOTAVAIL);
    }
    let connection = tcp(SockFlag::SOCK_NONBLOCK)?;
    match connect(connection.as_raw_fd(), &loopback(port)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(connection),
        Err(errno) => Err(errno),
    }
}

fn tcp(flags: SockFlag) -> Result<OwnedFd, Errno> {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Inet, SockType::Stream, flags, None)
}

fn loopback(port: u16) -> SockaddrStorage {
    SockaddrStorage::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// The session's private directories, by the file systems that they are.
#[derive(Debug, Default)]
pub(crate) struct Private(Vec<libc::dev_t>);

impl Private {
    /// Looks at each once, before anything runs.
    pub(crate) fn find(paths: &[Vec<u8>]) -> Result<Self, Check> {
        const NAME: &str = "private";
        let mut devices = Vec::with_capacity(paths.len());
        for path in paths {
            let at = |errno: Errno| check(NAME, format!("{}: {errno}", shown(path)));
            let directory = open_directory(path).map_err(at)?;
            if fstatfs(&directory).map_err(at)?.filesystem_type() != TMPFS_MAGIC {
                return Err(check(NAME, format!("{} is not in memory", shown(path))));
            }
            devices.push(fstat(&directory).map_err(at)?.st_dev);
        }
        Ok(Self(devices))
    }

    /// Opens the listener that the engine asks for.
    pub(crate) fn listen(&self, at: &ListenAt) -> Result<OwnedFd, Errno> {
        match at {
            ListenAt::Port(port) => listen_on(*port),
            ListenAt::Path(path) => self.listen_at(path),
        }
    }

    /// Whether a file lies in a private directory, so that nothing done to it reaches the host.
    fn holds(&self, found: &FileStat) -> bool {
        self.0.contains(&found.st_dev)
    }

    /// A Unix listener. Programs inside may have put anything on the way, so each step goes by
    /// name from an open directory, follows no symlink and stays in private directories.
    fn listen_at(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = Path::new(OsStr::from_bytes(path));
        let name = path.file_name().ok_or(Errno::EINVAL)?;
        let parent = path.parent().ok_or(Errno::EINVAL)?;
        let plain =
            |part: &Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(|part| plain(&part)) {
            return Err(Errno::EINVAL);
        }
        let directory = self.open_or_make(parent)?;
        if !self.holds(&fstat(&directory)?) {
            return Err(Errno::EXDEV);
        }
        match fstatat(&directory, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if is_socket(&found) => {
                unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir)?;
            }
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        let listener = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        // By the directory that was checked, and short enough for any address.
        let mut address = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
        address.extend_from_slice(name.as_bytes());
        bind(
            listener.as_raw_fd(),
            &UnixAddr::new(OsStr::from_bytes(&address))?,
        )?;
        listen(&listener, Backlog::MAXCONN)?;
        Ok(listener)
    }

    /// Opens a directory, making what is missing of it below the deepest one that exists.
    fn open_or_make(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let mut missing = Vec::new();
        let mut existing = path;
        let mut directory = loop {
            match open_directory(existing.as_os_str().as_bytes()) {
                Ok(found) => break found,
                Err(Errno::ENOENT) if missing.len() < MOST_DIRECTORIES => {
                    missing.push(existing.file_name().ok_or(Errno::ENOENT)?);
                    existing = existing.parent().ok_or(Errno::ENOENT)?;
                }
                Err(errno) => return Err(errno),
            }
        };
        for name in missing.into_iter().rev() {
            if !self.holds(&fstat(&directory)?) {
                return Err(Errno::EXDEV);
            }
            match mkdirat(&directory, name, Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
            directory = openat2(&directory, name, how())?;
        }
        Ok(directory)
    }
}

fn how() -> OpenHow {
    OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS)
}

fn open_directory(path: &[u8]) -> Result<OwnedFd, Errno> {
    openat2(nix::fcntl::AT_FDCWD, path, how())
}

fn is_socket(found: &FileStat) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK
}

fn shown(path: &[u8]) -> std::path::Display<'_> {
    Path::new(OsStr::from_bytes(path)).display()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    fn port_of(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }

    #[test]
    fn a_listener_and_a_connection_meet_on_loopback() {
        // A port that is free now; nobody else is given it while it is bound here.
        let port = port_of(&TcpListener::bind("127.0.0.1:0").unwrap());
        let listener = TcpListener::from(listen_on(port).unwrap());
        let mut connection = TcpStream::from(connect_to(port).unwrap());
        let (mut accepted, _) = listener.accept().unwrap();
        connection.write_all(b"x").unwrap();
        drop(connection);
        let mut text = String::new();
        accepted.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert_eq!(listen_on(80).err(), Some(Errno::EACCES));
        assert_eq!(connect_to(0).err(), Some(Errno::EADDRNOTAVAIL));
    }

    #[test]
    fn a_unix_listener_stands_only_where_nothing_of_the_host_is() {
        let directory = std::env::temp_dir().join(format!("kotak-sockets-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let device = fstat(open_directory(directory.as_os_str().as_bytes()).unwrap())
            .unwrap()
            .st_dev;
        let listen = |private: &Private, path: &Path| {
            private.listen(&ListenAt::Path(path.as_os_str().as_bytes().to_vec()))
        };
        let private = Private(vec![device]);
        let path = directory.join("a/b/agent");
        assert_eq!(listen(&Private::default(), &path).err(), Some(Errno::EXDEV));
        assert!(!directory.join("a").exists());
        let first = listen(&private, &path).unwrap();
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        // Again at the same place, as after a revocation.
        drop(first);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_err());
        let _second = listen(&private, &path).unwrap();
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        // What is no socket stays, and no symlink is followed.
        std::fs::write(directory.join("file"), "x").unwrap();
        assert_eq!(
            listen(&private, &directory.join("file")).err(),
            Some(Errno::EEXIST)
        );
        std::os::unix::fs::symlink(directory.join("a"), directory.join("link")).unwrap();
        let through = directory.join("link/b/other");
        assert_eq!(listen(&private, &through).err(), Some(Errno::ELOOP));
        for wrong in ["relative", "/", "/tmp/../x/y"] {
            let refused = private.listen(&ListenAt::Path(wrong.into()));
            assert_eq!(refused.err(), Some(Errno::EINVAL), "{wrong}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

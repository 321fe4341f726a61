//! A file system for tests.

use super::{FileId, HostContext, HostFs, KotakPaths, Listing, NodeInfo, NodeKind};
use crate::probe::HostFacts;
use crate::spec::AbsPath;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A fake file system. Parents are made as needed; inode numbers count from 1000.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeFs {
    nodes: BTreeMap<AbsPath, Node>,
    children: BTreeMap<AbsPath, BTreeSet<AbsPath>>,
    reads: std::cell::Cell<usize>,
    looks: std::cell::Cell<usize>,
}

#[derive(Debug, Clone)]
struct Node {
    info: NodeInfo,
    content: Vec<u8>,
    denied: bool,
    unlisted: bool,
    closed: bool,
}

pub(crate) fn path(text: impl AsRef<[u8]>) -> AbsPath {
    AbsPath::new(text).unwrap()
}

impl FakeFs {
    /// A merged-usr Debian with the user `u`, nothing secret, nothing protected.
    pub(crate) fn debian() -> Self {
        let mut host = Self::default();
        for dir in [
            "usr/bin",
            "usr/lib",
            "usr/lib64",
            "usr/sbin",
            "etc",
            "var/tmp",
            "tmp",
            "opt",
        ] {
            host.dir(format!("/{dir}"));
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            host.link(format!("/{name}"), format!("usr/{name}"));
        }
        for dir in [
            "/sys",
            "/proc/sys",
            "/proc/irq",
            "/dev/shm",
            "/run",
            "/boot",
            "/mnt",
            "/media",
            "/srv",
        ] {
            host.dir(dir);
        }
        host.link("/var/run", "/run");
        host.link(
            "/etc/resolv.conf",
            "../run/systemd/resolve/stub-resolv.conf",
        );
        host.file(
            "/run/systemd/resolve/stub-resolv.conf",
            "nameserver 127.0.0.53\n",
        );
        for name in [
            "passwd",
            "group",
            "hosts",
            "shadow",
            "nsswitch.conf",
            "ld.so.cache",
        ] {
            host.file(format!("/etc/{name}"), "");
        }
        host.dir("/home/u");
        host.dir("/home/other");
        host
    }

    pub(crate) fn dir(&mut self, at: impl AsRef<[u8]>) -> &mut Self {
        self.put(&path(at), NodeKind::Dir, b"")
    }

    pub(crate) fn file(&mut self, at: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> &mut Self {
        self.put(&path(at), NodeKind::File, content.as_ref())
    }

    pub(crate) fn link(&mut self, at: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> &mut Self {
        self.put(&path(at), NodeKind::Symlink, to.as_ref())
    }

    pub(crate) fn node(&mut self, at: impl AsRef<[u8]>, kind: NodeKind) -> &mut Self {
        self.put(&path(at), kind, b"")
    }

    pub(crate) fn hard_links(&mut self, at: impl AsRef<[u8]>, count: u64) -> &mut Self {
        self.nodes.get_mut(&path(at)).unwrap().info.nlink = count;
        self
    }

    /// Makes a path unlookable, as a directory without search permission does.
    pub(crate) fn deny(&mut self, at: impl AsRef<[u8]>) -> &mut Self {
        self.nodes.get_mut(&path(at)).unwrap().denied = true;
        self
    }

    pub(crate) fn owner(&mut self, at: impl AsRef<[u8]>, uid: u32) -> &mut Self {
        self.nodes.get_mut(&path(at)).unwrap().info.uid = uid;
        self
    }

    /// Takes a directory's read permission.
    pub(crate) fn unlisted(&mut self, at: impl AsRef<[u8]>) -> &mut Self {
        self.nodes.get_mut(&path(at)).unwrap().unlisted = true;
        self
    }

    /// Takes every permission of a directory: it is there, and nothing in it can be looked at.
    pub(crate) fn closed(&mut self, at: impl AsRef<[u8]>) -> &mut Self {
        self.nodes.get_mut(&path(at.as_ref())).unwrap().closed = true;
        self.unlisted(at)
    }

    pub(crate) fn id(&self, at: impl AsRef<[u8]>) -> FileId {
        self.nodes.get(&path(at)).unwrap().info.id
    }

    /// How many directory entries were handed out.
    pub(crate) fn entries_read(&self) -> usize {
        self.reads.get()
    }

    /// How many paths were looked at.
    pub(crate) fn paths_looked_at(&self) -> usize {
        self.looks.get()
    }

    /// A git directory with hooks and a configuration.
    pub(crate) fn git_dir(&mut self, at: &str) -> &mut Self {
        self.file(format!("{at}/HEAD"), "ref: refs/heads/main\n");
        self.dir(format!("{at}/objects"))
            .dir(format!("{at}/refs"))
            .dir(format!("{at}/hooks"));
        self.file(format!("{at}/config"), "[core]\n\tbare = false\n")
    }

    fn put(&mut self, at: &AbsPath, kind: NodeKind, content: &[u8]) -> &mut Self {
        let mut missing: Vec<AbsPath> = at
            .ancestors()
            .filter(|dir| !self.nodes.contains_key(dir))
            .collect();
        missing.reverse();
        for dir in missing {
            self.insert(dir, NodeKind::Dir, b"");
        }
        self.insert(at.clone(), kind, content);
        self
    }

    fn insert(&mut self, at: AbsPath, kind: NodeKind, content: &[u8]) {
        let ino = 1000 + self.nodes.len() as u64;
        let info = NodeInfo {
            kind,
            id: FileId { dev: 1, ino },
            nlink: 1,
            uid: 1000,
            mode: 0o755,
        };
        if let Some(parent) = at.parent() {
            self.children.entry(parent).or_default().insert(at.clone());
        }
        self.nodes.insert(
            at,
            Node {
                info,
                content: content.to_vec(),
                denied: false,
                unlisted: false,
                closed: false,
            },
        );
    }

    fn get(&self, at: &AbsPath) -> io::Result<&Node> {
        let closed = |dir: &AbsPath| self.nodes.get(dir).is_some_and(|node| node.closed);
        if at.ancestors().any(|dir| closed(&dir)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let Some(node) = self.nodes.get(at) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if node.denied {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(node)
        }
    }
}

impl HostFs for FakeFs {
    fn symlink_metadata(&self, path: &AbsPath) -> io::Result<NodeInfo> {
        self.looks.set(self.looks.get() + 1);
        if path.is_root() {
            let id = FileId { dev: 1, ino: 2 };
            return Ok(NodeInfo {
                kind: NodeKind::Dir,
                id,
                nlink: 1,
                uid: 0,
                mode: 0o755,
            });
        }
        self.get(path).map(|node| node.info)
    }

    fn read_link(&self, path: &AbsPath) -> io::Result<Vec<u8>> {
        self.get(path).map(|node| node.content.clone())
    }

    fn read_dir(&self, path: &AbsPath, limit: usize) -> io::Result<Arc<Listing>> {
        if !path.is_root() && self.get(path)?.unlisted {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut listing = Listing::default();
        for at in self.children.get(path).into_iter().flatten() {
            if listing.entries.len() == limit {
                listing.cut = true;
                break;
            }
            let kind = self.nodes[at].info.kind;
            listing
                .entries
                .push((at.file_name().unwrap().to_vec(), kind));
        }
        self.reads.set(self.reads.get() + listing.entries.len());
        Ok(Arc::new(listing))
    }

    fn read_small(&self, path: &AbsPath, limit: usize) -> io::Result<Vec<u8>> {
        let node = self.get(path)?;
        if node.info.kind != NodeKind::File {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(node.content.iter().copied().take(limit).collect())
    }
}

/// The user `u`, 1000, with home `/home/u` and a plain environment.
pub(crate) fn context() -> HostContext {
    let env = [
        ("HOME", "/home/u"),
        ("PATH", "/home/u/.local/bin:/usr/bin:/bin"),
        ("USER", "u"),
        ("TERM", "xterm-256color"),
        ("LANG", "C.UTF-8"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ("SSH_AUTH_SOCK", "/run/user/1000/agent"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ];
    HostContext {
        uid: 1000,
        gid: 1000,
        home: path("/home/u"),
        passwd_home: Some(path("/home/u")),
        env: env
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .into(),
        kotak: KotakPaths {
            state: vec![path("/home/u/.local/state/kotak")],
            config: vec![path("/home/u/.config/kotak")],
            binaries: vec![path("/home/u/.cargo/bin/kotak")],
        },
        facts: HostFacts {
            landlock_abi: 7,
            seccomp_notify: true,
            seccomp_wait_killable: true,
            uid: 1000,
            ..HostFacts::default()
        },
    }
}

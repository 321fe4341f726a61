//! The only reader of the host's file system in the pure stages, as a trait that tests fake.

use crate::spec::AbsPath;
use std::io;
use std::sync::Arc;

#[cfg(unix)]
mod listings;
mod once;
#[cfg(unix)]
mod os;
pub(in crate::policy) use once::Once;
#[cfg(unix)]
pub use os::OsHostFs;

/// What the policy may ask the host's file system. Nothing here writes or runs anything.
pub trait HostFs {
    /// What stands at the path; a symlink is not followed.
    ///
    /// # Errors
    /// As lstat(2).
    fn symlink_metadata(&self, path: &AbsPath) -> io::Result<NodeInfo>;

    /// Where a symlink points, as written.
    ///
    /// # Errors
    /// As readlink(2).
    fn read_link(&self, path: &AbsPath) -> io::Result<Vec<u8>>;

    /// Names and kinds in a directory, at most `limit` of them, in any order.
    ///
    /// # Errors
    /// As opendir(3).
    fn read_dir(&self, path: &AbsPath, limit: usize) -> io::Result<Arc<Listing>>;

    /// The first `limit` bytes of a regular file.
    ///
    /// # Errors
    /// As open(2) and read(2), and when it is no regular file.
    fn read_small(&self, path: &AbsPath, limit: usize) -> io::Result<Vec<u8>>;
}

/// An inode's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeInfo {
    /// Kind.
    pub kind: NodeKind,
    /// Identity.
    pub id: FileId,
    /// Hard links.
    pub nlink: u64,
    /// Owner.
    pub uid: u32,
    /// Permission bits.
    pub mode: u32,
}

/// A node's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    /// Directory.
    Dir,
    /// Regular file.
    File,
    /// Symbolic link.
    Symlink,
    /// Unix socket.
    Socket,
    /// FIFO or device.
    Special,
}

/// A directory's entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Name and kind.
    pub entries: Vec<(Vec<u8>, NodeKind)>,
    /// The limit cut it.
    pub cut: bool,
}

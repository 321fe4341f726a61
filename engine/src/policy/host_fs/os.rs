//! The real file system.

use super::listings::{Listings, Stamp};
use super::{FileId, HostFs, Listing, NodeInfo, NodeKind};
use crate::spec::AbsPath;
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The host's file system as the engine's own user sees it. One value remembers listings of
/// directories for as long as they do not change; clones share what is remembered.
#[derive(Debug, Clone, Default)]
pub struct OsHostFs {
    listings: Arc<Listings>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            id: FileId {
                dev: metadata.dev(),
                ino: metadata.ino(),
            },
            changed: i128::from(metadata.ctime()) * 1_000_000_000
                + i128::from(metadata.ctime_nsec()),
        }
    }
}

/// Nanoseconds since the Unix epoch; before it, a time at which nothing is settled.
fn clock() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since
        .ok()
        .and_then(|since| i128::try_from(since.as_nanos()).ok())
        .unwrap_or(i128::MIN / 2)
}

/// Whether the kernel itself keeps the directory's time of change: a network's or a program's file
/// system (NFS, FUSE, 9P) may tell an old one, or any.
#[cfg(target_os = "linux")]
fn keeps_time(dir: &File) -> bool {
    use nix::sys::statfs;
    let Ok(found) = statfs::fstatfs(dir) else {
        return false;
    };
    [
        statfs::EXT4_SUPER_MAGIC,
        statfs::XFS_SUPER_MAGIC,
        statfs::BTRFS_SUPER_MAGIC,
        statfs::TMPFS_MAGIC,
        statfs::OVERLAYFS_SUPER_MAGIC,
    ]
    .contains(&found.filesystem_type())
}

#[cfg(not(target_os = "linux"))]
fn keeps_time(_: &File) -> bool {
    false
}

fn kind(file_type: FileType) -> NodeKind {
    if file_type.is_dir() {
        NodeKind::Dir
    } else if file_type.is_file() {
        NodeKind::File
    } else if file_type.is_symlink() {
        NodeKind::Symlink
    } else if file_type.is_socket() {
        NodeKind::Socket
    } else {
        NodeKind::Special
    }
}

/// Reads an open directory's entries, at most `limit`.
fn entries(dir: &File, limit: usize) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut stream = Dir::from_fd(dir.try_clone()?.into())?;
    for entry in stream.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if listing.entries.len() == limit {
            listing.cut = true;
            break;
        }
        let kind = match entry.file_type() {
            Some(Type::Directory) => NodeKind::Dir,
            Some(Type::File) => NodeKind::File,
            Some(Type::Symlink) => NodeKind::Symlink,
            Some(Type::Socket) => NodeKind::Socket,
            Some(Type::Fifo | Type::CharacterDevice | Type::BlockDevice) => NodeKind::Special,
            // Not every file system tells it in the listing (readdir(3)).
            None => match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(found) => match SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT {
                    SFlag::S_IFDIR => NodeKind::Dir,
                    SFlag::S_IFREG => NodeKind::File,
                    SFlag::S_IFLNK => NodeKind::Symlink,
                    SFlag::S_IFSOCK => NodeKind::Socket,
                    _ => NodeKind::Special,
                },
                // An entry that vanished meanwhile is none.
                Err(Errno::ENOENT) => continue,
                Err(cause) => return Err(cause.into()),
            },
        };
        listing.entries.push((name.to_bytes().to_vec(), kind));
    }
    Ok(listing)
}

impl HostFs for OsHostFs {
    fn symlink_metadata(&self, path: &AbsPath) -> io::Result<NodeInfo> {
        let metadata = std::fs::symlink_metadata(path.to_path_buf())?;
        Ok(NodeInfo {
            kind: kind(metadata.file_type()),
            id: FileId {
                dev: metadata.dev(),
                ino: metadata.ino(),
            },
            nlink: metadata.nlink(),
            uid: metadata.uid(),
            mode: metadata.mode() & 0o7777,
        })
    }

    fn read_link(&self, path: &AbsPath) -> io::Result<Vec<u8>> {
        Ok(std::fs::read_link(path.to_path_buf())?
            .into_os_string()
            .into_vec())
    }

    fn read_dir(&self, path: &AbsPath, limit: usize) -> io::Result<Arc<Listing>> {
        let at = path.to_path_buf();
        let known = std::fs::metadata(&at).map(|metadata| Stamp::of(&metadata));
        if let Ok(now) = known
            && let Some(listing) = self.listings.get(path, now, limit)
        {
            return Ok(listing);
        }
        // One open directory: which one stands at the path may change at any time.
        let dir = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&at)?;
        let before = Stamp::of(&dir.metadata()?);
        let listing = Arc::new(entries(&dir, limit)?);
        let after = Stamp::of(&dir.metadata()?);
        if keeps_time(&dir) {
            self.listings.keep(path, &listing, before, after, clock());
        }
        Ok(listing)
    }

    fn read_small(&self, path: &AbsPath, limit: usize) -> io::Result<Vec<u8>> {
        // O_NONBLOCK: a FIFO put there meanwhile must not hang the engine.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
            .open(path.to_path_buf())?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_real_file_system_tells_kinds_identities_and_contents() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| AbsPath::from_path(&dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join("f"), "hello").unwrap();
        std::fs::hard_link(dir.path().join("f"), dir.path().join("g")).unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("l")).unwrap();
        let _socket = UnixListener::bind(dir.path().join("s")).unwrap();

        let file = OsHostFs::default().symlink_metadata(&at("f")).unwrap();
        assert_eq!((file.kind, file.nlink), (NodeKind::File, 2));
        assert_eq!(
            OsHostFs::default().symlink_metadata(&at("g")).unwrap().id,
            file.id
        );
        assert_eq!(
            OsHostFs::default().symlink_metadata(&at("l")).unwrap().kind,
            NodeKind::Symlink
        );
        assert_eq!(
            OsHostFs::default().symlink_metadata(&at("s")).unwrap().kind,
            NodeKind::Socket
        );
        assert_eq!(OsHostFs::default().read_link(&at("l")).unwrap(), b"f");
        assert_eq!(OsHostFs::default().read_small(&at("f"), 3).unwrap(), b"hel");
        assert!(
            OsHostFs::default().read_small(&at("l"), 3).is_err(),
            "a symlink is not followed"
        );
        assert!(
            OsHostFs::default().read_small(&at(""), 3).is_err(),
            "a directory is not read"
        );

        let host = OsHostFs::default();
        let all = host.read_dir(&at(""), 10).unwrap();
        assert_eq!((all.entries.len(), all.cut), (4, false));
        let some = host.read_dir(&at(""), 2).unwrap();
        assert_eq!((some.entries.len(), some.cut), (2, true));
    }

    #[test]
    fn a_listing_is_remembered_until_the_directory_changes() {
        let dir = tempfile::tempdir().unwrap();
        let at = AbsPath::from_path(dir.path()).unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        let host = OsHostFs::default();
        let first = host.read_dir(&at, 10).unwrap();
        let again = host.read_dir(&at, 10).unwrap();
        assert_eq!(first, again);
        assert!(!Arc::ptr_eq(&first, &again), "too fresh to be trusted");

        let stamp = || Stamp::of(&std::fs::metadata(dir.path()).unwrap());
        while clock() - stamp().changed < 2_100_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let first = host.read_dir(&at, 10).unwrap();
        let other = host.clone();
        if keeps_time(&File::open(dir.path()).unwrap()) {
            assert!(Arc::ptr_eq(&first, &other.read_dir(&at, 10).unwrap()));
        }
        assert!(host.read_dir(&at, 0).unwrap().cut);

        // A file becomes a socket under its old name, and the program hides the time of writing.
        std::fs::remove_file(dir.path().join("a")).unwrap();
        let _socket = UnixListener::bind(dir.path().join("a")).unwrap();
        let then = UNIX_EPOCH + std::time::Duration::from_secs(1);
        File::open(dir.path()).unwrap().set_modified(then).unwrap();
        let changed = other.read_dir(&at, 10).unwrap();
        assert_eq!(changed.entries, [(b"a".to_vec(), NodeKind::Socket)]);
    }
}

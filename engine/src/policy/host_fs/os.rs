//! The real file system.

use super::{FileId, HostFs, Listing, NodeInfo, NodeKind};
use crate::spec::AbsPath;
use std::fs::{FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

/// The host's file system as the engine's own user sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsHostFs;

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

    fn read_dir(&self, path: &AbsPath, limit: usize) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in std::fs::read_dir(path.to_path_buf())? {
            if listing.entries.len() == limit {
                listing.cut = true;
                break;
            }
            let entry = entry?;
            let file_type = match entry.file_type() {
                Ok(file_type) => file_type,
                // An entry that vanished meanwhile is none.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => return Err(cause),
            };
            listing
                .entries
                .push((entry.file_name().as_bytes().to_vec(), kind(file_type)));
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

        let file = OsHostFs.symlink_metadata(&at("f")).unwrap();
        assert_eq!((file.kind, file.nlink), (NodeKind::File, 2));
        assert_eq!(OsHostFs.symlink_metadata(&at("g")).unwrap().id, file.id);
        assert_eq!(
            OsHostFs.symlink_metadata(&at("l")).unwrap().kind,
            NodeKind::Symlink
        );
        assert_eq!(
            OsHostFs.symlink_metadata(&at("s")).unwrap().kind,
            NodeKind::Socket
        );
        assert_eq!(OsHostFs.read_link(&at("l")).unwrap(), b"f");
        assert_eq!(OsHostFs.read_small(&at("f"), 3).unwrap(), b"hel");
        assert!(
            OsHostFs.read_small(&at("l"), 3).is_err(),
            "a symlink is not followed"
        );
        assert!(
            OsHostFs.read_small(&at(""), 3).is_err(),
            "a directory is not read"
        );

        let all = OsHostFs.read_dir(&at(""), 10).unwrap();
        assert_eq!((all.entries.len(), all.cut), (4, false));
        let some = OsHostFs.read_dir(&at(""), 2).unwrap();
        assert_eq!((some.entries.len(), some.cut), (2, true));
    }
}

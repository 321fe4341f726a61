//! Each path looked at once.

use super::{HostFs, Listing, NodeInfo};
use crate::spec::AbsPath;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Remembers what stood at each path, so that one resolution sees one state of it: a policy names
/// the same ancestors hundreds of times. What changes meanwhile is noticed when the bind sources
/// are opened, and again from inside.
#[derive(Debug)]
pub(in crate::policy) struct Once<'a, F: ?Sized> {
    fs: &'a F,
    nodes: RefCell<HashMap<AbsPath, Result<NodeInfo, Failure>>>,
}

/// An error that can be given more than once.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Os(i32),
    Kind(io::ErrorKind),
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::Os(errno),
            None => Self::Kind(error.kind()),
        }
    }

    fn again(self) -> io::Error {
        match self {
            Self::Os(errno) => io::Error::from_raw_os_error(errno),
            Self::Kind(kind) => io::Error::from(kind),
        }
    }
}

impl<'a, F: HostFs + ?Sized> Once<'a, F> {
    pub(in crate::policy) fn new(fs: &'a F) -> Self {
        Self {
            fs,
            nodes: RefCell::default(),
        }
    }
}

impl<F: HostFs + ?Sized> HostFs for Once<'_, F> {
    fn symlink_metadata(&self, path: &AbsPath) -> io::Result<NodeInfo> {
        if let Some(known) = self.nodes.borrow().get(path) {
            return known.map_err(Failure::again);
        }
        let found = self.fs.symlink_metadata(path);
        let known = match &found {
            Ok(node) => Ok(*node),
            Err(error) => Err(Failure::of(error)),
        };
        self.nodes.borrow_mut().insert(path.clone(), known);
        found
    }

    fn read_link(&self, path: &AbsPath) -> io::Result<Vec<u8>> {
        self.fs.read_link(path)
    }

    fn read_dir(&self, path: &AbsPath, limit: usize) -> io::Result<Arc<Listing>> {
        self.fs.read_dir(path, limit)
    }

    fn read_small(&self, path: &AbsPath, limit: usize) -> io::Result<Vec<u8>> {
        self.fs.read_small(path, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{FileId, NodeKind};
    use std::cell::Cell;

    /// Says something else each time it is asked.
    struct Fickle(Cell<u64>);

    impl HostFs for Fickle {
        fn symlink_metadata(&self, path: &AbsPath) -> io::Result<NodeInfo> {
            self.0.set(self.0.get() + 1);
            if path.as_bytes() == b"/gone" {
                return Err(io::Error::from(io::ErrorKind::NotFound));
            }
            Ok(NodeInfo {
                kind: NodeKind::File,
                id: FileId {
                    dev: 1,
                    ino: self.0.get(),
                },
                nlink: 1,
                uid: 0,
                mode: 0,
            })
        }

        fn read_link(&self, _: &AbsPath) -> io::Result<Vec<u8>> {
            Err(io::Error::from(io::ErrorKind::InvalidInput))
        }

        fn read_dir(&self, _: &AbsPath, _: usize) -> io::Result<Arc<Listing>> {
            Err(io::Error::from(io::ErrorKind::NotADirectory))
        }

        fn read_small(&self, _: &AbsPath, _: usize) -> io::Result<Vec<u8>> {
            Err(io::Error::from(io::ErrorKind::NotFound))
        }
    }

    #[test]
    fn a_path_is_looked_at_once_and_a_failure_is_remembered_too() {
        let fickle = Fickle(Cell::new(0));
        let once = Once::new(&fickle);
        let (there, gone) = (
            AbsPath::new("/there").unwrap(),
            AbsPath::new("/gone").unwrap(),
        );
        let first = once.symlink_metadata(&there).unwrap();
        assert_eq!(once.symlink_metadata(&there).unwrap(), first);
        for _ in 0..2 {
            let error = once.symlink_metadata(&gone).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        assert_eq!(fickle.0.get(), 2);
        // Another resolution looks anew.
        assert_ne!(Once::new(&fickle).symlink_metadata(&there).unwrap(), first);
    }
}

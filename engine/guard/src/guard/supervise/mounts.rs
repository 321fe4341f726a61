//! Whether a pinned thing lies in this sandbox at all. A descriptor can come from elsewhere: over a
//! Unix socket from another session or from the host. The path that the kernel tells of such a
//! thing is the one in its own mount namespace, where the rules of this one mean nothing.

use super::{
    answer::{Stop, undecided},
    caller::text_of,
    sys::{Placed, placed},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    cell::RefCell,
    collections::HashSet,
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::fd::{AsFd, BorrowedFd},
};

/// The mounts of this process's namespace, by number (`/proc/self/mountinfo`, proc(5)).
#[derive(Debug)]
pub(crate) struct Mounts(RefCell<Known>);

#[derive(Debug)]
struct Known {
    /// Told by poll(2) when anything was mounted or unmounted: numbers are used again.
    list: File,
    numbers: HashSet<u64>,
}

impl Mounts {
    pub(crate) fn read() -> Result<Self, Errno> {
        let list = File::open("/proc/self/mountinfo").map_err(errno_of)?;
        let mut known = Known {
            list,
            numbers: HashSet::new(),
        };
        known.read()?;
        Ok(Self(RefCell::new(known)))
    }

    /// Whether something lies on one of them. What cannot be found out does not.
    pub(crate) fn hold(&self, pinned: BorrowedFd<'_>) -> Result<bool, Errno> {
        self.contain(placed(pinned)?)
    }

    fn contain(&self, placed: Placed) -> Result<bool, Errno> {
        let mut known = self.0.borrow_mut();
        known.look()?;
        let numbers = &known.numbers;
        Ok(placed.mount.is_some_and(|mount| numbers.contains(&mount)))
    }

    /// Where a pinned thing is, in this sandbox; what has no place (a pipe, a file in memory) is
    /// told by its kind.
    pub(super) fn path_of(&self, pinned: BorrowedFd<'_>) -> Result<Vec<u8>, Stop> {
        let path = text_of(pinned)?;
        if !path.starts_with(b"/") {
            return Ok(path);
        }
        let placed = placed(pinned)?;
        if is_anonymous(placed) || self.contain(placed)? {
            return Ok(path);
        }
        Err(undecided("it belongs to another sandbox"))
    }
}

impl Known {
    fn look(&mut self) -> Result<(), Errno> {
        let mut entry = [PollFd::new(self.list.as_fd(), PollFlags::POLLPRI)];
        if poll(&mut entry, PollTimeout::ZERO)? > 0 {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Errno> {
        let mut text = Vec::new();
        self.list
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.list.read_to_end(&mut text))
            .map_err(errno_of)?;
        self.numbers = numbers(&text);
        Ok(())
    }
}

/// The first field of each line.
fn numbers(text: &[u8]) -> HashSet<u64> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').next())
        .filter_map(|field| std::str::from_utf8(field).ok()?.parse().ok())
        .collect()
}

/// A device or pipe is the same whatever name it was opened by, and a file without a name is
/// nowhere.
fn is_anonymous(placed: Placed) -> bool {
    match placed.mode & libc::S_IFMT {
        libc::S_IFCHR | libc::S_IFIFO => true,
        libc::S_IFREG => placed.links == 0,
        _ => false,
    }
}

fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_mounted_here_is_held_and_what_has_no_place_is_not() {
        let mounts = Mounts::read().unwrap();
        for path in ["/", "/proc", "/proc/self/status", "/dev/null"] {
            let found = File::open(path).unwrap();
            assert_eq!(mounts.hold(found.as_fd()), Ok(true), "{path}");
        }
        let (socket, _other) = UnixStream::pair().unwrap();
        assert_eq!(mounts.hold(socket.as_fd()), Ok(false));
        let path = mounts.path_of(socket.as_fd()).unwrap();
        assert!(path.starts_with(b"socket:"));
    }

    #[test]
    fn the_number_of_a_mount_is_the_first_of_its_line() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/a rw\n104 22 0:5 / /x\\0405 rw - proc p rw\n";
        assert_eq!(numbers(text), HashSet::from([22, 104]));
        assert!(numbers(b"").is_empty());
    }
}

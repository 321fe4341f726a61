//! The process whose call waits: its memory, directories and descriptors, and who it is.

use super::{
    answer::{Stop, undecided},
    sys::{Notification, read_memory, still_waits},
};
use crate::guard::processes::command_line;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
};
use std::{
    cell::{OnceCell, RefCell},
    ffi::CString,
    fs,
    io::Read,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

/// `PATH_MAX` (linux/limits.h), with the NUL.
const PATH_BYTES: usize = 4096;

/// Bytes of `/proc/TID/status` that hold the first lines, however long the name is.
const STATUS_BYTES: usize = 512;

/// Longest path of an executable that is reported, in bytes.
const EXECUTABLE_BYTES: usize = 4096;

/// Pins something without opening it.
pub(super) const PIN: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// The caller, for as long as its call waits.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub(super) listener: BorrowedFd<'a>,
    pub(super) call: Notification,
    status: OnceCell<Status>,
    meant: RefCell<Vec<u8>>,
}

/// What `/proc/TID/status` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Status {
    group: i32,
    umask: u32,
}

impl<'a> Caller<'a> {
    pub(super) fn new(listener: BorrowedFd<'a>, call: Notification) -> Self {
        Self {
            listener,
            call,
            status: OnceCell::new(),
            meant: RefCell::default(),
        }
    }

    /// The path that the call is about as far as it is known, for the report: the real one, else as
    /// it was given; empty when the caller hides it.
    pub(super) fn meant(&self) -> Vec<u8> {
        self.meant.borrow().clone()
    }

    /// Remembers what [`Self::meant`] gives.
    pub(super) fn means(&self, path: &[u8]) {
        if !path.is_empty() {
            path.clone_into(&mut self.meant.borrow_mut());
        }
    }

    pub(super) fn arg(&self, index: usize) -> u64 {
        self.call.args.get(index).copied().unwrap_or_default()
    }

    /// An argument that the kernel takes as an `int`, whatever its upper half holds.
    pub(super) fn int(&self, index: usize) -> i32 {
        let [a, b, c, d, ..] = self.arg(index).to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }

    /// As [`Self::int`], unsigned.
    pub(super) fn word(&self, index: usize) -> u32 {
        let [a, b, c, d, ..] = self.arg(index).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Whatever was found out by number since the call came is void when this is an error.
    pub(super) fn still_waits(&self) -> Result<(), Stop> {
        if still_waits(self.listener, self.call.id) {
            Ok(())
        } else {
            Err(Stop::Gone)
        }
    }

    /// A path in the caller's memory, copied once: only the copy is ever acted on.
    pub(super) fn path(&self, index: usize) -> Result<Vec<u8>, Stop> {
        let mut bytes = vec![0; PATH_BYTES];
        let count = self.memory(self.arg(index), &mut bytes)?;
        match bytes.iter().take(count).position(|byte| *byte == 0) {
            Some(end) => {
                bytes.truncate(end);
                self.means(&bytes);
                Ok(bytes)
            }
            None if count == PATH_BYTES => Err(Errno::ENAMETOOLONG.into()),
            None => Err(Errno::EFAULT.into()),
        }
    }

    /// Memory of the caller; gives how many bytes are there.
    pub(super) fn memory(&self, address: u64, into: &mut [u8]) -> Result<usize, Stop> {
        let read = read_memory(self.call.tid, address, into);
        // Whose memory that was is certain only now.
        self.still_waits()?;
        match read {
            Ok(count) => Ok(count),
            Err(Errno::EFAULT) => Err(Errno::EFAULT.into()),
            Err(Errno::EPERM | Errno::EACCES) => {
                Err(undecided("the program hides its memory from the guard"))
            }
            Err(errno) => Err(undecided(&format!("its memory cannot be read: {errno}"))),
        }
    }

    /// What a descriptor argument stands for as a directory.
    pub(super) fn base(&self, index: usize) -> Result<OwnedFd, Stop> {
        match self.int(index) {
            libc::AT_FDCWD => self.working_directory(),
            number => self.descriptor(number),
        }
    }

    pub(super) fn working_directory(&self) -> Result<OwnedFd, Stop> {
        self.pin("cwd").map_err(|errno| match errno {
            Errno::EACCES | Errno::EPERM => {
                undecided("the program hides its working directory from the guard")
            }
            other => other.into(),
        })
    }

    /// Pins what a descriptor of the caller stands for.
    pub(super) fn descriptor(&self, number: i32) -> Result<OwnedFd, Stop> {
        if number < 0 {
            return Err(Errno::EBADF.into());
        }
        self.pin(&format!("fd/{number}"))
            .map_err(|errno| match errno {
                Errno::ENOENT => Errno::EBADF.into(),
                Errno::EACCES | Errno::EPERM => {
                    undecided("the program hides its descriptors from the guard")
                }
                other => other.into(),
            })
    }

    fn pin(&self, what: &str) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/{what}", self.call.tid);
        let pinned = open(path.as_str(), PIN, Mode::empty());
        if !still_waits(self.listener, self.call.id) {
            return Err(Errno::ESRCH);
        }
        pinned
    }

    /// Its thread group.
    pub(super) fn group(&self) -> Result<i32, Stop> {
        self.status().map(|status| status.group)
    }

    /// Its umask.
    pub(super) fn umask(&self) -> Result<u32, Stop> {
        self.status().map(|status| status.umask)
    }

    fn status(&self) -> Result<Status, Stop> {
        if let Some(status) = self.status.get() {
            return Ok(*status);
        }
        let mut text = [0; STATUS_BYTES];
        // One read: more would make the kernel tell more.
        let read = fs::File::open(format!("/proc/{}/status", self.call.tid))
            .and_then(|mut file| file.read(&mut text));
        self.still_waits()?;
        let status = read
            .ok()
            .and_then(|count| parse_status(text.get(..count)?))
            .ok_or_else(|| undecided("/proc does not tell who the program is"))?;
        Ok(*self.status.get_or_init(|| status))
    }

    /// Who it is, for the report.
    pub(super) fn describe(&self) -> Description {
        let tid = self.call.tid;
        let pid = self.group().unwrap_or(tid);
        let comm = fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        let executable = fs::read_link(format!("/proc/{pid}/exe")).ok().map(|path| {
            let bytes = path.as_os_str().as_bytes();
            String::from_utf8_lossy(bytes.get(..EXECUTABLE_BYTES).unwrap_or(bytes)).into_owned()
        });
        Description {
            pid,
            comm: String::from_utf8_lossy(comm).into_owned(),
            executable,
            argv: command_line(pid),
        }
    }
}

/// Who did it. All of it is the program's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) pid: i32,
    pub(super) comm: String,
    pub(super) executable: Option<String>,
    pub(super) argv: Vec<String>,
}

/// The first `Tgid:` and `Umask:`. The name stands on the first line, with its line feeds escaped.
fn parse_status(text: &[u8]) -> Option<Status> {
    let field = |name: &[u8]| {
        text.split(|byte| *byte == b'\n')
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| std::str::from_utf8(rest).ok())
            .map(str::trim)
    };
    Some(Status {
        group: field(b"Tgid:")?.parse().ok()?,
        umask: u32::from_str_radix(field(b"Umask:")?, 8).ok()?,
    })
}

/// The path by which the kernel knows a pinned thing, as this process may use it.
pub(super) fn own_path(pinned: BorrowedFd<'_>) -> Result<CString, Errno> {
    CString::new(format!("/proc/self/fd/{}", pinned.as_raw_fd())).map_err(|_| Errno::EINVAL)
}

/// Where a pinned thing is, in whatever mount namespace: [`Mounts`](super::mounts::Mounts) knows
/// whether that is this one's.
pub(super) fn text_of(pinned: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let path = nix::fcntl::readlink(own_path(pinned)?.as_c_str())?;
    Ok(path.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_and_umask_are_read_and_a_name_cannot_pretend() {
        let text = b"Name:\tx\\nTgid:\t1\nUmask:\t0027\nState:\tR\nTgid:\t42\nNgid:\t0\n";
        let found = parse_status(text);
        assert_eq!(
            found,
            Some(Status {
                group: 42,
                umask: 0o27
            })
        );
        assert_eq!(parse_status(b"Name:\tx\nUmask:\t0027\n"), None);
    }
}

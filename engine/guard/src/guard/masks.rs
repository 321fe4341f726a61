//! `kotak-guard masks FD`: on the host, beside one session, puts masks back where a program on the
//! host replaced what they hid: the kernel takes a mount away with the name that it stands on.
//!
//! It joins the sandbox once and then waits for requests, since every millisecond between a save
//! and its mask is one in which the secret can be read. It ends with its socket. Nothing of the
//! sandbox can see it: it stays in the host's PID namespace. It never leaves the sandbox's mount
//! namespace again, and follows no symbolic link in it.

use super::{helper::owner_of, sys_mount};
use kotak_guard::{
    proto::{MaskAnswer, MaskRequest, MaskStep, PROTOCOL_VERSION},
    wire::{WireError, recv, send},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2},
    sched::{CloneFlags, setns},
    sys::{
        stat::{FileStat, Mode, SFlag, fstat, major, minor},
        statfs::{TMPFS_MAGIC, fstatfs},
        statvfs::{FsFlags, fstatvfs},
    },
};
use std::os::fd::{AsFd, OwnedFd};

/// How often a path is tried again that changes while it is hidden.
const TRIES: usize = 16;

/// Serves one engine until it hangs up.
pub(crate) fn serve(control: &OwnedFd) -> Result<(), WireError> {
    let Some((first, descriptors)) = recv::<MaskRequest>(control)? else {
        return Ok(());
    };
    let masker = match first {
        MaskRequest::Join { protocol } if protocol == PROTOCOL_VERSION => join(descriptors),
        MaskRequest::Join { .. } | MaskRequest::Hide { .. } => {
            Err(at(MaskStep::Request)(Errno::EPROTO))
        }
    };
    let masker = match masker {
        Ok(masker) => masker,
        Err(failure) => return send(control, &failure.answer(), &[]),
    };
    send(control, &MaskAnswer::Joined, &[])?;
    while let Some((request, _)) = recv::<MaskRequest>(control)? {
        let answer = match request {
            MaskRequest::Hide { path } => masker.hide(&path).unwrap_or_else(Failure::answer),
            MaskRequest::Join { .. } => at(MaskStep::Request)(Errno::EALREADY).answer(),
        };
        send(control, &answer, &[])?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    step: MaskStep,
    errno: Errno,
}

impl Failure {
    fn answer(self) -> MaskAnswer {
        MaskAnswer::Failed {
            step: self.step,
            errno: self.errno as i32,
        }
    }
}

fn at(step: MaskStep) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, errno }
}

/// A helper that has joined a sandbox.
#[derive(Debug)]
struct Masker {
    /// The sandbox's root.
    root: OwnedFd,
    /// Its null device, opened before any program ran there.
    null: OwnedFd,
}

fn join(descriptors: Vec<OwnedFd>) -> Result<Masker, Failure> {
    let senseless = at(MaskStep::Request);
    let [mounts] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| senseless(Errno::EBADF))?;
    let owner = owner_of(&mounts, libc::CLONE_NEWNS, "/proc/self/ns/mnt").map_err(|found| {
        let step = if found.found {
            MaskStep::Owner
        } else {
            MaskStep::Request
        };
        at(step)(found.errno)
    })?;
    setns(&owner, CloneFlags::CLONE_NEWUSER).map_err(at(MaskStep::JoinUser))?;
    setns(&mounts, CloneFlags::CLONE_NEWNS).map_err(at(MaskStep::JoinMounts))?;
    let make = at(MaskStep::Make);
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let root = open("/", flags | OFlag::O_DIRECTORY, Mode::empty()).map_err(&make)?;
    let null = open("/dev/null", flags, Mode::empty()).map_err(&make)?;
    if !is_null(&fstat(&null).map_err(&make)?) {
        return Err(make(Errno::ENODEV));
    }
    let masker = Masker { root, null };
    masker.make(Kind::File).map_err(&make)?;
    masker.make(Kind::Directory).map_err(&make)?;
    Ok(masker)
}

/// The kinds of masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

impl Kind {
    fn of(found: &FileStat) -> Self {
        if kind(found) == SFlag::S_IFDIR {
            Self::Directory
        } else {
            Self::File
        }
    }
}

impl Masker {
    /// A mask that is nowhere yet, as bubblewrap makes them.
    fn make(&self, kind: Kind) -> Result<OwnedFd, Errno> {
        match kind {
            Kind::File => sys_mount::shut_bind(self.null.as_fd()),
            Kind::Directory => sys_mount::shut_directory(),
        }
    }

    fn hide(&self, path: &[u8]) -> Result<MaskAnswer, Failure> {
        let below = match path {
            [b'/', below @ ..] if !below.is_empty() && !below.contains(&0) => below,
            _ => return Err(at(MaskStep::Request)(Errno::EINVAL)),
        };
        let mut put = false;
        let mut last = at(MaskStep::Verify)(Errno::EBUSY);
        for _ in 0..TRIES {
            let target = match self.open(below) {
                Ok(target) => target,
                // It went away, or nobody inside can come to it: this process may do more there.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) if put => {
                    return Ok(MaskAnswer::Hidden);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => {
                    return Ok(MaskAnswer::Missing);
                }
                Err(errno @ Errno::EAGAIN) => {
                    last = at(MaskStep::Open)(errno);
                    continue;
                }
                Err(errno) => return Err(at(MaskStep::Open)(errno)),
            };
            let found = fstat(&target).map_err(at(MaskStep::Open))?;
            if is_hidden(&target, &found).map_err(at(MaskStep::Verify))? {
                return Ok(if put {
                    MaskAnswer::Hidden
                } else {
                    MaskAnswer::AlreadyHidden
                });
            }
            let mask = self.make(Kind::of(&found)).map_err(at(MaskStep::Make))?;
            match sys_mount::put_over(mask.as_fd(), target.as_fd()) {
                // Looked at again by its path: it may have been replaced once more meanwhile.
                Ok(()) => put = true,
                // Replaced between the two calls: no name leads to what was opened any more.
                Err(errno @ (Errno::ENOENT | Errno::EINVAL)) => {
                    last = at(MaskStep::Mount)(errno);
                }
                Err(errno) => return Err(at(MaskStep::Mount)(errno)),
            }
        }
        Err(last)
    }

    /// What a path leads to, mounts crossed and no symbolic link followed, also not the last: a
    /// link on the way is what is hidden then.
    fn open(&self, below: &[u8]) -> Result<OwnedFd, Errno> {
        match self.look_up(below) {
            Err(Errno::ELOOP) => self.first_link(below),
            found => found,
        }
    }

    /// The first symbolic link on a path that is through one.
    fn first_link(&self, below: &[u8]) -> Result<OwnedFd, Errno> {
        let ends = (0..below.len()).filter(|end| below.get(*end) == Some(&b'/'));
        for end in ends {
            let part = self.look_up(below.get(..end).unwrap_or_default())?;
            if kind(&fstat(&part)?) == SFlag::S_IFLNK {
                return Ok(part);
            }
        }
        // It was one a moment ago.
        Err(Errno::EAGAIN)
    }

    fn look_up(&self, below: &[u8]) -> Result<OwnedFd, Errno> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_IN_ROOT);
        openat2(&self.root, below, how)
    }
}

/// Whether a mask is there: the null device where devices cannot be opened, or the root of an
/// unreadable file system in memory.
fn is_hidden(target: &OwnedFd, found: &FileStat) -> Result<bool, Errno> {
    let flags = fstatvfs(target)?.flags();
    if !flags.contains(FsFlags::ST_RDONLY | FsFlags::ST_NODEV) {
        return Ok(false);
    }
    if is_null(found) {
        return Ok(true);
    }
    Ok(kind(found) == SFlag::S_IFDIR
        && found.st_mode & 0o7777 == 0
        && fstatfs(target)?.filesystem_type() == TMPFS_MAGIC
        && is_mount_root(target, found)?)
}

/// Whether a directory is the root of its mount: its parent is on another device.
fn is_mount_root(directory: &OwnedFd, found: &FileStat) -> Result<bool, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let parent = openat(directory, "..", flags, Mode::empty())?;
    Ok(fstat(&parent)?.st_dev != found.st_dev)
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT
}

fn is_null(found: &FileStat) -> bool {
    kind(found) == SFlag::S_IFCHR && (major(found.st_rdev), minor(found.st_rdev)) == (1, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_mounts_are_never_touched() {
        let refused = |path: &str| {
            let file = std::fs::File::open(path).unwrap();
            join(vec![file.into()]).err()
        };
        let failure = |errno| {
            let step = MaskStep::Request;
            Some(Failure { step, errno })
        };
        assert_eq!(refused("/proc/self/ns/mnt"), failure(Errno::EINVAL));
        assert_eq!(refused("/proc/self/ns/net"), failure(Errno::EINVAL));
        assert_eq!(refused("/dev/null"), failure(Errno::ENOTTY));
        assert_eq!(join(vec![]).err(), failure(Errno::EBADF));
    }

    #[test]
    fn a_null_device_that_can_be_opened_is_no_mask() {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        for path in ["/dev/null", "/proc/self/exe", "/"] {
            let target = open(path, flags, Mode::empty()).unwrap();
            let found = fstat(&target).unwrap();
            assert_eq!(is_null(&found), path == "/dev/null");
            assert_eq!(is_hidden(&target, &found), Ok(false), "{path}");
        }
    }
}

//! mkdir(2), mknod(2), symlink(2), bind(2) of a Unix socket, chmod(2).

use super::{
    answer::{Answer, Stop, undecided},
    caller::{Caller, own_path},
    judged::Judged,
    open::{node, set_umask},
    sys::{bind_as_given, chmod_as_given, copy_descriptor, mkdir_as_given, mknod_as_given},
    walk::{Entry, Target, Walk, kind},
};
use crate::guard::sys::pin_process;
use kotak_guard::{
    judge::{
        git::{self, place},
        rules::Deed,
    },
    proto::FileAction,
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, fstat},
    unistd::{chdir, fchdir, symlinkat},
};
use std::os::fd::{AsFd, OwnedFd};

/// `sizeof(struct sockaddr_storage)`: the kernel takes no longer address.
const ADDRESS_BYTES: usize = 128;

/// `sizeof(struct sockaddr_un)`: a Unix socket takes no longer one.
const UNIX_ADDRESS_BYTES: usize = 110;

/// Bytes before the path in a `sockaddr_un`.
const FAMILY_BYTES: usize = 2;

/// The name that is to be made, if nothing stands there.
fn free_entry(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    dir: Option<usize>,
    path: &[u8],
) -> Result<Entry, Stop> {
    let entry = Walk::new(caller, judged.settings).entry(dir, path)?;
    if entry.is_dots() || entry.stat()?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    Ok(entry)
}

/// mkdir(2).
pub(super) fn directory(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    dir: Option<usize>,
    path: usize,
) -> Result<Answer, Stop> {
    let entry = free_entry(caller, judged, dir, &caller.path(path)?)?;
    judged.plain_entry(&entry, Deed::MakeDirectory, FileAction::Create)?;
    set_umask(caller)?;
    mkdir_as_given(entry.dir.as_fd(), &entry.given()?, caller.word(path + 1))?;
    judged.stands_new(&entry, Deed::MakeDirectory)?;
    Ok(Answer::DONE)
}

/// mknod(2).
pub(super) fn node_of(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    dir: Option<usize>,
    path: usize,
) -> Result<Answer, Stop> {
    let mode = caller.word(path + 1);
    let entry = free_entry(caller, judged, dir, &caller.path(path)?)?;
    if entry.slash {
        return Err(Errno::ENOENT.into());
    }
    // A regular file that is made so is empty, and is opened by a call of its own.
    judged.plain_entry(&entry, Deed::MakeOther, FileAction::Create)?;
    set_umask(caller)?;
    let device = u64::from(caller.word(path + 2));
    mknod_as_given(entry.dir.as_fd(), &entry.bare()?, mode, device)?;
    judged.stands_new(&entry, Deed::MakeOther)?;
    Ok(Answer::DONE)
}

/// symlink(2).
pub(super) fn symlink(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    leads: usize,
    dir: Option<usize>,
    path: usize,
) -> Result<Answer, Stop> {
    let leads = caller.path(leads)?;
    if leads.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    let entry = free_entry(caller, judged, dir, &caller.path(path)?)?;
    if entry.slash {
        return Err(Errno::ENOENT.into());
    }
    judged.plain_entry(&entry, symlink_deed(&entry, &leads), FileAction::Create)?;
    symlinkat(leads.as_slice(), &entry.dir, entry.bare()?.as_c_str())?;
    judged.stands_new(&entry, Deed::MakeSymlink)?;
    Ok(Answer::DONE)
}

/// The symlink by which git finds out about symlinks is judged like a file.
fn symlink_deed(entry: &Entry, leads: &[u8]) -> Deed {
    let path = entry.path();
    let parts = path.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
    if place(&parts).is_git() && git::symlink(&parts, leads).is_ok() {
        Deed::MakeFile
    } else {
        Deed::MakeSymlink
    }
}

/// bind(2), of every family: which one it is stands in memory.
pub(super) fn bind(caller: &Caller<'_>, judged: &Judged<'_>) -> Result<Answer, Stop> {
    let socket = socket_of(caller)?;
    let length = usize::try_from(caller.int(2)).map_err(|_| Errno::EINVAL)?;
    if length > ADDRESS_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let mut address = vec![0; length];
    if length > 0 && caller.memory(caller.arg(1), &mut address)? < length {
        return Err(Errno::EFAULT.into());
    }
    let path = match address.get(FAMILY_BYTES..) {
        Some(path) if is_unix(&address) && path.first().is_some_and(|byte| *byte != 0) => path,
        _ => {
            bind_as_given(socket.as_fd(), &address)?;
            return Ok(Answer::DONE);
        }
    };
    if length > UNIX_ADDRESS_BYTES {
        return Err(Errno::EINVAL.into());
    }
    // It ends at the first NUL (unix(7)), or with the address.
    let end = path.iter().position(|byte| *byte == 0);
    let path = path.get(..end.unwrap_or(path.len())).unwrap_or_default();
    let entry = Walk::new(caller, judged.settings).entry(None, path)?;
    if entry.is_dots() || entry.stat()?.is_some() {
        return Err(Errno::EADDRINUSE.into());
    }
    if entry.slash {
        return Err(Errno::ENOENT.into());
    }
    judged.plain_entry(&entry, Deed::MakeOther, FileAction::Create)?;
    set_umask(caller)?;
    // By name in its directory, which is the one that was judged. The socket tells the name that
    // it was bound by: where the given path is the real one nobody sees a difference.
    fchdir(&entry.dir)?;
    let name = if path == entry.path() {
        path
    } else {
        entry.name.as_slice()
    };
    let mut judged_address = address.get(..FAMILY_BYTES).unwrap_or_default().to_vec();
    judged_address.extend_from_slice(name);
    // No longer than what was given, so nothing is cut off; without a NUL the kernel adds one.
    let bound = bind_as_given(socket.as_fd(), &judged_address);
    chdir("/")?;
    bound?;
    if entry.stat()?.is_none() {
        return Err(undecided("its directory was moved meanwhile"));
    }
    judged.stands_new(&entry, Deed::MakeOther)?;
    Ok(Answer::DONE)
}

/// Only a Unix socket takes such an address, and it takes no other.
fn is_unix(address: &[u8]) -> bool {
    let given = address.first_chunk::<FAMILY_BYTES>();
    given.is_some_and(|bytes| i32::from(u16::from_ne_bytes(*bytes)) == libc::AF_UNIX)
}

/// The caller's socket itself.
fn socket_of(caller: &Caller<'_>) -> Result<OwnedFd, Stop> {
    let number = caller.int(0);
    let pinned = caller.descriptor(number)?;
    let named = fstat(&pinned)?;
    if kind(&named) != libc::S_IFSOCK {
        return Err(Errno::ENOTSOCK.into());
    }
    let process = pin_process(caller.group()?)?;
    let copy = copy_descriptor(process.as_fd(), number);
    caller.still_waits()?;
    let copy = copy.map_err(|errno| match errno {
        Errno::EBADF => Errno::EBADF.into(),
        errno => undecided(&format!("its socket cannot be had: {errno}")),
    })?;
    // A thread may have descriptors of its own.
    if node(&fstat(&copy)?) != node(&named) {
        return Err(undecided("its socket belongs to one thread alone"));
    }
    Ok(copy)
}

/// chmod(2), by name: the mode of what is protected, or of an ancestor, decides who finds it.
pub(super) fn mode(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    dir: Option<usize>,
    path: usize,
    flags: i32,
) -> Result<Answer, Stop> {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let bytes = caller.path(path)?;
    let mode = caller.word(path + 1);
    let walk = Walk::new(caller, judged.settings);
    let target = if bytes.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        Target::Thing(match dir {
            Some(index) => caller.base(index)?,
            None => return Err(Errno::ENOENT.into()),
        })
    } else if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
        let entry = walk.entry(dir, &bytes)?;
        let found = entry.stat()?;
        Target::Entry(entry, found)
    } else {
        walk.target(dir, &bytes)?
    };
    let pinned = match target.without_dots()? {
        Target::Entry(_, None) => return Err(Errno::ENOENT.into()),
        Target::Thing(thing) => {
            super::walk::not_of_the_guard(thing.as_fd())?;
            judged.mode_of_thing(thing.as_fd(), &fstat(&thing)?, mode)?;
            thing
        }
        Target::Entry(entry, Some(found)) => {
            judged.mode_of(&entry, &found, mode)?;
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            openat(&entry.dir, entry.given()?.as_c_str(), flags, Mode::empty())?
        }
    };
    if kind(&fstat(&pinned)?) == libc::S_IFLNK {
        return Err(Errno::EOPNOTSUPP.into());
    }
    chmod_as_given(&own_path(pinned.as_fd())?, mode)?;
    Ok(Answer::DONE)
}

/// fchmod(2): as chmod(2) of what the descriptor stands for.
pub(super) fn mode_of_descriptor(caller: &Caller<'_>, judged: &Judged<'_>) -> Result<Answer, Stop> {
    let (pinned, mode) = (caller.descriptor(caller.int(0))?, caller.word(1));
    super::walk::not_of_the_guard(pinned.as_fd())?;
    judged.mode_of_thing(pinned.as_fd(), &fstat(&pinned)?, mode)?;
    chmod_as_given(&own_path(pinned.as_fd())?, mode)?;
    Ok(Answer::DONE)
}

//! Files of git's that are judged by content. What is judged is a copy that nobody else can
//! write, and the copy is what comes to stand under the name: whoever holds the file that it was
//! copied from can change that one only.

use super::{
    answer::{Stop, undecided},
    judged::Judged,
    sys::open_as_given,
    walk::{Entry, kind},
};
use kotak_guard::{
    judge::{
        git::{self, MAX_CONFIG_BYTES},
        rules::{GitFile, TEMPORARY, components},
    },
    proto::Rule,
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, renameat},
    sys::stat::{Mode, fchmod, fstat},
    unistd::{UnlinkatFlags, unlinkat},
};
use std::{
    ffi::CString,
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
};

/// What came of a rename onto a judged name.
#[derive(Debug)]
pub(super) enum Installed {
    /// The name holds what the source held, and the source is gone.
    Done,
    /// The content is not harmless.
    Refused(Rule),
}

/// Renames `old` to `new` by way of a copy.
pub(super) fn install(
    judged: &Judged<'_>,
    old: &Entry,
    new: &Entry,
    file: GitFile,
) -> Result<Installed, Stop> {
    let source = match read_regular(old.dir.as_fd(), &old.name)? {
        Some(source) => source,
        None => return Err(Errno::ENOENT.into()),
    };
    if let Err(reason) = judge(judged, new, file, &source.bytes)? {
        return Ok(Installed::Refused(Rule::Git(reason)));
    }
    put(new.dir.as_fd(), &new.name, &source.bytes, source.mode)?;
    unlinkat(&old.dir, old.name.as_slice(), UnlinkatFlags::NoRemoveDir)?;
    Ok(Installed::Done)
}

/// Judges a file where it stands, and puts a copy in its place.
pub(super) fn refresh(
    judged: &Judged<'_>,
    dir: BorrowedFd<'_>,
    name: &[u8],
    file: GitFile,
    path: &[u8],
) -> Result<Result<(), Rule>, Stop> {
    let Some(source) = read_regular(dir, name)? else {
        return Ok(Ok(()));
    };
    match judge_at(judged, dir, path, file, &source.bytes, None)? {
        Err(reason) => Ok(Err(Rule::Git(reason))),
        Ok(()) => {
            put(dir, name, &source.bytes, source.mode)?;
            Ok(Ok(()))
        }
    }
}

/// Whether content may come to stand under a name.
pub(super) fn judge(
    judged: &Judged<'_>,
    entry: &Entry,
    file: GitFile,
    bytes: &[u8],
) -> Result<Result<(), String>, Stop> {
    let present = read_regular(entry.dir.as_fd(), &entry.name)?;
    let present = present.as_ref().map(|it| it.bytes.as_slice());
    judge_at(
        judged,
        entry.dir.as_fd(),
        &entry.path(),
        file,
        bytes,
        present,
    )
}

fn judge_at(
    judged: &Judged<'_>,
    dir: BorrowedFd<'_>,
    path: &[u8],
    file: GitFile,
    bytes: &[u8],
    present: Option<&[u8]>,
) -> Result<Result<(), String>, Stop> {
    let place: Vec<&[u8]> = components(path).collect();
    Ok(match file {
        GitFile::Config => match present {
            Some(present) => git::config_change(present, bytes, &place),
            None => git::config_at(bytes, &place),
        },
        GitFile::Commondir => git::commondir(bytes).map(drop),
        GitFile::Link => match git::gitlink(bytes) {
            Err(reason) => Err(reason),
            Ok(target) => leads_to_a_judged_place(judged, dir, &target)?,
        },
    })
}

/// A `.git` file leads to what is judged as a git directory, by no symlink and through nothing that
/// is not there yet: what is judged once must not lead elsewhere by what is made on its way later.
/// Only below a git directory that is there already may something be missing.
fn leads_to_a_judged_place(
    judged: &Judged<'_>,
    dir: BorrowedFd<'_>,
    target: &[u8],
) -> Result<Result<(), String>, Stop> {
    let mut there = target;
    let mut missing: Vec<&[u8]> = Vec::new();
    let found = loop {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        let name = if there.is_empty() { b"." } else { there };
        match openat2(dir, name, how) {
            Ok(found) => break found,
            Err(Errno::ENOENT) if !there.is_empty() && there != b"/" => {
                // git makes the directory after the file that leads to it.
                let cut = there.iter().rposition(|byte| *byte == b'/');
                let (before, last) = match cut {
                    Some(cut) => (&there[..cut.max(1)], &there[cut + 1..]),
                    None => (&there[..0], there),
                };
                missing.push(last);
                there = before;
            }
            Err(Errno::ELOOP) => {
                return Ok(Err("the path leads through a symbolic link".to_owned()));
            }
            Err(errno) => return Ok(Err(format!("the path leads nowhere: {errno}"))),
        }
    };
    if missing.iter().any(|name| *name == b"..") {
        return Ok(Err("the path leads through what is not there".to_owned()));
    }
    let mut real = judged.settings.mounts.path_of(found.as_fd())?;
    if !missing.is_empty() && !judged.rules.is_in_git(&real) {
        return Ok(Err("the path leads through what is not there".to_owned()));
    }
    for name in missing
        .iter()
        .rev()
        .filter(|name| !name.is_empty() && **name != b".")
    {
        real = super::walk::joined(&real, name);
    }
    if !judged.rules.is_judged(&real) {
        return Ok(Err("it leads out of what the rules hold for".to_owned()));
    }
    let as_written = [b"gitdir: ", real.as_slice(), b"\n"].concat();
    Ok(git::gitlink(&as_written).map(drop))
}

/// A file as it was read.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// Reads a regular file of at most [`MAX_CONFIG_BYTES`].
pub(super) fn read_regular(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Content>, Stop> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    let opened = match openat(dir, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let found = fstat(&opened)?;
    if kind(&found) != libc::S_IFREG {
        return Err(undecided("a file of git's is no regular file"));
    }
    let bytes = read_all(File::from(opened))?;
    Ok(Some(Content {
        bytes,
        mode: found.st_mode & 0o777,
    }))
}

/// All of a file, if it is not too long to be judged.
pub(super) fn read_all(file: File) -> Result<Vec<u8>, Stop> {
    let most = u64::try_from(MAX_CONFIG_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| undecided(&format!("a file of git's cannot be read: {error}")))?;
    if bytes.len() > MAX_CONFIG_BYTES {
        return Err(undecided("a file of git's is too long to be judged"));
    }
    Ok(bytes)
}

/// Puts a new file with this content under a name, whatever stood there. Until it stands there it
/// has a name of its own ([`TEMPORARY`]) that nobody else can write to: everybody's opens wait for
/// this thread, or for another session's, which refuses them.
pub(super) fn put(dir: BorrowedFd<'_>, name: &[u8], bytes: &[u8], mode: u32) -> Result<(), Stop> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let unique = nix::sys::time::TimeSpec::from_duration(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default(),
    );
    let temporary = format!(
        "{TEMPORARY}{}-{}-{count}",
        unique.tv_sec(),
        unique.tv_nsec()
    );
    let temporary = CString::new(temporary).map_err(|_| Errno::EINVAL)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mut file = File::from(open_as_given(dir, &temporary, flags, 0o600)?);
    let written = file
        .write_all(bytes)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
        .and_then(|()| fchmod(&file, Mode::from_bits_truncate(mode)))
        .and_then(|()| renameat(dir, temporary.as_c_str(), dir, name));
    if let Err(errno) = written {
        // Nothing is left of what could not be put in place.
        let _ = unlinkat(dir, temporary.as_c_str(), UnlinkatFlags::NoRemoveDir);
        return Err(errno.into());
    }
    Ok(())
}

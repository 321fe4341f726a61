//! From a path in a call to the directory that is meant and a name in it.
//!
//! What is found is pinned, and everything later goes by the pinned directory and the name: who
//! changes the tree or its own memory meanwhile changes nothing. Symlinks on the way are the
//! kernel's to follow; one at the end is followed here, so that what it leads to is judged too.
//!
//! procfs shows everyone another view of itself: what lies there is walked by component, `self` is
//! the caller's, and its magic links are followed one at a time (proc(5)).

use super::{
    answer::{Stop, undecided},
    caller::{Caller, PIN},
    mounts::Mounts,
};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat},
    sys::{
        stat::{FileStat, Mode, fstat, fstatat},
        statfs::{FsType, PROC_SUPER_MAGIC, fstatfs},
    },
};
use std::{
    cell::Cell,
    collections::VecDeque,
    ffi::CString,
    fs,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

/// Symlinks that one path may lead through, as in the kernel.
const MOST_SYMLINKS: u32 = 40;

/// `NAME_MAX` (linux/limits.h).
const NAME_BYTES: usize = 255;

/// Inode of a procfs's top directory.
const PROC_ROOT: u64 = 1;

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Entry {
    /// Pinned.
    pub(super) dir: OwnedFd,
    /// Where that is.
    pub(super) dir_path: Vec<u8>,
    /// Without slashes; may be `.` or `..`.
    pub(super) name: Vec<u8>,
    /// Whether a slash stood after it: it must be a directory.
    pub(super) slash: bool,
    pub(super) file_system: FsType,
}

/// What a path that is followed to its end leads to.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one call, and nearly always is the large one"
)]
pub(super) enum Target {
    /// A name, and what stands there; never a symlink.
    Entry(Entry, Option<FileStat>),
    /// A thing by itself, pinned: the end of a magic link.
    Thing(OwnedFd),
}

impl Target {
    /// With `.` and `..` as what they are: a directory that has a name elsewhere.
    pub(super) fn without_dots(self) -> Result<Self, Errno> {
        match self {
            Self::Entry(entry, _) if entry.is_dots() => {
                let flags = PIN | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
                let name = entry.name.as_slice();
                let found = openat(&entry.dir, name, flags, Mode::empty())?;
                Ok(Self::Thing(found))
            }
            other => Ok(other),
        }
    }
}

impl Entry {
    /// Whether the name is `.` or `..`, which nothing can be called.
    pub(super) fn is_dots(&self) -> bool {
        matches!(&self.name[..], b"." | b"..")
    }

    /// Its whole path.
    pub(super) fn path(&self) -> Vec<u8> {
        joined(&self.dir_path, &self.name)
    }

    /// The name as the kernel is to get it, with its slash.
    pub(super) fn given(&self) -> Result<CString, Errno> {
        let mut name = self.name.clone();
        if self.slash {
            name.push(b'/');
        }
        CString::new(name).map_err(|_| Errno::EINVAL)
    }

    /// The name alone.
    pub(super) fn bare(&self) -> Result<CString, Errno> {
        CString::new(self.name.as_slice()).map_err(|_| Errno::EINVAL)
    }

    /// What stands there; a symlink is not followed.
    pub(super) fn stat(&self) -> Result<Option<FileStat>, Errno> {
        stat_at(self.dir.as_fd(), &self.name)
    }

    fn is_in_procfs(&self) -> bool {
        self.file_system == PROC_SUPER_MAGIC
    }
}

/// What stands under a name; a symlink is not followed.
pub(super) fn stat_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileStat>, Errno> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The path of a name in a directory.
pub(super) fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if dir.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

pub(super) fn kind(found: &FileStat) -> u32 {
    found.st_mode & libc::S_IFMT
}

/// Finds what one caller means.
pub(super) struct Walk<'a> {
    caller: &'a Caller<'a>,
    settings: &'a Settings,
    symlinks: Cell<u32>,
}

/// Facts that hold for every walk.
#[derive(Debug)]
pub(super) struct Settings {
    /// The root directory, which is everybody's: nobody inside can change its own.
    root: OwnedFd,
    /// Whether the kernel follows no symlink of another's in a sticky directory
    /// (`fs.protected_symlinks`, proc_sys_fs(5)).
    protected_symlinks: bool,
    uid: u32,
    pub(super) mounts: Mounts,
}

impl Settings {
    pub(super) fn read() -> Result<Self, Errno> {
        let setting = fs::read("/proc/sys/fs/protected_symlinks");
        Ok(Self {
            root: open("/", PIN | OFlag::O_DIRECTORY, Mode::empty())?,
            // Unknown is on.
            protected_symlinks: !setting.is_ok_and(|text| text.starts_with(b"0")),
            uid: nix::unistd::geteuid().as_raw(),
            mounts: Mounts::read()?,
        })
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(caller: &'a Caller<'a>, settings: &'a Settings) -> Self {
        Self {
            caller,
            settings,
            symlinks: Cell::new(0),
        }
    }

    /// The name that a path ends in, not followed. `dir` is the index of the descriptor argument,
    /// absent where the call has none.
    pub(super) fn entry(&self, dir: Option<usize>, path: &[u8]) -> Result<Entry, Stop> {
        let base = self.base(dir, path)?;
        self.entry_from(base, path)
    }

    /// What a path leads to in the end.
    pub(super) fn target(&self, dir: Option<usize>, path: &[u8]) -> Result<Target, Stop> {
        let base = self.base(dir, path)?;
        self.follow(base, path.to_vec())
    }

    fn base(&self, dir: Option<usize>, path: &[u8]) -> Result<OwnedFd, Stop> {
        match path.first() {
            None => Err(Errno::ENOENT.into()),
            Some(b'/') => self.root(),
            Some(_) => match dir {
                Some(index) => self.caller.base(index),
                None => self.caller.working_directory(),
            },
        }
    }

    fn root(&self) -> Result<OwnedFd, Stop> {
        let copy = self.settings.root.try_clone();
        copy.map_err(|_| undecided("the guard has no descriptor left"))
    }

    fn entry_from(&self, base: OwnedFd, path: &[u8]) -> Result<Entry, Stop> {
        let end = path.iter().rposition(|byte| *byte != b'/');
        let (trimmed, slash) = match end {
            Some(end) => (path.get(..=end).unwrap_or_default(), end + 1 < path.len()),
            // Slashes only.
            None => (&b"."[..], true),
        };
        let cut = trimmed
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        let (way, name) = trimmed.split_at(cut);
        let (dir, file_system) = self.directory(base, way)?;
        if name.len() > NAME_BYTES {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let dir_path = self.settings.mounts.path_of(dir.as_fd())?;
        let entry = Entry {
            dir,
            dir_path,
            name: name.to_vec(),
            slash,
            file_system,
        };
        self.caller.means(&entry.path());
        Ok(entry)
    }

    /// The directory at the end of a way, which is empty or ends in a slash.
    fn directory(&self, base: OwnedFd, way: &[u8]) -> Result<(OwnedFd, FsType), Stop> {
        if way.is_empty() {
            let file_system = fstatfs(&base)?.filesystem_type();
            if file_system == PROC_SUPER_MAGIC {
                return self.directory_by_component(base, way);
            }
            if kind(&fstat(&base)?) != libc::S_IFDIR {
                return Err(Errno::ENOTDIR.into());
            }
            return Ok((base, file_system));
        }
        let how = OpenHow::new()
            .flags(PIN | OFlag::O_DIRECTORY)
            .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let found = match openat2(&base, way, how) {
            // Into procfs, or by a magic link there: not as the guard sees it. And a loop of
            // symlinks, which the slow walk finds again.
            Err(Errno::ELOOP | Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR) => {
                return self.directory_by_component(base, way);
            }
            other => other?,
        };
        let file_system = fstatfs(&found)?.filesystem_type();
        if file_system == PROC_SUPER_MAGIC {
            return self.directory_by_component(base, way);
        }
        Ok((found, file_system))
    }

    fn directory_by_component(&self, base: OwnedFd, way: &[u8]) -> Result<(OwnedFd, FsType), Stop> {
        let mut here = base;
        let mut left = split(way);
        while let Some(name) = left.pop_front() {
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    here = openat(&here, "..", PIN | OFlag::O_DIRECTORY, Mode::empty())?;
                    continue;
                }
                _ => {}
            }
            let in_procfs = is_procfs(here.as_fd())?;
            let name = if in_procfs {
                not_of_the_guard(here.as_fd())?;
                match self.in_proc(here.as_fd(), &name)? {
                    Name::Is(name) => name,
                    Name::Leads(names) => {
                        for name in names.into_iter().rev() {
                            left.push_front(name);
                        }
                        continue;
                    }
                }
            } else {
                name
            };
            let next = openat(
                &here,
                name.as_slice(),
                PIN | OFlag::O_NOFOLLOW,
                Mode::empty(),
            )?;
            let found = fstat(&next)?;
            if kind(&found) != libc::S_IFLNK {
                here = next;
                continue;
            }
            self.count_symlink()?;
            if in_procfs && is_magic(here.as_fd(), &name)? {
                here = openat(&here, name.as_slice(), PIN, Mode::empty())?;
                continue;
            }
            self.may_follow(here.as_fd(), &found)?;
            let leads = readlinkat(&next, "")?;
            let leads = leads.as_bytes();
            if leads.first() == Some(&b'/') {
                here = self.root()?;
            }
            for name in split(leads).into_iter().rev() {
                left.push_front(name);
            }
        }
        if kind(&fstat(&here)?) != libc::S_IFDIR {
            return Err(Errno::ENOTDIR.into());
        }
        not_of_the_guard(here.as_fd())?;
        let file_system = fstatfs(&here)?.filesystem_type();
        Ok((here, file_system))
    }

    fn follow(&self, mut base: OwnedFd, mut path: Vec<u8>) -> Result<Target, Stop> {
        loop {
            let mut entry = self.entry_from(base, &path)?;
            if entry.is_dots() {
                return Ok(Target::Entry(entry, None));
            }
            if entry.is_in_procfs() {
                match self.in_proc(entry.dir.as_fd(), &entry.name)? {
                    Name::Is(name) => entry.name = name,
                    Name::Leads(names) => {
                        base = entry.dir;
                        path = names.join(&b'/');
                        continue;
                    }
                }
            }
            let found = match entry.stat()? {
                Some(found) if kind(&found) == libc::S_IFLNK => found,
                other => return Ok(Target::Entry(entry, other)),
            };
            self.count_symlink()?;
            if entry.is_in_procfs() && is_magic(entry.dir.as_fd(), &entry.name)? {
                let thing = openat(&entry.dir, entry.name.as_slice(), PIN, Mode::empty())?;
                not_of_the_guard(thing.as_fd())?;
                return Ok(Target::Thing(thing));
            }
            self.may_follow(entry.dir.as_fd(), &found)?;
            let leads = match readlinkat(&entry.dir, entry.name.as_slice()) {
                // It is none any more.
                Err(Errno::EINVAL) => {
                    base = entry.dir;
                    path = entry.name;
                    continue;
                }
                other => other?,
            };
            path = leads.as_bytes().to_vec();
            if entry.slash {
                path.push(b'/');
            }
            base = if path.first() == Some(&b'/') {
                self.root()?
            } else {
                entry.dir
            };
            if path.is_empty() {
                return Err(Errno::ENOENT.into());
            }
        }
    }

    fn count_symlink(&self) -> Result<(), Errno> {
        let count = self.symlinks.get() + 1;
        self.symlinks.set(count);
        if count > MOST_SYMLINKS {
            return Err(Errno::ELOOP);
        }
        Ok(())
    }

    /// As the kernel does, see [`Settings::protected_symlinks`].
    fn may_follow(&self, dir: BorrowedFd<'_>, link: &FileStat) -> Result<(), Errno> {
        if !self.settings.protected_symlinks || link.st_uid == self.settings.uid {
            return Ok(());
        }
        let parent = fstat(dir)?;
        let shared = libc::S_ISVTX | libc::S_IWOTH;
        if parent.st_mode & shared == shared && parent.st_uid != link.st_uid {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// What a name in procfs means to the caller.
    fn in_proc(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Name, Stop> {
        if fstat(dir)?.st_ino != PROC_ROOT {
            return Ok(Name::Is(name.to_vec()));
        }
        let number = |number: i32| number.to_string().into_bytes();
        let group = || self.caller.group();
        match name {
            b"self" => Ok(Name::Leads(vec![number(group()?)])),
            b"thread-self" => Ok(Name::Leads(vec![
                number(group()?),
                b"task".to_vec(),
                number(self.caller.call.tid),
            ])),
            _ if is_guard(name) => Err(Errno::EACCES.into()),
            _ => Ok(Name::Is(name.to_vec())),
        }
    }
}

/// What a name in procfs is to a caller.
enum Name {
    Is(Vec<u8>),
    Leads(Vec<Vec<u8>>),
}

/// Whether a name is the number of this process or of one of its threads: the guard may look into
/// itself, and nobody else may.
fn is_guard(name: &[u8]) -> bool {
    std::str::from_utf8(name)
        .ok()
        .and_then(|text| text.parse::<u32>().ok())
        .is_some_and(|number| fs::metadata(format!("/proc/self/task/{number}")).is_ok())
}

/// Refuses what belongs to this process in procfs: the kernel lets everybody into itself, so the
/// guard must not open its own memory or descriptors for another, by whatever descriptor the other
/// found the way there.
pub(super) fn not_of_the_guard(found: BorrowedFd<'_>) -> Result<(), Errno> {
    if !is_procfs(found)? {
        return Ok(());
    }
    let path = super::caller::text_of(found)?;
    let Some(below) = path.strip_prefix(b"/proc") else {
        return Err(Errno::EACCES);
    };
    match below.strip_prefix(b"/") {
        None if below.is_empty() => Ok(()),
        None => Err(Errno::EACCES),
        Some(rest) => match split(rest).front() {
            Some(first) if is_guard(first) => Err(Errno::EACCES),
            _ => Ok(()),
        },
    }
}

fn is_procfs(found: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstatfs(found)?.filesystem_type() == PROC_SUPER_MAGIC)
}

/// Whether a symlink in procfs leads to a thing and not to a path.
fn is_magic(dir: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    if fstat(dir)?.st_ino == PROC_ROOT {
        return Ok(false);
    }
    let how = OpenHow::new()
        .flags(PIN)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(dir, name, how) {
        Ok(_) => Ok(false),
        Err(Errno::ELOOP) => Ok(true),
        Err(errno) => Err(errno),
    }
}

fn split(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .map(<[u8]>::to_vec)
        .collect()
}

//! rename(2), link(2), unlink(2), rmdir(2) and their kin.

use super::{
    answer::{Answer, Stop, refused, undecided},
    caller::{Caller, own_path},
    install::{Installed, install},
    judged::{Judged, making},
    moved::check_moved,
    open::node,
    sys::rename_as_given,
    walk::{Entry, Target, Walk, joined, kind},
};
use kotak_guard::{
    judge::rules::{Deed, Verdict},
    proto::{FileAction, Rule},
};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat},
    sys::{
        stat::{FileStat, Mode, fstat},
        statfs::{FsType, fstatfs},
    },
    unistd::{UnlinkatFlags, linkat, unlinkat},
};
use std::os::fd::{AsFd, OwnedFd};

/// Where a call has its paths: indices of arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) old_dir: Option<usize>,
    pub(super) old: usize,
    pub(super) new_dir: Option<usize>,
    pub(super) new: usize,
}

/// rename(2).
pub(super) fn rename(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    pair: Pair,
    flags: u32,
) -> Result<Answer, Stop> {
    let known = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
    if flags & !known != 0 {
        return Err(Errno::EINVAL.into());
    }
    let exchange = flags & libc::RENAME_EXCHANGE != 0;
    if exchange && flags != libc::RENAME_EXCHANGE {
        return Err(Errno::EINVAL.into());
    }
    if flags & libc::RENAME_WHITEOUT != 0 {
        // A device, which nobody without a capability makes.
        return Err(Errno::EPERM.into());
    }
    let (old, new) = both(caller, judged, pair)?;
    if old.is_dots() || new.is_dots() {
        return Err(Errno::EBUSY.into());
    }
    let Some(source) = old.stat()? else {
        return Err(Errno::ENOENT.into());
    };
    let target = new.stat()?;
    if exchange && target.is_none() {
        return Err(Errno::ENOENT.into());
    }
    if flags & libc::RENAME_NOREPLACE != 0 && target.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let ends = Ends {
        judged,
        old: &old,
        new: &new,
    };
    let content = ends.judge(&source, target.as_ref(), exchange)?;
    // Both names of one file: nothing is done.
    let same = target.is_some_and(|target| node(&target) == node(&source));
    if let (Some(file), false) = (content, same) {
        if exchange || old.slash || new.slash {
            return Err(ends.refused(Rule::Git("a file of git's that changes places".to_owned())));
        }
        match install(judged, &old, &new, file)? {
            Installed::Done => {}
            Installed::Refused(rule) => return Err(ends.refused(rule)),
        }
        return Ok(Answer::DONE);
    }
    let (old_name, new_name) = (old.given()?, new.given()?);
    rename_as_given(
        (old.dir.as_fd(), &old_name),
        (new.dir.as_fd(), &new_name),
        flags,
    )?;
    ends.stand(&source, target.as_ref(), flags)?;
    Ok(Answer::DONE)
}

fn both(caller: &Caller<'_>, judged: &Judged<'_>, pair: Pair) -> Result<(Entry, Entry), Stop> {
    let (old_path, new_path) = (caller.path(pair.old)?, caller.path(pair.new)?);
    let old = Walk::new(caller, judged.settings).entry(pair.old_dir, &old_path)?;
    let new = Walk::new(caller, judged.settings).entry(pair.new_dir, &new_path)?;
    Ok((old, new))
}

/// Both ends of a rename.
struct Ends<'a> {
    judged: &'a Judged<'a>,
    old: &'a Entry,
    new: &'a Entry,
}

impl Ends<'_> {
    fn judge(
        &self,
        source: &FileStat,
        target: Option<&FileStat>,
        exchange: bool,
    ) -> Result<Option<kotak_guard::judge::rules::GitFile>, Stop> {
        let action = FileAction::Rename;
        let with_other = |stop| self.with_other(stop);
        self.judged
            .plain_entry(self.old, Deed::MoveAway, action)
            .map_err(with_other)?;
        if let Some(target) = target {
            let deed = if exchange {
                Deed::MoveAway
            } else if kind(target) == libc::S_IFDIR {
                Deed::RemoveDirectory
            } else {
                Deed::Unlink
            };
            self.judged
                .plain_entry(self.new, deed, action)
                .map_err(with_other)?;
        }
        let mut content = self
            .judged
            .entry(self.new, making(source), action)
            .map_err(with_other)?;
        if kind(source) == libc::S_IFDIR {
            check_moved(self.judged, self.old, self.new).map_err(with_other)?;
        }
        if let (true, Some(target)) = (exchange, target) {
            let back = self
                .judged
                .entry(self.old, making(target), action)
                .map_err(with_other)?;
            content = content.or(back);
            if kind(target) == libc::S_IFDIR {
                check_moved(self.judged, self.new, self.old).map_err(with_other)?;
            }
        }
        Ok(content)
    }

    /// Looks again at where both directories are by now; if that is somewhere else and not
    /// permitted, all but what was replaced goes back.
    fn stand(&self, source: &FileStat, target: Option<&FileStat>, flags: u32) -> Result<(), Stop> {
        let exchange = flags & libc::RENAME_EXCHANGE;
        let back = || {
            let (old, new) = (self.old.bare()?, self.new.bare()?);
            let flags = if exchange == 0 {
                libc::RENAME_NOREPLACE
            } else {
                exchange
            };
            let (from, to) = (self.new.dir.as_fd(), self.old.dir.as_fd());
            rename_as_given((from, &new), (to, &old), flags)
        };
        let judged = self.judged;
        judged
            .stands(self.new, making(source), back)
            .map_err(|stop| self.with_other(stop))?;
        match target {
            Some(target) if exchange != 0 => judged
                .stands(self.old, making(target), back)
                .map_err(|stop| self.with_other(stop)),
            _ => judged
                .stands(self.old, Deed::MoveAway, back)
                .map_err(|stop| self.with_other(stop)),
        }
    }

    fn refused(&self, rule: Rule) -> Stop {
        self.with_other(refused(FileAction::Rename, self.new.path(), rule))
    }

    /// Tells the other end too.
    fn with_other(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Refused(mut refusal) => {
                let (old, new) = (self.old.path(), self.new.path());
                refusal.other = Some(if refusal.path == old { new } else { old });
                Stop::Refused(refusal)
            }
            other => other,
        }
    }
}

/// link(2).
pub(super) fn link(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    pair: Pair,
    flags: i32,
) -> Result<Answer, Stop> {
    if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let old_path = caller.path(pair.old)?;
    let new_path = caller.path(pair.new)?;
    let source = if old_path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        Target::Thing(match pair.old_dir {
            Some(index) => caller.base(index)?,
            None => return Err(Errno::ENOENT.into()),
        })
    } else if flags & libc::AT_SYMLINK_FOLLOW != 0 {
        Walk::new(caller, judged.settings).target(pair.old_dir, &old_path)?
    } else {
        let entry = Walk::new(caller, judged.settings).entry(pair.old_dir, &old_path)?;
        let found = entry.stat()?;
        Target::Entry(entry, found)
    };
    let (pinned, source_path) = pinned_source(judged, source)?;
    let found = fstat(&pinned)?;
    let new = Walk::new(caller, judged.settings).entry(pair.new_dir, &new_path)?;
    if new.is_dots() || new.stat()?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if new.slash {
        return Err(Errno::ENOENT.into());
    }
    if kind(&found) == libc::S_IFDIR {
        return Err(Errno::EPERM.into());
    }
    let with_other = |stop, other: &[u8]| match stop {
        Stop::Refused(mut refusal) => {
            refusal.other = Some(other.to_vec());
            Stop::Refused(refusal)
        }
        other => other,
    };
    let action = FileAction::Link;
    let file_system = fstatfs(&pinned)?.filesystem_type();
    judge_source(judged, file_system, &found, &source_path)
        .map_err(|stop| with_other(stop, &new.path()))?;
    let deed = match kind(&found) {
        libc::S_IFLNK => Deed::MakeSymlink,
        _ => Deed::MakeOther,
    };
    judged
        .plain_entry(&new, deed, action)
        .map_err(|stop| with_other(stop, &source_path))?;
    linkat(
        AT_FDCWD,
        own_path(pinned.as_fd())?.as_c_str(),
        &new.dir,
        new.bare()?.as_c_str(),
        AtFlags::AT_SYMLINK_FOLLOW,
    )?;
    judged
        .stands_new(&new, deed)
        .map_err(|stop| with_other(stop, &source_path))?;
    Ok(Answer::DONE)
}

/// What gets a further name, pinned, and where it is.
fn pinned_source(judged: &Judged<'_>, source: Target) -> Result<(OwnedFd, Vec<u8>), Stop> {
    match source {
        Target::Thing(thing) => {
            super::walk::not_of_the_guard(thing.as_fd())?;
            let path = judged.settings.mounts.path_of(thing.as_fd())?;
            Ok((thing, path))
        }
        Target::Entry(_, None) => Err(Errno::ENOENT.into()),
        Target::Entry(entry, Some(found)) => {
            if entry.slash && kind(&found) != libc::S_IFDIR {
                return Err(Errno::ENOTDIR.into());
            }
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let pinned = openat(&entry.dir, entry.bare()?.as_c_str(), flags, Mode::empty())?;
            if node(&fstat(&pinned)?) != node(&found) {
                return Err(undecided("what is linked changes all the time"));
            }
            Ok((pinned, joined(&entry.dir_path, &entry.name)))
        }
    }
}

/// A further name must not take a file from under its rule.
fn judge_source(
    judged: &Judged<'_>,
    file_system: FsType,
    found: &FileStat,
    path: &[u8],
) -> Result<(), Stop> {
    judged.content_of(found, path, FileAction::Link)?;
    if found.st_nlink == 0 {
        // Made without a name.
        return Ok(());
    }
    match judged.verdict_on(file_system, path, Deed::Write, FileAction::Link)? {
        Verdict::Allow => Ok(()),
        Verdict::Refuse(rule) => Err(refused(FileAction::Link, path.to_vec(), rule)),
        Verdict::Content(_) => Err(refused(
            FileAction::Link,
            path.to_vec(),
            Rule::Git("a further name for a file of git's".to_owned()),
        )),
    }
}

/// unlink(2), rmdir(2).
pub(super) fn remove(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    dir: Option<usize>,
    path: usize,
    flags: i32,
) -> Result<Answer, Stop> {
    if flags & !libc::AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL.into());
    }
    let path = caller.path(path)?;
    let entry = Walk::new(caller, judged.settings).entry(dir, &path)?;
    let (deed, how) = if flags & libc::AT_REMOVEDIR != 0 {
        (Deed::RemoveDirectory, UnlinkatFlags::RemoveDir)
    } else {
        (Deed::Unlink, UnlinkatFlags::NoRemoveDir)
    };
    if !entry.is_dots() && entry.stat()?.is_some() {
        judged.plain_entry(&entry, deed, FileAction::Unlink)?;
    }
    unlinkat(&entry.dir, entry.given()?.as_c_str(), how)?;
    Ok(Answer::DONE)
}

//! open(2) and its kin, where something may be written or made; truncate(2).

use super::{
    answer::{Answer, Stop, refused, undecided},
    caller::{Caller, own_path},
    judged::Judged,
    staging::Staging,
    sys::{open_as_given, truncate_as_given},
    terminal,
    waiting::Waiting,
    walk::{Entry, Target, Walk, kind, not_of_the_guard},
};
use kotak_guard::{
    judge::rules::{Deed, GitFile, Verdict},
    proto::{FileAction, FileNode, Rule},
};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl, openat},
    sys::stat::{FileStat, Mode, fstat, umask},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How often what stands under a name may turn out to be something else.
const MOST_CHANGES: u32 = 100;

/// The bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Flags that matter only on the way to a file, not for an open one.
const ON_THE_WAY: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_DIRECTORY;

/// What open(2) was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Index of the directory descriptor among the arguments.
    pub(super) dir: Option<usize>,
    /// Index of the path.
    pub(super) path: usize,
    pub(super) flags: i32,
    pub(super) mode: u32,
}

impl Wish {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY || self.has(libc::O_TRUNC)
    }

    fn cloexec(&self) -> bool {
        self.has(libc::O_CLOEXEC)
    }

    fn descriptor(&self, opened: OwnedFd) -> Answer {
        Answer::Descriptor {
            opened,
            number: None,
            cloexec: self.cloexec(),
        }
    }
}

/// open(2).
pub(super) fn open(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    staging: &mut Staging,
    waiting: &mut Waiting,
    wish: Wish,
) -> Result<Answer, Stop> {
    let path = caller.path(wish.path)?;
    if wish.has(TMPFILE) {
        return unnamed(caller, judged, &path, wish);
    }
    for _ in 0..MOST_CHANGES {
        let walk = Walk::new(caller, judged.settings);
        let exclusive = wish.has(libc::O_CREAT) && wish.has(libc::O_EXCL);
        let target = if exclusive || wish.has(libc::O_NOFOLLOW) {
            let entry = walk.entry(wish.dir, &path)?;
            let found = if entry.is_dots() { None } else { entry.stat()? };
            Target::Entry(entry, found)
        } else {
            walk.target(wish.dir, &path)?
        };
        let opened = match &target {
            Target::Thing(thing) => open_thing(caller, judged, waiting, thing, wish),
            Target::Entry(entry, _) if entry.is_dots() || entry.slash => {
                return open_directory(entry, wish);
            }
            Target::Entry(entry, None) => open_new(caller, judged, staging, entry, wish),
            Target::Entry(entry, Some(found)) => {
                open_present(caller, judged, staging, waiting, entry, found, wish)
            }
        };
        match opened {
            // Something else has come to stand there, or what stood there is gone.
            Err(Stop::Errno(Errno::ELOOP)) if !wish.has(libc::O_NOFOLLOW) => {}
            Err(Stop::Errno(Errno::EEXIST)) if !exclusive => {}
            Err(Stop::Errno(Errno::ENOENT)) if wish.has(libc::O_CREAT) && !exclusive => {
                // Unless its directory is gone for good.
                match &target {
                    Target::Entry(entry, None) if fstat(&entry.dir)?.st_nlink == 0 => {
                        return Err(Errno::ENOENT.into());
                    }
                    _ => {}
                }
            }
            other => return other,
        }
    }
    Err(undecided("what stands there changes all the time"))
}

/// A directory cannot be opened for writing, and has to be one.
fn open_directory(entry: &Entry, wish: Wish) -> Result<Answer, Stop> {
    if wish.has(libc::O_CREAT) {
        return Err(Errno::EISDIR.into());
    }
    let flags = (wish.flags & !ON_THE_WAY) | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let dir = openat(
        &entry.dir,
        entry.given()?.as_c_str(),
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let opened = open_as_given(dir.as_fd(), c".", flags, 0)?;
    Ok(wish.descriptor(opened))
}

/// A file without a name, in a directory.
fn unnamed(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    path: &[u8],
    wish: Wish,
) -> Result<Answer, Stop> {
    let dir = match Walk::new(caller, judged.settings).target(wish.dir, path)? {
        Target::Thing(thing) => thing,
        Target::Entry(entry, _) => {
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            openat(&entry.dir, entry.bare()?.as_c_str(), flags, Mode::empty())?
        }
    };
    // What is made gets its name, if any, where that is judged; but not in another sandbox.
    judged.settings.mounts.path_of(dir.as_fd())?;
    set_umask(caller)?;
    let flags = (wish.flags & !libc::O_NOFOLLOW) | libc::O_CLOEXEC;
    let opened = open_as_given(dir.as_fd(), c".", flags, wish.mode)?;
    Ok(wish.descriptor(opened))
}

/// What stands nowhere yet.
fn open_new(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    staging: &mut Staging,
    entry: &Entry,
    wish: Wish,
) -> Result<Answer, Stop> {
    if !wish.has(libc::O_CREAT) {
        return Err(Errno::ENOENT.into());
    }
    if let Some(file) = judged.entry(entry, Deed::MakeFile, FileAction::Create)? {
        return stage(caller, staging, entry, None, file, wish);
    }
    set_umask(caller)?;
    // A new regular file keeps nobody waiting.
    let flags = wish.flags | libc::O_NOFOLLOW | libc::O_EXCL | libc::O_CLOEXEC;
    let opened = open_as_given(entry.dir.as_fd(), &entry.bare()?, flags, wish.mode)?;
    judged.made(entry, opened.as_fd())?;
    Ok(wish.descriptor(opened))
}

/// What stands there, and is no symlink.
fn open_present(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    staging: &mut Staging,
    waiting: &mut Waiting,
    entry: &Entry,
    found: &FileStat,
    wish: Wish,
) -> Result<Answer, Stop> {
    if wish.has(libc::O_CREAT) && wish.has(libc::O_EXCL) {
        return Err(Errno::EEXIST.into());
    }
    if wish.has(libc::O_CREAT) && kind(found) == libc::S_IFDIR {
        return Err(Errno::EISDIR.into());
    }
    if wish.writes() && kind(found) != libc::S_IFDIR {
        judged.content_of(found, &entry.path(), FileAction::WriteData)?;
        if let Some(file) = judged.entry(entry, Deed::Write, FileAction::WriteData)? {
            return stage(caller, staging, entry, Some(found), file, wish);
        }
    }
    judged.may_open_in_proc(caller, entry)?;
    if is_own_terminal(found) {
        let opened = terminal::open(caller, wish.flags)?;
        return Ok(wish.descriptor(opened));
    }
    let mut flags = wish.flags | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    if wish.has(libc::O_CREAT) {
        if may_make_instead(judged, entry)? {
            set_umask(caller)?;
        } else {
            flags &= !libc::O_CREAT;
        }
    }
    let may_wait = !wish.has(libc::O_NONBLOCK);
    if may_wait && is_waited_for(found, wish) {
        let pinned = pin(entry)?;
        same(&fstat(&pinned)?, found)?;
        return wait_for(caller, waiting, pinned, wish);
    }
    let name = entry.bare()?;
    let opened = match open_as_given(entry.dir.as_fd(), &name, flags, wish.mode) {
        // A lease of another's is being broken.
        Err(Errno::EAGAIN) if may_wait => {
            let pinned = pin(entry)?;
            same(&fstat(&pinned)?, found)?;
            return wait_for(caller, waiting, pinned, wish);
        }
        other => other?,
    };
    // Between the look and the open nobody inside can have changed it; on the host somebody can.
    if wish.writes() && kind(found) == libc::S_IFREG {
        let now = fstat(&opened)?;
        if node(&now) != node(found) {
            judged.content_of(&now, &entry.path(), FileAction::WriteData)?;
        }
    }
    if !wish.has(libc::O_NONBLOCK) {
        clear_nonblock(opened.as_fd())?;
    }
    Ok(wish.descriptor(opened))
}

/// What a magic link leads to.
fn open_thing(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    waiting: &mut Waiting,
    thing: &OwnedFd,
    wish: Wish,
) -> Result<Answer, Stop> {
    not_of_the_guard(thing.as_fd())?;
    let found = fstat(thing)?;
    if wish.has(libc::O_CREAT) && kind(&found) == libc::S_IFDIR {
        return Err(Errno::EISDIR.into());
    }
    if wish.writes() && kind(&found) != libc::S_IFDIR {
        judged.thing(thing.as_fd(), &found)?;
    }
    judged.may_open_thing_in_proc(caller, thing.as_fd())?;
    if is_own_terminal(&found) {
        let opened = terminal::open(caller, wish.flags)?;
        return Ok(wish.descriptor(opened));
    }
    let may_wait = !wish.has(libc::O_NONBLOCK);
    if may_wait && is_waited_for(&found, wish) {
        let copy = thing.try_clone();
        let copy = copy.map_err(|_| undecided("the guard has no descriptor left"))?;
        return wait_for(caller, waiting, copy, wish);
    }
    let flags = (wish.flags & !ON_THE_WAY) | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let flags = flags | (wish.flags & libc::O_DIRECTORY);
    let path = own_path(thing.as_fd())?;
    let opened = match open_as_given(thing.as_fd(), &path, flags, 0) {
        Err(Errno::EAGAIN) if may_wait => {
            let copy = thing.try_clone();
            let copy = copy.map_err(|_| undecided("the guard has no descriptor left"))?;
            return wait_for(caller, waiting, copy, wish);
        }
        other => other?,
    };
    if !wish.has(libc::O_NONBLOCK) {
        clear_nonblock(opened.as_fd())?;
    }
    Ok(wish.descriptor(opened))
}

/// The content of what is opened is judged when it is closed.
fn stage(
    caller: &Caller<'_>,
    staging: &mut Staging,
    entry: &Entry,
    found: Option<&FileStat>,
    file: GitFile,
    wish: Wish,
) -> Result<Answer, Stop> {
    if found.is_some_and(|found| kind(found) != libc::S_IFREG) {
        return Err(refused(
            FileAction::WriteData,
            entry.path(),
            Rule::Git("a file of git's that is no regular file".to_owned()),
        ));
    }
    set_umask(caller)?;
    let keep = found.is_some() && !wish.has(libc::O_TRUNC);
    let as_asked = (wish.flags, wish.mode);
    let (opened, number) = staging.open(caller, entry, file, keep, as_asked)?;
    Ok(Answer::Descriptor {
        opened,
        number: Some(number),
        cloexec: wish.cloexec(),
    })
}

/// Whether `O_CREAT` may stay for what is there already: the kernel then looks at who owns it
/// (`fs.protected_regular`, in sticky directories), but makes it anew when it has just gone.
fn may_make_instead(judged: &Judged<'_>, entry: &Entry) -> Result<bool, Errno> {
    let is_sticky = fstat(&entry.dir)?.st_mode & libc::S_ISVTX != 0;
    Ok(is_sticky && judged.verdict(&entry.path(), Deed::MakeFile) == Verdict::Allow)
}

/// Whether open(2) waits for somebody at the other end.
fn is_waited_for(found: &FileStat, wish: Wish) -> bool {
    kind(found) == libc::S_IFIFO && wish.flags & libc::O_ACCMODE != libc::O_RDWR
}

fn pin(entry: &Entry) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(&entry.dir, entry.bare()?.as_c_str(), flags, Mode::empty())
}

/// What was judged must be what is pinned; else all is looked at again.
fn same(now: &FileStat, found: &FileStat) -> Result<(), Errno> {
    if node(now) == node(found) {
        Ok(())
    } else {
        Err(Errno::EEXIST)
    }
}

pub(super) fn node(found: &FileStat) -> FileNode {
    FileNode {
        dev: found.st_dev,
        ino: found.st_ino,
    }
}

fn wait_for(
    caller: &Caller<'_>,
    waiting: &mut Waiting,
    pinned: OwnedFd,
    wish: Wish,
) -> Result<Answer, Stop> {
    let flags = wish.flags & !ON_THE_WAY & !TMPFILE;
    waiting.open(caller, pinned, flags, wish.cloexec())?;
    Ok(Answer::Later)
}

/// Of what F_SETFL sets, only what was asked for stays. `O_ASYNC` means nothing to open(2).
/// Makes what was opened without waiting wait like any other.
pub(super) fn clear_nonblock(opened: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(opened, FcntlArg::F_GETFL)?);
    fcntl(opened, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK)).map(drop)
}

/// `/dev/tty`, which is another's for everybody.
fn is_own_terminal(found: &FileStat) -> bool {
    kind(found) == libc::S_IFCHR && found.st_rdev == libc::makedev(5, 0)
}

/// What the guard makes next gets the modes that the caller would give it.
pub(super) fn set_umask(caller: &Caller<'_>) -> Result<(), Stop> {
    umask(Mode::from_bits_truncate(caller.umask()?));
    Ok(())
}

/// truncate(2).
pub(super) fn truncate(caller: &Caller<'_>, judged: &Judged<'_>) -> Result<Answer, Stop> {
    let path = caller.path(0)?;
    let length = i64::from_le_bytes(caller.arg(1).to_le_bytes());
    let pinned = match Walk::new(caller, judged.settings).target(None, &path)? {
        Target::Thing(thing) => {
            judged.thing(thing.as_fd(), &fstat(&thing)?)?;
            thing
        }
        Target::Entry(_, None) => return Err(Errno::ENOENT.into()),
        Target::Entry(entry, Some(found)) => {
            if kind(&found) == libc::S_IFDIR {
                return Err(Errno::EISDIR.into());
            }
            if entry.slash {
                return Err(Errno::ENOTDIR.into());
            }
            let (path, action) = (entry.path(), FileAction::WriteData);
            judged.content_of(&found, &path, action)?;
            match judged.verdict_on(entry.file_system, &path, Deed::Write, action)? {
                Verdict::Allow => {}
                Verdict::Content(_) => {
                    let reason = "a file of git's that is cut off in place";
                    let rule = Rule::Git(reason.to_owned());
                    return Err(refused(action, path, rule));
                }
                Verdict::Refuse(rule) => return Err(refused(action, path, rule)),
            }
            let pinned = pin(&entry)?;
            same(&fstat(&pinned)?, &found).map_err(|_| undecided("it changes all the time"))?;
            pinned
        }
    };
    truncate_as_given(&own_path(pinned.as_fd())?, length)?;
    Ok(Answer::DONE)
}

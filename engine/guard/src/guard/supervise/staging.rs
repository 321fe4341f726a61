//! Files of git's that a program opens for writing. It gets a descriptor for a copy in memory, at
//! a number whose close(2) waits for the guard; then the copy is judged, and put in place if it is
//! harmless. What is not closed so, or is written later, never gets there; the first is told.

use super::{
    Evidence,
    answer::{Answer, Refusal, Stop, refused, undecided},
    call::name,
    caller::{Caller, Description, own_path},
    install::{judge, put, read_all, read_regular},
    journal::Journal,
    judged::Judged,
    open::node,
    sys::open_as_given,
    violation_by,
    walk::Entry,
};
use kotak_guard::{
    judge::rules::{Deed, GitFile},
    proto::{FileAction, FileNode, Rule, STAGED_DESCRIPTORS},
};
use nix::{
    errno::Errno,
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::{fstat, stat},
    },
};
use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    mem,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

/// Most files that are being written at once.
const MOST_STAGED: usize = 256;

/// The copies that are being written.
#[derive(Debug)]
pub(super) struct Staging {
    staged: Vec<Staged>,
    journal: Arc<Journal>,
}

#[derive(Debug)]
struct Staged {
    /// Thread group and descriptor of who writes.
    group: i32,
    number: u32,
    copy: OwnedFd,
    entry: Entry,
    file: GitFile,
    mode: u32,
    /// Who opened it, and by which call.
    who: Description,
    call: &'static str,
}

impl Staging {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        Self {
            staged: Vec::new(),
            journal,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Lets go of what is closed without a close(2) of its own (by exit, execve, dup2,
    /// close_range): it is not put in place, and told of where that makes a difference.
    pub(super) fn look(&mut self) {
        let (open, lost) = mem::take(&mut self.staged)
            .into_iter()
            .partition(Staged::is_open);
        self.staged = open;
        lost.into_iter().for_each(|staged| self.tell_lost(staged));
    }

    fn tell_lost(&self, staged: Staged) {
        let present = read_regular(staged.entry.dir.as_fd(), &staged.entry.name);
        let written = staged.content();
        // What cannot be told is told.
        if let (Ok(Some(present)), Ok(written)) = (&present, &written)
            && present.bytes == *written
        {
            return;
        }
        let reason = "a file of git's that was not put in place: it was not closed by close(2) in \
                      the program that opened it";
        let refusal = Refusal {
            action: FileAction::WriteData,
            path: staged.entry.path(),
            other: None,
            rule: Rule::Git(reason.to_owned()),
        };
        let (who, call) = (staged.who, staged.call);
        self.journal
            .record(violation_by(who, call, refusal, Evidence::Observed));
    }

    /// A descriptor for a copy, and the number that it is to have.
    pub(super) fn open(
        &mut self,
        caller: &Caller<'_>,
        entry: &Entry,
        file: GitFile,
        keep: bool,
        (flags, mode): (i32, u32),
    ) -> Result<(OwnedFd, u32), Stop> {
        self.look();
        if self.staged.len() >= MOST_STAGED {
            return Err(undecided(
                "too many files of git's are being written at once",
            ));
        }
        let present = read_regular(entry.dir.as_fd(), &entry.name)?;
        let mut memory = File::from(memory()?);
        if let (true, Some(present)) = (keep, &present) {
            let copied = memory
                .write_all(&present.bytes)
                .and_then(|()| memory.seek(SeekFrom::Start(0)));
            copied.map_err(|error| undecided(&error.to_string()))?;
        }
        let copy = OwnedFd::from(memory);
        let on_the_way = libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_TRUNC;
        let path = own_path(copy.as_fd())?;
        let flags = (flags & !on_the_way) | libc::O_CLOEXEC;
        let opened = open_as_given(copy.as_fd(), &path, flags, 0)?;
        let number = free_number(caller)?;
        let dir = entry.dir.try_clone();
        let entry = Entry {
            dir: dir.map_err(|_| undecided("the guard has no descriptor left"))?,
            dir_path: entry.dir_path.clone(),
            name: entry.name.clone(),
            slash: false,
            file_system: entry.file_system,
        };
        let group = caller.group()?;
        let staged = Staged {
            group,
            number,
            copy,
            entry,
            file,
            mode: present.map_or(mode & !caller.umask()? & 0o777, |present| present.mode),
            who: caller.describe(),
            call: name(caller.call.number),
        };
        self.staged.push(staged);
        Ok((opened, number))
    }

    /// close(2) of a number that may be one of ours.
    pub(super) fn close(
        &mut self,
        caller: &Caller<'_>,
        judged: &Judged<'_>,
    ) -> Result<Answer, Stop> {
        let number = caller.word(0);
        let group = caller.group()?;
        let found = self
            .staged
            .iter()
            .position(|it| (it.group, it.number) == (group, number));
        let Some(staged) = found.map(|index| self.staged.swap_remove(index)) else {
            return Ok(Answer::Continue);
        };
        if !staged.is_open() {
            self.tell_lost(staged);
            return Ok(Answer::Continue);
        }
        let others = staged.is_open_elsewhere();
        caller.still_waits()?;
        if others {
            // A shell's redirection: what is written comes after this, and through a number whose
            // close cannot be seen.
            let reason = "a file of git's that is written through a copy of its descriptor";
            let rule = Rule::Git(reason.to_owned());
            let action = FileAction::WriteData;
            return Err(refused(action, staged.entry.path(), rule));
        }
        staged.settle(judged)?;
        Ok(Answer::Continue)
    }
}

impl Staged {
    /// Whether the writer has it open still.
    fn is_open(&self) -> bool {
        let Ok(copy) = fstat(&self.copy) else {
            return false;
        };
        held_at(self.group, self.number) == Some(node(&copy))
    }

    /// Whether the writer has it open at another number too; if that cannot be told, it may be.
    fn is_open_elsewhere(&self) -> bool {
        let Ok(copy) = fstat(&self.copy) else {
            return true;
        };
        let Ok(list) = fs::read_dir(format!("/proc/{}/fd", self.group)) else {
            return true;
        };
        list.flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .any(|number: u32| {
                number != self.number && held_at(self.group, number) == Some(node(&copy))
            })
    }

    /// What was written so far.
    fn content(&self) -> Result<Vec<u8>, Stop> {
        let copy = self.copy.try_clone();
        let copy = copy.map_err(|_| undecided("the guard has no descriptor left"))?;
        let mut copy = File::from(copy);
        copy.seek(SeekFrom::Start(0))
            .map_err(|error| undecided(&error.to_string()))?;
        read_all(copy)
    }

    fn settle(self, judged: &Judged<'_>) -> Result<(), Stop> {
        let bytes = self.content()?;
        let path = self.entry.path();
        // The directory may have been moved since, and the name be another's by now.
        let now = Entry {
            dir_path: judged.settings.mounts.path_of(self.entry.dir.as_fd())?,
            ..self.entry
        };
        let deed = Deed::MakeFile;
        if judged.entry(&now, deed, FileAction::WriteData)? != Some(self.file) {
            return Err(undecided("its directory was moved while it was written"));
        }
        match judge(judged, &now, self.file, &bytes)? {
            Ok(()) => put(now.dir.as_fd(), &now.name, &bytes, self.mode),
            Err(reason) => Err(refused(FileAction::WriteData, path, Rule::Git(reason))),
        }
    }
}

/// A file in memory that can never be executed, so that no restriction of programs is got round by
/// it. Without that (before Linux 6.3) no such file is given out.
fn memory() -> Result<OwnedFd, Stop> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    memfd_create(c"git", flags).map_err(|errno| match errno {
        Errno::EINVAL => undecided(
            "the kernel has no memory that cannot be executed, in which a file of git's could be \
             written (Linux 6.3)",
        ),
        other => other.into(),
    })
}

/// What a process has at a number.
fn held_at(group: i32, number: u32) -> Option<FileNode> {
    let path = format!("/proc/{group}/fd/{number}");
    stat(path.as_str()).ok().map(|found| node(&found))
}

/// A number that the caller does not use. Beyond its limit for descriptors none can be given.
fn free_number(caller: &Caller<'_>) -> Result<u32, Stop> {
    let tid = caller.call.tid;
    STAGED_DESCRIPTORS
        .into_iter()
        .find(|number| held_at(tid, *number).is_none())
        .ok_or(Stop::Errno(Errno::EMFILE))
}

//! The rules, asked about what the walk has found.

use super::{
    answer::{Stop, refused, undecided},
    bare,
    caller::Caller,
    open::node,
    walk::{Entry, Settings, joined, kind},
};
use kotak_guard::{
    judge::rules::{Deed, GitFile, Rules, Verdict},
    proto::{FileAction, Rule},
};
use nix::{
    errno::Errno,
    sys::{
        stat::FileStat,
        statfs::{FsType, MSDOS_SUPER_MAGIC, PROC_SUPER_MAGIC, fstatfs},
    },
    unistd::{UnlinkatFlags, unlinkat},
};
use std::os::fd::{AsFd, BorrowedFd};

/// File systems that drop what stands at the end of a name and know a second, short one
/// (linux/magic.h; NTFS-3G is FUSE and does not).
const DOS: [FsType; 4] = [
    MSDOS_SUPER_MAGIC,
    FsType(0x2011_BAB0),
    FsType(0x5346_544E),
    FsType(0x7366_746E),
];

/// What a path ends with when the file it led to has no name any more (proc(5)).
const DELETED: &[u8] = b" (deleted)";

/// The rules that hold for a caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) rules: &'a Rules,
    pub(super) settings: &'a Settings,
}

impl Judged<'_> {
    /// Where a pinned thing is; refuses what lies in another sandbox.
    fn path_of(&self, pinned: BorrowedFd<'_>) -> Result<Vec<u8>, Stop> {
        self.settings.mounts.path_of(pinned)
    }

    pub(super) fn verdict(&self, path: &[u8], deed: Deed) -> Verdict {
        match self.rules.verdict(path, deed) {
            Verdict::Allow => match bare::as_git(self.rules, path) {
                Some(path) => self.rules.verdict(&path, deed),
                None => Verdict::Allow,
            },
            other => other,
        }
    }

    /// Refuses, lets be, or tells what the content decides.
    pub(super) fn entry(
        &self,
        entry: &Entry,
        deed: Deed,
        action: FileAction,
    ) -> Result<Option<GitFile>, Stop> {
        let path = entry.path();
        match self.verdict_on(entry.file_system, &path, deed, action)? {
            Verdict::Allow => {
                if deed.makes() {
                    return bare::check_completed(self, entry, deed, action);
                }
                Ok(None)
            }
            Verdict::Content(file) => Ok(Some(file)),
            Verdict::Refuse(rule) => Err(refused(action, path, rule)),
        }
    }

    /// As [`Self::entry`], where no content can be judged.
    pub(super) fn plain_entry(
        &self,
        entry: &Entry,
        deed: Deed,
        action: FileAction,
    ) -> Result<(), Stop> {
        match self.entry(entry, deed, action)? {
            None => Ok(()),
            Some(_) => Err(refused(
                action,
                entry.path(),
                Rule::Git(
                    "a file of git's that is made or changed in another way than git does"
                        .to_owned(),
                ),
            )),
        }
    }

    /// As [`Self::verdict`], on a file system that may take a name for another.
    pub(super) fn verdict_on(
        &self,
        file_system: FsType,
        path: &[u8],
        deed: Deed,
        action: FileAction,
    ) -> Result<Verdict, Stop> {
        let verdict = self.verdict(path, deed);
        if DOS.contains(&file_system) && !matches!(verdict, Verdict::Refuse(_)) {
            self.dos_name(path, deed, action)?;
        }
        Ok(verdict)
    }

    /// Dots and spaces at the end of a name are dropped, and `A~1` may be anything.
    fn dos_name(&self, path: &[u8], deed: Deed, action: FileAction) -> Result<(), Stop> {
        let end = path.iter().rposition(|byte| !matches!(byte, b'.' | b' '));
        let short = path.get(..=end.unwrap_or_default()).unwrap_or_default();
        match self.verdict(short, deed) {
            Verdict::Refuse(rule) => return Err(refused(action, path.to_vec(), rule)),
            Verdict::Allow | Verdict::Content(_) => {}
        }
        let start = path.iter().rposition(|byte| *byte == b'/');
        let name = path.get(start.map_or(0, |slash| slash + 1)..);
        let is_alias = name
            .unwrap_or_default()
            .windows(2)
            .any(|pair| pair[0] == b'~' && pair[1].is_ascii_digit());
        if is_alias && self.rules.is_judged(path) {
            let reason = "on this file system the name may be a short one of another file";
            let rule = Rule::Undecided(reason.to_owned());
            return Err(refused(action, path.to_vec(), rule));
        }
        Ok(())
    }

    /// Refuses what has a protected name elsewhere.
    pub(super) fn content_of(
        &self,
        found: &FileStat,
        path: &[u8],
        action: FileAction,
    ) -> Result<(), Stop> {
        if self.rules.is_protected_inode(node(found)) {
            return Err(refused(action, path.to_vec(), Rule::HardLink));
        }
        Ok(())
    }

    /// Refuses what may not be written, found by itself and not by a name.
    pub(super) fn thing(&self, thing: BorrowedFd<'_>, found: &FileStat) -> Result<(), Stop> {
        self.thing_for(thing, found, Deed::Write)
    }

    /// Refuses a mode for what is found by itself; an ancestor of what is protected may keep or
    /// get one by which its owner still finds the way.
    pub(super) fn mode_of_thing(
        &self,
        thing: BorrowedFd<'_>,
        found: &FileStat,
        mode: u32,
    ) -> Result<(), Stop> {
        passable(self.thing_for(thing, found, Deed::Permit), mode)
    }

    /// As [`Self::mode_of_thing`], for what has a name.
    pub(super) fn mode_of(&self, entry: &Entry, found: &FileStat, mode: u32) -> Result<(), Stop> {
        let action = FileAction::WriteData;
        self.content_of(found, &entry.path(), action)?;
        passable(self.plain_entry(entry, Deed::Permit, action), mode)
    }

    fn thing_for(&self, thing: BorrowedFd<'_>, found: &FileStat, deed: Deed) -> Result<(), Stop> {
        let action = FileAction::WriteData;
        let path = self.path_of(thing)?;
        self.content_of(found, &path, action)?;
        if !path.starts_with(b"/") || (found.st_nlink == 0 && path.ends_with(DELETED)) {
            // A pipe, a socket, or a file that nobody can find by name.
            return Ok(());
        }
        // A name that it has lost and another has: the rule for the name holds for it still.
        let path = path.strip_suffix(DELETED).unwrap_or(&path);
        let file_system = fstatfs(thing)?.filesystem_type();
        match self.verdict_on(file_system, path, deed, action)? {
            Verdict::Allow => Ok(()),
            Verdict::Refuse(rule) => Err(refused(action, path.to_vec(), rule)),
            Verdict::Content(_) => Err(refused(
                action,
                path.to_vec(),
                Rule::Git("a file of git's that is written in place".to_owned()),
            )),
        }
    }

    /// What was made must be where it was judged to be; else somebody on the host has moved the
    /// directory meanwhile, and the rules are asked again.
    pub(super) fn made(&self, entry: &Entry, opened: BorrowedFd<'_>) -> Result<(), Stop> {
        let path = self.path_of(opened)?;
        if path == entry.path() {
            return Ok(());
        }
        match self.verdict(&path, Deed::MakeFile) {
            Verdict::Allow => Ok(()),
            Verdict::Content(_) | Verdict::Refuse(_) => {
                // It is new, empty, and ours.
                unlinkat(
                    &entry.dir,
                    entry.name.as_slice(),
                    UnlinkatFlags::NoRemoveDir,
                )?;
                Err(undecided("its directory was moved meanwhile"))
            }
        }
    }

    /// As [`Self::made`], for what has no descriptor: it is undone if its directory is by now where
    /// `deed` could not be done.
    pub(super) fn stands(
        &self,
        entry: &Entry,
        deed: Deed,
        undo: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Stop> {
        let now = self.path_of(entry.dir.as_fd());
        if now.as_ref().is_ok_and(|dir| *dir == entry.dir_path) {
            return Ok(());
        }
        let is_permitted = now.is_ok_and(|dir| {
            let path = joined(&dir, &entry.name);
            // What lies in a directory cannot be judged once it stands there.
            let takes_along =
                deed == Deed::MakeDirectory && self.rules.depends_on_place(&entry.path(), &path);
            !takes_along && self.verdict(&path, deed) == Verdict::Allow
        });
        if is_permitted {
            return Ok(());
        }
        undo()?;
        Err(undecided("its directory was moved meanwhile"))
    }

    /// As [`Self::stands`], for what can simply be taken away.
    pub(super) fn stands_new(&self, entry: &Entry, deed: Deed) -> Result<(), Stop> {
        let how = if deed == Deed::MakeDirectory {
            UnlinkatFlags::RemoveDir
        } else {
            UnlinkatFlags::NoRemoveDir
        };
        self.stands(entry, deed, || {
            unlinkat(&entry.dir, entry.name.as_slice(), how)
        })
    }

    /// Another process's memory is opened only by its own group: the kernel would ask whether the
    /// guard may look into it, which may look into everybody.
    pub(super) fn may_open_in_proc(&self, caller: &Caller<'_>, entry: &Entry) -> Result<(), Stop> {
        if entry.file_system != PROC_SUPER_MAGIC {
            return Ok(());
        }
        only_own_memory(caller, &entry.path())
    }

    /// As [`Self::may_open_in_proc`], for what a magic link leads to.
    pub(super) fn may_open_thing_in_proc(
        &self,
        caller: &Caller<'_>,
        thing: BorrowedFd<'_>,
    ) -> Result<(), Stop> {
        if fstatfs(thing)?.filesystem_type() != PROC_SUPER_MAGIC {
            return Ok(());
        }
        only_own_memory(caller, &self.path_of(thing)?)
    }
}

/// Lets a mode be that takes nothing from the owner of an ancestor.
fn passable(verdict: Result<(), Stop>, mode: u32) -> Result<(), Stop> {
    match verdict {
        Err(Stop::Refused(refusal))
            if matches!(refusal.rule, Rule::Ancestor(_)) && mode & 0o700 == 0o700 =>
        {
            Ok(())
        }
        other => other,
    }
}

fn only_own_memory(caller: &Caller<'_>, path: &[u8]) -> Result<(), Stop> {
    if !path.ends_with(b"/mem") {
        return Ok(());
    }
    let own = format!("/proc/{}/", caller.group()?);
    if path.starts_with(own.as_bytes()) {
        Ok(())
    } else {
        Err(Errno::EACCES.into())
    }
}

/// What comes to stand somewhere when `found` does.
pub(super) fn making(found: &FileStat) -> Deed {
    match kind(found) {
        libc::S_IFDIR => Deed::MakeDirectory,
        libc::S_IFREG => Deed::MakeFile,
        libc::S_IFLNK => Deed::MakeSymlink,
        _ => Deed::MakeOther,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::supervise::caller::{PIN, text_of};
    use kotak_guard::proto::FileRules;
    use nix::{
        fcntl::open,
        sys::stat::{Mode, fstat, lstat, mkdirat},
    };
    use std::{
        fs,
        os::{
            fd::OwnedFd,
            unix::{ffi::OsStrExt, fs::symlink},
        },
        path::Path,
    };

    const TMPFS: FsType = nix::sys::statfs::TMPFS_MAGIC;

    /// Asks with the rules for git and `*.key` below a directory.
    fn judged(root: &Path, test: impl FnOnce(Judged<'_>)) {
        let rules = Rules::new(&FileRules {
            roots: vec![root.as_os_str().as_bytes().to_vec()],
            names: vec!["*.key".to_owned()],
            git: true,
            ..FileRules::default()
        });
        test(Judged {
            rules: &rules.unwrap(),
            settings: &Settings::read().unwrap(),
        });
    }

    fn entry(dir: &Path, name: &str) -> Entry {
        let pinned: OwnedFd = open(dir, PIN, Mode::empty()).unwrap();
        Entry {
            dir_path: text_of(pinned.as_fd()).unwrap(),
            dir: pinned,
            name: name.as_bytes().to_vec(),
            slash: false,
            file_system: TMPFS,
        }
    }

    #[test]
    fn a_name_is_judged_as_its_file_system_takes_it() {
        judged(Path::new("/ws"), |judged| {
            let refused = |file_system, path: &str| {
                let action = FileAction::WriteData;
                let verdict = judged.verdict_on(file_system, path.as_bytes(), Deed::Write, action);
                !matches!(verdict, Ok(Verdict::Allow))
            };
            for path in ["/ws/a.key.", "/ws/a.key. .", "/ws/A~1", "/ws/A~1.KEZ"] {
                assert!(refused(MSDOS_SUPER_MAGIC, path), "{path}");
                assert!(!refused(TMPFS, path), "{path}");
            }
            for path in ["/ws/a.keys.", "/ws/a~b", "/ws/~/1", "/ws/A~1/x", "/out/A~1"] {
                assert!(!refused(MSDOS_SUPER_MAGIC, path), "{path}");
            }
        });
    }

    #[test]
    fn what_was_made_in_a_directory_that_was_moved_is_judged_where_it_is() {
        let root = std::env::temp_dir().join(format!("kotak-stands-{}", std::process::id()));
        fs::create_dir_all(root.join("x")).unwrap();
        let root = fs::canonicalize(root).unwrap();
        judged(&root, |judged| {
            let (hooks, other, config) = (
                entry(&root.join("x"), "hooks"),
                entry(&root.join("x"), "other"),
                entry(&root.join("x"), "config"),
            );
            symlink("a", root.join("x/hooks")).unwrap();
            judged.stands_new(&hooks, Deed::MakeSymlink).unwrap();
            fs::rename(root.join("x"), root.join(".git")).unwrap();
            mkdirat(&other.dir, "other", Mode::S_IRWXU).unwrap();
            mkdirat(&other.dir, "config", Mode::S_IRWXU).unwrap();
            fs::write(root.join(".git/info"), "").unwrap();
            let info = Entry {
                name: b"info".to_vec(),
                ..entry(&root.join(".git"), "")
            };
            // Where it lies all may be permitted, or not, and then it is gone.
            judged.stands_new(&info, Deed::MakeFile).unwrap();
            for (entry, deed) in [
                (&hooks, Deed::MakeSymlink),
                (&config, Deed::MakeDirectory),
                (&other, Deed::MakeDirectory),
            ] {
                let stop = judged.stands_new(entry, deed).unwrap_err();
                assert!(matches!(stop, Stop::Refused(_)), "{stop:?}");
                let path = root
                    .join(".git")
                    .join(std::str::from_utf8(&entry.name).unwrap());
                assert_eq!(lstat(&path).err(), Some(Errno::ENOENT));
            }
            assert!(fstat(&info.dir).is_ok() && root.join(".git/info").exists());
        });
        fs::remove_dir_all(root).unwrap();
    }
}

//! What a directory that is moved takes along: names below it that would then be forbidden, or
//! would no longer be, and files of git's that would then count.

use super::{
    answer::{Stop, refused, undecided},
    bare,
    install::{read_regular, refresh},
    judged::{Judged, making},
    walk::{Entry, joined, kind, stat_at},
};
use kotak_guard::{
    judge::{
        git,
        rules::{Deed, GitFile, Verdict, components},
    },
    proto::{FileAction, Rule},
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most names that are looked at for one rename; a directory of more is not moved where its
/// content would have to be judged anew.
const MOST_NAMES: u32 = 1_000_000;

/// Deepest directory that is looked into.
const MOST_DEPTH: u32 = 256;

/// Judges a directory that moves from `old` to `new`.
pub(super) fn check_moved(judged: &Judged<'_>, old: &Entry, new: &Entry) -> Result<(), Stop> {
    let (old_path, new_path) = (old.path(), new.path());
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let top = openat(&old.dir, old.bare()?.as_c_str(), flags, Mode::empty())?;
    let depth = components(&new_path).count();
    for protected in judged.rules.protected_below(&new_path) {
        // The directory may be written otherwise, see `Rules::protected_below`.
        if is_occupied(top.as_fd(), components(protected).skip(depth))? {
            let rule = Rule::Protected(protected.to_vec());
            return Err(refused(FileAction::Rename, new_path, rule));
        }
    }
    let (old_git, new_git) = (
        bare::as_git(judged.rules, &old_path),
        bare::as_git(judged.rules, &new_path),
    );
    if old_git.is_none()
        && new_git.is_none()
        && !judged.rules.depends_on_place(&old_path, &new_path)
        && !judged.rules.can_hold_names(&old_path)
    {
        return Ok(());
    }
    let old_path = old_git.unwrap_or(old_path);
    let judged_path = new_git.as_ref().unwrap_or(&new_path);
    let moves = Moves {
        old: old_path,
        new: judged_path.clone(),
        real: new_path.clone(),
    };
    let mut search = Search {
        judged,
        names: 0,
        moves_away: true,
    };
    search.below(top.as_fd(), &moves, 0)
}

/// Judges all that lies below a directory that stays where it is, at `old` until now and from now on at `new`, as git
/// takes them; `real` is where it really comes.
pub(super) fn check_tree(
    judged: &Judged<'_>,
    top: &OwnedFd,
    old: &[u8],
    new: &[u8],
    real: &[u8],
) -> Result<(), Stop> {
    let mut search = Search {
        judged,
        names: 0,
        moves_away: false,
    };
    let moves = Moves {
        old: old.to_vec(),
        new: new.to_vec(),
        real: real.to_vec(),
    };
    search.below(top.as_fd(), &moves, 0)
}

/// Whether something stands at a path below a directory, or stands in its way.
fn is_occupied<'a>(
    top: BorrowedFd<'_>,
    rest: impl Iterator<Item = &'a [u8]>,
) -> Result<bool, Stop> {
    let mut names = rest.peekable();
    let mut here: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let dir = here.as_ref().map_or(top, AsFd::as_fd);
        match stat_at(dir, name)? {
            None => return Ok(false),
            Some(found) if kind(&found) != libc::S_IFDIR => return Ok(true),
            Some(_) if names.peek().is_none() => return Ok(true),
            Some(_) => {}
        }
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        here = Some(openat(dir, name, flags, Mode::empty())?);
    }
    Ok(false)
}

struct Search<'a> {
    judged: &'a Judged<'a>,
    names: u32,
    /// Whether it is moved away: what matches a filename rule is then renamed with it, and its
    /// directory could come back with other content.
    moves_away: bool,
}

impl Search<'_> {
    fn below(&mut self, dir: BorrowedFd<'_>, moves: &Moves, depth: u32) -> Result<(), Stop> {
        if depth > MOST_DEPTH {
            return Err(too_much());
        }
        let names = self.names_in(dir)?;
        let moves = moves.with_bare(self.judged, &names);
        for name in names {
            let Some(found) = stat_at(dir, &name)? else {
                continue;
            };
            let moves = moves.below(&name);
            let deed = making(&found);
            let refused = |rule| refused(FileAction::Rename, moves.real.clone(), rule);
            if self.moves_away
                && let Verdict::Refuse(rule @ Rule::Name(_)) =
                    self.judged.rules.verdict(&moves.old, Deed::MoveAway)
            {
                return Err(refused(rule));
            }
            match self
                .judged
                .rules
                .moved_verdict(&moves.old, &moves.new, deed)
            {
                Verdict::Allow => {}
                Verdict::Refuse(rule) => return Err(refused(rule)),
                Verdict::Content(GitFile::Config)
                    if self.judged.verdict(&moves.old, deed)
                        == Verdict::Content(GitFile::Config) =>
                {
                    recheck(dir, &name, &moves)?.map_err(refused)?;
                }
                Verdict::Content(file) => {
                    refresh(self.judged, dir, &name, file, &moves.new)?.map_err(refused)?;
                }
            }
            if deed == Deed::MakeDirectory {
                let flags =
                    OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                let next = openat(dir, name.as_slice(), flags, Mode::empty())?;
                self.below(next.as_fd(), &moves, depth + 1)?;
            }
        }
        Ok(())
    }

    fn names_in(&mut self, dir: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Stop> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let readable = match openat(dir, ".", flags, Mode::empty()) {
            Ok(readable) => readable,
            Err(Errno::EACCES | Errno::EPERM) => {
                return Err(undecided("a directory in it cannot be looked into"));
            }
            Err(errno) => return Err(errno.into()),
        };
        let mut names = Vec::new();
        for entry in Dir::from_fd(readable)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            self.names += 1;
            if self.names > MOST_NAMES {
                return Err(too_much());
            }
            names.push(name.to_vec());
        }
        Ok(names)
    }
}

/// Where something was and where it comes.
#[derive(Debug, Clone)]
struct Moves {
    /// As git takes it.
    old: Vec<u8>,
    /// As git takes it.
    new: Vec<u8>,
    /// Where it really comes.
    real: Vec<u8>,
}

impl Moves {
    fn below(&self, name: &[u8]) -> Self {
        Self {
            old: joined(&self.old, name),
            new: joined(&self.new, name),
            real: joined(&self.real, name),
        }
    }

    /// A directory that is a bare repository was judged as one where it was, if anything was
    /// judged there; else it is judged as one now.
    fn with_bare(&self, judged: &Judged<'_>, names: &[Vec<u8>]) -> Self {
        let rules = judged.rules;
        let is_new = rules.is_judged(&self.new) && !rules.is_judged(&self.old);
        let mut moves = self.clone();
        if is_new && rules.can_be_bare(&self.new) && bare::is_git_directory_of(names) {
            moves.new = joined(&self.new, b".git");
        }
        moves
    }
}

/// A configuration that was judged where it stood is judged where it comes. Nobody can write to it
/// past the guard, so it needs no copy.
fn recheck(dir: BorrowedFd<'_>, name: &[u8], moves: &Moves) -> Result<Result<(), Rule>, Stop> {
    let Some(present) = read_regular(dir, name)? else {
        return Ok(Ok(()));
    };
    let from: Vec<&[u8]> = components(&moves.old).collect();
    let to: Vec<&[u8]> = components(&moves.new).collect();
    Ok(git::config_move(&present.bytes, &from, &to).map_err(Rule::Git))
}

fn too_much() -> Stop {
    undecided("the directory holds too much to be judged")
}

//! Git directories that are not called `.git` (bare repositories). Git takes a directory for one
//! when it holds `HEAD` and either `objects` and `refs` or `commondir`, and then reads its `config`
//! and runs its hooks, wherever it is. What lies in one is judged as if it were called `.git`; so is
//! what lies there already when the last piece is made.

use super::{
    answer::{Stop, refused},
    judged::Judged,
    moved::check_tree,
    walk::Entry,
};
use kotak_guard::{
    judge::rules::{Deed, GitFile, Rules, Verdict},
    proto::FileAction,
};
use nix::{errno::Errno, sys::stat::lstat};

/// The path as git takes it, where it lies in such a directory.
pub(super) fn as_git(rules: &Rules, path: &[u8]) -> Option<Vec<u8>> {
    rules
        .bare_candidates(path)
        .into_iter()
        .find(|end| is_git_directory(path.get(..*end).unwrap_or_default(), None))
        .map(|end| called_git(path, end))
}

/// Judges what lies in a directory that becomes one by what is made there, and what is made.
pub(super) fn check_completed(
    judged: &Judged<'_>,
    entry: &Entry,
    deed: Deed,
    action: FileAction,
) -> Result<Option<GitFile>, Stop> {
    let path = entry.path();
    let is_parent = |end: &usize| path.get(..*end) == Some(&entry.dir_path);
    if !judged.rules.bare_candidates(&path).iter().any(is_parent) {
        return Ok(None);
    }
    let dir = &entry.dir_path;
    if is_git_directory(dir, None) || !is_git_directory(dir, Some(&entry.name)) {
        return Ok(None);
    }
    let checked = check_tree(judged, &entry.dir, dir, &called_git(dir, dir.len()), dir);
    checked.map_err(|stop| match stop {
        Stop::Refused(refusal) => refused(action, path.clone(), refusal.rule),
        other => other,
    })?;
    // The last piece is none of what lies there yet.
    match judged.rules.verdict(&called_git(&path, dir.len()), deed) {
        Verdict::Allow => Ok(None),
        Verdict::Content(file) => Ok(Some(file)),
        Verdict::Refuse(rule) => Err(refused(action, path, rule)),
    }
}

fn called_git(path: &[u8], end: usize) -> Vec<u8> {
    let (dir, rest) = path.split_at(end.min(path.len()));
    [dir, b"/.git", rest].concat()
}

/// Whether git takes a directory for its own, also with a further name in it.
fn is_git_directory(dir: &[u8], further: Option<&[u8]>) -> bool {
    let has = |name: &str| {
        further.is_some_and(|further| further.eq_ignore_ascii_case(name.as_bytes())) || {
            let path = [dir, b"/", name.as_bytes()].concat();
            // What cannot be told may be there.
            !matches!(lstat(path.as_slice()), Err(Errno::ENOENT | Errno::ENOTDIR))
        }
    };
    is_git(has)
}

/// As [`is_git_directory`], by all the names in it.
pub(super) fn is_git_directory_of(names: &[Vec<u8>]) -> bool {
    is_git(|wanted| {
        let is_it = |name: &Vec<u8>| name.eq_ignore_ascii_case(wanted.as_bytes());
        names.iter().any(is_it)
    })
}

fn is_git(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

//! Looking a tool up on PATH without being told what to run by a repository or by an earlier
//! session. Pure over [`ToolFs`].
//!
//! The judged thing is the canonical file, since that is what is run: it and every directory
//! above it must not be writable by the user who runs Kotak (whatever that user runs could have
//! replaced it), by everybody, or, when root runs Kotak, belong to anybody else; and it must not
//! lie in the project. A symbolic link in an untrusted directory may only lead to a trusted file
//! of the tool's own name.

use super::facts::{Distrust, RefusedTool, ToolSearch};
use std::path::{Path, PathBuf};

/// Where distributions put their programs; searched before the rest of PATH.
pub(crate) const SYSTEM_DIRS: [&str; 7] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",
];

/// The files that a search looks at.
pub(crate) trait ToolFs {
    /// Resolves every symbolic link; `None` when nothing is there.
    fn canonical(&self, path: &Path) -> Option<PathBuf>;
    /// stat(2).
    fn stat(&self, path: &Path) -> Option<ToolStat>;
}

/// What of stat(2) is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToolStat {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) is_file: bool,
}

/// Who runs Kotak, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Searcher {
    pub(crate) uid: u32,
    pub(crate) gids: Vec<u32>,
    /// The id that stands for owners outside this user namespace, when it is not the first one.
    pub(crate) overflow_uid: Option<u32>,
    /// The current directory; what lies below it is the project.
    pub(crate) project: Option<PathBuf>,
}

/// Searches `path`, the value of PATH.
pub(crate) fn search(fs: &dyn ToolFs, who: &Searcher, path: &[PathBuf], name: &str) -> ToolSearch {
    let mut trusted: Vec<(bool, PathBuf)> = Vec::new();
    let mut refused: Vec<RefusedTool> = Vec::new();
    for dir in path {
        let (literal, relative) = if dir.is_absolute() {
            (dir.join(name), false)
        } else {
            let Some(project) = &who.project else {
                continue;
            };
            (project.join(dir).join(name), true)
        };
        let Some(file) = fs.canonical(&literal) else {
            continue;
        };
        let runnable = |stat: ToolStat| stat.is_file && stat.mode & 0o111 != 0;
        if file.to_str().is_none() || !fs.stat(&file).is_some_and(runnable) {
            continue;
        }
        let why = if relative {
            Some(Distrust::RelativeEntry)
        } else {
            distrust(fs, who, &file).or_else(|| misleading_link(fs, who, &literal, &file, name))
        };
        match why {
            Some(why) => refused.push(RefusedTool { path: literal, why }),
            None if trusted.iter().any(|(_, known)| *known == file) => {}
            None => trusted.push((in_system_dir(&file), file)),
        }
    }
    // Stable: PATH order among equals.
    trusted.sort_by_key(|(system, _)| !system);
    match trusted.into_iter().next() {
        Some((_, path)) => {
            let setuid = fs.stat(&path).is_some_and(|stat| stat.mode & 0o4000 != 0);
            ToolSearch::Found {
                path,
                setuid,
                refused,
            }
        }
        None if refused.is_empty() => ToolSearch::Missing,
        None => ToolSearch::Refused(refused),
    }
}

/// Why a canonical file is not trusted.
fn distrust(fs: &dyn ToolFs, who: &Searcher, file: &Path) -> Option<Distrust> {
    if let Some(project) = &who.project
        && project.parent().is_some()
        && file.starts_with(project)
        && !in_system_dir(file)
    {
        return Some(Distrust::Project(project.clone()));
    }
    file.ancestors().find_map(|path| writable(fs, who, path))
}

/// A link that somebody else could have made, to a program that is not the tool.
fn misleading_link(
    fs: &dyn ToolFs,
    who: &Searcher,
    literal: &Path,
    file: &Path,
    name: &str,
) -> Option<Distrust> {
    if file.file_name().is_some_and(|found| found == name) {
        return None;
    }
    let dir = fs.canonical(literal.parent()?)?;
    distrust(fs, who, &dir.join(name))
}

fn writable(fs: &dyn ToolFs, who: &Searcher, path: &Path) -> Option<Distrust> {
    let stat = fs.stat(path)?;
    if stat.mode & 0o002 != 0 {
        return Some(Distrust::WritableByAll(path.to_path_buf()));
    }
    if who.uid == 0 {
        let foreign = stat.uid != 0 && Some(stat.uid) != who.overflow_uid;
        return foreign.then(|| Distrust::OwnedByOther(path.to_path_buf()));
    }
    // An owner can always make a file writable.
    let by_group = stat.mode & 0o020 != 0 && who.gids.contains(&stat.gid);
    (stat.uid == who.uid || by_group).then(|| Distrust::WritableByUser(path.to_path_buf()))
}

fn in_system_dir(file: &Path) -> bool {
    let nix = file.starts_with("/nix/store");
    nix || file
        .parent()
        .is_some_and(|dir| SYSTEM_DIRS.iter().any(|known| dir == Path::new(known)))
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;

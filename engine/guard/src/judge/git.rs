//! What makes git run programs: its configuration, the files that lead to other git directories,
//! and the places where they and the hooks stand.
//!
//! Three rules hold together. No file of a *git directory* (one that [`place`] knows) can be a
//! hook, or configuration that [`config`] refuses. A `.git` file can lead only to a git directory
//! ([`gitlink`]). And nothing below a component `.git` can be a symlink, but for one that git
//! makes for a moment ([`symlink`]): it would lead to a directory that is not judged.

mod parse;
mod place;
mod rules;
mod url;

#[cfg(test)]
mod tests;

pub use place::{GitPlace, place};

/// Largest configuration in bytes that is read.
pub const MAX_CONFIG_BYTES: usize = 1024 * 1024;

/// Whether a git configuration is harmless wherever it stands: nothing in it makes git, or what git
/// commonly starts, run a program, read configuration from elsewhere, or write outside its work
/// tree. As [`config_at`], without a place: `core.worktree` is refused.
///
/// # Errors
/// Why not, as a sentence that names the setting or the line.
pub fn config(bytes: &[u8]) -> Result<(), String> {
    config_at(bytes, &[])
}

/// As [`config`], for a configuration at `at`: the components of its path, as for [`place`]. With
/// it the `core.worktree` that git writes for a submodule is judged, and permitted when it stays
/// below the work tree of the outermost repository.
///
/// # Errors
/// Why not, as a sentence that names the setting or the line.
pub fn config_at(bytes: &[u8], at: &[&[u8]]) -> Result<(), String> {
    for setting in parse::settings(bytes)? {
        rules::judge(&setting, at)?;
    }
    Ok(())
}

/// Whether a configuration may take the place of another that the host trusts: it is harmless, or
/// whatever in it is not stands in the same order, with the same values, in the present one. So
/// `git push -u` works in a repository in which the user has configured a program.
///
/// # Errors
/// The first setting that is refused and was not there.
pub fn config_change(present: &[u8], new: &[u8], at: &[&[u8]]) -> Result<(), String> {
    let refused = |bytes: &[u8]| -> Result<Vec<(parse::Setting, String)>, String> {
        let settings = parse::settings(bytes)?.into_iter();
        Ok(settings
            .filter_map(|setting| match rules::judge(&setting, at) {
                Ok(()) => None,
                Err(reason) => Some((setting, reason)),
            })
            .collect())
    };
    let new = refused(new)?;
    // Of a present one that does not parse nothing is known, so nothing in it is trusted.
    let present = refused(present).unwrap_or_default();
    let mut before = present.iter().map(|(setting, _)| setting);
    for (setting, reason) in &new {
        if before.next() != Some(setting) {
            return Err(reason.clone());
        }
    }
    match before.next() {
        Some(gone) => Err(format!(
            "`{}`, which the user has set, is gone",
            gone.name()
        )),
        None => Ok(()),
    }
}

/// Whether a configuration may be moved from `from` to `to` with a directory that it lies in: what
/// the user has set goes along, but nothing becomes harmful by the move, and no work tree is named
/// that lies elsewhere from there.
///
/// # Errors
/// The first setting that is refused.
pub fn config_move(bytes: &[u8], from: &[&[u8]], to: &[&[u8]]) -> Result<(), String> {
    for setting in parse::settings(bytes)? {
        let Err(reason) = rules::judge(&setting, to) else {
            continue;
        };
        let names_tree = setting.section == "core" && setting.key == "worktree";
        if names_tree || rules::judge(&setting, from).is_ok() {
            return Err(reason);
        }
    }
    Ok(())
}

/// Whether a symlink may be made at `at`, the components as for [`place`], with `target` as its
/// content. Below `.git` only the one by which `git init` finds out whether the file system has
/// symlinks: were it refused, git would write `core.symlinks = false` and check symlinks out as
/// files ever after. It leads to a name beside it, which is judged where it is.
///
/// # Errors
/// Why not, as a sentence.
pub fn symlink(at: &[&[u8]], target: &[u8]) -> Result<(), String> {
    let probe = |name: &[u8]| match name {
        [b't', rest @ ..] => rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric),
        _ => false,
    };
    match place(at) {
        GitPlace::NotGit | GitPlace::MaybeBare => Ok(()),
        GitPlace::Inside if target == b"testing" && at.last().is_some_and(|name| probe(name)) => {
            Ok(())
        }
        _ => Err("a symlink below `.git` could lead to a directory that is not judged".to_owned()),
    }
}

/// The target of a `.git` file: exactly `gitdir: PATH` and a line feed (gitrepository-layout(5)).
/// The path leads to a git directory as [`place`] knows them: `.git` itself, `worktrees/NAME`
/// or `modules/NAME` below one, in the end. What comes before that `.git`, and whether a
/// symlink lies on the way, is for the caller to check.
///
/// # Errors
/// Why not, as a sentence.
pub fn gitlink(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let path = bytes
        .strip_prefix(b"gitdir: ")
        .and_then(|rest| rest.strip_suffix(b"\n"))
        .ok_or("a `.git` file holds one line, `gitdir: PATH`")?;
    place::target(path)?;
    Ok(path.to_vec())
}

/// The target of a `commondir` file: exactly `../..` and a line feed, which is all that git writes.
/// [`GitPlace::Commondir`] is the one place where that is the git directory around it.
///
/// # Errors
/// Why not, as a sentence.
pub fn commondir(bytes: &[u8]) -> Result<Vec<u8>, String> {
    match bytes {
        b"../..\n" => Ok(b"../..".to_vec()),
        _ => Err("a `commondir` file holds one line, `../..`".to_owned()),
    }
}

//! What the file rules say of one path and one deed, for [`super::explain_path`]: the paths and
//! names of [`FileRules`]. What git makes of content is for the guard to judge when it happens.

use crate::spec::{AbsPath, filename_glob};
use kotak_guard::proto::{FileRules, Rule};
use std::ffi::OsString;
use std::path::PathBuf;

/// What is to be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// A regular file comes to stand there.
    MakeFile,
    /// The content of what stands there changes.
    Write,
}

/// What the rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing against it.
    Allow,
    /// It depends on the content of this file of git's.
    Content(&'static str),
    /// No.
    Refuse(Rule),
}

/// The rules, ready for use.
#[derive(Debug)]
pub(super) struct Rules<'a>(&'a FileRules);

/// The rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the filename rule {glob:?} is no pattern")]
pub(super) struct RulesError {
    glob: String,
    #[source]
    source: globset::Error,
}

impl<'a> Rules<'a> {
    /// Checks the globs.
    pub(super) fn new(rules: &'a FileRules) -> Result<Self, RulesError> {
        for glob in rules.names.iter().chain(&rules.exceptions) {
            filename_glob(glob).map_err(|source| RulesError {
                glob: glob.clone(),
                source,
            })?;
        }
        Ok(Self(rules))
    }

    /// What they say of a canonical path.
    pub(super) fn verdict(&self, path: &[u8], deed: Deed) -> Verdict {
        let rules = self.0;
        let Ok(path) = AbsPath::new(path) else {
            return Verdict::Allow;
        };
        let is_in =
            |zones: &[Vec<u8>], at: &AbsPath| zones.iter().any(|zone| zone == at.as_bytes());
        let here = std::iter::once(path.clone());
        let zone = here
            .chain(path.ancestors())
            .find(|at| is_in(&rules.roots, at) || is_in(&rules.exempt, at));
        let Some(root) = zone.filter(|zone| is_in(&rules.roots, zone)) else {
            return Verdict::Allow;
        };
        protected(rules, &path, deed)
            .or_else(|| anywhere(rules, &path, &root))
            .or_else(|| name(rules, &path, &root))
            .map_or_else(|| git(rules, &path), Verdict::Refuse)
    }
}

fn protected(rules: &FileRules, path: &AbsPath, deed: Deed) -> Option<Rule> {
    let within = |outer: &[u8], inner: &[u8]| {
        let outer = AbsPath::new(outer).ok()?;
        AbsPath::new(inner).ok()?.is_within(&outer).then_some(())
    };
    for held in &rules.protected {
        if within(held, path.as_bytes()).is_some() {
            return Some(Rule::Protected(held.clone()));
        }
        if deed == Deed::MakeFile && within(path.as_bytes(), held).is_some() {
            return Some(Rule::Ancestor(held.clone()));
        }
    }
    None
}

fn anywhere(rules: &FileRules, path: &AbsPath, root: &AbsPath) -> Option<Rule> {
    let below = path.below(root)?;
    let mut names = below.split(|byte| *byte == b'/');
    names
        .find_map(|name| {
            rules
                .anywhere
                .iter()
                .find(|held| held.eq_ignore_ascii_case(name))
        })
        .map(|held| Rule::Anywhere(held.clone()))
}

fn name(rules: &FileRules, path: &AbsPath, root: &AbsPath) -> Option<Rule> {
    let last = path.file_name()?;
    // A root may be a single file.
    let below = path.below(root).filter(|rest| !rest.is_empty());
    let is =
        |glob: &str, text: &[u8]| filename_glob(glob).is_ok_and(|glob| glob.is_match(native(text)));
    let below = below.unwrap_or(last);
    let matches = |glob: &&String| is(glob, if glob.contains('/') { below } else { last });
    let found = rules.names.iter().find(matches)?;
    let lifted = rules.exceptions.iter().any(|glob| {
        // An exception is a path at any depth, also one without a slash.
        is(&format!("**/{glob}"), below)
    });
    (!lifted).then(|| Rule::Name(found.clone()))
}

/// A relative path of the system.
fn native(bytes: &[u8]) -> PathBuf {
    let below = AbsPath::root().join(bytes).to_os_string();
    let text: OsString = below;
    PathBuf::from(&text)
        .strip_prefix("/")
        .map_or_else(|_| PathBuf::from(&text), PathBuf::from)
}

fn git(rules: &FileRules, path: &AbsPath) -> Verdict {
    if !rules.git {
        return Verdict::Allow;
    }
    let parts: Vec<&[u8]> = path.components().collect();
    match parts.as_slice() {
        [.., b".git"] => Verdict::Content(".git"),
        [.., b".git", b"config" | b"config.worktree" | b"commondir"] => {
            Verdict::Content("configuration")
        }
        [.., b".git", b"hooks", hook] if !hook.ends_with(b".sample") => {
            Verdict::Refuse(Rule::Git("the hooks of a repository".to_owned()))
        }
        _ => Verdict::Allow,
    }
}

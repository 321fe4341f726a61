//! What the rules of a session say of one path and one deed. Pure: the supervisor of the guard
//! finds out which path is meant, asks here, and acts.

mod fold;
mod paths;

#[cfg(test)]
mod tests;

use super::git::{GitPlace, place};
use crate::proto::{FileNode, FileRules, Rule};
use fold::folded;
use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use paths::{Protected, Zones, name_of};
use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
};

/// What is to be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deed {
    /// A directory comes to stand there.
    MakeDirectory,
    /// A regular file comes to stand there.
    MakeFile,
    /// A symbolic link comes to stand there.
    MakeSymlink,
    /// A socket, FIFO or device comes to stand there, or a further name of a file.
    MakeOther,
    /// The content or size of what stands there changes.
    Write,
    /// Who may do what with it changes.
    Permit,
    /// It is taken away by unlink(2), or replaced by something else.
    Unlink,
    /// It is taken away by rmdir(2), which takes empty directories only.
    RemoveDirectory,
    /// It is renamed away.
    MoveAway,
}

impl Deed {
    /// Whether something comes to stand at the path.
    #[must_use]
    pub fn makes(self) -> bool {
        match self {
            Self::MakeDirectory | Self::MakeFile | Self::MakeSymlink | Self::MakeOther => true,
            Self::Write | Self::Permit | Self::Unlink | Self::RemoveDirectory | Self::MoveAway => {
                false
            }
        }
    }
}

/// A file of git's whose content decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GitFile {
    /// `config`, `config.worktree`
    Config,
    /// `.git` where it is a file.
    Link,
    /// `commondir`
    Commondir,
}

/// What the rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against it.
    Allow,
    /// It depends on the content, which must be judged on a copy that nobody else can write.
    Content(GitFile),
    /// No.
    Refuse(Rule),
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// a filename glob is none
    #[error("the filename rule {glob:?} is no pattern")]
    Glob {
        /// As it was written.
        glob: String,
        /// What is wrong with it.
        #[source]
        source: globset::Error,
    },
    /// a path is not absolute and canonical
    #[error("{path:?} is not an absolute path without `.`, `..` or a slash too many")]
    Path {
        /// Lossy.
        path: String,
    },
    /// a protected name is a path
    #[error("{name:?} is not the name of a file")]
    Name {
        /// Lossy.
        name: String,
    },
}

/// [`FileRules`], ready for use.
#[derive(Debug)]
pub struct Rules {
    zones: Zones,
    protected: Protected,
    anywhere: HashMap<Vec<u8>, Vec<u8>>,
    /// Globs for the last component.
    names: Globs,
    /// Globs for the path below the root.
    paths: Globs,
    /// Globs for the path below the root that lift the two above.
    exceptions: Globs,
    git: bool,
    inodes: HashSet<FileNode>,
}

impl Rules {
    /// Compiles.
    ///
    /// # Errors
    /// For a glob, path or name that is none: the set-up is then to be refused.
    pub fn new(rules: &FileRules) -> Result<Self, RulesError> {
        let (paths, names): (Vec<&String>, Vec<&String>) =
            rules.names.iter().partition(|glob| glob.contains('/'));
        let mut anywhere = HashMap::new();
        for name in &rules.anywhere {
            if name.is_empty() || name.contains(&b'/') || matches!(&name[..], b"." | b"..") {
                return Err(RulesError::Name {
                    name: String::from_utf8_lossy(name).into_owned(),
                });
            }
            anywhere.insert(plain(name), name.clone());
        }
        Ok(Self {
            zones: Zones::new(&rules.roots, &rules.exempt)?,
            protected: Protected::new(&rules.protected, &rules.roots)?,
            anywhere,
            names: Globs::new(names, At::Name)?,
            paths: Globs::new(paths, At::Path)?,
            exceptions: Globs::new(rules.exceptions.iter().collect(), At::Path)?,
            git: rules.git,
            inodes: rules.inodes.iter().copied().collect(),
        })
    }

    /// What the rules say of doing `deed` at `path`, which is absolute and canonical, but for its
    /// last component, which is what it is called by and not followed.
    #[must_use]
    pub fn verdict(&self, path: &[u8], deed: Deed) -> Verdict {
        let Some(root) = self.zones.root_of(path) else {
            return Verdict::Allow;
        };
        if let Some(rule) = self
            .protected
            .verdict(path, deed)
            .or_else(|| self.anywhere(path, root))
            .or_else(|| self.name(path, root))
        {
            return Verdict::Refuse(rule);
        }
        self.git(path, deed)
    }

    /// Whether a path lies where the rules hold.
    #[must_use]
    pub fn is_judged(&self, path: &[u8]) -> bool {
        self.zones.root_of(path).is_some()
    }

    /// Whether the content of a file is protected whatever it is called.
    #[must_use]
    pub fn is_protected_inode(&self, node: FileNode) -> bool {
        self.inodes.contains(&node)
    }

    /// The protected paths strictly below a directory, which may not exist. The directory may have
    /// another case in them, but has as many components.
    pub fn protected_below<'a>(&'a self, dir: &[u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.protected.below(dir)
    }

    /// Whether a directory can hold names that match a rule, with which it is not to be moved.
    #[must_use]
    pub fn can_hold_names(&self, dir: &[u8]) -> bool {
        self.is_judged(dir) && !(self.names.is_empty() && self.paths.is_empty())
    }

    /// Whether what lies below a directory can be judged otherwise when the directory is moved
    /// from `old` to `new`, so that it has to be looked through.
    #[must_use]
    pub fn depends_on_place(&self, old: &[u8], new: &[u8]) -> bool {
        let (from, to) = (self.zones.root_of(old), self.zones.root_of(new));
        if from.is_none() && to.is_none() {
            return self.zones.begins_below(old) || self.zones.begins_below(new);
        }
        from != to
            || self.zones.begins_below(old)
            || self.zones.begins_below(new)
            || !self.paths.is_empty()
            || !self.exceptions.is_empty()
            || (self.git && (in_git(old) || in_git(new)))
    }

    /// What comes of something that moves from `old` to `new` together with the directory it lies
    /// in, and is then what `deed` makes.
    #[must_use]
    pub fn moved_verdict(&self, old: &[u8], new: &[u8], deed: Deed) -> Verdict {
        match (self.verdict(old, deed), self.verdict(new, deed)) {
            // As before.
            (Verdict::Refuse(_), Verdict::Refuse(_)) => Verdict::Allow,
            // But for a configuration: which work tree it may name depends on where it stands.
            (Verdict::Content(before), Verdict::Content(after))
                if before == after && after != GitFile::Config =>
            {
                Verdict::Allow
            }
            // It escapes a rule, or runs into one.
            (Verdict::Refuse(rule), _) | (_, Verdict::Refuse(rule)) => Verdict::Refuse(rule),
            (_, after) => after,
        }
    }

    /// Whether a path lies in a directory `.git` or is one.
    #[must_use]
    pub fn is_in_git(&self, path: &[u8]) -> bool {
        in_git(path)
    }

    /// The directories in which a path would mean something to git if they were git directories
    /// with another name (bare repositories): each as a length of the path. None where the rules
    /// do not look at git.
    #[must_use]
    pub fn bare_candidates(&self, path: &[u8]) -> Vec<usize> {
        if !self.git || !self.is_judged(path) {
            return Vec::new();
        }
        let parts: Vec<&[u8]> = components(path).collect();
        let mut found = Vec::new();
        let mut end = 0;
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let name = plain(part);
            let is_part = name == b"hooks" || (is_last && BARE_PARTS.contains(&&name[..]));
            if is_part && can_be_bare(parts.get(..index).unwrap_or_default()) {
                found.push(end);
            }
            end += 1 + part.len();
        }
        found
    }

    /// Whether a directory that git takes for its own would not be known as one by its path.
    #[must_use]
    pub fn can_be_bare(&self, dir: &[u8]) -> bool {
        let parts: Vec<&[u8]> = components(dir).collect();
        self.git && can_be_bare(&parts)
    }

    fn anywhere(&self, path: &[u8], root: &[u8]) -> Option<Rule> {
        if self.anywhere.is_empty() {
            return None;
        }
        components(below(path, root))
            .find_map(|name| self.anywhere.get(&plain(name)))
            .map(|name| Rule::Anywhere(name.clone()))
    }

    fn name(&self, path: &[u8], root: &[u8]) -> Option<Rule> {
        let rest = below(path, root);
        let glob = match self.names.first_match(name_of(path)) {
            Some(glob) => glob,
            None => self.paths.first_match(rest)?,
        };
        let excepted = self.exceptions.first_exact_match(rest).is_some();
        (!excepted).then(|| Rule::Name(glob.to_owned()))
    }

    fn git(&self, path: &[u8], deed: Deed) -> Verdict {
        if !self.git {
            return Verdict::Allow;
        }
        if deed != Deed::Unlink && plain(name_of(path)).starts_with(TEMPORARY.as_bytes()) {
            return refuse("a name that is kept for files of git's that are being judged");
        }
        let parts: Vec<&[u8]> = components(path).collect();
        let place = place(&parts);
        if place.is_git() && deed == Deed::MakeSymlink {
            return refuse("a symbolic link in a git directory, or one that stands for it");
        }
        match place {
            GitPlace::NotGit | GitPlace::MaybeBare | GitPlace::Data | GitPlace::Inside => {
                Verdict::Allow
            }
            GitPlace::Gitlink => match deed {
                Deed::MakeFile | Deed::Write => Verdict::Content(GitFile::Link),
                Deed::MakeOther => refuse("a `.git` that is neither a directory nor a file"),
                Deed::MakeDirectory
                | Deed::MakeSymlink
                | Deed::Permit
                | Deed::Unlink
                | Deed::RemoveDirectory
                | Deed::MoveAway => Verdict::Allow,
            },
            GitPlace::Config => content(GitFile::Config, deed),
            GitPlace::Commondir => content(GitFile::Commondir, deed),
            GitPlace::HooksDir => match deed {
                // Empty, or as `git init` makes it.
                Deed::MakeDirectory | Deed::RemoveDirectory | Deed::Permit => Verdict::Allow,
                Deed::MakeFile
                | Deed::MakeSymlink
                | Deed::MakeOther
                | Deed::Write
                | Deed::Unlink
                | Deed::MoveAway => refuse("the hooks of a repository"),
            },
            GitPlace::HookSample => match deed {
                Deed::MakeFile | Deed::Write | Deed::Permit | Deed::Unlink | Deed::MoveAway => {
                    Verdict::Allow
                }
                Deed::MakeDirectory
                | Deed::MakeSymlink
                | Deed::MakeOther
                | Deed::RemoveDirectory => refuse("the hooks of a repository"),
            },
            GitPlace::Hook => refuse("the hooks of a repository"),
            GitPlace::Never => match deed {
                Deed::Unlink | Deed::RemoveDirectory | Deed::Permit => Verdict::Allow,
                Deed::MakeDirectory
                | Deed::MakeFile
                | Deed::MakeSymlink
                | Deed::MakeOther
                | Deed::Write
                | Deed::MoveAway => refuse("a file by which git acts and that no git writes"),
            },
        }
    }
}

/// How the names begin that a guard gives to files of git's until they stand in their place. No
/// program has a hand in one: in a workspace of two sessions the other's guard would help it.
pub const TEMPORARY: &str = ".kotak-git-";

/// What stands in a git directory and matters to git.
const BARE_PARTS: [&[u8]; 6] = [
    b"head",
    b"config",
    b"config.worktree",
    b"commondir",
    b"objects",
    b"refs",
];

/// A file of git's that is judged by content, at its place.
fn content(file: GitFile, deed: Deed) -> Verdict {
    match deed {
        Deed::MakeFile | Deed::Write => Verdict::Content(file),
        Deed::MakeDirectory | Deed::MakeSymlink | Deed::MakeOther => {
            refuse("the configuration of a repository as something else than a file")
        }
        // Without it git knows less.
        Deed::Unlink | Deed::RemoveDirectory | Deed::MoveAway | Deed::Permit => Verdict::Allow,
    }
}

fn refuse(reason: &str) -> Verdict {
    Verdict::Refuse(Rule::Git(reason.to_owned()))
}

/// Whether a path lies in a git directory or is one.
fn in_git(path: &[u8]) -> bool {
    let parts: Vec<&[u8]> = components(path).collect();
    (1..=parts.len()).any(|end| place(&parts[..end]).is_git())
}

/// Whether the configuration of a repository that a directory were would not be judged as one.
fn can_be_bare(dir: &[&[u8]]) -> bool {
    let config = [dir, &[b"config"]].concat();
    match place(&config) {
        GitPlace::NotGit | GitPlace::MaybeBare | GitPlace::Data | GitPlace::Inside => true,
        GitPlace::Gitlink
        | GitPlace::HooksDir
        | GitPlace::HookSample
        | GitPlace::Hook
        | GitPlace::Config
        | GitPlace::Commondir
        | GitPlace::Never => false,
    }
}

/// The components of a path.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
}

/// The path below its root; for a root that is a file, its name.
fn below<'a>(path: &'a [u8], root: &[u8]) -> &'a [u8] {
    let rest = path.get(root.len()..).unwrap_or_default();
    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
    if rest.is_empty() { name_of(path) } else { rest }
}

/// As names are compared: without regard to case, and to what file systems without regard to case
/// overlook.
fn plain(name: &[u8]) -> Vec<u8> {
    folded(name)
        .unwrap_or_else(|| name.to_vec())
        .to_ascii_lowercase()
}

/// Where a glob is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    Path,
}

/// Globs that know what they were written as.
#[derive(Debug)]
struct Globs {
    set: GlobSet,
    written: Vec<String>,
}

impl Globs {
    fn new(globs: Vec<&String>, at: At) -> Result<Self, RulesError> {
        let mut builder = GlobSetBuilder::new();
        for glob in &globs {
            let pattern = match at {
                At::Name => (*glob).clone(),
                At::Path => format!("**/{}", glob.trim_start_matches('/')),
            };
            let compiled = GlobBuilder::new(&pattern)
                .case_insensitive(true)
                .literal_separator(true)
                .build();
            builder.add(compiled.map_err(|source| bad_glob(glob, source))?);
        }
        Ok(Self {
            set: builder.build().map_err(|source| bad_glob("", source))?,
            written: globs.into_iter().cloned().collect(),
        })
    }

    fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// By the name itself, or by what a file system might take it for.
    fn first_match(&self, text: &[u8]) -> Option<&str> {
        self.first_exact_match(text)
            .or_else(|| folded(text).and_then(|text| self.first_exact_match(&text)))
    }

    fn first_exact_match(&self, text: &[u8]) -> Option<&str> {
        if self.is_empty() {
            return None;
        }
        let candidate = Candidate::new(OsStr::from_bytes(text));
        let first = self.set.matches_candidate(&candidate).into_iter().min()?;
        self.written.get(first).map(String::as_str)
    }
}

fn bad_glob(glob: &str, source: globset::Error) -> RulesError {
    RulesError::Glob {
        glob: glob.to_owned(),
        source,
    }
}

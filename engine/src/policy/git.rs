//! Repositories inside writable roots, and what in them makes git on the host run a program: hooks
//! and configuration of every depth, followed through `.git` files, `commondir`, submodules,
//! worktrees and included configuration. Read without running git.

mod config;

use self::config::{Homes, Program, run_by, settings};
use super::protect::ANYWHERE;
use super::walk::{End, walk};
use super::{HostFs, Listing, NodeKind};
use crate::spec::AbsPath;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

/// How many directory entries one search reads. Breadth first, so what is near is found first.
pub const SEARCH_ENTRIES: usize = 15_000;

/// How far below the deepest root a search goes: each path costs the square of its depth.
const SEARCH_DEPTH: usize = 100;

/// How many git directories one search follows: they name each other, also unlisted.
const GIT_DIRS: usize = 15_000;

/// How much configuration one search reads, bytes; each file counts as a page at least.
const ALL_CONFIG_BYTES: usize = 64 * 1024 * 1024;

/// How many programs, times the work trees that they may lie in, one search looks for.
const PROGRAM_PLACES: usize = 200_000;

/// How long all paths that one search protects are together, bytes: the guard is told them in one
/// frame, of twice as much.
const PROTECTED_BYTES: usize = 8 * 1024 * 1024;

/// Directories that are large and hold no work of the user's; searched after all others.
const LATE: [&str; 12] = [
    "node_modules",
    "target",
    ".cache",
    ".cargo",
    ".rustup",
    ".npm",
    ".venv",
    "venv",
    ".local",
    ".vscode-server",
    "site-packages",
    "__pycache__",
];

/// Largest git control file that is read.
const CONTROL_BYTES: usize = 64 * 1024;

/// Largest configuration that is read; of a larger one the rest is told as not searched.
const CONFIG_BYTES: usize = 1024 * 1024;

/// Largest user database that is read.
const PASSWD_BYTES: usize = 4 * 1024 * 1024;

/// How deep configuration may include configuration, as git has it.
const INCLUDE_DEPTH: usize = 10;

/// What a search found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Paths to protect, in the spelling in which they were met.
    pub(super) protected: BTreeSet<AbsPath>,
    /// Unix sockets, to be hidden.
    pub(super) sockets: BTreeSet<AbsPath>,
    /// Directories that the budget left out.
    pub(super) unsearched: BTreeSet<AbsPath>,
    /// Directories that are there and could not be listed.
    pub(super) unreadable: BTreeSet<AbsPath>,
    /// The repositories' git directories.
    pub(super) repositories: BTreeSet<AbsPath>,
    /// What the user's and the system's configuration makes git run by a path in each work tree,
    /// also in one that is yet to be made.
    pub(super) relative: BTreeSet<Relative>,
}

/// A relative path that git runs in every repository.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Relative {
    /// As written.
    pub(super) path: Vec<u8>,
    /// Its only name, when that can be held wherever it is met.
    pub(super) name: Option<Vec<u8>>,
}

/// One git directory.
#[derive(Debug, Default)]
struct Repository {
    /// Where its relative paths may start: every work tree that uses it.
    trees: BTreeSet<AbsPath>,
    /// What its configuration makes git run.
    programs: BTreeSet<Program>,
}

/// A bounded search of writable roots.
pub(super) struct Search<'a> {
    host: &'a dyn HostFs,
    homes: Homes<'a>,
    /// Never entered: masks, read-only binds.
    closed: &'a BTreeSet<AbsPath>,
    budget: usize,
    git_dirs: usize,
    config_bytes: usize,
    program_places: usize,
    protected_bytes: usize,
    found: Found,
    /// Directories to search after all others.
    late: VecDeque<AbsPath>,
    repositories: BTreeMap<AbsPath, Repository>,
    /// What the user's and the system's configuration makes git run in every repository.
    everywhere: BTreeSet<Program>,
}

impl<'a> Search<'a> {
    /// A search with a budget of entries.
    pub(super) fn new(
        host: &'a dyn HostFs,
        home: &'a AbsPath,
        closed: &'a BTreeSet<AbsPath>,
        budget: usize,
    ) -> Self {
        Self {
            host,
            homes: Homes {
                own: home,
                // Without it, only the own user's name is known.
                passwd: host
                    .read_small(&AbsPath::root().join("etc/passwd"), PASSWD_BYTES)
                    .unwrap_or_default(),
            },
            closed,
            budget,
            git_dirs: GIT_DIRS,
            config_bytes: ALL_CONFIG_BYTES,
            program_places: PROGRAM_PLACES,
            protected_bytes: PROTECTED_BYTES,
            found: Found::default(),
            late: VecDeque::new(),
            repositories: BTreeMap::new(),
            everywhere: BTreeSet::new(),
        }
    }

    /// Searches the roots, in order, each once.
    pub(super) fn run(mut self, roots: &[AbsPath]) -> Found {
        let mut seen = BTreeSet::new();
        let mut near: VecDeque<AbsPath> = roots.iter().cloned().collect();
        let deepest = roots.iter().map(AbsPath::depth).max().unwrap_or_default() + SEARCH_DEPTH;
        while let Some(dir) = near.pop_front().or_else(|| self.late.pop_front()) {
            if self.closed.contains(&dir) || !seen.insert(dir.clone()) {
                continue;
            }
            if dir.depth() > deepest {
                self.found.unsearched.insert(dir);
                continue;
            }
            let Some(listing) = self.list(&dir) else {
                continue;
            };
            // A program inside can make any folder look like this one: what is below counts too.
            let bare = is_git_dir(&listing);
            if bare {
                self.git_dir(&dir, None);
            }
            // A launch goes through thousands of names: only what counts becomes a path.
            for (name, kind) in &listing.entries {
                let at = || dir.join(name);
                if name == b".git" {
                    self.dot_git(&at(), *kind);
                    continue;
                }
                if is_one_of(name, &ANYWHERE) {
                    self.protect(at(), &dir);
                    continue;
                }
                match kind {
                    NodeKind::Dir if bare && name == b"objects" || is_one_of(name, &LATE) => {
                        self.late.push_back(at());
                    }
                    NodeKind::Dir => near.push_back(at()),
                    NodeKind::Socket => {
                        self.found.sockets.insert(at());
                    }
                    NodeKind::File | NodeKind::Symlink | NodeKind::Special => {}
                }
            }
        }
        self.protect_programs();
        self.found
    }

    /// Takes a user-wide or system-wide configuration into account; it may be missing.
    pub(super) fn config_file(&mut self, at: &AbsPath) {
        let mut programs = std::mem::take(&mut self.everywhere);
        self.config(at, &mut programs, &mut BTreeSet::new(), INCLUDE_DEPTH);
        self.everywhere = programs;
    }

    /// Protects what each repository's configuration, and everyone's, makes git run, wherever a
    /// relative path may lead.
    fn protect_programs(&mut self) {
        for program in &self.everywhere {
            self.found.protected.extend(program.absolute(&self.homes));
            self.found
                .relative
                .extend(program.relative().map(|path| Relative {
                    path: path.to_vec(),
                    name: program.hidden_name().map(<[u8]>::to_vec),
                }));
        }
        let mut all = Vec::new();
        for (dir, repository) in &self.repositories {
            self.found.repositories.insert(dir.clone());
            let programs = repository.programs.len() + self.everywhere.len();
            let places = programs.saturating_mul(repository.trees.len());
            if places > self.program_places {
                self.found.unsearched.insert(dir.clone());
                continue;
            }
            self.program_places -= places;
            for program in repository.programs.iter().chain(&self.everywhere) {
                all.extend(program.absolute(&self.homes).map(|at| (at, dir.clone())));
                for tree in &repository.trees {
                    if let Some(at) = program.below(tree)
                        && (program.sure || self.host.symlink_metadata(&at).is_ok())
                    {
                        all.push((at, dir.clone()));
                    }
                }
            }
        }
        for (at, dir) in all {
            self.protect(at, &dir);
        }
    }

    /// Takes a path that was found in a folder, or the folder as not searched to its end.
    fn protect(&mut self, at: AbsPath, dir: &AbsPath) {
        let length = at.as_bytes().len();
        if self.found.protected.contains(&at) {
            return;
        }
        if length > self.protected_bytes {
            self.found.unsearched.insert(dir.clone());
            return;
        }
        self.protected_bytes -= length;
        self.found.protected.insert(at);
    }

    fn list(&mut self, dir: &AbsPath) -> Option<Arc<Listing>> {
        if self.budget == 0 {
            self.found.unsearched.insert(dir.clone());
            return None;
        }
        let listing = match self.host.read_dir(dir, self.budget) {
            Ok(listing) => listing,
            Err(cause) if is_gone(&cause) => return None,
            // Its owner can make it readable again inside.
            Err(_) => {
                self.found.unreadable.insert(dir.clone());
                return None;
            }
        };
        self.budget -= listing.entries.len().min(self.budget);
        if listing.cut {
            self.found.unsearched.insert(dir.clone());
        }
        Some(listing)
    }

    /// A `.git`: a repository's directory, a file that names one, or a symlink to either.
    fn dot_git(&mut self, at: &AbsPath, kind: NodeKind) {
        let tree = at.parent();
        match kind {
            NodeKind::Dir => self.git_dir(at, tree),
            NodeKind::File => {
                self.found.protected.insert(at.clone());
                if let Some(dir) = git_file_target(self.host, at) {
                    self.git_dir(&dir, tree);
                }
            }
            NodeKind::Symlink => {
                self.found.protected.insert(at.clone());
                match walk(self.host, at).end {
                    End::Found { path, info } if info.kind == NodeKind::Dir => {
                        self.git_dir(&path, tree);
                    }
                    End::Found { path, info } if info.kind == NodeKind::File => {
                        self.found.protected.insert(path.clone());
                        if let Some(dir) = git_file_target(self.host, &path) {
                            self.git_dir(&dir, tree);
                        }
                    }
                    End::Found { .. } | End::Missing { .. } | End::Unknown { .. } => {}
                }
            }
            NodeKind::Socket | NodeKind::Special => {}
        }
    }

    /// Takes a git directory and those that it names, which may be a long chain.
    fn git_dir(&mut self, dir: &AbsPath, tree: Option<AbsPath>) {
        let mut todo = VecDeque::from([(dir.clone(), tree)]);
        while let Some((dir, tree)) = todo.pop_front() {
            self.one_git_dir(&dir, tree, &mut todo);
        }
    }

    fn one_git_dir(
        &mut self,
        dir: &AbsPath,
        tree: Option<AbsPath>,
        more: &mut VecDeque<(AbsPath, Option<AbsPath>)>,
    ) {
        if let Some(known) = self.repositories.get_mut(dir) {
            known.trees.extend(tree);
            return;
        }
        if self.git_dirs == 0 {
            self.found.unsearched.insert(dir.clone());
            return;
        }
        self.git_dirs -= 1;
        // A bare repository's paths start at itself, and so do those of hooks.
        let mut repository = Repository::default();
        repository.trees.insert(dir.clone());
        repository.trees.extend(tree);
        if dir.file_name() == Some(b".git") {
            repository.trees.extend(dir.parent());
        }
        for name in ["hooks", "config", "config.worktree", "commondir"] {
            self.protect(dir.join(name), dir);
        }
        if self.host.symlink_metadata(&dir.join("gitdir")).is_ok() {
            self.protect(dir.join("gitdir"), dir);
        }
        repository.trees.extend(linked_tree(self.host, dir));
        repository.trees.extend(configured_tree(self.host, dir));
        for name in ["config", "config.worktree"] {
            let programs = &mut repository.programs;
            self.config(
                &dir.join(name),
                programs,
                &mut BTreeSet::new(),
                INCLUDE_DEPTH,
            );
        }
        self.repositories.insert(dir.clone(), repository);

        if let Some(common) = common_dir(self.host, dir) {
            more.push_back((common, linked_tree(self.host, dir)));
        }
        let worktrees = dir.join("worktrees");
        if let Some(listing) = self.list_dir(&worktrees) {
            for (name, kind) in &listing.entries {
                if *kind == NodeKind::Dir {
                    let linked = worktrees.join(name);
                    let tree = linked_tree(self.host, &linked);
                    more.push_back((linked, tree.clone()));
                    // The shared configuration holds in every work tree.
                    more.push_back((dir.clone(), tree));
                }
            }
        }
        // Names of submodules may hold slashes, so their directories nest.
        let mut todo = VecDeque::from([dir.join("modules")]);
        while let Some(at) = todo.pop_front() {
            let Some(listing) = self.list_dir(&at) else {
                continue;
            };
            let module = is_git_dir(&listing);
            if module {
                more.push_back((at.clone(), None));
            }
            for (name, kind) in &listing.entries {
                match kind {
                    NodeKind::Dir if module && name == b"modules" => {}
                    // Large, and no submodule's but by a program's doing.
                    NodeKind::Dir if module && name == b"objects" => {
                        self.late.push_back(at.join(name));
                    }
                    NodeKind::Dir => todo.push_back(at.join(name)),
                    NodeKind::File | NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {}
                }
            }
        }
    }

    /// Lists a directory that need not exist.
    fn list_dir(&mut self, dir: &AbsPath) -> Option<Arc<Listing>> {
        let is_dir = |info: super::NodeInfo| info.kind == NodeKind::Dir;
        if self.host.symlink_metadata(dir).is_ok_and(is_dir) {
            self.list(dir)
        } else {
            None
        }
    }

    /// Reads a configuration and what it includes: included files are protected, what git would
    /// run is collected.
    fn config(
        &mut self,
        at: &AbsPath,
        programs: &mut BTreeSet<Program>,
        seen: &mut BTreeSet<AbsPath>,
        depth: usize,
    ) {
        if depth == 0 || !seen.insert(at.clone()) {
            return;
        }
        let End::Found { path: real, .. } = walk(self.host, at).end else {
            return;
        };
        if self.config_bytes == 0 {
            self.found.unsearched.insert(real);
            return;
        }
        let Ok(text) = self.host.read_small(&real, CONFIG_BYTES) else {
            return;
        };
        self.config_bytes = self.config_bytes.saturating_sub(text.len().max(4096));
        if text.len() == CONFIG_BYTES {
            self.found.unsearched.insert(real);
        }
        let base = at.parent().unwrap_or_else(AbsPath::root);
        for (section, key, value) in settings(&text) {
            if matches!(section.as_str(), "include" | "includeif") && key == "path" {
                let included = match value.first() {
                    Some(b'~') => self.homes.expand(&value),
                    Some(_) => Some(base.join(&value)),
                    None => None,
                };
                let Some(included) = included else {
                    continue;
                };
                self.config(&included, programs, seen, depth - 1);
                self.protect(included, &base);
            } else {
                programs.extend(run_by(&section, &key, &value));
            }
        }
    }
}

/// Whether an error says that there is no directory.
fn is_gone(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

/// Whether a listing is a git directory's, as git itself tells it.
fn is_git_dir(listing: &Listing) -> bool {
    let has = |name: &[u8], dir: bool| {
        listing
            .entries
            .iter()
            .any(|(entry, kind)| entry == name && (*kind == NodeKind::Dir) == dir)
    };
    has(b"HEAD", false)
        && ((has(b"objects", true) && has(b"refs", true)) || has(b"commondir", false))
}

/// The directory that a `.git` file names (gitrepository-layout(5)).
fn git_file_target(host: &dyn HostFs, at: &AbsPath) -> Option<AbsPath> {
    let text = host.read_small(at, CONTROL_BYTES).ok()?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    resolved_dir(host, &at.parent()?.join(target))
}

/// The common directory of a linked worktree's git directory.
fn common_dir(host: &dyn HostFs, git_dir: &AbsPath) -> Option<AbsPath> {
    let text = host
        .read_small(&git_dir.join("commondir"), CONTROL_BYTES)
        .ok()?;
    resolved_dir(host, &git_dir.join(text.trim_ascii()))
}

/// The work tree of a linked worktree's git directory.
fn linked_tree(host: &dyn HostFs, git_dir: &AbsPath) -> Option<AbsPath> {
    let text = host
        .read_small(&git_dir.join("gitdir"), CONTROL_BYTES)
        .ok()?;
    let dot_git = git_dir.join(text.trim_ascii());
    resolved_dir(host, &dot_git.parent()?)
}

/// The work tree that a git directory's own configuration names, as a submodule's does.
fn configured_tree(host: &dyn HostFs, git_dir: &AbsPath) -> Option<AbsPath> {
    let config = host
        .read_small(&git_dir.join("config"), CONFIG_BYTES)
        .ok()?;
    let named = settings(&config)
        .into_iter()
        .find_map(|(section, key, value)| {
            (section == "core" && key == "worktree").then(|| git_dir.join(value))
        })?;
    resolved_dir(host, &named)
}

fn resolved_dir(host: &dyn HostFs, at: &AbsPath) -> Option<AbsPath> {
    match walk(host, at).end {
        End::Found { path, info } if info.kind == NodeKind::Dir => Some(path),
        End::Found { .. } | End::Missing { .. } | End::Unknown { .. } => None,
    }
}

/// The git directories outside a root that commits in it need: for a linked worktree its common
/// directory, for a submodule its own. A `.git` file alone proves nothing, since a program inside
/// could have written it; the directory it names must name the root back, which only who can write
/// there can have done.
pub(super) fn repository_of(host: &dyn HostFs, root: &AbsPath) -> Option<AbsPath> {
    let dot_git = root.join(".git");
    let git_dir = git_file_target(host, &dot_git)?;
    if let Some(common) = common_dir(host, &git_dir) {
        let back = host
            .read_small(&git_dir.join("gitdir"), CONTROL_BYTES)
            .ok()?;
        let back = git_dir.join(back.trim_ascii());
        let End::Found { path, .. } = walk(host, &back).end else {
            return None;
        };
        let listing = host.read_dir(&common, 1000).ok()?;
        return (path == dot_git && git_dir.is_within(&common.join("worktrees")))
            .then_some(common)
            .filter(|_| is_git_dir(&listing));
    }
    let listing = host.read_dir(&git_dir, 1000).ok()?;
    (is_git_dir(&listing) && configured_tree(host, &git_dir).as_ref() == Some(root))
        .then_some(git_dir)
}

#[cfg(test)]
mod tests;

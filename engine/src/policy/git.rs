//! Repositories inside writable roots, and what in them makes git on the host run a program: hooks
//! and configuration of every depth, followed through `.git` files, `commondir`, submodules,
//! worktrees and included configuration. Read without running git.

use super::protect::ANYWHERE;
use super::walk::{End, walk};
use super::{HostFs, Listing, NodeKind};
use crate::spec::AbsPath;
use std::collections::{BTreeSet, VecDeque};

/// How many directory entries one search reads. Breadth first, so what is near is found first.
pub const SEARCH_ENTRIES: usize = 15_000;

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

/// How deep configuration may include configuration.
const INCLUDE_DEPTH: usize = 4;

/// What a search found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Paths to protect, in the spelling in which they were met.
    pub(super) protected: BTreeSet<AbsPath>,
    /// Unix sockets, to be hidden.
    pub(super) sockets: BTreeSet<AbsPath>,
    /// Directories that the budget left out.
    pub(super) unsearched: BTreeSet<AbsPath>,
}

/// A bounded search of writable roots.
pub(super) struct Search<'a> {
    host: &'a dyn HostFs,
    home: &'a AbsPath,
    /// Never entered: masks, read-only binds.
    closed: &'a BTreeSet<AbsPath>,
    budget: usize,
    found: Found,
    git_dirs: BTreeSet<AbsPath>,
    configs: BTreeSet<AbsPath>,
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
            home,
            closed,
            budget,
            found: Found::default(),
            git_dirs: BTreeSet::new(),
            configs: BTreeSet::new(),
        }
    }

    /// Searches the roots, in order, each once.
    pub(super) fn run(mut self, roots: &[AbsPath]) -> Found {
        let mut seen = BTreeSet::new();
        let mut near: VecDeque<AbsPath> = roots.iter().cloned().collect();
        let mut late: VecDeque<AbsPath> = VecDeque::new();
        while let Some(dir) = near.pop_front().or_else(|| late.pop_front()) {
            if self.closed.contains(&dir) || !seen.insert(dir.clone()) {
                continue;
            }
            let Some(listing) = self.list(&dir) else {
                continue;
            };
            if is_git_dir(&listing) {
                self.git_dir(&dir);
                continue;
            }
            for (name, kind) in listing.entries {
                let at = dir.join(&name);
                if name == b".git" {
                    self.dot_git(&at, kind);
                    continue;
                }
                if is_one_of(&name, &ANYWHERE) {
                    self.found.protected.insert(at);
                    continue;
                }
                match kind {
                    NodeKind::Dir if is_one_of(&name, &LATE) => late.push_back(at),
                    NodeKind::Dir => near.push_back(at),
                    NodeKind::Socket => {
                        self.found.sockets.insert(at);
                    }
                    NodeKind::File | NodeKind::Symlink | NodeKind::Special => {}
                }
            }
        }
        self.found
    }

    /// Protects what a user-wide configuration includes or runs.
    pub(super) fn config_file(&mut self, at: &AbsPath) {
        let base = at.parent().unwrap_or_else(AbsPath::root);
        self.config(at, &base, INCLUDE_DEPTH);
    }

    fn list(&mut self, dir: &AbsPath) -> Option<Listing> {
        if self.budget == 0 {
            self.found.unsearched.insert(dir.clone());
            return None;
        }
        let Ok(listing) = self.host.read_dir(dir, self.budget) else {
            // Not readable for the user: not enterable inside either, who is the same user there.
            return None;
        };
        self.budget -= listing.entries.len().min(self.budget);
        if listing.cut {
            self.found.unsearched.insert(dir.clone());
        }
        Some(listing)
    }

    /// A `.git`: a repository's directory, a file that names one, or a symlink to either.
    fn dot_git(&mut self, at: &AbsPath, kind: NodeKind) {
        match kind {
            NodeKind::Dir => self.git_dir(at),
            NodeKind::File => {
                self.found.protected.insert(at.clone());
                if let Some(dir) = git_file_target(self.host, at) {
                    self.git_dir(&dir);
                }
            }
            NodeKind::Symlink => {
                self.found.protected.insert(at.clone());
                match walk(self.host, at).end {
                    End::Found { path, info } if info.kind == NodeKind::Dir => self.git_dir(&path),
                    End::Found { path, info } if info.kind == NodeKind::File => {
                        self.dot_git(&path, NodeKind::File);
                    }
                    End::Found { .. } | End::Missing { .. } | End::Unknown { .. } => {}
                }
            }
            NodeKind::Socket | NodeKind::Special => {}
        }
    }

    fn git_dir(&mut self, dir: &AbsPath) {
        if !self.git_dirs.insert(dir.clone()) {
            return;
        }
        for name in ["hooks", "config", "config.worktree", "commondir"] {
            self.found.protected.insert(dir.join(name));
        }
        if self.host.symlink_metadata(&dir.join("gitdir")).is_ok() {
            self.found.protected.insert(dir.join("gitdir"));
        }
        let work_tree = dir.parent().unwrap_or_else(AbsPath::root);
        self.config(&dir.join("config"), &work_tree, INCLUDE_DEPTH);
        self.config(&dir.join("config.worktree"), &work_tree, INCLUDE_DEPTH);
        if let Some(common) = common_dir(self.host, dir) {
            self.git_dir(&common);
        }
        let worktrees = dir.join("worktrees");
        if let Some(listing) = self.list_dir(&worktrees) {
            for (name, kind) in listing.entries {
                if kind == NodeKind::Dir {
                    self.git_dir(&worktrees.join(&name));
                }
            }
        }
        // Names of submodules may hold slashes, so their directories nest.
        let mut todo = VecDeque::from([dir.join("modules")]);
        while let Some(at) = todo.pop_front() {
            let Some(listing) = self.list_dir(&at) else {
                continue;
            };
            if is_git_dir(&listing) {
                self.git_dir(&at);
                continue;
            }
            for (name, kind) in listing.entries {
                if kind == NodeKind::Dir {
                    todo.push_back(at.join(&name));
                }
            }
        }
    }

    /// Lists a directory that need not exist.
    fn list_dir(&mut self, dir: &AbsPath) -> Option<Listing> {
        let is_dir = |info: super::NodeInfo| info.kind == NodeKind::Dir;
        if self.host.symlink_metadata(dir).is_ok_and(is_dir) {
            self.list(dir)
        } else {
            None
        }
    }

    fn config(&mut self, at: &AbsPath, work_tree: &AbsPath, depth: usize) {
        if depth == 0 || !self.configs.insert(at.clone()) {
            return;
        }
        let End::Found { path: real, .. } = walk(self.host, at).end else {
            return;
        };
        let Ok(text) = self.host.read_small(&real, CONTROL_BYTES) else {
            return;
        };
        let base = at.parent().unwrap_or_else(AbsPath::root);
        for (section, key, value) in settings(&text) {
            match (section.as_str(), key.as_str()) {
                ("include" | "includeif", "path") => {
                    let included = self.relative(&value, &base);
                    self.config(&included, work_tree, depth - 1);
                    self.found.protected.insert(included);
                }
                ("core", "hookspath") => {
                    let hooks = self.relative(&value, work_tree);
                    self.found.protected.insert(hooks);
                }
                // A program by path; a name without a slash is looked up on PATH.
                ("core", "fsmonitor" | "sshcommand" | "editor" | "pager" | "askpass")
                | ("credential", "helper")
                | ("diff", "external")
                | ("gpg", "program")
                    if value.contains(&b'/') && !value.contains(&b' ') =>
                {
                    let program = self.relative(&value, work_tree);
                    self.found.protected.insert(program);
                }
                _ => {}
            }
        }
    }

    fn relative(&self, value: &[u8], base: &AbsPath) -> AbsPath {
        match value.strip_prefix(b"~/") {
            Some(below) => self.home.join(below),
            None => base.join(value),
        }
    }
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
    let config = host
        .read_small(&git_dir.join("config"), CONTROL_BYTES)
        .ok()?;
    let named = settings(&config)
        .into_iter()
        .find_map(|(section, key, value)| {
            (section == "core" && key == "worktree").then(|| git_dir.join(value))
        })?;
    (is_git_dir(&listing) && resolved_dir(host, &named).as_ref() == Some(root)).then_some(git_dir)
}

/// The settings of a git configuration: section and key in lower case, subsections dropped.
fn settings(text: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"[") {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                continue;
            };
            let name = rest.get(..end).unwrap_or_default();
            let name = name
                .split(|byte| matches!(byte, b' ' | b'"' | b'\t' | b'.'))
                .next();
            section = String::from_utf8_lossy(name.unwrap_or_default()).to_lowercase();
            line = rest.get(end + 1..).unwrap_or_default().trim_ascii();
        }
        if matches!(line.first(), None | Some(b'#' | b';')) {
            continue;
        }
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let key = line.get(..equals).unwrap_or_default().trim_ascii();
        let value = line.get(equals + 1..).unwrap_or_default().trim_ascii();
        let key = String::from_utf8_lossy(key).to_lowercase();
        found.push((section.clone(), key, unquoted(value)));
    }
    found
}

/// A value without its quotes, escapes and comment.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut quoted = false;
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => break,
            b'\\' => out.extend(bytes.next()),
            other => out.push(other),
        }
    }
    out.trim_ascii().to_vec()
}

#[cfg(test)]
mod tests;

//! What the guard's supervisor holds of the write-denies: paths whether they exist or not, and
//! files whatever they are called (REQ BW-5, SP-1, SP-2). The mounts hold what exists too, and for
//! reads they alone.

use super::layout::{Layout, Place};
use super::protect::ANYWHERE;
use super::{Access, BindRole, FileId};
use crate::spec::AbsPath;
use std::collections::BTreeSet;

/// The paths that a policy wants the supervisor to hold, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Held {
    protected: BTreeSet<AbsPath>,
    /// Places inside a runner's state that are judged all the same.
    reopened: BTreeSet<AbsPath>,
    inodes: BTreeSet<FileId>,
    /// Names that git runs in every repository, by configuration.
    names: BTreeSet<Vec<u8>>,
}

/// What the supervisor enforces on names and paths. Paths are canonical, or literal spellings of
/// such (REQ SP-2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePolicy {
    /// Folders and files of the host that can be written.
    pub(crate) roots: Vec<AbsPath>,
    /// Runner state inside of them, where nothing is judged.
    pub(crate) exempt: Vec<AbsPath>,
    /// Globs of names that cannot be made.
    pub(crate) names: Vec<String>,
    /// Where those globs do not hold.
    pub(crate) exceptions: Vec<String>,
    /// Neither these nor what is below can be changed.
    pub(crate) protected: Vec<AbsPath>,
    /// Names that are protected like them wherever they are met.
    pub(crate) anywhere: Vec<Vec<u8>>,
    /// Protected files that have other names.
    pub(crate) inodes: Vec<FileId>,
}

/// Who asks that a path is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The spec by name: it wins over every root.
    Explicit,
    /// The mandatory set: a folder that the session was given by name wins over it.
    Mandatory,
    /// The search: nor does it hold inside a runner's state, but by its mounts.
    Searched,
}

/// Whether the supervisor judges a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Judged {
    /// It lies in a folder that can be written.
    Root,
    /// It lies in this runner state directory.
    Exempt(AbsPath),
    /// Neither: read-only, or private to the session.
    No,
}

impl Layout<'_> {
    fn judged(&self, path: &AbsPath) -> Judged {
        let here = std::iter::once(path.clone());
        for at in here.chain(path.ancestors()) {
            match self.places.get(&at) {
                Some(Place::Bind(bind)) if is_root(bind.role, bind.access) => return Judged::Root,
                Some(Place::Bind(bind))
                    if bind.role == BindRole::RunnerState && bind.access == Access::Write =>
                {
                    return Judged::Exempt(at);
                }
                Some(Place::Bind(_) | Place::Mask(_) | Place::Private(_)) | None => {}
            }
        }
        Judged::No
    }

    /// Lets the supervisor hold a path, whether it exists or not; whether it does.
    pub(super) fn hold(&mut self, path: &AbsPath, claim: Claim) -> bool {
        if claim != Claim::Explicit && self.covers_writable(path) {
            return false;
        }
        match self.judged(path) {
            Judged::Root => {}
            Judged::Exempt(state) => {
                if claim == Claim::Searched {
                    return false;
                }
                // From the topmost folder on, so that none above the path can be moved away.
                let below = path.below(&state).unwrap_or_default();
                let first = below.split(|byte| *byte == b'/').next();
                match first.filter(|name| !name.is_empty()) {
                    Some(name) => self.held.reopened.insert(state.join(name)),
                    None => return false,
                };
            }
            Judged::No => return false,
        }
        self.held.protected.insert(path.clone());
        true
    }

    /// Lets the supervisor hold a file by its inode, since it has other names; whether it does
    /// under all of them.
    pub(super) fn hold_inode(&mut self, id: FileId) -> bool {
        self.held.inodes.insert(id);
        // One of them may lie in a runner's state, where nothing is judged.
        !self.has_state
    }

    /// Lets the supervisor hold a name wherever it is met.
    pub(super) fn hold_anywhere(&mut self, name: Vec<u8>) {
        self.held.names.insert(name);
    }

    /// Whether a folder that can be written lies at or below a path.
    pub(super) fn covers_writable(&self, path: &AbsPath) -> bool {
        self.places_within(path).any(|(_, place)| {
            matches!(place, Place::Bind(bind)
                if bind.access == Access::Write && bind.role != BindRole::Pinned)
        })
    }

    /// The rules, once everything stands.
    pub(super) fn file_policy(&self, names: &[String], exceptions: &[String]) -> FilePolicy {
        let binds = || {
            self.places.values().filter_map(|place| match place {
                Place::Bind(bind) => Some(bind),
                Place::Private(_) | Place::Mask(_) => None,
            })
        };
        let held = &self.held;
        let mut roots: BTreeSet<AbsPath> = binds()
            .filter(|bind| is_root(bind.role, bind.access))
            .map(|bind| bind.path.clone())
            .collect();
        roots.extend(held.reopened.iter().cloned());
        let exempt = binds()
            .filter(|bind| bind.role == BindRole::RunnerState && bind.access == Access::Write)
            .map(|bind| bind.path.clone())
            .collect();
        // A root that became read-only since is not judged any more.
        let judged = |path: &&AbsPath| match self.judged(path) {
            Judged::Root => true,
            Judged::Exempt(_) => std::iter::once((*path).clone())
                .chain(path.ancestors())
                .any(|at| held.reopened.contains(&at)),
            Judged::No => false,
        };
        let everywhere = ANYWHERE.iter().map(|name| name.as_bytes().to_vec());
        FilePolicy {
            roots: roots.into_iter().collect(),
            exempt,
            names: names.to_vec(),
            exceptions: exceptions.to_vec(),
            protected: held.protected.iter().filter(judged).cloned().collect(),
            anywhere: everywhere.chain(held.names.iter().cloned()).collect(),
            inodes: held.inodes.iter().copied().collect(),
        }
    }
}

/// Whether a bind is a folder or file of the host that the session can write.
fn is_root(role: BindRole, access: Access) -> bool {
    access == Access::Write
        && match role {
            BindRole::Home | BindRole::Workdir | BindRole::Listed | BindRole::Repository => true,
            BindRole::System | BindRole::RunnerState | BindRole::Protected | BindRole::Pinned => {
                false
            }
        }
}

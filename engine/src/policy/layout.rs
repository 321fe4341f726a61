//! The layout of a sandbox's root while it is put together: binds, private directories, masks and
//! symlinks by place, and the one question that everything hangs on: what governs a path?

use super::files::{Claim, Held};
use super::gap::{GapKind, Gaps};
use super::walk::{End, Walk, walk};
use super::{
    Access, Bind, BindRole, HostContext, HostFs, Link, Mask, NodeInfo, NodeKind, PathRole,
    PolicyError, PrivateDir,
};
use crate::probe::SupervisionLack;
use crate::spec::AbsPath;
use std::collections::{BTreeMap, BTreeSet};

/// Most mounts of what the search finds, with the folders above them, where the supervisor holds it
/// too: bubblewrap takes longer with the square of them, and a program inside can make thousands of
/// repositories.
const SEARCHED_MOUNTS: usize = 1_000;

#[cfg(test)]
thread_local! {
    /// How many places were looked at to answer questions, in this thread.
    pub(super) static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What stands at a place of the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Bind(Bind),
    Private(PrivateDir),
    Mask(Mask),
}

/// A layout in the making.
pub(super) struct Layout<'a> {
    pub(super) host: &'a dyn HostFs,
    pub(super) context: &'a HostContext,
    /// The home directory, canonical when it exists.
    pub(super) home: AbsPath,
    pub(super) places: BTreeMap<AbsPath, Place>,
    links: BTreeMap<AbsPath, Vec<u8>>,
    pub(super) gaps: Gaps,
    /// Secrets that are not there, where they would be seen.
    pub(super) missing_secrets: Vec<AbsPath>,
    pub(super) held: Held,
    /// Folders held because they could not be searched.
    pub(super) unread: BTreeSet<AbsPath>,
    /// Whether a folder is a runner's state.
    pub(super) has_state: bool,
    /// Whether the guard's supervisor works on this host.
    supervised: bool,
    /// Mounts that the search has taken.
    searched_mounts: usize,
    /// Folders above them, counted among them.
    counted: BTreeSet<AbsPath>,
}

/// A path that was found.
#[derive(Debug, Clone)]
pub(super) struct Located {
    pub(super) path: AbsPath,
    pub(super) info: NodeInfo,
}

impl<'a> Layout<'a> {
    pub(super) fn new(host: &'a dyn HostFs, context: &'a HostContext) -> Self {
        Self {
            host,
            context,
            home: context.home.clone(),
            places: BTreeMap::new(),
            links: BTreeMap::new(),
            gaps: Gaps::default(),
            missing_secrets: Vec::new(),
            held: Held::default(),
            unread: BTreeSet::new(),
            has_state: false,
            supervised: SupervisionLack::of(&context.facts).is_none(),
            searched_mounts: 0,
            counted: BTreeSet::new(),
        }
    }

    /// A path for people: below the home directory with `~`.
    pub(super) fn shown(&self, path: &AbsPath) -> String {
        for home in [&self.home, &self.context.home] {
            match path.below(home) {
                Some(b"") => return "~".to_owned(),
                Some(_) => {
                    // The rest through Display, so that control characters are escaped.
                    let text = path.to_string();
                    let home = home.to_string();
                    return format!("~{}", text.strip_prefix(&home).unwrap_or(&text));
                }
                None => {}
            }
        }
        path.to_string()
    }

    /// Finds a path that must exist, remembering the symlinks that lead to it.
    pub(super) fn locate(
        &mut self,
        path: &AbsPath,
        role: PathRole,
    ) -> Result<Located, PolicyError> {
        let Walk { links, end } = walk(self.host, path);
        match end {
            End::Found { path, info } => {
                self.links.extend(links);
                Ok(Located { path, info })
            }
            End::Missing { cause, .. } => Err(PolicyError::Missing {
                role,
                path: path.clone(),
                cause,
            }),
            End::Unknown { cause, .. } => Err(PolicyError::Unreadable {
                role,
                path: path.clone(),
                cause,
            }),
        }
    }

    /// Finds a path that may be missing, remembering the symlinks that lead to it.
    pub(super) fn locate_if_there(&mut self, path: &AbsPath) -> Option<Located> {
        let Walk { links, end } = walk(self.host, path);
        match end {
            End::Found { path, info } => {
                self.links.extend(links);
                Some(Located { path, info })
            }
            End::Missing { .. } | End::Unknown { .. } => None,
        }
    }

    /// Puts a bind; one that stands within another of the same access, and has no reason to be a
    /// mount of its own, is left out.
    pub(super) fn bind(&mut self, at: &Located, access: Access, role: BindRole) {
        let covered = matches!(
            self.governing(&at.path),
            Some((_, Place::Bind(bind))) if bind.access == access
        );
        if covered
            && matches!(
                role,
                BindRole::System | BindRole::Listed | BindRole::Protected
            )
        {
            return;
        }
        self.has_state |= role == BindRole::RunnerState && at.info.kind == NodeKind::Dir;
        let bind = Bind {
            path: at.path.clone(),
            access,
            id: at.info.id,
            kind: at.info.kind,
            role,
        };
        self.places.insert(at.path.clone(), Place::Bind(bind));
    }

    /// Puts an empty private directory.
    pub(super) fn private(&mut self, path: AbsPath, perms: u32, sealed: bool) {
        let dir = PrivateDir {
            path: path.clone(),
            perms,
            sealed,
        };
        self.places.insert(path, Place::Private(dir));
    }

    /// What governs a path: the nearest place at or above it.
    pub(super) fn governing(&self, path: &AbsPath) -> Option<(&AbsPath, &Place)> {
        std::iter::once(path.clone())
            .chain(path.ancestors())
            .find_map(|at| self.places.get_key_value(&at))
    }

    /// The places at and below a path.
    pub(super) fn places_within<'p>(
        &'p self,
        path: &AbsPath,
    ) -> impl Iterator<Item = (&'p AbsPath, &'p Place)> + use<'p> {
        let here = self.places.get_key_value(path);
        let all = here
            .into_iter()
            .chain(self.places.range(path.descendants()));
        #[cfg(test)]
        let all = all.inspect(|_| LOOKED.set(LOOKED.get() + 1));
        all
    }

    /// Takes a mount for what the search found, and those that will pin the folders above it;
    /// false when that is more than a launch shall wait for and the supervisor works.
    pub(super) fn take_searched_mount(&mut self, path: &AbsPath) -> bool {
        if !self.supervised {
            return true;
        }
        let above: Vec<AbsPath> = path
            .ancestors()
            .take_while(|dir| !self.places.contains_key(dir) && !self.counted.contains(dir))
            .collect();
        let taken = self.searched_mounts + 1 + above.len();
        if taken > SEARCHED_MOUNTS {
            return false;
        }
        self.searched_mounts = taken;
        self.counted.extend(above);
        true
    }

    /// Whether something below a path could be written through a bind.
    pub(super) fn is_writable(&self, path: &AbsPath) -> bool {
        matches!(
            self.governing(path),
            Some((_, Place::Bind(bind))) if bind.access == Access::Write
        )
    }

    /// Whether the host's own content is visible at a path.
    pub(super) fn is_visible(&self, path: &AbsPath) -> bool {
        matches!(self.governing(path), Some((_, Place::Bind(_))))
    }

    /// Every writable bind, nearest to the work first.
    pub(super) fn writable_roots(&self) -> Vec<AbsPath> {
        let mut roots: Vec<&Bind> = self
            .places
            .values()
            .filter_map(|place| match place {
                Place::Bind(bind) if bind.access == Access::Write => Some(bind),
                Place::Bind(_) | Place::Private(_) | Place::Mask(_) => None,
            })
            .collect();
        roots.sort_by_key(|bind| (bind.role == BindRole::Home, bind.path.clone()));
        roots.into_iter().map(|bind| bind.path.clone()).collect()
    }

    /// Places that a search must not enter, besides the roots themselves.
    pub(super) fn closed(&self) -> BTreeSet<AbsPath> {
        self.places
            .iter()
            .filter(
                |(_, place)| !matches!(place, Place::Bind(bind) if bind.access == Access::Write),
            )
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Hides a path. What is bound below goes with it.
    pub(super) fn mask(&mut self, at: &Located) {
        let below: Vec<AbsPath> = self
            .places_within(&at.path)
            .map(|(path, _)| path.clone())
            .collect();
        for path in below {
            self.places.remove(&path);
        }
        let mask = Mask {
            path: at.path.clone(),
            kind: at.info.kind,
            id: at.info.id,
        };
        self.places.insert(at.path.clone(), Place::Mask(mask));
    }

    /// Holds the symlinks that lead to a protected path, and names a gap for each that can be
    /// replaced inside.
    pub(super) fn hold_links(&mut self, links: &[(AbsPath, Vec<u8>)], claim: Claim) {
        for (link, _) in links {
            let held = self.hold(link, claim);
            if link.parent().is_some_and(|dir| self.is_writable(&dir)) {
                let shown = self.shown(link);
                self.gaps
                    .of(held)
                    .add(GapKind::ProtectedPathIsSymlink, shown);
            }
        }
    }

    /// Binds every directory between a held path and the writable bind around it onto itself, so
    /// that none can be renamed away and made anew.
    pub(super) fn pin_ancestors(&mut self) {
        let held: Vec<AbsPath> = self
            .places
            .iter()
            .filter(|(_, place)| match place {
                Place::Bind(bind) => bind.access == Access::Read,
                Place::Mask(_) => true,
                Place::Private(_) => false,
            })
            .map(|(path, _)| path.clone())
            .collect();
        let mut seen = BTreeSet::new();
        for path in held {
            for dir in path.ancestors() {
                // From here on upwards it was done.
                if !seen.insert(dir.clone()) {
                    break;
                }
                // A place of its own cannot be renamed, but a directory further out can.
                if self.places.contains_key(&dir) {
                    continue;
                }
                if !self.is_writable(&dir) {
                    break;
                }
                // Vanished meanwhile: nothing is there to rename, and nothing is made on the host.
                let Ok(info) = self.host.symlink_metadata(&dir) else {
                    continue;
                };
                if info.kind == NodeKind::Dir {
                    self.bind(
                        &Located { path: dir, info },
                        Access::Write,
                        BindRole::Pinned,
                    );
                }
            }
        }
    }

    /// The symlinks that must be made anew: those that stand in no bind.
    pub(super) fn links(&self) -> Vec<Link> {
        self.links
            .iter()
            .filter(|(path, _)| !self.is_visible(path) && !self.places.contains_key(path))
            .filter(|(path, _)| !matches!(self.governing(path), Some((_, Place::Mask(_)))))
            .map(|(path, target)| Link {
                path: path.clone(),
                target: target.clone(),
            })
            .collect()
    }
}

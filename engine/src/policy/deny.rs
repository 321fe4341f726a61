//! What is denied whatever the spec gives: secrets, the mandatory write-denies, protected paths;
//! found first, applied to a layout last.

mod hold;

use self::hold::{
    hold_entry, hold_secret, hold_unreadable, not_visible, protect, protect_mandatory,
};
use super::files::Claim;
use super::gap::GapKind;
use super::git::{Relative, SEARCH_ENTRIES, Search};
use super::hard_links::HardLinks;
use super::layout::{Layout, Located, Place};
use super::protect::{ANYWHERE, mandatory};
use super::secrets::{absolute, secrets};
use super::walk::{End, Walk, expand, is_glob, walk};
use super::{Access, BindRole, DeniedKind, HostContext, HostFs, NodeKind, PathRole, PolicyError};
use crate::spec::{AbsPath, ValidSpec};
use std::collections::BTreeSet;
use std::io;

/// One denied path with where it leads.
struct Entry {
    /// As listed.
    path: AbsPath,
    walk: Walk,
}

/// Everything that is denied.
pub(super) struct Denials {
    /// Secrets, with whether each is Kotak's own.
    secrets: Vec<(Entry, bool)>,
    /// The spec's protected paths.
    explicit: Vec<Entry>,
    /// Those that are globs, as listed.
    explicit_globs: Vec<AbsPath>,
    /// The mandatory set, without what a search finds.
    mandatory: Vec<Entry>,
    /// The directories of `PATH`, canonical.
    path_dirs: BTreeSet<AbsPath>,
    /// Kotak's executables and directories: refused as binds.
    own: Vec<AbsPath>,
}

fn entries(host: &dyn HostFs, paths: impl IntoIterator<Item = AbsPath>) -> Vec<Entry> {
    let mut found = Vec::new();
    for pattern in paths {
        let expansion = expand(host, &pattern);
        let mut paths = expansion.paths;
        let unseen = expansion.unseen.into_iter().map(|end| Entry {
            path: pattern.clone(),
            walk: Walk {
                links: Vec::new(),
                end,
            },
        });
        let before = found.len();
        found.extend(unseen);
        if paths.is_empty() && found.len() == before {
            // A glob that names nothing now ends, as written, at what is missing.
            paths.push(pattern);
        }
        found.extend(paths.into_iter().map(|path| {
            let walk = walk(host, &path);
            Entry { path, walk }
        }));
    }
    found
}

impl Denials {
    /// Looks up every denied path.
    pub(super) fn find(spec: &ValidSpec, context: &HostContext, host: &dyn HostFs) -> Self {
        let mut denied = Vec::new();
        for secret in secrets(context) {
            let own = secret.own;
            denied.extend(
                entries(host, [secret.path])
                    .into_iter()
                    .map(|entry| (entry, own)),
            );
        }
        let mut own = Vec::new();
        for binary in &context.kotak.binaries {
            own.push(binary.clone());
            if let End::Found { path, .. } = walk(host, binary).end {
                own.push(path);
            }
        }
        Self {
            secrets: denied,
            explicit: entries(host, spec.protected().iter().cloned()),
            explicit_globs: spec
                .protected()
                .iter()
                .filter(|path| is_glob(path))
                .cloned()
                .collect(),
            mandatory: entries(host, mandatory(context)),
            path_dirs: entries(host, context.path_dirs())
                .into_iter()
                .filter_map(|entry| match entry.walk.end {
                    End::Found { path, .. } => Some(path),
                    End::Missing { .. } | End::Unknown { .. } => None,
                })
                .collect(),
            own,
        }
    }

    /// Whether programs may run from a folder that is held: the operator named it, by the spec or
    /// by `PATH`. What else is held may be full of what earlier sessions could write.
    pub(super) fn holds_programs(&self, dir: &AbsPath) -> bool {
        self.path_dirs.contains(dir)
            || self
                .explicit
                .iter()
                .any(|entry| matches!(&entry.walk.end, End::Found { path, .. } if path == dir))
    }

    /// Refuses a path at or inside a secret, or at or inside Kotak's own files.
    pub(super) fn refuse(&self, path: &AbsPath, role: PathRole) -> Result<(), PolicyError> {
        for (entry, own) in &self.secrets {
            let resolved = match &entry.walk.end {
                End::Found { path, .. } => Some(path),
                End::Missing { .. } | End::Unknown { .. } => None,
            };
            let inside = std::iter::once(&entry.path)
                .chain(resolved)
                .find(|at| path.is_within(at));
            match inside {
                Some(at) if *own => {
                    return Err(PolicyError::InsideKotak {
                        role,
                        path: path.clone(),
                        own: at.clone(),
                    });
                }
                Some(at) => {
                    return Err(PolicyError::InsideSecret {
                        role,
                        path: path.clone(),
                        secret: at.clone(),
                    });
                }
                None => {}
            }
        }
        match self.own.iter().find(|own| path.is_within(own)) {
            Some(own) => Err(PolicyError::InsideKotak {
                role,
                path: path.clone(),
                own: own.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The spec's protected path that a path lies in, if any.
    pub(super) fn explicitly_protecting(&self, path: &AbsPath) -> Option<&AbsPath> {
        self.explicit
            .iter()
            .find_map(|entry| match &entry.walk.end {
                End::Found {
                    path: protected, ..
                } if path.is_within(protected) => Some(protected),
                End::Found { .. } | End::Missing { .. } | End::Unknown { .. } => None,
            })
    }

    /// Whether a path lies in what must not be written, as far as it is known without a search.
    pub(super) fn protects(&self, path: &AbsPath) -> bool {
        self.explicit
            .iter()
            .chain(&self.mandatory)
            .any(|entry| match &entry.walk.end {
                End::Found { path: at, .. } | End::Missing { path: at, .. } => {
                    path.is_within(at) || path.is_within(&entry.path)
                }
                End::Unknown { .. } => path.is_within(&entry.path),
            })
    }

    /// Applies everything to a layout that stands.
    ///
    /// # Errors
    /// When a path that must be denied cannot be looked at: a program inside could take a folder's
    /// permissions so that the next session does not see what is in it, and give them back there.
    pub(super) fn apply(&self, layout: &mut Layout<'_>) -> Result<(), PolicyError> {
        self.mask_secrets(layout);
        self.refuse_unseen(layout)?;
        self.protect_explicit(layout);
        let closed = layout.closed();
        let home = layout.home.clone();
        let mut search = Search::new(layout.host, &home, &closed, SEARCH_ENTRIES);
        for at in user_configurations(layout.context, &home) {
            search.config_file(&at);
        }
        let roots = layout.writable_roots();
        let found = search.run(&roots);
        for dir in &found.unreadable {
            hold_unreadable(layout, dir, &roots)?;
        }
        for dir in &found.unsearched {
            let shown = layout.shown(dir);
            // Hooks, settings and names are held wherever they are met.
            layout.gaps.narrowed(
                GapKind::UnsearchedDirectories,
                GapKind::UnsearchedPrograms,
                &shown,
            );
        }
        for socket in &found.sockets {
            if let Ok(info) = layout.host.symlink_metadata(socket)
                && info.kind == NodeKind::Socket
                && layout.is_visible(socket)
            {
                layout.mask(&Located {
                    path: socket.clone(),
                    info,
                });
            }
        }
        let mut protected = found.protected;
        name_what_can_be_made(layout, &mut protected, found.relative);
        let mut searched = entries(layout.host, protected);
        // What is near gets its mount first.
        searched.sort_by_key(|entry| entry.path.depth());
        for entry in &searched {
            if let End::Unknown { at, .. } = &entry.walk.end {
                hold_unreadable(layout, at, &roots)?;
            }
        }
        let mandatory = self.mandatory.iter().map(|entry| (entry, Claim::Mandatory));
        let searched = searched.iter().map(|entry| (entry, Claim::Searched));
        let implied: Vec<(&Entry, Claim)> = mandatory.chain(searched).collect();
        for (entry, claim) in &implied {
            protect_mandatory(layout, entry, *claim);
        }
        for (entry, own) in &self.secrets {
            // One that is there cannot be overwritten, also not when the host puts a new one there
            // that its mask does not hide. Kotak's own cannot be planted.
            if *own || matches!(entry.walk.end, End::Found { .. }) {
                hold_secret(layout, entry);
            }
        }
        // Symlinks are judged when everything stands: one inside a protected directory is closed.
        let explicit = self.explicit.iter().map(|entry| (entry, Claim::Explicit));
        for (entry, claim) in explicit.chain(implied) {
            hold_entry(layout, entry, claim);
        }
        Ok(())
    }

    /// Refuses when a denied path cannot be looked at in what the session sees or writes.
    fn refuse_unseen(&self, layout: &Layout<'_>) -> Result<(), PolicyError> {
        for (entry, own) in &self.secrets {
            let kind = if *own {
                DeniedKind::Own
            } else {
                DeniedKind::Secret
            };
            let End::Unknown { at, blocker, cause } = &entry.walk.end else {
                continue;
            };
            // Closed by another user, and out of reach inside: as closed there as here.
            let closed = !layout.is_writable(at)
                && cause.kind() == io::ErrorKind::PermissionDenied
                && layout
                    .host
                    .symlink_metadata(blocker)
                    .is_ok_and(|info| info.uid != layout.context.uid);
            if layout.is_visible(at) && !closed {
                return Err(not_visible(kind, &entry.path, blocker, cause));
            }
        }
        for entry in self.explicit.iter().chain(&self.mandatory) {
            if let End::Unknown { at, blocker, cause } = &entry.walk.end
                && layout.is_writable(at)
            {
                let kind = DeniedKind::Protected;
                return Err(not_visible(kind, &entry.path, blocker, cause));
            }
        }
        Ok(())
    }

    fn mask_secrets(&self, layout: &mut Layout<'_>) {
        let mut hard_links = HardLinks::default();
        for (entry, _) in &self.secrets {
            match &entry.walk.end {
                End::Found { path, info } => {
                    if !layout.is_visible(path) {
                        continue;
                    }
                    layout.mask(&Located {
                        path: path.clone(),
                        info: *info,
                    });
                    let shown = layout.shown(path);
                    match info.kind {
                        NodeKind::Dir => hard_links.name(layout, path),
                        NodeKind::File
                        | NodeKind::Symlink
                        | NodeKind::Socket
                        | NodeKind::Special => {
                            layout.gaps.watched(
                                GapKind::SecretFileReplaced,
                                GapKind::SecretForAMoment,
                                &shown,
                            );
                            if info.nlink > 1 {
                                layout.gaps.add(GapKind::HardLinkedSecret, shown);
                            }
                        }
                    }
                }
                End::Missing {
                    parent,
                    name,
                    path: missing,
                    ..
                } => {
                    // A Mac's folder, where there is none.
                    let foreign = *parent == layout.home && name == b"Library";
                    if layout.is_visible(parent) && !foreign {
                        let shown = layout.shown(&entry.path);
                        // What a glob will name is not known.
                        let left = if is_glob(&entry.path) {
                            GapKind::MissingSecretPath
                        } else {
                            layout.missing_secrets.push(missing.clone());
                            GapKind::SecretForAMoment
                        };
                        let wide = GapKind::MissingSecretPath;
                        layout.gaps.watched(wide, left, &shown);
                    }
                }
                // Refused once every mask stands, where it is not out of reach.
                End::Unknown { .. } => {}
            }
        }
    }

    /// The spec's protected paths win over everything, also over a root that lies in them.
    fn protect_explicit(&self, layout: &mut Layout<'_>) {
        for entry in &self.explicit {
            let End::Found { path, info } = &entry.walk.end else {
                if let End::Missing { parent, path, .. } = &entry.walk.end
                    && layout.is_writable(parent)
                {
                    let held = !is_glob(&entry.path) && layout.hold(path, Claim::Explicit);
                    let shown = layout.shown(&entry.path);
                    let gaps = layout.gaps.of(held);
                    gaps.add_first(GapKind::MissingProtectedPath, shown);
                }
                continue;
            };
            let below = layout.places.range_mut(path.descendants());
            for place in below.map(|(_, place)| place) {
                if let Place::Bind(bind) = place {
                    bind.access = Access::Read;
                }
            }
            if let Some(Place::Bind(bind)) = layout.places.get_mut(path) {
                bind.access = Access::Read;
            }
            let at = Located {
                path: path.clone(),
                info: *info,
            };
            protect(layout, &at, Claim::Explicit);
        }
        // Whatever matches now is held; another match could be made.
        for pattern in &self.explicit_globs {
            let fixed = pattern.ancestors().find(|dir| !is_glob(dir));
            let open = fixed.is_some_and(|dir| match walk(layout.host, &dir).end {
                End::Found { path, .. } | End::Missing { parent: path, .. } => {
                    layout.is_writable(&path)
                }
                End::Unknown { .. } => false,
            });
            if open {
                let shown = layout.shown(pattern);
                let gaps = layout.gaps.of(false);
                gaps.add_first(GapKind::MissingProtectedPath, shown);
            }
        }
    }

    /// How many places are held read-only inside what is writable, for the summary.
    pub(super) fn protected_count(&self, layout: &Layout<'_>) -> usize {
        let held =
            |place: &&Place| matches!(place, Place::Bind(bind) if bind.role == BindRole::Protected);
        layout.places.values().filter(held).count()
    }
}

/// Names what a program could make at the top of each folder that the session was given to write:
/// agent settings like those met elsewhere, and a repository, in which git runs what the user's
/// configuration names by a relative path.
fn name_what_can_be_made(
    layout: &mut Layout<'_>,
    protected: &mut BTreeSet<AbsPath>,
    relative: BTreeSet<Relative>,
) {
    let given = |place: &Place| match place {
        Place::Bind(bind) if bind.access == Access::Write && bind.kind == NodeKind::Dir => {
            match bind.role {
                BindRole::Home | BindRole::Workdir | BindRole::Listed => Some(bind.path.clone()),
                BindRole::System
                | BindRole::RunnerState
                | BindRole::Repository
                | BindRole::Protected
                | BindRole::Pinned => None,
            }
        }
        Place::Bind(_) | Place::Private(_) | Place::Mask(_) => None,
    };
    let roots: Vec<AbsPath> = layout.places.values().filter_map(given).collect();
    if !roots.is_empty() {
        for Relative { path, name } in relative {
            let shown = String::from_utf8_lossy(&path).escape_debug().to_string();
            let gaps = layout.gaps.of(name.is_some());
            gaps.add(GapKind::RelativePrograms, shown);
            if let Some(name) = name {
                layout.hold_anywhere(name);
            }
        }
    }
    for root in roots {
        let shown = layout.shown(&root);
        layout.gaps.of(true).add(GapKind::NewRepositories, shown);
        protected.extend(ANYWHERE.iter().map(|name| root.join(name)));
        let repository = root.join(".git");
        if let End::Missing { .. } = walk(layout.host, &repository).end {
            // It can be made where what git runs in it cannot.
            let shown = layout.shown(&repository);
            let gaps = layout.gaps.of(true);
            gaps.add(GapKind::MissingProtectedPath, shown);
        }
    }
}

/// Where git looks for the configuration of a user and of the system.
fn user_configurations(context: &HostContext, home: &AbsPath) -> Vec<AbsPath> {
    let mut all = vec![
        home.join(".gitconfig"),
        home.join(".config/git/config"),
        AbsPath::root().join("etc/gitconfig"),
    ];
    let moved = absolute(context, "XDG_CONFIG_HOME").map(|config| config.join("git/config"));
    all.extend(moved);
    all.extend(absolute(context, "GIT_CONFIG_GLOBAL"));
    all.extend(absolute(context, "GIT_CONFIG_SYSTEM"));
    all
}

//! From where programs may run (REQ BW-6, SB-5): from what the session cannot write, and from the
//! trees that the operator granted. Landlock allows whole trees and knows no exception in one, so
//! a tree that holds a writable place is given by its other entries.

use super::deny::Denials;
use super::layout::{Layout, Place};
use super::protect::ANYWHERE;
use super::walk::{End, walk};
use super::{Access, BindRole, NodeKind, PathRole, PolicyError};
use crate::spec::{AbsPath, Mode, ValidSpec};
use std::collections::BTreeSet;

/// Entries of one directory that are given one by one; of a larger one none is, so that nothing
/// runs from it.
const MOST_ENTRIES: usize = 10_000;

/// From where programs may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecPolicy {
    /// Trees, canonical, the grants among them.
    pub(crate) allowed: Vec<AbsPath>,
    /// Trees that the operator granted, canonical.
    pub(crate) grants: Vec<AbsPath>,
    /// Programs in those trees that never run, canonical.
    pub(crate) denied: Vec<AbsPath>,
    /// Approved trees that make no sense in this session, with why: none of them is given.
    pub(crate) left_out: Vec<(AbsPath, String)>,
}

impl ExecPolicy {
    /// Approved trees that make no sense in this session, with why.
    #[must_use]
    pub fn left_out(&self) -> &[(AbsPath, String)] {
        &self.left_out
    }
}

/// Directories of the system's programs.
const PROGRAM_DIRS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Programs that never run under the restriction, by why. None of them gets further than the
/// sandbox lets it; but no build or test needs one, and who calls one tries to get out.
const DANGEROUS: [(&str, &[&str]); 5] = [
    (
        "to become another user",
        &["sudo", "su", "pkexec", "doas", "runuser", "newgrp", "sg"],
    ),
    (
        "to make or enter namespaces, mounts or other roots",
        &[
            "mount",
            "umount",
            "fusermount",
            "fusermount3",
            "unshare",
            "nsenter",
            "bwrap",
            "chroot",
            "pivot_root",
            "setpriv",
            "capsh",
            "newuidmap",
            "newgidmap",
        ],
    ),
    (
        "to let a service of the host start programs outside",
        &[
            "docker",
            "podman",
            "buildah",
            "nerdctl",
            "ctr",
            "runc",
            "crun",
            "lxc",
            "incus",
            "virsh",
            "machinectl",
            "systemd-run",
            "systemctl",
            "flatpak",
            "flatpak-spawn",
        ],
    ),
    (
        "to plant what the host runs later",
        &["crontab", "at", "batch"],
    ),
    (
        "to change the kernel",
        &["insmod", "modprobe", "rmmod", "kexec"],
    ),
];

/// Programs that are many in one file: refusing one refuses all.
const MULTI_CALL: [&str; 3] = ["busybox", "toybox", "coreutils"];

/// Resolves the exec restriction on a layout that stands.
///
/// # Errors
/// When a granted tree makes no sense here.
pub(super) fn exec_policy(
    layout: &Layout<'_>,
    denials: &Denials,
    spec: &ValidSpec,
    grants: &[AbsPath],
) -> Result<ExecPolicy, PolicyError> {
    let mut granted = BTreeSet::new();
    for path in grants {
        granted.insert(grant(layout, denials, path, spec.mode())?);
    }
    let mut left_out = Vec::new();
    for path in spec.approved() {
        match grant(layout, denials, path, spec.mode()) {
            Ok(found) => drop(granted.insert(found)),
            Err(error) => left_out.push((path.clone(), error.to_string())),
        }
    }
    let open: Vec<&AbsPath> = layout
        .places
        .iter()
        .filter(|(_, place)| match place {
            Place::Bind(bind) => bind.access == Access::Write,
            Place::Private(_) => true,
            Place::Mask(_) => false,
        })
        .map(|(path, _)| path)
        .collect();
    let mut allowed = BTreeSet::new();
    for (path, place) in &layout.places {
        let Place::Bind(bind) = place else { continue };
        let tree = match bind.role {
            // Files need no rule of their own: what is held by name is no program.
            BindRole::Protected => {
                bind.kind == NodeKind::Dir
                    && !layout.unread.contains(path)
                    && denials.holds_programs(path)
            }
            BindRole::System
            | BindRole::Home
            | BindRole::Workdir
            | BindRole::Listed
            | BindRole::RunnerState
            | BindRole::Repository
            | BindRole::Pinned => true,
        };
        if bind.access == Access::Read && tree {
            add_tree(layout, path, &open, &mut allowed);
        }
    }
    allowed.extend(granted.iter().cloned());
    Ok(ExecPolicy {
        allowed: allowed.into_iter().collect(),
        grants: granted.into_iter().collect(),
        denied: dangerous(layout),
        left_out,
    })
}

/// Adds a tree, without the places in it that can be written.
fn add_tree(
    layout: &Layout<'_>,
    tree: &AbsPath,
    open: &[&AbsPath],
    allowed: &mut BTreeSet<AbsPath>,
) {
    let within: Vec<&AbsPath> = open
        .iter()
        .copied()
        .filter(|path| path.is_within(tree))
        .collect();
    if within.is_empty() {
        allowed.insert(tree.clone());
        return;
    }
    if within.contains(&tree) {
        return;
    }
    let Ok(listing) = layout.host.read_dir(tree, MOST_ENTRIES) else {
        return;
    };
    if listing.cut {
        return;
    }
    for (name, kind) in &listing.entries {
        match kind {
            NodeKind::Dir | NodeKind::File => {
                add_tree(layout, &tree.join(name), &within, allowed);
            }
            NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {}
        }
    }
}

/// A granted tree, canonical.
fn grant(
    layout: &Layout<'_>,
    denials: &Denials,
    path: &AbsPath,
    mode: Mode,
) -> Result<AbsPath, PolicyError> {
    let role = PathRole::ExecGrant;
    let found = match walk(layout.host, path).end {
        End::Found { path: found, info } if info.kind == NodeKind::Dir => found,
        End::Found { .. } => {
            return Err(PolicyError::NotADirectory {
                role,
                path: path.clone(),
            });
        }
        End::Missing { cause, .. } => {
            return Err(PolicyError::Missing {
                role,
                path: path.clone(),
                cause,
            });
        }
        End::Unknown { cause, .. } => {
            return Err(PolicyError::Unreadable {
                role,
                path: path.clone(),
                cause,
            });
        }
    };
    denials.refuse(&found, role)?;
    let refused = |reason| PolicyError::ExecGrant {
        path: path.clone(),
        reason,
    };
    if found == layout.home {
        return Err(refused("it is the home directory"));
    }
    if layout.home.is_within(&found) {
        return Err(refused("the home directory lies inside it"));
    }
    let named = |part: &[u8]| part == b".git" || ANYWHERE.iter().any(|n| n.as_bytes() == part);
    if denials.protects(&found) || found.components().any(named) {
        return Err(refused(
            "no session may write there, so that what the host runs from it cannot be planted",
        ));
    }
    // Where a mode writes nothing, a grant for the others is one of nothing.
    let needless = !mode.is_writable() && layout.is_visible(&found);
    if !layout.is_writable(&found) && !needless {
        return Err(refused("no folder that the session may write holds it"));
    }
    Ok(found)
}

/// Where the dangerous programs of this host are.
fn dangerous(layout: &Layout<'_>) -> Vec<AbsPath> {
    let mut found = BTreeSet::new();
    let names = DANGEROUS.iter().flat_map(|(_, names)| names.iter());
    for name in names {
        for dir in PROGRAM_DIRS {
            let at = AbsPath::root().join(dir).join(name);
            let End::Found { path, info } = walk(layout.host, &at).end else {
                continue;
            };
            let many = |file: &[u8]| MULTI_CALL.iter().any(|many| many.as_bytes() == file);
            if info.kind == NodeKind::File && !path.file_name().is_some_and(many) {
                found.insert(path);
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dangerous_program_is_listed_once_and_none_is_many_in_one() {
        let mut seen = BTreeSet::new();
        for (why, names) in DANGEROUS {
            assert!(why.starts_with("to "), "{why}");
            for name in names {
                assert!(seen.insert(*name), "{name}");
            }
        }
        assert!(!seen.contains("busybox"));
    }
}

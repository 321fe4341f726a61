//! How one denied path is held: by a mount where it exists, by the supervisor in any case, else by
//! naming the gap.

use super::super::files::Claim;
use super::super::gap::GapKind;
use super::super::layout::{Layout, Located, Place};
use super::super::protect::AGENT_DIRS;
use super::super::walk::{End, is_glob, walk};
use super::super::{Access, BindRole, DeniedKind, NodeKind, PolicyError};
use super::Entry;
use crate::spec::AbsPath;
use std::io;

/// Holds a folder read-only that could not be searched: what it holds cannot be changed then, nor
/// its permissions. The folder that a session was given to write cannot be held.
pub(super) fn hold_unreadable(
    layout: &mut Layout<'_>,
    dir: &AbsPath,
    roots: &[AbsPath],
) -> Result<(), PolicyError> {
    // The nearest folder that can be looked at, and so be bound.
    let located = std::iter::once(dir.clone())
        .chain(dir.ancestors())
        .find_map(|at| match walk(layout.host, &at).end {
            End::Found { path, info } if info.kind == NodeKind::Dir => Some(Located { path, info }),
            End::Found { .. } | End::Missing { .. } | End::Unknown { .. } => None,
        });
    let Some(located) = located else {
        return Ok(());
    };
    if roots.contains(&located.path) {
        let cause = io::Error::from(io::ErrorKind::PermissionDenied);
        return Err(not_visible(
            DeniedKind::Searched,
            dir,
            &located.path,
            &cause,
        ));
    }
    if layout.is_writable(&located.path) {
        let shown = layout.shown(&located.path);
        layout.gaps.add(GapKind::UnreadableFolder, shown.clone());
        if !layout.take_searched_mount(&located.path) && layout.hold(&located.path, Claim::Searched)
        {
            let gaps = layout.gaps.of(true);
            gaps.add(GapKind::ProtectedPathUnmounted, shown);
            return Ok(());
        }
        layout.unread.insert(located.path.clone());
        layout.bind(&located, Access::Read, BindRole::Protected);
    }
    Ok(())
}

pub(super) fn not_visible(
    kind: DeniedKind,
    path: &AbsPath,
    blocker: &AbsPath,
    cause: &io::Error,
) -> PolicyError {
    let cause = cause.raw_os_error().map_or_else(
        || io::Error::new(cause.kind(), cause.to_string()),
        io::Error::from_raw_os_error,
    );
    PolicyError::NotVisible {
        kind,
        path: path.clone(),
        blocker: blocker.clone(),
        cause,
    }
}

/// Protects one path of the mandatory set. It does not win over a folder that the session was
/// given to write by name; that is a named gap.
pub(super) fn protect_mandatory(layout: &mut Layout<'_>, entry: &Entry, claim: Claim) {
    let End::Found { path, info } = &entry.walk.end else {
        name_missing(layout, entry, claim);
        return;
    };
    if is_reopened(layout, path) {
        return;
    }
    let covers_root = layout
        .places_within(path)
        .any(|(_, place)| matches!(place, Place::Bind(bind) if bind.access == Access::Write));
    if covers_root {
        let shown = layout.shown(path);
        layout.gaps.add(GapKind::ProtectedPathIsRoot, shown);
    }
    if layout.places.contains_key(path) {
        return;
    }
    let at = Located {
        path: path.clone(),
        info: *info,
    };
    protect(layout, &at, claim);
}

/// Whether a path is an agent's folder that a runner state directory re-opens.
pub(super) fn is_reopened(layout: &Layout<'_>, path: &AbsPath) -> bool {
    let agent = path
        .file_name()
        .is_some_and(|name| AGENT_DIRS.iter().any(|known| known.as_bytes() == name));
    agent
        && matches!(layout.governing(path), Some((_, Place::Bind(bind)))
            if bind.role == BindRole::RunnerState && bind.access == Access::Write)
}

pub(super) fn protect(layout: &mut Layout<'_>, at: &Located, claim: Claim) {
    if !layout.is_writable(&at.path) {
        return;
    }
    let shown = layout.shown(&at.path);
    let held = layout.hold(&at.path, claim);
    match at.info.kind {
        NodeKind::Dir => {}
        NodeKind::File => {
            if at.info.nlink > 1 {
                let all = layout.hold_inode(at.info.id) && held;
                let gaps = layout.gaps.of(all);
                gaps.add(GapKind::HardLinkedProtectedPath, shown.clone());
            }
            let gaps = layout.gaps.of(held);
            gaps.add(GapKind::ProtectedFileReplaced, shown);
        }
        // Nothing that could be bound: it can be unlinked and made anew.
        NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {
            layout.gaps.of(held).add(GapKind::UnreadablePath, shown);
            return;
        }
    }
    if claim == Claim::Searched && held && !layout.take_searched_mount(&at.path) {
        let shown = layout.shown(&at.path);
        let gaps = layout.gaps.of(true);
        gaps.add(GapKind::ProtectedPathUnmounted, shown);
        return;
    }
    layout.bind(at, Access::Read, BindRole::Protected);
}

pub(super) fn name_missing(layout: &mut Layout<'_>, entry: &Entry, claim: Claim) {
    let (kind, open, held) = match &entry.walk.end {
        End::Missing { parent, path, .. } => (
            GapKind::MissingProtectedPath,
            layout.is_writable(parent),
            !is_glob(&entry.path) && layout.hold(path, claim),
        ),
        End::Unknown { at, .. } => (GapKind::UnreadablePath, layout.is_writable(at), false),
        End::Found { .. } => return,
    };
    if open {
        let shown = layout.shown(&entry.path);
        layout.gaps.of(held).add(kind, shown);
    }
}

/// Lets the supervisor hold a protected path in both spellings, and the symlinks between them
/// (REQ SP-2), also where a mount holds it: a program on the host may put another file there.
pub(super) fn hold_entry(layout: &mut Layout<'_>, entry: &Entry, claim: Claim) {
    let resolved = match &entry.walk.end {
        End::Found { path, .. } | End::Missing { path, .. } => path,
        End::Unknown { .. } => return,
    };
    layout.hold_links(&entry.walk.links, claim);
    if claim == Claim::Explicit || !is_reopened(layout, resolved) {
        layout.hold(resolved, claim);
        layout.hold(&entry.path, claim);
    }
}

/// Lets the supervisor hold a secret in both spellings; for reads its mask does.
pub(super) fn hold_secret(layout: &mut Layout<'_>, entry: &Entry) {
    let resolved = match &entry.walk.end {
        End::Found { path, .. } | End::Missing { path, .. } => path,
        End::Unknown { .. } => return,
    };
    // A symlink on the way is no gap of protection: what it leads to is hidden where it is.
    let links = entry.walk.links.iter().map(|(link, _)| link);
    for path in links.chain([resolved, &entry.path]) {
        layout.hold(path, Claim::Mandatory);
    }
}

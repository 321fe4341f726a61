//! Landlock (landlock(7)): the scopes, and which programs may run (REQ BW-6).
//!
//! Landlock knows trees and no exceptions, so a tree with a denied program in it is allowed piece
//! by piece: every entry beside the way to that program. An entry that appears in such a directory
//! later is not allowed.

use super::verify::check;
use kotak_guard::proto::{Check, ExecPlan, LandlockPlan, ReadyReport};
use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat},
    sys::stat::{Mode, SFlag, fstat},
};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

const NAME: &str = "landlock";

/// The name of the check of the exec restriction.
const EXEC: &str = "exec-restriction";

/// First ABI with scopes, and with moves between directories (landlock(7)).
const SCOPES_ABI: u32 = 6;
const REFER_ABI: u32 = 2;

/// Most pieces that trees are allowed in.
const MOST_PIECES: usize = 100_000;

/// Restricts this process, and so everything that it will run.
pub(crate) fn restrict(
    scopes: LandlockPlan,
    exec: Option<&ExecPlan>,
    report: &mut ReadyReport,
) -> Result<(), Check> {
    let scopes = available(scopes, report)?;
    if scopes.is_empty() && exec.is_none() {
        return Ok(());
    }
    let fail = |error: landlock::RulesetError| check(NAME, error.to_string());
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if exec.is_some() {
        if report.landlock_abi < REFER_ABI {
            let detail = format!(
                "needs Landlock ABI {REFER_ABI} (Linux 5.19), this kernel has {}",
                report.landlock_abi
            );
            return Err(check(EXEC, detail));
        }
        let handled = AccessFs::Execute | AccessFs::Refer;
        ruleset = ruleset.handle_access(handled).map_err(fail)?;
    }
    for scope in &scopes {
        ruleset = ruleset.scope(*scope).map_err(fail)?;
    }
    let mut created = ruleset.create().map_err(fail)?;
    if let Some(plan) = exec {
        created = allow(created, plan)?;
    }
    let status = created.restrict_self().map_err(fail)?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        return Err(check(NAME, format!("{:?}", status.ruleset)));
    }
    if !scopes.is_empty() {
        report.abstract_unix_scoped = scopes.contains(&Scope::AbstractUnixSocket);
        report.signals_scoped = scopes.contains(&Scope::Signal);
        report.passed.push(check(NAME, "in force"));
    }
    if let Some(plan) = exec {
        report.exec_restricted = true;
        let detail = format!("programs run from {} trees only", plan.allowed.len());
        report.passed.push(check(EXEC, detail));
    }
    Ok(())
}

/// The wanted scopes, none where the kernel has none and they are not required.
fn available(plan: LandlockPlan, report: &mut ReadyReport) -> Result<Vec<Scope>, Check> {
    let wanted: Vec<Scope> = [
        (plan.scope_abstract_unix, Scope::AbstractUnixSocket),
        (plan.scope_signal, Scope::Signal),
    ]
    .into_iter()
    .filter_map(|(wanted, scope)| wanted.then_some(scope))
    .collect();
    if wanted.is_empty() || report.landlock_abi >= SCOPES_ABI {
        return Ok(wanted);
    }
    let detail = format!(
        "scopes need Landlock ABI {SCOPES_ABI}, this kernel has {}",
        report.landlock_abi
    );
    if plan.required {
        return Err(check(NAME, detail));
    }
    report
        .passed
        .push(check(NAME, format!("not in force: {detail}")));
    Ok(Vec::new())
}

/// Moves are let be everywhere; programs run from the allowed trees.
fn allow(mut created: RulesetCreated, plan: &ExecPlan) -> Result<RulesetCreated, Check> {
    let root = pin(b"/").map_err(|errno| check(EXEC, format!("/: {errno}")))?;
    created = add(created, root, AccessFs::Refer.into())?;
    let denied = denied(plan);
    let mut pieces = 0;
    for tree in &plan.allowed {
        // As it is now, and not what a symlink leads to.
        let opened = pin(tree).map_err(|errno| check(EXEC, format!("{}: {errno}", shown(tree))))?;
        created = allow_tree(created, opened, tree, &denied, &mut pieces)?;
    }
    Ok(created)
}

/// Denied programs by their real paths.
fn denied(plan: &ExecPlan) -> BTreeSet<Vec<u8>> {
    plan.denied
        .iter()
        .filter_map(|path| fs::canonicalize(OsStr::from_bytes(path)).ok())
        .map(|path| path.into_os_string().into_vec())
        .collect()
}

fn allow_tree(
    mut created: RulesetCreated,
    opened: OwnedFd,
    path: &[u8],
    denied: &BTreeSet<Vec<u8>>,
    pieces: &mut usize,
) -> Result<RulesetCreated, Check> {
    if denied.contains(path) {
        return Ok(created);
    }
    let failed = |errno: Errno| check(EXEC, format!("{}: {errno}", shown(path)));
    let way = |found: &&Vec<u8>| Path::new(OsStr::from_bytes(found)).starts_with(OsStr::from_bytes(path));
    if !denied.iter().any(|found| way(&found)) {
        *pieces += 1;
        if *pieces > MOST_PIECES {
            return Err(check(EXEC, "the allowed trees have too many pieces"));
        }
        return add(created, opened, AccessFs::Execute.into());
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let readable = openat(&opened, ".", flags, Mode::empty()).map_err(failed)?;
    let mut listing = Dir::from_fd(readable).map_err(failed)?;
    for entry in listing.iter() {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let below = match openat(&opened, name, flags, Mode::empty()) {
            Ok(below) => below,
            // It is gone, or nobody gets there.
            Err(Errno::ENOENT | Errno::EACCES) => continue,
            Err(errno) => return Err(failed(errno)),
        };
        let kind = SFlag::from_bits_truncate(fstat(&below).map_err(failed)?.st_mode) & SFlag::S_IFMT;
        // Nothing else can be executed; what a symlink leads to is allowed or not by itself.
        if kind == SFlag::S_IFDIR || kind == SFlag::S_IFREG {
            let separator: &[u8] = if path == b"/" { b"" } else { b"/" };
            let path = [path, separator, name].concat();
            created = allow_tree(created, below, &path, denied, pieces)?;
        }
    }
    Ok(created)
}

fn add(
    created: RulesetCreated,
    opened: OwnedFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Check> {
    created
        .add_rule(PathBeneath::new(opened, access))
        .map_err(|error| check(EXEC, error.to_string()))
}

fn pin(path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(AT_FDCWD, path, flags, Mode::empty())
}

fn shown(path: &[u8]) -> std::path::Display<'_> {
    Path::new(OsStr::from_bytes(path)).display()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::sys;

    #[test]
    fn without_a_plan_nothing_is_restricted() {
        let mut report = ReadyReport {
            landlock_abi: sys::landlock_abi(),
            ..ReadyReport::default()
        };
        assert_eq!(restrict(LandlockPlan::default(), None, &mut report), Ok(()));
        assert!(!report.exec_restricted && report.passed.is_empty());
    }
}

//! From a checked spec and the host to a policy.

use super::deny::Denials;
use super::env::environment;
use super::exec::exec_policy;
use super::gap::GapKind;
use super::git::repository_of;
use super::layout::{Layout, Located, Place};
use super::summary::{Summary, sentences};
use super::system::{not_bindable, too_wide, unusable_home};
use super::{
    Access, Bind, BindRole, HostContext, HostFs, NodeKind, Once, PathRole, Policy, PolicyError,
    Profile,
};
use crate::probe::{SupervisionLack, exec_lack};
use crate::spec::{AbsPath, Form, NetworkMode, Purpose, ValidBind, ValidExec, ValidSpec};

/// Resolves a spec on this host.
///
/// The order is fixed: (1) what must exist is found and refused where it cannot be given; (2) the
/// visible tree is laid out; (3) secrets are masked; (4) repositories and agent settings are
/// searched for in what is writable; (5) what must not be written is bound read-only; (6) every
/// directory between those and their writable root is pinned; (7) what the guard's supervisor holds
/// besides is put down, and from where programs may run.
///
/// # Errors
/// When the spec cannot be honoured here; each by name, with a fix.
pub fn resolve(
    spec: &ValidSpec,
    context: &HostContext,
    host: &dyn HostFs,
) -> Result<Policy, PolicyError> {
    let lack = SupervisionLack::of(&context.facts);
    refuse_unavailable(spec, context, lack)?;
    let host: &dyn HostFs = &Once::new(host);
    let mut layout = Layout::new(host, context);
    let denials = Denials::find(spec, context, host);
    let (profile, cwd) = match spec.form() {
        Form::Terminal { cwd } => (
            Profile::Terminal,
            lay_out_terminal(&mut layout, spec, cwd, &denials)?,
        ),
        Form::Binds { binds, workdir } => (
            match spec.purpose() {
                Purpose::Direct => Profile::Binds,
                Purpose::Dispatch => Profile::Dispatch,
            },
            lay_out_binds(&mut layout, spec, binds, workdir.as_ref(), &denials)?,
        ),
    };
    add_runner_state(&mut layout, spec, &denials)?;
    denials.apply(&mut layout)?;
    layout.pin_ancestors();
    let resolver = match spec.network() {
        NetworkMode::Open => None,
        NetworkMode::Allowlist | NetworkMode::Ask | NetworkMode::Off => layout.take_resolver(),
    };

    match layout.governing(&cwd) {
        Some((_, Place::Bind(_) | Place::Private(_))) => {}
        Some((_, Place::Mask(_))) | None => {
            return Err(PolicyError::WorkdirHidden { path: cwd });
        }
    }
    name_socket_gaps(&mut layout, spec, profile, &cwd);

    let environment = environment(context, spec.env(), spec.network());
    let links = layout.links();
    let assembly = layout.assembly();
    let kernel = layout.kernel_controls();
    let exec = match spec.exec() {
        ValidExec::Anywhere => None,
        ValidExec::ReadOnly { grants } => Some(exec_policy(&layout, &denials, spec, grants)?),
    };
    let rules = spec.filename_rules();
    let files = layout.file_policy(rules.globs(), rules.exceptions());
    let missing = std::mem::take(&mut layout.missing_secrets);
    let watched_gaps = layout.gaps.take_watched();
    let (supervised_gaps, unsupervised_gaps) = std::mem::take(&mut layout.gaps).finish();
    let sentences = sentences(&Summary {
        layout: &layout,
        profile,
        cwd: &cwd,
        network: spec.network(),
        domains: super::domains::count(spec.egress_allowlist()),
        grants: spec.grants(),
        protected: denials.protected_count(&layout),
        withheld: environment.withheld.len(),
        files: lack.is_none().then_some(&files),
        exec: exec.as_ref(),
    });
    let mut policy = Policy {
        session_id: spec.session_id().clone(),
        profile,
        mode: spec.mode(),
        uid: context.uid,
        home: layout.home.clone(),
        cwd,
        binds: Vec::new(),
        private: Vec::new(),
        links,
        masks: Vec::new(),
        missing,
        assembly,
        kernel,
        resolver,
        network: spec.network(),
        egress: spec.egress_allowlist().to_vec(),
        env: environment.vars,
        withheld: environment.withheld,
        gaps: match lack {
            None => supervised_gaps,
            Some(_) => unsupervised_gaps.clone(),
        },
        unsupervised_gaps,
        watched_gaps,
        files,
        exec,
        lack,
        sentences,
    };
    for place in layout.places.into_values() {
        match place {
            Place::Bind(bind) => policy.binds.push(bind),
            Place::Private(dir) => policy.private.push(dir),
            Place::Mask(mask) => policy.masks.push(mask),
        }
    }
    Ok(policy)
}

/// Refuses what this kernel cannot hold, before anything else is looked at (REQ BW-4).
fn refuse_unavailable(
    spec: &ValidSpec,
    context: &HostContext,
    lack: Option<SupervisionLack>,
) -> Result<(), PolicyError> {
    let wanted = match spec.purpose() {
        Purpose::Dispatch => Some("standard dispatch needs filename rules"),
        Purpose::Direct if !spec.filename_rules().is_empty() => Some("the spec has filename rules"),
        Purpose::Direct => None,
    };
    if let (Some(what), Some(lack)) = (wanted, lack) {
        return Err(PolicyError::FilenameRulesUnavailable { what, lack });
    }
    match spec.exec() {
        ValidExec::Anywhere => Ok(()),
        ValidExec::ReadOnly { .. } => match exec_lack(&context.facts) {
            None => Ok(()),
            Some((reason, fix)) => Err(PolicyError::ExecRestrictionUnavailable { reason, fix }),
        },
    }
}

/// The fixed terminal profile (REQ TM-2).
fn lay_out_terminal(
    layout: &mut Layout<'_>,
    spec: &ValidSpec,
    cwd: &AbsPath,
    denials: &Denials,
) -> Result<AbsPath, PolicyError> {
    let home = directory(layout, &layout.context.home.clone(), PathRole::Home)?;
    if let Some(reason) = unusable_home(&home.path) {
        return Err(PolicyError::Home {
            path: home.path,
            reason,
        });
    }
    layout.home = home.path.clone();
    denials.refuse(&home.path, PathRole::Home)?;
    let cwd = directory(layout, cwd, PathRole::Workdir)?;
    if let Some(reason) = too_wide(&cwd.path, &home.path) {
        return Err(PolicyError::TooWide {
            role: PathRole::Workdir,
            path: cwd.path,
            reason,
        });
    }
    denials.refuse(&cwd.path, PathRole::Workdir)?;

    let access = access(spec);
    layout.add_terminal_system();
    layout.bind(&home, access, BindRole::Home);
    if cwd.path != home.path {
        layout.bind(&cwd, access, BindRole::Workdir);
    }
    add_repository(layout, &cwd.path, access, denials);
    Ok(cwd.path)
}

/// System runtime and listed binds (REQ BW-1).
fn lay_out_binds(
    layout: &mut Layout<'_>,
    spec: &ValidSpec,
    binds: &[ValidBind],
    workdir: Option<&AbsPath>,
    denials: &Denials,
) -> Result<AbsPath, PolicyError> {
    let home = layout.context.home.clone();
    layout.home = layout
        .locate_if_there(&home)
        .map_or(home, |found| found.path);
    if layout.home.is_root() {
        let reason = "it is the root of the file system";
        return Err(PolicyError::Home {
            path: layout.home.clone(),
            reason,
        });
    }
    layout.add_runtime();
    let mut found: Vec<(Located, Access, &ValidBind)> = Vec::with_capacity(binds.len());
    for bind in binds {
        let at = layout.locate(&bind.path, PathRole::Bind)?;
        match at.info.kind {
            NodeKind::Dir | NodeKind::File => {}
            NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {
                return Err(PolicyError::SpecialFile {
                    role: PathRole::Bind,
                    path: at.path,
                });
            }
        }
        let access = if bind.read_only {
            Access::Read
        } else {
            access(spec)
        };
        let wide = not_bindable(&at.path).or_else(|| match access {
            Access::Write => too_wide(&at.path, &layout.home),
            Access::Read => None,
        });
        if let Some(reason) = wide {
            return Err(PolicyError::TooWide {
                role: PathRole::Bind,
                path: at.path,
                reason,
            });
        }
        denials.refuse(&at.path, PathRole::Bind)?;
        found.push((at, access, bind));
    }
    // Parents first, so that a bind within another of the same kind is seen as such.
    found.sort_by(|(a, ..), (b, ..)| a.path.cmp(&b.path));
    for pair in found.windows(2) {
        if let [(a, _, first), (b, _, second)] = pair
            && a.path == b.path
            && first.read_only != second.read_only
        {
            return Err(PolicyError::ConflictingBinds {
                first: first.path.clone(),
                second: second.path.clone(),
            });
        }
    }
    for (at, access, _) in &found {
        layout.bind(at, *access, BindRole::Listed);
    }
    // A home of its own, unless a bind already shows the real one.
    if !layout.is_visible(&layout.home) {
        layout.private(layout.home.clone(), 0o700, false);
    }
    for (at, access, _) in &found {
        add_repository(layout, &at.path, *access, denials);
    }

    let cwd = match workdir {
        Some(path) => directory(layout, path, PathRole::Workdir)?.path,
        None => found
            .iter()
            .find(|(at, ..)| at.info.kind == NodeKind::Dir)
            .map_or_else(|| layout.home.clone(), |(at, ..)| at.path.clone()),
    };
    Ok(cwd)
}

fn access(spec: &ValidSpec) -> Access {
    if spec.mode().is_writable() {
        Access::Write
    } else {
        Access::Read
    }
}

fn directory(
    layout: &mut Layout<'_>,
    path: &AbsPath,
    role: PathRole,
) -> Result<Located, PolicyError> {
    let found = layout.locate(path, role)?;
    match found.info.kind {
        NodeKind::Dir => Ok(found),
        NodeKind::File | NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {
            Err(PolicyError::NotADirectory {
                role,
                path: path.clone(),
            })
        }
    }
}

/// Makes commits work in a linked worktree or submodule whose git directory lies elsewhere. What
/// in there makes git run programs is protected like any other repository's.
fn add_repository(layout: &mut Layout<'_>, root: &AbsPath, access: Access, denials: &Denials) {
    let Some(dir) = repository_of(layout.host, root) else {
        return;
    };
    let refused = too_wide(&dir, &layout.home).is_some()
        || not_bindable(&dir).is_some()
        || denials.refuse(&dir, PathRole::Bind).is_err();
    let visible = matches!(
        layout.governing(&dir),
        Some((_, Place::Bind(bind))) if bind.access == access || bind.role == BindRole::Listed
    );
    if refused || visible {
        return;
    }
    if let Some(found) = layout.locate_if_there(&dir) {
        layout.bind(&found, access, BindRole::Repository);
    }
}

/// Runner state directories, writable in every mode (REQ SP).
fn add_runner_state(
    layout: &mut Layout<'_>,
    spec: &ValidSpec,
    denials: &Denials,
) -> Result<(), PolicyError> {
    for path in spec.runner_state() {
        let at = directory(layout, path, PathRole::RunnerState)?;
        let wide = not_bindable(&at.path).or_else(|| too_wide(&at.path, &layout.home));
        if let Some(reason) = wide {
            return Err(PolicyError::TooWide {
                role: PathRole::RunnerState,
                path: at.path,
                reason,
            });
        }
        denials.refuse(&at.path, PathRole::RunnerState)?;
        if let Some(protected) = denials.explicitly_protecting(&at.path) {
            return Err(PolicyError::RunnerStateProtected {
                path: at.path,
                protected: protected.clone(),
            });
        }
        layout.bind(&at, Access::Write, BindRole::RunnerState);
    }
    Ok(())
}

fn name_socket_gaps(layout: &mut Layout<'_>, spec: &ValidSpec, profile: Profile, cwd: &AbsPath) {
    let mut folders: Vec<AbsPath> = match profile {
        Profile::Terminal => vec![layout.home.clone(), AbsPath::root().join("var")],
        Profile::Binds | Profile::Dispatch => Vec::new(),
    };
    let given = |bind: &Bind| match bind.role {
        BindRole::Workdir | BindRole::Listed | BindRole::RunnerState => bind.kind == NodeKind::Dir,
        BindRole::System
        | BindRole::Home
        | BindRole::Repository
        | BindRole::Protected
        | BindRole::Pinned => false,
    };
    folders.extend(layout.places.values().filter_map(|place| match place {
        Place::Bind(bind) if given(bind) => Some(bind.path.clone()),
        Place::Bind(_) | Place::Private(_) | Place::Mask(_) => None,
    }));
    if profile == Profile::Terminal {
        folders.push(cwd.clone());
    }
    for folder in folders {
        let shown = layout.shown(&folder);
        layout.gaps.add(GapKind::SocketsInVisibleFolders, shown);
    }
    match spec.network() {
        NetworkMode::Open if layout.context.facts.landlock_abi < 6 => {
            layout.gaps.add(GapKind::AbstractSockets, "");
        }
        NetworkMode::Open | NetworkMode::Allowlist | NetworkMode::Ask | NetworkMode::Off => {}
    }
}

#[cfg(test)]
mod tests;

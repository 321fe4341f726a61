//! The bubblewrap plan generator: a pure function from policy and facts to a plan.
//!
//! # Mount order
//!
//! bubblewrap mounts in the order of its arguments, and a later mount covers an earlier one, so
//! the order is the policy. It does not depend on the order in which a spec lists things:
//!
//! 1. The new root is an empty tmpfs. Only what follows is visible.
//! 2. Every place of the policy, sorted by path, so that a parent always comes before what lies
//!    below it and the most specific place wins: private directories (`--tmpfs`), symlinks that
//!    stand in no bind (`--symlink`), host paths (`--bind`, `--ro-bind`), held paths and pinned
//!    ancestors (binds onto themselves), masks (an unreadable tmpfs, made read-only at once, over a
//!    directory; `/dev/null`, which a bind cannot open, over a file).
//! 3. `/proc`, new, of the sandbox's own PID namespace; `/dev`, minimal.
//! 4. The kernel's controls in `/proc`, read-only: their owner is user 0, who needs no capability.
//! 5. Under a restricted network a copy of the guard's program, for programs that connect through
//!    it, and the sandbox's own `/etc/resolv.conf`, from their descriptors, read-only.
//! 6. The private directories that are sealed, and then the root itself, are made read-only.
//!
//! A mount point that is missing is made only in tmpfs, never in a bind: everything placed inside
//! a bind was seen there on the host.
//!
//! # Stages
//!
//! bubblewrap takes 9,000 arguments in all. A plan with more begins step 2 in stages: each stage
//! is a bubblewrap that keeps the host's root as it is, adds its part of the list below an assembly
//! directory, and runs the next; the last binds the assembled tree as the new root and goes on with
//! the rest of the list. Descriptors pass through. bubblewrap reads the whole mount table for every
//! bind, so thousands of mounts cost time that grows with their square.

use super::supervised::{exec_plan, file_rules, filters};
use super::{
    ArgBlock, BridgePlan, FD_ARGS, FD_CONTROL, FD_GUARD, FD_GUARD_COPY, FD_MORE_ARGS, FD_RESOLVER,
    FD_STATUS, GUARD_PATH, HTTP_PORT, NativePlan, Pin, PlanError, PlanFacts, RESOLV_CONF,
    SOCKS_PORT, Supervised, WatchedPath, enforcement_of,
};
use crate::policy::{Access, BindRole, NodeKind, Policy};
use crate::spec::{AbsPath, NetworkMode};
use crate::sys::spawn::MAX_CHILD_FDS;
use kotak_guard::proto::{
    Expectation, FileCheck, LandlockPlan, LoopbackPlan, MountCheck, Namespace, PROTOCOL_VERSION,
    Role, Setup,
};
use std::collections::BTreeMap;

/// The oldest bubblewrap with `--perms`.
const OLDEST: (u32, u32, u32) = (0, 5, 0);

/// Arguments of one bubblewrap; its own limit is 9,000, and the command line counts too.
const MAX_ARGS: usize = 8_900;

/// Mounts of one sandbox. bubblewrap reads the whole mount table for each bind, so the time of a
/// launch grows with the square; this many still launch before the engine gives up waiting.
const MAX_MOUNTS: usize = 6_000;

/// Most arguments of one mount (`Place::MaskDir`).
const MOST_MOUNT_ARGS: usize = 6;

/// Room in each block for what every stage begins with, and for the mount that no longer fits.
const STAGE_ARGS: usize = 200;

/// Descriptors that a runner gets besides its argument blocks: three streams, status, guard and its
/// copy, control socket, resolver.
const OTHER_FDS: usize = 8;

// The most mounts fit into as many blocks as a child can be given descriptors.
const _: () = assert!(
    (MAX_MOUNTS * MOST_MOUNT_ARGS).div_ceil(MAX_ARGS - STAGE_ARGS) + 1 + OTHER_FDS <= MAX_CHILD_FDS
);

/// Landlock ABI with scopes for abstract sockets and signals.
const LANDLOCK_SCOPES: u32 = 6;

/// The launch plan of a native session.
///
/// # Errors
/// When bubblewrap cannot do what the policy demands.
pub fn native_plan(policy: &Policy, facts: &PlanFacts) -> Result<NativePlan, PlanError> {
    if facts.bwrap_version < OLDEST {
        return Err(PlanError::BubblewrapTooOld {
            found: facts.bwrap_version,
            needed: OLDEST,
        });
    }
    let places = places(policy);
    if places.len() > MAX_MOUNTS {
        return Err(PlanError::TooManyMounts {
            needed: places.len(),
            limit: MAX_MOUNTS,
            folder: fullest(places.keys().copied()).to_string(),
        });
    }
    let (argv, blocks) = command(policy, facts, places)?;
    let setup = setup(policy, facts)?;
    let enforcement = enforcement_of(policy, &setup, Supervised::AsPlanned);
    let unsupervised = enforcement_of(policy, &setup, Supervised::Not);
    Ok(NativePlan {
        bwrap: facts.bwrap_path.clone(),
        argv,
        blocks,
        resolver: policy.resolver.as_ref().map(|_| RESOLV_CONF.to_vec()),
        bridge: BridgePlan::default(),
        setup,
        pins: pins(policy),
        secrets: watched(policy),
        watched_gaps: policy.watched_gaps.clone(),
        cwd: policy.cwd.clone(),
        env: policy.env.clone(),
        withheld: policy.withheld.clone(),
        network: policy.network,
        enforcement,
        unsupervised,
        sentences: policy.sentences.clone(),
    })
}

/// What must be there when bubblewrap mounts on it: else it makes a mount point, on the host.
fn pins(policy: &Policy) -> Vec<Pin> {
    let binds = policy.binds.iter().map(|bind| Pin {
        path: bind.path.clone(),
        id: bind.id,
        masked: false,
        named: match bind.role {
            BindRole::Home | BindRole::Workdir | BindRole::Listed | BindRole::RunnerState => true,
            BindRole::System | BindRole::Repository | BindRole::Protected | BindRole::Pinned => {
                false
            }
        },
    });
    let masks = policy.masks.iter().map(|mask| Pin {
        path: mask.path.clone(),
        id: mask.id,
        masked: true,
        named: false,
    });
    binds.chain(masks).collect()
}

/// Masks, and secrets that are not there yet, in what the host can change.
fn watched(policy: &Policy) -> Vec<WatchedPath> {
    let masked = policy.masks.iter().map(|mask| (&mask.path, true));
    let missing = policy.missing.iter().map(|path| (path, false));
    let mut found: Vec<WatchedPath> = masked
        .chain(missing)
        .filter_map(|(path, masked)| {
            // The outermost: an ancestor that is bound onto itself may be moved away outside.
            let over = policy.binds.iter().filter(|bind| {
                bind.kind == NodeKind::Dir && bind.path != *path && path.is_within(&bind.path)
            });
            over.min_by_key(|bind| bind.path.as_bytes().len())
                .map(|bind| WatchedPath {
                    path: path.clone(),
                    root: bind.path.clone(),
                    root_id: bind.id,
                    masked,
                })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    found
}

/// One entry of the mount list.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    Private { perms: u32 },
    Link { target: &'a [u8] },
    Bind { access: Access },
    MaskDir,
    MaskFile,
}

impl Place<'_> {
    /// Its arguments, with `dest` where the tree is put together.
    fn push(self, args: &mut Vec<Vec<u8>>, path: &AbsPath, dest: Vec<u8>) {
        match self {
            Self::Private { perms } => {
                push(
                    args,
                    ["--perms".as_bytes(), format!("{perms:04o}").as_bytes()],
                );
                push(args, [b"--tmpfs".as_slice(), &dest]);
            }
            Self::Link { target } => push(args, [b"--symlink", target, &dest]),
            Self::Bind { access } => {
                let how: &[u8] = match access {
                    Access::Read => b"--ro-bind",
                    Access::Write => b"--bind",
                };
                push(args, [how, path.as_bytes(), &dest]);
            }
            Self::MaskDir => {
                push(args, [b"--perms".as_slice(), b"0000", b"--tmpfs", &dest]);
                push(args, [b"--remount-ro".as_slice(), &dest]);
            }
            Self::MaskFile => push(args, [b"--ro-bind".as_slice(), b"/dev/null", &dest]),
        }
    }
}

fn push<'a>(args: &mut Vec<Vec<u8>>, more: impl IntoIterator<Item = &'a [u8]>) {
    args.extend(more.into_iter().map(<[u8]>::to_vec));
}

/// Step 2 of the mount order, by path.
fn places(policy: &Policy) -> BTreeMap<&AbsPath, Place<'_>> {
    let mut places = BTreeMap::new();
    for link in &policy.links {
        places.insert(
            &link.path,
            Place::Link {
                target: &link.target,
            },
        );
    }
    for dir in &policy.private {
        places.insert(&dir.path, Place::Private { perms: dir.perms });
    }
    for bind in &policy.binds {
        places.insert(
            &bind.path,
            Place::Bind {
                access: bind.access,
            },
        );
    }
    for mask in &policy.masks {
        let place = match mask.kind {
            NodeKind::Dir => Place::MaskDir,
            NodeKind::File | NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {
                Place::MaskFile
            }
        };
        places.insert(&mask.path, place);
    }
    places
}

/// The deepest folder that holds at least half of the paths.
fn fullest<'a>(paths: impl Iterator<Item = &'a AbsPath>) -> AbsPath {
    let mut counts: BTreeMap<AbsPath, usize> = BTreeMap::new();
    let mut total = 0;
    for path in paths {
        total += 1;
        for dir in path.ancestors() {
            *counts.entry(dir).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .filter(|(_, count)| count * 2 >= total)
        .map(|(dir, _)| dir)
        .max_by_key(|dir| dir.components().count())
        .unwrap_or_else(AbsPath::root)
}

/// The command line and its argument blocks.
fn command(
    policy: &Policy,
    facts: &PlanFacts,
    places: BTreeMap<&AbsPath, Place<'_>>,
) -> Result<(Vec<Vec<u8>>, Vec<ArgBlock>), PlanError> {
    let mounts = places.len();
    let first = namespace_args(policy);
    let last = last_args(policy);

    let mut body = Vec::new();
    for (path, place) in &places {
        place.push(&mut body, path, path.as_bytes().to_vec());
    }
    if first.len() + body.len() + last.len() <= MAX_ARGS {
        let args = [first, body, last].concat();
        return Ok((guard_command(), vec![ArgBlock { fd: FD_ARGS, args }]));
    }

    let assembly = policy
        .assembly
        .as_ref()
        .ok_or(PlanError::NoAssemblyPlace { mounts })?;
    let mut final_args = first;
    push(&mut final_args, [b"--bind", assembly.as_bytes(), b"/"]);

    // The last bubblewrap takes as many of the last places as it can; stages take the rest.
    let mut room = MAX_ARGS.saturating_sub(final_args.len() + last.len());
    let mut staged = places.len();
    for (path, place) in places.iter().rev() {
        let mut args = Vec::new();
        place.push(&mut args, path, Vec::new());
        if args.len() > room {
            break;
        }
        room -= args.len();
        staged -= 1;
    }
    let mut stages: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut stage = stage_args(policy);
    push(&mut stage, [b"--tmpfs".as_slice(), assembly.as_bytes()]);
    for (path, place) in places.iter().take(staged) {
        let mut args = Vec::new();
        let below = path.below(&AbsPath::root()).unwrap_or_default();
        place.push(&mut args, path, assembly.join(below).as_bytes().to_vec());
        if stage.len() + args.len() > MAX_ARGS {
            stages.push(std::mem::replace(&mut stage, stage_args(policy)));
        }
        stage.extend(args);
    }
    stages.push(stage);
    for (path, place) in places.iter().skip(staged) {
        place.push(&mut final_args, path, path.as_bytes().to_vec());
    }
    final_args.extend(last);

    let mut argv = Vec::new();
    let mut blocks = Vec::new();
    for (fd, args) in (FD_MORE_ARGS..).zip(stages) {
        push(
            &mut argv,
            [b"--args".as_slice(), fd.to_string().as_bytes(), b"--"],
        );
        argv.push(facts.bwrap_path.as_bytes().to_vec());
        blocks.push(ArgBlock { fd, args });
    }
    argv.extend(guard_command());
    blocks.push(ArgBlock {
        fd: FD_ARGS,
        args: final_args,
    });
    Ok((argv, blocks))
}

/// What the last bubblewrap runs; all arguments of a launch that needs no other.
pub(crate) fn guard_command() -> Vec<Vec<u8>> {
    let mut argv = Vec::new();
    push(
        &mut argv,
        [b"--args".as_slice(), FD_ARGS.to_string().as_bytes(), b"--"],
    );
    push(
        &mut argv,
        [
            format!("/proc/self/fd/{FD_GUARD}").as_bytes(),
            b"native",
            FD_CONTROL.to_string().as_bytes(),
        ],
    );
    argv
}

/// A stage before the last: the host's root as it is, no capability more than the next needs.
fn stage_args(policy: &Policy) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    push(
        &mut args,
        [
            b"--unshare-user".as_slice(),
            b"--die-with-parent",
            b"--cap-drop",
            b"ALL",
        ],
    );
    if policy.uid == 0 {
        // A namespace that maps user 0 can be made only by who holds this (user_namespaces(7)).
        push(&mut args, [b"--cap-add".as_slice(), b"CAP_SETFCAP"]);
    }
    push(&mut args, [b"--dev-bind".as_slice(), b"/", b"/"]);
    args
}

fn namespace_args(policy: &Policy) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    push(
        &mut args,
        [
            b"--unshare-user".as_slice(),
            b"--unshare-pid",
            b"--unshare-ipc",
            b"--unshare-uts",
            b"--unshare-cgroup-try",
        ],
    );
    if is_unshared(policy.network) {
        push(&mut args, [b"--unshare-net".as_slice()]);
    }
    push(
        &mut args,
        [
            b"--die-with-parent".as_slice(),
            b"--as-pid-1",
            b"--cap-drop",
            b"ALL",
            b"--json-status-fd",
            FD_STATUS.to_string().as_bytes(),
        ],
    );
    args
}

/// Steps 3 to 6 of the mount order.
fn last_args(policy: &Policy) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    push(
        &mut args,
        [b"--proc".as_slice(), b"/proc", b"--dev", b"/dev"],
    );
    for path in &policy.kernel {
        push(&mut args, [b"--ro-bind", path.as_bytes(), path.as_bytes()]);
    }
    if is_unshared(policy.network) {
        let copied = FD_GUARD_COPY.to_string();
        push(&mut args, [b"--perms".as_slice(), b"0555"]);
        push(
            &mut args,
            [
                b"--ro-bind-data".as_slice(),
                copied.as_bytes(),
                GUARD_PATH.as_bytes(),
            ],
        );
    }
    if let Some(resolver) = &policy.resolver {
        let descriptor = FD_RESOLVER.to_string();
        push(&mut args, [b"--perms".as_slice(), b"0444"]);
        push(
            &mut args,
            [
                b"--ro-bind-data".as_slice(),
                descriptor.as_bytes(),
                resolver.as_bytes(),
            ],
        );
    }
    for dir in policy.private.iter().filter(|dir| dir.sealed) {
        push(&mut args, [b"--remount-ro".as_slice(), dir.path.as_bytes()]);
    }
    push(
        &mut args,
        [b"--remount-ro".as_slice(), b"/", b"--chdir", b"/"],
    );
    args
}

/// Whether a network mode has a network namespace of its own; all but open have (REQ EG-8).
fn is_unshared(network: NetworkMode) -> bool {
    match network {
        NetworkMode::Open => false,
        NetworkMode::Allowlist | NetworkMode::Ask | NetworkMode::Off => true,
    }
}

/// The guard's set-up, with what it must find inside.
fn setup(policy: &Policy, facts: &PlanFacts) -> Result<Setup, PlanError> {
    let unshared_network = is_unshared(policy.network);
    let known = |kind: Namespace| facts.namespaces.iter().any(|(known, _)| *known == kind);
    let mut unshared = vec![
        Namespace::User,
        Namespace::Mount,
        Namespace::Pid,
        Namespace::Ipc,
        Namespace::Uts,
    ];
    // bubblewrap unshares it where the kernel has it, and so has the engine one then.
    if known(Namespace::Cgroup) {
        unshared.push(Namespace::Cgroup);
    }
    let mut shared = Vec::new();
    if unshared_network {
        unshared.push(Namespace::Network);
    } else {
        shared.push(Namespace::Network);
    }
    if let Some(unknown) = unshared.iter().chain(&shared).find(|kind| !known(**kind)) {
        return Err(PlanError::NamespaceUnknown(unknown.proc_name()));
    }
    let scopes = !unshared_network && facts.landlock_abi >= LANDLOCK_SCOPES;
    let bytes = |path: &AbsPath| path.as_bytes().to_vec();
    let protected = policy
        .binds
        .iter()
        .filter(|bind| bind.role == BindRole::Protected);
    let expectation = Expectation {
        outer: facts.namespaces.clone(),
        unshared,
        shared,
        mounts: policy
            .binds
            .iter()
            .map(|bind| MountCheck {
                path: bytes(&bind.path),
                dev: bind.id.dev,
                ino: bind.id.ino,
                writable: bind.access == Access::Write,
            })
            .collect(),
        unreadable: policy.masks.iter().map(|mask| bytes(&mask.path)).collect(),
        unwritable: policy
            .kernel
            .iter()
            .chain(protected.map(|bind| &bind.path))
            .chain(policy.masks.iter().map(|mask| &mask.path))
            .chain(&policy.resolver)
            .map(bytes)
            .collect(),
        absent: host_sockets(policy),
        loopback_only: unshared_network,
        contents: policy
            .resolver
            .iter()
            .map(|_| FileCheck {
                // As programs name it, through whatever symlinks lead there.
                path: b"/etc/resolv.conf".to_vec(),
                content: RESOLV_CONF.to_vec(),
            })
            .collect(),
        private: policy
            .private
            .iter()
            .filter(|dir| !dir.sealed)
            .map(|dir| bytes(&dir.path))
            .collect(),
    };
    Ok(Setup {
        protocol: PROTOCOL_VERSION,
        role: Role::Native(Box::new(expectation)),
        landlock: LandlockPlan {
            scope_abstract_unix: scopes,
            scope_signal: scopes,
            required: scopes,
        },
        seccomp: filters(policy, facts.arch),
        files: file_rules(policy).map(Box::new),
        exec: exec_plan(policy),
        loopback: unshared_network.then(|| LoopbackPlan {
            ports: vec![HTTP_PORT, SOCKS_PORT],
        }),
        hand_over_mounts: true,
    })
}

/// Sockets by which a program could act on the host; none may be there.
fn host_sockets(policy: &Policy) -> Vec<Vec<u8>> {
    let user = format!("/run/user/{}", policy.uid);
    let mut paths: Vec<String> = [
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/tmp/.X11-unix",
    ]
    .map(str::to_owned)
    .into();
    paths.extend(["bus", "systemd/private", "wayland-0"].map(|name| format!("{user}/{name}")));
    paths.into_iter().map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests;

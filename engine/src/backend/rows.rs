//! The enforcement report of a plan, before anything runs.

use super::{Aspect, Enforcement, EnforcementRow, Gap, Level};
use crate::policy::{Access, BindRole, FilePolicy, GapKind, Policy};
use crate::spec::NetworkMode;
use kotak_guard::proto::Setup;

/// Whether the guard's supervisor is counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supervised {
    /// Where the plan has one.
    AsPlanned,
    /// It does not work.
    Not,
}

/// What a plan enforces, aspect by aspect, in the fixed order.
pub(super) fn enforcement_of(
    policy: &Policy,
    setup: &Setup,
    supervised: Supervised,
) -> Enforcement {
    let supervised = supervised == Supervised::AsPlanned && setup.files.is_some();
    let mut gaps: Vec<Gap> = if supervised {
        policy.gaps.clone()
    } else {
        policy.unsupervised_gaps.clone()
    };
    if setup.exec.is_some() {
        gaps.extend([GapKind::InterpretersRun.gap(), GapKind::LoaderRuns.gap()]);
    }
    let open = policy.network == NetworkMode::Open;
    let abstract_gap = GapKind::AbstractSockets;
    if open
        && !setup.landlock.scope_abstract_unix
        && !gaps.iter().any(|gap| gap.code == abstract_gap.code())
    {
        gaps.push(abstract_gap.gap());
    }
    let row = |aspect: Aspect, full: Level, detail: String| {
        let gaps: Vec<Gap> = gaps
            .iter()
            .filter(|gap| GapKind::aspect_of(&gap.code) == Some(aspect))
            .cloned()
            .collect();
        let level = if full == Level::On && !gaps.is_empty() {
            Level::Partial
        } else {
            full
        };
        EnforcementRow {
            aspect,
            level,
            detail,
            gaps,
        }
    };
    let held = policy
        .binds
        .iter()
        .filter(|bind| bind.role == BindRole::Protected)
        .count();
    let writable = policy
        .binds
        .iter()
        .filter(|bind| bind.access == Access::Write && bind.role != BindRole::Pinned)
        .count();
    let mounts = match held {
        1 => "1 mount holds a protected path read-only".to_owned(),
        _ => format!("{held} mounts hold protected paths read-only"),
    };
    let protected = match (writable, supervised) {
        (0, _) => "nothing of the host is writable".to_owned(),
        (_, true) => format!("{mounts}; {}", guarded(&policy.files)),
        (_, false) => mounts,
    };
    let names = filename_row(policy, supervised);
    let programs = exec_row(policy);
    let reports = if supervised {
        (
            Level::On,
            "what the guard refuses is reported, with path and program; reads that a mount hides are \
             not",
        )
    } else {
        (Level::Off, "refused writes and programs are not seen")
    };
    let network = match policy.network {
        NetworkMode::Open => (Level::Off, "open: the host's network, not observed"),
        NetworkMode::Allowlist | NetworkMode::Ask => (
            Level::On,
            "own network namespace; the way out is Kotak's proxies (HTTP 3128, SOCKS 1080, DNS and \
             ports 80, 443, 22 for programs that ignore proxies)",
        ),
        NetworkMode::Off => (
            Level::On,
            "own network namespace; Kotak's proxies (HTTP 3128, SOCKS 1080, DNS and ports 80, 443, \
             22 for programs that ignore proxies) refuse and report everything",
        ),
    };
    let sockets = if open {
        "sockets of the system and the desktop are not there; abstract ones are closed by Landlock"
    } else {
        "sockets of the system and the desktop are not there; abstract ones belong to the host's \
         network"
    };
    Enforcement {
        aspects: vec![
            row(
                Aspect::Mounts,
                Level::On,
                format!("own mount namespace: {writable} writable, the rest read-only or absent"),
            ),
            row(
                Aspect::SecretReads,
                Level::On,
                format!("{} secret paths are masked", policy.masks.len()),
            ),
            row(Aspect::ProtectedWrites, Level::On, protected),
            row(
                Aspect::Processes,
                Level::On,
                "own PID namespace, no capability, no new privileges, system calls filtered, no \
                 terminal injection"
                    .to_owned(),
            ),
            row(Aspect::Network, network.0, network.1.to_owned()),
            row(Aspect::HostSockets, Level::On, sockets.to_owned()),
            row(Aspect::FilenameRules, names.0, names.1),
            row(Aspect::ExecRestriction, programs.0, programs.1),
            row(Aspect::FileReports, reports.0, reports.1.to_owned()),
        ],
    }
}

/// What the guard refuses of the write-denies.
fn guarded(files: &FilePolicy) -> String {
    let paths = match files.protected.len() {
        1 => "1 path".to_owned(),
        count => format!("{count} paths"),
    };
    let but = match files.exempt.as_slice() {
        [] => String::new(),
        exempt => {
            let paths: Vec<String> = exempt.iter().map(ToString::to_string).collect();
            format!(
                " but in {}, where a runner keeps its state",
                paths.join(", ")
            )
        }
    };
    format!(
        "the guard refuses changes to {paths}, existing or not, and to hooks and settings in every \
         repository{but}"
    )
}

fn filename_row(policy: &Policy, supervised: bool) -> (Level, String) {
    let names = &policy.files.names;
    match (policy.lack, names.is_empty()) {
        (Some(lack), _) => (
            Level::Off,
            format!("not asked for, and not to be had here: {}", lack.reason()),
        ),
        (None, true) => (Level::Off, "not asked for".to_owned()),
        (None, false) if !supervised => (Level::Off, "nothing refuses them".to_owned()),
        (None, false) => {
            let but = match policy.files.exceptions.as_slice() {
                [] => String::new(),
                exceptions => format!(", but for {}", exceptions.join(", ")),
            };
            let names = names.join(", ");
            (
                Level::On,
                format!("files named {names} cannot be made, changed or removed{but}"),
            )
        }
    }
}

fn exec_row(policy: &Policy) -> (Level, String) {
    let Some(exec) = &policy.exec else {
        return (Level::Off, "not asked for".to_owned());
    };
    let granted = match exec.grants.as_slice() {
        [] => String::new(),
        grants => {
            let paths: Vec<String> = grants.iter().map(ToString::to_string).collect();
            format!(" and in {}, as granted", paths.join(", "))
        }
    };
    let mut text = format!(
        "programs run only where nothing can be written{granted}; {} dangerous programs never do",
        exec.denied.len()
    );
    for (_, why) in &exec.left_out {
        text.push_str("; left out: ");
        text.push_str(why);
    }
    (Level::On, text)
}

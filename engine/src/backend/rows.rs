//! The enforcement report of a plan, before anything runs.

use super::{Aspect, Enforcement, EnforcementRow, Gap, Level};
use crate::policy::{Access, BindRole, GapKind, Policy};
use crate::spec::NetworkMode;
use kotak_guard::proto::Setup;

/// What a plan enforces, aspect by aspect, in the fixed order.
pub(super) fn enforcement_of(policy: &Policy, setup: &Setup) -> Enforcement {
    let mut gaps: Vec<Gap> = policy.gaps.clone();
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
            row(
                Aspect::ProtectedWrites,
                Level::On,
                if writable == 0 {
                    "nothing of the host is writable".to_owned()
                } else {
                    format!("{held} paths are held read-only inside what is writable")
                },
            ),
            row(
                Aspect::Processes,
                Level::On,
                "own PID namespace, no capability, no new privileges, system calls filtered, no \
                 terminal injection"
                    .to_owned(),
            ),
            row(Aspect::Network, network.0, network.1.to_owned()),
            row(Aspect::HostSockets, Level::On, sockets.to_owned()),
            row(
                Aspect::FilenameRules,
                Level::Off,
                "not asked for".to_owned(),
            ),
            row(
                Aspect::ExecRestriction,
                Level::Off,
                "not asked for".to_owned(),
            ),
        ],
    }
}

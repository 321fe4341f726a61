//! What the guard saw settles what the plan promised.

use super::{Aspect, Bridge, Enforcement, Gap, Level, NativePlan, WayIn};
use crate::policy::GapKind;
use kotak_guard::proto::{ReadyReport, Role};

/// The code of a gap that stands for a proof that did not come.
pub const NOT_CONFIRMED: &str = "not-confirmed";

/// The code of the gap that programs which ignore proxy variables are not seen.
pub const PROXIES_ONLY: &str = "proxies-only";

/// The plan's enforcement, with every aspect lowered that neither the guard's report nor the way
/// in, as it was found at launch, bears out. Never raises one.
#[must_use]
pub fn confirm(plan: &NativePlan, ready: &ReadyReport, way: Option<&WayIn>) -> Enforcement {
    let Role::Native(expect) = &plan.setup.role else {
        return lowered_all(plan.enforcement.clone());
    };
    let passed = |name: &str| ready.passed.iter().any(|check| check.name == name);
    let namespaces = expect.unshared.len() + expect.shared.len();
    let compared = ready
        .passed
        .iter()
        .filter(|check| check.name == "namespace")
        .count();

    let unseen = plan.setup.files.is_some() && !ready.files_supervised;
    let mut enforcement = if unseen {
        plan.unsupervised.clone()
    } else {
        plan.enforcement.clone()
    };
    if unseen {
        let what = "that it decides on new names";
        if plan.names_files() {
            lower(&mut enforcement, Aspect::FilenameRules, what);
        }
        lower(&mut enforcement, Aspect::FileReports, what);
        add_gap(
            &mut enforcement,
            Aspect::ProtectedWrites,
            not_confirmed(what),
        );
    }
    let mut need = |aspect: Aspect, holds: bool, what: &str| {
        if !holds {
            lower(&mut enforcement, aspect, what);
        }
    };
    let all_namespaces = compared >= namespaces;
    need(
        Aspect::Mounts,
        all_namespaces,
        "that its namespaces are its own",
    );
    let mounts = expect.mounts.is_empty() || passed("mount");
    need(
        Aspect::Mounts,
        mounts,
        "that what was checked outside is what is mounted inside",
    );
    let unreadable = expect.unreadable.is_empty() || passed("unreadable");
    need(
        Aspect::SecretReads,
        unreadable,
        "that secrets cannot be read",
    );
    let unwritable = expect.unwritable.is_empty() || passed("unwritable");
    need(
        Aspect::ProtectedWrites,
        unwritable,
        "that protected paths cannot be written",
    );
    need(
        Aspect::Processes,
        passed("pid-namespace"),
        "that it is the first process",
    );
    let capless = passed("capabilities") && ready.cap_eff == 0;
    need(Aspect::Processes, capless, "that it has no capability");
    need(
        Aspect::Processes,
        passed("no-new-privileges"),
        "that privileges cannot be gained",
    );
    let programs = usize::try_from(ready.seccomp_programs).unwrap_or(0);
    let filtered = !plan.setup.seccomp.is_empty() && programs >= plan.setup.seccomp.len();
    need(
        Aspect::Processes,
        filtered,
        "that system calls are filtered",
    );
    let loopback = !expect.loopback_only || (all_namespaces && passed("loopback-only"));
    need(Aspect::Network, loopback, "that the network has no way out");
    let resolver = expect.contents.is_empty() || passed("content");
    need(
        Aspect::Network,
        resolver,
        "that programs find the DNS inside",
    );
    if plan.setup.loopback.is_some() {
        let handed = way.is_some_and(|way| match way.bridge {
            Bridge::Guard => passed("listeners"),
            Bridge::Socat => true,
        });
        need(Aspect::Network, handed, "that its proxies can be reached");
    }
    let restricted = plan.setup.exec.is_none() || ready.exec_restricted;
    need(
        Aspect::ExecRestriction,
        restricted,
        "that programs are restricted",
    );
    let absent = expect.absent.is_empty() || passed("absent");
    need(Aspect::HostSockets, absent, "that host sockets are hidden");
    if plan.setup.landlock.scope_abstract_unix && !ready.abstract_unix_scoped {
        add_gap(
            &mut enforcement,
            Aspect::HostSockets,
            GapKind::AbstractSockets.gap(),
        );
    }
    if let Some(way) = way {
        name_way(&mut enforcement, way);
    }
    enforcement
}

/// Narrows the gaps of secrets that the host replaces or makes, once it was seen that they are
/// hidden again while the session runs: watched, and a helper has joined the sandbox.
pub fn confirm_watch(enforcement: &mut Enforcement, plan: &NativePlan) {
    let wide = [GapKind::SecretFileReplaced, GapKind::MissingSecretPath];
    for row in &mut enforcement.aspects {
        if row.aspect == Aspect::SecretReads {
            row.gaps
                .retain(|gap| wide.iter().all(|kind| gap.code != kind.code()));
            row.gaps.extend(plan.watched_gaps.iter().cloned());
        }
    }
}

/// What the plan must not run without and the guard did not confirm (REQ BW-4, BW-6): with it, no
/// program is started.
#[must_use]
pub fn unmet(plan: &NativePlan, ready: &ReadyReport) -> Option<&'static str> {
    if plan.names_files() && !ready.files_supervised {
        return Some("filename rules");
    }
    (plan.setup.exec.is_some() && !ready.exec_restricted).then_some("exec restriction")
}

/// What the network row says of the way in.
fn name_way(enforcement: &mut Enforcement, way: &WayIn) {
    if let Some(reason) = &way.blind {
        let text = format!(
            "programs that ignore proxy variables reach nothing and are not seen ({reason})"
        );
        let gap = Gap {
            code: PROXIES_ONLY.to_owned(),
            text,
        };
        add_gap(enforcement, Aspect::Network, gap);
    }
    let rows = enforcement.aspects.iter_mut();
    for row in rows.filter(|row| row.aspect == Aspect::Network) {
        match way.bridge {
            Bridge::Guard => {}
            Bridge::Socat => row.detail.push_str("; over a socat bridge"),
        }
    }
}

fn lowered_all(mut enforcement: Enforcement) -> Enforcement {
    for row in &mut enforcement.aspects {
        if row.level != Level::Off {
            row.level = Level::Off;
            row.gaps.push(not_confirmed("that it runs in the sandbox"));
        }
    }
    enforcement
}

fn not_confirmed(what: &str) -> Gap {
    Gap {
        code: NOT_CONFIRMED.to_owned(),
        text: format!("the guard did not confirm from inside {what}"),
    }
}

fn lower(enforcement: &mut Enforcement, aspect: Aspect, what: &str) {
    for row in enforcement
        .aspects
        .iter_mut()
        .filter(|row| row.aspect == aspect)
    {
        row.level = Level::Off;
        row.gaps.push(not_confirmed(what));
    }
}

fn add_gap(enforcement: &mut Enforcement, aspect: Aspect, gap: Gap) {
    for row in enforcement
        .aspects
        .iter_mut()
        .filter(|row| row.aspect == aspect)
    {
        if row.level == Level::On {
            row.level = Level::Partial;
        }
        if !row.gaps.contains(&gap) {
            row.gaps.push(gap.clone());
        }
    }
}

//! The rows of the report for Linux, one function per row (REQ PR-8). Pure.

use super::diagnose::{diagnose_trial, diagnose_user_namespace, first_line};
use super::distribution::{Distribution, Package};
use super::facts::{Distrust, RefusedTool, ToolRun, ToolSearch, TrialOutcome, UserNamespaceTrial};
use super::observe::{LinuxHost, Tool};
use super::report::{HostFacts, HostRow, RowStatus};
use super::supervision::SupervisionLack;
use crate::error::Fix;

/// A row that is there.
pub(crate) fn row(
    id: &str,
    label: &str,
    status: RowStatus,
    detail: impl Into<String>,
    enables: &str,
) -> HostRow {
    HostRow {
        id: id.to_owned(),
        label: label.to_owned(),
        status,
        detail: detail.into(),
        enables: enables.to_owned(),
        cause: None,
        fix: None,
    }
}

impl HostRow {
    /// The same row with a cause and its fix.
    pub(crate) fn because(mut self, cause: impl Into<String>, fix: Option<Fix>) -> Self {
        self.cause = Some(cause.into());
        self.fix = fix;
        self
    }
}

/// The row of a tool.
pub(crate) struct ToolRow<'a> {
    pub(crate) id: &'a str,
    /// For people, and the name of the package.
    pub(crate) label: &'a str,
    /// The program.
    pub(crate) program: &'a str,
    pub(crate) package: Package,
    pub(crate) enables: &'a str,
}

pub(crate) const BUBBLEWRAP: ToolRow<'static> = ToolRow {
    id: "bubblewrap",
    label: "bubblewrap",
    program: "bwrap",
    package: Package::Bubblewrap,
    enables: "The native backend: builds the sandbox's namespaces and mounts.",
};

pub(crate) const SOCAT: ToolRow<'static> = ToolRow {
    id: "socat",
    label: "socat",
    program: "socat",
    package: Package::Socat,
    enables: "The documented bridge from a sandbox's network to the host's proxy.",
};

impl ToolRow<'_> {
    pub(crate) fn row(&self, tool: &Tool, distribution: &Distribution, uid: u32) -> HostRow {
        let new = |status, detail: String| row(self.id, self.label, status, detail, self.enables);
        match &tool.search {
            ToolSearch::Missing => new(RowStatus::Missing, "missing".to_owned()).because(
                format!("{} is not on PATH", self.program),
                Some(install_fix(distribution, &[self.package], uid)),
            ),
            ToolSearch::Refused(refused) => new(
                RowStatus::Missing,
                "found, but not where it can be trusted".to_owned(),
            )
            .because(
                refused_words(self.program, refused),
                Some(install_fix(distribution, &[self.package], uid)),
            ),
            ToolSearch::Found {
                path,
                setuid,
                refused,
            } => {
                let place = path.display();
                let extra = if *setuid { ", set-user-id root" } else { "" };
                let mut row = match tool.version_text() {
                    Some(version) => new(RowStatus::Ok, format!("{version} at {place}{extra}")),
                    None => new(RowStatus::Partial, format!("at {place}{extra}"))
                        .because(version_failure(self.program, tool.version.as_ref()), None),
                };
                if !refused.is_empty() {
                    row.detail = format!(
                        "{}; passed over: {}",
                        row.detail,
                        refused_words(self.program, refused)
                    );
                }
                row
            }
        }
    }
}

fn version_failure(program: &str, run: Option<&ToolRun>) -> String {
    let why = match run {
        Some(ToolRun::Ended { stderr, code, .. }) => {
            first_line(stderr).unwrap_or_else(|| match code {
                Some(code) => format!("it ended with status {code} and no version"),
                None => "it was ended by a signal".to_owned(),
            })
        }
        Some(ToolRun::NotStarted(error)) => format!("it could not be started: {error}"),
        Some(ToolRun::TimedOut) => "it gave no answer in time".to_owned(),
        None => "it was not asked".to_owned(),
    };
    format!("{program} does not tell its version: {why}")
}

/// Why candidates were refused, in words.
pub(crate) fn refused_words(program: &str, refused: &[RefusedTool]) -> String {
    let each: Vec<String> = refused
        .iter()
        .map(|tool| {
            let path = tool.path.display();
            match &tool.why {
                Distrust::RelativeEntry => format!("{path} (by a relative entry of PATH)"),
                Distrust::Project(project) => {
                    format!("{path} (inside the project {})", project.display())
                }
                Distrust::WritableByUser(place) => {
                    format!(
                        "{path} ({} can be written by you, and so by what you run)",
                        place.display()
                    )
                }
                Distrust::WritableByAll(place) => {
                    format!("{path} ({} can be written by everybody)", place.display())
                }
                Distrust::OwnedByOther(place) => {
                    format!(
                        "{path} ({} belongs to a user other than root)",
                        place.display()
                    )
                }
            }
        })
        .collect();
    format!(
        "{program} found in a writable or project directory on PATH: {}",
        each.join(", ")
    )
}

/// How to install, with the distribution's own command where it is known.
pub(crate) fn install_fix(distribution: &Distribution, packages: &[Package], uid: u32) -> Fix {
    let names: Vec<&str> = packages
        .iter()
        .map(|package| match package {
            Package::Bubblewrap => "bubblewrap",
            Package::Socat => "socat",
            Package::Qemu => "QEMU",
            Package::GuestKernel => "a kernel image",
        })
        .collect();
    let text = format!("Install {}.", names.join(" and "));
    match distribution.install_command(packages, uid) {
        Some(command) => Fix::command(text, command),
        None => Fix::words(format!(
            "Install {} with your package manager.",
            names.join(" and ")
        )),
    }
}

pub(crate) fn wsl_row(host: &LinuxHost) -> HostRow {
    let new = |status, detail: &str| {
        row(
            "wsl",
            "WSL",
            status,
            detail,
            "Under WSL2 the native backend works as on Linux.",
        )
    };
    match host.wsl {
        None => new(RowStatus::Info, "not WSL"),
        Some(1) => new(RowStatus::Missing, "WSL1").because(
            "WSL1 has no Linux kernel, and so no namespaces",
            Some(wsl1_fix()),
        ),
        Some(_) => new(RowStatus::Ok, "WSL2"),
    }
}

pub(crate) fn wsl1_fix() -> Fix {
    Fix::command(
        "Convert this distribution to WSL2, from Windows.",
        "wsl.exe --set-version <distribution> 2",
    )
}

pub(crate) fn container_row(host: &LinuxHost) -> HostRow {
    let detail = match &host.container {
        Some(kind) => format!("inside a container ({kind})"),
        None if host.chrooted => "in a changed root directory (chroot)".to_owned(),
        None => "not in a container".to_owned(),
    };
    row(
        "container",
        "Container",
        RowStatus::Info,
        detail,
        "Sandboxes inside a container need its leave.",
    )
}

pub(crate) fn user_namespace_row(host: &LinuxHost, uid: u32) -> HostRow {
    let new = |status, detail: &str| {
        row(
            "user-namespaces",
            "User namespaces",
            status,
            detail,
            "Sandboxes without any privilege on the host.",
        )
    };
    let for_bwrap = matches!(host.trial, Some(TrialOutcome::Ready(_)));
    match (diagnose_user_namespace(host, uid), for_bwrap) {
        (None, _) => new(RowStatus::Ok, "allowed for you"),
        (Some(_), true) => new(
            RowStatus::Ok,
            "allowed to bubblewrap, restricted for other programs",
        ),
        (Some(diagnosis), false) => {
            let detail = match host.user_namespace {
                UserNamespaceTrial::Works => "allowed",
                UserNamespaceTrial::Refused(_) => "refused",
                UserNamespaceTrial::Powerless(_) => "made, but without capabilities",
                UserNamespaceTrial::NotTried(_) => "not tried",
            };
            new(RowStatus::Missing, detail).because(diagnosis.cause, diagnosis.fix)
        }
    }
}

pub(crate) fn trial_row(host: &LinuxHost, uid: u32) -> HostRow {
    let new = |status, detail: String| {
        row(
            "trial",
            "Trial sandbox",
            status,
            detail,
            "Shows that a sandbox starts here and holds, checked from inside.",
        )
    };
    match &host.trial {
        None => new(RowStatus::Missing, "not run".to_owned())
            .because("there is no trusted bubblewrap to run it", None),
        Some(TrialOutcome::Ready(report)) => {
            let count = report.passed.len();
            new(
                RowStatus::Ok,
                format!("passed {count} of {count} checks from inside"),
            )
        }
        Some(_) => {
            let row = new(RowStatus::Missing, "failed".to_owned());
            match diagnose_trial(host, uid) {
                Some(diagnosis) => row.because(diagnosis.cause, diagnosis.fix),
                None => row,
            }
        }
    }
}

/// Landlock: (ABI, kernel, what it brings), landlock(7).
const LANDLOCK: [(u32, &str, &str); 7] = [
    (1, "5.13", "file access"),
    (2, "5.19", "renames between directories"),
    (3, "6.2", "truncation"),
    (4, "6.7", "TCP ports"),
    (5, "6.10", "device ioctls"),
    (6, "6.12", "abstract-socket and signal scopes"),
    (7, "6.15", "audit of denials"),
];

pub(crate) fn landlock_row(host: &LinuxHost) -> HostRow {
    let abi = host.kernel.landlock_abi;
    let have: Vec<&str> = LANDLOCK
        .iter()
        .filter(|(since, ..)| *since <= abi)
        .map(|(.., what)| *what)
        .collect();
    let new = |status, detail: String| {
        row(
            "landlock",
            "Landlock",
            status,
            detail,
            "Closes the host's abstract sockets (X11, D-Bus) to sandboxes with an open network, from ABI 6.",
        )
    };
    match abi {
        0 => new(RowStatus::Missing, "not there".to_owned()).because(
            "the kernel is older than 5.13, was built without Landlock, or starts without it",
            Some(Fix::words(
                "Use a kernel from 6.12 on, and add landlock to its lsm= start parameter where \
                 /sys/kernel/security/lsm does not list it.",
            )),
        ),
        1..=5 => new(RowStatus::Partial, format!("ABI {abi}: {}", have.join(", "))).because(
            format!(
                "abstract-socket and signal scopes need ABI 6 (kernel 6.12); this kernel has ABI {abi}"
            ),
            Some(Fix::words("Use a kernel from 6.12 on.")),
        ),
        _ => new(RowStatus::Ok, format!("ABI {abi}: {}", have.join(", "))),
    }
}

pub(crate) fn seccomp_row(host: &LinuxHost) -> HostRow {
    let seccomp = host.kernel.seccomp;
    let new = |status, detail: &str| {
        row(
            "seccomp-notify",
            "seccomp notification",
            status,
            detail,
            "Lets the guard decide on and report single system calls; filename rules need it.",
        )
    };
    let fix = || {
        Some(Fix::words(
            "Use a kernel from 5.19 on with CONFIG_SECCOMP_FILTER.",
        ))
    };
    match (seccomp.filters, seccomp.notify, seccomp.wait_killable) {
        (true, true, true) => new(RowStatus::Ok, "works, signals do not interrupt it"),
        (true, true, false) => new(RowStatus::Partial, "works, but signals interrupt it").because(
            "uninterrupted waiting needs kernel 5.19 (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)",
            fix(),
        ),
        (true, false, _) => new(RowStatus::Missing, "filters only").because(
            "the kernel has no user notification (5.0), or a filter hides it",
            fix(),
        ),
        (false, ..) => new(RowStatus::Missing, "no filters").because(
            "the kernel was built without seccomp filters, or a filter forbids them",
            fix(),
        ),
    }
}

/// REQ BW-4, BW-5
pub(crate) fn filename_rules_row(host: &LinuxHost, facts: &HostFacts) -> HostRow {
    let new = |status, detail: &str| {
        row(
            "filename-rules",
            "Filename rules",
            status,
            detail,
            "Refuse new files by name (.env, *.key, *.pem) inside writable folders, hold protected \
             paths that do not exist yet, and report what is refused.",
        )
    };
    if let Some(lack) = SupervisionLack::of(facts) {
        return new(
            RowStatus::Missing,
            "not here: what asks for them is refused",
        )
        .because(lack.reason(), Some(lack.fix()));
    }
    match &host.trial {
        Some(TrialOutcome::Ready(_)) => new(RowStatus::Ok, "hold, as tried from inside"),
        Some(_) | None => new(RowStatus::Missing, "not tried")
            .because("no trial sandbox ran; the kernel has what they need", None),
    }
}

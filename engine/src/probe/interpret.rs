//! From what was observed to the report (REQ PR-2..6, BK-8). Pure.

use super::diagnose::diagnose_trial;
use super::distribution::{Distribution, Package};
use super::facts::{FileText, Os, ToolSearch, TrialOutcome};
use super::microvm::microvm;
use super::observe::{LinuxHost, MacosHost, Native, Observed, SANDBOX_EXEC, linux_facts};
use super::report::{
    BackendReport, HostFacts, HostReport, HostRow, HostVerdict, Platform, RowStatus, VerdictState,
};
use super::rows::{self, BUBBLEWRAP, SOCAT, install_fix, refused_words, row};
use super::switch::Switch;
use crate::backend::SandboxBackend;
use crate::error::{Fix, Problem};

const BUBBLEWRAP_NOTE: &str = "bubblewrap, namespace isolation, no kernel boundary";
const SEATBELT_NOTE: &str = "sandbox-exec (Seatbelt), namespace isolation, no kernel boundary";
const NOT_OFFERED_NOTE: &str = "native sandbox not offered on this platform";
const NONE_NOTE: &str = "no sandbox: the program runs directly on this host, as you";

/// Makes the report; the times are the caller's to set.
pub(crate) fn interpret(observed: &Observed, switch: Switch) -> HostReport {
    let (distribution, container, wsl) = match &observed.native {
        Native::Linux(host) => (
            Distribution::from_os_release(host.os_release.text().unwrap_or_default()),
            host.container.clone(),
            host.wsl,
        ),
        Native::Macos(_) | Native::NotOffered => (Distribution::from_os_release(""), None, None),
    };
    let platform = Platform {
        os: os_name(&observed.os).to_owned(),
        name: platform_name(observed, &distribution),
        kernel: observed.kernel.clone(),
        arch: observed.arch.clone(),
        wsl,
        container: container.clone(),
    };
    let mut rows = vec![
        row(
            "platform",
            "Platform",
            RowStatus::Info,
            format!("{} ({})", platform.name, platform.arch),
            "Decides which backends can exist.",
        ),
        row(
            "kernel",
            "Kernel",
            RowStatus::Info,
            &platform.kernel,
            "Decides what can be enforced.",
        ),
    ];
    let (native, facts) = match &observed.native {
        Native::Linux(host) => {
            let facts = HostFacts {
                files_supervised: match &host.trial {
                    Some(TrialOutcome::Ready(report)) => Some(report.files_supervised),
                    Some(_) | None => None,
                },
                ..linux_facts(observed.uid, host.kernel, &host.bwrap, &host.socat)
            };
            rows.extend(linux_rows(host, &facts, &distribution, observed.uid));
            (linux_backend(host, &distribution, observed.uid), facts)
        }
        Native::Macos(host) => {
            rows.extend(macos_rows(host));
            (
                macos_backend(host),
                HostFacts {
                    uid: observed.uid,
                    ..HostFacts::default()
                },
            )
        }
        Native::NotOffered => {
            let problem =
                native_problem(NOT_OFFERED_NOTE, Vec::new(), not_offered_fix(&observed.os));
            (unavailable(NOT_OFFERED_NOTE, problem), HostFacts::default())
        }
    };
    let (microvm_rows, microvm_report) =
        microvm(observed, &distribution, container.as_deref(), wsl);
    rows.extend(microvm_rows);
    let none = BackendReport {
        backend: SandboxBackend::None,
        available: true,
        requires_install: false,
        note: NONE_NOTE.to_owned(),
        problem: None,
    };
    HostReport {
        verdict: verdict(&native, switch),
        backends: vec![microvm_report, native, none],
        rows,
        platform,
        facts,
        probed_at_ms: 0,
        duration_ms: 0,
    }
}

/// The one start-up line (REQ PR-6).
fn verdict(native: &BackendReport, switch: Switch) -> HostVerdict {
    match (switch, &native.problem) {
        (Switch::Off, _) => HostVerdict {
            state: VerdictState::Disabled,
            line: "agent sandbox DISABLED by --sandbox off".to_owned(),
        },
        (Switch::On, None) => HostVerdict {
            state: VerdictState::On,
            line: format!("agent sandbox ON — {}", native.note),
        },
        (Switch::On, Some(problem)) => HostVerdict {
            state: VerdictState::Unavailable,
            line: format!(
                "no OS-native agent sandbox on this host — {}",
                hint(problem)
            ),
        },
    }
}

/// What a problem comes to in one line: what is wrong, and the command that mends it.
fn hint(problem: &Problem) -> String {
    let reason = problem.causes.first().unwrap_or(&problem.message);
    match problem.fix.as_ref().map(|fix| (&fix.command, &fix.text)) {
        Some((Some(command), _)) => format!("{reason}: {command}"),
        Some((None, text)) => format!("{reason}. {text}"),
        None => reason.clone(),
    }
}

fn linux_rows(
    host: &LinuxHost,
    facts: &HostFacts,
    distribution: &Distribution,
    uid: u32,
) -> Vec<HostRow> {
    vec![
        rows::wsl_row(host),
        rows::container_row(host),
        BUBBLEWRAP.row(&host.bwrap, distribution, uid),
        SOCAT.row(&host.socat, distribution, uid),
        rows::user_namespace_row(host, uid),
        rows::trial_row(host, uid),
        rows::landlock_row(host),
        rows::seccomp_row(host),
        rows::filename_rules_row(host, facts),
    ]
}

/// REQ PR-3, PR-4, PR-7: both tools, and a trial that held.
fn linux_backend(host: &LinuxHost, distribution: &Distribution, uid: u32) -> BackendReport {
    if host.wsl == Some(1) {
        let cause = "WSL1 has no Linux kernel, and so no namespaces".to_owned();
        let problem = native_problem(
            "the native sandbox needs WSL2",
            vec![cause],
            Some(rows::wsl1_fix()),
        );
        return unavailable(BUBBLEWRAP_NOTE, problem);
    }
    let tools = [
        (
            &host.bwrap.search,
            "bwrap",
            Package::Bubblewrap,
            "bubblewrap",
        ),
        (&host.socat.search, "socat", Package::Socat, "socat"),
    ];
    let absent: Vec<_> = tools
        .iter()
        .filter(|(search, ..)| search.path().is_none())
        .collect();
    if !absent.is_empty() {
        let missing: Vec<&str> = absent
            .iter()
            .filter(|(search, ..)| matches!(search, ToolSearch::Missing))
            .map(|(.., name)| *name)
            .collect();
        let mut causes: Vec<String> = Vec::new();
        match missing.as_slice() {
            [] => {}
            [one] => causes.push(format!("{one} is not installed")),
            several => causes.push(format!("{} are not installed", several.join(" and "))),
        }
        causes.extend(
            absent
                .iter()
                .filter_map(|(search, program, ..)| match search {
                    ToolSearch::Refused(refused) => Some(refused_words(program, refused)),
                    ToolSearch::Missing | ToolSearch::Found { .. } => None,
                }),
        );
        let packages: Vec<Package> = absent.iter().map(|(_, _, package, _)| *package).collect();
        let problem = native_problem(
            "the native sandbox needs bubblewrap and socat",
            causes,
            Some(install_fix(distribution, &packages, uid)),
        );
        return BackendReport {
            requires_install: true,
            ..unavailable(BUBBLEWRAP_NOTE, problem)
        };
    }
    match (&host.trial, diagnose_trial(host, uid)) {
        (Some(TrialOutcome::Ready(_)), None) => BackendReport {
            backend: SandboxBackend::Native,
            available: true,
            requires_install: false,
            note: match host.bwrap.version_text() {
                Some(version) => {
                    format!("bubblewrap {version}, namespace isolation, no kernel boundary")
                }
                None => BUBBLEWRAP_NOTE.to_owned(),
            },
            problem: None,
        },
        (_, Some(diagnosis)) => unavailable(
            BUBBLEWRAP_NOTE,
            native_problem(
                "no trial sandbox could be started",
                vec![diagnosis.cause],
                diagnosis.fix,
            ),
        ),
        // Without a trial that held there is no backend, whatever else was found.
        (_, None) => unavailable(
            BUBBLEWRAP_NOTE,
            native_problem("no trial sandbox could be started", Vec::new(), None),
        ),
    }
}

fn macos_rows(host: &MacosHost) -> Vec<HostRow> {
    let found = if host.sandbox_exec {
        row(
            "sandbox-exec",
            "sandbox-exec",
            RowStatus::Ok,
            SANDBOX_EXEC,
            "The native backend (Seatbelt).",
        )
    } else {
        row(
            "sandbox-exec",
            "sandbox-exec",
            RowStatus::Missing,
            "missing",
            "The native backend (Seatbelt).",
        )
        .because(format!("{SANDBOX_EXEC} does not exist"), None)
    };
    let (status, detail, cause) = match &host.trial {
        Some(TrialOutcome::Ready(report)) => {
            let count = report.passed.len();
            (
                RowStatus::Ok,
                format!("passed {count} of {count} checks from inside"),
                None,
            )
        }
        Some(other) => (
            RowStatus::Missing,
            "failed".to_owned(),
            Some(seatbelt_failure(other)),
        ),
        None => {
            let cause = "there is no sandbox-exec to run it".to_owned();
            (RowStatus::Missing, "not run".to_owned(), Some(cause))
        }
    };
    let mut trial = row(
        "trial",
        "Trial sandbox",
        status,
        detail,
        "Shows that a sandbox starts here and holds, checked from inside.",
    );
    trial.cause = cause;
    vec![found, trial]
}

/// REQ PR-2.
fn macos_backend(host: &MacosHost) -> BackendReport {
    match &host.trial {
        Some(TrialOutcome::Ready(_)) => BackendReport {
            backend: SandboxBackend::Native,
            available: true,
            requires_install: false,
            note: SEATBELT_NOTE.to_owned(),
            problem: None,
        },
        Some(other) => unavailable(
            SEATBELT_NOTE,
            native_problem(
                "no trial sandbox could be started",
                vec![seatbelt_failure(other)],
                None,
            ),
        ),
        None => unavailable(
            SEATBELT_NOTE,
            native_problem(
                "the native sandbox needs sandbox-exec",
                vec![format!("{SANDBOX_EXEC} does not exist")],
                None,
            ),
        ),
    }
}

fn seatbelt_failure(outcome: &TrialOutcome) -> String {
    use super::diagnose::{first_line, one_line};
    match outcome {
        TrialOutcome::Ready(_) => String::new(),
        TrialOutcome::GuardRefused(check) => format!(
            "the trial sandbox ran, but does not hold: check \"{}\": {}",
            one_line(&check.name),
            one_line(&check.detail)
        ),
        TrialOutcome::RunnerFailed { stderr, .. } => {
            format!(
                "sandbox-exec failed: {}",
                first_line(stderr).unwrap_or_else(|| "it said nothing".to_owned())
            )
        }
        TrialOutcome::SpawnFailed(error) => {
            format!("sandbox-exec could not be started: {}", one_line(error))
        }
        TrialOutcome::Timeout => "the trial sandbox gave no answer in time".to_owned(),
        TrialOutcome::NoLauncher => {
            "this version of Kotak has no native launcher for this platform".to_owned()
        }
    }
}

fn not_offered_fix(os: &Os) -> Option<Fix> {
    match os {
        Os::Windows => Some(Fix::words(
            "Run Kotak inside WSL2, where the native backend works as on Linux.",
        )),
        Os::Linux | Os::Macos | Os::Other(_) => None,
    }
}

fn native_problem(message: &str, causes: Vec<String>, fix: Option<Fix>) -> Problem {
    Problem {
        code: "NATIVE_UNAVAILABLE".to_owned(),
        message: message.to_owned(),
        causes,
        fix,
    }
}

fn unavailable(note: &str, problem: Problem) -> BackendReport {
    BackendReport {
        backend: SandboxBackend::Native,
        available: false,
        requires_install: false,
        note: note.to_owned(),
        problem: Some(problem),
    }
}

fn os_name(os: &Os) -> &str {
    match os {
        Os::Linux => "linux",
        Os::Macos => "macos",
        Os::Windows => "windows",
        Os::Other(name) => name,
    }
}

fn platform_name(observed: &Observed, distribution: &Distribution) -> String {
    match (&observed.os, &observed.native) {
        (_, Native::Linux(_)) => distribution.name.clone(),
        (_, Native::Macos(host)) => match macos_version(&host.system_version) {
            Some(version) => format!("macOS {version}"),
            None => "macOS".to_owned(),
        },
        (Os::Windows, _) => "Windows".to_owned(),
        (os, _) => os_name(os).to_owned(),
    }
}

/// `ProductVersion` of `SystemVersion.plist`.
fn macos_version(plist: &FileText) -> Option<String> {
    let (_, after) = plist.text()?.split_once("<key>ProductVersion</key>")?;
    let (_, value) = after.split_once("<string>")?;
    let (version, _) = value.split_once("</string>")?;
    Some(super::diagnose::one_line(version))
}

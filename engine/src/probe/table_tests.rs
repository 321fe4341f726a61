//! Every row, backend and verdict of the native side, from faked facts.

use super::fake::{FakeHost, found, ready, row, runner_failed, says, text};
use super::*;
use crate::backend::{BackendChoice, ClientDefault, SandboxBackend, select};
use kotak_guard::proto::Check;
use proptest::prelude::*;
use std::path::PathBuf;

const EPERM: i32 = 1;

fn native(report: &HostReport) -> &BackendReport {
    report
        .backend(SandboxBackend::Native)
        .expect("a native report")
}

/// Cause and command of the native backend's problem.
fn why_not(host: &FakeHost) -> (String, Option<crate::error::Fix>) {
    let report = host.report();
    let native = native(&report).clone();
    assert!(!native.available);
    let problem = native.problem.expect("a problem");
    assert_eq!(problem.code, "NATIVE_UNAVAILABLE");
    assert_eq!(report.verdict.state, VerdictState::Unavailable);
    (problem.causes.join("; "), problem.fix)
}

fn command(fix: &Option<crate::error::Fix>) -> &str {
    fix.as_ref()
        .and_then(|fix| fix.command.as_deref())
        .unwrap_or_default()
}

// REQ PR-3, PR-6, PR-8
#[test]
fn a_host_with_everything_reports_everything() {
    let report = FakeHost::debian().report();
    assert_eq!(report.verdict.state, VerdictState::On);
    assert_eq!(
        report.verdict.line,
        "agent sandbox ON — bubblewrap 0.8.0, namespace isolation, no kernel boundary"
    );
    let backends: Vec<_> = report
        .backends
        .iter()
        .map(|entry| (entry.backend, entry.available))
        .collect();
    assert_eq!(
        backends,
        [
            (SandboxBackend::Microvm, false),
            (SandboxBackend::Native, true),
            (SandboxBackend::None, true),
        ]
    );
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.id.as_str(), row.status, row.detail.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            ("platform", RowStatus::Info, "Debian GNU/Linux 12 (x86_64)"),
            ("kernel", RowStatus::Info, "6.18.0"),
            ("wsl", RowStatus::Info, "not WSL"),
            ("container", RowStatus::Info, "not in a container"),
            ("bubblewrap", RowStatus::Ok, "0.8.0 at /usr/bin/bwrap"),
            ("socat", RowStatus::Ok, "1.7.4.4 at /usr/bin/socat"),
            ("user-namespaces", RowStatus::Ok, "allowed for you"),
            ("trial", RowStatus::Ok, "passed 9 of 9 checks from inside"),
            (
                "landlock",
                RowStatus::Ok,
                "ABI 7: file access, renames between directories, truncation, TCP ports, device \
                 ioctls, abstract-socket and signal scopes, audit of denials"
            ),
            (
                "seccomp-notify",
                RowStatus::Ok,
                "works, signals do not interrupt it"
            ),
            (
                "filename-rules",
                RowStatus::Missing,
                "not in this version; this kernel has what they will need"
            ),
            (
                "qemu",
                RowStatus::Ok,
                "7.2.22 at /usr/bin/qemu-system-x86_64"
            ),
            ("qemu-microvm", RowStatus::Ok, "present"),
            ("guest-kernel", RowStatus::Ok, "/boot/vmlinuz-6.1"),
            (
                "kvm",
                RowStatus::Ok,
                "works: a canary guest ran its kernel code"
            ),
            ("microvm", RowStatus::Missing, "not available"),
        ]
    );
    assert!(report.rows.iter().all(|row| !row.enables.is_empty()));
    assert_eq!(
        report.facts,
        HostFacts {
            bwrap_path: Some("/usr/bin/bwrap".to_owned()),
            bwrap_version: Some((0, 8, 0)),
            socat_path: Some("/usr/bin/socat".to_owned()),
            landlock_abi: 7,
            seccomp_notify: true,
            seccomp_wait_killable: true,
            uid: 1000,
        }
    );
    assert_eq!(report.probed_at_ms, 1_700_000_000_000);
}

// REQ PR-4
#[test]
fn a_missing_tool_is_named_exactly_with_this_distributions_command() {
    let cases: [(&[&str], &str, &str); 3] = [
        (
            &["bwrap"],
            "bubblewrap is not installed",
            "sudo apt-get install bubblewrap",
        ),
        (
            &["socat"],
            "socat is not installed",
            "sudo apt-get install socat",
        ),
        (
            &["bwrap", "socat"],
            "bubblewrap and socat are not installed",
            "sudo apt-get install bubblewrap socat",
        ),
    ];
    for (missing, cause, install) in cases {
        let host = FakeHost::debian().but(|host| {
            for name in missing {
                host.tools.remove(name);
            }
        });
        let (causes, fix) = why_not(&host);
        assert_eq!(causes, cause);
        assert_eq!(command(&fix), install);
        let report = host.report();
        assert!(native(&report).requires_install);
        assert_eq!(
            report.verdict.line,
            format!("no OS-native agent sandbox on this host — {cause}: {install}")
        );
        for (name, id) in [("bwrap", "bubblewrap"), ("socat", "socat")] {
            let wanted = if missing.contains(&name) {
                RowStatus::Missing
            } else {
                RowStatus::Ok
            };
            assert_eq!(row(&report, id).status, wanted, "{id}");
        }
    }
}

// REQ PR-4
#[test]
fn the_install_command_is_the_distributions_own_or_none() {
    let with = |os_release: &str| {
        FakeHost::debian().but(|host| {
            host.tools.remove("socat");
            host.files.insert("/etc/os-release", text(os_release));
        })
    };
    assert_eq!(
        command(&why_not(&with("ID=fedora")).1),
        "sudo dnf install socat"
    );
    assert_eq!(
        command(&why_not(&with("ID=arch")).1),
        "sudo pacman -S socat"
    );
    let (_, unknown) = why_not(&with("ID=mine"));
    assert_eq!(
        unknown,
        Some(crate::error::Fix::words(
            "Install socat with your package manager."
        ))
    );
    let elsewhere = with("").but(|host| {
        host.files.remove("/etc/os-release");
        host.files.insert("/usr/lib/os-release", text("ID=alpine"));
    });
    assert_eq!(command(&why_not(&elsewhere).1), "sudo apk add socat");
}

#[test]
fn a_bwrap_that_cannot_be_trusted_is_refused_and_never_run() {
    let refused = RefusedTool {
        path: PathBuf::from("/home/u/bin/bwrap"),
        why: Distrust::WritableByUser(PathBuf::from("/home/u/bin")),
    };
    let host = FakeHost::debian().but(|host| {
        host.tools
            .insert("bwrap", ToolSearch::Refused(vec![refused.clone()]));
    });
    let (cause, fix) = why_not(&host);
    assert!(
        cause.contains("bwrap found in a writable or project directory on PATH"),
        "{cause}"
    );
    assert!(cause.contains("/home/u/bin/bwrap"), "{cause}");
    assert_eq!(command(&fix), "sudo apt-get install bubblewrap");
    let report = host.report();
    assert_eq!(row(&report, "trial").detail, "not run");
    assert_eq!(report.facts.bwrap_path, None);

    // Control: with a system one behind it, that one is used, and the other is told of.
    let host = FakeHost::debian().but(|host| {
        host.tools.insert(
            "bwrap",
            ToolSearch::Found {
                path: PathBuf::from("/usr/bin/bwrap"),
                setuid: false,
                refused: vec![refused],
            },
        );
    });
    let report = host.report();
    assert!(native(&report).available);
    let detail = &row(&report, "bubblewrap").detail;
    assert!(
        detail.starts_with("0.8.0 at /usr/bin/bwrap; passed over:"),
        "{detail}"
    );
}

#[test]
fn every_reason_of_distrust_is_told_in_words() {
    let place = PathBuf::from("/p");
    for (why, words) in [
        (Distrust::RelativeEntry, "relative entry"),
        (Distrust::Project(place.clone()), "inside the project /p"),
        (
            Distrust::WritableByUser(place.clone()),
            "/p can be written by you",
        ),
        (
            Distrust::WritableByAll(place.clone()),
            "/p can be written by everybody",
        ),
        (
            Distrust::OwnedByOther(place),
            "/p belongs to a user other than root",
        ),
    ] {
        let host = FakeHost::debian().but(|host| {
            let refused = RefusedTool {
                path: PathBuf::from("/x/socat"),
                why,
            };
            host.tools
                .insert("socat", ToolSearch::Refused(vec![refused]));
        });
        let (cause, _) = why_not(&host);
        assert!(cause.contains(words), "{cause}");
    }
}

/// One text of bubblewrap's, the facts beside it, and what must be said.
struct Failure {
    stderr: &'static str,
    facts: fn(&mut FakeHost),
    cause: &'static str,
    /// Part of the fix, command or words.
    fix: &'static str,
}

const NO_PERMISSION: &str = "bwrap: No permissions to create new namespace, likely because the \
                             kernel does not allow non-privileged user namespaces. On e.g. debian \
                             this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.";
const OVER_LIMIT: &str = "bwrap: Creating new namespace failed: nesting depth or \
                          /proc/sys/user/max_*_namespaces exceeded (ENOSPC)";

const FAILURES: &[Failure] = &[
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(EPERM);
            host.files
                .insert("/proc/sys/kernel/unprivileged_userns_clone", text("0\n"));
        },
        cause: "kernel.unprivileged_userns_clone is 0",
        fix: "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(EPERM);
            host.files
                .insert("/proc/self/status", text("Seccomp:\t2\n"));
        },
        cause: "a seccomp filter on Kotak's own process forbids user namespaces",
        fix: "Start Kotak outside the program that filters it",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(EPERM);
            host.files
                .insert("/proc/self/status", text("Seccomp:\t2\n"));
            host.files.insert("/.dockerenv", text(""));
        },
        cause: "inside a docker container whose seccomp filter forbids user namespaces",
        fix: "--security-opt seccomp=unconfined",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(EPERM);
            host.files.insert("/run/.containerenv", text(""));
        },
        cause: "inside a podman container that forbids user namespaces",
        fix: "unmask=ALL",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(EPERM);
            host.files.insert(
                "/proc/self/mountinfo",
                text("36 35 0:5 / /proc rw - proc proc rw\n"),
            );
        },
        cause: "changed root directory (chroot)",
        fix: "systemd-nspawn",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(EPERM);
            host.files.insert(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                text("1\n"),
            );
        },
        cause: "kernel.apparmor_restrict_unprivileged_userns is 1",
        fix: "sudo apparmor_parser -r /etc/apparmor.d/bwrap",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |_| {},
        cause: "refuses user namespaces to bubblewrap, though not to Kotak itself",
        fix: "",
    },
    Failure {
        stderr: OVER_LIMIT,
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Refused(28);
            host.files
                .insert("/proc/sys/user/max_user_namespaces", text("0\n"));
        },
        cause: "user.max_user_namespaces is 0",
        fix: "sudo sysctl -w user.max_user_namespaces=",
    },
    Failure {
        stderr: OVER_LIMIT,
        facts: |host| host.user_namespace = UserNamespaceTrial::Refused(28),
        cause: "the limit of namespaces is reached",
        fix: "Run Kotak outside the sandbox or container",
    },
    Failure {
        stderr: "bwrap: Creating new namespace failed: Invalid argument",
        facts: |host| host.user_namespace = UserNamespaceTrial::Refused(22),
        cause: "built without a kind of namespace",
        fix: "CONFIG_USER_NS",
    },
    Failure {
        stderr: "bwrap: setting up uid map: Permission denied",
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Powerless(EPERM);
            host.files.insert(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                text("1\n"),
            );
        },
        cause: "AppArmor restricts user namespaces",
        fix: "'profile bwrap /usr/bin/bwrap flags=(unconfined) {' '  userns,' '}'",
    },
    Failure {
        stderr: "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        facts: |host| {
            host.user_namespace = UserNamespaceTrial::Powerless(EPERM);
            host.files.insert(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                text("1\n"),
            );
        },
        cause: "AppArmor restricts user namespaces",
        fix: "/etc/apparmor.d/bwrap",
    },
    Failure {
        stderr: "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        facts: |_| {},
        cause: "a security module (AppArmor, SELinux or the like) takes away what it is for",
        fix: "",
    },
    Failure {
        stderr: "bwrap: Can't read /proc/sys/kernel/overflowuid",
        facts: |host| {
            host.files.insert("/run/systemd/container", text("podman"));
        },
        cause: "parts of /proc are masked by the podman container",
        fix: "unmask=ALL",
    },
    Failure {
        stderr: "bwrap: Can't read /proc/sys/kernel/overflowuid",
        facts: |_| {},
        cause: "parts of /proc are masked by the surroundings",
        fix: "on the host itself",
    },
    Failure {
        stderr: "bwrap: Unknown option --json-status-fd\n",
        facts: |host| {
            host.runs
                .insert("bwrap --version", says("bubblewrap 0.3.1\n"));
        },
        cause: "too old: it does not know --json-status-fd",
        fix: "0.5.0 or newer",
    },
    Failure {
        stderr: "bwrap: --userns doesn't work in setuid mode",
        facts: |_| {},
        cause: "set-user-id root",
        fix: "sudo chmod u-s /usr/bin/bwrap",
    },
    Failure {
        stderr: NO_PERMISSION,
        facts: |host| {
            let path = PathBuf::from("/usr/bin/bwrap");
            host.tools.insert(
                "bwrap",
                ToolSearch::Found {
                    path,
                    setuid: true,
                    refused: Vec::new(),
                },
            );
        },
        cause: "set-user-id root",
        fix: "sudo chmod u-s /usr/bin/bwrap",
    },
    Failure {
        stderr: "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        facts: |host| {
            host.env.insert("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        },
        cause: "inside a kubernetes container that does not allow the mounts of a sandbox: Can't \
                mount proc on /newroot/proc",
        fix: "procMount: Unmasked",
    },
    Failure {
        stderr: "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        facts: |_| {},
        cause: "usually means a container",
        fix: "on the host itself",
    },
    Failure {
        stderr: "bwrap: Failed to make / slave: Permission denied",
        facts: |host| {
            host.files
                .insert("/proc/1/environ", text("container=lxc\0"));
        },
        cause: "inside a lxc container",
        fix: "security.nesting=true",
    },
    Failure {
        stderr: "bwrap: Can't find source path /x\u{1b}[31m: No such file\nmore",
        facts: |_| {},
        cause: "bubblewrap failed: Can't find source path /x\\u{1b}[31m: No such file",
        fix: "",
    },
    Failure {
        stderr: "",
        facts: |_| {},
        cause: "bubblewrap failed with status 1 and said nothing",
        fix: "",
    },
];

// REQ PR-7
#[test]
fn every_text_of_bubblewrap_is_told_with_its_cause_and_fix() {
    for failure in FAILURES {
        let host = FakeHost::debian()
            .but(|host| host.trial = runner_failed(failure.stderr))
            .but(failure.facts);
        let (cause, fix) = why_not(&host);
        let name = failure.stderr;
        assert!(cause.contains(failure.cause), "{name}: {cause}");
        let words = fix
            .as_ref()
            .map(|fix| format!("{}\n{}", fix.text, command(&Some(fix.clone()))));
        match &words {
            None => assert_eq!(failure.fix, "", "{name}: no fix"),
            Some(words) => {
                assert!(!failure.fix.is_empty(), "{name}: unexpected fix {words}");
                assert!(words.contains(failure.fix), "{name}: {words}");
            }
        }
        let report = host.report();
        let trial = row(&report, "trial");
        assert_eq!(
            (trial.status, trial.detail.as_str()),
            (RowStatus::Missing, "failed")
        );
        assert_eq!(trial.cause.as_deref(), Some(cause.as_str()));
        assert!(report.verdict.line.lines().count() == 1);
        assert!(
            !report.verdict.line.contains('\u{1b}'),
            "nothing of the runner's is obeyed"
        );
    }
}

// REQ PR-7
#[test]
fn a_trial_that_ends_in_any_other_way_is_told_too() {
    let check = Check {
        name: "capabilities".to_owned(),
        detail: "CapEff is 3f".to_owned(),
    };
    for (trial, words) in [
        (
            TrialOutcome::GuardRefused(check),
            "check \"capabilities\": CapEff is 3f",
        ),
        (
            TrialOutcome::SpawnFailed("no such file".to_owned()),
            "could not be started: no such file",
        ),
        (TrialOutcome::Timeout, "no answer in time"),
        (
            TrialOutcome::NoLauncher,
            "no native launcher for this platform",
        ),
        (
            TrialOutcome::RunnerFailed {
                stderr: String::new(),
                status: None,
            },
            "ended by a signal and said nothing",
        ),
    ] {
        let (cause, _) = why_not(&FakeHost::debian().but(|host| host.trial = trial));
        assert!(cause.contains(words), "{cause}");
    }
}

// REQ PR-7
#[test]
fn root_is_not_told_of_restrictions_that_do_not_bind_root() {
    let host = FakeHost::debian().but(|host| {
        host.uid = 0;
        host.user_namespace = UserNamespaceTrial::Refused(EPERM);
        host.files
            .insert("/proc/sys/kernel/unprivileged_userns_clone", text("0"));
        host.files.insert(
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            text("1"),
        );
        host.files
            .insert("/proc/self/status", text("Seccomp:\t2\n"));
        host.trial = runner_failed(NO_PERMISSION);
    });
    let (cause, _) = why_not(&host);
    assert!(cause.contains("a seccomp filter"), "{cause}");
}

#[test]
fn user_namespaces_have_a_row_of_their_own() {
    let cases = [
        (UserNamespaceTrial::Refused(EPERM), "refused"),
        (
            UserNamespaceTrial::Powerless(EPERM),
            "made, but without capabilities",
        ),
        (UserNamespaceTrial::NotTried(11), "not tried"),
    ];
    for (user_namespace, detail) in cases {
        let host = FakeHost::debian().but(|host| {
            host.user_namespace = user_namespace;
            host.trial = runner_failed(NO_PERMISSION);
        });
        let report = host.report();
        let found = row(&report, "user-namespaces");
        assert_eq!(
            (found.status, found.detail.as_str()),
            (RowStatus::Missing, detail)
        );
        assert!(found.cause.is_some());
        // A profile of bubblewrap's own may allow what this process may not do.
        let report = host.but(|host| host.trial = ready(3)).report();
        assert_eq!(
            row(&report, "user-namespaces").detail,
            "allowed to bubblewrap, restricted for other programs"
        );
        assert!(native(&report).available);
    }
}

// REQ PR-8
#[test]
fn wsl1_is_refused_and_wsl2_is_as_good_as_linux() {
    let wsl1 = FakeHost::debian().but(|host| host.kernel = "4.4.0-19041-Microsoft");
    let (cause, fix) = why_not(&wsl1);
    assert!(cause.contains("WSL1"), "{cause}");
    assert!(command(&fix).contains("--set-version"));
    assert_eq!(row(&wsl1.report(), "wsl").status, RowStatus::Missing);
    assert_eq!(wsl1.report().platform.wsl, Some(1));

    let wsl2 = FakeHost::debian().but(|host| host.kernel = "5.15.153.1-microsoft-standard-WSL2");
    let report = wsl2.report();
    assert!(native(&report).available);
    assert_eq!(
        (row(&report, "wsl").status, report.platform.wsl),
        (RowStatus::Ok, Some(2))
    );
}

// REQ PR-8
#[test]
fn landlock_is_told_by_what_it_makes_possible() {
    for (abi, status, detail) in [
        (0, RowStatus::Missing, "not there"),
        (1, RowStatus::Partial, "ABI 1: file access"),
        (
            5,
            RowStatus::Partial,
            "ABI 5: file access, renames between directories, truncation, TCP ports, device ioctls",
        ),
        (
            6,
            RowStatus::Ok,
            "ABI 6: file access, renames between directories, truncation, TCP ports, device ioctls, abstract-socket and signal scopes",
        ),
    ] {
        let report = FakeHost::debian()
            .but(|host| host.landlock_abi = abi)
            .report();
        let found = row(&report, "landlock");
        assert_eq!((found.status, found.detail.as_str()), (status, detail));
        assert_eq!(found.cause.is_some(), status != RowStatus::Ok);
        assert!(
            native(&report).available,
            "Landlock is a gap, not a condition"
        );
    }
}

// REQ PR-8, BW-4
#[test]
fn seccomp_notification_is_told_with_what_filename_rules_will_need() {
    for (filters, notify, wait_killable, status, kernel_has_it) in [
        (true, true, true, RowStatus::Ok, true),
        (true, true, false, RowStatus::Partial, false),
        (true, false, false, RowStatus::Missing, false),
        (false, false, false, RowStatus::Missing, false),
    ] {
        let host = FakeHost::debian().but(|host| {
            host.seccomp = SeccompFacts {
                filters,
                notify,
                wait_killable,
            }
        });
        let report = host.report();
        assert_eq!(row(&report, "seccomp-notify").status, status);
        let rules = row(&report, "filename-rules");
        assert_eq!(rules.status, RowStatus::Missing);
        assert_eq!(
            rules.detail.contains("has what they will need"),
            kernel_has_it
        );
    }
}

#[test]
fn a_tool_that_does_not_tell_its_version_is_partly_there() {
    for run in [
        ToolRun::Ended {
            code: Some(1),
            stdout: String::new(),
            stderr: "boom".to_owned(),
        },
        ToolRun::Ended {
            code: Some(0),
            stdout: "no number".to_owned(),
            stderr: String::new(),
        },
        ToolRun::NotStarted("exec format error".to_owned()),
        ToolRun::TimedOut,
    ] {
        let report = FakeHost::debian()
            .but(|host| drop(host.runs.insert("bwrap --version", run)))
            .report();
        let found = row(&report, "bubblewrap");
        assert_eq!(found.status, RowStatus::Partial);
        assert!(
            found
                .cause
                .as_deref()
                .is_some_and(|cause| cause.contains("version"))
        );
        assert_eq!(report.facts.bwrap_version, None);
        // The trial decides, not the version.
        assert_eq!(
            native(&report).note,
            "bubblewrap, namespace isolation, no kernel boundary"
        );
    }
}

// REQ PR-2
#[test]
fn macos_is_available_once_its_trial_held() {
    let mac = FakeHost::debian().but(|host| {
        host.os = Os::Macos;
        host.files.clear();
        host.files.insert("/usr/bin/sandbox-exec", text(""));
        host.files.insert(
            "/System/Library/CoreServices/SystemVersion.plist",
            text("<key>ProductVersion</key>\n\t<string>15.1</string>"),
        );
    });
    let report = mac.report();
    assert_eq!(
        report.verdict.line,
        "agent sandbox ON — sandbox-exec (Seatbelt), namespace isolation, no kernel boundary"
    );
    assert_eq!(report.platform.name, "macOS 15.1");
    assert!(native(&report).available);
    assert_eq!(row(&report, "kvm").detail, "not checked on this platform");

    let (cause, _) = why_not(
        &mac.clone()
            .but(|host| host.trial = TrialOutcome::NoLauncher),
    );
    assert!(cause.contains("no native launcher"), "{cause}");
    let (cause, _) = why_not(&mac.but(|host| drop(host.files.remove("/usr/bin/sandbox-exec"))));
    assert!(
        cause.contains("/usr/bin/sandbox-exec does not exist"),
        "{cause}"
    );
}

// REQ BK-8, PR-5
#[test]
fn any_other_platform_has_no_native_backend() {
    for os in [Os::Windows, Os::Other("freebsd".to_owned())] {
        let report = FakeHost::debian().but(|host| host.os = os.clone()).report();
        let native = native(&report);
        assert!(!native.available && !native.requires_install);
        assert_eq!(native.note, "native sandbox not offered on this platform");
        assert_eq!(report.verdict.state, VerdictState::Unavailable);
        assert!(report.verdict.line.starts_with(
            "no OS-native agent sandbox on this host — native sandbox not offered on this platform"
        ));
        assert_eq!(report.facts, HostFacts::default());
    }
}

// REQ PR-6, SW-3
#[test]
fn the_switch_changes_the_verdict_and_nothing_else() {
    let host = FakeHost::debian();
    let (on, off) = (host.report(), probe(&host, Switch::Off));
    assert_eq!(off.verdict.state, VerdictState::Disabled);
    assert_eq!(off.verdict.line, "agent sandbox DISABLED by --sandbox off");
    assert_eq!(
        (on.backends, on.rows, on.facts),
        (off.backends, off.rows, off.facts)
    );
}

fn any_host() -> impl Strategy<Value = FakeHost> {
    let tool = prop_oneof![
        Just(ToolSearch::Missing),
        Just(found("/usr/bin/bwrap")),
        Just(ToolSearch::Refused(vec![RefusedTool {
            path: PathBuf::from("/x/bwrap"),
            why: Distrust::RelativeEntry,
        }])),
    ];
    let trial = prop_oneof![
        (0usize..12).prop_map(ready),
        (0..FAILURES.len()).prop_map(|index| runner_failed(FAILURES[index].stderr)),
        "[ -~\n]{0,60}".prop_map(|stderr| runner_failed(&stderr)),
        Just(TrialOutcome::Timeout),
        Just(TrialOutcome::NoLauncher),
        Just(TrialOutcome::SpawnFailed("x".to_owned())),
    ];
    let os = prop_oneof![
        6 => Just(Os::Linux),
        1 => Just(Os::Macos),
        1 => Just(Os::Windows),
    ];
    let userns = prop_oneof![
        Just(UserNamespaceTrial::Works),
        (1i32..40).prop_map(UserNamespaceTrial::Refused),
        (1i32..40).prop_map(UserNamespaceTrial::Powerless),
        (1i32..40).prop_map(UserNamespaceTrial::NotTried),
    ];
    let uid = prop_oneof![Just(0u32), Just(1000u32)];
    (
        os,
        tool.clone(),
        tool,
        trial,
        userns,
        uid,
        0..FAILURES.len(),
        any::<bool>(),
    )
        .prop_map(
            |(os, bwrap, socat, trial, user_namespace, uid, facts, mac_tool)| {
                FakeHost::debian().but(FAILURES[facts].facts).but(|host| {
                    host.os = os;
                    host.tools.insert("bwrap", bwrap);
                    host.tools.insert("socat", socat);
                    host.trial = trial;
                    host.user_namespace = user_namespace;
                    host.uid = uid;
                    if mac_tool {
                        host.files.insert("/usr/bin/sandbox-exec", text(""));
                    }
                })
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // REQ PR-6, PR-7, BK-6, SW-3
    #[test]
    fn every_report_is_consistent(host in any_host(), off: bool) {
        let switch = if off { Switch::Off } else { Switch::On };
        let report = probe(&host, switch);
        let native = native(&report).clone();

        // Exactly one of the three lines, one line long.
        let starts = [
            "agent sandbox ON — ",
            "no OS-native agent sandbox on this host — ",
            "agent sandbox DISABLED by --sandbox off",
        ];
        let matching = starts.iter().filter(|start| report.verdict.line.starts_with(**start));
        prop_assert_eq!(matching.count(), 1);
        prop_assert_eq!(report.verdict.line.lines().count(), 1);
        let state = match (off, native.available) {
            (true, _) => VerdictState::Disabled,
            (false, true) => VerdictState::On,
            (false, false) => VerdictState::Unavailable,
        };
        prop_assert_eq!(report.verdict.state, state);

        // Available means a trial that held, and no problem.
        for entry in &report.backends {
            prop_assert_eq!(entry.available, entry.problem.is_none());
        }
        if native.available {
            prop_assert!(matches!(host.trial, TrialOutcome::Ready(_)));
        }

        // Nothing that is missing goes unexplained, and no fix offers to switch the sandbox off.
        for row in &report.rows {
            prop_assert!(row.status != RowStatus::Missing || row.cause.is_some(), "{:?}", row);
        }
        let fixes = report.rows.iter().filter_map(|row| row.fix.as_ref()).chain(
            report.backends.iter().filter_map(|entry| entry.problem.as_ref()?.fix.as_ref()),
        );
        for fix in fixes {
            prop_assert!(!format!("{fix:?}").contains("--sandbox"), "{:?}", fix);
        }

        // `auto` never ends at `none`.
        for client in [ClientDefault::Terminal, ClientDefault::Command] {
            if let Ok(got) = select(Some(BackendChoice::Auto), client, &report, switch) {
                prop_assert_ne!(got.backend, SandboxBackend::None);
            }
        }

        // The text says all of it.
        let text = report_text(&report);
        prop_assert!(text.starts_with(&report.verdict.line));
        for row in &report.rows {
            prop_assert!(text.contains(&row.label) && text.contains(row.detail.trim_end()));
        }
    }
}

#[test]
fn the_text_of_the_report_is_aligned_and_complete() {
    let host = FakeHost::debian().but(|host| drop(host.tools.remove("socat")));
    let report = host.report();
    let text = report_text(&report);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "no OS-native agent sandbox on this host — socat is not installed: sudo apt-get install socat"
    );
    assert!(lines.contains(
        &"  native   not available  bubblewrap, namespace isolation, no kernel boundary"
    ));
    assert!(
        lines
            .iter()
            .any(|line| line.trim() == "$ sudo apt-get install socat")
    );
    let columns: Vec<Option<usize>> = report
        .rows
        .iter()
        .map(|row| {
            let line = lines.iter().find(|line| {
                line.starts_with("  ")
                    && line.contains(&format!("{}  ", row.label))
                    && line.ends_with(row.detail.as_str())
            });
            line.and_then(|line| line.rfind(row.detail.as_str()))
        })
        .collect();
    assert!(
        columns
            .iter()
            .all(|column| column.is_some() && *column == columns[0]),
        "{columns:?}"
    );
    assert!(text.ends_with(" ms\n"));
}

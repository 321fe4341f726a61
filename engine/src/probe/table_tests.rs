//! Every row, backend and verdict of the native side, from faked facts.

use super::fake::{FakeHost, command, native, ready, row, runner_failed, text, why_not};
use super::*;
use crate::backend::SandboxBackend;
use std::path::PathBuf;

const EPERM: i32 = 1;

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
                RowStatus::Ok,
                "hold, as tried from inside"
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
            ptrace_scope: None,
            files_supervised: Some(true),
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
            host.trial = runner_failed(trial_tests::NO_PERMISSION);
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
fn seccomp_notification_is_told_with_what_becomes_of_filename_rules() {
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
        assert_eq!(rules.status == RowStatus::Ok, kernel_has_it);
        assert_eq!(rules.cause.is_some(), !kernel_has_it);
        assert_eq!(rules.fix.is_some(), !kernel_has_it);
    }
}

// REQ PR-7, BW-4
#[test]
fn filename_rules_are_told_to_hold_only_when_the_trial_shows_it() {
    let of = |host: FakeHost| row(&host.report(), "filename-rules").clone();
    let blind = FakeHost::debian().but(|host| {
        host.trial = TrialOutcome::Ready(Box::default());
    });
    let report = blind.report();
    assert!(native(&report).available, "only what needs them is refused");
    assert_eq!(report.facts.files_supervised, Some(false));
    let found = row(&report, "filename-rules").clone();
    assert_eq!(found.status, RowStatus::Missing, "{found:?}");
    assert!(found.cause.unwrap().contains("could not refuse"));
    let untried = of(FakeHost::debian().but(|host| {
        host.tools.remove("bwrap");
    }));
    assert_eq!(untried.detail, "not tried");
    for (scope, status) in [("1", RowStatus::Ok), ("2", RowStatus::Missing)] {
        let host = FakeHost::debian().but(|host| {
            let path = "/proc/sys/kernel/yama/ptrace_scope";
            host.files.insert(path, text(scope));
        });
        let found = of(host);
        assert_eq!(found.status, status, "{found:?}");
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

    let (cause, _) = why_not(&mac.clone().but(|host| host.trial = runner_failed("")));
    assert_eq!(cause, "sandbox-exec failed: it said nothing");
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

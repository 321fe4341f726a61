//! Every way in which a trial sandbox fails, told with its cause and fix, from faked facts
//! (REQ PR-7).

use super::fake::{FakeHost, command, row, runner_failed, says, text, why_not};
use super::*;
use kotak_guard::proto::Check;
use std::path::PathBuf;

const EPERM: i32 = 1;

/// One text of bubblewrap's, the facts beside it, and what must be said.
pub(super) struct Failure {
    pub(super) stderr: &'static str,
    pub(super) facts: fn(&mut FakeHost),
    cause: &'static str,
    /// Part of the fix, command or words.
    fix: &'static str,
}

pub(super) const NO_PERMISSION: &str = "bwrap: No permissions to create new namespace, likely because the \
                             kernel does not allow non-privileged user namespaces. On e.g. debian \
                             this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.";
const OVER_LIMIT: &str = "bwrap: Creating new namespace failed: nesting depth or \
                          /proc/sys/user/max_*_namespaces exceeded (ENOSPC)";

pub(super) const FAILURES: &[Failure] = &[
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

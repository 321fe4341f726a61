//! Why a trial sandbox failed, and what mends it (REQ PR-7). Pure: the runner's text is read
//! together with the facts, since one text has several causes.

use super::distribution::sudo;
use super::facts::{TrialOutcome, UserNamespaceTrial};
use super::observe::LinuxHost;
use crate::error::Fix;
use crate::text::printable_start;
use std::path::Path;

/// A cause in words, and its fix where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) cause: String,
    pub(crate) fix: Option<Fix>,
}

/// errno(3) numbers as Linux has them; this file is compiled everywhere.
const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

/// Where bubblewrap is, for fixes that name it.
const USUAL_BWRAP: &str = "/usr/bin/bwrap";

/// The cause of a failed trial; `None` when it did not fail.
pub(crate) fn diagnose_trial(host: &LinuxHost, uid: u32) -> Option<Diagnosis> {
    match host.trial.as_ref()? {
        TrialOutcome::Ready(_) => None,
        TrialOutcome::GuardRefused(check) => Some(Diagnosis {
            cause: format!(
                "the trial sandbox ran, but from inside it is not what it should be: check \"{}\": {}",
                one_line(&check.name),
                one_line(&check.detail)
            ),
            fix: Some(Fix::words(
                "Check that bwrap is the unmodified program of your distribution, then probe again.",
            )),
        }),
        TrialOutcome::RunnerFailed { stderr, status } => {
            Some(diagnose_runner(host, uid, stderr, *status))
        }
        TrialOutcome::SpawnFailed(error) => Some(Diagnosis {
            cause: format!("bubblewrap could not be started: {}", one_line(error)),
            fix: None,
        }),
        TrialOutcome::Timeout => Some(Diagnosis {
            cause: "the trial sandbox gave no answer in time".to_owned(),
            fix: Some(Fix::words("Probe again when the machine is less busy.")),
        }),
        TrialOutcome::NoLauncher => Some(Diagnosis {
            cause: "this version of Kotak has no native launcher for this platform".to_owned(),
            fix: None,
        }),
    }
}

/// The runner said something before the guard did.
fn diagnose_runner(host: &LinuxHost, uid: u32, stderr: &str, status: Option<i32>) -> Diagnosis {
    let has = |text: &str| stderr.contains(text);
    if has("Unknown option") {
        return too_old(stderr);
    }
    if has("setuid mode") {
        return setuid(host, uid);
    }
    if has("/proc/sys/kernel/overflowuid") || has("/proc/sys/kernel/overflowgid") {
        return masked_proc(host);
    }
    if has("ENOSPC") || has("max_*_namespaces") {
        return namespace_limit(host, uid);
    }
    if has("No permissions to creat") || has("Creating new namespace failed") {
        return if bwrap_is_setuid(host) {
            setuid(host, uid)
        } else if has("Invalid argument") {
            no_kernel_support()
        } else {
            diagnose_refusal(host, uid)
        };
    }
    if has("setting up uid map") || has("setting up gid map") || has("loopback:") {
        return if apparmor_restricts(host) {
            apparmor(host, uid)
        } else {
            powerless(host, stderr)
        };
    }
    let mounts = [
        "Can't mount",
        "Failed to mount",
        "Failed to make / slave",
        "pivot_root",
    ];
    if mounts.iter().any(|text| has(text)) {
        return forbidden_mounts(host, stderr);
    }
    Diagnosis {
        cause: match (first_line(stderr), status) {
            (Some(line), _) => format!("bubblewrap failed: {line}"),
            (None, Some(code)) => format!("bubblewrap failed with status {code} and said nothing"),
            (None, None) => "bubblewrap was ended by a signal and said nothing".to_owned(),
        },
        fix: None,
    }
}

/// Why this process itself gets no working user namespace; `None` when it does.
pub(crate) fn diagnose_user_namespace(host: &LinuxHost, uid: u32) -> Option<Diagnosis> {
    match host.user_namespace {
        UserNamespaceTrial::Works => None,
        UserNamespaceTrial::Refused(ENOSPC) => Some(namespace_limit(host, uid)),
        UserNamespaceTrial::Refused(EINVAL) => Some(no_kernel_support()),
        UserNamespaceTrial::Refused(_) => Some(diagnose_refusal(host, uid)),
        UserNamespaceTrial::Powerless(_) if apparmor_restricts(host) => Some(apparmor(host, uid)),
        UserNamespaceTrial::Powerless(errno) => Some(powerless(
            host,
            &format!("a mount namespace was refused (errno {errno})"),
        )),
        UserNamespaceTrial::NotTried(errno) => Some(Diagnosis {
            cause: format!("it could not be tried in a child process (errno {errno})"),
            fix: None,
        }),
    }
}

/// A user namespace was refused with EPERM or the like: which of the reasons is it?
fn diagnose_refusal(host: &LinuxHost, uid: u32) -> Diagnosis {
    let zero = |text: Option<&str>| text.is_some_and(|text| text.trim() == "0");
    if zero(host.max_user_namespaces.text()) {
        return namespace_limit(host, uid);
    }
    if zero(host.unprivileged_userns_clone.text()) && uid != 0 {
        return Diagnosis {
            cause: "user namespaces are switched off for ordinary users \
                    (kernel.unprivileged_userns_clone is 0)"
                .to_owned(),
            fix: Some(lasting_sysctl(uid, "kernel.unprivileged_userns_clone", "1")),
        };
    }
    if host.chrooted {
        return Diagnosis {
            cause: "Kotak runs in a changed root directory (chroot), and the kernel makes no user \
                    namespace for such a process"
                .to_owned(),
            fix: Some(Fix::words(
                "Enter this root with a program that pivots into it, such as systemd-nspawn or \
                 podman, instead of chroot.",
            )),
        };
    }
    // An AppArmor restriction lets the namespace be made on some kernels and refuses it on others.
    if apparmor_restricts(host) && uid != 0 {
        return apparmor(host, uid);
    }
    let refused_here = matches!(host.user_namespace, UserNamespaceTrial::Refused(_));
    if host.filtered && refused_here {
        return Diagnosis {
            cause: match &host.container {
                Some(kind) => format!(
                    "Kotak runs inside a {kind} container whose seccomp filter forbids user namespaces"
                ),
                None => "a seccomp filter on Kotak's own process forbids user namespaces: it was \
                         set by whatever started Kotak"
                    .to_owned(),
            },
            fix: Some(match host.container.as_deref() {
                Some(kind) => container_fix(kind),
                None => Fix::words(
                    "Start Kotak outside the program that filters it (a sandboxed terminal, a \
                     service with SystemCallFilter= or RestrictNamespaces=).",
                ),
            }),
        };
    }
    if let Some(kind) = &host.container {
        return Diagnosis {
            cause: format!("Kotak runs inside a {kind} container that forbids user namespaces"),
            fix: Some(container_fix(kind)),
        };
    }
    Diagnosis {
        cause: if refused_here {
            "the kernel refuses user namespaces to this process; no setting that is known to do \
             this was found"
                .to_owned()
        } else {
            "the kernel refuses user namespaces to bubblewrap, though not to Kotak itself: a \
             security module has a rule for bubblewrap"
                .to_owned()
        },
        fix: None,
    }
}

fn namespace_limit(host: &LinuxHost, uid: u32) -> Diagnosis {
    let limit = host.max_user_namespaces.text().map(str::trim);
    if limit == Some("0") {
        return Diagnosis {
            cause: "no user namespaces are allowed (user.max_user_namespaces is 0)".to_owned(),
            fix: Some(lasting_sysctl(uid, "user.max_user_namespaces", "15000")),
        };
    }
    Diagnosis {
        cause: "the limit of namespaces is reached: too many are in use, they are nested too \
                deeply, or an outer namespace has a limit of its own (user.max_user_namespaces)"
            .to_owned(),
        fix: Some(Fix::words(
            "Run Kotak outside the sandbox or container that it was started in, or raise the \
             user.max_*_namespaces limits there.",
        )),
    }
}

fn no_kernel_support() -> Diagnosis {
    Diagnosis {
        cause: "this kernel was built without a kind of namespace that the sandbox needs"
            .to_owned(),
        fix: Some(Fix::words(
            "Use a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and \
             CONFIG_NET_NS, such as your distribution's own.",
        )),
    }
}

fn apparmor_restricts(host: &LinuxHost) -> bool {
    host.apparmor_restrict
        .text()
        .is_some_and(|text| text.trim() == "1")
}

/// Ubuntu's restriction: a profile for bubblewrap alone is the narrow way out.
fn apparmor(host: &LinuxHost, uid: u32) -> Diagnosis {
    let sudo = sudo(uid);
    let bwrap = host
        .bwrap
        .search
        .path()
        .and_then(Path::to_str)
        .unwrap_or(USUAL_BWRAP);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let bwrap = if bwrap.chars().all(plain) {
        bwrap
    } else {
        USUAL_BWRAP
    };
    Diagnosis {
        cause: "AppArmor restricts user namespaces to programs with a profile that allows them \
                (kernel.apparmor_restrict_unprivileged_userns is 1), and bubblewrap has none here"
            .to_owned(),
        fix: Some(Fix::command(
            "Give bubblewrap, and nothing else, an AppArmor profile that allows user namespaces. \
             The restriction stays in force for every other program.",
            format!(
                "printf '%s\\n' 'abi <abi/4.0>,' 'include <tunables/global>' \
                 'profile bwrap {bwrap} flags=(unconfined) {{' '  userns,' '}}' \
                 | {sudo}tee /etc/apparmor.d/bwrap >/dev/null \
                 && {sudo}apparmor_parser -r /etc/apparmor.d/bwrap"
            ),
        )),
    }
}

fn powerless(host: &LinuxHost, text: &str) -> Diagnosis {
    let place = match &host.container {
        Some(kind) => format!("the {kind} container that Kotak runs in, or a security module,"),
        None => "a security module (AppArmor, SELinux or the like)".to_owned(),
    };
    Diagnosis {
        cause: format!(
            "a user namespace can be made, but {place} takes away what it is for: {}",
            first_line(text).unwrap_or_else(|| "no more is known".to_owned())
        ),
        fix: host.container.as_deref().map(container_fix),
    }
}

fn masked_proc(host: &LinuxHost) -> Diagnosis {
    let place = host.container.as_deref().map_or_else(
        || "the surroundings that Kotak was started in".to_owned(),
        |kind| format!("the {kind} container that Kotak runs in"),
    );
    Diagnosis {
        cause: format!("parts of /proc are masked by {place} (/proc/sys/kernel/overflowuid)"),
        fix: Some(container_fix(host.container.as_deref().unwrap_or_default())),
    }
}

fn forbidden_mounts(host: &LinuxHost, stderr: &str) -> Diagnosis {
    let line = first_line(stderr).unwrap_or_else(|| "no more is known".to_owned());
    match &host.container {
        Some(kind) => Diagnosis {
            cause: format!(
                "Kotak runs inside a {kind} container that does not allow the mounts of a sandbox: \
                 {line}"
            ),
            fix: Some(container_fix(kind)),
        },
        None => Diagnosis {
            cause: format!(
                "the mounts of a sandbox are not allowed here, which usually means a container: {line}"
            ),
            fix: Some(container_fix("")),
        },
    }
}

fn container_fix(kind: &str) -> Fix {
    let on_the_host = "Run Kotak on the host itself";
    Fix::words(match kind {
        "docker" | "containerd" => format!(
            "{on_the_host}, or start this container with --security-opt seccomp=unconfined \
             --security-opt apparmor=unconfined --security-opt systempaths=unconfined. That opens \
             the container's own confinement."
        ),
        "podman" => format!(
            "{on_the_host}, or start this container with --security-opt seccomp=unconfined \
             --security-opt unmask=ALL. That opens the container's own confinement."
        ),
        "kubernetes" => format!(
            "{on_the_host}, or give the pod procMount: Unmasked and a seccomp profile that allows \
             user namespaces."
        ),
        "lxc" => format!("{on_the_host}, or set security.nesting=true on this container."),
        _ => format!("{on_the_host}, or let the container have nested sandboxes."),
    })
}

fn too_old(stderr: &str) -> Diagnosis {
    let option = stderr
        .split_once("Unknown option")
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .map_or_else(|| "one of its options".to_owned(), one_line);
    Diagnosis {
        cause: format!("this bubblewrap is too old: it does not know {option}"),
        fix: Some(Fix::words(
            "Install bubblewrap 0.5.0 or newer; a newer release of the distribution has it.",
        )),
    }
}

fn bwrap_is_setuid(host: &LinuxHost) -> bool {
    matches!(
        host.bwrap.search,
        super::facts::ToolSearch::Found { setuid: true, .. }
    )
}

fn setuid(host: &LinuxHost, uid: u32) -> Diagnosis {
    let path = host
        .bwrap
        .search
        .path()
        .map(|path| path.to_string_lossy().into_owned());
    let path = path.unwrap_or_else(|| USUAL_BWRAP.to_owned());
    Diagnosis {
        cause: "bubblewrap is installed set-user-id root, and then does not do what the sandbox \
                needs"
            .to_owned(),
        fix: Some(Fix::command(
            "Take the set-user-id bit away; bubblewrap then uses ordinary user namespaces.",
            format!("{}chmod u-s {path}", sudo(uid)),
        )),
    }
}

fn lasting_sysctl(uid: u32, key: &str, value: &str) -> Fix {
    let sudo = sudo(uid);
    Fix::command(
        format!("Set {key} to {value}, now and after a restart."),
        format!(
            "echo {key}={value} | {sudo}tee /etc/sysctl.d/90-user-namespaces.conf >/dev/null \
             && {sudo}sysctl -w {key}={value}"
        ),
    )
}

/// The first line that says something, made safe to show, without the runner's own prefix.
pub(crate) fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(one_line(line.strip_prefix("bwrap: ").unwrap_or(line)))
}

/// Shortened, and with what misleads escaped.
pub(crate) fn one_line(text: &str) -> String {
    printable_start(text.trim(), 300)
}

/// Words for an errno(3) of a refusal.
pub(crate) fn errno_words(errno: i32) -> String {
    match errno {
        EPERM => "not permitted".to_owned(),
        13 => "permission denied".to_owned(),
        16 => "busy".to_owned(),
        12 => "out of memory".to_owned(),
        other => format!("errno {other}"),
    }
}

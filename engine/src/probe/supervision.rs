//! Whether this kernel lets the guard decide on single system calls, which rules about names that
//! do not exist yet need (REQ BW-4, BW-5).

use super::HostFacts;
use crate::error::Fix;

/// Landlock ABI from which an exec restriction can be held without breaking renames:
/// `LANDLOCK_ACCESS_FS_REFER`, Linux 5.19 (landlock(7)).
const LANDLOCK_REFER: u32 = 2;

/// Yama's `ptrace_scope` from which a process without `CAP_SYS_PTRACE` may not look into another's
/// memory, where the paths of its system calls are (Documentation/admin-guide/LSM/Yama.rst).
const PTRACE_ADMIN: u32 = 2;

/// Yama's `ptrace_scope` that cannot be lowered before the next start of the machine.
const PTRACE_NONE: u32 = 3;

/// What a host lacks for the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SupervisionLack {
    /// `SECCOMP_RET_USER_NOTIF`, Linux 5.0.
    Notification,
    /// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, Linux 5.19: without it signals break what is
    /// supervised.
    KillableWait,
    /// Yama's `ptrace_scope` forbids it.
    PtraceScope(u32),
    /// The kernel has all of it, and in the trial sandbox it did not work.
    Trial,
}

impl SupervisionLack {
    /// What these facts lack; none where the supervisor works.
    #[must_use]
    pub fn of(facts: &HostFacts) -> Option<Self> {
        if !facts.seccomp_notify {
            return Some(Self::Notification);
        }
        if !facts.seccomp_wait_killable {
            return Some(Self::KillableWait);
        }
        let closed = facts.ptrace_scope.filter(|scope| *scope >= PTRACE_ADMIN);
        if let Some(scope) = closed {
            return Some(Self::PtraceScope(scope));
        }
        (facts.files_supervised == Some(false)).then_some(Self::Trial)
    }

    /// What is missing, as a clause.
    #[must_use]
    pub fn reason(self) -> String {
        match self {
            Self::Notification => {
                "the kernel has no seccomp user notification (Linux 5.0), or a filter hides it"
                    .to_owned()
            }
            Self::KillableWait => {
                "the kernel cannot wait for the guard's answer without being interrupted \
                 (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19)"
                    .to_owned()
            }
            Self::PtraceScope(scope) => format!(
                "the kernel forbids the guard to read the paths of system calls \
                 (kernel.yama.ptrace_scope is {scope})"
            ),
            Self::Trial => {
                "the kernel has what it needs, but the guard could not refuse a name in the trial \
                 sandbox"
                    .to_owned()
            }
        }
    }

    /// What mends it.
    #[must_use]
    pub fn fix(self) -> Fix {
        match self {
            Self::Notification | Self::KillableWait => Fix::words(
                "Use a kernel from 5.19 on with CONFIG_SECCOMP_FILTER; in a container, one whose \
                 filter lets seccomp(2) through.",
            ),
            Self::PtraceScope(PTRACE_NONE..) => Fix::words(
                "Set kernel.yama.ptrace_scope to 1 where it is set at start-up \
                 (/etc/sysctl.d), and start the machine anew: it cannot be lowered before.",
            ),
            Self::Trial => Fix::words(
                "Look for a security module or a container's filter that keeps a process from \
                 supervising its children, then probe again.",
            ),
            Self::PtraceScope(_) => Fix::command(
                "Let programs look into what they started themselves.",
                "sudo sysctl kernel.yama.ptrace_scope=1",
            ),
        }
    }
}

/// Why the exec restriction cannot be held here, with what mends it; none where it can.
#[must_use]
pub fn exec_lack(facts: &HostFacts) -> Option<(String, Fix)> {
    if facts.landlock_abi < LANDLOCK_REFER {
        let reason = format!(
            "it needs Landlock's ABI {LANDLOCK_REFER} (Linux 5.19), and this kernel has {}",
            match facts.landlock_abi {
                0 => "none".to_owned(),
                abi => format!("ABI {abi}"),
            }
        );
        let fix = "Use a kernel from 5.19 on, and add landlock to its lsm= start parameter where \
                   /sys/kernel/security/lsm does not list it.";
        return Some((reason, Fix::words(fix)));
    }
    SupervisionLack::of(facts).map(|lack| (lack.reason(), lack.fix()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> HostFacts {
        HostFacts {
            landlock_abi: 7,
            seccomp_notify: true,
            seccomp_wait_killable: true,
            ..HostFacts::default()
        }
    }

    #[test]
    fn a_kernel_is_told_by_the_first_thing_that_it_lacks() {
        // REQ BW-4
        assert_eq!(SupervisionLack::of(&facts()), None);
        let of = |change: fn(&mut HostFacts)| {
            let mut changed = facts();
            change(&mut changed);
            SupervisionLack::of(&changed)
        };
        assert_eq!(
            of(|facts| facts.seccomp_notify = false),
            Some(SupervisionLack::Notification)
        );
        assert_eq!(
            of(|facts| facts.seccomp_wait_killable = false),
            Some(SupervisionLack::KillableWait)
        );
        assert_eq!(
            of(|facts| facts.files_supervised = Some(false)),
            Some(SupervisionLack::Trial)
        );
        assert_eq!(of(|facts| facts.files_supervised = Some(true)), None);
        for (scope, lack) in [
            (0, None),
            (1, None),
            (2, Some(SupervisionLack::PtraceScope(2))),
            (3, Some(SupervisionLack::PtraceScope(3))),
        ] {
            let facts = HostFacts {
                ptrace_scope: Some(scope),
                ..facts()
            };
            assert_eq!(SupervisionLack::of(&facts), lack, "{scope}");
        }
    }

    #[test]
    fn only_a_scope_that_can_be_lowered_has_a_command() {
        assert!(SupervisionLack::PtraceScope(2).fix().command.is_some());
        assert!(SupervisionLack::PtraceScope(3).fix().command.is_none());
    }

    #[test]
    fn the_exec_restriction_needs_landlock_and_the_supervisor() {
        // REQ BW-6
        assert!(exec_lack(&facts()).is_none());
        for abi in [0, 1] {
            let old = HostFacts {
                landlock_abi: abi,
                ..facts()
            };
            let (reason, _) = exec_lack(&old).unwrap();
            assert!(reason.contains("Landlock"), "{reason}");
        }
        let blind = HostFacts {
            seccomp_notify: false,
            ..facts()
        };
        assert!(exec_lack(&blind).unwrap().0.contains("notification"));
    }
}

use super::super::seccomp_program;
use super::super::tests::{BOTH, Call, Verdict, args, line, run};
use super::*;
use crate::golden;
use Verdict::{Allow, Errno, Wait};
use proptest::prelude::*;

const ALL: SeccompWants = SeccompWants {
    supervise_files: true,
    supervise_exec: true,
    close_memfd_exec: true,
};

const FILES: SeccompWants = SeccompWants {
    supervise_files: true,
    supervise_exec: false,
    close_memfd_exec: false,
};

const GARBAGE: [u64; 3] = [0, 1 << 32, 0xFFFF_FFFF << 32];

fn verdict_of(arch: SeccompArch, wants: SeccompWants, nr: u32, args: [u64; 6]) -> Verdict {
    let programs = seccomp_program(arch, wants);
    assert_eq!(programs.len(), 2);
    let arch = arch.audit();
    run(&programs[1], Call { arch, nr, args })
}

#[test]
fn nothing_waits_unless_asked() {
    for arch in BOTH {
        assert_eq!(seccomp_program(arch, SeccompWants::default()).len(), 1);
        let plain = seccomp_program(arch, SeccompWants::default());
        // The refusals are the same.
        assert_eq!(seccomp_program(arch, FILES)[0], plain[0]);
    }
}

#[test]
fn an_open_waits_when_something_may_be_written_or_made() {
    for arch in BOTH {
        for (name, nr, index) in arch.table().supervised.open {
            let open = |flags: u64| {
                GARBAGE.map(|high| {
                    let mut args = [u64::MAX; 6];
                    args[usize::try_from(*index).unwrap()] = flags | high;
                    verdict_of(arch, FILES, *nr, args)
                })
            };
            // WRONLY, RDWR, mode 3, CREAT, TRUNC, TMPFILE, CREAT with EXCL and CLOEXEC.
            for flags in [1, 2, 3, 0x40, 0x200, 0x41_0000, 0x8_00C0] {
                assert_eq!(open(flags), [Wait; 3], "{name} {flags:#x}");
            }
            // RDONLY, DIRECTORY (both architectures'), CLOEXEC, NONBLOCK, and O_PATH with all.
            for flags in [0, 0x1_0000, 0x4000, 0x8_0000, 0x800, 0x20_0000, 0x20_0243] {
                assert_eq!(open(flags), [Allow; 3], "{name} {flags:#x}");
            }
        }
    }
}

#[test]
fn what_names_things_waits_whatever_the_arguments() {
    for arch in BOTH {
        let calls = &arch.table().supervised;
        for (name, nr) in calls.files {
            assert_eq!(verdict_of(arch, FILES, *nr, [0; 6]), Wait, "{name}");
            assert_eq!(verdict_of(arch, FILES, *nr, [u64::MAX; 6]), Wait, "{name}");
        }
        for (name, nr) in calls.exec {
            assert_eq!(verdict_of(arch, ALL, *nr, [0; 6]), Wait, "{name}");
            assert_eq!(verdict_of(arch, FILES, *nr, [0; 6]), Allow, "{name}");
        }
        for (name, nr) in ABSENT {
            assert_eq!(verdict_of(arch, FILES, nr, [0; 6]), Errno(ENOSYS), "{name}");
        }
    }
}

#[test]
fn only_the_close_of_a_staged_descriptor_waits() {
    for arch in BOTH {
        let nr = arch.table().supervised.close;
        let close = |number: u32| {
            GARBAGE.map(|high| verdict_of(arch, FILES, nr, args(u64::from(number) | high, 0, 0)))
        };
        for number in STAGED_DESCRIPTORS {
            assert_eq!(close(number), [Wait; 3]);
        }
        for number in [
            0,
            STAGED_DESCRIPTORS.start - 1,
            STAGED_DESCRIPTORS.end,
            u32::MAX,
        ] {
            assert_eq!(close(number), [Allow; 3], "{number}");
        }
    }
}

#[test]
fn requests_that_make_or_remove_a_name_are_refused() {
    for arch in BOTH {
        let nr = arch.table().supervised.ioctl;
        for request in NAMING {
            for high in GARBAGE {
                let args = args(3, u64::from(request) | high, 0);
                assert_eq!(verdict_of(arch, FILES, nr, args), Errno(EPERM));
            }
        }
        // FICLONE, TCGETS, BTRFS_IOC_INO_LOOKUP.
        for request in [0x4004_9409, 0x5401, 0xD000_9412] {
            assert_eq!(verdict_of(arch, FILES, nr, args(3, request, 0)), Allow);
        }
    }
}

#[test]
fn a_program_cannot_hide_its_memory() {
    for arch in BOTH {
        let nr = arch.table().supervised.prctl;
        for high in GARBAGE {
            let hide = args(4 | high, 0, 0);
            assert_eq!(verdict_of(arch, FILES, nr, hide), Errno(EPERM));
            // To show it, to ask, PR_SET_NAME, PR_SET_NO_NEW_PRIVS.
            for (option, value) in [(4, 1), (3, 0), (15, 0x1000), (38, 1)] {
                let args = args(option | high, value, 0);
                assert_eq!(verdict_of(arch, FILES, nr, args), Allow);
            }
        }
    }
}

#[test]
fn no_write_lease_makes_the_guard_wait() {
    for arch in BOTH {
        let nr = arch.table().supervised.fcntl;
        for high in GARBAGE {
            let lease = |kind: u64| verdict_of(arch, FILES, nr, args(3, 1024 | high, kind | high));
            assert_eq!(lease(1), Errno(EPERM));
            // F_RDLCK and F_UNLCK.
            assert_eq!([lease(0), lease(2)], [Allow; 2]);
            // F_DUPFD, F_SETFD, F_SETFL, F_GETLEASE, F_ADD_SEALS.
            for command in [0, 2, 4, 1025, 1033] {
                assert_eq!(verdict_of(arch, FILES, nr, args(3, command, 1)), Allow);
            }
        }
    }
}

#[test]
fn a_program_schedules_itself_alone() {
    for arch in BOTH {
        let calls = &arch.table().supervised;
        for high in GARBAGE {
            for (name, nr) in calls.sched {
                let verdict = |pid: u64| verdict_of(arch, FILES, *nr, args(pid | high, 7, 7));
                assert_eq!(verdict(0), Allow, "{name}");
                assert_eq!([verdict(1), verdict(77)], [Errno(EPERM); 2], "{name}");
            }
            for (name, nr, process) in calls.priority {
                let verdict = |which: u32, who: u64| {
                    let args = args(u64::from(which) | high, who | high, 7);
                    verdict_of(arch, FILES, *nr, args)
                };
                assert_eq!(verdict(*process, 0), Allow, "{name}");
                for (which, who) in [(*process, 1), (*process + 1, 0), (2 + process, 0), (3, 1)] {
                    assert_eq!(verdict(which, who), Errno(EPERM), "{name} {which}");
                }
            }
        }
    }
}

#[test]
fn the_waiting_listings_are_as_committed() {
    for (arch, name) in [
        (SeccompArch::X86_64, "x86_64"),
        (SeccompArch::Aarch64, "aarch64"),
    ] {
        let text: String = seccomp_program(arch, ALL)[1]
            .iter()
            .enumerate()
            .map(|(at, insn)| line(at, *insn))
            .collect();
        golden::check(&format!("seccomp-supervise-{name}.txt"), &text);
    }
}

/// The numbers against the C library's, where it is there.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_waiting_numbers_agree_with_the_c_library() {
    let number = |value: libc::c_long| u32::try_from(value).unwrap();
    let known = [
        ("open", libc::SYS_open),
        ("openat", libc::SYS_openat),
        ("bind", libc::SYS_bind),
        ("truncate", libc::SYS_truncate),
        ("rename", libc::SYS_rename),
        ("mkdir", libc::SYS_mkdir),
        ("rmdir", libc::SYS_rmdir),
        ("creat", libc::SYS_creat),
        ("link", libc::SYS_link),
        ("unlink", libc::SYS_unlink),
        ("symlink", libc::SYS_symlink),
        ("chmod", libc::SYS_chmod),
        ("fchmod", libc::SYS_fchmod),
        ("mknod", libc::SYS_mknod),
        ("setxattr", libc::SYS_setxattr),
        ("lsetxattr", libc::SYS_lsetxattr),
        ("fsetxattr", libc::SYS_fsetxattr),
        ("removexattr", libc::SYS_removexattr),
        ("lremovexattr", libc::SYS_lremovexattr),
        ("fremovexattr", libc::SYS_fremovexattr),
        ("setxattrat", 463),
        ("removexattrat", 466),
        ("mkdirat", libc::SYS_mkdirat),
        ("mknodat", libc::SYS_mknodat),
        ("unlinkat", libc::SYS_unlinkat),
        ("renameat", libc::SYS_renameat),
        ("linkat", libc::SYS_linkat),
        ("symlinkat", libc::SYS_symlinkat),
        ("fchmodat", libc::SYS_fchmodat),
        ("renameat2", libc::SYS_renameat2),
        ("fchmodat2", libc::SYS_fchmodat2),
        ("execve", libc::SYS_execve),
        ("execveat", libc::SYS_execveat),
        ("openat2", libc::SYS_openat2),
        ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
    ];
    let calls = &X86_64;
    let all: Vec<(&str, u32)> = calls
        .files
        .iter()
        .chain(calls.exec)
        .chain(&ABSENT)
        .copied()
        .chain(calls.open.iter().map(|(name, nr, _)| (*name, *nr)))
        .collect();
    for (name, value) in known {
        assert!(all.contains(&(name, number(value))), "{name}");
    }
    assert_eq!(all.len(), known.len());
    assert_eq!(calls.close, number(libc::SYS_close));
    assert_eq!(calls.prctl, number(libc::SYS_prctl));
    assert_eq!(calls.ioctl, number(libc::SYS_ioctl));
    assert_eq!(calls.fcntl, number(libc::SYS_fcntl));
    let scheduling: Vec<u32> = calls.sched.iter().map(|(_, nr)| *nr).collect();
    let known = [
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
    ];
    assert_eq!(scheduling, known.map(number));
    let priority: Vec<u32> = calls.priority.iter().map(|(_, nr, _)| *nr).collect();
    let known = [libc::SYS_setpriority, libc::SYS_ioprio_set];
    assert_eq!(priority, known.map(number));
}

proptest! {
    #[test]
    fn every_waiting_call_ends_in_a_verdict(
        nr in prop_oneof![0u32..600, any::<u32>()],
        args in any::<[u64; 6]>(),
        arch in prop_oneof![Just(0xC000_003Eu32), Just(0xC000_00B7), any::<u32>()],
    ) {
        for built_for in BOTH {
            let program = &seccomp_program(built_for, ALL)[1];
            let found = run(program, Call { arch, nr, args });
            if arch != built_for.audit() {
                prop_assert_eq!(found, Errno(ENOSYS));
            }
        }
    }
}

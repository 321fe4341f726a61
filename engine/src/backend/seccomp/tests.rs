use super::*;
use crate::golden;
use proptest::prelude::*;

pub(super) const BOTH: [SeccompArch; 2] = [SeccompArch::X86_64, SeccompArch::Aarch64];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Wait,
    Errno(u16),
}
use Verdict::{Allow, Errno, Wait};

/// What the kernel hands to the filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) arch: u32,
    pub(super) nr: u32,
    pub(super) args: [u64; 6],
}

/// Runs a program as the kernel does (little-endian); anything out of bounds panics.
pub(super) fn run(program: &[BpfInsn], call: Call) -> Verdict {
    let word = |offset: u32| -> u32 {
        match offset {
            0 => call.nr,
            4 => call.arch,
            8 | 12 => 0,
            _ => {
                let index = usize::try_from((offset - 16) / 8).unwrap();
                let shift = if offset.is_multiple_of(8) { 0 } else { 32 };
                u32::try_from(call.args[index] >> shift & 0xFFFF_FFFF).unwrap()
            }
        }
    };
    let (mut at, mut accumulator) = (0usize, 0u32);
    loop {
        let insn = program[at];
        at += 1;
        let mut branch = |taken: bool| at += usize::from(if taken { insn.jt } else { insn.jf });
        match insn.code {
            0x20 => accumulator = word(insn.k),
            0x05 => at += usize::try_from(insn.k).unwrap(),
            0x15 => branch(accumulator == insn.k),
            0x35 => branch(accumulator >= insn.k),
            0x45 => branch(accumulator & insn.k != 0),
            0x06 => {
                return match insn.k {
                    0x7FFF_0000 => Allow,
                    0x7FC0_0000 => Wait,
                    errno => {
                        assert_eq!(errno & 0xFFFF_0000, 0x0005_0000);
                        Errno(u16::try_from(errno & 0xFFFF).unwrap())
                    }
                };
            }
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

fn verdict_of(arch: SeccompArch, nr: u32, args: [u64; 6]) -> Verdict {
    let programs = seccomp_program(arch, SeccompWants::default());
    assert_eq!(programs.len(), 1);
    run(
        &programs[0],
        Call {
            arch: arch.audit(),
            nr,
            args,
        },
    )
}

pub(super) const fn args(first: u64, second: u64, third: u64) -> [u64; 6] {
    [first, second, third, 0, 0, 0]
}

#[test]
fn terminal_injection_is_refused_whatever_the_upper_half_of_the_command_holds() {
    for arch in BOTH {
        let ioctl = arch.table().ioctl;
        for command in [0x5412u64, 0x541C] {
            for garbage in [0, 1 << 32, u64::MAX << 32] {
                let found = verdict_of(arch, ioctl, args(0, command | garbage, 0));
                assert_eq!(found, Errno(EPERM), "{command:#x} {garbage:#x}");
            }
        }
        // Neighbours: TCGETS, TIOCSWINSZ, TIOCNOTTY, TIOCSCTTY, the numbers beside.
        for command in [
            0x5401, 0x5414, 0x5422, 0x540E, 0x5411, 0x5413, 0x541B, 0x541D,
        ] {
            assert_eq!(
                verdict_of(arch, ioctl, args(0, command, 0)),
                Allow,
                "{command:#x}"
            );
        }
        // Only the command counts, not the descriptor or the argument.
        assert_eq!(verdict_of(arch, ioctl, args(0x5412, 0x5401, 0x5412)), Allow);
    }
}

#[test]
fn every_refused_call_is_eperm_and_its_neighbours_are_not() {
    for arch in BOTH {
        let table = arch.table();
        let numbers: Vec<u32> = table.refused.iter().map(|(_, nr)| *nr).collect();
        for (name, nr) in table.refused {
            assert_eq!(verdict_of(arch, *nr, [u64::MAX; 6]), Errno(EPERM), "{name}");
            for beside in [nr - 1, nr + 1] {
                if !numbers.contains(&beside) && !ABSENT.iter().any(|(_, nr)| *nr == beside) {
                    assert_eq!(verdict_of(arch, beside, [0; 6]), Allow, "{name} {beside}");
                }
            }
        }
    }
}

#[test]
fn calls_with_an_older_way_are_absent_and_openat2_is_not() {
    for arch in BOTH {
        for (name, nr) in ABSENT {
            assert_eq!(verdict_of(arch, nr, [0; 6]), Errno(ENOSYS), "{name}");
        }
        for (name, nr) in [("close_range", 436), ("openat2", 437), ("pidfd_open", 434)] {
            assert_eq!(verdict_of(arch, nr, [0; 6]), Allow, "{name}");
        }
    }
}

#[test]
fn new_namespaces_are_refused_and_plain_processes_and_threads_are_not() {
    let new = [
        0x2_0000,
        0x200_0000,
        0x400_0000,
        0x800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000,
    ];
    for arch in BOTH {
        let table = arch.table();
        for flag in new {
            let with_signal = flag | 17 | 0xFFFF_FFFF_0000_0000;
            assert_eq!(
                verdict_of(arch, table.clone, args(with_signal, 0, 0)),
                Errno(EPERM)
            );
            assert_eq!(
                verdict_of(arch, table.unshare, args(flag, 0, 0)),
                Errno(EPERM)
            );
        }
        assert_eq!(
            verdict_of(arch, table.unshare, args(0x80, 0, 0)),
            Errno(EPERM)
        );
        // SIGCHLD; vfork; pthread_create.
        for flags in [17, 0x4111, 0x3D_0F00] {
            assert_eq!(
                verdict_of(arch, table.clone, args(flags, 0, 0)),
                Allow,
                "{flags:#x}"
            );
        }
        // CLONE_FS, CLONE_FILES, CLONE_SYSVSEM.
        for flags in [0x200, 0x400, 0x4_0000] {
            assert_eq!(
                verdict_of(arch, table.unshare, args(flags, 0, 0)),
                Allow,
                "{flags:#x}"
            );
        }
    }
}

#[test]
fn only_families_within_the_network_namespace_make_sockets() {
    for arch in BOTH {
        let table = arch.table();
        for nr in [table.socket, table.socketpair] {
            for family in [1, 2, 10, 16] {
                for garbage in [0, u64::MAX << 32] {
                    assert_eq!(verdict_of(arch, nr, args(family | garbage, 1, 0)), Allow);
                }
            }
            // AF_PACKET, AF_VSOCK, AF_ALG, AF_XDP, AF_BLUETOOTH, AF_KEY, none, beside.
            for family in [17, 40, 38, 44, 31, 15, 0, 3, 9, 11] {
                let found = verdict_of(arch, nr, args(family | 1 << 63, 1, 0));
                assert_eq!(found, Errno(EPERM), "{family}");
            }
        }
    }
}

#[test]
fn limits_of_other_processes_cannot_be_set_and_ones_own_can() {
    for arch in BOTH {
        let nr = arch.table().prlimit64;
        assert_eq!(verdict_of(arch, nr, args(1, 7, 0x1000)), Errno(EPERM));
        // A pointer whose lower half is zero is a pointer.
        assert_eq!(
            verdict_of(arch, nr, args(1, 7, 0x7F_0000_0000)),
            Errno(EPERM)
        );
        assert_eq!(
            verdict_of(arch, nr, args(0xFFFF_FFFF, 7, 0x1000)),
            Errno(EPERM)
        );
        assert_eq!(verdict_of(arch, nr, args(0, 7, 0x1000)), Allow);
        // The upper half of a pid is no pid.
        assert_eq!(verdict_of(arch, nr, args(1 << 32, 7, 0x1000)), Allow);
        // Asking only.
        assert_eq!(verdict_of(arch, nr, args(1, 7, 0)), Allow);
    }
}

#[test]
fn other_architectures_and_x32_are_absent() {
    // i386, ARM, a big-endian sibling.
    for foreign in [0x4000_0003, 0x4000_0028, 0x8000_00B7] {
        for arch in BOTH {
            let program = &seccomp_program(arch, SeccompWants::default())[0];
            for nr in [0, 1, 54, 59, 0x4000_0000] {
                let found = run(
                    program,
                    Call {
                        arch: foreign,
                        nr,
                        args: [0; 6],
                    },
                );
                assert_eq!(found, Errno(ENOSYS), "{foreign:#x} {nr}");
            }
        }
    }
    let x86 = SeccompArch::X86_64;
    for nr in [X32_BIT, X32_BIT | 16, X32_BIT | 514, u32::MAX] {
        assert_eq!(
            verdict_of(x86, nr, args(0, 0x5401, 0)),
            Errno(ENOSYS),
            "{nr:#x}"
        );
    }
}

#[test]
fn everyday_calls_are_allowed() {
    // read, write, openat, execve, wait4, kill, ptrace, prctl, seccomp, memfd_create, landlock.
    for nr in [0, 1, 257, 59, 61, 62, 101, 157, 317, 319, 444, 446] {
        assert_eq!(
            verdict_of(SeccompArch::X86_64, nr, [u64::MAX; 6]),
            Allow,
            "{nr}"
        );
    }
    for nr in [63, 64, 56, 221, 260, 129, 117, 167, 277, 279, 444, 446] {
        assert_eq!(
            verdict_of(SeccompArch::Aarch64, nr, [u64::MAX; 6]),
            Allow,
            "{nr}"
        );
    }
}

pub(super) fn line(at: usize, insn: BpfInsn) -> String {
    let BpfInsn { jt, jf, k, .. } = insn;
    let line = match insn.code {
        0x20 => format!("ld [{k}]"),
        0x05 => format!("ja +{k}"),
        0x15 => format!("jeq {k:#x}, +{jt}, +{jf}"),
        0x35 => format!("jge {k:#x}, +{jt}, +{jf}"),
        0x45 => format!("jset {k:#x}, +{jt}, +{jf}"),
        0x06 => match k {
            0x7FFF_0000 => "ret allow".to_owned(),
            0x7FC0_0000 => "ret wait".to_owned(),
            k => format!("ret errno {}", k & 0xFFFF),
        },
        other => panic!("{other}"),
    };
    format!("{at:3}  {line}\n")
}

#[test]
fn the_listings_are_as_committed() {
    for (arch, name) in [
        (SeccompArch::X86_64, "x86_64"),
        (SeccompArch::Aarch64, "aarch64"),
    ] {
        let mut text = String::new();
        for insn in &seccomp_program(arch, SeccompWants::default())[0] {
            text.push_str(&line(text.lines().count(), *insn));
        }
        golden::check(&format!("seccomp-{name}.txt"), &text);
    }
}

/// The numbers against the C library's, where it is there.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_table_agrees_with_the_c_library() {
    let table = &X86_64;
    let number = |value: libc::c_long| u32::try_from(value).unwrap();
    assert_eq!(table.ioctl, number(libc::SYS_ioctl));
    assert_eq!(table.clone, number(libc::SYS_clone));
    assert_eq!(table.unshare, number(libc::SYS_unshare));
    assert_eq!(table.prlimit64, number(libc::SYS_prlimit64));
    assert_eq!(table.socket, number(libc::SYS_socket));
    assert_eq!(table.socketpair, number(libc::SYS_socketpair));
    let known = [
        ("pivot_root", libc::SYS_pivot_root),
        ("chroot", libc::SYS_chroot),
        ("mount", libc::SYS_mount),
        ("umount2", libc::SYS_umount2),
        ("init_module", libc::SYS_init_module),
        ("delete_module", libc::SYS_delete_module),
        ("kexec_load", libc::SYS_kexec_load),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("keyctl", libc::SYS_keyctl),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("setns", libc::SYS_setns),
        ("finit_module", libc::SYS_finit_module),
        ("kexec_file_load", libc::SYS_kexec_file_load),
        ("bpf", libc::SYS_bpf),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("open_tree", libc::SYS_open_tree),
        ("move_mount", libc::SYS_move_mount),
        ("fsopen", libc::SYS_fsopen),
        ("fsconfig", libc::SYS_fsconfig),
        ("fsmount", libc::SYS_fsmount),
        ("fspick", libc::SYS_fspick),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("clone3", libc::SYS_clone3),
    ];
    let all: Vec<(&str, u32)> = table.refused.iter().chain(&ABSENT).copied().collect();
    for (name, value) in known {
        assert!(all.contains(&(name, number(value))), "{name}");
    }
}

proptest! {
    #[test]
    fn every_call_ends_in_a_verdict(
        arch in prop_oneof![Just(0xC000_003Eu32), Just(0xC000_00B7), any::<u32>()],
        nr in prop_oneof![0u32..600, any::<u32>()],
        args in any::<[u64; 6]>(),
    ) {
        for built_for in BOTH {
            let program = &seccomp_program(built_for, SeccompWants::default())[0];
            prop_assert!(program.len() < 4096);
            let found = run(program, Call { arch, nr, args });
            if arch != built_for.audit() {
                prop_assert_eq!(found, Errno(ENOSYS));
            }
        }
    }
}

#[test]
fn memory_that_could_be_executed_is_refused_as_on_a_hardened_host_when_asked() {
    let wants = SeccompWants {
        close_memfd_exec: true,
        ..SeccompWants::default()
    };
    for arch in BOTH {
        let nr = arch.table().memfd_create;
        let programs = seccomp_program(arch, wants);
        assert_eq!(programs.len(), 1);
        let verdict = |flags: u64| {
            let args = args(0x1000, flags, 0);
            let arch = arch.audit();
            run(&programs[0], Call { arch, nr, args })
        };
        // None, CLOEXEC | ALLOW_SEALING, EXEC, and the bit in the upper half.
        for flags in [0, 3, 0x10, 0x8 << 32] {
            assert_eq!(verdict(flags), Errno(EACCES), "{flags:#x}");
        }
        assert_eq!(verdict(0x9 | 1 << 40), Allow);
        assert_eq!(verdict_of(arch, nr, args(0x1000, 0, 0)), Allow);
    }
}

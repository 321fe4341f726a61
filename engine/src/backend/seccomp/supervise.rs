//! The program whose calls wait for the guard (seccomp_unotify(2)).
//!
//! Reads are not among them: what opens for reading only, and every `O_PATH`, goes straight to
//! the kernel. The kernel takes flags and descriptors as 32 bits, so only the lower half counts.

use super::{
    BpfInsn, ENOSYS, EPERM, SeccompArch, SeccompWants, allow, any_of, arg_low, errno,
    jump_at_least, jump_equal, jump_set, load, own_calls, refuse_equal, verdict, when,
};
use kotak_guard::proto::STAGED_DESCRIPTORS;

/// Numbers of the calls that may wait.
pub(super) struct Calls {
    ioctl: u32,
    close: u32,
    prctl: u32,
    fcntl: u32,
    /// They change how a process is scheduled, and their first argument says which, 0 for the own.
    sched: &'static [(&'static str, u32)],
    /// As `sched`, but the first argument says what the second one counts: with its value for
    /// processes.
    priority: &'static [(&'static str, u32, u32)],
    /// With the index of the argument that holds the flags of open(2).
    open: &'static [(&'static str, u32, u32)],
    /// They wait whatever the arguments.
    files: &'static [(&'static str, u32)],
    exec: &'static [(&'static str, u32)],
}

/// asm/unistd_64.h
pub(super) const X86_64: Calls = Calls {
    ioctl: 16,
    close: 3,
    prctl: 157,
    fcntl: 72,
    sched: &[
        ("sched_setparam", 142),
        ("sched_setscheduler", 144),
        ("sched_setaffinity", 203),
        ("sched_setattr", 314),
    ],
    priority: &[("setpriority", 141, 0), ("ioprio_set", 251, 1)],
    open: &[("open", 2, 1), ("openat", 257, 2)],
    files: &[
        ("bind", 49),
        ("truncate", 76),
        ("rename", 82),
        ("mkdir", 83),
        ("rmdir", 84),
        ("creat", 85),
        ("link", 86),
        ("unlink", 87),
        ("symlink", 88),
        ("chmod", 90),
        ("fchmod", 91),
        ("mknod", 133),
        ("setxattr", 188),
        ("lsetxattr", 189),
        ("fsetxattr", 190),
        ("removexattr", 197),
        ("lremovexattr", 198),
        ("fremovexattr", 199),
        ("mkdirat", 258),
        ("mknodat", 259),
        ("unlinkat", 263),
        ("renameat", 264),
        ("linkat", 265),
        ("symlinkat", 266),
        ("fchmodat", 268),
        ("renameat2", 316),
        ("fchmodat2", 452),
    ],
    exec: &[("execve", 59), ("execveat", 322)],
};

/// asm-generic/unistd.h
pub(super) const AARCH64: Calls = Calls {
    ioctl: 29,
    close: 57,
    prctl: 167,
    fcntl: 25,
    sched: &[
        ("sched_setparam", 118),
        ("sched_setscheduler", 119),
        ("sched_setaffinity", 122),
        ("sched_setattr", 274),
    ],
    priority: &[("setpriority", 140, 0), ("ioprio_set", 30, 1)],
    open: &[("openat", 56, 2)],
    files: &[
        ("setxattr", 5),
        ("lsetxattr", 6),
        ("fsetxattr", 7),
        ("removexattr", 14),
        ("lremovexattr", 15),
        ("fremovexattr", 16),
        ("mknodat", 33),
        ("mkdirat", 34),
        ("unlinkat", 35),
        ("symlinkat", 36),
        ("linkat", 37),
        ("renameat", 38),
        ("truncate", 45),
        ("fchmod", 52),
        ("fchmodat", 53),
        ("bind", 200),
        ("renameat2", 276),
        ("fchmodat2", 452),
    ],
    exec: &[("execve", 221), ("execveat", 281)],
};

/// Answered as if the kernel did not have them. `openat2`, `setxattrat` and `removexattrat` have
/// older ways to do the same, the first with its flags in a register. The guard makes files for its callers, and a Landlock domain of
/// their own would not hold for it: who asks for one learns that there is none, and nobody
/// believes in a confinement that the guard would lift.
const ABSENT: [(&str, u32); 4] = [
    ("openat2", 437),
    ("landlock_create_ruleset", 444),
    ("setxattrat", 463),
    ("removexattrat", 466),
];

/// `O_PATH` (asm-generic/fcntl.h): the same on both architectures, as are the others here.
const O_PATH: u32 = 0x20_0000;

/// `O_ACCMODE`, `O_CREAT`, `O_TRUNC` and the bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const WRITING: u32 = 0x3 | 0x40 | 0x200 | 0x40_0000;

/// Requests that make or remove a name below a directory with no call for it: of btrfs,
/// `SNAP_CREATE`, `SUBVOL_CREATE`, `SNAP_DESTROY`, `SNAP_CREATE_V2`, `SUBVOL_CREATE_V2` and
/// `SNAP_DESTROY_V2` (linux/btrfs.h), of bcachefs `SUBVOLUME_CREATE` and `SUBVOLUME_DESTROY`
/// (fs/bcachefs/bcachefs_ioctl.h), of OCFS2 `REFLINK` (fs/ocfs2/ocfs2_ioctl.h).
const NAMING: [u32; 9] = [
    0x5000_9401,
    0x5000_940E,
    0x5000_940F,
    0x5000_9417,
    0x5000_9418,
    0x5000_943F,
    0x4020_BC10,
    0x4020_BC11,
    0x4018_6F04,
];

/// The program, where anything is supervised.
pub(super) fn program(arch: SeccompArch, wants: SeccompWants) -> Option<Vec<BpfInsn>> {
    if !wants.supervise_files && !wants.supervise_exec {
        return None;
    }
    let calls = &arch.table().supervised;
    let mut program = own_calls(arch);
    let mut waiting: Vec<u32> = Vec::new();
    if wants.supervise_files {
        for (_, nr, flags) in calls.open {
            program.extend(when(*nr, writing_opens(*flags)));
        }
        program.extend(when(calls.close, staged_closes()));
        program.extend(when(calls.prctl, hiding()));
        program.extend(when(calls.fcntl, write_lease()));
        for (_, nr) in calls.sched {
            program.extend(when(*nr, only_own(0)));
        }
        for (_, nr, process) in calls.priority {
            program.extend(when(*nr, only_own_priority(*process)));
        }
        program.extend(when(calls.ioctl, refuse_equal(1, &NAMING)));
        program.extend(any_of(
            ABSENT.iter().map(|(_, nr)| *nr).collect(),
            errno(ENOSYS),
        ));
        waiting.extend(calls.files.iter().map(|(_, nr)| *nr));
    }
    if wants.supervise_exec {
        waiting.extend(calls.exec.iter().map(|(_, nr)| *nr));
    }
    program.extend(any_of(waiting, notify()));
    program.push(allow());
    Some(program)
}

/// Opens that may write wait; `O_PATH` gives nothing that can be written through.
fn writing_opens(flags: u32) -> Vec<BpfInsn> {
    vec![
        load(arg_low(flags)),
        jump_set(O_PATH, 2, 0),
        jump_set(WRITING, 0, 1),
        notify(),
        allow(),
    ]
}

/// The close of a descriptor that may stand for a file which the guard judges by its content.
fn staged_closes() -> Vec<BpfInsn> {
    vec![
        load(arg_low(0)),
        jump_at_least(STAGED_DESCRIPTORS.start, 0, 2),
        jump_at_least(STAGED_DESCRIPTORS.end, 1, 0),
        notify(),
        allow(),
    ]
}

/// prctl(`PR_SET_DUMPABLE`, 0): a program that hides its memory hides what it asks for, and could
/// make nothing any more. It is told so, and goes on unhidden or not at all.
fn hiding() -> Vec<BpfInsn> {
    const PR_SET_DUMPABLE: u32 = 4;
    vec![
        load(arg_low(0)),
        jump_equal(PR_SET_DUMPABLE, 0, 3),
        load(arg_low(1)),
        jump_equal(0, 0, 1),
        errno(EPERM),
        allow(),
    ]
}

/// fcntl(`F_SETLEASE`, `F_WRLCK`): every open of the file waits for who holds it, the guard's too,
/// for as long as `/proc/sys/fs/lease-break-time` says.
fn write_lease() -> Vec<BpfInsn> {
    const F_SETLEASE: u32 = 1024;
    const F_WRLCK: u32 = 1;
    vec![
        load(arg_low(1)),
        jump_equal(F_SETLEASE, 0, 3),
        load(arg_low(2)),
        jump_equal(F_WRLCK, 0, 1),
        errno(EPERM),
        allow(),
    ]
}

/// Nobody but the caller itself: the guard, for which everybody waits, has the same user.
fn only_own(index: u32) -> Vec<BpfInsn> {
    vec![
        load(arg_low(index)),
        jump_equal(0, 0, 1),
        allow(),
        errno(EPERM),
    ]
}

/// As [`only_own`], for calls that can mean groups and users of processes.
fn only_own_priority(process: u32) -> Vec<BpfInsn> {
    let mut body = vec![load(arg_low(0)), jump_equal(process, 1, 0), errno(EPERM)];
    body.extend(only_own(1));
    body
}

/// `SECCOMP_RET_USER_NOTIF`
fn notify() -> BpfInsn {
    verdict(0x7FC0_0000)
}

#[cfg(test)]
mod tests;

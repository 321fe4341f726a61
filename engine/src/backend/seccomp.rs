//! System-call filters of native sessions, as classic BPF (seccomp(2), bpf(4) of the BSDs).
//!
//! A pure generator: the guard loads the program in every exec child. What is refused is what
//! reaches around a namespace sandbox: terminal injection, mounts, new namespaces, keyrings,
//! kernel attack surface that no payload needs, resource limits of other processes, socket
//! families that leave the network namespace. `EPERM` says "not permitted here"; `ENOSYS` is for
//! calls with an older way to do the same, so that programs fall back (`clone3`, `io_uring`), and
//! for calls by another architecture's table, whose numbers mean other things.
//!
//! What is supervised (REQ BW-5, BW-6) stands in a program of its own, the last, which the guard
//! loads with a listener. The kernel runs every program and takes the strictest answer, of which
//! an errno is stricter than a notification, so the first program's refusals hold as they are.

mod supervise;

use kotak_guard::proto::BpfInsn;

/// What the programs do besides refusing what no payload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeccompWants {
    /// Every call that makes, changes or removes a name, or opens for writing, waits for the guard.
    pub supervise_files: bool,
    /// execve(2) waits for the guard.
    pub supervise_exec: bool,
    /// memfd_create(2) needs `MFD_NOEXEC_SEAL`, so that nothing in memory can be executed past the
    /// exec restriction. The answer is EACCES, which is the kernel's own under
    /// `vm.memfd_noexec=2` (Linux 6.3): programs that met a hardened host know it and use a
    /// temporary file instead.
    pub close_memfd_exec: bool,
}

/// Architectures with a system-call table here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeccompArch {
    /// x86-64.
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
}

impl SeccompArch {
    /// The architecture named as `std::env::consts::ARCH` names it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// `AUDIT_ARCH_*` (linux/audit.h).
    fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xC000_003E,
            Self::Aarch64 => 0xC000_00B7,
        }
    }

    fn table(self) -> &'static Table {
        match self {
            Self::X86_64 => &X86_64,
            Self::Aarch64 => &AARCH64,
        }
    }
}

/// System-call numbers of one architecture.
struct Table {
    ioctl: u32,
    clone: u32,
    unshare: u32,
    prlimit64: u32,
    socket: u32,
    socketpair: u32,
    memfd_create: u32,
    supervised: supervise::Calls,
    /// Refused whatever the arguments.
    refused: &'static [(&'static str, u32)],
}

/// asm/unistd_64.h
static X86_64: Table = Table {
    ioctl: 16,
    clone: 56,
    unshare: 272,
    prlimit64: 302,
    socket: 41,
    socketpair: 53,
    memfd_create: 319,
    supervised: supervise::X86_64,
    refused: &[
        ("pivot_root", 155),
        ("chroot", 161),
        ("mount", 165),
        ("umount2", 166),
        ("init_module", 175),
        ("delete_module", 176),
        ("kexec_load", 246),
        ("add_key", 248),
        ("request_key", 249),
        ("keyctl", 250),
        ("perf_event_open", 298),
        ("fanotify_init", 300),
        ("open_by_handle_at", 304),
        ("setns", 308),
        ("finit_module", 313),
        ("kexec_file_load", 320),
        ("bpf", 321),
        ("userfaultfd", 323),
        ("open_tree", 428),
        ("move_mount", 429),
        ("fsopen", 430),
        ("fsconfig", 431),
        ("fsmount", 432),
        ("fspick", 433),
        ("mount_setattr", 442),
        ("open_tree_attr", 467),
    ],
};

/// asm-generic/unistd.h
static AARCH64: Table = Table {
    ioctl: 29,
    clone: 220,
    unshare: 97,
    prlimit64: 261,
    socket: 198,
    socketpair: 199,
    memfd_create: 279,
    supervised: supervise::AARCH64,
    refused: &[
        ("umount2", 39),
        ("mount", 40),
        ("pivot_root", 41),
        ("chroot", 51),
        ("kexec_load", 104),
        ("init_module", 105),
        ("delete_module", 106),
        ("add_key", 217),
        ("request_key", 218),
        ("keyctl", 219),
        ("perf_event_open", 241),
        ("fanotify_init", 262),
        ("open_by_handle_at", 265),
        ("setns", 268),
        ("finit_module", 273),
        ("bpf", 280),
        ("userfaultfd", 282),
        ("kexec_file_load", 294),
        ("open_tree", 428),
        ("move_mount", 429),
        ("fsopen", 430),
        ("fsconfig", 431),
        ("fsmount", 432),
        ("fspick", 433),
        ("mount_setattr", 442),
        ("open_tree_attr", 467),
    ],
};

/// Answered as if the kernel did not have them; the numbers are the same everywhere.
const ABSENT: [(&str, u32); 4] = [
    ("io_uring_setup", 425),
    ("io_uring_enter", 426),
    ("io_uring_register", 427),
    ("clone3", 435),
];

/// Numbers with this bit are of the x32 table.
const X32_BIT: u32 = 0x4000_0000;

/// Put a byte into a terminal's input, and the console's variant of it (asm-generic/ioctls.h).
const INJECTING: [u32; 2] = [0x5412, 0x541C];

/// `CLONE_NEW*` but for `CLONE_NEWTIME`, whose bit is part of clone(2)'s exit signal.
const CLONE_NEW: u32 = 0x7E02_0000;
/// `CLONE_NEWTIME`, for unshare(2).
const CLONE_NEWTIME: u32 = 0x80;

/// `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`: what stays within the network namespace.
const FAMILIES: [u32; 4] = [1, 2, 10, 16];

/// `MFD_NOEXEC_SEAL` (linux/memfd.h).
const MFD_NOEXEC_SEAL: u32 = 0x8;

const EPERM: u16 = 1;
const EACCES: u16 = 13;
const ENOSYS: u16 = 38;

/// Offsets in `struct seccomp_data`.
const NR: u32 = 0;
const ARCH: u32 = 4;
const fn arg_low(index: u32) -> u32 {
    16 + 8 * index
}
const fn arg_high(index: u32) -> u32 {
    arg_low(index) + 4
}

/// The programs that every exec child loads, in order. With anything supervised the last one is
/// to be loaded with a listener.
#[must_use]
pub fn seccomp_program(arch: SeccompArch, wants: SeccompWants) -> Vec<Vec<BpfInsn>> {
    let mut programs = vec![refusals(arch, wants)];
    programs.extend(supervise::program(arch, wants));
    programs
}

/// Leaves the number of a call by this architecture's table loaded; ENOSYS for any other.
fn own_calls(arch: SeccompArch) -> Vec<BpfInsn> {
    let mut program = vec![
        load(ARCH),
        jump_equal(arch.audit(), 1, 0),
        errno(ENOSYS),
        load(NR),
    ];
    if arch == SeccompArch::X86_64 {
        program.extend([jump_set(X32_BIT, 0, 1), errno(ENOSYS)]);
    }
    program
}

fn refusals(arch: SeccompArch, wants: SeccompWants) -> Vec<BpfInsn> {
    let table = arch.table();
    let mut program = own_calls(arch);
    program.extend(when(table.ioctl, refuse_equal(1, &INJECTING)));
    program.extend(when(table.clone, refuse_set(0, CLONE_NEW)));
    program.extend(when(
        table.unshare,
        refuse_set(0, CLONE_NEW | CLONE_NEWTIME),
    ));
    program.extend(when(table.socket, refuse_others(0, &FAMILIES)));
    program.extend(when(table.socketpair, refuse_others(0, &FAMILIES)));
    program.extend(when(table.prlimit64, refuse_foreign_limit()));
    if wants.close_memfd_exec {
        program.extend(when(table.memfd_create, need_set(1, MFD_NOEXEC_SEAL)));
    }
    program.extend(any_of(
        table.refused.iter().map(|(_, nr)| *nr).collect(),
        errno(EPERM),
    ));
    program.extend(any_of(
        ABSENT.iter().map(|(_, nr)| *nr).collect(),
        errno(ENOSYS),
    ));
    program.push(allow());
    program
}

/// `body` for one system call; it returns in every case. Otherwise the number stays loaded.
fn when(nr: u32, body: Vec<BpfInsn>) -> Vec<BpfInsn> {
    let mut program = vec![jump_equal(nr, 0, distance(body.len()))];
    program.extend(body);
    program
}

/// `verdict` for each of these system calls.
fn any_of(numbers: Vec<u32>, verdict: BpfInsn) -> Vec<BpfInsn> {
    let count = numbers.len();
    let mut program: Vec<BpfInsn> = numbers
        .into_iter()
        .enumerate()
        .map(|(index, nr)| jump_equal(nr, distance(count - index), 0))
        .collect();
    program.extend([jump(1), verdict]);
    program
}

/// The kernel takes these arguments as 32 bits, so what a caller leaves in the upper half must not
/// matter.
fn refuse_equal(index: u32, values: &[u32]) -> Vec<BpfInsn> {
    let mut body = vec![load(arg_low(index))];
    body.extend(any_of(values.to_vec(), errno(EPERM)));
    body.push(allow());
    body
}

fn refuse_others(index: u32, values: &[u32]) -> Vec<BpfInsn> {
    let mut body = vec![load(arg_low(index))];
    body.extend(any_of(values.to_vec(), allow()));
    body.push(errno(EPERM));
    body
}

fn refuse_set(index: u32, bits: u32) -> Vec<BpfInsn> {
    vec![
        load(arg_low(index)),
        jump_set(bits, 0, 1),
        errno(EPERM),
        allow(),
    ]
}

fn need_set(index: u32, bits: u32) -> Vec<BpfInsn> {
    vec![
        load(arg_low(index)),
        jump_set(bits, 0, 1),
        allow(),
        errno(EACCES),
    ]
}

/// prlimit64(pid, resource, new, old) with another's pid and a new limit.
fn refuse_foreign_limit() -> Vec<BpfInsn> {
    vec![
        load(arg_low(0)),
        jump_equal(0, 4, 0),
        load(arg_low(2)),
        jump_equal(0, 0, 3),
        load(arg_high(2)),
        jump_equal(0, 0, 1),
        allow(),
        errno(EPERM),
    ]
}

/// A forward distance; every block here is far shorter than the 255 that an instruction can jump.
fn distance(instructions: usize) -> u8 {
    u8::try_from(instructions).unwrap_or(u8::MAX)
}

fn load(offset: u32) -> BpfInsn {
    BpfInsn {
        code: 0x20,
        jt: 0,
        jf: 0,
        k: offset,
    }
}

fn jump(distance: u32) -> BpfInsn {
    BpfInsn {
        code: 0x05,
        jt: 0,
        jf: 0,
        k: distance,
    }
}

fn jump_equal(value: u32, jt: u8, jf: u8) -> BpfInsn {
    BpfInsn {
        code: 0x15,
        jt,
        jf,
        k: value,
    }
}

fn jump_at_least(value: u32, jt: u8, jf: u8) -> BpfInsn {
    BpfInsn {
        code: 0x35,
        jt,
        jf,
        k: value,
    }
}

fn jump_set(bits: u32, jt: u8, jf: u8) -> BpfInsn {
    BpfInsn {
        code: 0x45,
        jt,
        jf,
        k: bits,
    }
}

fn verdict(action: u32) -> BpfInsn {
    BpfInsn {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: action,
    }
}

/// `SECCOMP_RET_ALLOW`
fn allow() -> BpfInsn {
    verdict(0x7FFF_0000)
}

/// `SECCOMP_RET_ERRNO`
fn errno(number: u16) -> BpfInsn {
    verdict(0x0005_0000 | u32::from(number))
}

#[cfg(test)]
mod tests;

//! Names, numbers and arguments of system calls.

#![expect(unsafe_code, reason = "raw system calls are what it is for")]

use crate::{Answer, answer};
use std::collections::HashMap;

/// Bytes of `buf`.
const BUFFER: usize = 4096;

/// An argument, and the memory that it points into.
pub(crate) enum Argument {
    Number(i64),
    Memory(Vec<u8>),
}

impl Argument {
    /// What goes into the register.
    pub(crate) fn register(&mut self) -> i64 {
        match self {
            Self::Number(number) => *number,
            // Addresses of user space have no sign.
            Self::Memory(bytes) => bytes.as_mut_ptr() as i64,
        }
    }
}

/// Calls the kernel.
pub(crate) fn kernel(call: &str, rest: &[Vec<u8>], results: &HashMap<Vec<u8>, i64>) -> Answer {
    let number = number_of(call).ok_or_else(|| format!("no system call `{call}` here"))?;
    let mut arguments = rest
        .iter()
        .map(|text| argument(text, results))
        .collect::<Result<Vec<_>, _>>()?;
    let mut registers = [0_i64; 6];
    if arguments.len() > registers.len() {
        return Err("more than six arguments".to_owned());
    }
    for (register, argument) in registers.iter_mut().zip(&mut arguments) {
        *register = argument.register();
    }
    let result = raw(number, registers);
    if call == "clone3" && result == 0 {
        std::process::exit(0);
    }
    Ok(answer(call, result))
}

/// The system call itself: the result, or `-errno`.
pub(crate) fn raw(number: i64, [a, b, c, d, e, f]: [i64; 6]) -> i64 {
    // SAFETY: what the call does to this process is what the test wants; memory it writes to is
    // `buf`, which outlives it.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 {
        -i64::from(nix::errno::Errno::last_raw())
    } else {
        result
    }
}

/// One argument, as written.
pub(crate) fn argument(text: &[u8], results: &HashMap<Vec<u8>, i64>) -> Result<Argument, String> {
    let earlier = |name: &[u8]| {
        results
            .get(name)
            .copied()
            .ok_or_else(|| format!("no result `{}`", String::from_utf8_lossy(name)))
    };
    if let Some(text) = text.strip_prefix(b":") {
        let mut bytes = decoded(text)?;
        bytes.push(0);
        return Ok(Argument::Memory(bytes));
    }
    if let Some(name) = text.strip_prefix(b"$") {
        return earlier(name).map(Argument::Number);
    }
    if let Some(name) = text.strip_prefix(b"@") {
        let path = format!("/proc/self/fd/{}\0", earlier(name)?);
        return Ok(Argument::Memory(path.into_bytes()));
    }
    if let Some(path) = text.strip_prefix(b"un:") {
        let family = libc::AF_UNIX.to_ne_bytes();
        let mut address = family.get(..2).unwrap_or_default().to_vec();
        address.extend(decoded(path)?);
        address.resize(110, 0);
        return Ok(Argument::Memory(address));
    }
    let text = String::from_utf8_lossy(text);
    if let Some(how) = text.strip_prefix("how:") {
        let (flags, mode) = how.split_once(',').ok_or("how:FLAGS,MODE")?;
        let words = [number(flags)?, number(mode)?, 0];
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        return Ok(Argument::Memory(bytes.collect()));
    }
    if text == "buf" {
        return Ok(Argument::Memory(vec![0; BUFFER]));
    }
    number(&text).map(Argument::Number)
}

/// `%41` is a byte.
fn decoded(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).ok_or("`%` without two digits")?;
        let digits = String::from_utf8_lossy(digits);
        bytes.push(u8::from_str_radix(&digits, 16).map_err(|error| error.to_string())?);
        rest = tail.get(2..).unwrap_or_default();
    }
    Ok(bytes)
}

/// Numbers and names of bits, joined by `|`.
pub(crate) fn number(text: &str) -> Result<i64, String> {
    let mut all = 0;
    for part in text.split('|') {
        let parsed = if let Some(digits) = part.strip_prefix("0x") {
            // All 64 bits, the sign too.
            u64::from_str_radix(digits, 16).map(u64::cast_signed)
        } else if let Some(digits) = part.strip_prefix("0o") {
            i64::from_str_radix(digits, 8)
        } else {
            part.parse()
        };
        let named = || NAMES.iter().find(|(name, _)| *name == part);
        all |= match (parsed, named()) {
            (Ok(number), _) => number,
            (Err(_), Some((_, bits))) => i64::from(*bits),
            (Err(_), None) => return Err(format!("neither a number nor a name: `{part}`")),
        };
    }
    Ok(all)
}

/// Bits by name.
const NAMES: &[(&str, i32)] = &[
    ("AT_FDCWD", libc::AT_FDCWD),
    ("AT_EMPTY_PATH", libc::AT_EMPTY_PATH),
    ("AT_SYMLINK_FOLLOW", libc::AT_SYMLINK_FOLLOW),
    ("AT_REMOVEDIR", libc::AT_REMOVEDIR),
    ("O_RDONLY", libc::O_RDONLY),
    ("O_WRONLY", libc::O_WRONLY),
    ("O_RDWR", libc::O_RDWR),
    ("O_ACCMODE", libc::O_ACCMODE),
    ("O_CREAT", libc::O_CREAT),
    ("O_EXCL", libc::O_EXCL),
    ("O_TRUNC", libc::O_TRUNC),
    ("O_APPEND", libc::O_APPEND),
    ("O_PATH", libc::O_PATH),
    ("O_TMPFILE", libc::O_TMPFILE),
    ("O_DIRECTORY", libc::O_DIRECTORY),
    ("O_NOFOLLOW", libc::O_NOFOLLOW),
    ("O_CLOEXEC", libc::O_CLOEXEC),
    ("O_NONBLOCK", libc::O_NONBLOCK),
    ("S_IFREG", 0o100_000),
    ("S_IFIFO", 0o010_000),
    ("RENAME_NOREPLACE", 1),
    ("RENAME_EXCHANGE", 2),
    ("AF_UNIX", libc::AF_UNIX),
    ("SOCK_STREAM", libc::SOCK_STREAM),
    ("SOCK_DGRAM", libc::SOCK_DGRAM),
    ("PTRACE_ATTACH", 16),
    ("PTRACE_SEIZE", 0x4206),
    ("RLIMIT_NOFILE", 7),
    ("SIGKILL", libc::SIGKILL),
    ("SIGSTOP", libc::SIGSTOP),
];

/// The numbers that every architecture has.
const CALLS: &[(&str, libc::c_long)] = &[
    ("bind", libc::SYS_bind),
    ("bpf", libc::SYS_bpf),
    ("chdir", libc::SYS_chdir),
    ("chroot", libc::SYS_chroot),
    ("clone3", libc::SYS_clone3),
    ("close", libc::SYS_close),
    ("connect", libc::SYS_connect),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("fchdir", libc::SYS_fchdir),
    ("fsopen", libc::SYS_fsopen),
    ("ftruncate", libc::SYS_ftruncate),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("keyctl", libc::SYS_keyctl),
    ("kill", libc::SYS_kill),
    ("linkat", libc::SYS_linkat),
    ("mkdirat", libc::SYS_mkdirat),
    ("mknodat", libc::SYS_mknodat),
    ("mount", libc::SYS_mount),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("openat", libc::SYS_openat),
    ("openat2", libc::SYS_openat2),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pivot_root", libc::SYS_pivot_root),
    ("prlimit64", libc::SYS_prlimit64),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("ptrace", libc::SYS_ptrace),
    ("read", libc::SYS_read),
    ("renameat", libc::SYS_renameat),
    ("renameat2", libc::SYS_renameat2),
    ("setns", libc::SYS_setns),
    ("socket", libc::SYS_socket),
    ("symlinkat", libc::SYS_symlinkat),
    ("truncate", libc::SYS_truncate),
    ("umount2", libc::SYS_umount2),
    ("unlinkat", libc::SYS_unlinkat),
    ("unshare", libc::SYS_unshare),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("write", libc::SYS_write),
];

/// Those of the older ones.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(&str, libc::c_long)] = &[
    ("creat", libc::SYS_creat),
    ("link", libc::SYS_link),
    ("mkdir", libc::SYS_mkdir),
    ("mknod", libc::SYS_mknod),
    ("open", libc::SYS_open),
    ("rename", libc::SYS_rename),
    ("rmdir", libc::SYS_rmdir),
    ("symlink", libc::SYS_symlink),
    ("unlink", libc::SYS_unlink),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(&str, libc::c_long)] = &[];

fn number_of(call: &str) -> Option<i64> {
    let mut all = CALLS.iter().chain(OLD_CALLS);
    all.find(|(name, _)| *name == call)
        .map(|(_, number)| *number)
}

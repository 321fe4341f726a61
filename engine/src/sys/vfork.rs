//! vfork(2) on a stack of its own, into a cgroup when asked (clone3(2)).
//!
//! A child that shares this process's memory until it calls execve(2) costs no copy of page tables,
//! and no page fault afterwards in a parent of many threads: half a millisecond of each launch.
//! vfork(2) itself cannot be called from Rust, since it returns twice into one stack frame, and
//! posix_spawn(3) cannot place descriptors as a launch needs them.
#![expect(unsafe_code, reason = "clone3(2) has no safe form")]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Units of 16 bytes, the alignment that both architectures want of a stack.
const STACK_UNITS: usize = 4096;

/// linux/sched.h; the constant of libc is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Runs `enter(argument)` in a child; returns its process id once it has called execve(2) or ended.
///
/// # Errors
/// What clone3(2) gives: ENOSYS before Linux 5.3 or on another architecture, EPERM or ENOSYS under a
/// container's filter, EACCES and others for a cgroup.
///
/// # Safety
/// Until it calls execve(2) or `_exit`, `enter` shares every byte of memory with this process, whose
/// other threads run on: it must call nothing but async-signal-safe functions, keep to its own
/// variables, need less than 64 KiB of stack, and never return. The caller blocks every signal.
pub(super) unsafe fn clone_vfork(
    enter: unsafe extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<i32> {
    let mut stack = Vec::<MaybeUninit<u128>>::with_capacity(STACK_UNITS);
    // SAFETY: all-zero is a valid clone_args.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = wide(libc::CLONE_VM)? | wide(libc::CLONE_VFORK)?;
    args.exit_signal = wide(libc::SIGCHLD)?;
    args.stack = stack.as_mut_ptr().expose_provenance() as u64;
    args.stack_size = (STACK_UNITS * size_of::<u128>()) as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = wide(cgroup.as_raw_fd())?;
    }
    // SAFETY: the stack is this call's own and lives until the child has left it, which is when the
    // kernel lets this thread go on (CLONE_VFORK); the rest is promised by the caller.
    let result = unsafe { clone3_and_enter(&args, enter, argument) };
    drop(stack);
    match i32::try_from(result) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
        Err(_) => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

fn wide(number: i32) -> io::Result<u64> {
    u64::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// # Safety
/// As [`clone_vfork`]; `args` names a stack.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3_and_enter(
    args: &libc::clone_args,
    enter: unsafe extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> i64 {
    let result: i64;
    // SAFETY: the parent only makes a system call, which clobbers rax, rcx and r11; the child begins
    // behind it with the same registers, on its own stack, and never leaves `enter`.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {argument}",
            "call {enter}",
            "ud2",
            "2:",
            enter = in(reg) enter,
            argument = in(reg) argument,
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") args,
            in("rsi") size_of_val(args),
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

/// # Safety
/// As [`clone_vfork`]; `args` names a stack.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3_and_enter(
    args: &libc::clone_args,
    enter: unsafe extern "C" fn(*const c_void) -> !,
    argument: *const c_void,
) -> i64 {
    let result: i64;
    // SAFETY: the parent only makes a system call, which clobbers x0; the child begins behind it
    // with the same registers, on its own stack, and never leaves `enter`.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {argument}",
            "blr {enter}",
            "brk 1",
            "2:",
            enter = in(reg) enter,
            argument = in(reg) argument,
            in("x8") libc::SYS_clone3,
            inlateout("x0") args as *const libc::clone_args => result,
            in("x1") size_of_val(args),
            options(nostack),
        );
    }
    result
}

/// # Safety
/// Always.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3_and_enter(
    _: &libc::clone_args,
    _: unsafe extern "C" fn(*const c_void) -> !,
    _: *const c_void,
) -> i64 {
    -i64::from(libc::ENOSYS)
}

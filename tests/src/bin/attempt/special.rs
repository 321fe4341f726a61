//! What is no plain system call: other ways into the kernel, and states of the caller.

#![expect(
    unsafe_code,
    reason = "raw system calls and another entry into the kernel"
)]

use crate::{Answer, answer, call};
use std::collections::HashMap;

/// Runs what is named here; nothing for other names.
pub(crate) fn run(name: &str, rest: &[Vec<u8>], results: &HashMap<Vec<u8>, i64>) -> Option<Answer> {
    let answered = match name {
        // `allow-filter`: a seccomp filter of one's own that allows everything.
        "allow-filter" => Ok(answer(name, allow_filter())),
        // `int80 NUMBER ARGUMENT...`: as a 32-bit program calls.
        "int80" => arguments(rest, results)
            .and_then(|registers| int80(registers).map(|result| answer(name, result))),
        // `x32 NUMBER ARGUMENT...`: the same kernel entry, with the bit of x32.
        "x32" => arguments(rest, results).map(|[number, a, b, c, d, e]| {
            answer(name, call::raw(number | 0x4000_0000, [a, b, c, d, e, 0]))
        }),
        // `undumpable`: nobody may look into this process any more.
        "undumpable" => {
            // SAFETY: no memory is involved.
            let result = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
            Ok(answer(name, i64::from(result)))
        }
        // `peek PID|self`, `poke PID|self`: eight bytes of the memory of a process, by
        // process_vm_readv(2) and process_vm_writev(2).
        "peek" | "poke" => Ok(answer(name, memory(name == "poke", rest))),
        // `open-in-own-cwd PATH`: the text `/proc/PID/cwd/PATH` of this process, opened for creation.
        "open-in-own-cwd" => {
            let path = String::from_utf8_lossy(rest.first().map_or(b"", Vec::as_slice));
            let path = format!(":/proc/{}/cwd/{path}", std::process::id());
            let words = ["AT_FDCWD", &path, "O_CREAT|O_WRONLY", "0o600"];
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            call::kernel("openat", &words, results)
        }
        _ => return None,
    };
    Some(answered)
}

/// Six registers of numbers and addresses; addresses lie below 4 GiB.
fn arguments(rest: &[Vec<u8>], results: &HashMap<Vec<u8>, i64>) -> Result<[i64; 6], String> {
    let mut registers = [0_i64; 6];
    for (register, text) in registers.iter_mut().zip(rest) {
        *register = match call::argument(text, results)? {
            call::Argument::Number(number) => number,
            call::Argument::Memory(bytes) => low_copy(&bytes)?,
        };
    }
    Ok(registers)
}

/// A copy that a 32-bit register can name; it stays until the process ends.
fn low_copy(bytes: &[u8]) -> Result<i64, String> {
    #[cfg(target_arch = "x86_64")]
    let low = libc::MAP_32BIT;
    #[cfg(not(target_arch = "x86_64"))]
    let low = 0;
    // SAFETY: a new mapping; nothing else is there.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes.len().next_multiple_of(4096),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | low,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err("no low memory".to_owned());
    }
    // SAFETY: the mapping has room for the bytes, and nobody else knows it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast::<u8>(), bytes.len()) };
    Ok(address as i64)
}

/// Reads or writes what is at an address of this process, in another or in this one.
fn memory(write: bool, rest: &[Vec<u8>]) -> i64 {
    let pid = rest
        .first()
        .map(|word| String::from_utf8_lossy(word).into_owned());
    let pid = pid.and_then(|word| word.parse::<u32>().ok());
    let (mut own, mut other) = ([0_u8; 8], [1_u8; 8]);
    let vector = |bytes: &mut [u8; 8]| libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let (local, remote) = (vector(&mut own), vector(&mut other));
    let number = if write {
        libc::SYS_process_vm_writev
    } else {
        libc::SYS_process_vm_readv
    };
    let pid = i64::from(pid.unwrap_or_else(std::process::id));
    let local = std::ptr::from_ref(&local) as i64;
    let remote = std::ptr::from_ref(&remote) as i64;
    call::raw(number, [pid, local, 1, remote, 1, 0])
}

/// Loads `return SECCOMP_RET_ALLOW`.
fn allow_filter() -> i64 {
    let mut allow = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut allow,
    };
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let program = std::ptr::from_ref(&program) as i64;
    // SECCOMP_SET_MODE_FILTER
    call::raw(libc::SYS_seccomp, [1, 0, program, 0, 0, 0])
}

#[cfg(target_arch = "x86_64")]
fn int80([number, a, b, c, d, _]: [i64; 6]) -> Result<i64, String> {
    let mut result = number;
    // SAFETY: the kernel reads the registers of its 32-bit entry; `rbx` is the compiler's, so it is
    // put back.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {a}",
            "int 0x80",
            "xchg rbx, {a}",
            a = inout(reg) a => _,
            inout("rax") result,
            in("rcx") b,
            in("rdx") c,
            in("rsi") d,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    // A 32-bit result.
    let bytes = result.to_ne_bytes();
    let low = <[u8; 4]>::try_from(bytes.get(..4).unwrap_or_default());
    low.map(|low| i64::from(i32::from_ne_bytes(low)))
        .map_err(|error| error.to_string())
}

#[cfg(not(target_arch = "x86_64"))]
fn int80(_: [i64; 6]) -> Result<i64, String> {
    Err("this processor has no int 0x80".to_owned())
}

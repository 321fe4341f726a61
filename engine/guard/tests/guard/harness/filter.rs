//! A seccomp program whose calls wait, made here so that the guard's tests need no engine.

use kotak_guard::proto::{BpfInsn, STAGED_DESCRIPTORS};

const WAIT: u32 = libc::SECCOMP_RET_USER_NOTIF;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();

fn insn(code: u16, jt: u8, jf: u8, k: u32) -> BpfInsn {
    BpfInsn { code, jt, jf, k }
}

fn load(offset: u32) -> BpfInsn {
    insn(0x20, 0, 0, offset)
}

fn equal(value: u32, jt: u8, jf: u8) -> BpfInsn {
    insn(0x15, jt, jf, value)
}

fn answer(k: u32) -> BpfInsn {
    insn(0x06, 0, 0, k)
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap()
}

/// The lower half of an argument.
fn argument(index: u32) -> BpfInsn {
    load(16 + 8 * index)
}

fn one(call: libc::c_long, body: &[BpfInsn]) -> Vec<BpfInsn> {
    let mut all = vec![equal(number(call), 0, u8::try_from(body.len()).unwrap())];
    all.extend_from_slice(body);
    all
}

/// Files are supervised, and programs too.
pub(crate) fn waiting_program() -> Vec<BpfInsn> {
    let writing = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC).unsigned_abs() | 0x40_0000;
    let opens = |flags| {
        [
            argument(flags),
            insn(0x45, 2, 0, libc::O_PATH.unsigned_abs()),
            insn(0x45, 0, 1, writing),
            answer(WAIT),
            answer(ALLOW),
        ]
    };
    let mut program = vec![load(0)];
    program.extend(one(libc::SYS_openat, &opens(2)));
    #[cfg(target_arch = "x86_64")]
    program.extend(one(libc::SYS_open, &opens(1)));
    program.extend(one(
        libc::SYS_close,
        &[
            argument(0),
            insn(0x35, 0, 2, STAGED_DESCRIPTORS.start),
            insn(0x35, 1, 0, STAGED_DESCRIPTORS.end),
            answer(WAIT),
            answer(ALLOW),
        ],
    ));
    program.extend(one(libc::SYS_openat2, &[answer(ABSENT)]));
    // prctl(PR_SET_DUMPABLE, 0)
    program.extend(one(
        libc::SYS_prctl,
        &[
            argument(0),
            equal(4, 0, 3),
            argument(1),
            equal(0, 0, 1),
            answer(libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
            answer(ALLOW),
        ],
    ));
    let mut waiting = vec![
        libc::SYS_truncate,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mknodat,
        libc::SYS_mkdirat,
        libc::SYS_unlinkat,
        libc::SYS_bind,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchmodat2,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        libc::SYS_execve,
        libc::SYS_execveat,
    ];
    #[cfg(target_arch = "x86_64")]
    waiting.extend([
        libc::SYS_creat,
        libc::SYS_rename,
        libc::SYS_link,
        libc::SYS_symlink,
        libc::SYS_mknod,
        libc::SYS_mkdir,
        libc::SYS_unlink,
        libc::SYS_rmdir,
        libc::SYS_chmod,
    ]);
    for call in waiting {
        program.extend(one(call, &[answer(WAIT)]));
    }
    program.push(answer(ALLOW));
    program
}

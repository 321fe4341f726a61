//! seccomp(2), as far as the probe asks it. Nothing here loads a filter.

#![expect(unsafe_code, reason = "raw system calls")]

use super::child::errno;

/// What the running kernel's seccomp can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeccompSupport {
    /// `SECCOMP_SET_MODE_FILTER` is there.
    pub filters: bool,
    /// `SECCOMP_RET_USER_NOTIF` is there, with structures of the size that we were built for.
    pub notify: bool,
    /// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` is there.
    pub wait_killable: bool,
}

/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` (linux/seccomp.h).
const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;

/// Asks the kernel.
#[must_use]
pub fn seccomp_support() -> SeccompSupport {
    SeccompSupport {
        filters: flags_are_known(0),
        notify: action_is_known(libc::SECCOMP_RET_USER_NOTIF) && notif_sizes_fit(),
        wait_killable: flags_are_known(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE_RECV),
    }
}

fn action_is_known(action: u32) -> bool {
    // SAFETY: the kernel reads one u32 that lives for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    result == 0
}

fn notif_sizes_fit() -> bool {
    let mut sizes = libc::seccomp_notif_sizes {
        seccomp_notif: 0,
        seccomp_notif_resp: 0,
        seccomp_data: 0,
    };
    // SAFETY: the kernel writes one structure that lives for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_NOTIF_SIZES,
            0,
            &raw mut sizes,
        )
    };
    result == 0
        && usize::from(sizes.seccomp_notif) >= size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) >= size_of::<libc::seccomp_notif_resp>()
        && usize::from(sizes.seccomp_data) >= size_of::<libc::seccomp_data>()
}

/// The kernel checks the flags before it reads the program: with a null program, known flags end
/// in EFAULT and unknown ones in EINVAL, and no filter is ever loaded.
fn flags_are_known(flags: libc::c_ulong) -> bool {
    // SAFETY: the null program is never dereferenced by us, and the kernel answers EFAULT.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            std::ptr::null::<libc::c_void>(),
        )
    };
    result == -1 && errno() == libc::EFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_and_a_flag_that_no_kernel_knows_are_not_known() {
        assert!(action_is_known(libc::SECCOMP_RET_ALLOW));
        assert!(!action_is_known(0x1234_0000));
        assert!(flags_are_known(0));
        assert!(!flags_are_known(1 << 31));
    }
}

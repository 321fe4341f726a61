//! landlock(7), as far as the probe asks it.

#![expect(unsafe_code, reason = "raw system call")]

/// `LANDLOCK_CREATE_RULESET_VERSION`.
const CREATE_RULESET_VERSION: libc::c_uint = 1;

/// The ABI of the running kernel; 0 when Landlock is not there or switched off.
#[must_use]
pub fn landlock_abi() -> u32 {
    // SAFETY: with this flag the call takes no attributes and makes no descriptor.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

//! The mount calls that libc does not wrap: a mount is made apart, and then put in its place, so
//! that nothing half-made is ever seen.
#![expect(
    unsafe_code,
    reason = "open_tree, fsopen and move_mount have no safe wrapper"
)]

use nix::errno::Errno;
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

// linux/mount.h
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC.cast_unsigned();
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_NOEXEC: u64 = 0x8;

/// Read-only, no devices, no set-user-id, no programs: a device file cannot be opened there.
const SHUT: u64 = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

/// `struct mount_attr` (mount_setattr(2)).
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// A mount of what `source` stands for, shut, and nowhere yet (open_tree(2), mount_setattr(2)).
pub(crate) fn shut_bind(source: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let empty = libc::AT_EMPTY_PATH.cast_unsigned();
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | empty;
    // SAFETY: an open descriptor, an empty C string and flags.
    let tree = owned(unsafe {
        libc::syscall(libc::SYS_open_tree, source.as_raw_fd(), c"".as_ptr(), flags)
    })?;
    let attributes = MountAttr {
        attr_set: SHUT,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads the structure of the size that is given.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            empty,
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    })?;
    Ok(tree)
}

/// An empty directory that nobody may read, shut, and nowhere yet (fsopen(2), fsmount(2)).
pub(crate) fn shut_directory() -> Result<OwnedFd, Errno> {
    // SAFETY: a C string and flags.
    let context =
        owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), FSOPEN_CLOEXEC) })?;
    configure(&context, FSCONFIG_SET_FLAG, Some(c"ro"), None)?;
    configure(&context, FSCONFIG_SET_STRING, Some(c"mode"), Some(c"0000"))?;
    configure(&context, FSCONFIG_CMD_CREATE, None, None)?;
    // SAFETY: an open descriptor and flags.
    owned(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            SHUT,
        )
    })
}

fn configure(
    context: &OwnedFd,
    command: libc::c_uint,
    key: Option<&CStr>,
    value: Option<&CStr>,
) -> Result<(), Errno> {
    // SAFETY: C strings that live for the call, or null where the command takes none.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            command,
            key.map_or(ptr::null(), CStr::as_ptr),
            value.map_or(ptr::null(), CStr::as_ptr),
            0,
        )
    })
    .map(drop)
}

/// Puts a mount that is nowhere yet over what `target` stands for (move_mount(2)).
pub(crate) fn put_over(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: two open descriptors, empty C strings and flags.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
        )
    })
    .map(drop)
}

fn owned(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let number = RawFd::try_from(Errno::result(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it for us, and it closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

//! System calls of the supervisor that have no safe form (seccomp_unotify(2)).
#![expect(
    unsafe_code,
    reason = "seccomp notifications and another process's memory have no safe wrapper"
)]

use nix::errno::Errno;
use std::{
    ffi::CStr,
    mem::zeroed,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// A call that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    /// The thread, as this PID namespace numbers it.
    pub(crate) tid: i32,
    pub(crate) number: i64,
    pub(crate) args: [u64; 6],
}

/// How a waiting call goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It returns this.
    Value(i64),
    /// It fails with this.
    Error(i32),
    /// The kernel does it. Never to enforce: the caller may have changed its memory since.
    Continue,
}

/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS` with `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6): guard
/// and caller take turns on one processor. Older kernels only are slower.
pub(crate) fn prefer_turns(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: the argument is a number.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
            SYNC_WAKE_UP,
        )
    };
}

/// Takes a waiting call of a listener that poll(2) says has one. ENOENT when it is gone.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Notification, Errno> {
    // SAFETY: all-zero is a valid notification, and what the kernel demands.
    let mut found: libc::seccomp_notif = unsafe { zeroed() };
    // SAFETY: the request writes one notification.
    Errno::result(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut found,
        )
    })?;
    Ok(Notification {
        id: found.id,
        tid: i32::try_from(found.pid).unwrap_or_default(),
        number: i64::from(found.data.nr),
        args: found.data.args,
    })
}

/// Whether the call still waits, so that its thread is still the one that was meant.
pub(crate) fn still_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the request reads one number.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        )
    };
    result == 0
}

/// Lets the call go on. ENOENT when its thread is gone.
pub(crate) fn reply(listener: BorrowedFd<'_>, id: u64, reply: Reply) -> Result<(), Errno> {
    let (val, error, flags) = match reply {
        Reply::Value(value) => (value, 0, 0),
        Reply::Error(errno) => (0, -errno, 0),
        Reply::Continue => (0, 0, CONTINUE),
    };
    let mut answer = libc::seccomp_notif_resp {
        id,
        val,
        error,
        flags,
    };
    // SAFETY: the request reads one answer.
    Errno::result(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut answer,
        )
    })
    .map(drop)
}

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`
const CONTINUE: u32 = 1;

/// Puts a copy of a descriptor into the calling process: at `number`, or at the lowest free one;
/// gives its number there. Never together with the answer (`SECCOMP_ADDFD_FLAG_SEND`): the guard's
/// own copy would outlive the wake-up, and who writes, closes and executes a file got ETXTBSY.
pub(crate) fn inject(
    listener: BorrowedFd<'_>,
    id: u64,
    descriptor: BorrowedFd<'_>,
    number: Option<u32>,
    cloexec: bool,
) -> Result<i32, Errno> {
    let mut request = libc::seccomp_notif_addfd {
        id,
        flags: if number.is_some() { SETFD } else { 0 },
        srcfd: descriptor.as_raw_fd().unsigned_abs(),
        newfd: number.unwrap_or_default(),
        newfd_flags: if cloexec {
            libc::O_CLOEXEC.unsigned_abs()
        } else {
            0
        },
    };
    // SAFETY: the request reads one structure.
    Errno::result(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ADDFD,
            &raw mut request,
        )
    })
}

/// `SECCOMP_ADDFD_FLAG_SETFD`
const SETFD: u32 = 1;

/// Copies memory of another thread; gives how many bytes could be read, which end at the first
/// page that is not there.
pub(crate) fn read_memory(tid: i32, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(
            usize::try_from(address).map_err(|_| Errno::EFAULT)?,
        ),
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`; the other address is the
    // other process's, and the kernel checks it.
    let count = Errno::result(unsafe {
        libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0)
    })?;
    usize::try_from(count).map_err(|_| Errno::EFAULT)
}

/// Gives the calling thread a umask and a working directory of its own (unshare(2) `CLONE_FS`).
pub(crate) fn own_directory_and_umask() -> Result<(), Errno> {
    // SAFETY: takes a number.
    Errno::result(unsafe { libc::unshare(libc::CLONE_FS) }).map(drop)
}

/// openat(2) with flags and mode as the caller gave them, but that no terminal becomes the guard's:
/// it leads a session that has none.
pub(crate) fn open_as_given(
    dir: BorrowedFd<'_>,
    name: &CStr,
    flags: i32,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    let flags = flags | libc::O_NOCTTY;
    // SAFETY: a NUL-terminated name and numbers.
    let opened =
        Errno::result(unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags, mode) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// renameat2(2) with flags as the caller gave them.
pub(crate) fn rename_as_given(
    old: (BorrowedFd<'_>, &CStr),
    new: (BorrowedFd<'_>, &CStr),
    flags: u32,
) -> Result<(), Errno> {
    // SAFETY: NUL-terminated names and numbers.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            old.0.as_raw_fd(),
            old.1.as_ptr(),
            new.0.as_raw_fd(),
            new.1.as_ptr(),
            flags,
        )
    })
    .map(drop)
}

/// mkdirat(2) with a mode as the caller gave it.
pub(crate) fn mkdir_as_given(dir: BorrowedFd<'_>, name: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: a NUL-terminated name and numbers.
    Errno::result(unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode) }).map(drop)
}

/// mknodat(2) with a mode and device as the caller gave them.
pub(crate) fn mknod_as_given(
    dir: BorrowedFd<'_>,
    name: &CStr,
    mode: u32,
    device: u64,
) -> Result<(), Errno> {
    // SAFETY: a NUL-terminated name and numbers.
    Errno::result(unsafe { libc::mknodat(dir.as_raw_fd(), name.as_ptr(), mode, device) }).map(drop)
}

/// truncate(2) with a length as the caller gave it.
pub(crate) fn truncate_as_given(path: &CStr, length: i64) -> Result<(), Errno> {
    // SAFETY: a NUL-terminated path and a number.
    Errno::result(unsafe { libc::truncate(path.as_ptr(), length) }).map(drop)
}

/// fchmodat2(2), or what was before it (Linux 6.6), with a mode as the caller gave it.
pub(crate) fn chmod_as_given(path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: a NUL-terminated path and a number.
    Errno::result(unsafe { libc::chmod(path.as_ptr(), mode) }).map(drop)
}

/// bind(2) with an address as the caller gave it.
pub(crate) fn bind_as_given(socket: BorrowedFd<'_>, address: &[u8]) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the kernel reads `length` bytes of `address`.
    Errno::result(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) })
        .map(drop)
}

/// A copy of another process's descriptor (pidfd_getfd(2)).
pub(crate) fn copy_descriptor(process: BorrowedFd<'_>, number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes numbers only.
    let copied = Errno::result(unsafe {
        libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0)
    })?;
    let copied = RawFd::try_from(copied).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it for us, closing on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(copied) })
}

/// Sends one byte and one descriptor, from a child on its way to execve(2): allocates nothing.
pub(crate) fn send_descriptor(socket: RawFd, word: u8, descriptor: RawFd) -> Result<(), Errno> {
    let mut part = libc::iovec {
        iov_base: (&raw const word).cast_mut().cast(),
        iov_len: 1,
    };
    // Aligned as a control header must be, and long enough for one with one descriptor.
    let mut control = [0u64; 4];
    // SAFETY: all-zero is a valid header.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as usize;
    // SAFETY: the buffer has room for a header, so this points into it.
    let message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: as above; nothing else refers to it.
    let message = unsafe { message.as_mut() }.ok_or(Errno::EINVAL)?;
    message.cmsg_level = libc::SOL_SOCKET;
    message.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: CMSG_LEN only computes.
    message.cmsg_len = unsafe { libc::CMSG_LEN(4) } as usize;
    // SAFETY: the data of a header in our buffer.
    let place = unsafe { libc::CMSG_DATA(message) };
    // SAFETY: four bytes of room, which need not be aligned.
    unsafe { place.cast::<RawFd>().write_unaligned(descriptor) };
    // SAFETY: `header` points to what lives on this stack.
    Errno::result(unsafe { libc::sendmsg(socket, &raw const header, libc::MSG_NOSIGNAL) }).map(drop)
}

/// Receives what [`send_descriptor`] sent; `None` when nothing is there, or no descriptor came.
pub(crate) fn receive_descriptor(socket: BorrowedFd<'_>) -> Option<(u8, OwnedFd)> {
    let mut word = 0u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 4];
    // SAFETY: all-zero is a valid header.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<[u64; 4]>();
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: `header` points to what lives on this stack.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    if count < 1 {
        return None;
    }
    // SAFETY: recvmsg filled the header.
    let message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: null, or a header in our buffer.
    let message = unsafe { message.as_ref() }?;
    if message.cmsg_level != libc::SOL_SOCKET || message.cmsg_type != libc::SCM_RIGHTS {
        return None;
    }
    // SAFETY: the data of a header that the kernel wrote.
    let place = unsafe { libc::CMSG_DATA(message) };
    // SAFETY: it holds one descriptor, which need not be aligned.
    let descriptor = unsafe { place.cast::<RawFd>().read_unaligned() };
    // SAFETY: the kernel has just opened it for us.
    Some((word, unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// The signal by which a waiting thread of the guard is called off.
const CALL_OFF: libc::c_int = libc::SIGUSR2;

/// Makes [`CALL_OFF`] interrupt a system call, and do nothing else.
pub(crate) fn let_interrupt() -> Result<(), Errno> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all-zero is a valid action: no flags, so that calls are not restarted, and an empty
    // mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    let handler: extern "C" fn(libc::c_int) = nothing;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the handler does nothing, and is there for good.
    Errno::result(unsafe { libc::sigaction(CALL_OFF, &raw const action, std::ptr::null_mut()) })
        .map(drop)
}

/// The calling thread, for [`interrupt`]; from now on it can be interrupted.
pub(crate) fn thread_id() -> i32 {
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(nix::sys::signal::Signal::SIGUSR2);
    // It fails for no valid set; then the thread cannot be called off, and ends with the session.
    let _ = set.thread_unblock();
    nix::unistd::gettid().as_raw()
}

/// Interrupts a system call of a thread of this process.
pub(crate) fn interrupt(thread: i32) {
    let own = nix::unistd::getpid().as_raw();
    if thread > 0 {
        // SAFETY: takes numbers only; a thread that is gone gives ESRCH.
        unsafe { libc::syscall(libc::SYS_tgkill, own, thread, CALL_OFF) };
    }
}

/// What statx(2) tells of a pinned thing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    /// The number of its mount (`STX_MNT_ID`, Linux 5.8), as in `/proc/self/mountinfo`.
    pub(crate) mount: Option<u64>,
    pub(crate) mode: u32,
    pub(crate) links: u32,
}

/// Where and what something is.
pub(crate) fn placed(pinned: BorrowedFd<'_>) -> Result<Placed, Errno> {
    let mask = libc::STATX_MODE | libc::STATX_TYPE | libc::STATX_NLINK | libc::STATX_MNT_ID;
    // SAFETY: all-zero is a valid answer.
    let mut found: libc::statx = unsafe { zeroed() };
    // SAFETY: an empty name, numbers, and one answer that the kernel fills.
    Errno::result(unsafe {
        libc::statx(
            pinned.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            mask,
            &raw mut found,
        )
    })?;
    let is_told = found.stx_mask & libc::STATX_MNT_ID != 0;
    Ok(Placed {
        mount: is_told.then_some(found.stx_mnt_id),
        mode: u32::from(found.stx_mode),
        links: found.stx_nlink,
    })
}

/// setxattr(2) with flags as the caller gave them.
pub(crate) fn set_attribute(
    path: &CStr,
    name: &CStr,
    value: &[u8],
    flags: i32,
) -> Result<(), Errno> {
    let bytes = value.as_ptr().cast();
    // SAFETY: NUL-terminated strings, and `value.len()` bytes.
    Errno::result(unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), bytes, value.len(), flags)
    })
    .map(drop)
}

/// removexattr(2).
pub(crate) fn remove_attribute(path: &CStr, name: &CStr) -> Result<(), Errno> {
    // SAFETY: NUL-terminated strings.
    Errno::result(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }).map(drop)
}

//! The system calls that have no safe form.
#![expect(
    unsafe_code,
    reason = "fork, exec, prctl, ioctl and seccomp have no safe wrapper"
)]

use kotak_guard::proto::{BpfInsn, ExitStatus};
use nix::errno::Errno;
use std::{
    mem::zeroed,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// Takes over a descriptor that this process inherited by number.
pub(crate) fn inherited_descriptor(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: F_GETFD only looks; a number that is not open gives EBADF.
    let flags = Errno::result(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    // SAFETY: sets one flag on an open descriptor.
    Errno::result(unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and nothing else in this process knows of it: it came by execve(2)
    // and this is called once, for the number on the command line.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes every descriptor from `first` to `last`, open or not.
pub(crate) fn close_range(first: u32, last: u32) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the callers close only what no Rust object owns, or are about to execve(2).
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) };
    Errno::result(result).map(drop)
}

/// The Landlock ABI of the kernel, 0 without Landlock.
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    let none: *const libc::c_void = ptr::null();
    // SAFETY: with the version flag, the attribute pointer must be null and the size 0.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}

/// Whether a network interface is up.
pub(crate) fn interface_is_up(socket: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(Errno::EINVAL);
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name) {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    // SAFETY: SIOCGIFFLAGS reads the name and writes the flags of this ifreq.
    Errno::result(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request)
    })?;
    // SAFETY: after SIOCGIFFLAGS the flags are the member that is set.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}

/// Unlocks the slave of a PTY master, opens it, and sets the size.
pub(crate) fn open_slave(master: BorrowedFd<'_>, cols: u16, rows: u16) -> Result<OwnedFd, Errno> {
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int.
    Errno::result(unsafe {
        libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked)
    })?;
    let size = libc::winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes open(2) flags and gives a new descriptor.
    let slave =
        Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(slave) })
}

/// Makes `slave` the controlling terminal of this session.
pub(crate) fn take_controlling_terminal(slave: RawFd) -> Result<(), Errno> {
    let do_not_steal: libc::c_int = 0;
    // SAFETY: TIOCSCTTY takes a number.
    Errno::result(unsafe { libc::ioctl(slave, libc::TIOCSCTTY, do_not_steal) }).map(drop)
}

/// dup2(2) onto a number that this process may not know as an object.
pub(crate) fn duplicate_onto(from: RawFd, onto: RawFd) -> Result<(), Errno> {
    // SAFETY: used for 0, 1 and 2, which no Rust object owns.
    Errno::result(unsafe { libc::dup2(from, onto) }).map(drop)
}

/// Moves a descriptor to a number, closing on exec.
pub(crate) fn duplicate_cloexec_onto(from: RawFd, onto: RawFd) -> Result<(), Errno> {
    if from == onto {
        return Ok(());
    }
    // SAFETY: used in a child that is about to execve(2) or exit, where no object's
    // destructor runs any more.
    Errno::result(unsafe { libc::dup3(from, onto, libc::O_CLOEXEC) }).map(drop)
}

/// A copy at the lowest free number from `lowest` on, closing on exec.
pub(crate) fn duplicate_above(from: RawFd, lowest: RawFd) -> Result<RawFd, Errno> {
    // SAFETY: takes numbers only; used in a child that is about to execve(2) or exit.
    Errno::result(unsafe { libc::fcntl(from, libc::F_DUPFD_CLOEXEC, lowest) })
}

/// Every signal back to its default action. By the bare system call, because libc hides the
/// two signals that it keeps for threads, and those may be inherited as ignored too.
pub(crate) fn reset_signal_dispositions() {
    /// The kernel's `struct sigaction` on 64-bit machines, in words: handler, flags, restorer,
    /// mask. All zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    const MASK_BYTES: usize = 8;
    for signal in 1..=libc::SIGRTMAX() {
        let none: *mut libc::c_void = ptr::null_mut();
        // SIGKILL and SIGSTOP are refused: nothing to reset.
        // SAFETY: the kernel reads DEFAULT, and the old action is not asked for. No thread of
        // libc's exists that would miss its signals, and execve(2) follows.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                none,
                MASK_BYTES,
            )
        };
    }
}

/// Ignores a signal.
pub(crate) fn ignore_signal(signal: libc::c_int) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Gives a signal its default action. A parent that ignored SIGCHLD would otherwise leave this
/// process without the exit status of its children.
pub(crate) fn default_signal(signal: libc::c_int) {
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// kill(2) with any signal number, real-time ones too.
pub(crate) fn send_signal(pid: libc::pid_t, signal: libc::c_int) -> Result<(), Errno> {
    // SAFETY: kill takes numbers only.
    Errno::result(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// A descriptor that stands for one process, whatever becomes of its number (pidfd_open(2)).
pub(crate) fn pin_process(pid: libc::pid_t) -> Result<OwnedFd, Errno> {
    // SAFETY: takes numbers only.
    let pinned = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let pinned = RawFd::try_from(pinned).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it for us, closing on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(pinned) })
}

/// A signal to the process that a descriptor stands for (pidfd_send_signal(2)).
pub(crate) fn signal_pinned(process: BorrowedFd<'_>, signal: libc::c_int) -> Result<(), Errno> {
    let none: *const libc::siginfo_t = ptr::null();
    // SAFETY: without siginfo the kernel makes it as for kill(2).
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            none,
            0,
        )
    };
    Errno::result(result).map(drop)
}

/// fork(2) side.
pub(crate) enum Forked {
    /// In the parent.
    Parent(libc::pid_t),
    /// In the child.
    Child,
}

/// fork(2).
///
/// A supervising guard has more than one thread, and another may hold a lock at this moment: the
/// child makes system calls only, and allocates nothing, since all it needs is made before.
pub(crate) fn fork() -> Result<Forked, Errno> {
    // SAFETY: the child does nothing that another thread's lock could keep it from, see above.
    match Errno::result(unsafe { libc::fork() })? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}

/// What waitpid(2) had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// A child ended.
    Ended(libc::pid_t, ExitStatus),
    /// A child changed in another way, and lives.
    Alive,
    /// There are children, and none has changed.
    Nobody,
    /// There is no child.
    NoChild,
}

/// Takes the status of one child without waiting. The raw status is read here: a wrapper that
/// knows no real-time signals would fail after the kernel has given the status away for good.
pub(crate) fn reap_one() -> Reaped {
    let mut status = 0;
    // SAFETY: writes one integer that lives on this stack.
    match Errno::result(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
        Ok(0) => Reaped::Nobody,
        Ok(pid) if libc::WIFEXITED(status) => {
            Reaped::Ended(pid, ExitStatus::Code(libc::WEXITSTATUS(status)))
        }
        Ok(pid) if libc::WIFSIGNALED(status) => {
            Reaped::Ended(pid, ExitStatus::Signal(libc::WTERMSIG(status)))
        }
        Err(Errno::ECHILD) => Reaped::NoChild,
        // EINTR, or a stop that was not asked for.
        Ok(_) | Err(_) => Reaped::Alive,
    }
}

/// Ends this process without running anything.
pub(crate) fn exit_now(code: libc::c_int) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// A seccomp program in the form the kernel takes.
#[derive(Debug)]
pub(crate) struct SeccompProgram(Vec<libc::sock_filter>);

impl SeccompProgram {
    /// Converts; the kernel judges the content when it is loaded.
    pub(crate) fn new(instructions: &[BpfInsn]) -> Self {
        Self(
            instructions
                .iter()
                .map(|insn| libc::sock_filter {
                    code: insn.code,
                    jt: insn.jt,
                    jf: insn.jf,
                    k: insn.k,
                })
                .collect(),
        )
    }

    /// Whether it lets calls wait for a listener.
    pub(crate) fn has_waiting_calls(&self) -> bool {
        const RETURN: u16 = 0x06;
        self.0
            .iter()
            .any(|insn| insn.code == RETURN && insn.k == libc::SECCOMP_RET_USER_NOTIF)
    }

    /// Loads it into this process (seccomp(2)).
    pub(crate) fn load(&self) -> Result<(), Errno> {
        self.load_with(0).map(drop)
    }

    /// Loads it, and gives the descriptor that its waiting calls are answered by. A caller that
    /// waits is then only interrupted by what kills it (Linux 5.19): else every signal would make
    /// its calls fail.
    pub(crate) fn load_with_listener(&self) -> Result<RawFd, Errno> {
        self.load_with(
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
        )
    }

    fn load_with(&self, flags: libc::c_ulong) -> Result<RawFd, Errno> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).map_err(|_| Errno::EINVAL)?,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: `program` describes the instructions of `self`; the kernel only reads them.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        let listener = Errno::result(result)?;
        RawFd::try_from(listener).map_err(|_| Errno::EBADF)
    }
}

/// A null-terminated array of C strings, as execve(2) wants it.
#[derive(Debug)]
pub(crate) struct StringArray {
    pointers: Vec<*const libc::c_char>,
    /// Owns what `pointers` points to.
    _strings: Vec<std::ffi::CString>,
}

impl StringArray {
    /// Takes the strings over.
    pub(crate) fn new(strings: Vec<std::ffi::CString>) -> Self {
        // The heap blocks that the pointers name do not move when the vector does.
        let pointers = strings
            .iter()
            .map(|string| string.as_ptr())
            .chain(std::iter::once(ptr::null()))
            .collect();
        Self {
            pointers,
            _strings: strings,
        }
    }
}

/// execve(2); comes back only with an error.
pub(crate) fn execute(
    path: &std::ffi::CStr,
    arguments: &StringArray,
    environment: &StringArray,
) -> Errno {
    // SAFETY: a NUL-terminated path and two null-terminated arrays of such strings.
    unsafe {
        libc::execve(
            path.as_ptr(),
            arguments.pointers.as_ptr(),
            environment.pointers.as_ptr(),
        )
    };
    Errno::last()
}

/// write(2) from a child on its way to exec.
pub(crate) fn write_raw(fd: RawFd, bytes: &[u8]) {
    // SAFETY: `bytes` is valid; a failure leaves the reader with an end of file.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// The kind of a namespace, as its `CLONE_NEW*` flag (ioctl_ns(2)).
pub(crate) fn namespace_kind(namespace: BorrowedFd<'_>) -> Result<libc::c_int, Errno> {
    // SAFETY: the request takes no argument and gives a number.
    Errno::result(unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_NSTYPE) })
}

/// The user namespace that owns a namespace (ioctl_ns(2)).
pub(crate) fn owning_user_namespace(namespace: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: the request takes no argument and gives a new descriptor.
    let owner = Errno::result(unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) })?;
    // SAFETY: the kernel has just opened it for us; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(owner) })
}

/// linux/nsfs.h: `_IO(0xb7, 1)` and `_IO(0xb7, 3)`.
const NS_GET_USERNS: libc::Ioctl = 0xb701;
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

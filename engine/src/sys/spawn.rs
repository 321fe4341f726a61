//! Fork and exec with descriptors at fixed numbers.
//!
//! `std::process::Command` is not used because it may own a descriptor at one of the fixed
//! numbers between fork and exec (its error pipe), and because nothing of the host process may
//! leak: here every descriptor without a place in the plan is closed by the exec.
#![expect(
    unsafe_code,
    reason = "fork, exec and what runs between them are system calls"
)]

use super::vfork::clone_vfork;
use nix::sys::signal::{SigSet, SigmaskHow};
use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Most descriptors that one child may get.
pub const MAX_CHILD_FDS: usize = 32;

/// Duplicates made between fork and exec stand at or above this number, clear of every target.
const PARKING: RawFd = 64;

/// What to execute.
#[derive(Debug)]
pub enum Image {
    /// A program by absolute path.
    Path(CString),
    /// A program by open descriptor (execveat(2) with `AT_EMPTY_PATH`).
    Fd(OwnedFd),
}

/// What happens to the child when the thread that spawned it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSpawnerDeath {
    /// SIGKILL (prctl(2) `PR_SET_PDEATHSIG`).
    Kill,
    /// Nothing: the child notices by itself.
    Nothing,
}

/// A program to start. Working directory `/`, own session, default signal dispositions.
#[derive(Debug)]
pub struct ChildPlan {
    /// The program.
    pub image: Image,
    /// `argv`.
    pub argv: Vec<CString>,
    /// `envp`, as `NAME=value`.
    pub env: Vec<CString>,
    /// Descriptors and the numbers they get; all others are closed.
    pub fds: Vec<(OwnedFd, RawFd)>,
    /// When the spawning thread ends.
    pub on_spawner_death: OnSpawnerDeath,
    /// The directory of the version 2 cgroup to be born in (clone3(2) `CLONE_INTO_CGROUP`, Linux
    /// 5.7). Moving a process that runs waits for a grace period of the kernel, some 15 ms.
    pub cgroup: Option<OwnedFd>,
}

/// A started program.
#[derive(Debug)]
pub struct Spawned {
    /// Process id; stays reserved until waited for.
    pub pid: i32,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// It was born in the cgroup of its plan; else the kernel or the rights did not allow it, and
    /// it is in this process's own.
    pub in_cgroup: bool,
}

/// Starts a program. Returns once the exec succeeded, or with the error that stopped it.
pub fn fork_exec(plan: &ChildPlan) -> io::Result<Spawned> {
    if plan.fds.len() > MAX_CHILD_FDS {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let argv = pointers(&plan.argv);
    let env = pointers(&plan.env);
    let (report, report_child) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    let mut fds = [(-1, -1); MAX_CHILD_FDS];
    for (slot, (source, target)) in fds.iter_mut().zip(&plan.fds) {
        *slot = (source.as_raw_fd(), *target);
    }
    let child = Child {
        image: match &plan.image {
            Image::Path(path) => ChildImage::Path(path.as_ptr()),
            Image::Fd(fd) => ChildImage::Fd(fd.as_raw_fd()),
        },
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        fds: &fds[..plan.fds.len()],
        on_spawner_death: plan.on_spawner_death,
        parent: nix::unistd::getpid().as_raw(),
        report: report_child.as_raw_fd(),
    };
    let (pid, in_cgroup) = born(&child, plan.cgroup.as_ref())?;
    drop(report_child);
    let failed = read_errno(&report);
    let pidfd = match failed {
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => pidfd_open(pid),
    };
    let spawned = pidfd.map(|pidfd| Spawned {
        pid,
        pidfd,
        in_cgroup,
    });
    spawned.inspect_err(|_| {
        let pid = nix::unistd::Pid::from_raw(pid);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(pid, None);
    })
}

/// Makes the child, and says whether in its cgroup: an older kernel, or a group that this user may
/// not put processes into, leaves it in this process's own.
fn born(child: &Child<'_>, cgroup: Option<&OwnedFd>) -> io::Result<(i32, bool)> {
    // A handler that ran in the child would run on this process's memory.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let made = match cgroup.map(|group| vforked(child, Some(group.as_fd()))) {
        Some(Ok(pid)) => Ok((pid, true)),
        Some(Err(_)) | None => vforked(child, None)
            .or_else(|_| forked(child))
            .map(|pid| (pid, false)),
    };
    before.thread_set_mask()?;
    made
}

/// The child, in this process's memory until its exec.
fn vforked(child: &Child<'_>, cgroup: Option<BorrowedFd<'_>>) -> io::Result<i32> {
    unsafe extern "C" fn enter(child: *const c_void) -> ! {
        // SAFETY: `child` below outlives this, since its caller is not let go on before.
        let child = unsafe { &*child.cast::<Child<'_>>() };
        // SAFETY: this is the child, and every pointer in `child` is alive and NULL-terminated.
        unsafe { child.run() }
    }
    // SAFETY: `run` calls only async-signal-safe functions on memory prepared before, never returns,
    // and ends in exec or _exit; signals are blocked.
    unsafe { clone_vfork(enter, ptr::from_ref(child).cast(), cgroup) }
}

/// The child in a copy of this process's memory, where the kernel or a filter has no clone3(2).
fn forked(child: &Child<'_>) -> io::Result<i32> {
    // SAFETY: the child calls only async-signal-safe functions on memory prepared before, and ends
    // in exec or _exit.
    match unsafe { libc::fork() } {
        // SAFETY: this is the child, and every pointer in `child` is alive and NULL-terminated.
        0 => unsafe { child.run() },
        pid if pid < 0 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Sends a signal through a pidfd; never reaches a recycled process id.
pub fn pidfd_send_signal(pidfd: &OwnedFd, signal: i32) -> io::Result<()> {
    // SAFETY: plain integers and a NULL siginfo, as pidfd_send_signal(2) allows.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// How a child ended, by any signal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitedEnd {
    /// exit(3) with this code.
    Code(i32),
    /// This signal, real-time ones too.
    Signal(i32),
}

/// Waits for the end of a child by its pidfd, and reaps it (waitid(2)).
pub fn wait_for_end(pidfd: &OwnedFd) -> io::Result<WaitedEnd> {
    let number = libc::id_t::try_from(pidfd.as_raw_fd()).map_err(io::Error::other)?;
    // SAFETY: all-zero is a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: waitid writes one siginfo_t, which lives on this stack.
        let result = unsafe { libc::waitid(libc::P_PIDFD, number, &raw mut info, libc::WEXITED) };
        if result == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: waitid has filled in the members of SIGCHLD.
    let status = unsafe { info.si_status() };
    Ok(match info.si_code {
        libc::CLD_EXITED => WaitedEnd::Code(status),
        _ => WaitedEnd::Signal(status),
    })
}

/// Opens a process (pidfd_open(2)): an unreaped child, or one whose identity is compared after.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = RawFd::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor to us alone; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

fn read_errno(report: &OwnedFd) -> Option<i32> {
    let mut bytes = [0; 4];
    loop {
        return match nix::unistd::read(report, &mut bytes) {
            Err(nix::errno::Errno::EINTR) => continue,
            Ok(4) => Some(i32::from_ne_bytes(bytes)),
            // End of file: the pipe was closed by a successful exec.
            _ => None,
        };
    }
}

enum ChildImage {
    Path(*const libc::c_char),
    Fd(RawFd),
}

/// What the child needs between fork and exec: borrowed, allocation-free.
struct Child<'a> {
    image: ChildImage,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    fds: &'a [(RawFd, RawFd)],
    on_spawner_death: OnSpawnerDeath,
    parent: i32,
    report: RawFd,
}

impl Child<'_> {
    /// # Safety
    /// Only in a freshly forked child; the pointers must be valid and NULL-terminated.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one uninterrupted run of raw system calls"
    )]
    unsafe fn run(&self) -> ! {
        // SAFETY: all calls below are async-signal-safe system calls on integers and on memory
        // that the parent prepared; nothing allocates, locks or unwinds.
        unsafe {
            let report = libc::fcntl(self.report, libc::F_DUPFD_CLOEXEC, PARKING);
            if report < 0 {
                libc::_exit(127);
            }
            libc::setsid();
            for signal in 1..=64 {
                if signal != libc::SIGKILL && signal != libc::SIGSTOP {
                    libc::signal(signal, libc::SIG_DFL);
                }
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            if self.on_spawner_death == OnSpawnerDeath::Kill
                && (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                    || libc::getppid() != self.parent)
            {
                self.fail(report);
            }
            if libc::chdir(c"/".as_ptr()) < 0 {
                self.fail(report);
            }
            let image = match self.image {
                ChildImage::Path(_) => -1,
                ChildImage::Fd(fd) => libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, PARKING),
            };
            let mut parked = [-1; MAX_CHILD_FDS];
            for (slot, (source, _)) in parked.iter_mut().zip(self.fds) {
                *slot = libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, PARKING);
                if *slot < 0 {
                    self.fail(report);
                }
            }
            close_all_on_exec();
            for (source, (_, target)) in parked.iter().zip(self.fds) {
                if libc::dup2(*source, *target) < 0 {
                    self.fail(report);
                }
            }
            match self.image {
                ChildImage::Path(path) => libc::execve(path, self.argv, self.env),
                ChildImage::Fd(_) => libc::execveat(
                    image,
                    c"".as_ptr(),
                    self.argv.cast::<*mut libc::c_char>(),
                    self.env.cast::<*mut libc::c_char>(),
                    libc::AT_EMPTY_PATH,
                ),
            };
            self.fail(report)
        }
    }

    /// # Safety
    /// As [`Child::run`].
    unsafe fn fail(&self, report: RawFd) -> ! {
        let errno = nix::errno::Errno::last_raw().to_ne_bytes();
        // SAFETY: four bytes of our own stack into our own pipe.
        unsafe { libc::write(report, errno.as_ptr().cast(), errno.len()) };
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(127) }
    }
}

/// Marks everything above the standard streams close-on-exec.
///
/// # Safety
/// Only in a freshly forked child.
unsafe fn close_all_on_exec() {
    // SAFETY: plain integers; close_range(2) needs Linux 5.11 for this flag.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if done == 0 {
        return;
    }
    for fd in 3..65_536 {
        // SAFETY: a descriptor number that is not open only gives EBADF.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

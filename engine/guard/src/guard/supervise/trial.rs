//! Proof that supervision works here: a child under the real programs tries a name that the rules
//! of the trial forbid, and one that they permit, in a directory of the session's own.

use super::{Journal, NAME, Supervisor, TRIAL};
use crate::guard::{
    exec::load_seccomp,
    sys::{self, Forked, SeccompProgram},
    verify::check,
};
use kotak_guard::proto::{Check, FileRules};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        stat::Mode,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, UnlinkatFlags, unlinkat},
};
use std::{
    ffi::CString,
    os::fd::{AsFd, AsRawFd},
};

const FORBIDDEN: &str = "kotak-trial-forbidden";
const PERMITTED: &str = "kotak-trial-permitted";

/// Milliseconds after which a trial that nobody answers has failed.
const PATIENCE_MS: u16 = 30_000;

/// Exit codes of the child past those that are an errno.
const WAS_MADE: i32 = 200;
const OTHER_ERROR: i32 = 201;
const NOT_PERMITTED: i32 = 202;

/// The rules of the trial.
pub(crate) fn rules(private: &[u8]) -> FileRules {
    FileRules {
        roots: vec![private.to_vec()],
        names: vec![FORBIDDEN.to_owned()],
        ..FileRules::default()
    }
}

/// A trial that runs.
#[derive(Debug)]
pub(crate) struct Trial {
    child: i32,
    forbidden: CString,
}

fn failed(detail: String) -> Check {
    check(NAME, detail)
}

impl Supervisor {
    /// Begins to try; the programs are those of the session, and the last one has a listener.
    pub(crate) fn try_out(
        &self,
        programs: &[SeccompProgram],
        private: &[u8],
    ) -> Result<Trial, Check> {
        let path = |name: &str| {
            CString::new([private, b"/", name.as_bytes()].concat())
                .map_err(|error| failed(error.to_string()))
        };
        let (forbidden, permitted) = (path(FORBIDDEN)?, path(PERMITTED)?);
        let socket = self.socket.as_raw_fd();
        let child = match sys::fork().map_err(|errno| failed(format!("fork: {errno}")))? {
            Forked::Child => {
                let code = match load_seccomp(programs, Some((socket, TRIAL))) {
                    Ok(()) => attempt(&forbidden, &permitted),
                    // Errnos for this are small: EINVAL, EACCES, EBUSY, ENOMEM.
                    Err(errno) => (errno as i32).clamp(1, 199),
                };
                sys::exit_now(code)
            }
            Forked::Parent(child) => child,
        };
        Ok(Trial { child, forbidden })
    }
}

impl Trial {
    /// Waits for its end, and says what it proved. It holds what the guard holds: no program may
    /// run beside it.
    pub(crate) fn end(self, supervisor: &Supervisor) -> Result<Check, Check> {
        let Self { child, forbidden } = self;
        let code = ended(child).map_err(failed)?;
        let _ = unlinkat(AT_FDCWD, forbidden.as_c_str(), UnlinkatFlags::NoRemoveDir);
        explained(code).map_err(failed)?;
        if !was_told(&supervisor.journal, forbidden.as_bytes()) {
            return Err(failed("the refusal of the trial was not seen".to_owned()));
        }
        Ok(check(
            NAME,
            "a forbidden name was refused and told, a permitted one made",
        ))
    }
}

/// In the child.
fn attempt(forbidden: &std::ffi::CStr, permitted: &std::ffi::CStr) -> i32 {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let make = |path: &std::ffi::CStr| open(path, flags, Mode::S_IRUSR);
    match make(forbidden) {
        Err(Errno::EACCES) => {}
        Err(_) => return OTHER_ERROR,
        Ok(_) => return WAS_MADE,
    }
    let made = make(permitted).map(drop);
    match made.and_then(|()| unlinkat(AT_FDCWD, permitted, UnlinkatFlags::NoRemoveDir)) {
        Ok(()) => 0,
        Err(_) => NOT_PERMITTED,
    }
}

fn explained(code: i32) -> Result<(), String> {
    match code {
        0 => Ok(()),
        WAS_MADE => Err("a forbidden name was made in the trial".to_owned()),
        OTHER_ERROR => Err("a forbidden name failed in another way than by the guard".to_owned()),
        NOT_PERMITTED => Err(
            "a permitted name could not be made in the trial; the guard may not \
             read the memory of programs (kernel.yama.ptrace_scope is 2 or 3)"
                .to_owned(),
        ),
        libc::EINVAL => Err(
            "this kernel cannot let calls wait for the guard: that needs \
             SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19"
                .to_owned(),
        ),
        libc::EBUSY => Err(
            "another supervisor holds the listener: the engine itself runs under \
             one, and the kernel gives one to a process"
                .to_owned(),
        ),
        other => Err(format!(
            "the kernel does not take the seccomp programs: {}",
            Errno::from_raw(other)
        )),
    }
}

fn was_told(journal: &Journal, path: &[u8]) -> bool {
    journal
        .take(usize::MAX)
        .iter()
        .any(|violation| violation.path == path)
}

/// Waits for the child, and ends it when nobody answers it.
fn ended(child: i32) -> Result<i32, String> {
    let pinned = sys::pin_process(child).map_err(|errno| errno.to_string())?;
    let mut entries = [PollFd::new(pinned.as_fd(), PollFlags::POLLIN)];
    let answered = loop {
        match poll(&mut entries, PollTimeout::from(PATIENCE_MS)) {
            Err(Errno::EINTR) => {}
            Ok(0) | Err(_) => break false,
            Ok(_) => break true,
        }
    };
    if !answered {
        let _ = sys::send_signal(child, libc::SIGKILL);
    }
    loop {
        return match waitpid(Pid::from_raw(child), None) {
            Err(Errno::EINTR) => continue,
            Ok(WaitStatus::Exited(_, code)) => Ok(code),
            Ok(_) if !answered => Err("nobody answered the calls of the trial".to_owned()),
            Ok(other) => Err(format!("the trial ended with {other:?}")),
            Err(errno) => Err(format!("the trial cannot be awaited: {errno}")),
        };
    }
}

//! A short-lived forked child that tries something which could hang, or which would change this
//! process, and answers with a few bytes.

#![expect(
    unsafe_code,
    reason = "fork(2) and the system calls between it and _exit(2)"
)]

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// What became of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildAnswer<const N: usize> {
    /// It answered.
    Answer([u8; N]),
    /// It did not answer in time and was killed.
    TimedOut,
    /// It ended without an answer, with this wait status.
    Died(i32),
    /// It could not be started or watched: errno(3).
    Failed(i32),
}

/// Forks, runs `work` in the child, and waits for its answer until the deadline.
///
/// # Safety
/// `work` runs in the forked child of a process with several threads: it must call nothing but
/// async-signal-safe functions (signal-safety(7)): no allocation, no locks, no panics.
pub unsafe fn answer_of_child<const N: usize>(
    deadline: Duration,
    work: fn() -> [u8; N],
) -> ChildAnswer<N> {
    let (reader, writer) = match pipe() {
        Ok(ends) => ends,
        Err(errno) => return ChildAnswer::Failed(errno),
    };
    // SAFETY: the child does only what the caller promises, then write(2) and _exit(2).
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return ChildAnswer::Failed(errno());
    }
    if pid == 0 {
        // SAFETY: prctl(2) with an integer argument; the child dies with the probing thread.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let bytes = work();
        // SAFETY: the buffer is live and N bytes long; a pipe takes it whole (N < PIPE_BUF).
        unsafe { libc::write(writer.as_raw_fd(), bytes.as_ptr().cast(), N) };
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let answer = read_answer::<N>(&reader, deadline);
    if answer.is_none() {
        // SAFETY: `pid` is our child and not yet reaped, so it cannot be another process.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let status = reap(pid);
    match answer {
        Some(Some(bytes)) => ChildAnswer::Answer(bytes),
        Some(None) => ChildAnswer::Died(status),
        None => ChildAnswer::TimedOut,
    }
}

/// `None` on timeout, `Some(None)` on end of file before N bytes.
fn read_answer<const N: usize>(reader: &OwnedFd, deadline: Duration) -> Option<Option<[u8; N]>> {
    let end = Instant::now() + deadline;
    let mut bytes = [0u8; N];
    let mut filled = 0usize;
    while filled < N {
        let left = end.saturating_duration_since(Instant::now());
        let wait = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd, live for the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, wait) };
        if ready == 0 {
            return None;
        }
        if ready < 0 {
            if errno() == libc::EINTR {
                continue;
            }
            return Some(None);
        }
        let rest = &mut bytes[filled..];
        // SAFETY: the buffer is live and as long as said.
        let got = unsafe { libc::read(reader.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(got) {
            Ok(0) => return Some(None),
            Ok(count) => filled += count,
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Some(None),
        }
    }
    Some(Some(bytes))
}

fn reap(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: waits for our own child; `status` is live.
        let result = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if result >= 0 || errno() != libc::EINTR {
            return status;
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), i32> {
    let mut ends = [-1i32; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(errno());
    }
    // SAFETY: just opened, owned by nobody else.
    let reader = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: just opened, owned by nobody else.
    let writer = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((reader, writer))
}

/// errno(3) of the calling thread; async-signal-safe.
pub(super) fn errno() -> i32 {
    // SAFETY: takes nothing, and returns a thread-local location.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: that location is valid for as long as its thread.
    unsafe { location.read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn an_answer_comes_back_whole() {
        // SAFETY: the closure only makes an array.
        let answer = unsafe { answer_of_child(PATIENCE, || [1u8, 2, 3]) };
        assert_eq!(answer, ChildAnswer::Answer([1, 2, 3]));
    }

    fn hang() -> [u8; 1] {
        loop {
            // SAFETY: waits for a signal, and is async-signal-safe.
            unsafe { libc::pause() };
        }
    }

    fn die() -> [u8; 1] {
        // SAFETY: raises a signal in this process only, and is async-signal-safe.
        unsafe { libc::raise(libc::SIGKILL) };
        hang()
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_reaped() {
        // SAFETY: `hang` calls pause(2) only.
        let answer = unsafe { answer_of_child(Duration::from_millis(50), hang) };
        assert_eq!(answer, ChildAnswer::TimedOut);
    }

    #[test]
    fn a_child_that_dies_says_by_what() {
        // SAFETY: `die` calls raise(3) and pause(2) only.
        let answer = unsafe { answer_of_child(PATIENCE, die) };
        assert_eq!(answer, ChildAnswer::Died(libc::SIGKILL));
    }
}

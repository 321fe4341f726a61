//! Who is in the session, from `/proc` (proc_pid_stat(5)).

use super::sys;
use kotak_guard::proto::Process;
use nix::errno::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::fd::AsFd,
};

/// Longest command line in bytes that is reported.
const COMMAND_LINE_BYTES: u64 = 4096;

/// Bytes of command lines in one report; past them only names are given, and past this many
/// processes nothing, so that any session's report fits into a frame.
const REPORT_BYTES: usize = 2 * 1024 * 1024;
const REPORT_PROCESSES: usize = 32 * 1024;

/// Whose processes count as the session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of this PID namespace: the guard is its PID 1.
    Namespace,
    /// The descendants of the guard, whoever else is on the host.
    Descendants,
}

/// One process at the moment it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    pub(crate) pgid: i32,
    pub(crate) sid: i32,
    pub(crate) tpgid: i32,
    pub(crate) state: char,
    /// Clock ticks after boot; with the pid, the identity of a process.
    pub(crate) start: u64,
    pub(crate) comm: String,
}

impl Member {
    /// What stays the same for one process and differs for the next with its number.
    pub(crate) fn identity(&self) -> (i32, u64) {
        (self.pid, self.start)
    }

    /// Sends a signal to this very process: if it is gone and its number belongs to another,
    /// which on the host may be anybody's, the answer is ESRCH.
    pub(crate) fn signal(&self, signal: i32) -> Result<(), Errno> {
        let pinned = sys::pin_process(self.pid)?;
        match member(self.pid) {
            Some(found) if found.identity() == self.identity() => {
                sys::signal_pinned(pinned.as_fd(), signal)
            }
            Some(_) | None => Err(Errno::ESRCH),
        }
    }

    /// Stopped, traced or dead: it runs none of its code.
    pub(crate) fn is_halted(&self) -> bool {
        self.is_stopped() || self.is_dead()
    }

    /// Stopped by a signal or a tracer.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Dead, and waiting for its parent.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The members of the session, parents before their children, without the guard.
pub(crate) fn members(scope: Scope) -> Vec<Member> {
    let guard = i32::try_from(std::process::id()).unwrap_or(1);
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(member)
        .collect();
    parents_first(guard, scope, all)
}

/// One process, if it is there.
pub(crate) fn member(pid: i32) -> Option<Member> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let mut member = parse_stat(&stat)?;
    if member.state == 'Z' {
        member.state = living_thread_state(pid).unwrap_or('Z');
    }
    Some(member)
}

/// A process whose first thread has ended looks like a zombie while others run.
fn living_thread_state(pid: i32) -> Option<char> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .ok()?
        .flatten()
        .find_map(|task| {
            let stat = fs::read(task.path().join("stat")).ok()?;
            parse_stat(&stat)
                .filter(|thread| !thread.is_dead())
                .map(|thread| thread.state)
        })
}

/// Reads the fields that matter of a `stat` line. The name stands in parentheses and may hold
/// anything, parentheses too, so the last one ends it.
fn parse_stat(line: &[u8]) -> Option<Member> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(line.get(..open)?)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    // Field 3 of the manual page is the first here.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    Some(Member {
        pid,
        comm,
        state: fields.first()?.chars().next()?,
        ppid: number(1)?,
        pgid: number(2)?,
        sid: number(3)?,
        tpgid: number(5)?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn parents_first(guard: i32, scope: Scope, all: Vec<Member>) -> Vec<Member> {
    let mut children: BTreeMap<i32, Vec<Member>> = BTreeMap::new();
    for member in all {
        if member.pid != guard {
            children.entry(member.ppid).or_default().push(member);
        }
    }
    let mut ordered: Vec<Member> = children.remove(&guard).unwrap_or_default();
    let mut next = 0;
    while let Some(parent) = ordered.get(next).map(|member| member.pid) {
        ordered.extend(children.remove(&parent).unwrap_or_default());
        next += 1;
    }
    match scope {
        // Whoever is left came in from outside, or moved while the list was read.
        Scope::Namespace => ordered.extend(children.into_values().flatten()),
        Scope::Descendants => {}
    }
    ordered
}

/// The members as the protocol reports them, without the given ones and their descendants.
pub(crate) fn report(scope: Scope, services: BTreeSet<i32>) -> Vec<Process> {
    let mut budget = REPORT_BYTES;
    without(services, members(scope))
        .into_iter()
        .take(REPORT_PROCESSES)
        .map(|member| Process {
            argv: within(&mut budget, || command_line(member.pid)),
            pid: member.pid,
            ppid: member.ppid,
            pgid: member.pgid,
            sid: member.sid,
            tpgid: member.tpgid,
            state: member.state,
            comm: member.comm,
        })
        .collect()
}

/// Parents come before their children in `all`.
fn without(mut hidden: BTreeSet<i32>, all: Vec<Member>) -> Vec<Member> {
    all.into_iter()
        .filter(|member| {
            let hide = hidden.contains(&member.pid) || hidden.contains(&member.ppid);
            if hide {
                hidden.insert(member.pid);
            }
            !hide
        })
        .collect()
}

/// The words, unless the budget is used up.
fn within(budget: &mut usize, words: impl FnOnce() -> Vec<String>) -> Vec<String> {
    if *budget == 0 {
        return Vec::new();
    }
    let words = words();
    // A length stands before each word.
    let size: usize = words.iter().map(|word| word.len() + 4).sum();
    match budget.checked_sub(size) {
        Some(left) => {
            *budget = left;
            words
        }
        None => {
            *budget = 0;
            Vec::new()
        }
    }
}

/// At most [`COMMAND_LINE_BYTES`], lossy.
pub(crate) fn command_line(pid: i32) -> Vec<String> {
    let mut bytes = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/cmdline")) else {
        return Vec::new();
    };
    if file
        .take(COMMAND_LINE_BYTES)
        .read_to_end(&mut bytes)
        .is_err()
        || bytes.is_empty()
    {
        return Vec::new();
    }
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: i32, ppid: i32) -> Member {
        Member {
            pid,
            ppid,
            pgid: pid,
            sid: pid,
            tpgid: -1,
            state: 'S',
            start: 1,
            comm: String::new(),
        }
    }

    fn order(scope: Scope, all: Vec<Member>) -> Vec<i32> {
        parents_first(10, scope, all)
            .iter()
            .map(|member| member.pid)
            .collect()
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_move_the_fields() {
        let line = b"42 (a) R 1 (b) S 7 8 9 34816 11 0 0 0 0 0 1 2 3 4 20 0 1 0 555 0 0";
        let read = parse_stat(line).unwrap();
        assert_eq!(
            read,
            Member {
                pid: 42,
                ppid: 7,
                pgid: 8,
                sid: 9,
                tpgid: 11,
                state: 'S',
                start: 555,
                comm: "a) R 1 (b".into(),
            }
        );
    }

    #[test]
    fn a_broken_line_is_no_member() {
        for line in [
            &b""[..],
            b"1",
            b"1 (x",
            b"1 (x)",
            b"1 (x) S 1",
            b") (",
            b"x (y) S 1 1 1",
        ] {
            assert_eq!(parse_stat(line), None);
        }
    }

    #[test]
    fn command_lines_are_given_until_their_budget_is_used_up() {
        let mut budget = 20;
        let words = || vec!["12345678".to_owned()];
        assert_eq!(within(&mut budget, words), ["12345678"]);
        assert!(within(&mut budget, words).is_empty());
        assert_eq!(budget, 0);
        assert!(within(&mut budget, || vec![String::new()]).is_empty());
    }

    #[test]
    fn parents_come_before_children_and_strangers_are_left_out() {
        let all = || vec![member(30, 20), member(99, 1), member(20, 10), member(10, 1)];
        assert_eq!(order(Scope::Descendants, all()), [20, 30]);
        assert_eq!(order(Scope::Namespace, all()), [20, 30, 99]);
    }

    #[test]
    fn services_are_left_out_with_all_their_descendants() {
        let all = vec![member(20, 1), member(30, 1), member(21, 20), member(22, 21)];
        let left = |services: &[i32]| -> Vec<i32> {
            without(services.iter().copied().collect(), all.clone())
                .iter()
                .map(|member| member.pid)
                .collect()
        };
        assert_eq!(left(&[20]), [30]);
        assert_eq!(left(&[]), [20, 30, 21, 22]);
    }

    #[test]
    fn a_signal_goes_to_the_very_process_that_was_seen() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let seen = super::member(i32::try_from(child.id()).unwrap()).unwrap();
        let earlier = Member {
            start: seen.start - 1,
            ..seen.clone()
        };
        assert_eq!(earlier.signal(libc::SIGKILL), Err(Errno::ESRCH));
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(seen.signal(libc::SIGKILL), Ok(()));
        assert!(!child.wait().unwrap().success());
        assert_eq!(seen.signal(libc::SIGKILL), Err(Errno::ESRCH));
    }

    #[test]
    fn this_process_is_found_by_its_parent_link() {
        let own = super::member(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(own.pid, i32::try_from(std::process::id()).unwrap());
        assert!(!own.is_halted());
    }
}

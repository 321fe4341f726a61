//! Ends what a watcher on the host watches, when it does not do so itself.

use crate::sys::spawn::{pidfd_open, pidfd_send_signal};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// Rounds, and the time between them: what was forked during one is met in the next.
const ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// A process as `/proc` showed it (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pid: i32,
    parent: i32,
    /// It runs none of its code any more.
    dead: bool,
    /// In clock ticks after boot; with the id, the identity of a process.
    start: u64,
}

/// Kills every descendant of a process that adopts its orphans, and not that process: how many
/// could not be killed.
pub(super) async fn kill_descendants(ancestor: i32) -> u32 {
    let mut left = 0;
    for _ in 0..ROUNDS {
        let living = descendants(ancestor);
        if living.is_empty() {
            return 0;
        }
        // Stopped first, so that nobody forks away from the kill.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            left = 0;
            for process in &living {
                left += u32::from(!signalled(process, signal));
            }
        }
        tokio::time::sleep(PAUSE).await;
        if left > 0 && descendants(ancestor) == living {
            // Only those are left who may not be signalled.
            break;
        }
    }
    left
}

/// Whether this very process took the signal, or is gone.
fn signalled(process: &Seen, signal: i32) -> bool {
    let Ok(pidfd) = pidfd_open(process.pid) else {
        return true;
    };
    // Held now: the number cannot go to another process before the signal.
    match look(process.pid) {
        Some(found) if found.start == process.start => !pidfd_send_signal(&pidfd, signal)
            .is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)),
        Some(_) | None => true,
    }
}

/// The living descendants of a process.
fn descendants(ancestor: i32) -> Vec<Seen> {
    let all: Vec<Seen> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| look(entry.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut below: HashMap<i32, Vec<Seen>> = HashMap::new();
    for process in all {
        below.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut todo = vec![ancestor];
    let mut met = HashSet::new();
    while let Some(parent) = todo.pop() {
        if !met.insert(parent) {
            continue;
        }
        for process in below.get(&parent).into_iter().flatten() {
            todo.push(process.pid);
            if !process.dead {
                found.push(*process);
            }
        }
    }
    found.sort_by_key(|process| process.pid);
    found
}

fn look(pid: i32) -> Option<Seen> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in brackets and may hold any character; state and parent follow it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Seen {
        pid,
        parent: fields.next()?.parse().ok()?,
        dead: matches!(state, "Z" | "X" | "x"),
        start: fields.nth(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn every_descendant_is_killed_and_nobody_else() {
        let line = "sleep 86401 & sh -c 'trap \"\" HUP TERM; sleep 86401 & wait' & wait";
        let tree = || Command::new("sh").args(["-c", line]).spawn().unwrap();
        let (mut ended, mut spared) = (tree(), tree());
        let [pid, other] = [&ended, &spared].map(|child| i32::try_from(child.id()).unwrap());
        while descendants(pid).len() < 3 || descendants(other).len() < 3 {
            tokio::time::sleep(PAUSE).await;
        }
        // It cannot act for itself.
        assert!(signalled(&look(pid).unwrap(), libc::SIGSTOP));
        assert_eq!(kill_descendants(pid).await, 0);
        assert_eq!(descendants(pid), []);
        assert!(look(pid).is_some_and(|process| !process.dead), "only below");
        assert_eq!(descendants(other).len(), 3, "the control");
        kill_descendants(other).await;
        for child in [&mut ended, &mut spared] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

//! Suspend and resume by SIGSTOP and SIGCONT, for hosts without a writable cgroup.
//!
//! A parent is seen stopped before its children are told to, so that no shell learns of its
//! job's stop, and it goes on after them. Whoever was stopped before stays stopped.

use super::processes::{Member, Scope, members};
use std::collections::HashSet;

/// Passes before a freeze is given up.
const MOST_PASSES: u32 = 2500;

/// Milliseconds between two passes.
pub(crate) const PASS_INTERVAL_MS: u16 = 2;

/// Whether the session is stopped.
#[derive(Debug, Default)]
pub(crate) enum Freezer {
    /// It runs.
    #[default]
    Running,
    /// Signals are out; not everyone has been seen stopped.
    Freezing {
        /// Those stopped by us.
        stopped: Vec<(i32, u64)>,
        /// Passes so far.
        passes: u32,
        /// The last pass found nobody running.
        quiet: bool,
    },
    /// Two whole passes in a row found nobody running.
    Frozen {
        /// Those stopped by us.
        stopped: Vec<(i32, u64)>,
    },
}

/// What a pass found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nobody runs; this many were stopped.
    Frozen(u32),
    /// Some still run.
    Again,
    /// This many cannot be stopped.
    Failed(u32),
}

impl Freezer {
    /// Whether new programs may start.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }

    /// Whether [`Self::pass`] is to be called again.
    pub(crate) fn is_freezing(&self) -> bool {
        matches!(self, Self::Freezing { .. })
    }

    /// Starts, or checks again what is frozen already.
    pub(crate) fn begin(&mut self) {
        let stopped = self.take_stopped();
        *self = Self::Freezing {
            stopped,
            passes: 0,
            quiet: false,
        };
    }

    /// One pass over everybody.
    pub(crate) fn pass(&mut self, scope: Scope) -> Outcome {
        let Self::Freezing {
            stopped,
            passes,
            quiet,
        } = self
        else {
            return Outcome::Again;
        };
        *passes += 1;
        let members = members(scope);
        let running = stop_running(&members, stopped, |member| {
            member.signal(libc::SIGSTOP).is_ok()
        });
        // A pass is no instant: a child may be forked after the list was read and before its
        // parent was. The next list is read when every parent of this one is down.
        let quiet_before = std::mem::replace(quiet, running == 0);
        if running == 0 && quiet_before {
            let mut stopped = std::mem::take(stopped);
            stopped.retain(|identity| members.iter().any(|it| it.identity() == *identity));
            let count = u32::try_from(stopped.len()).unwrap_or(u32::MAX);
            *self = Self::Frozen { stopped };
            Outcome::Frozen(count)
        } else if *passes < MOST_PASSES {
            Outcome::Again
        } else {
            self.thaw(scope);
            Outcome::Failed(running)
        }
    }

    /// Lets those go on that we stopped, children first.
    pub(crate) fn thaw(&mut self, scope: Scope) {
        let stopped = self.take_stopped();
        for member in members(scope).iter().rev() {
            if stopped.contains(&member.identity()) {
                // Gone meanwhile: nothing to continue.
                let _ = member.signal(libc::SIGCONT);
            }
        }
    }

    fn take_stopped(&mut self) -> Vec<(i32, u64)> {
        match std::mem::take(self) {
            Self::Running => Vec::new(),
            Self::Freezing { stopped, .. } | Self::Frozen { stopped } => stopped,
        }
    }
}

/// Stops whoever runs below a parent that does not, and gives how many ran.
fn stop_running(
    members: &[Member],
    stopped: &mut Vec<(i32, u64)>,
    mut stop: impl FnMut(&Member) -> bool,
) -> u32 {
    let mut running = HashSet::new();
    let mut waiting = Vec::new();
    // Parents come first, so each finds its parent judged.
    for member in members.iter().filter(|member| !member.is_halted()) {
        let ours = stopped.contains(&member.identity());
        if ours && member.state == 'D' {
            waiting.push(member.pid);
            continue;
        }
        running.insert(member.pid);
        // A parent in wait(2) that is woken by its own stop and its child's at once takes the
        // child's with it into its own: it has to be down before.
        if !running.contains(&member.ppid) && stop(member) && !ours {
            stopped.push(member.identity());
        }
    }
    // A parent in vfork(2) waits in D for its child, and with its own stop pending cannot come
    // back to the program; any other D is on its way somewhere.
    let in_vfork = |pid| members.iter().any(|it| it.ppid == pid && it.is_stopped());
    running.extend(waiting.into_iter().filter(|pid| !in_vfork(*pid)));
    u32::try_from(running.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: i32, state: char) -> Member {
        Member {
            pid,
            ppid: 1,
            pgid: pid,
            sid: pid,
            tpgid: -1,
            state,
            start: 1,
            comm: String::new(),
        }
    }

    #[test]
    fn only_running_processes_are_stopped_and_remembered() {
        let mut stopped = Vec::new();
        let mut asked = Vec::new();
        let all = [
            member(2, 'S'),
            member(3, 'T'),
            member(4, 'R'),
            member(5, 'Z'),
            member(6, 't'),
        ];
        let running = stop_running(&all, &mut stopped, |member| {
            asked.push(member.pid);
            true
        });
        assert_eq!((running, asked), (2, vec![2, 4]));
        assert_eq!(stopped, [(2, 1), (4, 1)]);
    }

    #[test]
    fn a_child_is_stopped_only_when_its_parent_is_seen_to_be() {
        let mut stopped = Vec::new();
        let mut asked = Vec::new();
        let mut pass = |states: [char; 3]| {
            let all = [(2, 1), (3, 2), (4, 3)];
            let all: Vec<Member> = std::iter::zip(all, states)
                .map(|((pid, ppid), state)| Member {
                    ppid,
                    ..member(pid, state)
                })
                .collect();
            asked.clear();
            let running = stop_running(&all, &mut stopped, |member| {
                asked.push(member.pid);
                true
            });
            (running, asked.clone())
        };
        assert_eq!(pass(['S', 'S', 'S']), (3, vec![2]));
        assert_eq!(pass(['R', 'S', 'S']), (3, vec![2]));
        assert_eq!(pass(['T', 'S', 'S']), (2, vec![3]));
        assert_eq!(pass(['T', 'D', 'S']), (2, vec![4]));
        assert_eq!(pass(['T', 'D', 'T']), (0, vec![]));
    }

    #[test]
    fn one_that_was_continued_by_another_is_stopped_again_and_kept_once() {
        let mut stopped = vec![(2, 1)];
        assert_eq!(stop_running(&[member(2, 'R')], &mut stopped, |_| true), 1);
        assert_eq!(stopped, [(2, 1)]);
    }

    #[test]
    fn an_uninterruptible_wait_counts_as_running_unless_it_is_for_a_stopped_child() {
        let mut stopped = Vec::new();
        let child = |state| Member {
            ppid: 2,
            ..member(3, state)
        };
        let mut pass = |all: &[Member]| stop_running(all, &mut stopped, |_| true);
        assert_eq!(pass(&[member(2, 'D')]), 1);
        assert_eq!(pass(&[member(2, 'D')]), 1);
        assert_eq!(pass(&[member(2, 'D'), child('Z')]), 1);
        assert_eq!(pass(&[member(2, 'D'), child('T')]), 0);
    }

    #[test]
    fn one_that_refuses_the_signal_counts_as_running_and_is_not_ours() {
        let mut stopped = Vec::new();
        assert_eq!(stop_running(&[member(2, 'S')], &mut stopped, |_| false), 1);
        assert!(stopped.is_empty());
    }
}

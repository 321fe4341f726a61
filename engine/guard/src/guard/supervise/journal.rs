//! What was refused, on its way to the engine. The first of its kind is told at once; what repeats
//! within a second is counted and told with its count. However many there are, none is lost: past
//! the bound they are counted together.

use kotak_guard::proto::{FileAction, Rule, Violation};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long alike refusals are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// Most kinds that are told apart at once.
const MOST_KINDS: usize = 1024;

/// Shared by the supervisor, which writes, and the session, which tells the engine.
#[derive(Debug)]
pub(crate) struct Journal {
    kinds: Mutex<Kinds>,
    news: EventFd,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    action: FileAction,
    path: Vec<u8>,
    rule: Rule,
    /// What the guard has seen and what it only foresees are never one.
    observed: bool,
    executable: Option<String>,
}

#[derive(Debug)]
struct Gathered {
    last: Violation,
    /// Since it was last told.
    count: u64,
    told: Option<Instant>,
}

#[derive(Debug, Default)]
struct Kinds {
    gathered: HashMap<Kind, Gathered>,
    /// Past the bound.
    rest: Option<Gathered>,
}

impl Journal {
    pub(crate) fn new() -> Result<Self, nix::errno::Errno> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            kinds: Mutex::default(),
            news: EventFd::from_flags(flags)?,
        })
    }

    /// Readable when something is to be told now.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// Writes one down.
    pub(crate) fn record(&self, violation: Violation) {
        let at_once = self.kinds().record(violation);
        if at_once {
            // Full means that it is readable already.
            let _ = self.news.write(1);
        }
    }

    /// What is to be told, at most `most`.
    pub(crate) fn take(&self, most: usize) -> Vec<Violation> {
        let _ = self.news.read();
        self.kinds().take(Instant::now(), most)
    }

    /// Everything that has not been told, at the end.
    pub(crate) fn rest(&self) -> Vec<Violation> {
        self.kinds().take(Instant::now() + GATHER, usize::MAX)
    }

    /// When something that is gathered is to be told, if anything is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.kinds().next()
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        // A panic aborts this program.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kinds {
    /// Whether it is to be told at once.
    fn record(&mut self, violation: Violation) -> bool {
        let kind = Kind {
            action: violation.action,
            path: violation.path.clone(),
            rule: violation.rule.clone(),
            observed: violation.observed,
            executable: violation.executable.clone(),
        };
        let count = violation.count;
        if let Some(gathered) = self.gathered.get_mut(&kind) {
            gathered.count += count;
            gathered.last = violation;
            return false;
        }
        let fresh = Gathered {
            last: violation,
            count,
            told: None,
        };
        if self.gathered.len() < MOST_KINDS {
            self.gathered.insert(kind, fresh);
            return true;
        }
        match &mut self.rest {
            Some(rest) => rest.count += count,
            None => {
                let mut rest = fresh;
                rest.last.rule = Rule::Undecided(
                    "more was refused than can be told one by one; this is one of it".to_owned(),
                );
                self.rest = Some(rest);
            }
        }
        true
    }

    fn take(&mut self, now: Instant, most: usize) -> Vec<Violation> {
        let mut told = Vec::new();
        let due = |gathered: &Gathered| {
            gathered
                .told
                .is_none_or(|told| now.saturating_duration_since(told) >= GATHER)
        };
        self.gathered.retain(|_, gathered| {
            if !due(gathered) {
                return true;
            }
            if gathered.count == 0 {
                // Quiet for a while.
                return false;
            }
            if told.len() < most {
                told.push(Violation {
                    count: gathered.count,
                    ..gathered.last.clone()
                });
                gathered.count = 0;
                gathered.told = Some(now);
            }
            true
        });
        if let Some(rest) = self
            .rest
            .as_mut()
            .filter(|rest| rest.count > 0 && due(rest))
            && told.len() < most
        {
            told.push(Violation {
                count: rest.count,
                ..rest.last.clone()
            });
            rest.count = 0;
            rest.told = Some(now);
        }
        told
    }

    fn next(&self) -> Option<Instant> {
        self.gathered
            .values()
            .chain(&self.rest)
            .filter(|gathered| gathered.count > 0)
            .map(|gathered| {
                gathered
                    .told
                    .map_or_else(Instant::now, |told| told + GATHER)
            })
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(path: &str) -> Violation {
        Violation {
            action: FileAction::Create,
            path: path.into(),
            other: None,
            rule: Rule::Name("*.key".into()),
            errno: 13,
            call: "openat".into(),
            observed: true,
            pid: 7,
            comm: "sh".into(),
            executable: None,
            argv: vec![],
            count: 1,
        }
    }

    #[test]
    fn the_first_is_told_at_once_and_repetitions_with_their_count() {
        let mut kinds = Kinds::default();
        let start = Instant::now();
        assert!(kinds.record(violation("/a.key")));
        assert_eq!(kinds.take(start, 9), [violation("/a.key")]);
        for _ in 0..5 {
            assert!(!kinds.record(violation("/a.key")));
        }
        assert_eq!(kinds.take(start, 9), []);
        assert_eq!(kinds.next(), Some(start + GATHER));
        let told = kinds.take(start + GATHER, 9);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].count, 5);
        // Quiet for a second: the next is a first again.
        assert_eq!(kinds.take(start + GATHER * 2, 9), []);
        assert!(kinds.record(violation("/a.key")));
    }

    #[test]
    fn what_was_seen_and_what_is_foreseen_are_told_apart() {
        let mut kinds = Kinds::default();
        let foreseen = Violation {
            observed: false,
            ..violation("/a.key")
        };
        assert!(kinds.record(violation("/a.key")));
        assert!(kinds.record(foreseen.clone()));
        assert!(!kinds.record(violation("/a.key")));
        let mut told = kinds.take(Instant::now(), 9);
        told.sort_by_key(|it| it.count);
        let twice = Violation {
            count: 2,
            ..violation("/a.key")
        };
        assert_eq!(told, [foreseen, twice]);
    }

    #[test]
    fn a_flood_is_counted_and_none_is_lost() {
        let mut kinds = Kinds::default();
        let mut now = Instant::now();
        let many = 3 * MOST_KINDS;
        for index in 0..many {
            kinds.record(violation(&format!("/{index}.key")));
        }
        let mut sum = 0;
        for _ in 0..100 {
            sum += kinds.take(now, 64).iter().map(|it| it.count).sum::<u64>();
            now += GATHER;
        }
        assert_eq!(sum, u64::try_from(many).unwrap());
        assert!(kinds.gathered.len() <= MOST_KINDS);
    }
}

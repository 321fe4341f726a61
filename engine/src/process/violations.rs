//! Refusals on their way from the guard's link to who records them. The link never waits: what
//! finds no room here is counted, and what is alike is one with a count.

use kotak_guard::proto::{FileAction, Rule, Violation};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Different refusals that wait at most; each may hold some 20 KiB of paths and arguments.
const WAITING: usize = 512;
/// Bytes of a path, a command line or words that are kept (`PATH_MAX`).
const LONGEST: usize = 4096;

/// What was refused since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Each different one once, oldest first.
    pub violations: Vec<Violation>,
    /// Those for which there was no room, by what was tried.
    pub only_counted: BTreeMap<FileAction, u64>,
}

impl Refused {
    fn is_empty(&self) -> bool {
        self.violations.is_empty() && self.only_counted.is_empty()
    }
}

/// What makes two refusals alike.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    action: FileAction,
    path: Vec<u8>,
    other: Option<Vec<u8>>,
    rule: Rule,
    executable: Option<String>,
    comm: String,
    /// What was foreseen does not become seen by another of its like.
    observed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    refused: Refused,
    /// Places in `refused.violations`.
    places: HashMap<Key, usize>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    news: Notify,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The link's end.
#[derive(Debug, Clone, Default)]
pub(super) struct Outlet(Arc<Shared>);

/// The end of who records the refusals of one session.
#[derive(Debug)]
pub struct Violations(Arc<Shared>);

/// The end of the link: nothing comes any more.
#[derive(Debug)]
pub(super) struct Closing(Outlet);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.0.queue().closed = true;
        self.0.0.news.notify_one();
    }
}

impl Outlet {
    /// The other end, of which there is one.
    pub(super) fn violations(&self) -> Violations {
        Violations(Arc::clone(&self.0))
    }

    /// Tells the other end, once dropped, that nothing comes any more.
    pub(super) fn closing(&self) -> Closing {
        Closing(self.clone())
    }

    /// Takes a refusal; never waits.
    pub(super) fn put(&self, violation: Violation) {
        let violation = bounded(violation);
        let key = Key {
            action: violation.action,
            path: violation.path.clone(),
            other: violation.other.clone(),
            rule: violation.rule.clone(),
            executable: violation.executable.clone(),
            comm: violation.comm.clone(),
            observed: violation.observed,
        };
        let mut queue = self.0.queue();
        let Queue {
            refused, places, ..
        } = &mut *queue;
        let alike = places
            .get(&key)
            .and_then(|place| refused.violations.get_mut(*place));
        if let Some(alike) = alike {
            alike.count = alike.count.saturating_add(violation.count);
        } else if refused.violations.len() < WAITING {
            places.insert(key, refused.violations.len());
            refused.violations.push(violation);
        } else {
            let count = refused.only_counted.entry(violation.action).or_default();
            *count = count.saturating_add(violation.count);
        }
        drop(queue);
        self.0.news.notify_one();
    }
}

impl Violations {
    /// What was refused since the last call; waits for something. `None` once the link has ended
    /// and all was given. Nothing is lost when this is dropped half-way.
    pub async fn next(&mut self) -> Option<Refused> {
        loop {
            {
                let mut queue = self.0.queue();
                if !queue.refused.is_empty() {
                    queue.places.clear();
                    return Some(std::mem::take(&mut queue.refused));
                }
                if queue.closed {
                    return None;
                }
            }
            self.0.news.notified().await;
        }
    }
}

/// Whatever a guard says, one refusal takes a bounded room.
fn bounded(violation: Violation) -> Violation {
    let mut left = LONGEST;
    let argv = violation.argv.into_iter().map_while(|argument| {
        let cut = start(argument, left);
        left = left.saturating_sub(cut.len() + 1);
        (!cut.is_empty() || left > 0).then_some(cut)
    });
    Violation {
        argv: argv.collect(),
        path: first(violation.path),
        other: violation.other.map(first),
        rule: match violation.rule {
            Rule::Name(glob) => Rule::Name(start(glob, LONGEST)),
            Rule::Protected(path) => Rule::Protected(first(path)),
            Rule::Ancestor(path) => Rule::Ancestor(first(path)),
            Rule::Anywhere(name) => Rule::Anywhere(first(name)),
            Rule::Git(what) => Rule::Git(start(what, LONGEST)),
            Rule::Secret(path) => Rule::Secret(first(path)),
            Rule::Undecided(reason) => Rule::Undecided(start(reason, LONGEST)),
            Rule::HardLink => Rule::HardLink,
            Rule::Exec => Rule::Exec,
        },
        call: start(violation.call, 32),
        comm: start(violation.comm, 64),
        executable: violation.executable.map(|path| start(path, LONGEST)),
        count: violation.count.max(1),
        ..violation
    }
}

fn first(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(LONGEST);
    bytes
}

fn start(mut text: String, limit: usize) -> String {
    let end = (0..=limit.min(text.len())).rfind(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::seen;

    fn named(name: &str, count: u64) -> Violation {
        Violation {
            path: format!("/w/{name}").into_bytes(),
            count,
            ..seen()
        }
    }

    #[tokio::test]
    async fn what_is_alike_is_one_with_a_count_and_all_is_given_before_the_end() {
        let outlet = Outlet::default();
        let mut violations = outlet.violations();
        let closing = outlet.closing();
        outlet.put(named("a", 2));
        outlet.put(named("b", 1));
        outlet.put(named("a", 0));
        let refused = violations.next().await.unwrap();
        assert_eq!(refused.violations, [named("a", 3), named("b", 1)]);
        outlet.put(named("a", 1));
        drop(closing);
        assert_eq!(violations.next().await.unwrap().violations, [named("a", 1)]);
        assert_eq!(violations.next().await, None);
    }

    #[tokio::test]
    async fn what_was_foreseen_does_not_become_observed_by_what_was_seen() {
        let outlet = Outlet::default();
        let foreseen = |count| Violation {
            observed: false,
            ..named("a", count)
        };
        outlet.put(foreseen(2));
        outlet.put(named("a", 1));
        outlet.put(foreseen(1));
        let refused = outlet.violations().next().await.unwrap();
        assert!(named("a", 1).observed);
        assert_eq!(refused.violations, [foreseen(3), named("a", 1)]);
    }

    #[tokio::test]
    async fn a_flood_that_nobody_takes_is_counted_to_the_last_one() {
        let outlet = Outlet::default();
        let mut violations = outlet.violations();
        for number in 0..100_000 {
            outlet.put(named(&number.to_string(), 1));
        }
        outlet.put(Violation {
            action: FileAction::Exec,
            count: 5,
            ..named("other", 1)
        });
        // One that waits already still takes more of its like.
        outlet.put(named("7", 9));
        let refused = violations.next().await.unwrap();
        assert_eq!(refused.violations.len(), WAITING);
        assert_eq!(refused.violations[7].count, 10);
        let expected = [
            (FileAction::Create, 100_000 - WAITING as u64),
            (FileAction::Exec, 5),
        ];
        assert_eq!(refused.only_counted, BTreeMap::from(expected));
    }

    #[tokio::test]
    async fn one_refusal_takes_a_bounded_room_whatever_the_guard_says() {
        let outlet = Outlet::default();
        let long = "ä".repeat(1_000_000);
        outlet.put(Violation {
            path: vec![b'x'; 1_000_000],
            other: Some(vec![b'y'; 1_000_000]),
            rule: Rule::Git(long.clone()),
            call: long.clone(),
            comm: long.clone(),
            executable: Some(long.clone()),
            argv: vec![long; 100],
            ..seen()
        });
        outlet.put(Violation {
            argv: vec![String::new(); 1_000_000],
            ..seen()
        });
        let refused = outlet.violations().next().await.unwrap();
        for kept in refused.violations {
            let argv: usize = kept.argv.iter().map(|each| each.len() + 1).sum();
            let words = serde_json::to_string(&kept.rule).unwrap().len();
            assert!(argv <= LONGEST + 1, "{argv}");
            assert!(kept.path.len() <= LONGEST && words <= LONGEST + 64);
            assert!(kept.call.len() <= 32 && kept.comm.len() <= 64);
            assert!(kept.executable.is_some_and(|path| path.len() <= LONGEST));
        }
    }
}

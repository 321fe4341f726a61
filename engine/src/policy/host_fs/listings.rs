//! Listings that outlive one launch: a search of the home reads hundreds of directories, and few of
//! them change between two sessions.

use super::{FileId, Listing};
use crate::spec::AbsPath;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Entries of all remembered directories together, at most: some 2 MB.
const MOST_ENTRIES: usize = 60_000;

/// A change within this time of the look may share its time stamp with the state that was seen, as
/// in git's "racily clean" index entries: some file systems count whole seconds, FAT two.
const RACY_NANOS: i128 = 2_000_000_000;

/// A directory's state. No program can set the time of the last change (`st_ctime`, inode(7)): any
/// entry that comes, goes or is renamed moves it, and so does a new mode or owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which directory.
    pub(super) id: FileId,
    /// `st_ctime`, in nanoseconds since the Unix epoch.
    pub(super) changed: i128,
}

/// What was read of directories, by path.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    listings: HashMap<AbsPath, (Stamp, Arc<Listing>)>,
    entries: usize,
}

impl Listings {
    /// The whole listing of a directory, if it is known in this state and holds at most `limit`.
    pub(super) fn get(&self, path: &AbsPath, now: Stamp, limit: usize) -> Option<Arc<Listing>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (stamp, listing) = known.listings.get(path)?;
        (*stamp == now && listing.entries.len() <= limit).then(|| Arc::clone(listing))
    }

    /// Remembers a listing: `before` and `after` are the directory's state around the reading, and
    /// `clock` the time then. One that was cut, or may have changed unseen, is forgotten instead.
    pub(super) fn keep(
        &self,
        path: &AbsPath,
        listing: &Arc<Listing>,
        before: Stamp,
        after: Stamp,
        clock: i128,
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, old)) = known.listings.remove(path) {
            known.entries -= size(&old);
        }
        let settled = before == after && clock - after.changed >= RACY_NANOS;
        if listing.cut || !settled || size(listing) > MOST_ENTRIES {
            return;
        }
        if known.entries + size(listing) > MOST_ENTRIES {
            // What the next launch looks at, it keeps anew.
            *known = Known::default();
        }
        known.entries += size(listing);
        known
            .listings
            .insert(path.clone(), (after, Arc::clone(listing)));
    }
}

/// An empty directory takes room too.
fn size(listing: &Listing) -> usize {
    listing.entries.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::NodeKind;

    const SECOND: i128 = 1_000_000_000;

    fn stamp(changed: i128) -> Stamp {
        Stamp {
            id: FileId { dev: 1, ino: 7 },
            changed,
        }
    }

    fn listing(count: usize) -> Arc<Listing> {
        let entries = (0..count).map(|at| (at.to_string().into_bytes(), NodeKind::File));
        Arc::new(Listing {
            entries: entries.collect(),
            cut: false,
        })
    }

    #[test]
    fn a_settled_directory_is_known_in_the_same_state_only() {
        let listings = Listings::default();
        let at = AbsPath::new("/a").unwrap();
        let state = stamp(10 * SECOND);
        listings.keep(&at, &listing(3), state, state, 13 * SECOND);
        assert_eq!(listings.get(&at, state, 3), Some(listing(3)));
        assert_eq!(listings.get(&at, state, 2), None, "the limit would cut it");
        assert_eq!(listings.get(&at, stamp(10 * SECOND + 1), 3), None);
        let other = Stamp {
            id: FileId { dev: 1, ino: 8 },
            ..state
        };
        assert_eq!(listings.get(&at, other, 3), None, "another directory there");
        assert_eq!(listings.get(&AbsPath::root(), state, 3), None);
    }

    #[test]
    fn what_may_have_changed_unseen_is_not_kept_and_displaces_what_was() {
        let at = AbsPath::new("/a").unwrap();
        let (old, new) = (stamp(10 * SECOND), stamp(20 * SECOND));
        let cut = Arc::new(Listing {
            entries: Vec::new(),
            cut: true,
        });
        for (seen, before, after, clock) in [
            (listing(1), new, new, 21 * SECOND),
            // A clock that was set back.
            (listing(1), new, new, 5 * SECOND),
            (listing(1), old, new, 90 * SECOND),
            (cut, new, new, 90 * SECOND),
        ] {
            let listings = Listings::default();
            listings.keep(&at, &listing(3), old, old, 13 * SECOND);
            listings.keep(&at, &seen, before, after, clock);
            assert_eq!(listings.get(&at, after, 9), None, "{clock}");
            assert_eq!(listings.get(&at, old, 9), None, "{clock}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let listings = Listings::default();
        let state = stamp(0);
        let each = MOST_ENTRIES / 4;
        for index in 0..40 {
            let at = AbsPath::new(format!("/{index}")).unwrap();
            listings.keep(&at, &listing(each), state, state, 3 * SECOND);
            assert!(listings.get(&at, state, each).is_some());
            let known = listings.0.lock().unwrap();
            let held: usize = known.listings.values().map(|(_, held)| size(held)).sum();
            assert_eq!(held, known.entries);
            assert!(held <= MOST_ENTRIES);
        }
        let at = AbsPath::new("/large").unwrap();
        listings.keep(&at, &listing(MOST_ENTRIES), state, state, 3 * SECOND);
        assert!(listings.get(&at, state, usize::MAX).is_none());
    }
}

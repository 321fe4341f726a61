//! Keeps secrets hidden while a session runs (REQ TM-2, SP).
//!
//! A mask stands on a name. When a program on the host puts another file there (most editors save
//! so: a temporary file, renamed), the kernel takes the mask away, and the sandbox sees the new
//! file. inotify(7) tells of every such name in the folders on the way to a secret, and the
//! session's helper hides what is there now. Between the two lies a moment that cannot be closed.
//!
//! Folders are found from the inode that is bound, component by component and through no symbolic
//! link, so they are those that are seen inside, wherever the bound folder is moved to meanwhile.

use super::masker::{Found, MaskError, Masker};
use super::tree::Secrets;
use crate::backend::WatchedPath;
use crate::spec::AbsPath;
use crate::sys::async_fd::register;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use nix::sys::stat::{Mode, fstat, fstatat};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::hash::Hash;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What changes where a name leads to, or which folder is on the way to it.
const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// No watch, in tests of what is missing then.
#[cfg(test)]
pub(super) static FORBIDDEN: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

/// Something that happened to a secret of a running session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretNotice {
    /// Another file was at its path, which could be read until now.
    HiddenAgain {
        /// Which.
        path: AbsPath,
        /// From the first word of it until it was hidden.
        after: Duration,
    },
    /// Whether it is hidden is not known any more.
    Lost {
        /// Which; none: any.
        path: Option<AbsPath>,
        /// Why.
        reason: String,
    },
}

/// Watches the secrets of one session. Dropping it ends its helper.
#[derive(Debug)]
pub struct SecretWatch {
    inotify: AsyncFd<OwnedFd>,
    watcher: Inotify,
    roots: BTreeMap<AbsPath, OwnedFd>,
    secrets: Vec<WatchedPath>,
    waiting: Waiting<WatchDescriptor>,
    masker: Masker,
    notices: VecDeque<SecretNotice>,
    /// To look at, with when it was first heard of.
    due: BTreeMap<usize, Instant>,
    lost: bool,
}

impl SecretWatch {
    /// Joins the sandbox on trial. The watches stood before the guard looked at the masks.
    pub(super) async fn begin(
        secrets: &[WatchedPath],
        watches: Result<Watches, String>,
        masker: Result<Masker, MaskError>,
        mounts: Option<OwnedFd>,
    ) -> Secrets {
        match Self::joined(secrets, watches, masker, mounts).await {
            Ok(watch) => Secrets::Watched(std::sync::Mutex::new(Some(Box::new(watch)))),
            Err(reason) => {
                tracing::warn!(
                    reason,
                    "secrets that the host replaces are not hidden again"
                );
                Secrets::Unwatched(reason)
            }
        }
    }

    async fn joined(
        secrets: &[WatchedPath],
        watches: Result<Watches, String>,
        masker: Result<Masker, MaskError>,
        mounts: Option<OwnedFd>,
    ) -> Result<Self, String> {
        let watches = watches?;
        let masker = masker.map_err(|error| error.to_string())?;
        let mounts = mounts.ok_or("the guard handed no mount namespace over")?;
        let joined = masker.join(mounts).await;
        joined.map_err(|error| error.to_string())?;
        let copy = watches.inotify.as_fd().try_clone_to_owned();
        let inotify = copy
            .and_then(|copy| register(copy, Interest::READABLE))
            .map_err(|error| format!("folders cannot be watched: {error}"))?;
        // What was made before the watches stood, where no mask was planned.
        let now = Instant::now();
        let due = watches.there.iter().map(|index| (*index, now)).collect();
        Ok(Self {
            inotify,
            watcher: watches.inotify,
            roots: watches.roots,
            secrets: secrets.to_vec(),
            waiting: watches.waiting,
            masker,
            notices: VecDeque::new(),
            due,
            lost: false,
        })
    }

    /// What happens next; none after [`SecretNotice::Lost`] of the whole watch.
    pub async fn next(&mut self) -> Option<SecretNotice> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(notice);
            }
            if self.lost {
                return None;
            }
            if let Some((index, since)) = self.due.pop_first() {
                self.look(index, since).await;
                continue;
            }
            let heard = tokio::select! {
                ready = self.inotify.readable() => ready.map(|mut ready| ready.clear_ready()),
                () = self.masker.gone() => Err(std::io::Error::other("the helper has ended")),
            };
            let read = heard
                .map_err(|error| error.to_string())
                .and_then(|()| self.read().map_err(|errno| errno.to_string()));
            if let Err(reason) = read {
                self.lost = true;
                let path = None;
                self.notices.push_back(SecretNotice::Lost { path, reason });
            }
        }
    }

    /// Ends the helper and waits for that.
    pub async fn end(self) {
        let Self {
            inotify,
            watcher,
            roots,
            masker,
            ..
        } = self;
        let inotify = inotify.into_inner();
        // The kernel takes several milliseconds to forget watches; nobody waits for that.
        drop(tokio::task::spawn_blocking(move || {
            drop((inotify, watcher, roots));
        }));
        masker.end().await;
    }

    /// Takes what inotify has, and marks what it is about.
    fn read(&mut self) -> Result<(), Errno> {
        let now = Instant::now();
        loop {
            let events = match self.watcher.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno),
            };
            for event in &events {
                for index in self.waiting.affected(&Heard::of(event), self.secrets.len()) {
                    self.due.entry(index).or_insert(now);
                }
            }
        }
    }

    /// Watches the way to a secret anew, then hides what is at its end: in this order, so that
    /// nothing happens in between unseen.
    async fn look(&mut self, index: usize, since: Instant) {
        let Some(secret) = self.secrets.get(index) else {
            return;
        };
        let path = secret.path.clone();
        let followed = follow(
            &self.watcher,
            &self.roots,
            &mut self.waiting,
            (index, secret),
        );
        let hidden = self.masker.hide(path.as_bytes()).await;
        let notice = match (hidden, followed) {
            (Ok(Found::HiddenNow), _) => Some(SecretNotice::HiddenAgain {
                path: path.clone(),
                after: since.elapsed(),
            }),
            (Ok(Found::Missing | Found::AlreadyHidden), _) => None,
            (Err(error), _) => Some(lost(&path, error.to_string())),
        };
        self.notices.extend(notice);
        if let Err(errno) = followed {
            let reason = format!("the way to it cannot be watched: {errno}");
            self.notices.push_back(lost(&path, reason));
        }
    }
}

fn lost(path: &AbsPath, reason: String) -> SecretNotice {
    SecretNotice::Lost {
        path: Some(path.clone()),
        reason,
    }
}

/// The watches of one session, all set.
#[derive(Debug)]
pub(super) struct Watches {
    inotify: Inotify,
    roots: BTreeMap<AbsPath, OwnedFd>,
    waiting: Waiting<WatchDescriptor>,
    /// Secrets that nothing was there for when the policy looked, and something is now.
    there: Vec<usize>,
}

impl Watches {
    /// Sets them where that holds up nobody else.
    pub(super) async fn set_all(secrets: &[WatchedPath]) -> Result<Self, String> {
        #[cfg(test)]
        if FORBIDDEN.load(std::sync::atomic::Ordering::SeqCst) {
            return Err("a test forbids it".to_owned());
        }
        let secrets = secrets.to_vec();
        let set = tokio::task::spawn_blocking(move || Self::set(&secrets)).await;
        let set = set.map_err(|join| join.to_string());
        set.and_then(|set| set.map_err(|errno| errno.to_string()))
            .map_err(|error| format!("folders cannot be watched: {error}"))
    }

    fn set(secrets: &[WatchedPath]) -> Result<Self, Errno> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let mut roots = BTreeMap::new();
        let mut waiting = Waiting::default();
        let mut there = Vec::new();
        for (index, secret) in secrets.iter().enumerate() {
            if !roots.contains_key(&secret.root) {
                roots.insert(secret.root.clone(), open_root(secret)?);
            }
            let end = follow(&inotify, &roots, &mut waiting, (index, secret))?;
            if !secret.masked && end == End::Something {
                there.push(index);
            }
        }
        Ok(Self {
            inotify,
            roots,
            waiting,
            there,
        })
    }
}

/// What a way to a secret ends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Something,
    Nothing,
}

const FOLDER: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The folder that is bound, as it was when the policy saw it.
fn open_root(secret: &WatchedPath) -> Result<OwnedFd, Errno> {
    let root = open(
        OsStr::from_bytes(secret.root.as_bytes()),
        FOLDER,
        Mode::empty(),
    )?;
    let found = fstat(&root)?;
    if (found.st_dev, found.st_ino) == (secret.root_id.dev, secret.root_id.ino) {
        Ok(root)
    } else {
        Err(Errno::ESTALE)
    }
}

/// Watches every folder on the way to a secret that is there now, and no other for it.
fn follow(
    inotify: &Inotify,
    roots: &BTreeMap<AbsPath, OwnedFd>,
    waiting: &mut Waiting<WatchDescriptor>,
    (index, secret): (usize, &WatchedPath),
) -> Result<End, Errno> {
    let root = roots.get(&secret.root).ok_or(Errno::ENOENT)?;
    let below = secret.path.below(&secret.root).unwrap_or_default();
    let mut names = below.split(|byte| *byte == b'/').map(OsStr::from_bytes);
    let mut held: Option<OwnedFd> = None;
    let mut way = Vec::new();
    let mut name = names.next().ok_or(Errno::EINVAL)?;
    let followed = loop {
        let folder = held.as_ref().unwrap_or(root);
        let by_number = format!("/proc/self/fd/{}", folder.as_raw_fd());
        match inotify.add_watch(by_number.as_str(), EVENTS) {
            Ok(watch) => way.push((watch, name.to_owned())),
            Err(errno) => break Err(errno),
        }
        let Some(next) = names.next() else {
            break match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Err(Errno::ENOENT) => Ok(End::Nothing),
                // What cannot be looked at may be there.
                Ok(_) | Err(_) => Ok(End::Something),
            };
        };
        // The folder is watched by now: whatever comes there is heard of.
        match openat(folder, name, FOLDER, Mode::empty()) {
            Ok(deeper) => held = Some(deeper),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES) => {
                break Ok(End::Nothing);
            }
            Err(errno) => break Err(errno),
        }
        name = next;
    };
    for unused in waiting.replace(index, way) {
        // It fails where the folder is gone, and its watch with it.
        let _ = inotify.rm_watch(unused);
    }
    followed
}

/// Which secrets wait for which names in which folders.
#[derive(Debug)]
struct Waiting<W>(HashMap<W, BTreeSet<(usize, OsString)>>);

impl<W> Default for Waiting<W> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<W: Copy + Eq + Hash> Waiting<W> {
    /// A secret waits in these folders from now on; those are given back in which none waits.
    fn replace(&mut self, index: usize, way: Vec<(W, OsString)>) -> Vec<W> {
        for names in self.0.values_mut() {
            names.retain(|(waits, _)| *waits != index);
        }
        for (watch, name) in way {
            self.0.entry(watch).or_default().insert((index, name));
        }
        self.0
            .extract_if(|_, names| names.is_empty())
            .map(|(watch, _)| watch)
            .collect()
    }

    /// Which of `count` secrets an event is about.
    fn affected(&self, heard: &Heard<W>, count: usize) -> Vec<usize> {
        match heard {
            Heard::TooMuch => (0..count).collect(),
            Heard::Folder(watch) => self.waits(*watch, |_| true),
            Heard::Name(watch, name) => self.waits(*watch, |waits| waits == *name),
        }
    }

    fn waits(&self, watch: W, about: impl Fn(&OsStr) -> bool) -> Vec<usize> {
        let names = self.0.get(&watch).into_iter().flatten();
        names
            .filter(|(_, name)| about(name))
            .map(|(index, _)| *index)
            .collect()
    }
}

/// What one event says.
#[derive(Debug)]
enum Heard<'a, W> {
    /// Events were lost.
    TooMuch,
    /// A watched folder itself was moved, removed or changed.
    Folder(W),
    /// A name in one.
    Name(W, &'a OsStr),
}

impl<'a> Heard<'a, WatchDescriptor> {
    fn of(event: &'a InotifyEvent) -> Self {
        match &event.name {
            _ if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) => Self::TooMuch,
            Some(name) => Self::Name(event.wd, name),
            None => Self::Folder(event.wd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(names: &[(u32, &str)]) -> Vec<(u32, OsString)> {
        let own = |(watch, name): &(u32, &str)| (*watch, OsString::from(name));
        names.iter().map(own).collect()
    }

    #[test]
    fn an_event_leads_to_the_secrets_that_wait_for_its_name() {
        let mut waiting = Waiting::default();
        assert!(waiting.replace(0, way(&[(1, ".netrc")])).is_empty());
        assert!(
            waiting
                .replace(1, way(&[(1, ".config"), (2, "gh")]))
                .is_empty()
        );
        assert!(
            waiting
                .replace(2, way(&[(1, ".config"), (2, "op")]))
                .is_empty()
        );
        let name = |watch, name| Heard::Name(watch, OsStr::new(name));
        assert_eq!(waiting.affected(&name(1, ".netrc"), 3), [0]);
        assert_eq!(waiting.affected(&name(1, ".config"), 3), [1, 2]);
        assert_eq!(waiting.affected(&name(2, "op"), 3), [2]);
        assert_eq!(waiting.affected(&Heard::Folder(2), 3), [1, 2]);
        assert_eq!(waiting.affected(&Heard::TooMuch, 3), [0, 1, 2]);
        for other in [
            name(1, "gh"),
            name(2, ".netrc"),
            name(3, "op"),
            name(1, ".netrc~"),
        ] {
            assert!(waiting.affected(&other, 3).is_empty(), "{other:?}");
        }
    }

    #[test]
    fn a_folder_is_given_back_when_the_last_secret_leaves_it() {
        let mut waiting = Waiting::default();
        waiting.replace(0, way(&[(1, "a"), (2, "b")]));
        waiting.replace(1, way(&[(1, "a"), (2, "c")]));
        assert!(waiting.replace(0, way(&[(1, "a")])).is_empty());
        assert_eq!(waiting.replace(1, way(&[(1, "a"), (3, "c")])), [2]);
        assert!(waiting.affected(&Heard::Folder(2), 2).is_empty());
    }

    #[test]
    fn the_way_is_followed_as_far_as_it_goes_and_through_no_symbolic_link() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::new(dir.path().as_os_str().as_bytes()).unwrap();
        let meta = dir.path().metadata().unwrap();
        let root_id = crate::policy::FileId {
            dev: meta.dev(),
            ino: meta.ino(),
        };
        let secret = |below: &str| WatchedPath {
            path: root.join(below),
            root: root.clone(),
            root_id,
            masked: false,
        };
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let watched = |below: &str| {
            let watches = Watches::set(&[secret(below)]).unwrap();
            watches.waiting.0.len()
        };
        assert_eq!(watched("x"), 1);
        assert_eq!(watched("a/x"), 2);
        assert_eq!(watched("a/b/c"), 3);
        assert_eq!(watched("a/x/y/z"), 2);
        assert_eq!(watched("link/b/c"), 1);
        // What is there already is looked at once, unless a mask stood on it from the beginning.
        let there = |below: &str, masked: bool| {
            let secret = WatchedPath {
                masked,
                ..secret(below)
            };
            Watches::set(&[secret]).unwrap().there.len()
        };
        assert_eq!([there("a/b", false), there("a/b", true)], [1, 0]);
        assert_eq!([there("a/x", false), there("a/x/y", false)], [0, 0]);
        let mut other = secret("x");
        other.root_id.ino += 1;
        assert_eq!(Watches::set(&[other]).err(), Some(Errno::ESTALE));
    }
}

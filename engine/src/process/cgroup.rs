//! The cgroup freezer (cgroups(7), version 2), where this user may make cgroups.
//!
//! A session's runner is born in the session's cgroup, and so everything else is. To freeze, all
//! but the guard and its launchers move to a child group that is then frozen: the guard must stay
//! awake to answer, and to end everything when the engine is gone. The version 1 freezer is not used: its frozen
//! processes cannot be killed, so a crash of the engine would leave them behind.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// First part of the name of every group made here.
const PREFIX: &str = "kotak-";

/// Rounds of moving what was forked meanwhile, before the freezer gives up.
const ROUNDS: u32 = 200;

/// Looks at the frozen flag, a millisecond apart.
const LOOKS: u32 = 2000;

/// Set by tests of the other freezer.
#[cfg(test)]
pub(super) static FORBIDDEN: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The cgroup of one session; removed when dropped, if it is empty by then.
#[derive(Debug)]
pub(super) struct SessionCgroup {
    dir: PathBuf,
    /// The guard and the runners that it descends from; empty as long as nobody knows.
    awake: Vec<i32>,
}

impl SessionCgroup {
    /// A new, empty group. `None` where there is no writable version 2 hierarchy.
    pub(super) fn create() -> Option<Self> {
        #[cfg(test)]
        if FORBIDDEN.load(Ordering::SeqCst) {
            return None;
        }
        let parent = own_group()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!(
            "{PREFIX}{}-{}-{number}",
            std::process::id(),
            own_start()?
        ));
        fs::create_dir(&dir).ok()?;
        let group = Self {
            dir,
            awake: Vec::new(),
        };
        let ready =
            group.dir.join("cgroup.freeze").exists() && fs::create_dir(group.payload()).is_ok();
        // Dropping a group that is not ready removes it.
        ready.then_some(group)
    }

    /// Its directory, to be born in.
    pub(super) fn handle(&self) -> Option<OwnedFd> {
        fs::File::open(&self.dir).ok().map(OwnedFd::from)
    }

    /// Who stays awake: the guard and everything from it up to the runner.
    pub(super) fn keep_awake(&mut self, guard: i32, runner: i32) {
        self.awake = super::tree::line_of_descent(guard, runner).unwrap_or_default();
    }

    /// Whether the guard is known, so that everything else can be frozen.
    pub(super) fn can_freeze(&self) -> bool {
        !self.awake.is_empty()
    }

    fn payload(&self) -> PathBuf {
        self.dir.join("payload")
    }

    /// Freezes everything but the guard.
    pub(super) async fn freeze(&self) -> io::Result<()> {
        if !self.can_freeze() {
            return Err(io::Error::other("the guard's process id is not known"));
        }
        let payload = self.payload();
        fs::write(payload.join("cgroup.freeze"), "1")?;
        for _ in 0..ROUNDS {
            let others: Vec<i32> = members(&self.dir)?
                .into_iter()
                .filter(|pid| !self.awake.contains(pid))
                .collect();
            if others.is_empty() {
                return frozen(&payload).await;
            }
            for pid in others {
                match fs::write(payload.join("cgroup.procs"), pid.to_string()) {
                    Ok(()) => {}
                    // It ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(io::Error::other(
            "processes are started faster than they can be frozen",
        ))
    }

    /// Thaws.
    pub(super) async fn thaw(&self) {
        // A group that is gone holds nothing frozen.
        let _ = fs::write(self.payload().join("cgroup.freeze"), "0");
    }

    /// Kills everything in the group, the guard too.
    pub(super) fn kill(&self) {
        // Absent before Linux 5.14: then the members are killed one by one.
        if fs::write(self.dir.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        for dir in [self.payload(), self.dir.clone()] {
            for pid in members(&dir).unwrap_or_default() {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
        }
    }

    /// Removes the group once it is empty.
    pub(super) async fn remove(&self) {
        for _ in 0..LOOKS {
            if remove(&self.dir) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tracing::warn!(dir = %self.dir.display(), "a session's cgroup could not be removed");
    }
}

impl Drop for SessionCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.payload().join("cgroup.freeze"), "0");
        remove(&self.dir);
    }
}

/// Removes the groups that engines which no longer run have left.
pub fn remove_leftovers() {
    let Some(parent) = own_group() else { return };
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((pid, start)) = name.to_str().and_then(owner) else {
            continue;
        };
        if start_of(pid).as_deref() != Some(start) {
            remove(&entry.path());
        }
    }
}

/// Process id and start time in the name of a group.
fn owner(name: &str) -> Option<(u32, &str)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = parts.next()?.parse().ok()?;
    let start = parts.next()?;
    parts.next()?;
    parts.next().is_none().then_some((pid, start))
}

fn remove(dir: &Path) -> bool {
    let gone = |dir: &Path| match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    gone(&dir.join("payload")) && gone(dir)
}

fn members(dir: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(dir.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

async fn frozen(dir: &Path) -> io::Result<()> {
    for _ in 0..LOOKS {
        if fs::read_to_string(dir.join("cgroup.events"))?
            .lines()
            .any(|line| line == "frozen 1")
        {
            return Ok(());
        }
        // An empty group is never called frozen by some kernels, and has nothing to freeze.
        if members(dir)?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

/// The directory of this process's own group in the version 2 hierarchy.
fn own_group() -> Option<PathBuf> {
    // Each line of it takes the kernel a while, and the hierarchy stays where it is mounted.
    static MOUNTS: OnceLock<String> = OnceLock::new();
    let mounts = match MOUNTS.get() {
        Some(mounts) => mounts,
        // A failure is not kept: descriptors may be free next time.
        None => {
            let read = fs::read_to_string("/proc/self/mountinfo").ok()?;
            MOUNTS.get_or_init(|| read)
        }
    };
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    group_dir(mounts, &groups)
}

/// From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup` (proc(5), cgroups(7)).
fn group_dir(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        if source.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // A group outside the mounted part cannot be reached through this mount.
        let below = Path::new(group).strip_prefix(root).ok()?;
        (!point.contains('\\')).then(|| Path::new(point).join(below))
    })
}

fn own_start() -> Option<String> {
    start_of(std::process::id())
}

/// Start time of a process, field 22 of proc_pid_stat(5); tells a recycled id.
fn start_of(pid: u32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_unified_hierarchy_is_found_where_it_is_mounted() {
        let found = group_dir(HYBRID, "6:freezer:/\n0::/user.slice/a.scope\n");
        assert_eq!(
            found,
            Some(PathBuf::from("/sys/fs/cgroup/unified/user.slice/a.scope"))
        );
        let pure = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            group_dir(pure, "0::/\n"),
            Some(PathBuf::from("/sys/fs/cgroup"))
        );
    }

    #[test]
    fn a_group_outside_the_mounted_part_is_not_used() {
        let part = "31 23 0:28 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(group_dir(part, "0::/other\n"), None);
        assert_eq!(
            group_dir(part, "0::/docker/x/y\n"),
            Some(PathBuf::from("/sys/fs/cgroup/y"))
        );
        assert_eq!(group_dir(HYBRID, "6:freezer:/\n"), None);
    }

    #[test]
    fn only_names_made_here_have_an_owner() {
        assert_eq!(owner("kotak-12-345-0"), Some((12, "345")));
        for other in ["kotak-12-345", "kotak-x-1-0", "user.slice", "kotak-1-2-3-4"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}

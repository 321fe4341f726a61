//! Looks at a workspace from the host while a session runs in it.

use kotak_tests::field::{Field, read_file, tree};
use kotak_tests::stage::SECRET;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What it looks for in one workspace.
pub(crate) struct Oracle {
    work: PathBuf,
    /// Below `safe`, as it was.
    safe: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// What makes git run programs, as it was.
    git: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// `~/.bashrc`, which every session leaves as it is.
    profile: PathBuf,
}

impl Oracle {
    pub(crate) fn new(field: &Field) -> Self {
        let work = field.work();
        Self {
            safe: tree(&work.join("safe")),
            git: tree(&work.join(".git/hooks")),
            profile: field.stage().home().join(".bashrc"),
            work,
        }
    }

    /// Runs `session`; its result, and all that was found while it ran and after.
    pub(crate) fn watch<T>(&self, session: impl FnOnce() -> T) -> (T, Vec<String>) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut found = BTreeSet::new();
                while !done.load(Ordering::Relaxed) {
                    self.look(&mut found);
                    std::thread::sleep(Duration::from_millis(5));
                }
                self.look(&mut found);
                found
            });
            let result = session();
            done.store(true, Ordering::Relaxed);
            let found = watcher.join().expect("the watcher");
            (result, found.into_iter().collect())
        })
    }

    fn look(&self, found: &mut BTreeSet<String>) {
        // Files come and go while it looks: what is gone is not judged.
        if tree_now(&self.work.join("safe")) != Some(self.safe.clone()) {
            found.insert("safe changed".to_owned());
        }
        if read_file(&self.profile).as_deref() != Some(b"original\n") {
            found.insert(".bashrc changed".to_owned());
        }
        let hooks = self.work.join(".git/hooks");
        if tree_now(&hooks).is_some_and(|now| {
            now.iter()
                .any(|entry| !is_sample(entry) && !self.git.contains(entry))
        }) {
            found.insert(".git/hooks changed".to_owned());
        }
        let mut pending = vec![self.work.clone()];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if let Some(reason) = self.judge(&path) {
                    found.insert(reason);
                }
                if kind.is_dir() {
                    pending.push(path);
                } else if kind.is_file()
                    && path
                        .strip_prefix(&self.work)
                        .ok()
                        .and_then(|below| self.content(below))
                        .is_some_and(|content| holds(&content, SECRET.as_bytes()))
                {
                    found.insert(format!("{} holds a secret", path.display()));
                }
            }
        }
    }

    /// Why a path must not be there.
    fn judge(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.work).ok()?;
        let name = below.file_name()?.to_string_lossy().to_lowercase();
        let shown = below.display();
        if name == "pre.key" && below == Path::new("pre.key") {
            let same = read_file(path).is_some_and(|content| content == b"old\n");
            return (!same).then(|| format!("{shown} changed"));
        }
        // A glob with a slash holds at any depth.
        let parent = below.parent().and_then(Path::file_name);
        let deep = parent.is_some_and(|parent| parent.eq_ignore_ascii_case("deep"));
        let excepted = deep && name.ends_with(".pem");
        let forbidden = name == ".env" || name.ends_with(".key") || name.ends_with(".pem");
        let gone = below == Path::new("keep/deep/gone");
        let wrong = gone || (forbidden && !excepted);
        (wrong && self.is_there(below)).then(|| format!("{shown} is there"))
    }

    /// Whether a path is there without a symlink on the way. What was listed may lie elsewhere by
    /// now, under a name that is permitted; what should not be there cannot be removed inside.
    fn is_there(&self, below: &Path) -> bool {
        (0..3).all(|_| self.open(below, OFlag::O_PATH).is_some())
    }

    /// What a file holds that is no symlink, and is not reached through one.
    fn content(&self, below: &Path) -> Option<Vec<u8>> {
        let mut file = self.open(below, OFlag::O_RDONLY | OFlag::O_NONBLOCK)?;
        let mut content = Vec::new();
        let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        (regular && file.read_to_end(&mut content).is_ok()).then_some(content)
    }

    fn open(&self, below: &Path, flags: OFlag) -> Option<fs::File> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
        let work = fs::File::open(&self.work).ok()?;
        openat2(&work, below, how).ok().map(fs::File::from)
    }
}

/// A tree that may change while it is read; none when it is not there.
fn tree_now(root: &Path) -> Option<Vec<(PathBuf, Option<Vec<u8>>)>> {
    fs::read_dir(root).ok().map(|_| tree(root))
}

/// Git's own, which it does not run.
fn is_sample((path, _): &(PathBuf, Option<Vec<u8>>)) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "sample")
}

fn holds(content: &[u8], part: &[u8]) -> bool {
    content.windows(part.len()).any(|window| window == part)
}

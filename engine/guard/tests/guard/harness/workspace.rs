//! A directory of the host that is writable inside, under rules.

use super::{
    Flags, Guard, Place, User, expectation, native_setup, shared_directory, waiting_program,
};
use kotak_guard::proto::{Check, Event, ExitStatus, FileRules, ReadyReport, Setup, Violation};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// A guard that supervises, and the directory that it lets be written.
pub(crate) struct Workspace {
    pub(crate) guard: Guard,
    pub(crate) dir: PathBuf,
    pub(crate) report: ReadyReport,
}

/// The rules of the shared cases, for a directory.
pub(crate) fn rules(dir: &Path) -> FileRules {
    FileRules {
        roots: vec![dir.as_os_str().as_bytes().to_vec()],
        names: [".env", "*.key", "*.pem"].map(str::to_owned).to_vec(),
        ..FileRules::default()
    }
}

/// A set-up under rules.
pub(crate) fn supervised(rules: FileRules) -> Setup {
    Setup {
        seccomp: vec![waiting_program()],
        files: Some(Box::new(rules)),
        ..native_setup(expectation())
    }
}

impl Workspace {
    /// With `pre.key` in it, made by the user of the sandbox.
    pub(crate) fn new(user: User, change: impl FnOnce(&Path, &mut FileRules)) -> Self {
        Self::try_new(user, change, |_| {}).unwrap()
    }

    pub(crate) fn try_new(
        user: User,
        change: impl FnOnce(&Path, &mut FileRules),
        change_setup: impl FnOnce(&mut Setup),
    ) -> Result<Self, Check> {
        // Not in a directory that the sandbox covers.
        let top = shared_directory();
        let dir = top.join("ws");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let file = dir.join("pre.key");
        fs::write(&file, "kept").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let mut rules = rules(&dir);
        change(&dir, &mut rules);
        let mut setup = supervised(rules);
        change_setup(&mut setup);
        let bound = dir.to_str().unwrap();
        let place = Place::Native(user, Flags::with(&format!("--bind {bound} {bound}")));
        let (guard, report) = Guard::start_with(&place, setup)?;
        Ok(Self { guard, dir, report })
    }

    /// Runs Perl in the directory; what it printed. A script that fails fails the test.
    pub(crate) fn perl(&mut self, script: &str) -> String {
        let dir = self.dir.to_str().unwrap();
        let script = format!(
            "use strict; use warnings; use Fcntl qw(:DEFAULT :mode); \
             use Errno; chdir('{dir}') or die; my $ws = '{dir}';\n\
             sub errno {{ my ($ok) = @_; return $ok ? 'ok' : 0 + $!; }}\n{script}"
        );
        let output = self.guard.run(&["perl", "-e", &script]);
        assert_eq!(output.status, ExitStatus::Code(0), "{}", output.stderr);
        output.stdout
    }

    /// Runs a shell script in the directory.
    pub(crate) fn sh(&mut self, script: &str) -> super::Output {
        let dir = self.dir.to_str().unwrap();
        self.guard.sh(&format!("cd '{dir}' || exit 99\n{script}"))
    }

    /// The next violation.
    pub(crate) fn violation(&mut self) -> Violation {
        self.guard
            .expect(|event| match event {
                Event::Violation(violation) => Some(violation.as_ref().clone()),
                _ => None,
            })
            .0
    }

    /// Everything in the directory, by path.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        fn below(dir: &Path, top: &Path, names: &mut BTreeSet<String>) {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(top).unwrap();
                names.insert(name.to_string_lossy().into_owned());
                if entry.file_type().unwrap().is_dir() {
                    below(&path, top, names);
                }
            }
        }
        let mut names = BTreeSet::new();
        below(&self.dir, &self.dir, &mut names);
        names
    }

    pub(crate) fn path(&self, name: &str) -> Vec<u8> {
        self.dir.join(name).as_os_str().as_bytes().to_vec()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(top) = self.dir.parent() {
            // What the sandbox's user made may be another's here; the directory is temporary.
            let _ = fs::remove_dir_all(top);
        }
    }
}

//! The `kotak` command as a person meets it: the real binary, real sandboxes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod network;
mod run;
mod shell;
mod usage;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A user's directories and a project, all temporary.
struct Desk {
    root: tempfile::TempDir,
}

/// What a finished command left.
#[derive(Debug)]
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Desk {
    fn new() -> Self {
        // Below /var/tmp: a sandbox has a /tmp of its own.
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        let desk = Self { root };
        for dir in ["project", "home"] {
            std::fs::create_dir(desk.path(dir)).unwrap();
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn project(&self) -> PathBuf {
        self.path("project")
    }

    fn marker(&self) -> PathBuf {
        self.project().join("marker")
    }

    /// `kotak` in the project, with directories of its own.
    fn kotak<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        self.prepare(Command::new(env!("CARGO_BIN_EXE_kotak")), args)
    }

    /// The same behind another program.
    fn prepare<S: AsRef<OsStr>>(&self, mut command: Command, args: &[S]) -> Command {
        command
            .args(args)
            .current_dir(self.project())
            .env("KOTAK_STATE_DIR", self.path("state"))
            .env("KOTAK_CONFIG_DIR", self.path("config"))
            .env("HOME", self.path("home"))
            .env_remove("KOTAK_SANDBOX")
            .env_remove("CC_SERVER_SANDBOX")
            .stdin(Stdio::null());
        command
    }

    fn finish<S: AsRef<OsStr>>(&self, args: &[S]) -> Finished {
        finish(&mut self.kotak(args))
    }

    /// Feeds standard input.
    fn feed<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Finished {
        let mut command = self.kotak(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        // A command that refuses its arguments need not read its input.
        let _fed = feeder.join().unwrap();
        finished(output)
    }
}

fn finish(command: &mut Command) -> Finished {
    finished(command.output().unwrap())
}

fn finished(output: std::process::Output) -> Finished {
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Finished {
    #[track_caller]
    fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{self:?}");
    }

    /// Refused by Kotak with this exit code and error code, and a way out.
    #[track_caller]
    fn refused(&self, exit: i32, code: &str) {
        assert_eq!(self.code, Some(exit), "{self:?}");
        assert!(self.stderr.contains(&format!("[{code}]")), "{self:?}");
        assert!(self.stderr.contains("\n  fix: "), "{self:?}");
    }

    /// Kotak said nothing of a failure.
    #[track_caller]
    fn unblamed(&self) {
        let blamed = self
            .stderr
            .lines()
            .any(|line| line.starts_with("kotak: ") && line.ends_with(']'));
        assert!(!blamed, "{self:?}");
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

//! A workspace with rules for its files, sessions in it, and what the history says of them.

use crate::command::{Kotak, Outcome, program};
use crate::stage::Stage;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a session's spec says of files and programs.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// `filenameRules.globs`
    pub globs: Vec<&'static str>,
    /// `filenameRules.exceptions`
    pub exceptions: Vec<&'static str>,
    /// `protectedPaths`, below the workspace.
    pub protected: Vec<&'static str>,
    /// `runnerStateDirs`, below the workspace.
    pub runner: Vec<&'static str>,
    /// `execRestriction`; absent is `off`.
    pub exec: Option<&'static str>,
    /// `execGrantRoots`, below the workspace.
    pub exec_roots: Vec<&'static str>,
    /// Whether the whole home is writable inside, with its secrets in it, and not the workspace
    /// alone.
    pub home: bool,
}

impl Rules {
    /// The rules of the shared cases.
    #[must_use]
    pub fn names() -> Self {
        Self {
            globs: vec![".env", "*.key", "*.pem"],
            ..Self::default()
        }
    }

    /// Those, and a protected path below the workspace.
    #[must_use]
    pub fn protecting(path: &'static str) -> Self {
        Self {
            protected: vec![path],
            ..Self::names()
        }
    }
}

/// A staged home, its workspace `~/work`, and tools outside of it that sessions can only read.
#[derive(Debug)]
pub struct Field {
    stage: Stage,
}

/// One call of the command in a field, and the session it was.
#[derive(Debug)]
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// `sessionId`
    pub session: String,
}

/// One refusal, as the history has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The verb.
    pub action: String,
    /// The path.
    pub target: String,
    /// The other end of a rename or link.
    pub other: Option<String>,
    /// Name of errno.
    pub error: String,
    /// How many alike.
    pub count: u64,
    /// Process id inside.
    pub pid: i64,
    /// Path of the executable.
    pub executable: String,
    /// Seen at the point of refusal.
    pub observed: bool,
}

impl Field {
    /// A new one, without repositories in the workspace.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let field = Self {
            stage: Stage::new(),
        };
        // What the stage plants in the workspace is protected by other rules.
        fs::remove_dir_all(field.work()).unwrap_or_else(|e| panic!("the workspace: {e}"));
        for dir in [field.work(), field.tools()] {
            fs::create_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        }
        fs::copy(program("attempt"), field.attempt()).unwrap_or_else(|e| panic!("attempt: {e}"));
        field
    }

    /// The stage.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The workspace, writable inside.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.stage.work()
    }

    /// Read-only inside.
    #[must_use]
    pub fn tools(&self) -> PathBuf {
        self.stage.home().join("tools")
    }

    /// The program that makes raw system calls.
    #[must_use]
    pub fn attempt(&self) -> PathBuf {
        self.tools().join("attempt")
    }

    /// A call of the command that runs `argv` natively under `rules`; and its session's id.
    ///
    /// # Panics
    /// When the spec cannot be written.
    #[must_use]
    pub fn call<S: AsRef<OsStr>>(&self, rules: &Rules, argv: &[S]) -> (Kotak, String) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let session = format!("files-{}-{number}", std::process::id());
        let file = self.stage.home().join(format!("{session}.json"));
        let spec = self.spec(rules, &session).to_string();
        fs::write(&file, spec).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let call = self.stage.kotak().args(["run", "--backend", "native"]);
        (call.arg("--spec").arg(file).arg("--").args(argv), session)
    }

    fn spec(&self, rules: &Rules, session: &str) -> Value {
        let below = |paths: &[&str]| -> Vec<String> {
            let full = paths.iter().map(|path| self.work().join(path));
            full.map(|path| path.display().to_string()).collect()
        };
        json!({
            "sessionId": session,
            "workspaceId": "field",
            "bindMounts": [
                { "hostPath": if rules.home { self.stage.home().to_path_buf() } else { self.work() } },
                { "hostPath": self.tools(), "readOnly": true },
            ],
            "guestWorkdir": self.work(),
            "networkMode": "off",
            "filenameRules": { "globs": rules.globs, "exceptions": rules.exceptions },
            "protectedPaths": below(&rules.protected),
            "runnerStateDirs": below(&rules.runner),
            "execRestriction": rules.exec.unwrap_or("off"),
            "execGrantRoots": below(&rules.exec_roots),
        })
    }

    /// Runs `argv` under `rules`, natively.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, rules: &Rules, argv: &[S]) -> Run {
        let (call, session) = self.call(rules, argv);
        Run {
            outcome: call.run(),
            session,
        }
    }

    /// Runs a shell line under `rules`, in the workspace.
    #[must_use]
    pub fn shell(&self, rules: &Rules, line: &str) -> Run {
        self.run(rules, &["/bin/sh", "-c", line])
    }

    /// Runs a shell line in the workspace without a sandbox: the positive control, and the
    /// preparation.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn outside(&self, line: &str) -> Outcome {
        let call = self.stage.kotak().args(["run", "--backend", "none", "--"]);
        call.args(["/bin/sh", "-c", line]).run()
    }

    /// Prepares the workspace by a shell line, on the host.
    ///
    /// # Panics
    /// When it fails.
    pub fn prepare(&self, line: &str) {
        let status = std::process::Command::new("/bin/sh")
            .args(["-ec", line])
            .current_dir(self.work())
            .env("HOME", self.stage.home())
            // The stage's own is planted, and no configuration.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "`{line}` failed"
        );
    }

    /// Everything in the workspace, with the content of files and the targets of symlinks.
    #[must_use]
    pub fn inventory(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        tree(&self.work())
    }

    /// What was refused to a session's programs, oldest first.
    ///
    /// # Panics
    /// When the history cannot be read.
    #[must_use]
    pub fn refusals(&self, session: &str) -> Vec<Refusal> {
        let log = self
            .stage
            .kotak()
            .args(["log", "--json", "--limit", "1000", "--session", session])
            .run();
        assert!(log.succeeded(), "{log:?}");
        let rows = log.stdout.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("`{line}`: {e}"))
        });
        rows.filter(|row| row["file"].is_object())
            .map(refusal)
            .collect()
    }
}

impl Default for Field {
    fn default() -> Self {
        Self::new()
    }
}

fn refusal(row: Value) -> Refusal {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Refusal {
        action: text(&row["action"]),
        target: text(&row["target"]),
        other: row["file"]["other"].as_str().map(str::to_owned),
        error: text(&row["file"]["error"]),
        count: row["count"].as_u64().unwrap_or_default(),
        pid: row["process"]["pid"].as_i64().unwrap_or_default(),
        executable: text(&row["process"]["executable"]),
        observed: row["evidence"] == "observed",
    }
}

/// A tree, with the content of files and the targets of symlinks; other files, and what goes while
/// it is read, have none.
#[must_use]
pub fn tree(root: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            let content = match kind {
                Ok(kind) if kind.is_symlink() => fs::read_link(&path)
                    .ok()
                    .map(|target| target.as_os_str().as_bytes().to_vec()),
                Ok(kind) if kind.is_file() => read_file(&path),
                _ => None,
            };
            if kind.is_ok_and(|kind| kind.is_dir()) {
                pending.push(path.clone());
            }
            found.push((path, content));
        }
    }
    found.sort();
    found
}

/// What a regular file holds; none for anything else, also when it takes the file's place in
/// between: nobody waits for the other end of a FIFO.
#[must_use]
pub fn read_file(path: &Path) -> Option<Vec<u8>> {
    let mut file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    let mut content = Vec::new();
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    (regular && file.read_to_end(&mut content).is_ok()).then_some(content)
}

//! A home directory with everything worth stealing in it, made for one test and removed after.

use crate::command::{Kotak, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// What every planted secret contains.
pub const SECRET: &str = "planted-secret-6b1f";

/// Directories of the read-deny set (REQ TM-2 and the sets), below the home directory.
pub const SECRET_DIRS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".config/gh",
    "Library/Keychains",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
];

/// Files of the read-deny set, below the home directory.
pub const SECRET_FILES: &[&str] = &[
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".git-credentials",
    ".config/git/credentials",
    ".Xauthority",
];

/// Files of the mandatory write-deny set, below the home directory.
pub const PROTECTED_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".config/fish/config.fish",
    ".gitconfig",
    ".config/git/config",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    "Library/LaunchAgents/x.plist",
    ".ssh/authorized_keys",
    ".local/bin/tool",
    ".bash_completion",
    ".local/share/bash-completion/completions/x",
    ".local/share/dbus-1/services/x.service",
    ".config/labwc/autostart",
    ".docker/cli-plugins/docker-x",
    "work/.git/hooks/pre-commit",
    "work/.git/config",
    "work/sub/deep/.git/hooks/pre-commit",
    "work/sub/deep/.git/config",
    "work/.vscode/tasks.json",
    "work/.idea/workspace.xml",
    "work/.claude/settings.json",
    "work/.codex/config.toml",
    "work/.gemini/settings.json",
    "work/.mcp.json",
    "work/.envrc",
];

/// A staged home directory.
#[derive(Debug)]
pub struct Stage {
    home: PathBuf,
    /// Absent when another process owns and removes the directory.
    _dir: Option<tempfile::TempDir>,
}

impl Stage {
    /// Plants a home below the real one, so that nothing of the profile is special about it.
    ///
    /// # Panics
    /// When the real home directory is not writable.
    #[must_use]
    pub fn new() -> Self {
        let base = std::env::var_os("KOTAK_TEST_HOME")
            .or_else(|| std::env::var_os("HOME"))
            .map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let dir = tempfile::Builder::new()
            .prefix("kotak-stage-")
            .tempdir_in(base)
            .unwrap_or_else(|e| panic!("no staged home: {e}"));
        let stage = Self {
            home: dir.path().to_path_buf(),
            _dir: Some(dir),
        };
        for dir in SECRET_DIRS {
            stage.write(&format!("{dir}/secret"), SECRET);
        }
        for file in SECRET_FILES {
            stage.write(file, SECRET);
        }
        for file in PROTECTED_FILES {
            stage.write(file, "original\n");
        }
        stage.write("work/readme.txt", "hello\n");
        stage.write("notes/todo.txt", "buy milk\n");
        stage
    }

    /// The staged home that `HOME` names: for a test that runs itself again in another process.
    ///
    /// # Panics
    /// Without `HOME`.
    #[must_use]
    pub fn adopted() -> Self {
        let home = std::env::var_os("HOME").unwrap_or_else(|| panic!("HOME is not set"));
        Self {
            home: home.into(),
            _dir: None,
        }
    }

    /// The home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The working directory, `~/work`.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    /// Writes a file below the home, making its directories.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        let made = path.parent().map(fs::create_dir_all).transpose();
        made.and_then(|_| fs::write(&path, text))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Reads a file below the home; `None` when it is not there.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.home().join(path)).ok()
    }

    /// A call of the command with this home, in `~/work`; `~/.local/bin` is on PATH.
    #[must_use]
    pub fn kotak(&self) -> Kotak {
        let path = std::env::var("PATH").unwrap_or_default();
        Kotak::new(self.home(), &self.work())
            .env("PATH", format!("{path}:{}/.local/bin", self.home.display()))
    }

    /// Runs `script` under the fixed terminal profile with `extra` arguments of `kotak run`.
    #[must_use]
    pub fn terminal_with(&self, extra: &[&str], script: &str) -> Outcome {
        self.kotak()
            .args(["run", "--backend", "native", "--profile", "terminal"])
            .args(extra)
            .args(["--", "/bin/sh", "-c", script])
            .run()
    }

    /// Runs `script` under the fixed terminal profile.
    #[must_use]
    pub fn terminal(&self, script: &str) -> Outcome {
        self.terminal_with(&[], script)
    }

    /// Runs `script` without a sandbox: the positive control.
    #[must_use]
    pub fn bare(&self, script: &str) -> Outcome {
        self.kotak()
            .args(["run", "--backend", "none", "--profile", "terminal"])
            .args(["--", "/bin/sh", "-c", script])
            .run()
    }

    /// Every path below the home, sorted, with file contents: to show that nothing was left.
    ///
    /// # Panics
    /// When the tree cannot be read.
    #[must_use]
    pub fn inventory(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        let mut pending = vec![self.home().to_path_buf()];
        while let Some(dir) = pending.pop() {
            let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
            for entry in entries.flatten() {
                let path = entry.path();
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                // Kotak's own state and logs change by design.
                if is_dir && path.ends_with(".local/state/kotak") {
                    continue;
                }
                if is_dir {
                    found.push((path.clone(), None));
                    pending.push(path);
                } else {
                    found.push((path.clone(), fs::read(&path).ok()));
                }
            }
        }
        found.sort();
        found
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

/// Says that a test, or a part of one, was left out, and why: the runner counts such lines. Written
/// past the test harness, which keeps what passing tests print.
///
/// # Panics
/// When standard output is gone.
pub fn skip(reason: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // The harness may stand in the middle of a line.
    writeln!(out, "\nkotak-skip: {reason}").unwrap_or_else(|e| panic!("standard output: {e}"));
}

/// Whether the suite runs as uid 0.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

//! The `kotak` command as a black box.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the built programs are: `KOTAK_BIN_DIR`, else beside or above the running program.
///
/// # Panics
/// When the programs were not built; the message says how.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let dir = std::env::var_os("KOTAK_BIN_DIR").map_or_else(
        || {
            let own = std::env::current_exe().unwrap_or_default();
            // A test lies one folder deeper than the programs, a bench beside them.
            own.ancestors()
                .skip(1)
                .find(|dir| dir.join(name).exists())
                .map(Path::to_path_buf)
                .unwrap_or_default()
        },
        PathBuf::from,
    );
    let path = dir.join(name);
    assert!(
        path.exists(),
        "{} is not built: run `make test`, or `cargo build`",
        path.display()
    );
    path
}

/// One call of the command, being put together.
#[derive(Debug, Clone)]
pub struct Kotak {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    removed: Vec<OsString>,
    cwd: PathBuf,
    input: Vec<u8>,
    /// The program that runs the command, with its arguments; none for a plain call.
    wrapper: Vec<OsString>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code; 128 + n when signal n ended the command itself.
    pub code: i32,
    /// Standard output, lossy.
    pub stdout: String,
    /// Standard error, lossy.
    pub stderr: String,
}

impl Outcome {
    /// Whether the program ran and ended with 0.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.code == 0
    }
}

impl Kotak {
    /// A call with `home` as the person's home directory, in `cwd`.
    #[must_use]
    pub fn new(home: &Path, cwd: &Path) -> Self {
        Self {
            arguments: Vec::new(),
            environment: vec![("HOME".into(), home.into())],
            removed: [
                "XDG_STATE_HOME",
                "XDG_CONFIG_HOME",
                "XDG_CACHE_HOME",
                "XDG_DATA_HOME",
            ]
            .into_iter()
            .chain(["KOTAK_SANDBOX", "CC_SERVER_SANDBOX"])
            .map(Into::into)
            .collect(),
            cwd: cwd.to_path_buf(),
            input: Vec::new(),
            wrapper: Vec::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Lets another program run the command: the whole command line is added to its arguments.
    #[must_use]
    pub fn behind<S: AsRef<OsStr>>(mut self, wrapper: impl IntoIterator<Item = S>) -> Self {
        self.wrapper = wrapper.into_iter().map(|a| a.as_ref().to_owned()).collect();
        self
    }

    /// Lets a shell line run the command as `"$@"`.
    #[must_use]
    pub fn behind_shell(self, line: &str) -> Self {
        self.behind(["/bin/sh", "-c", line, "sh"])
    }

    /// Sets standard input; empty without this.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// The prepared process, for tests that hold it while it runs.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = match self.wrapper.split_first() {
            None => Command::new(program("kotak")),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program("kotak"));
                command
            }
        };
        command.args(&self.arguments).current_dir(&self.cwd);
        for name in &self.removed {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When the command cannot be started.
    #[must_use]
    pub fn run(&self) -> Outcome {
        let mut child = self
            .command()
            .spawn()
            .unwrap_or_else(|e| panic!("kotak: {e}"));
        if let Some(mut stdin) = child.stdin.take() {
            let input = self.input.clone();
            // A program that does not read its input closes the pipe early; that is its right.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let output = child
            .wait_with_output()
            .unwrap_or_else(|e| panic!("kotak: {e}"));
        Outcome {
            code: output
                .status
                .code()
                .unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default()),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

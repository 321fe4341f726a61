//! The options about files and programs, and those of `kotak explain path`.

use super::{BridgeName, GrantOptions, ModeName, ProfileName, RunOptions};
use clap::{Args as Arguments, ValueEnum};
use kotak_engine::spec::{ExecRestriction, FilenameRules, TerminalFiles};
use std::path::PathBuf;

/// What files may be made, and from where programs may run.
#[derive(Debug, Default, Arguments)]
pub(crate) struct FileOptions {
    /// A name that cannot be made, changed or removed inside, as a pattern (`*.key`, `certs/*.pem`)
    #[arg(long, value_name = "GLOB")]
    pub(crate) filename_rule: Vec<String>,
    /// A path at which those patterns do not hold, as a pattern (`node_modules/**/*.pem`)
    #[arg(long, value_name = "GLOB")]
    pub(crate) filename_exception: Vec<String>,
    /// From where programs may run: `writable` means from nowhere that can be written [default: off]
    #[arg(long, value_name = "off|writable")]
    pub(crate) exec_restriction: Option<ExecName>,
    /// A folder of build results from which programs may run all the same
    #[arg(long, value_name = "DIR")]
    pub(crate) exec_grant: Vec<PathBuf>,
}

impl FileOptions {
    /// As a spec has them.
    pub(crate) fn filename_rules(&self) -> FilenameRules {
        FilenameRules {
            globs: self.filename_rule.clone(),
            exceptions: self.filename_exception.clone(),
        }
    }

    /// As a spec has it.
    pub(crate) fn exec_restriction(&self) -> ExecRestriction {
        self.exec_restriction
            .map_or(ExecRestriction::Off, Into::into)
    }

    /// As a terminal is asked for with them.
    pub(crate) fn of_terminal(&self) -> TerminalFiles {
        TerminalFiles {
            filename_rules: self.filename_rules(),
            exec_restriction: self.exec_restriction(),
            exec_grant_roots: self.exec_grant.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExecName {
    Off,
    Writable,
    #[value(hide = true)]
    Strict,
}

impl From<ExecName> for ExecRestriction {
    fn from(name: ExecName) -> Self {
        match name {
            ExecName::Off => Self::Off,
            ExecName::Writable => Self::Writable,
            ExecName::Strict => Self::Strict,
        }
    }
}

#[derive(Debug, Arguments)]
pub(crate) struct ExplainPathOptions {
    /// The path; a relative one is taken from the current directory
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// As a terminal in the working directory of this session
    #[arg(long, value_name = "ID", conflicts_with_all =
        ["bind", "ro_bind", "spec", "profile", "cwd"])]
    pub(crate) session: Option<String>,
    /// As `kotak run` with this bind
    #[arg(long, value_name = "PATH")]
    pub(crate) bind: Vec<PathBuf>,
    /// As `kotak run` with this read-only bind
    #[arg(long, value_name = "PATH")]
    pub(crate) ro_bind: Vec<PathBuf>,
    /// As `kotak run` with this profile [default: terminal, without binds and spec]
    #[arg(long)]
    pub(crate) profile: Option<ProfileName>,
    /// As `kotak run` with this spec
    #[arg(long, value_name = "FILE|-", conflicts_with_all =
        ["bind", "ro_bind", "mode", "protect", "filename_rule", "filename_exception",
         "exec_restriction", "exec_grant"])]
    pub(crate) spec: Option<PathBuf>,
    /// Whether files may be written: `chat` may, the others may not [default: chat]
    #[arg(long)]
    pub(crate) mode: Option<ModeName>,
    /// Working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A path that is never writable inside
    #[arg(long, value_name = "PATH")]
    pub(crate) protect: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) files: FileOptions,
}

impl ExplainPathOptions {
    /// What `kotak run` would be given.
    pub(crate) fn into_run(self) -> RunOptions {
        let profile = self.profile.or_else(|| {
            let bound = !self.bind.is_empty() || !self.ro_bind.is_empty() || self.spec.is_some();
            (!bound).then_some(ProfileName::Terminal)
        });
        RunOptions {
            backend: None,
            bind: self.bind,
            ro_bind: self.ro_bind,
            mode: self.mode,
            protect: self.protect,
            network: None,
            allow: Vec::new(),
            bridge: BridgeName::Auto,
            cwd: self.cwd,
            env: Vec::new(),
            files: self.files,
            grants: GrantOptions::default(),
            profile,
            spec: self.spec,
            command: Vec::new(),
        }
    }
}

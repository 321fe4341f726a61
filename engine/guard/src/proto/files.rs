//! What the protocol says about files: the rules that the guard's supervisor enforces at each
//! system call that makes, changes or removes a name, the exec restriction, and what was refused.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Numbers of descriptors that the guard gives for files which it judges by their content: what
/// is written goes to a copy, and close(2) of such a number, which the seccomp program lets wait,
/// is when the copy is judged and takes the file's place.
pub const STAGED_DESCRIPTORS: Range<u32> = 1000..1024;

/// Rules for names and paths below the writable roots (REQ BW-5, SP-1). Paths are absolute,
/// canonical and as the sandbox sees them, which for a native session is as the host does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileRules {
    /// Directories (or single files) of the host that can be written inside. What lies outside
    /// all of them is read-only or private to the session, and is not judged.
    pub roots: Vec<Vec<u8>>,
    /// Subtrees of a root that are not judged (runner state directories). The deepest of the
    /// entries of `roots` and `exempt` that a path lies in decides.
    pub exempt: Vec<Vec<u8>>,
    /// Filename globs, matched without regard to case (globset(crate)). One without `/` is
    /// matched against the last component; one with `/` against the path below the root, at any
    /// depth.
    pub names: Vec<String>,
    /// Path globs that lift `names` (not the other rules), matched like a name with `/`.
    pub exceptions: Vec<String>,
    /// Neither these nor what lies below them can be made, changed or removed, whether they exist
    /// yet or not; no ancestor of one below a root can be renamed, removed or made a symlink.
    pub protected: Vec<Vec<u8>>,
    /// Names, without `/`, that are protected like `protected` wherever they are met below a root.
    pub anywhere: Vec<Vec<u8>>,
    /// Whether what makes git run programs is protected in every repository, also in one that is
    /// made inside or is not called `.git`: its hooks cannot be made; its configuration, its links to other git
    /// directories and its `commondir` can be written only with harmless content
    /// (`crate::judge`).
    pub git: bool,
    /// Files with other names (hard links) whose content is protected whatever they are called.
    pub inodes: Vec<FileNode>,
}

/// A file, by what stat(2) says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileNode {
    /// `st_dev`
    pub dev: u64,
    /// `st_ino`
    pub ino: u64,
}

/// The exec restriction (REQ BW-6), by Landlock: `LANDLOCK_ACCESS_FS_EXECUTE` on these trees and
/// nowhere else, `LANDLOCK_ACCESS_FS_REFER` everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecPlan {
    /// Trees whose programs may run; absolute and canonical. One that does not exist is a refusal
    /// of the set-up.
    pub allowed: Vec<Vec<u8>>,
    /// Programs that never run, though they lie in an allowed tree: such a tree is allowed piece by
    /// piece around them, so that what comes to stand beside them later does not run either. Where
    /// execve(2) waits for the guard, it refuses them by device and inode too, and says so. One
    /// that does not exist is skipped.
    pub denied: Vec<Vec<u8>>,
}

/// A refusal, or several alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// What was tried.
    pub action: FileAction,
    /// The absolute path that was judged and refused, as the user knows it; may hold any byte but
    /// NUL. Of a rename or link it is the end that a rule refused: where the file is, or where it
    /// was to come, or, for a directory that moves, a name below that place. Where the
    /// guard could not find it out, as the program gave it, or empty.
    pub path: Vec<u8>,
    /// Of a rename or link, its other end; which of the two is the source is not said.
    pub other: Option<Vec<u8>>,
    /// Which rule refused it.
    pub rule: Rule,
    /// errno(3) that the program got.
    pub errno: i32,
    /// Name of the system call.
    pub call: String,
    /// Whether the guard itself refused it; else it foresaw that the kernel would, and let the call
    /// go on to it.
    pub observed: bool,
    /// Thread group inside.
    pub pid: i32,
    /// `comm`, at most 15 bytes, lossy.
    pub comm: String,
    /// What `/proc/PID/exe` names, at most 4 KiB, lossy.
    pub executable: Option<String>,
    /// Command line, at most 4 KiB, lossy.
    pub argv: Vec<String>,
    /// How many of one action, path, rule and executable this stands for since the last one; at
    /// least 1.
    pub count: u64,
}

/// What was tried (REQ SP, SandboxViolation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileAction {
    /// `file-write-create`
    Create,
    /// `file-write-data`
    WriteData,
    /// `file-write-unlink`
    Unlink,
    /// `file-write-rename`
    Rename,
    /// `file-write-link`
    Link,
    /// `file-read-data`
    ReadData,
    /// `process-exec`
    Exec,
}

impl FileAction {
    /// The verb of the violation.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Create => "file-write-create",
            Self::WriteData => "file-write-data",
            Self::Unlink => "file-write-unlink",
            Self::Rename => "file-write-rename",
            Self::Link => "file-write-link",
            Self::ReadData => "file-read-data",
            Self::Exec => "process-exec",
        }
    }
}

/// Which rule refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rule {
    /// A filename glob, as it was written.
    Name(String),
    /// A protected path, or one below it.
    Protected(Vec<u8>),
    /// An ancestor of this protected path was to be moved or removed.
    Ancestor(Vec<u8>),
    /// A name that is protected anywhere.
    Anywhere(Vec<u8>),
    /// Git's hooks, or content by which git would run a program; in plain words.
    Git(String),
    /// A file that has a protected name elsewhere.
    HardLink,
    /// A program in a directory that can be written, or one that is always refused.
    Exec,
    /// The content of a secret, hidden by a mask.
    Secret(Vec<u8>),
    /// The guard could not find out in time, or at all, and so refused; in plain words.
    Undecided(String),
}

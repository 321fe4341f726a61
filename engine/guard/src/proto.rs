//! Messages on the control socket between the engine and one guard.
//!
//! Framing: a little-endian `u32` length, then that many bytes of postcard. Descriptors travel by
//! `SCM_RIGHTS` with the first byte of the frame they belong to (unix(7)). The socket is a
//! `SOCK_STREAM` pair made by the engine before launch; its end of file means that the other side
//! is gone, and the guard then ends the whole session.
//!
//! The guard serves two roles with one code path. As PID 1 of a native sandbox it first proves
//! from inside that it is where the engine wanted it (REQ BK-7, PR-7). As the host watcher of a
//! `none` session it is a child subreaper (prctl(2) `PR_SET_CHILD_SUBREAPER`) whose only
//! promise is to leave no process behind.

mod files;
mod masks;
mod network;

pub use files::*;
pub use masks::*;
pub use network::*;

use serde::{Deserialize, Serialize};

/// Raised on every incompatible change; the guard refuses a set-up with another number.
pub const PROTOCOL_VERSION: u32 = 4;

/// Largest frame in bytes that either side accepts; a longer one ends the session.
pub const MAX_FRAME_BYTES: u32 = 16 * 1024 * 1024;

/// Most descriptors that may travel with one frame.
pub const MAX_FRAME_FDS: usize = 16;

/// Engine to guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message, once. Answered by [`Event::Ready`] or [`Event::Refused`].
    Setup(Box<Setup>),
    /// Run one program. Answered by [`Event::Started`] or [`Event::ExecFailed`], later
    /// [`Event::Exited`]. With [`Stdio::Pipes`] three descriptors come along (stdin, stdout,
    /// stderr); with [`Stdio::Slave`] one, the slave side of a PTY.
    Exec(Box<Exec>),
    /// Send a signal to the process group of one exec, or to everything.
    Signal(Signal),
    /// Stop every process of the session except the guard. Answered by [`Event::Frozen`] or
    /// [`Event::FreezeFailed`]. Until [`Request::Thaw`], an exec fails with
    /// [`ExecStage::Fork`] and EBUSY.
    Freeze,
    /// Undo [`Request::Freeze`]; processes that were stopped before it stay stopped. Answered by
    /// [`Event::Thawed`].
    Thaw,
    /// List the processes of the session. Answered by [`Event::Processes`].
    Processes {
        /// Echoed in the answer.
        token: u64,
    },
    /// Find the process at the client's end of a connection inside. Answered by
    /// [`Event::Connector`].
    WhoConnects {
        /// Echoed in the answer.
        token: u64,
        /// Which connection.
        connection: Connection,
    },
    /// Connect to a TCP port on 127.0.0.1 inside. Answered by [`Event::Opened`] with the socket,
    /// which may still be connecting, or by [`Event::NotOpened`].
    Connect {
        /// Echoed in the answer.
        token: u64,
        /// The port.
        port: u16,
    },
    /// Listen inside. Answered by [`Event::Opened`] with the listener, which only the engine then
    /// holds, or by [`Event::NotOpened`].
    Listen {
        /// Echoed in the answer.
        token: u64,
        /// Where.
        at: ListenAt,
    },
    /// End: SIGHUP and SIGTERM to all, `grace_ms` later SIGKILL, then [`Event::Bye`] and exit.
    Shutdown {
        /// Milliseconds between the polite signals and SIGKILL.
        grace_ms: u32,
    },
}

/// Everything the guard needs before the first program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Must equal [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// What the guard is.
    pub role: Role,
    /// Landlock restrictions, applied by the guard to itself and so inherited by all.
    pub landlock: LandlockPlan,
    /// Classic BPF programs that every exec child loads, in this order, before it runs the
    /// payload (seccomp(2) `SECCOMP_SET_MODE_FILTER`).
    pub seccomp: Vec<Vec<BpfInsn>>,
    /// What the guard supervises; with it the last program of `seccomp` holds
    /// `SECCOMP_RET_USER_NOTIF` and is loaded with a listener. A kernel that cannot do that
    /// (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, Linux 5.19) is [`Event::Refused`].
    pub files: Option<Box<FileRules>>,
    /// Which programs may run; absent: all.
    pub exec: Option<ExecPlan>,
    /// What to open in a network namespace of its own; absent where the network is the host's.
    pub loopback: Option<LoopbackPlan>,
    /// Whether the mount namespace is handed over, by which the engine's helper finds it without
    /// a process id that could be recycled: the last descriptor of [`Event::Ready`].
    pub hand_over_mounts: bool,
}

/// Where the guard runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// PID 1 inside a bubblewrap sandbox, with what it must find there.
    Native(Box<Expectation>),
    /// On the host, as subreaper of a `none` session.
    Host,
}

/// What a native guard verifies from inside before it reports ready. Any mismatch is
/// [`Event::Refused`], and no payload ever runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Namespace inodes of the engine (`/proc/self/ns/*`); those in `unshared` must differ
    /// inside, those in `shared` must be equal.
    pub outer: Vec<(Namespace, u64)>,
    /// Namespaces that must differ from the engine's.
    pub unshared: Vec<Namespace>,
    /// Namespaces that must equal the engine's (the network of an open session).
    pub shared: Vec<Namespace>,
    /// Mounts whose identity and writability are checked with stat(2) and statvfs(3).
    pub mounts: Vec<MountCheck>,
    /// Paths whose content must not be readable: open for reading, or listing, must fail.
    pub unreadable: Vec<Vec<u8>>,
    /// Paths that must not be openable for writing (and directories in which nothing can be made).
    pub unwritable: Vec<Vec<u8>>,
    /// Paths that must not exist inside.
    pub absent: Vec<Vec<u8>>,
    /// The network must hold nothing but loopback.
    pub loopback_only: bool,
    /// Files that must hold exactly this.
    pub contents: Vec<FileCheck>,
    /// Directories in memory that belong to the session alone, where the guard may make sockets.
    /// In the first it tries out the supervision of [`Setup::files`], which needs one.
    pub private: Vec<Vec<u8>>,
}

/// A file as it must appear inside, through whatever symlinks lead to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCheck {
    /// Absolute path inside.
    pub path: Vec<u8>,
    /// All of it.
    pub content: Vec<u8>,
}

/// A namespace kind, by its name in `/proc/PID/ns` (namespaces(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Namespace {
    /// `cgroup`
    Cgroup,
    /// `ipc`
    Ipc,
    /// `mnt`
    Mount,
    /// `net`
    Network,
    /// `pid`
    Pid,
    /// `user`
    User,
    /// `uts`
    Uts,
}

impl Namespace {
    /// The file name under `/proc/PID/ns`.
    #[must_use]
    pub fn proc_name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Ipc => "ipc",
            Self::Mount => "mnt",
            Self::Network => "net",
            Self::Pid => "pid",
            Self::User => "user",
            Self::Uts => "uts",
        }
    }
}

/// One bind mount as it must appear inside: the very inode that was checked outside, so that a
/// source swapped for a symlink between check and mount is noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountCheck {
    /// Absolute path inside.
    pub path: Vec<u8>,
    /// `st_dev` of the pinned source.
    pub dev: u64,
    /// `st_ino` of the pinned source.
    pub ino: u64,
    /// Whether the mount must be writable (`ST_RDONLY` clear) or read-only (set).
    pub writable: bool,
}

/// Landlock features wanted (landlock(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// Close abstract Unix sockets of the host (`LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`, ABI 6).
    pub scope_abstract_unix: bool,
    /// Refuse signals to processes outside the domain (`LANDLOCK_SCOPE_SIGNAL`, ABI 6).
    pub scope_signal: bool,
    /// Refuse to start when a wanted scope is not available, instead of reporting it.
    pub required: bool,
}

/// `struct sock_filter` (linux/filter.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BpfInsn {
    /// Operation.
    pub code: u16,
    /// Jump if true, in instructions.
    pub jt: u8,
    /// Jump if false, in instructions.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// One program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Chosen by the engine, unique in the session.
    pub id: u64,
    /// `argv`; `argv[0]` with a slash is a path, without one it is looked up in `PATH` of `env`.
    pub argv: Vec<Vec<u8>>,
    /// Absolute working directory inside.
    pub cwd: Vec<u8>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the standard streams go.
    pub stdio: Stdio,
    /// Part of the session's own workings: it lives and dies with the session, and neither it nor
    /// its descendants are listed among the processes.
    pub service: bool,
}

/// The standard streams of an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdio {
    /// A PTY opened by the guard itself in the sandbox's own devpts, so that `tty` names a
    /// device that exists inside. The master comes back with [`Event::Started`].
    Pty {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// A PTY opened by the engine (`none` sessions); the slave came with the request.
    Slave,
    /// Three descriptors came with the request.
    Pipes,
}

/// A signal request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Signal number (signal(7)).
    pub signal: i32,
    /// Who gets it.
    pub to: SignalTarget,
}

/// Who a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalTarget {
    /// The foreground process group of the exec's terminal, or its own group without one.
    Foreground(u64),
    /// The process group of the exec's first process.
    Group(u64),
    /// Every process of the session except the guard.
    All,
}

/// Guard to engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The set-up holds, as verified from inside. With [`Setup::loopback`] its descriptors come
    /// along.
    Ready(Box<ReadyReport>),
    /// The set-up does not hold; the guard exits after this and has run nothing.
    Refused(Check),
    /// The program runs. With [`Stdio::Pty`] the master comes along.
    Started {
        /// The exec.
        id: u64,
        /// Its process id as the guard sees it.
        pid: i32,
    },
    /// The program could not be started.
    ExecFailed {
        /// The exec.
        id: u64,
        /// What failed.
        stage: ExecStage,
        /// errno(3).
        errno: i32,
    },
    /// The program ended.
    Exited {
        /// The exec.
        id: u64,
        /// How.
        status: ExitStatus,
    },
    /// Everything is stopped.
    Frozen {
        /// How many processes were stopped.
        processes: u32,
    },
    /// Everything goes on.
    Thawed,
    /// The answer to [`Request::Processes`].
    Processes {
        /// From the request.
        token: u64,
        /// Without the guard itself.
        list: Vec<Process>,
    },
    /// The answer to [`Request::WhoConnects`].
    Connector {
        /// From the request.
        token: u64,
        /// Absent when it is gone, hides itself, or cannot be told from another.
        found: Option<Box<Connector>>,
    },
    /// A [`Request::Connect`] or [`Request::Listen`] succeeded; the socket comes along.
    Opened {
        /// From the request.
        token: u64,
    },
    /// A [`Request::Connect`] or [`Request::Listen`] failed.
    NotOpened {
        /// From the request.
        token: u64,
        /// errno(3); EXDEV for a path outside the session's private directories.
        errno: i32,
    },
    /// The guard ends now, in good order.
    Bye,
    /// Not everything could be stopped, so everything goes on as before the request.
    FreezeFailed {
        /// How many processes kept running.
        running: u32,
    },
    /// Something was refused.
    Violation(Box<Violation>),
    /// Before [`Event::Bye`]: some processes may not be killed by this user (a setuid program on
    /// the host), and live on.
    Survivors {
        /// How many.
        processes: u32,
    },
}

/// What stage of an exec failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecStage {
    /// Opening a PTY (no free one: ENOSPC).
    Pty,
    /// fork(2) (limit reached: EAGAIN), or refused before it: EBUSY while frozen, ESHUTDOWN
    /// while ending, EEXIST for an id in use, EBADF for a wrong number of descriptors.
    Fork,
    /// Making the session and its controlling terminal.
    Session,
    /// Changing to the working directory.
    Cwd,
    /// Loading the seccomp programs.
    Seccomp,
    /// The program does not exist or cannot be executed.
    Program,
}

/// How a program ended (waitpid(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// By exit(3) with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// One check made from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Stable name, e.g. `pid-namespace`, `capabilities`, `mount`, `unreadable`.
    pub name: String,
    /// What was found, for people.
    pub detail: String,
}

/// What the guard saw before it said ready.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadyReport {
    /// Every check that passed, in order.
    pub passed: Vec<Check>,
    /// Effective capabilities (`CapEff` of `/proc/self/status`).
    pub cap_eff: u64,
    /// Landlock ABI of the running kernel, 0 without Landlock.
    pub landlock_abi: u32,
    /// The abstract-socket scope is in force.
    pub abstract_unix_scoped: bool,
    /// The signal scope is in force.
    pub signals_scoped: bool,
    /// Number of seccomp programs accepted (each is loaded once on trial by a child).
    pub seccomp_programs: u32,
    /// A trial child's attempt to make a forbidden name was refused by the supervisor, and a
    /// permitted one succeeded.
    pub files_supervised: bool,
    /// The exec restriction is in force.
    pub exec_restricted: bool,
}

/// A process of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id as the guard sees it.
    pub pid: i32,
    /// Parent.
    pub ppid: i32,
    /// Process group.
    pub pgid: i32,
    /// Session.
    pub sid: i32,
    /// Foreground process group of its terminal, -1 without one.
    pub tpgid: i32,
    /// State letter of proc_pid_stat(5).
    pub state: char,
    /// `comm`, at most 15 bytes, lossy.
    pub comm: String,
    /// Command line, at most 4 KiB, lossy.
    pub argv: Vec<String>,
}

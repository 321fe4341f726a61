//! Runs the real guard over a real socket pair: on the host, or in bubblewrap with the flags of
//! production.
#![expect(
    unsafe_code,
    reason = "fixed descriptor numbers for a child, and one ioctl"
)]

use kotak_guard::{
    proto::{
        Check, Event, Exec, ExecStage, ExitStatus, Expectation, LandlockPlan, Namespace,
        PROTOCOL_VERSION, ReadyReport, Request, Role, Setup, Stdio,
    },
    wire::{Received, Receiver, WireError, send},
};
use nix::{
    poll::{PollFd, PollFlags, poll},
    unistd::Uid,
};
use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{fs::MetadataExt, net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus as ProcessStatus},
    sync::atomic::{AtomicU32, Ordering},
};

/// The guard under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_kotak-guard");

/// Where a test gives up waiting; no test measures time.
const PATIENCE: u16 = 60_000;

/// Inherited on purpose, to see that no payload gets it.
pub(crate) const LEAKED: RawFd = 20;

/// Who starts the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Only when the tests run as root; in an outer PID and mount namespace.
    Root,
    /// An ordinary user: the one who runs the tests, or 65534 when that is root.
    Ordinary,
}

/// Everybody as whom a sandbox can be tested here.
pub(crate) fn users() -> &'static [User] {
    if Uid::effective().is_root() {
        &[User::Root, User::Ordinary]
    } else {
        &[User::Ordinary]
    }
}

/// A way to run the guard.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// `kotak-guard host`, as the user of the tests.
    Host,
    /// `kotak-guard native` in a sandbox.
    Native(User, Flags),
}

/// Every place, with the default flags.
pub(crate) fn places() -> Vec<Place> {
    let native = users()
        .iter()
        .map(|user| Place::Native(*user, Flags::default()));
    std::iter::once(Place::Host).chain(native).collect()
}

/// Variations of the sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    pub(crate) unshare_net: bool,
    /// Instead of `--dev /dev`.
    pub(crate) dev: Vec<String>,
    /// After everything else.
    pub(crate) extra: Vec<String>,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            unshare_net: true,
            dev: words("--dev /dev"),
            extra: Vec::new(),
        }
    }
}

impl Flags {
    pub(crate) fn with(extra: &str) -> Self {
        Self {
            extra: words(extra),
            ..Self::default()
        }
    }

    fn arguments(&self) -> Vec<String> {
        let mut list = words(
            "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try \
             --die-with-parent --as-pid-1 --cap-drop ALL",
        );
        if self.unshare_net {
            list.push("--unshare-net".into());
        }
        list.extend(words("--ro-bind / / --proc /proc"));
        list.extend(self.dev.clone());
        list.extend(words(
            "--ro-bind /proc/sys /proc/sys --tmpfs /tmp --tmpfs /run \
             --perms 0555 --ro-bind-data 12 /run/kotak/guard",
        ));
        list.extend(self.extra.clone());
        list
    }
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// What a native guard should find under the default flags.
pub(crate) fn expectation() -> Expectation {
    let all = [
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ];
    let inode = |namespace: Namespace| {
        let path = format!("/proc/self/ns/{}", namespace.proc_name());
        (namespace, std::fs::metadata(path).unwrap().ino())
    };
    Expectation {
        outer: all.map(inode).to_vec(),
        unshared: all.to_vec(),
        shared: vec![],
        mounts: vec![],
        unreadable: vec![],
        unwritable: vec![b"/proc/sys/kernel/core_pattern".to_vec(), b"/usr".to_vec()],
        absent: vec![b"/run/dbus".to_vec()],
        loopback_only: true,
    }
}

pub(crate) fn native_setup(expect: Expectation) -> Setup {
    Setup {
        protocol: PROTOCOL_VERSION,
        role: Role::Native(Box::new(expect)),
        landlock: LandlockPlan::default(),
        seccomp: vec![],
    }
}

pub(crate) fn host_setup() -> Setup {
    Setup {
        protocol: PROTOCOL_VERSION,
        role: Role::Host,
        landlock: LandlockPlan::default(),
        seccomp: vec![],
    }
}

/// A guard and the engine's end of its socket.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) socket: Option<UnixStream>,
    receiver: Receiver,
    child: Child,
    pending: VecDeque<(Event, Vec<OwnedFd>)>,
    next_id: u64,
}

/// A whole run of a program with pipes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Guard {
    /// Starts a guard that has not been set up.
    pub(crate) fn spawn(place: &Place) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let image = guard_image();
        let mut command = match place {
            Place::Host => {
                let mut command = Command::new(BINARY);
                command.args(["host", "13"]);
                command
            }
            Place::Native(user, flags) => {
                let mut command = bubblewrap(*user);
                command
                    .args(flags.arguments())
                    .args(["--", "/run/kotak/guard", "native", "13"]);
                command
            }
        };
        fix_descriptors(&mut command, &[(image.as_fd(), 12), (theirs.as_fd(), 13)]);
        Self::around(ours, command.spawn().unwrap())
    }

    /// Starts a guard by a command of one's own, with the socket at 13.
    pub(crate) fn spawn_command(mut command: Command) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        fix_descriptors(&mut command, &[(theirs.as_fd(), 13)]);
        Self::around(ours, command.spawn().unwrap())
    }

    fn around(socket: UnixStream, child: Child) -> Self {
        Self {
            socket: Some(socket),
            receiver: Receiver::default(),
            child,
            pending: VecDeque::new(),
            next_id: 1,
        }
    }

    /// Starts and sets up a guard.
    pub(crate) fn start(place: &Place) -> Self {
        let setup = match place {
            Place::Host => host_setup(),
            Place::Native(..) => native_setup(expectation()),
        };
        Self::start_with(place, setup).unwrap().0
    }

    /// Starts a guard with a set-up of one's own.
    pub(crate) fn start_with(place: &Place, setup: Setup) -> Result<(Self, ReadyReport), Check> {
        let mut guard = Self::spawn(place);
        let verdict = guard.set_up(setup);
        verdict.map(|report| (guard, report))
    }

    pub(crate) fn set_up(&mut self, setup: Setup) -> Result<ReadyReport, Check> {
        self.send(&Request::Setup(Box::new(setup)), &[]);
        self.expect(|event| match event {
            Event::Ready(report) => Some(Ok(report.as_ref().clone())),
            Event::Refused(check) => Some(Err(check.clone())),
            _ => None,
        })
        .0
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn send(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) {
        send(self.socket.as_ref().unwrap(), request, descriptors).unwrap();
    }

    /// Waits for the first event, old or new, that `pick` picks.
    pub(crate) fn expect<R>(&mut self, pick: impl Fn(&Event) -> Option<R>) -> (R, Vec<OwnedFd>) {
        let mut index = 0;
        loop {
            while index == self.pending.len() {
                let next = self.receive().expect("the guard has gone");
                self.pending.push_back(next);
            }
            if let Some(picked) = pick(&self.pending[index].0) {
                let (_, descriptors) = self.pending.remove(index).unwrap();
                return (picked, descriptors);
            }
            index += 1;
        }
    }

    /// The next message, `None` at the end of the stream.
    pub(crate) fn receive(&mut self) -> Option<(Event, Vec<OwnedFd>)> {
        let socket = self.socket.as_ref().unwrap();
        loop {
            match self.receiver.poll(socket).unwrap() {
                Received::Message(event, descriptors) => return Some((event, descriptors)),
                Received::Closed => return None,
                Received::Pending => wait_readable(socket.as_fd(), "no event in time"),
            }
        }
    }

    /// Starts a program on the given descriptors; its id.
    pub(crate) fn exec(&mut self, exec: Program<'_>, descriptors: &[BorrowedFd<'_>]) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let path = ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        let env = std::iter::once(&path).chain(exec.env);
        let exec = Exec {
            id,
            argv: exec
                .argv
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect(),
            cwd: exec.cwd.as_bytes().to_vec(),
            env: env
                .map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()))
                .collect(),
            stdio: exec.stdio,
        };
        let request = Request::Exec(Box::new(exec));
        match send(self.socket.as_ref().unwrap(), &request, descriptors) {
            // A guard that refused may be gone already; whoever waits for an event sees it.
            Ok(()) | Err(WireError::Socket(_)) => id,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a program with its streams on `/dev/null`.
    pub(crate) fn exec_silent(&mut self, argv: &[&str]) -> u64 {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        self.exec(Program::new(argv), &[null.as_fd(); 3])
    }

    /// Starts a program whose stdout is given back.
    pub(crate) fn exec_reading(&mut self, argv: &[&str]) -> (u64, File) {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let id = self.exec(
            Program::new(argv),
            &[null.as_fd(), writer.as_fd(), null.as_fd()],
        );
        (id, File::from(OwnedFd::from(reader)))
    }

    /// Runs a program to its end.
    pub(crate) fn run(&mut self, argv: &[&str]) -> Output {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let (mut out, out_writer) = std::io::pipe().unwrap();
        let (mut err, err_writer) = std::io::pipe().unwrap();
        let descriptors = [null.as_fd(), out_writer.as_fd(), err_writer.as_fd()];
        let id = self.exec(Program::new(argv), &descriptors);
        drop((out_writer, err_writer));
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        out.read_to_end(&mut stdout).unwrap();
        err.read_to_end(&mut stderr).unwrap();
        Output {
            status: self.exited(id),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Runs a shell script to its end.
    pub(crate) fn sh(&mut self, script: &str) -> Output {
        self.run(&["sh", "-c", script])
    }

    pub(crate) fn started(&mut self, wanted: u64) -> (i32, Vec<OwnedFd>) {
        let (outcome, descriptors) = self.expect(|event| match event {
            Event::Started { id, pid } if *id == wanted => Some(Ok(*pid)),
            Event::ExecFailed { id, stage, errno } if *id == wanted => Some(Err((*stage, *errno))),
            _ => None,
        });
        (outcome.expect("the program did not start"), descriptors)
    }

    pub(crate) fn failed(&mut self, wanted: u64) -> (ExecStage, i32) {
        self.expect(|event| match event {
            Event::Started { id, .. } if *id == wanted => Some(Err("it started")),
            Event::ExecFailed { id, stage, errno } if *id == wanted => Some(Ok((*stage, *errno))),
            _ => None,
        })
        .0
        .expect("the program should not start")
    }

    pub(crate) fn exited(&mut self, wanted: u64) -> ExitStatus {
        self.expect(|event| match event {
            Event::ExecFailed { id, stage, errno } if *id == wanted => {
                panic!("the program did not start: {stage:?} {errno}")
            }
            Event::Exited { id, status } if *id == wanted => Some(*status),
            _ => None,
        })
        .0
    }

    /// The processes of the session.
    pub(crate) fn processes(&mut self) -> Vec<kotak_guard::proto::Process> {
        let wanted = self.next_id;
        self.next_id += 1;
        self.send(&Request::Processes { token: wanted }, &[]);
        self.expect(|event| match event {
            Event::Processes { token, list } if *token == wanted => Some(list.clone()),
            _ => None,
        })
        .0
    }

    /// Closes the engine's end and waits for the end of the guard.
    pub(crate) fn hang_up(mut self) -> ProcessStatus {
        self.socket = None;
        self.child.wait().unwrap()
    }

    /// Waits for the end of the guard.
    pub(crate) fn wait(mut self) -> ProcessStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.socket = None;
        let _ = self.child.wait();
    }
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) argv: &'a [&'a str],
    pub(crate) cwd: &'a str,
    pub(crate) env: &'a [(&'a str, &'a str)],
    pub(crate) stdio: Stdio,
}

impl<'a> Program<'a> {
    pub(crate) fn new(argv: &'a [&'a str]) -> Self {
        Self {
            argv,
            cwd: "/",
            env: &[],
            stdio: Stdio::Pipes,
        }
    }
}

/// `bwrap` as the given user.
pub(crate) fn bubblewrap(user: User) -> Command {
    let prefix: &[&str] = match user {
        User::Root => &[
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ],
        User::Ordinary if Uid::effective().is_root() => &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ],
        User::Ordinary => &[],
    };
    let mut words: VecDeque<OsString> = prefix.iter().map(OsString::from).collect();
    if !words.is_empty() {
        words.push_back("--".into());
    }
    words.push_back("bwrap".into());
    let mut command = Command::new(words.pop_front().unwrap());
    command
        .args(words)
        .current_dir("/")
        .env_remove("LD_LIBRARY_PATH");
    command
}

/// Gives a child descriptors at fixed numbers, and one that it should not pass on.
pub(crate) fn fix_descriptors(command: &mut Command, list: &[(BorrowedFd<'_>, RawFd)]) {
    let null = File::open("/dev/null").unwrap();
    // Above all the numbers that are handed out, so that dup2 cannot run over a source.
    let raise = |fd: BorrowedFd<'_>| {
        let raised = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(64)).unwrap();
        // SAFETY: fcntl has just opened it.
        unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(raised) }
    };
    let mut moves: Vec<(OwnedFd, RawFd)> = list
        .iter()
        .map(|(fd, number)| (raise(*fd), *number))
        .collect();
    moves.push((raise(null.as_fd()), LEAKED));
    let arrange = move || {
        for (source, number) in &moves {
            // SAFETY: dup2 is safe to call between fork and exec, and both are numbers.
            if unsafe { libc::dup2(source.as_raw_fd(), *number) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only calls dup2.
    unsafe { command.pre_exec(arrange) };
}

fn guard_image() -> File {
    let memory = nix::sys::memfd::memfd_create("guard", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut image = File::from(memory.unwrap());
    image.write_all(&std::fs::read(BINARY).unwrap()).unwrap();
    image.seek(SeekFrom::Start(0)).unwrap();
    image
}

fn wait_readable(fd: BorrowedFd<'_>, otherwise: &str) {
    let mut entries = [PollFd::new(fd, PollFlags::POLLIN)];
    assert_ne!(poll(&mut entries, PATIENCE).unwrap(), 0, "{otherwise}");
}

/// The engine's end of a terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: File,
    seen: String,
}

impl Terminal {
    pub(crate) fn new(master: OwnedFd) -> Self {
        Self {
            master: File::from(master),
            seen: String::new(),
        }
    }

    /// Opens a PTY in the guard and runs a program on it.
    pub(crate) fn open(guard: &mut Guard, argv: &[&str]) -> (u64, Self) {
        let stdio = Stdio::Pty { cols: 80, rows: 24 };
        let env = [
            ("TERM", "dumb"),
            ("PS1", "ready> "),
            ("HISTFILE", "/dev/null"),
        ];
        let program = Program {
            stdio,
            env: &env,
            ..Program::new(argv)
        };
        let id = guard.exec(program, &[]);
        let (_, mut descriptors) = guard.started(id);
        (id, Self::new(descriptors.pop().unwrap()))
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until `text` has come, and gives all up to and with it.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            wait_readable(self.master.as_fd(), "the terminal is silent");
            let mut buffer = [0; 4096];
            let count = match self.master.read(&mut buffer) {
                Ok(count) => count,
                Err(error) => panic!("{error} after {:?} without {text:?}", self.seen),
            };
            self.seen
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: TIOCSWINSZ reads one winsize.
        let result =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0);
    }
}

/// A word that no other process has in its command line.
pub(crate) fn marker() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("kotak-marker-{}-{count}-", std::process::id())
}

/// How many processes of the whole host carry the marker.
pub(crate) fn carriers(marker: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.parse::<u32>().is_ok())
        })
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

/// A fresh directory that every user of the tests may enter and fill.
pub(crate) fn shared_directory() -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(marker());
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    path
}

/// Asks again until it holds; a test that never sees it fails by its name.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never: {what}");
}

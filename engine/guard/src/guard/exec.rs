//! Running one program: everything is made ready before fork(2), and the child reports the
//! stage and errno of a failure through a pipe that a successful execve(2) closes.

use super::{
    supervise::{self, Mounts, Supervisor},
    sys::{self, Forked, SeccompProgram, StringArray},
};
use kotak_guard::proto::{Exec, ExecStage, Stdio};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        prctl,
        resource::{Resource, rlim_t, setrlimit},
        signal::{SigSet, Signal},
        stat::{Mode, fstat},
        termios::{InputFlags, SetArg, tcgetattr, tcsetattr},
    },
    unistd::{Pid, chdir, getppid, pipe2, setsid},
};
use std::{
    ffi::CString,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

/// Where programs are looked for when the environment has no `PATH` (execvp(3)).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// The number of the report pipe in the child.
const REPORT: RawFd = 3;

/// The number of the supervisor's socket in the child.
const SUPERVISOR: RawFd = 4;

/// What every program gets, whatever it is.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// Loaded in this order before execve(2).
    pub(crate) seccomp: Vec<SeccompProgram>,
    /// Who answers the calls that the last of them lets wait.
    pub(crate) supervisor: Option<Supervisor>,
    /// The guard, where the program has to be told to die with it; PID 1 needs no such help.
    pub(crate) die_with: Option<Pid>,
    /// Soft and hard limits as they were before the guard changed its own.
    pub(crate) limits: Vec<(Resource, rlim_t, rlim_t)>,
}

/// Why a program does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) stage: ExecStage,
    pub(crate) errno: Errno,
}

impl Failure {
    pub(crate) fn new(stage: ExecStage, errno: Errno) -> Self {
        Self { stage, errno }
    }
}

/// Attaches a stage to an errno.
trait At<T> {
    fn at(self, stage: ExecStage) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, stage: ExecStage) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(stage, errno))
    }
}

/// A child between fork(2) and execve(2).
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: i32,
    /// Ends without data once the program runs; else holds a [`Failure`].
    pub(crate) report: OwnedFd,
    /// For the engine, with [`Stdio::Pty`].
    pub(crate) master: Option<OwnedFd>,
}

/// Starts `exec`; whether the program runs is told by [`Spawned::report`].
pub(crate) fn spawn(
    exec: &Exec,
    descriptors: Vec<OwnedFd>,
    confinement: &Confinement,
) -> Result<Spawned, Failure> {
    let program = Program::new(exec)?;
    let (streams, master) = Streams::open(exec.stdio, descriptors)?;
    let (report, write_end) = pipe2(OFlag::O_CLOEXEC).at(ExecStage::Fork)?;
    match sys::fork().at(ExecStage::Fork)? {
        Forked::Parent(pid) => Ok(Spawned {
            pid,
            report,
            master,
        }),
        Forked::Child => {
            let write_end = write_end.as_raw_fd();
            let supervisor = confinement.supervisor.as_ref();
            let supervisor = supervisor.map(|it| it.socket.as_raw_fd());
            let (report, failure) = match arrange_descriptors(&streams, write_end, supervisor) {
                Ok(()) => (REPORT, become_program(&program, &streams, confinement)),
                Err(failure) => (write_end, failure),
            };
            sys::write_raw(report, &encode_failure(failure));
            sys::exit_now(127)
        }
    }
}

/// What execve(2) will be called with.
struct Program {
    candidates: Vec<CString>,
    arguments: StringArray,
    environment: StringArray,
    directory: CString,
}

impl Program {
    fn new(exec: &Exec) -> Result<Self, Failure> {
        let invalid = |stage| move |_| Failure::new(stage, Errno::EINVAL);
        let strings = |list: &[Vec<u8>]| {
            list.iter()
                .map(|string| CString::new(string.as_slice()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(invalid(ExecStage::Program))
        };
        let name = exec.argv.first().map_or(&b""[..], Vec::as_slice);
        let mut environment = Vec::with_capacity(exec.env.len());
        for (key, value) in &exec.env {
            if key.is_empty() || key.contains(&b'=') {
                return Err(Failure::new(ExecStage::Program, Errno::EINVAL));
            }
            environment.push([key.as_slice(), b"=", value.as_slice()].concat());
        }
        if !exec.cwd.starts_with(b"/") {
            return Err(Failure::new(ExecStage::Cwd, Errno::EINVAL));
        }
        let path = exec.env.iter().rfind(|(key, _)| key == b"PATH");
        let path = path.map_or(DEFAULT_PATH, |(_, value)| value.as_slice());
        Ok(Self {
            candidates: strings(&candidates(name, path))?,
            arguments: StringArray::new(strings(&exec.argv)?),
            environment: StringArray::new(strings(&environment)?),
            directory: CString::new(exec.cwd.as_slice()).map_err(invalid(ExecStage::Cwd))?,
        })
    }

    /// Tries each candidate as execvp(3) does, without its detour through a shell.
    fn execute(&self) -> Errno {
        let mut outcome = Errno::ENOENT;
        for candidate in &self.candidates {
            match sys::execute(candidate, &self.arguments, &self.environment) {
                Errno::EACCES => outcome = Errno::EACCES,
                Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE | Errno::ETIMEDOUT => {}
                other => return other,
            }
        }
        outcome
    }
}

/// The paths at which `name` may be.
fn candidates(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    path.split(|byte| *byte == b':')
        .map(|directory| match directory {
            // POSIX: an empty element is the current directory.
            b"" => [b"./", name].concat(),
            directory => [directory, b"/", name].concat(),
        })
        .collect()
}

/// The standard streams of the child.
enum Streams {
    /// One terminal for all three.
    Terminal(OwnedFd),
    /// stdin, stdout, stderr.
    Pipes([OwnedFd; 3]),
}

impl Streams {
    fn open(stdio: Stdio, descriptors: Vec<OwnedFd>) -> Result<(Self, Option<OwnedFd>), Failure> {
        let wrong_count = |_| Failure::new(ExecStage::Fork, Errno::EBADF);
        match stdio {
            Stdio::Pty { cols, rows } => {
                let [] = <[OwnedFd; 0]>::try_from(descriptors).map_err(wrong_count)?;
                let (master, slave) = open_pty(cols, rows).at(ExecStage::Pty)?;
                Ok((Self::Terminal(slave), Some(master)))
            }
            Stdio::Slave => {
                let [slave] = <[OwnedFd; 1]>::try_from(descriptors).map_err(wrong_count)?;
                no_foreign_directory(&slave)?;
                Ok((Self::Terminal(slave), None))
            }
            Stdio::Pipes => {
                let pipes = <[OwnedFd; 3]>::try_from(descriptors).map_err(wrong_count)?;
                pipes.iter().try_for_each(no_foreign_directory)?;
                Ok((Self::Pipes(pipes), None))
            }
        }
    }

    fn numbers(&self) -> [RawFd; 3] {
        match self {
            Self::Terminal(slave) => [slave.as_raw_fd(); 3],
            Self::Pipes(pipes) => [0, 1, 2].map(|index: usize| pipes[index].as_raw_fd()),
        }
    }
}

/// A directory of another mount namespace would be a way out of this one.
fn no_foreign_directory(stream: &OwnedFd) -> Result<(), Failure> {
    let found = fstat(stream).at(ExecStage::Session)?;
    if found.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return Ok(());
    }
    let mounts = Mounts::read().at(ExecStage::Session)?;
    if mounts.hold(stream.as_fd()).at(ExecStage::Session)? {
        return Ok(());
    }
    Err(Failure::new(ExecStage::Session, Errno::EBADF))
}

fn open_pty(cols: u16, rows: u16) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = open("/dev/ptmx", flags, Mode::empty())?;
    let slave = sys::open_slave(master.as_fd(), cols, rows)?;
    let mut modes = tcgetattr(&slave)?;
    modes.input_flags |= InputFlags::IUTF8;
    tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
    Ok((master, slave))
}

/// In the child: streams at 0 to 2, the report after them, then the supervisor's socket where there
/// is one, nothing else open.
fn arrange_descriptors(
    streams: &Streams,
    report: RawFd,
    supervisor: Option<RawFd>,
) -> Result<(), Failure> {
    // All of the guard's descriptors are above 2, so the streams cannot run over each other;
    // the report goes to its number when their originals are no longer needed.
    for (number, source) in (0..).zip(streams.numbers()) {
        sys::duplicate_onto(source, number).at(ExecStage::Session)?;
    }
    let Some(supervisor) = supervisor else {
        sys::duplicate_cloexec_onto(report, REPORT).at(ExecStage::Session)?;
        return sys::close_range(REPORT.unsigned_abs() + 1, u32::MAX).at(ExecStage::Session);
    };
    // Either may stand where the other is to go.
    let aside = sys::duplicate_above(supervisor, SUPERVISOR + 1).at(ExecStage::Session)?;
    let report = sys::duplicate_above(report, SUPERVISOR + 1).at(ExecStage::Session)?;
    sys::duplicate_cloexec_onto(report, REPORT).at(ExecStage::Session)?;
    sys::duplicate_cloexec_onto(aside, SUPERVISOR).at(ExecStage::Session)?;
    sys::close_range(SUPERVISOR.unsigned_abs() + 1, u32::MAX).at(ExecStage::Session)
}

/// In the child: everything else up to and with execve(2). Comes back only with a failure.
fn become_program(program: &Program, streams: &Streams, confinement: &Confinement) -> Failure {
    match prepare(program, streams, confinement) {
        Ok(()) => Failure::new(ExecStage::Program, program.execute()),
        Err(failure) => failure,
    }
}

fn prepare(program: &Program, streams: &Streams, confinement: &Confinement) -> Result<(), Failure> {
    setsid().at(ExecStage::Session)?;
    match streams {
        Streams::Terminal(_) => sys::take_controlling_terminal(0).at(ExecStage::Session)?,
        Streams::Pipes(_) => {}
    }
    if let Some(guard) = confinement.die_with {
        prctl::set_pdeathsig(Signal::SIGKILL).at(ExecStage::Session)?;
        if getppid() != guard {
            // The guard went before the request above: nothing would end this program.
            return Err(Failure::new(ExecStage::Session, Errno::ECHILD));
        }
    }
    for (resource, soft, hard) in &confinement.limits {
        setrlimit(*resource, *soft, *hard).at(ExecStage::Session)?;
    }
    if confinement.supervisor.is_some() {
        // The kernel writes a core file wherever it finds the name, and asks no supervisor.
        setrlimit(Resource::RLIMIT_CORE, 0, 0).at(ExecStage::Session)?;
    }
    chdir(program.directory.as_c_str()).at(ExecStage::Cwd)?;
    sys::reset_signal_dispositions();
    let supervisor = confinement.supervisor.as_ref();
    let supervisor = supervisor.map(|_| (SUPERVISOR, supervise::PAYLOAD));
    load_seccomp(&confinement.seccomp, supervisor).at(ExecStage::Seccomp)?;
    SigSet::empty().thread_set_mask().at(ExecStage::Session)
}

/// Loads the programs, in order, into this process; with a supervisor, the last one with a listener
/// that is sent to its socket with a word. Should it not get there, the waiting calls fail with
/// ENOSYS.
pub(crate) fn load_seccomp(
    programs: &[SeccompProgram],
    supervisor: Option<(RawFd, u8)>,
) -> Result<(), Errno> {
    let Some((last, others)) = programs.split_last() else {
        return Ok(());
    };
    prctl::set_no_new_privs()?;
    others.iter().try_for_each(SeccompProgram::load)?;
    let Some((socket, word)) = supervisor else {
        return last.load();
    };
    let listener = last.load_with_listener()?;
    // What is left open here closes at execve(2).
    supervise::send_descriptor(socket, word, listener)
}

/// Reads the report of a child: `None` while it is still on its way, `Some(Ok)` once its
/// program runs.
pub(crate) fn read_report(report: &OwnedFd) -> Option<Result<(), Failure>> {
    let mut bytes = [0; FAILURE_BYTES];
    match nix::unistd::read(report, &mut bytes) {
        Ok(0) => Some(Ok(())),
        Ok(_) => Some(Err(decode_failure(bytes))),
        Err(Errno::EINTR | Errno::EAGAIN) => None,
        Err(errno) => Some(Err(Failure::new(ExecStage::Fork, errno))),
    }
}

const FAILURE_BYTES: usize = 5;

fn encode_failure(failure: Failure) -> [u8; FAILURE_BYTES] {
    let stage = match failure.stage {
        ExecStage::Pty => 0,
        ExecStage::Fork => 1,
        ExecStage::Session => 2,
        ExecStage::Cwd => 3,
        ExecStage::Seccomp => 4,
        ExecStage::Program => 5,
    };
    let [a, b, c, d] = (failure.errno as i32).to_ne_bytes();
    [stage, a, b, c, d]
}

fn decode_failure([stage, a, b, c, d]: [u8; FAILURE_BYTES]) -> Failure {
    let stage = match stage {
        0 => ExecStage::Pty,
        1 => ExecStage::Fork,
        2 => ExecStage::Session,
        3 => ExecStage::Cwd,
        4 => ExecStage::Seccomp,
        _ => ExecStage::Program,
    };
    Failure::new(stage, Errno::from_raw(i32::from_ne_bytes([a, b, c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(argv: &[&[u8]], cwd: &[u8], env: &[(&[u8], &[u8])]) -> Exec {
        Exec {
            id: 1,
            argv: argv.iter().map(|word| word.to_vec()).collect(),
            cwd: cwd.to_vec(),
            env: env
                .iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect(),
            stdio: Stdio::Pipes,
            service: false,
        }
    }

    fn refusal(exec: &Exec) -> Option<Failure> {
        Program::new(exec).err()
    }

    #[test]
    fn a_name_is_looked_up_in_each_directory_and_a_path_is_not() {
        let found = candidates(b"ls", b"/a::/b/");
        assert_eq!(found, [&b"/a/ls"[..], b"./ls", b"/b//ls"]);
        assert_eq!(candidates(b"./ls", b"/a"), [b"./ls"]);
        assert!(candidates(b"", b"/a").is_empty());
    }

    #[test]
    fn bytes_that_no_program_can_be_given_are_refused_before_fork() {
        let program = Some(Failure::new(ExecStage::Program, Errno::EINVAL));
        let cwd = Some(Failure::new(ExecStage::Cwd, Errno::EINVAL));
        assert_eq!(refusal(&exec(&[b"a\0b"], b"/", &[])), program);
        assert_eq!(refusal(&exec(&[b"a"], b"/", &[(b"", b"x")])), program);
        assert_eq!(refusal(&exec(&[b"a"], b"/", &[(b"A=B", b"x")])), program);
        assert_eq!(refusal(&exec(&[b"a"], b"/", &[(b"A", b"x\0")])), program);
        assert_eq!(refusal(&exec(&[b"a"], b"relative", &[])), cwd);
        assert_eq!(refusal(&exec(&[b"a"], b"/a\0", &[])), cwd);
        assert_eq!(refusal(&exec(&[b"a"], b"/", &[(b"A", b"\xff=\n")])), None);
    }

    #[test]
    fn a_failure_survives_the_pipe() {
        for stage in [
            ExecStage::Pty,
            ExecStage::Fork,
            ExecStage::Session,
            ExecStage::Cwd,
            ExecStage::Seccomp,
            ExecStage::Program,
        ] {
            let failure = Failure::new(stage, Errno::ENOEXEC);
            assert_eq!(decode_failure(encode_failure(failure)), failure);
        }
    }
}

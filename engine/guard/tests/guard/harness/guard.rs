//! A running guard and the engine's end of its socket.

use super::{
    place::{Place, bubblewrap, expectation, fix_descriptors, host_setup, native_setup},
    wait_readable,
};
use kotak_guard::{
    proto::{
        Check, Event, Exec, ExecStage, ExitStatus, Process, ReadyReport, Request, Setup, Stdio,
    },
    wire::{Received, Receiver, WireError, send},
};
use std::{
    collections::VecDeque,
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, ExitStatus as ProcessStatus},
};

/// The guard under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_kotak-guard");

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

    pub(crate) fn around(socket: UnixStream, child: Child) -> Self {
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
            service: exec.service,
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
    pub(crate) fn processes(&mut self) -> Vec<Process> {
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
    pub(crate) service: bool,
}

impl<'a> Program<'a> {
    pub(crate) fn new(argv: &'a [&'a str]) -> Self {
        Self {
            argv,
            cwd: "/",
            env: &[],
            stdio: Stdio::Pipes,
            service: false,
        }
    }
}

/// The guard as bubblewrap reads it.
pub(crate) fn guard_image() -> File {
    let memory = nix::sys::memfd::memfd_create("guard", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut image = File::from(memory.unwrap());
    image.write_all(&std::fs::read(BINARY).unwrap()).unwrap();
    image.seek(SeekFrom::Start(0)).unwrap();
    image
}

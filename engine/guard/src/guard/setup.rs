//! From the first message to [`Event::Ready`] or [`Event::Refused`].

use super::{
    exec::{Confinement, load_seccomp},
    processes::Scope,
    restrict::restrict,
    sockets::{Private, open_loopback},
    supervise::{
        Supervisor,
        trial::{self, Trial},
    },
    sys::{self, Forked, SeccompProgram},
    verify::{Verified, check, verify_paths, verify_place},
};
use kotak_guard::proto::{
    Check, Expectation, LandlockPlan, PROTOCOL_VERSION, ReadyReport, Role, Setup,
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        prctl,
        resource::{Resource, getrlimit, rlim_t, setrlimit},
        stat::Mode,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, getpid},
};
use std::os::fd::{AsRawFd, OwnedFd};

/// Descriptors that the guard may use itself, where the host allows.
const OPEN_FILES: rlim_t = 65536;

/// A guard that is ready to run programs.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) report: ReadyReport,
    pub(crate) scope: Scope,
    pub(crate) confinement: Confinement,
    /// For the engine, with the report.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Where sockets may be made.
    pub(crate) private: Private,
}

/// Which of its two lives the guard leads, from its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// `native`
    Native,
    /// `host`
    Host,
}

/// Verifies, restricts and protects this process. After an error nothing has run and nothing
/// may run.
pub(crate) fn prepare(life: Life, setup: &Setup) -> Result<Ready, Check> {
    if setup.protocol != PROTOCOL_VERSION {
        return Err(check(
            "protocol",
            format!(
                "the engine speaks version {}, not {PROTOCOL_VERSION}",
                setup.protocol
            ),
        ));
    }
    let mut ready = match (life, &setup.role) {
        (Life::Native, Role::Native(expect)) => {
            let verified = verify_place(expect)?;
            native(verified, expect, setup)?
        }
        (Life::Host, Role::Host) => host(setup)?,
        (Life::Native, Role::Host) | (Life::Host, Role::Native(_)) => {
            return Err(check("role", "the command line and the set-up disagree"));
        }
    };
    protect_self(&mut ready.confinement)?;
    Ok(ready)
}

fn native(verified: Verified, expect: &Expectation, setup: &Setup) -> Result<Ready, Check> {
    let private = Private::find(&expect.private)?;
    let mut report = ReadyReport {
        passed: verified.passed,
        cap_eff: verified.cap_eff,
        landlock_abi: sys::landlock_abi(),
        ..ReadyReport::default()
    };
    let mut descriptors = Vec::new();
    if let Some(plan) = &setup.loopback {
        let (opened, found) = open_loopback(plan)?;
        descriptors = opened;
        report.passed.push(found);
    }
    if setup.hand_over_mounts {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let own = open("/proc/self/ns/mnt", flags, Mode::empty());
        descriptors.push(own.map_err(failed("mount-namespace"))?);
    }
    restrict(setup.landlock, setup.exec.as_ref(), &mut report)?;
    let seccomp: Vec<_> = setup
        .seccomp
        .iter()
        .map(|list| SeccompProgram::new(list))
        .collect();
    // The trial runs while the paths are looked at.
    let supervised = supervise(setup, &seccomp, &expect.private)?;
    report.passed.extend(verify_paths(expect)?);
    let supervisor = match supervised {
        Some((supervisor, trial)) => {
            report.passed.push(trial.end(&supervisor)?);
            report.files_supervised = true;
            Some(supervisor)
        }
        None => None,
    };
    report.seccomp_programs = u32::try_from(seccomp.len()).unwrap_or(u32::MAX);
    let confinement = Confinement {
        seccomp,
        supervisor,
        die_with: None,
        limits: Vec::new(),
    };
    Ok(Ready {
        report,
        scope: Scope::Namespace,
        confinement,
        descriptors,
        private,
    })
}

fn host(setup: &Setup) -> Result<Ready, Check> {
    // Without a sandbox nothing is restricted, and nobody may believe it is.
    if setup.landlock != LandlockPlan::default()
        || !setup.seccomp.is_empty()
        || setup.loopback.is_some()
        || setup.hand_over_mounts
        || setup.files.is_some()
        || setup.exec.is_some()
    {
        return Err(check(
            "role",
            "a session without a sandbox cannot be restricted",
        ));
    }
    prctl::set_child_subreaper(true).map_err(failed("subreaper"))?;
    let report = ReadyReport {
        landlock_abi: sys::landlock_abi(),
        ..ReadyReport::default()
    };
    let confinement = Confinement {
        seccomp: Vec::new(),
        supervisor: None,
        die_with: Some(getpid()),
        limits: Vec::new(),
    };
    Ok(Ready {
        report,
        scope: Scope::Descendants,
        confinement,
        descriptors: Vec::new(),
        private: Private::default(),
    })
}

fn failed(name: &'static str) -> impl Fn(Errno) -> Check {
    move |errno| check(name, errno.to_string())
}

/// Starts the supervisor and the proof that it works, where anything is to be supervised; else only
/// loads the programs on trial.
fn supervise(
    setup: &Setup,
    seccomp: &[SeccompProgram],
    private: &[Vec<u8>],
) -> Result<Option<(Supervisor, Trial)>, Check> {
    const NAME: &str = "files";
    let waits = seccomp
        .last()
        .is_some_and(SeccompProgram::has_waiting_calls);
    let early = seccomp.iter().rev().skip(1);
    if early.clone().any(SeccompProgram::has_waiting_calls) {
        return Err(check(
            NAME,
            "only the last seccomp program may let calls wait",
        ));
    }
    match (&setup.files, waits) {
        (None, false) => {
            try_seccomp(seccomp).map_err(|detail| check("seccomp", detail))?;
            Ok(None)
        }
        (Some(_), false) => Err(check(NAME, "no seccomp program lets calls wait")),
        (None, true) => Err(check(NAME, "calls are to wait, and no rules are there")),
        (Some(rules), true) => {
            let private = private
                .first()
                .ok_or_else(|| check(NAME, "no private directory to try the rules in"))?;
            let rules_of_trial = trial::rules(private);
            let supervisor = Supervisor::start(rules, setup.exec.as_ref(), &rules_of_trial)?;
            let trial = supervisor.try_out(seccomp, private)?;
            Ok(Some((supervisor, trial)))
        }
    }
}

/// Loads the programs in a child that does nothing else, so that a program which the kernel
/// does not take is a refusal now and not a failure of each exec.
fn try_seccomp(programs: &[SeccompProgram]) -> Result<(), String> {
    if programs.is_empty() {
        return Ok(());
    }
    let child = match sys::fork().map_err(|errno| format!("fork: {errno}"))? {
        Forked::Child => sys::exit_now(match load_seccomp(programs, None) {
            Ok(()) => 0,
            // Errnos for this are small: EINVAL, EACCES, ENOMEM.
            Err(errno) => (errno as i32).clamp(1, 255),
        }),
        Forked::Parent(child) => Pid::from_raw(child),
    };
    loop {
        return match waitpid(child, None) {
            Err(Errno::EINTR) => continue,
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, code)) => Err(format!(
                "the kernel does not take it: {}",
                Errno::from_raw(code)
            )),
            Ok(other) => Err(format!("the trial ended with {other:?}")),
            Err(errno) => Err(format!("the trial cannot be awaited: {errno}")),
        };
    }
}

/// Hides this process from those it will run, and lets go of the streams of whoever started it.
fn protect_self(confinement: &mut Confinement) -> Result<(), Check> {
    // Soft limits alone: programs get them back, and an ordinary user cannot raise hard ones.
    for (resource, wanted) in [
        (Resource::RLIMIT_CORE, 0),
        // Each program on its way to execve(2) costs the guard a descriptor.
        (Resource::RLIMIT_NOFILE, OPEN_FILES),
    ] {
        let (soft, hard) = getrlimit(resource).map_err(failed("limits"))?;
        confinement.limits.push((resource, soft, hard));
        setrlimit(resource, wanted.min(hard), hard).map_err(failed("limits"))?;
    }
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(failed("streams"))?;
    for number in 0..=2 {
        sys::duplicate_onto(null.as_raw_fd(), number).map_err(failed("streams"))?;
    }
    prctl::set_dumpable(false).map_err(failed("self-protection"))
}

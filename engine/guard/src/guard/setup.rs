//! From the first message to [`Event::Ready`] or [`Event::Refused`].

use super::{
    exec::{Confinement, load_seccomp},
    processes::Scope,
    sockets::{Private, open_loopback},
    sys::{self, Forked, SeccompProgram},
    verify::{Verified, check, verify},
};
use kotak_guard::proto::{Check, LandlockPlan, PROTOCOL_VERSION, ReadyReport, Role, Setup};
use landlock::{
    CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope as LandlockScope,
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

/// First ABI with scopes (landlock(7)).
const SCOPES_ABI: u32 = 6;

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
            let verified = verify(expect)?;
            native(verified, Private::find(&expect.private)?, setup)?
        }
        (Life::Host, Role::Host) => host(setup)?,
        (Life::Native, Role::Host) | (Life::Host, Role::Native(_)) => {
            return Err(check("role", "the command line and the set-up disagree"));
        }
    };
    protect_self(&mut ready.confinement)?;
    Ok(ready)
}

fn native(verified: Verified, private: Private, setup: &Setup) -> Result<Ready, Check> {
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
    apply_landlock(setup.landlock, &mut report)?;
    let seccomp: Vec<_> = setup
        .seccomp
        .iter()
        .map(|list| SeccompProgram::new(list))
        .collect();
    try_seccomp(&seccomp).map_err(|detail| check("seccomp", detail))?;
    report.seccomp_programs = u32::try_from(seccomp.len()).unwrap_or(u32::MAX);
    let confinement = Confinement {
        seccomp,
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

fn apply_landlock(plan: LandlockPlan, report: &mut ReadyReport) -> Result<(), Check> {
    const NAME: &str = "landlock";
    if !plan.scope_abstract_unix && !plan.scope_signal {
        return Ok(());
    }
    if report.landlock_abi < SCOPES_ABI {
        let detail = format!(
            "scopes need Landlock ABI {SCOPES_ABI}, this kernel has {}",
            report.landlock_abi
        );
        if plan.required {
            return Err(check(NAME, detail));
        }
        report
            .passed
            .push(check(NAME, format!("not in force: {detail}")));
        return Ok(());
    }
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let wanted = [
        (plan.scope_abstract_unix, LandlockScope::AbstractUnixSocket),
        (plan.scope_signal, LandlockScope::Signal),
    ];
    for scope in wanted
        .into_iter()
        .filter_map(|(wanted, scope)| wanted.then_some(scope))
    {
        ruleset = ruleset
            .scope(scope)
            .map_err(|error| check(NAME, error.to_string()))?;
    }
    let status = ruleset
        .create()
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| check(NAME, error.to_string()))?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        return Err(check(NAME, format!("{:?}", status.ruleset)));
    }
    report.abstract_unix_scoped = plan.scope_abstract_unix;
    report.signals_scoped = plan.scope_signal;
    report.passed.push(check(NAME, "in force"));
    Ok(())
}

/// Loads the programs in a child that does nothing else, so that a program which the kernel
/// does not take is a refusal now and not a failure of each exec.
fn try_seccomp(programs: &[SeccompProgram]) -> Result<(), String> {
    if programs.is_empty() {
        return Ok(());
    }
    let child = match sys::fork().map_err(|errno| format!("fork: {errno}"))? {
        Forked::Child => sys::exit_now(match load_seccomp(programs) {
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

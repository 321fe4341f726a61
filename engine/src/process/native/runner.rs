//! The runner: bubblewrap, from its start to its end.

use super::descriptors::{pipe, sealed_memfd};
use crate::backend::{FD_CONTROL, FD_GUARD, FD_GUARD_COPY, FD_RESOLVER, FD_STATUS, NativePlan};
use crate::process::cgroup::SessionCgroup;
use crate::process::child::{Child, ChildEnd, OnDrop};
use crate::process::collect::Collected;
use crate::process::guard_link::GuardLink;
use crate::process::tree::control_pair;
use crate::process::{LaunchError, Spawner, guard_image};
use crate::spec::AbsPath;
use crate::sys::spawn::{ChildPlan, Image, OnSpawnerDeath};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// After the runner's death: how long its pipes may stay open in something that it left behind.
const LAST_WORDS: Duration = Duration::from_secs(1);

const STDERR_KEPT: usize = 64 * 1024;
const STATUS_KEPT: usize = 64 * 1024;

/// A runner that was started and has proved nothing yet.
#[derive(Debug)]
pub(super) struct Launching {
    pub(super) link: GuardLink,
    pub(super) child: Child,
    pub(super) status: Collected,
    stderr: Collected,
    pub(super) cgroup: Option<SessionCgroup>,
}

/// Starts the runner of a plan.
pub(super) async fn start(spawner: &Spawner, plan: &NativePlan) -> Result<Launching, LaunchError> {
    let mut fds = Vec::new();
    if let Some(resolver) = &plan.resolver {
        fds.push((sealed_memfd(resolver)?, FD_RESOLVER));
    }
    for block in &plan.blocks {
        fds.push((sealed_memfd(&block.bytes())?, block.fd));
    }
    start_with(spawner, &plan.bwrap, &plan.argv, fds).await
}

/// Starts a runner with its arguments after `argv[0]`, and descriptors besides the ones that each
/// has.
pub(super) async fn start_with(
    spawner: &Spawner,
    bwrap: &AbsPath,
    argv: &[Vec<u8>],
    mut fds: Vec<(OwnedFd, i32)>,
) -> Result<Launching, LaunchError> {
    let (own, control) = control_pair()?;
    let (status, status_child) = pipe()?;
    let (stderr, stderr_child) = pipe()?;
    let null = || super::super::null().map_err(LaunchError::descriptor("/dev/null"));
    let guard = || guard_image::open().map_err(LaunchError::GuardImage);
    fds.extend([
        (null()?, 0),
        (null()?, 1),
        (stderr_child, 2),
        (status_child, FD_STATUS),
        (guard()?, FD_GUARD_COPY),
        (guard()?, FD_GUARD),
        (control, FD_CONTROL),
    ]);
    let bwrap = bwrap.to_path_buf();
    let cgroup = SessionCgroup::create();
    let name = bwrap.as_os_str().as_bytes().to_vec();
    let child = ChildPlan {
        image: Image::Path(c_string(bwrap.as_os_str())?),
        argv: std::iter::once(&name)
            .chain(argv)
            .map(|argument| c_string(OsStr::from_bytes(argument)))
            .collect::<Result<_, _>>()?,
        env: Vec::new(),
        fds,
        on_spawner_death: OnSpawnerDeath::Kill,
        cgroup: cgroup.as_ref().and_then(SessionCgroup::handle),
    };
    let spawned = spawner.spawn(child).await.map_err(|error| match error {
        LaunchError::Spawn(cause) if is_gone(&cause) => LaunchError::BwrapMissing {
            path: bwrap.clone(),
            cause,
        },
        other => other,
    })?;
    let cgroup = cgroup.filter(|_| spawned.in_cgroup);
    Ok(Launching {
        cgroup,
        child: Child::watch(spawned, OnDrop::Kill)
            .map_err(LaunchError::descriptor("a process watch"))?,
        link: GuardLink::new(own).map_err(LaunchError::descriptor("a control socket"))?,
        status: Collected::start(status, STATUS_KEPT).map_err(LaunchError::descriptor("a pipe"))?,
        stderr: Collected::start(stderr, STDERR_KEPT).map_err(LaunchError::descriptor("a pipe"))?,
    })
}

impl Launching {
    /// Kills the runner and all of its process group; the guard dies with its parent and by the
    /// end of its socket.
    pub(super) async fn kill(&self) -> ChildEnd {
        // Not waited for yet, so the process id cannot be anybody else's: it led its own session.
        if !self.child.has_ended() {
            let group = nix::unistd::Pid::from_raw(self.child.pid());
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
        self.child.kill();
        let end = self.child.wait().await;
        self.clear().await;
        // Its last process is gone when nobody holds this pipe: until then it may still mount.
        let _ = tokio::time::timeout(LAST_WORDS, self.stderr.to_end()).await;
        end
    }

    /// Ends what the runner left in its cgroup, and removes that.
    async fn clear(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
            cgroup.remove().await;
        }
    }

    /// What a runner that ended before its guard spoke has to say.
    pub(super) async fn failed(self, reason: &str) -> LaunchError {
        // It closes its socket before it ends, so give it the time to end by itself.
        let status = match tokio::time::timeout(LAST_WORDS, self.child.wait()).await {
            Ok(ChildEnd::Code(code)) => Some(code),
            Ok(ChildEnd::Signal(_) | ChildEnd::Unknown) => None,
            Err(_) => {
                self.kill().await;
                None
            }
        };
        self.clear().await;
        let words = tokio::time::timeout(LAST_WORDS, self.stderr.to_end()).await;
        let stderr =
            String::from_utf8_lossy(&words.unwrap_or_else(|_| self.stderr.bytes())).into_owned();
        let reason = match stderr.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => one_line(line),
            None => match status {
                Some(code) => format!("it ended with status {code} and said nothing"),
                None => reason.to_owned(),
            },
        };
        LaunchError::BwrapFailed {
            reason,
            stderr,
            status,
        }
    }
}

/// A line that a runner wrote, bounded, without control characters.
fn one_line(line: &str) -> String {
    line.trim()
        .chars()
        .take(300)
        .map(|character| {
            if character.is_control() {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect()
}

fn c_string(text: &OsStr) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes())
        .map_err(|_| LaunchError::Spawn(io::Error::from(io::ErrorKind::InvalidInput)))
}

fn is_gone(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    )
}

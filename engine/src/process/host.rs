//! Sessions without a sandbox: the guard as a watcher on the host (REQ NO-1).

use super::cgroup::SessionCgroup;
use super::child::{Child, OnDrop};
use super::collect::Collected;
use super::guard_link::{GuardLink, SetupFailure};
use super::tree::{Root, Secrets, Tree, control_pair};
use super::{LaunchError, Spawner, guard_image};
use crate::sys::spawn::{ChildPlan, Image, OnSpawnerDeath};
use kotak_guard::proto::{LandlockPlan, PROTOCOL_VERSION, Role, Setup};
use nix::fcntl::OFlag;
use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(10);
const STDERR_KEPT: usize = 16 * 1024;
/// The control socket's number in the watcher.
const FD_CONTROL: i32 = 13;

/// Starts the watcher of a session without a sandbox.
pub async fn launch() -> Result<Tree, LaunchError> {
    let spawner = Spawner::shared().map_err(LaunchError::Spawn)?;
    let image = guard_image::open().map_err(LaunchError::GuardImage)?;
    let (own, control) = control_pair()?;
    let (stderr, stderr_child) = nix::unistd::pipe2(OFlag::O_CLOEXEC)
        .map_err(io::Error::from)
        .map_err(LaunchError::descriptor("a pipe"))?;
    let null = || super::null().map_err(LaunchError::descriptor("/dev/null"));
    let cgroup = SessionCgroup::create();
    let plan = ChildPlan {
        image: Image::Fd(image),
        argv: vec![
            c"kotak-guard".to_owned(),
            c"host".to_owned(),
            c"13".to_owned(),
        ],
        env: Vec::new(),
        fds: vec![
            (null()?, 0),
            (null()?, 1),
            (stderr_child, 2),
            (control, FD_CONTROL),
        ],
        // It must outlive the engine long enough to end what it watches.
        on_spawner_death: OnSpawnerDeath::Nothing,
        cgroup: cgroup.as_ref().and_then(SessionCgroup::handle),
    };
    let spawned = spawner.spawn(plan).await?;
    let mut cgroup = cgroup.filter(|_| spawned.in_cgroup);
    let child =
        Child::watch(spawned, OnDrop::Leave).map_err(LaunchError::descriptor("a process watch"))?;
    let stderr =
        Collected::start(stderr, STDERR_KEPT).map_err(LaunchError::descriptor("a pipe"))?;
    let link = GuardLink::new(own).map_err(LaunchError::descriptor("a control socket"))?;
    let setup = Setup {
        protocol: PROTOCOL_VERSION,
        role: Role::Host,
        landlock: LandlockPlan::default(),
        seccomp: Vec::new(),
        files: None,
        exec: None,
        loopback: None,
        hand_over_mounts: false,
    };
    match tokio::time::timeout(DEADLINE, link.setup(setup)).await {
        Ok(Ok((report, _))) => {
            if let Some(cgroup) = &mut cgroup {
                cgroup.keep_awake(child.pid(), child.pid());
            }
            Ok(Tree {
                cgroup,
                link,
                child,
                root: Root::Subreaper,
                report,
                next_exec: AtomicU64::new(1),
                network: None,
                secrets: Secrets::None,
            })
        }
        // It has run nothing, so nothing is lost by killing it.
        Ok(Err(SetupFailure::Refused(check))) => {
            child.kill();
            child.wait().await;
            clear(cgroup).await;
            Err(LaunchError::GuardRefused(check))
        }
        Ok(Err(SetupFailure::Closed(closed))) => {
            child.kill();
            let end = child.wait().await;
            clear(cgroup).await;
            let wrote = String::from_utf8_lossy(&stderr.to_end().await)
                .trim()
                .to_owned();
            let reason = if wrote.is_empty() {
                format!("{} ({end:?})", closed.reason)
            } else {
                wrote
            };
            Err(LaunchError::WatcherFailed { reason })
        }
        Err(_) => {
            child.kill();
            child.wait().await;
            clear(cgroup).await;
            Err(LaunchError::Timeout {
                seconds: DEADLINE.as_secs(),
            })
        }
    }
}

/// Removes the cgroup of a watcher that never came to watch anything.
async fn clear(cgroup: Option<SessionCgroup>) {
    if let Some(cgroup) = cgroup {
        cgroup.remove().await;
    }
}

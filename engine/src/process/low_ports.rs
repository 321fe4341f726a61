//! Ports inside that need a capability there: a helper of a moment opens them (the guard's program
//! as `kotak-guard helper`) and is gone before the session is ready.
//!
//! It cannot where the sandbox's user namespace is not this user's, as under a bubblewrap that is
//! installed setuid root, where the kernel is older than 4.9 (ioctl_ns(2)), or where a security
//! module or a container's filter forbids setns(2). Then the report names the gap.

use super::child::{Child, OnDrop};
use super::sockets::{DirectSockets, Listener};
use super::tree::control_pair;
use super::{LaunchError, Spawner, guard_image};
use crate::backend::{TRANSPARENT_PORTS, low_ports};
use crate::error::Coded;
use crate::sys::spawn::{ChildPlan, Image, OnSpawnerDeath};
use kotak_guard::proto::{HelperAnswer, HelperRequest, HelperStep};
use kotak_guard::wire::{WireError, recv, send};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How long a helper may take to start, and how long to answer; it makes a dozen system calls.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// The control socket's number in the helper.
const FD_CONTROL: i32 = 13;

/// Why low ports are not open inside.
#[derive(Debug, thiserror::Error)]
pub(super) enum LowPortsError {
    /// The helper did not start.
    #[error("the helper cannot be started: {}", .0.problem().message)]
    Start(#[source] LaunchError),
    /// A step of it failed.
    #[error("{}: {cause}", step_words(*step))]
    Step {
        /// Which.
        step: HelperStep,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// Its answer makes no sense.
    #[error("the helper failed: {0}")]
    Broken(String),
    /// No answer in time.
    #[error("the helper did not answer within {} s", DEADLINE.as_secs())]
    Timeout,
}

fn step_words(step: HelperStep) -> String {
    match step {
        HelperStep::Request => "the helper refused the request".to_owned(),
        HelperStep::Owner => "the user namespace of its network cannot be found".to_owned(),
        HelperStep::JoinUser => "its user namespace cannot be joined".to_owned(),
        HelperStep::JoinNetwork => "its network namespace cannot be joined".to_owned(),
        HelperStep::Route => "the address pool cannot be routed".to_owned(),
        HelperStep::Bind(port) => format!("port {port} cannot be bound inside"),
    }
}

/// By the order of [`low_ports`].
fn arrange(sockets: Vec<OwnedFd>) -> io::Result<DirectSockets> {
    let few = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut sockets = sockets.into_iter();
    let dns_udp = std::net::UdpSocket::from(sockets.next().ok_or_else(few)?);
    dns_udp.set_nonblocking(true)?;
    let dns_tcp = Listener::tcp(sockets.next().ok_or_else(few)?)?;
    let mut transparent = Vec::with_capacity(TRANSPARENT_PORTS.len());
    for port in TRANSPARENT_PORTS {
        transparent.push((port, Listener::tcp(sockets.next().ok_or_else(few)?)?));
    }
    Ok(DirectSockets {
        dns_udp: tokio::net::UdpSocket::from_std(dns_udp)?,
        dns_tcp,
        transparent,
    })
}

/// A helper that waits for its request. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    control: OwnedFd,
}

impl Helper {
    /// Starts one, which may take so long. It can begin while the sandbox is still being built.
    pub(super) async fn start(deadline: Duration) -> Result<Self, LowPortsError> {
        let (own, control) = control_pair().map_err(LowPortsError::Start)?;
        let child = within(deadline, start_helper(c"helper", control)).await?;
        Ok(Self {
            child,
            control: own,
        })
    }

    /// Opens what programs that ignore proxies need.
    pub(super) async fn open_direct(
        self,
        network: &OwnedFd,
    ) -> Result<DirectSockets, LowPortsError> {
        let sockets = self.open(network, low_ports()).await?;
        arrange(sockets).map_err(|error| LowPortsError::Broken(error.to_string()))
    }

    /// Has it do one thing, and waits for its end.
    pub(super) async fn open(
        self,
        network: &OwnedFd,
        request: HelperRequest,
    ) -> Result<Vec<OwnedFd>, LowPortsError> {
        let broken = |error: io::Error| LowPortsError::Broken(error.to_string());
        let Self { child, control } = self;
        let wanted = request.sockets.len();
        let network = network.try_clone().map_err(broken)?;
        let exchange = tokio::task::spawn_blocking(move || {
            send(&control, &request, &[network.as_fd()])?;
            recv::<HelperAnswer>(&control)
        });
        let answer = tokio::time::timeout(DEADLINE, exchange).await;
        // It ends by itself once it has answered; whatever it does, it does not outlive this.
        if tokio::time::timeout(DEADLINE, child.wait()).await.is_err() || answer.is_err() {
            child.kill();
            child.wait().await;
        }
        match answer {
            Err(_) => Err(LowPortsError::Timeout),
            Ok(Err(join)) => Err(LowPortsError::Broken(join.to_string())),
            Ok(Ok(answer)) => understand(answer, wanted),
        }
    }
}

fn understand(
    answer: Result<Option<(HelperAnswer, Vec<OwnedFd>)>, WireError>,
    wanted: usize,
) -> Result<Vec<OwnedFd>, LowPortsError> {
    match answer {
        Ok(Some((HelperAnswer::Bound, sockets))) if sockets.len() == wanted => Ok(sockets),
        Ok(Some((HelperAnswer::Bound, _))) => Err(LowPortsError::Broken(
            "its answer holds the wrong descriptors".to_owned(),
        )),
        Ok(Some((HelperAnswer::Failed { step, errno }, _))) => Err(LowPortsError::Step {
            step,
            cause: io::Error::from_raw_os_error(errno),
        }),
        Ok(None) => Err(LowPortsError::Broken("it ended without a word".to_owned())),
        Err(error) => Err(LowPortsError::Broken(error.to_string())),
    }
}

/// What is started in time.
async fn within<T>(
    deadline: Duration,
    starting: impl Future<Output = Result<T, LaunchError>>,
) -> Result<T, LowPortsError> {
    match tokio::time::timeout(deadline, starting).await {
        Ok(started) => started.map_err(LowPortsError::Start),
        Err(_) => Err(LowPortsError::Timeout),
    }
}

/// Starts the guard's program on the host, in one of its modes for a moment's help.
pub(super) async fn start_helper(mode: &CStr, control: OwnedFd) -> Result<Child, LaunchError> {
    let spawner = Spawner::shared().map_err(LaunchError::Spawn)?;
    let image = guard_image::open().map_err(LaunchError::GuardImage)?;
    let null = || super::null().map_err(LaunchError::descriptor("/dev/null"));
    let plan = ChildPlan {
        image: Image::Fd(image),
        argv: vec![c"kotak-guard".to_owned(), mode.to_owned(), c"13".to_owned()],
        env: Vec::new(),
        fds: vec![
            (null()?, 0),
            (null()?, 1),
            (null()?, 2),
            (control, FD_CONTROL),
        ],
        on_spawner_death: OnSpawnerDeath::Kill,
        cgroup: None,
    };
    let spawned = spawner.spawn(plan).await?;
    Child::watch(spawned, OnDrop::Kill).map_err(LaunchError::descriptor("a process watch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_hosts_own_network_is_refused_by_name() {
        let own = OwnedFd::from(std::fs::File::open("/proc/self/ns/net").unwrap());
        let helper = Helper::start(DEADLINE).await.unwrap();
        let refused = helper.open_direct(&own).await.unwrap_err();
        assert!(
            matches!(
                refused,
                LowPortsError::Step {
                    step: HelperStep::Request,
                    ..
                }
            ),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_start_that_never_comes_is_given_up() {
        let never = within(Duration::ZERO, std::future::pending::<Result<(), _>>()).await;
        assert!(matches!(never, Err(LowPortsError::Timeout)));
        // The control.
        assert!(within(DEADLINE, async { Ok(()) }).await.is_ok());
    }

    #[test]
    fn an_answer_with_too_few_sockets_is_none() {
        let bound = || Ok(Some((HelperAnswer::Bound, Vec::new())));
        assert!(understand(bound(), 1).is_err());
        assert!(understand(bound(), 0).is_ok());
        assert!(understand(Ok(None), 0).is_err());
        let errno = libc::EPERM;
        let step = HelperStep::JoinUser;
        let failed = understand(Ok(Some((HelperAnswer::Failed { step, errno }, vec![]))), 0);
        let words = failed.unwrap_err().to_string();
        assert!(
            words.starts_with("its user namespace cannot be joined"),
            "{words}"
        );
    }
}

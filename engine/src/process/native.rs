//! Launch of a native session: bubblewrap builds the sandbox, the guard verifies it from inside,
//! and only then is there a session. Until then no payload can run, and whatever fails, nothing
//! is left.

mod descriptors;
mod early;
mod runner;

pub use self::early::Early;

use self::descriptors::{make_room, pin};
use self::runner::start;
use super::guard_link::{GuardLink, SetupFailure};
use super::low_ports::{Helper, LowPortsError};
use super::masker::Masker;
use super::pins::Pins;
use super::relay::{FIRST_EXEC, NetworkId, RelaySockets};
use super::secret_watch::Watches;
use super::tree::{Network, Root, Secrets, Tree};
use super::{LaunchError, Listener, SecretWatch, SessionSockets, Spawner};
use crate::backend::{Bridge, BridgeChoice, NativePlan, Pin, WayIn};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a sandbox of few mounts may take to become ready.
pub const READY_DEADLINE: Duration = Duration::from_secs(10);

/// What each mount adds to it: bubblewrap reads its whole mount table again for every bind, so a
/// mount among thousands takes milliseconds, on a busy machine many.
const READY_PER_MOUNT: Duration = Duration::from_millis(50);

/// How long a sandbox of `mounts` binds may take to become ready.
fn ready_deadline(mounts: usize) -> Duration {
    READY_DEADLINE + READY_PER_MOUNT.saturating_mul(u32::try_from(mounts).unwrap_or(u32::MAX))
}

/// Launches a native session. Under a restricted network its listeners stand when this returns
/// ([`Tree::take_sockets`]): over the bridge of the plan, and by default over socat where the
/// guard's listeners cannot be handed over. A runner that was started early is used where the plan
/// is one for it.
pub async fn launch(plan: &NativePlan, early: Option<Early>) -> Result<Tree, LaunchError> {
    let wanted = match plan.bridge.choice {
        BridgeChoice::Auto => Bridge::Guard,
        BridgeChoice::Only(bridge) => bridge,
    };
    let refused = match launch_over(wanted, plan, early).await {
        Err(error) if needs_other_bridge(&error) => error,
        other => return other,
    };
    if plan.bridge.choice == BridgeChoice::Auto && plan.bridge.socat.is_some() {
        tracing::warn!(%refused, "the guard's listeners cannot be handed over; socat bridges");
        launch_over(Bridge::Socat, plan, None).await
    } else {
        Err(refused)
    }
}

/// Whether a launch failed for the guard's listeners alone.
fn needs_other_bridge(error: &LaunchError) -> bool {
    match error {
        LaunchError::Listeners { .. } => true,
        LaunchError::GuardRefused(check) => check.name == "listeners",
        _ => false,
    }
}

async fn launch_over(
    bridge: Bridge,
    plan: &NativePlan,
    early: Option<Early>,
) -> Result<Tree, LaunchError> {
    match bridge {
        // An open network needs no bridge, whatever was asked for.
        Bridge::Socat if plan.setup.loopback.is_some() => {
            if plan.bridge.socat.is_none() {
                return Err(LaunchError::SocatMissing);
            }
            let relays = RelaySockets::make(plan.bridge.run.as_ref())?;
            let plan = plan.over_socat(&relays.directory()?);
            launch_with(&plan, Some(relays), early).await
        }
        Bridge::Socat | Bridge::Guard => launch_with(plan, None, early).await,
    }
}

async fn launch_with(
    plan: &NativePlan,
    relays: Option<RelaySockets>,
    early: Option<Early>,
) -> Result<Tree, LaunchError> {
    let spawner = Spawner::shared().map_err(LaunchError::Spawn)?;
    make_room(plan.pins.len(), plan.setup.loopback.is_some())?;
    // Held until the sandbox is verified, and what failed is gone.
    let pins = Pins::hold(&plan.pins, pin)?;
    let tree = match build(spawner, plan, relays, early).await {
        Ok(tree) => tree,
        // Says best why a mount failed, or is another than was planned.
        Err(error) if may_be_moved(&error) => return Err(pins.changed().map_or(error, gone)),
        Err(error) => return Err(error),
    };
    if let Some(pin) = pins.unmasked() {
        if let Err(error) = tree.end().await {
            tracing::error!(%error, "a sandbox without its mask could not be ended");
        }
        return Err(gone(pin));
    }
    Ok(tree)
}

/// Whether a launch may have failed for a path that is not what it was.
fn may_be_moved(error: &LaunchError) -> bool {
    match error {
        LaunchError::BwrapFailed { .. } => true,
        LaunchError::GuardRefused(check) => check.name == "mount",
        _ => false,
    }
}

fn gone(pin: &Pin) -> LaunchError {
    LaunchError::SourceChanged {
        path: pin.path.to_path_buf(),
        named: pin.named,
        cause: None,
    }
}

/// Starts the runner and waits for the guard's proof. When it fails, nothing of either is left.
async fn build(
    spawner: &Spawner,
    plan: &NativePlan,
    relays: Option<RelaySockets>,
    early: Option<Early>,
) -> Result<Tree, LaunchError> {
    let launching = match early.and_then(|early| early.take_on(plan)) {
        Some(launching) => launching,
        None => start(spawner, plan).await?,
    };
    let deadline = ready_deadline(plan.pins.len());
    let proof = async {
        // The guard finds every mask that does not stand when it looks, and the watches hear of one
        // that falls afterwards: so they are set before it is asked to look.
        let watches = match plan.secrets.is_empty() {
            false => Some(Watches::set_all(&plan.secrets).await),
            true => None,
        };
        let (report, descriptors) = launching.link.setup(plan.setup.clone()).await?;
        let guard = launching.status.find(child_pid).await;
        Ok((report, descriptors, guard, watches))
    };
    // Starts beside bubblewrap's work, and waits for the network that comes of it.
    let helper = async {
        match plan.setup.loopback {
            Some(_) => Some(Helper::start(deadline).await),
            None => None,
        }
    };
    let masker = async {
        match plan.secrets.is_empty() {
            false => Some(Masker::start(deadline).await),
            true => None,
        }
    };
    let (verdict, helper, masker) =
        tokio::join!(tokio::time::timeout(deadline, proof), helper, masker);
    match verdict {
        Ok(Ok((report, mut descriptors, guard, watches))) => {
            let mounts = match plan.setup.hand_over_mounts {
                true => descriptors.pop(),
                false => None,
            };
            let secrets = async {
                match (watches, masker) {
                    (Some(watches), Some(masker)) => {
                        SecretWatch::begin(&plan.secrets, watches, masker, mounts).await
                    }
                    _ => Secrets::None,
                }
            };
            // What the runner says is used only where it can be true.
            let runner = launching.child.pid();
            let opening = open_network(plan, relays, helper, descriptors, &launching.link);
            let opening = tokio::time::timeout(deadline, opening);
            let (opened, secrets) = tokio::join!(opening, secrets);
            let network = match opened {
                Ok(Ok(network)) => network,
                Ok(Err(error)) => {
                    launching.kill().await;
                    return Err(error);
                }
                Err(_) => {
                    launching.kill().await;
                    return Err(LaunchError::Timeout {
                        seconds: deadline.as_secs(),
                    });
                }
            };
            let mut cgroup = launching.cgroup;
            if let (Some(cgroup), Some(guard)) = (&mut cgroup, guard) {
                cgroup.keep_awake(guard, runner);
            }
            Ok(Tree {
                cgroup,
                link: launching.link,
                child: launching.child,
                root: Root::Namespace,
                report,
                next_exec: AtomicU64::new(FIRST_EXEC),
                network,
                secrets,
            })
        }
        Ok(Err(SetupFailure::Refused(check))) => {
            launching.kill().await;
            Err(LaunchError::GuardRefused(check))
        }
        Ok(Err(SetupFailure::Closed(closed))) if closed.withheld => {
            launching.kill().await;
            Err(LaunchError::Listeners {
                reason: closed.reason,
            })
        }
        Ok(Err(SetupFailure::Closed(closed))) => Err(launching.failed(&closed.reason).await),
        Err(_) => {
            launching.kill().await;
            Err(LaunchError::Timeout {
                seconds: deadline.as_secs(),
            })
        }
    }
}

/// Takes over what a restricted network needs, before anything runs inside.
async fn open_network(
    plan: &NativePlan,
    relays: Option<RelaySockets>,
    helper: Option<Result<Helper, LowPortsError>>,
    descriptors: Vec<OwnedFd>,
    link: &GuardLink,
) -> Result<Option<Network>, LaunchError> {
    let (Some(loopback), Some(helper)) = (&plan.setup.loopback, helper) else {
        return Ok(None);
    };
    let lost = |found: usize| LaunchError::Listeners {
        reason: format!("{found} descriptors came"),
    };
    let mut descriptors = descriptors;
    let namespace = descriptors.pop().ok_or_else(|| lost(0))?;
    if descriptors.len() != loopback.ports.len() {
        return Err(lost(descriptors.len() + 1));
    }
    let (http, socks, bridge) = match (relays, &plan.bridge.socat) {
        (Some(relays), Some(socat)) => {
            let network = NetworkId::of(&namespace)
                .map_err(LaunchError::descriptor("the network namespace"))?;
            let (http, socks) = relays.connect(link, socat, network).await?;
            (http, socks, Bridge::Socat)
        }
        _ => {
            let [http, socks] =
                <[OwnedFd; 2]>::try_from(descriptors).map_err(|found| lost(found.len() + 1))?;
            let listener =
                |socket| Listener::tcp(socket).map_err(LaunchError::descriptor("a listener"));
            (listener(http)?, listener(socks)?, Bridge::Guard)
        }
    };
    let direct = match helper {
        Ok(helper) => helper.open_direct(&namespace).await,
        Err(error) => Err(error),
    };
    let (direct, blind) = match direct {
        Ok(direct) => (Some(direct), None),
        Err(error) => {
            tracing::warn!(%error, "DNS and low ports are not open inside");
            (None, Some(error.to_string()))
        }
    };
    Ok(Some(Network {
        way: WayIn { bridge, blind },
        namespace: Arc::new(namespace),
        sockets: Mutex::new(Some(SessionSockets {
            http,
            socks,
            direct,
            bridge,
        })),
    }))
}

/// The guard's process id on the host, from bubblewrap's `{"child-pid": N, …}` line. The status
/// comes in pieces, so only a whole line counts.
fn child_pid(status: &[u8]) -> Option<i32> {
    let end = status.iter().position(|byte| *byte == b'}')?;
    let value: serde_json::Value = serde_json::from_slice(&status[..=end]).ok()?;
    i32::try_from(value.get("child-pid")?.as_i64()?)
        .ok()
        .filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_become_ready_grows_with_the_mounts() {
        assert_eq!(ready_deadline(0), READY_DEADLINE);
        assert_eq!(ready_deadline(5_000), Duration::from_secs(260));
        assert!(ready_deadline(usize::MAX) > ready_deadline(5_000));
    }

    #[test]
    fn the_child_pid_is_read_from_a_whole_line_only() {
        assert_eq!(
            child_pid(b"{ \"child-pid\": 42, \"mnt-namespace\": 1 }\n{ \"exit-code\": 1 }"),
            Some(42)
        );
        assert_eq!(child_pid(b"{ \"child-pid\": 4"), None);
        assert_eq!(child_pid(b""), None);
        assert_eq!(child_pid(b"{ \"child-pid\": 0 }"), None);
        assert_eq!(child_pid(b"{ \"child-pid\": -1 }"), None);
    }
}

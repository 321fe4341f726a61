//! The helper of one session that puts masks back: the guard's program as `kotak-guard masks`, on
//! the host, joined to the sandbox's mount namespace.
//!
//! It lives as long as its session: starting one takes longer than everything else between a save
//! on the host and the mask over it. The mount namespace comes as a descriptor from the guard,
//! opened before any program ran inside, so no process id is used that could be recycled.
//!
//! It cannot where the sandbox's user namespace is not this user's, as under a bubblewrap that is
//! installed setuid root, or where the kernel cannot make a mount apart (Linux 5.12).

use super::LaunchError;
use super::child::Child;
use super::low_ports::start_helper;
use super::tree::control_pair;
use crate::error::Coded;
use kotak_guard::proto::{MaskAnswer, MaskRequest, MaskStep, PROTOCOL_VERSION};
use kotak_guard::wire::{recv, send};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long it may take for one answer; it makes a dozen system calls.
const DEADLINE: Duration = Duration::from_secs(5);

/// Why masks cannot be put back.
#[derive(Debug, thiserror::Error)]
pub(super) enum MaskError {
    /// The helper did not start.
    #[error("the helper cannot be started: {}", .0.problem().message)]
    Start(#[source] LaunchError),
    /// It did not start in time.
    #[error("the helper did not start in time")]
    StartTimeout,
    /// A step of it failed.
    #[error("{}: {cause}", step_words(*step))]
    Step {
        /// Which.
        step: MaskStep,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// Its answer makes no sense, or it is gone.
    #[error("the helper failed: {0}")]
    Broken(String),
    /// No answer in time.
    #[error("the helper did not answer within {} s", DEADLINE.as_secs())]
    Timeout,
}

fn step_words(step: MaskStep) -> &'static str {
    match step {
        MaskStep::Request => "the helper refused the request",
        MaskStep::Owner => "the user namespace of the sandbox's mounts cannot be found",
        MaskStep::JoinUser => "the sandbox's user namespace cannot be joined",
        MaskStep::JoinMounts => "the sandbox's mount namespace cannot be joined",
        MaskStep::Make => "a mask cannot be made",
        MaskStep::Open => "the path cannot be opened inside",
        MaskStep::Mount => "the mask cannot be mounted",
        MaskStep::Verify => "what is there is not the mask",
    }
}

/// What the helper found at a path, and left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Missing,
    /// A mask.
    AlreadyHidden,
    /// Something that could be seen; a mask hides it now.
    HiddenNow,
}

/// A helper. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Masker {
    child: Child,
    control: Arc<OwnedFd>,
}

impl Masker {
    /// Starts one, which may take so long. It can begin while the sandbox is still being built.
    pub(super) async fn start(deadline: Duration) -> Result<Self, MaskError> {
        let (own, control) = control_pair().map_err(MaskError::Start)?;
        let starting = start_helper(c"masks", control);
        let child = match tokio::time::timeout(deadline, starting).await {
            Ok(started) => started.map_err(MaskError::Start)?,
            Err(_) => return Err(MaskError::StartTimeout),
        };
        Ok(Self {
            child,
            control: Arc::new(own),
        })
    }

    /// Joins the sandbox with this mount namespace, and makes masks that it mounts nowhere.
    pub(super) async fn join(&self, mounts: OwnedFd) -> Result<(), MaskError> {
        let protocol = PROTOCOL_VERSION;
        match self
            .ask(MaskRequest::Join { protocol }, Some(mounts))
            .await?
        {
            MaskAnswer::Joined => Ok(()),
            MaskAnswer::Failed { step, errno } => Err(failed(step, errno)),
            MaskAnswer::Missing | MaskAnswer::AlreadyHidden | MaskAnswer::Hidden => {
                Err(senseless())
            }
        }
    }

    /// Hides what is at a path, unless a mask does.
    pub(super) async fn hide(&self, path: &[u8]) -> Result<Found, MaskError> {
        let path = path.to_vec();
        match self.ask(MaskRequest::Hide { path }, None).await? {
            MaskAnswer::Missing => Ok(Found::Missing),
            MaskAnswer::AlreadyHidden => Ok(Found::AlreadyHidden),
            MaskAnswer::Hidden => Ok(Found::HiddenNow),
            MaskAnswer::Failed { step, errno } => Err(failed(step, errno)),
            MaskAnswer::Joined => Err(senseless()),
        }
    }

    /// Waits until it is gone.
    pub(super) async fn gone(&self) {
        self.child.wait().await;
    }

    /// Ends it.
    pub(super) async fn end(self) {
        self.child.kill();
        self.child.wait().await;
    }

    async fn ask(
        &self,
        request: MaskRequest,
        descriptor: Option<OwnedFd>,
    ) -> Result<MaskAnswer, MaskError> {
        let control = Arc::clone(&self.control);
        let exchange = tokio::task::spawn_blocking(move || {
            let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
            send(&*control, &request, &descriptors)?;
            recv::<MaskAnswer>(&*control)
        });
        let answer = tokio::time::timeout(DEADLINE, exchange).await;
        let broken = |reason: String| MaskError::Broken(reason);
        match answer {
            Ok(Ok(Ok(Some((answer, _))))) => Ok(answer),
            Ok(Ok(Ok(None))) => Err(broken("it ended without a word".to_owned())),
            Ok(Ok(Err(error))) => Err(broken(error.to_string())),
            Ok(Err(join)) => Err(broken(join.to_string())),
            Err(_) => {
                // A late answer would be taken for that of the next request.
                self.child.kill();
                Err(MaskError::Timeout)
            }
        }
    }
}

fn failed(step: MaskStep, errno: i32) -> MaskError {
    let cause = io::Error::from_raw_os_error(errno);
    MaskError::Step { step, cause }
}

fn senseless() -> MaskError {
    MaskError::Broken("its answer belongs to another request".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_hosts_own_mounts_are_refused_by_name() {
        let own = OwnedFd::from(std::fs::File::open("/proc/self/ns/mnt").unwrap());
        let masker = Masker::start(DEADLINE).await.unwrap();
        let refused = masker.join(own).await.unwrap_err();
        let step = MaskStep::Request;
        assert!(
            matches!(refused, MaskError::Step { step: found, .. } if found == step),
            "{refused}"
        );
        // It has ended, and nothing is hidden by nobody.
        masker.gone().await;
        assert!(masker.hide(b"/etc/hostname").await.is_err());
    }
}

//! A runner that is started while its plan is still made: bubblewrap's own start, with its libraries,
//! takes as long as resolving a policy, on the other processor.
//!
//! It waits for its arguments at the end of a pipe, before it has done anything. A plan that it does
//! not fit, and one that never comes, end it.

use super::descriptors::{pipe, sealed_memfd};
use super::runner::{Launching, start_with};
use crate::backend::{FD_ARGS, FD_RESOLVER, NativePlan, RESOLV_CONF, guard_command};
use crate::process::{LaunchError, Spawner};
use crate::spec::AbsPath;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

/// Bytes of arguments that are asked room for; the kernel may allow less (pipe(7)).
const ROOM: i32 = 1 << 20;

/// A runner without a plan. Dropped, it is ended.
#[derive(Debug)]
pub struct Early {
    bwrap: AbsPath,
    /// None once it was taken on.
    launching: Option<Launching>,
    arguments: File,
    /// Bytes that can be written without waiting.
    room: usize,
}

impl Early {
    /// Starts one.
    ///
    /// # Errors
    /// Those of any start of a runner; the launch that follows meets them too, and says so.
    pub async fn start(bwrap: &AbsPath) -> Result<Self, LaunchError> {
        let spawner = Spawner::shared().map_err(LaunchError::Spawn)?;
        let (read, write) = pipe()?;
        let room = room(&write);
        // Whoever fills it from its other end is not waited for.
        fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(std::io::Error::from)
            .map_err(LaunchError::descriptor("a pipe"))?;
        // What no plan may need is closed by the guard, with everything else that it does not know.
        let fds = vec![(read, FD_ARGS), (sealed_memfd(RESOLV_CONF)?, FD_RESOLVER)];
        let launching = start_with(spawner, bwrap, &guard_command(), fds).await?;
        Ok(Self {
            bwrap: bwrap.clone(),
            launching: Some(launching),
            arguments: File::from(write),
            room,
        })
    }

    /// Ends it, and waits until nothing of it is left.
    pub async fn end(mut self) {
        if let Some(launching) = self.launching.take() {
            launching.kill().await;
        }
    }

    /// Gives it a plan, if it is one for it.
    pub(super) fn take_on(mut self, plan: &NativePlan) -> Option<Launching> {
        let [block] = plan.blocks.as_slice() else {
            return None;
        };
        let same = plan.bwrap == self.bwrap
            && plan.argv == guard_command()
            && block.fd == FD_ARGS
            && plan
                .resolver
                .as_deref()
                .is_none_or(|text| text == RESOLV_CONF);
        let bytes = block.bytes();
        // In one piece: nobody ever sees a part of them.
        if !same || bytes.len() > self.room {
            return None;
        }
        match self.arguments.write(&bytes) {
            Ok(written) if written == bytes.len() => self.launching.take(),
            Ok(_) | Err(_) => None,
        }
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        let Some(launching) = self.launching.take() else {
            return;
        };
        // Without a runtime nothing waits for it; dropping it kills it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { launching.kill().await });
        }
    }
}

fn room(pipe: &OwnedFd) -> usize {
    let asked = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(ROOM));
    let found = asked.or_else(|_| fcntl(pipe, FcntlArg::F_GETPIPE_SZ));
    found
        .ok()
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(0)
}

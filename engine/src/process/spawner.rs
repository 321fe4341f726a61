//! One permanent thread that starts every program of the engine.
//!
//! `PR_SET_PDEATHSIG` follows the *thread* that forked (prctl(2)), so a sandbox started from a
//! pool thread would die with it. This thread lives as long as the process.

use super::LaunchError;
use crate::sys::spawn::{ChildPlan, Spawned, fork_exec};
use std::io;
use std::sync::{OnceLock, mpsc};
use tokio::sync::oneshot;

type Job = (ChildPlan, oneshot::Sender<io::Result<Spawned>>);

/// The spawner of this process.
#[derive(Debug)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
}

static SPAWNER: OnceLock<Spawner> = OnceLock::new();

impl Spawner {
    /// The process-wide spawner; its thread is started by the first call.
    pub fn shared() -> io::Result<&'static Self> {
        if let Some(spawner) = SPAWNER.get() {
            return Ok(spawner);
        }
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("kotak-spawner".to_owned())
            .spawn(move || serve(&queue))?;
        // Of two first callers one thread wins; the other's queue closes and its thread ends
        // before it has forked anything.
        Ok(SPAWNER.get_or_init(|| Self { jobs }))
    }

    /// Starts a program.
    pub async fn spawn(&self, plan: ChildPlan) -> Result<Spawned, LaunchError> {
        let (answer, answered) = oneshot::channel();
        let gone = || LaunchError::Spawn(io::Error::other("the spawner thread is gone"));
        self.jobs.send((plan, answer)).map_err(|_| gone())?;
        answered
            .await
            .map_err(|_| gone())?
            .map_err(LaunchError::Spawn)
    }
}

fn serve(queue: &mpsc::Receiver<Job>) {
    while let Ok((plan, answer)) = queue.recv() {
        let result = fork_exec(&plan);
        // The descriptors of the plan must be closed here before anyone waits for their end.
        drop(plan);
        if let Err(Ok(orphan)) = answer.send(result) {
            // The launch was given up meanwhile; nothing may be left of it.
            let _ = crate::sys::spawn::pidfd_send_signal(&orphan.pidfd, libc::SIGKILL);
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(orphan.pid), None);
        }
    }
}

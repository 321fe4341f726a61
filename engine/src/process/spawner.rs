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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::collect::Collected;
    use crate::sys::spawn::{Image, OnSpawnerDeath};
    use std::os::fd::{AsRawFd, OwnedFd};

    fn pipe() -> (OwnedFd, OwnedFd) {
        nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap()
    }

    fn null() -> OwnedFd {
        crate::process::null().unwrap()
    }

    /// What a shell script writes to its standard output, with these further descriptors.
    async fn output_of(script: &str, fds: Vec<(OwnedFd, i32)>) -> String {
        let (read, write) = pipe();
        let mut all = vec![(null(), 0), (write, 1), (null(), 2)];
        all.extend(fds);
        let plan = ChildPlan {
            image: Image::Path(c"/bin/sh".to_owned()),
            argv: vec![
                c"sh".to_owned(),
                c"-c".to_owned(),
                std::ffi::CString::new(script).unwrap(),
            ],
            env: vec![c"PATH=/usr/bin:/bin".to_owned()],
            fds: all,
            on_spawner_death: OnSpawnerDeath::Kill,
            cgroup: None,
        };
        let spawned = Spawner::shared().unwrap().spawn(plan).await.unwrap();
        let child =
            crate::process::child::Child::watch(spawned, crate::process::child::OnDrop::Kill)
                .unwrap();
        let text =
            String::from_utf8(Collected::start(read, 65_536).unwrap().to_end().await).unwrap();
        child.wait().await;
        text
    }

    #[tokio::test]
    async fn a_child_has_the_descriptors_of_its_plan_and_no_other() {
        // A descriptor of the host process that somebody forgot to mark close-on-exec.
        let forgotten = nix::fcntl::fcntl(null(), nix::fcntl::FcntlArg::F_DUPFD(500)).unwrap();
        let script = "for fd in /proc/$$/fd/*; do echo ${fd##*/}; done; env";
        let text = output_of(script, vec![(null(), 13), (null(), 9)]).await;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        // 3 is the shell's own, to read the directory; and it sets PWD for itself.
        let expected = ["0", "1", "13", "2", "3", "9", "PATH=/usr/bin:/bin", "PWD=/"];
        assert_eq!(lines, expected);
        nix::unistd::close(forgotten).unwrap();
    }

    #[tokio::test]
    async fn descriptors_that_trade_numbers_arrive_where_they_should() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| -> OwnedFd {
            std::fs::write(dir.path().join(name), name).unwrap();
            std::fs::File::open(dir.path().join(name)).unwrap().into()
        };
        let (first, second) = (file("first"), file("second"));
        let (for_first, for_second) = (second.as_raw_fd(), first.as_raw_fd());
        let script = format!("cat /proc/self/fd/{for_first} /proc/self/fd/{for_second}");
        let text = output_of(&script, vec![(first, for_first), (second, for_second)]).await;
        assert_eq!(text, "firstsecond");
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_is_the_systems_error() {
        let plan = ChildPlan {
            image: Image::Path(c"/nonexistent/program".to_owned()),
            argv: vec![c"program".to_owned()],
            env: Vec::new(),
            fds: Vec::new(),
            on_spawner_death: OnSpawnerDeath::Kill,
            cgroup: None,
        };
        let refused = Spawner::shared().unwrap().spawn(plan).await.unwrap_err();
        assert!(
            matches!(refused, LaunchError::Spawn(error) if error.kind() == io::ErrorKind::NotFound)
        );
    }
}

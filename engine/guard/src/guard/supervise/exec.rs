//! execve(2). The kernel does it in any case, and what may not run is refused by Landlock; here it
//! is seen and told, and a program that never runs is refused at once.

use super::{
    answer::{Answer, Stop, refused},
    caller::Caller,
    judged::Judged,
    open::node,
    walk::{Target, Walk, kind},
};
use kotak_guard::proto::{ExecPlan, FileAction, FileNode, Rule};
use nix::sys::stat::{fstat, stat};
use std::{collections::HashSet, os::fd::AsFd};

/// The exec restriction, ready for use.
#[derive(Debug)]
pub(super) struct Programs {
    allowed: Vec<Vec<u8>>,
    denied: HashSet<FileNode>,
}

/// What is known of a program before it runs.
#[derive(Debug)]
pub(super) enum Foreseen {
    /// Nothing against it.
    Runs,
    /// Landlock refuses it.
    WillBeRefused(Stop),
}

impl Programs {
    pub(super) fn new(plan: &ExecPlan) -> Self {
        let denied = plan
            .denied
            .iter()
            .filter_map(|path| stat(path.as_slice()).ok())
            .map(|found| node(&found))
            .collect();
        Self {
            allowed: plan.allowed.clone(),
            denied,
        }
    }

    /// Looks at what is to run. What cannot be found out is the kernel's to judge.
    pub(super) fn foresee(
        &self,
        caller: &Caller<'_>,
        judged: &Judged<'_>,
        dir: Option<usize>,
        path: usize,
    ) -> Result<Foreseen, Stop> {
        let bytes = caller.path(path)?;
        let (found, real) = match Walk::new(caller, judged.settings).target(dir, &bytes)? {
            Target::Entry(_, None) => return Ok(Foreseen::Runs),
            Target::Entry(entry, Some(found)) => (found, entry.path()),
            Target::Thing(thing) => {
                let real = judged.settings.mounts.path_of(thing.as_fd())?;
                (fstat(&thing)?, real)
            }
        };
        if self.denied.contains(&node(&found)) {
            return Err(refused(FileAction::Exec, real, Rule::Exec));
        }
        let is_program = kind(&found) == libc::S_IFREG && found.st_mode & 0o111 != 0;
        let lies_in = |tree: &Vec<u8>| {
            real.strip_prefix(tree.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || tree == b"/")
        };
        if !is_program || !real.starts_with(b"/") || self.allowed.iter().any(lies_in) {
            return Ok(Foreseen::Runs);
        }
        Ok(Foreseen::WillBeRefused(refused(
            FileAction::Exec,
            real,
            Rule::Exec,
        )))
    }
}

/// In every case but a program that never runs.
pub(super) const GOES_ON: Answer = Answer::Continue;

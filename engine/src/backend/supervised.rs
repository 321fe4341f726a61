//! What of a policy the guard's supervisor and Landlock hold, as the guard is told it.

use super::GUARD_PATH;
use super::seccomp::{SeccompArch, SeccompWants, seccomp_program};
use crate::policy::{ExecPolicy, FilePolicy, Policy};
use crate::spec::{AbsPath, NetworkMode};
use kotak_guard::proto::{BpfInsn, ExecPlan, FileNode, FileRules};

/// The rules for names and paths; none where the kernel cannot supervise.
pub(super) fn file_rules(policy: &Policy) -> Option<FileRules> {
    if policy.lack().is_some() {
        return None;
    }
    let FilePolicy {
        roots,
        exempt,
        names,
        exceptions,
        protected,
        anywhere,
        inodes,
    } = policy.files();
    Some(FileRules {
        roots: bytes(roots),
        exempt: bytes(exempt),
        names: names.clone(),
        exceptions: exceptions.clone(),
        protected: bytes(protected),
        anywhere: anywhere.clone(),
        git: true,
        inodes: inodes
            .iter()
            .map(|id| FileNode {
                dev: id.dev,
                ino: id.ino,
            })
            .collect(),
    })
}

/// From where programs may run; none: from wherever they are.
pub(super) fn exec_plan(policy: &Policy) -> Option<ExecPlan> {
    let ExecPolicy {
        allowed, denied, ..
    } = policy.exec()?;
    let mut allowed = bytes(allowed);
    if policy.network != NetworkMode::Open {
        // git over ssh runs it to reach the proxy (`GIT_SSH_COMMAND`).
        allowed.push(GUARD_PATH.as_bytes().to_vec());
    }
    Some(ExecPlan {
        allowed,
        denied: bytes(denied),
    })
}

/// The programs that every exec loads, for what of this policy is supervised.
pub(super) fn filters(policy: &Policy, arch: SeccompArch) -> Vec<Vec<BpfInsn>> {
    let supervised = policy.lack().is_none();
    let restricted = policy.exec().is_some();
    let wants = SeccompWants {
        supervise_files: supervised,
        supervise_exec: supervised && restricted,
        close_memfd_exec: restricted,
    };
    seccomp_program(arch, wants)
}

fn bytes(paths: &[AbsPath]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| path.as_bytes().to_vec()).collect()
}

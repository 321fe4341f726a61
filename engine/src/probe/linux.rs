//! The real Linux host.

use super::facts::{
    FileText, HostProbe, KvmCanary, Os, SeccompFacts, ToolRun, ToolSearch, TrialOutcome,
    TrialRequest, UserNamespaceTrial,
};
use super::{SystemProbe, unix};
use crate::sys::kvm::kvm_canary;
use crate::sys::landlock::landlock_abi;
use crate::sys::seccomp::seccomp_support;
use crate::sys::userns::{UserNamespace, try_user_namespace};
use std::fs::File;
use std::path::{Path, PathBuf};

impl HostProbe for SystemProbe {
    fn os(&self) -> Os {
        Os::Linux
    }

    fn arch(&self) -> String {
        std::env::consts::ARCH.to_owned()
    }

    fn kernel_release(&self) -> String {
        unix::kernel_release()
    }

    fn uid(&self) -> u32 {
        unix::uid()
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn read(&self, path: &Path) -> FileText {
        unix::read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_readable(&self, path: &Path) -> bool {
        File::open(path).is_ok()
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        unix::list(dir)
    }

    fn find_tool(&self, name: &str) -> ToolSearch {
        let groups = nix::unistd::getgroups().unwrap_or_default();
        let mut gids: Vec<u32> = groups.into_iter().map(nix::unistd::Gid::as_raw).collect();
        gids.push(nix::unistd::getegid().as_raw());
        unix::find_tool(
            name,
            &self.path,
            self.project_dir.as_deref(),
            gids,
            overflow_uid(),
        )
    }

    fn run_tool(&self, path: &Path, args: &[&str]) -> ToolRun {
        unix::run_tool(path, args, unix::TOOL_DEADLINE)
    }

    fn landlock_abi(&self) -> u32 {
        landlock_abi()
    }

    fn seccomp(&self) -> SeccompFacts {
        let support = seccomp_support();
        SeccompFacts {
            filters: support.filters,
            notify: support.notify,
            wait_killable: support.wait_killable,
        }
    }

    fn user_namespace(&self) -> UserNamespaceTrial {
        match try_user_namespace() {
            UserNamespace::Works => UserNamespaceTrial::Works,
            UserNamespace::Refused(errno) => UserNamespaceTrial::Refused(errno),
            UserNamespace::Powerless(errno) => UserNamespaceTrial::Powerless(errno),
            UserNamespace::NotTried(errno) => UserNamespaceTrial::NotTried(errno),
        }
    }

    fn kvm(&self) -> KvmCanary {
        kvm_canary()
    }

    fn image_dir(&self) -> Option<PathBuf> {
        self.image_dir.clone()
    }

    fn trial(&self, request: &TrialRequest) -> TrialOutcome {
        self.trial.run(request)
    }

    fn now_ms(&self) -> u64 {
        super::system::now_ms()
    }
}

/// In a user namespace other than the first, files of ids that are not mapped seem to belong to
/// this one.
fn overflow_uid() -> Option<u32> {
    let map = unix::read(Path::new("/proc/self/uid_map"));
    let first = map.text()?.split_whitespace().eq(["0", "0", "4294967295"]);
    if first {
        return None;
    }
    let own = unix::read(Path::new("/proc/sys/kernel/overflowuid"));
    Some(
        own.text()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(DEFAULT_OVERFLOW_UID),
    )
}

/// What `overflowuid` is unless somebody changed it (proc_sys_kernel(5)).
const DEFAULT_OVERFLOW_UID: u32 = 65534;

//! The real macOS host.

use super::facts::{
    FileText, HostProbe, KvmCanary, Os, SeccompFacts, ToolRun, ToolSearch, TrialOutcome,
    TrialRequest, UserNamespaceTrial,
};
use super::{SystemProbe, unix};
use std::fs::File;
use std::path::{Path, PathBuf};

impl HostProbe for SystemProbe {
    fn os(&self) -> Os {
        Os::Macos
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
        let gids = vec![nix::unistd::getegid().as_raw()];
        unix::find_tool(name, &self.path, self.project_dir.as_deref(), gids, None)
    }

    fn run_tool(&self, path: &Path, args: &[&str]) -> ToolRun {
        unix::run_tool(path, args, unix::TOOL_DEADLINE)
    }

    fn landlock_abi(&self) -> u32 {
        0
    }

    fn seccomp(&self) -> SeccompFacts {
        SeccompFacts::default()
    }

    fn user_namespace(&self) -> UserNamespaceTrial {
        UserNamespaceTrial::NotTried(libc::ENOSYS)
    }

    fn kvm(&self) -> KvmCanary {
        KvmCanary::NotChecked
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

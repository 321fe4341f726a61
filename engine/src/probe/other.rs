//! Any host without a native backend (REQ BK-8, PR-5): Windows and the rest.

use super::SystemProbe;
use super::facts::{
    FileText, HostProbe, KvmCanary, Os, SeccompFacts, ToolRun, ToolSearch, TrialOutcome,
    TrialRequest, UserNamespaceTrial,
};
use std::path::{Path, PathBuf};

impl HostProbe for SystemProbe {
    fn os(&self) -> Os {
        match std::env::consts::OS {
            "windows" => Os::Windows,
            other => Os::Other(other.to_owned()),
        }
    }

    fn arch(&self) -> String {
        std::env::consts::ARCH.to_owned()
    }

    fn kernel_release(&self) -> String {
        "not looked at".to_owned()
    }

    fn uid(&self) -> u32 {
        0
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn read(&self, path: &Path) -> FileText {
        match std::fs::read(path) {
            Ok(bytes) => FileText::Text(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => match error.kind() {
                std::io::ErrorKind::NotFound => FileText::Missing,
                std::io::ErrorKind::PermissionDenied => FileText::Denied,
                _ => FileText::Failed(error.to_string()),
            },
        }
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_readable(&self, path: &Path) -> bool {
        std::fs::File::open(path).is_ok()
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
            .map(|entries| {
                entries
                    .filter_map(|entry| entry.ok().map(|e| e.path()))
                    .collect()
            })
            .unwrap_or_default();
        paths.sort();
        paths
    }

    /// Nothing can be judged by owner and mode here, so nothing is run.
    fn find_tool(&self, _name: &str) -> ToolSearch {
        ToolSearch::Missing
    }

    fn run_tool(&self, _path: &Path, _args: &[&str]) -> ToolRun {
        ToolRun::NotStarted("no tool is run on this platform".to_owned())
    }

    fn landlock_abi(&self) -> u32 {
        0
    }

    fn seccomp(&self) -> SeccompFacts {
        SeccompFacts::default()
    }

    fn user_namespace(&self) -> UserNamespaceTrial {
        UserNamespaceTrial::NotTried(0)
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

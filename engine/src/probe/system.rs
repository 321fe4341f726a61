//! The real host, and the probe's entry.

use super::facts::{HostProbe, TrialRunner};
use super::interpret::interpret;
use super::observe::observe;
use super::report::HostReport;
use super::switch::Switch;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The host that this process runs on.
#[derive(Clone)]
pub struct SystemProbe {
    /// Runs the trial sandbox.
    pub trial: Arc<dyn TrialRunner>,
    /// Directories that tools are looked up in, in order.
    pub path: Vec<PathBuf>,
    /// The directory that Kotak was started in; tools inside it are not run.
    pub project_dir: Option<PathBuf>,
    /// Guest kernels of Kotak's own.
    pub image_dir: Option<PathBuf>,
}

impl SystemProbe {
    /// With PATH and the current directory of this process.
    #[must_use]
    pub fn new(trial: Arc<dyn TrialRunner>) -> Self {
        let path = std::env::var_os("PATH")
            .map(|value| std::env::split_paths(&value).collect())
            .unwrap_or_default();
        Self {
            trial,
            path,
            project_dir: std::env::current_dir().ok(),
            image_dir: None,
        }
    }
}

impl std::fmt::Debug for SystemProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemProbe")
            .field("path", &self.path)
            .field("project_dir", &self.project_dir)
            .field("image_dir", &self.image_dir)
            .finish_non_exhaustive()
    }
}

/// Probes the host (REQ PR-1). Blocks for as long as the slowest check takes, normally well under
/// a second; every check bounds its own time.
#[must_use]
pub fn probe(host: &dyn HostProbe, switch: Switch) -> HostReport {
    let probed_at_ms = host.now_ms();
    let start = Instant::now();
    let mut report = interpret(&observe(host), switch);
    report.probed_at_ms = probed_at_ms;
    report.duration_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    report
}

/// Milliseconds since the Unix epoch; 0 on a clock before it.
pub(super) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|age| u64::try_from(age.as_millis()).ok())
        .unwrap_or(0)
}

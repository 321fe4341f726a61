//! The memory of the engine while something happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches the resident size of a process from a thread of its own.
pub(crate) struct Watch {
    before: u64,
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn start(pid: u32) -> Self {
        let before = resident(pid).expect("a process that runs");
        let most = Arc::new(AtomicU64::new(before));
        let over = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (Arc::clone(&most), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                if let Some(now) = resident(pid) {
                    seen.fetch_max(now, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            before,
            most,
            over,
            thread: Some(thread),
        }
    }

    /// By how many bytes it grew at most.
    pub(crate) fn grown(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the watch");
        }
        self.most.load(Ordering::Relaxed) - self.before
    }
}

/// Anonymous memory that is resident, in bytes.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

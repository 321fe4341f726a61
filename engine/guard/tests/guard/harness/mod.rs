//! Runs the real guard over a real socket pair: on the host, or in bubblewrap with the flags of
//! production.

mod filter;
mod guard;
mod place;
mod terminal;
mod workspace;

pub(crate) use filter::waiting_program;
pub(crate) use guard::{BINARY, Guard, Output, Program, guard_image};
pub(crate) use place::{
    Flags, LEAKED, Place, User, bubblewrap, expectation, fix_descriptors, host_setup, native_setup,
    places, users, words,
};
pub(crate) use terminal::Terminal;
pub(crate) use workspace::Workspace;

use nix::poll::{PollFd, PollFlags, poll};
use std::{
    os::{fd::BorrowedFd, unix::fs::PermissionsExt},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

/// Where a test gives up waiting; no test measures time.
const PATIENCE: u16 = 60_000;

fn wait_readable(fd: BorrowedFd<'_>, otherwise: &str) {
    let mut entries = [PollFd::new(fd, PollFlags::POLLIN)];
    assert_ne!(poll(&mut entries, PATIENCE).unwrap(), 0, "{otherwise}");
}

/// A word that no other process has in its command line.
pub(crate) fn marker() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("kotak-marker-{}-{count}-", std::process::id())
}

/// How many processes of the whole host carry the marker.
pub(crate) fn carriers(marker: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.parse::<u32>().is_ok())
        })
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

/// A fresh directory that every user of the tests may enter and fill.
pub(crate) fn shared_directory() -> PathBuf {
    let path = std::env::temp_dir().join(marker());
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    path
}

/// Asks again until it holds; a test that never sees it fails by its name.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never: {what}");
}

//! What Linux and macOS have in common for the probe: files, tools, ids.

use super::facts::{FileText, ToolRun, ToolSearch};
use super::tool::{Searcher, ToolFs, ToolStat, search};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Files longer than this are not the ones that the probe asks for.
const FILE_LIMIT: u64 = 1024 * 1024;
/// Output of a tool past this is dropped.
const OUTPUT_LIMIT: u64 = 256 * 1024;
/// A tool that only tells of itself needs no longer.
pub(super) const TOOL_DEADLINE: Duration = Duration::from_secs(5);

pub(super) fn read(path: &Path) -> FileText {
    let mut bytes = Vec::new();
    let result = File::open(path).and_then(|file| file.take(FILE_LIMIT).read_to_end(&mut bytes));
    match result {
        Ok(_) => FileText::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => FileText::Missing,
            io::ErrorKind::PermissionDenied => FileText::Denied,
            _ => FileText::Failed(error.to_string()),
        },
    }
}

pub(super) fn list(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .map(|entries| {
            entries
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .collect()
        })
        .unwrap_or_default();
    paths.sort();
    paths
}

pub(super) fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

pub(super) fn kernel_release() -> String {
    nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// The real files.
struct Disk;

impl ToolFs for Disk {
    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok()
    }

    fn stat(&self, path: &Path) -> Option<ToolStat> {
        fs::metadata(path).ok().map(|meta| ToolStat {
            uid: meta.uid(),
            gid: meta.gid(),
            mode: meta.mode() & 0o7777,
            is_file: meta.is_file(),
        })
    }
}

pub(super) fn find_tool(
    name: &str,
    path: &[PathBuf],
    project: Option<&Path>,
    gids: Vec<u32>,
    overflow_uid: Option<u32>,
) -> ToolSearch {
    let project = project.map(|dir| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf()));
    search(
        &Disk,
        &Searcher {
            uid: uid(),
            gids,
            overflow_uid,
            project,
        },
        path,
        name,
    )
}

/// Runs a tool with a deadline, with nothing to read and a bare environment.
pub(super) fn run_tool(path: &Path, args: &[&str], deadline: Duration) -> ToolRun {
    let spawned = Command::new(path)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return ToolRun::NotStarted(error.to_string()),
    };
    let end = Instant::now() + deadline;
    let output = collect(&mut child, end);
    let status = output.as_ref().and_then(|_| wait_until(&mut child, end));
    match (output, status) {
        (Some((stdout, stderr)), Some(status)) => ToolRun::Ended {
            code: status.code(),
            stdout,
            stderr,
        },
        _ => {
            // Both fail only when the child is already gone.
            let _ = child.kill();
            let _ = child.wait();
            ToolRun::TimedOut
        }
    }
}

/// Both streams to their end, or `None` at the deadline. A reader left behind ends with the tool.
fn collect(child: &mut Child, end: Instant) -> Option<(String, String)> {
    let stdout = reader(child.stdout.take()?)?;
    let stderr = reader(child.stderr.take()?)?;
    let rest = || end.saturating_duration_since(Instant::now());
    let out = stdout.recv_timeout(rest()).ok()?;
    let err = stderr.recv_timeout(rest()).ok()?;
    Some((out, err))
}

fn reader(mut stream: impl Read + Send + 'static) -> Option<mpsc::Receiver<String>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let work = move || {
        let mut bytes = Vec::new();
        // What came before an error is still what the tool said.
        let _ = (&mut stream).take(OUTPUT_LIMIT).read_to_end(&mut bytes);
        let _ = io::copy(&mut stream, &mut io::sink());
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    };
    thread::Builder::new()
        .name("probe-read".to_owned())
        .spawn(work)
        .ok()?;
    Some(receiver)
}

fn wait_until(child: &mut Child, end: Instant) -> Option<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

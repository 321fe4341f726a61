//! What is left after panes close and after the panel is killed: nothing.

use kotak_tests::Stage;
use kotak_tests::panel::Panel;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes of the host whose command line contains `marker`.
pub(crate) fn survivors(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let cmdline = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        if text.contains(marker) {
            found.push(format!("{} {text}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not reached in a minute: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_of_the_panel_leaves_no_process_of_twenty_sessions() {
    let stage = Stage::new();
    let temporary = stage.home().join("temporary");
    fs::create_dir(&temporary).expect("a directory");
    let place = temporary.to_string_lossy().into_owned();
    let panel = Panel::open_at(stage, &[], &[("TMPDIR", &place)]).await;
    let marker = format!("kotak-e2e-{}", std::process::id());
    panel.stage.write(
        "work/daemons.sh",
        &format!(
            "(setsid bash -c 'trap \"\" HUP INT TERM QUIT; exec 0<&- 1>&- 2>&-; \
             (exec -a {marker} sleep 100000) & (exec -a {marker} sleep 100000) & wait' &)\n\
             exec -a {marker} sleep 100000\n"
        ),
    );
    for n in 0..20 {
        let backend = if n % 2 == 0 { "native" } else { "none" };
        let request = panel.request(backend, Some("bash daemons.sh"));
        panel
            .invoke("launch", json!({ "request": request }))
            .await
            .expect("a session");
    }
    until("all daemons run", || survivors(&marker).len() >= 60).await;
    let pid = nix::unistd::Pid::from_raw(panel.window.panel_pid());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL).expect("SIGKILL");
    until("every process is gone", || survivors(&marker).is_empty()).await;
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(
        !mounts.contains(&*panel.stage.home().to_string_lossy()),
        "a mount survived"
    );
    // The history and the log are the person's, and the socket at which sessions ask is taken over
    // by the next start; nothing else stays, and nothing of the sessions.
    let state = panel.stage.home().join(".local/state/kotak");
    let kept = [
        "logs",
        "run",
        "store.lock",
        "store.sqlite",
        "store.sqlite-shm",
        "store.sqlite-wal",
    ];
    let mut left = names(&state);
    assert!(left.iter().any(|name| name == "store.sqlite"), "{left:?}");
    left.retain(|name| !kept.contains(&name.as_str()));
    assert_eq!(left, Vec::<String>::new(), "in {}", state.display());
    assert_eq!(names(&state.join("run")), DESK, "in run");
    let logs = names(&state.join("logs"));
    assert!(logs.iter().all(|name| name.ends_with(".log")), "{logs:?}");
    assert_eq!(names(&temporary), Vec::<String>::new(), "temporary files");
    // Control groups cannot remove themselves; the next start does.
    let probed = panel.stage.kotak().arg("probe").run();
    assert_eq!(probed.code, 0, "{probed:?}");
    assert_eq!(control_groups(pid.as_raw()), Vec::<PathBuf>::new());
    assert_eq!(names(&state.join("run")), DESK, "in run");
    panel.close().await;
}

/// What a killed engine leaves in its run directory: the socket, and the file whose lock went with
/// the process.
const DESK: [&str; 2] = ["desk.lock", "desk.sock"];

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Control groups that an engine made for its sessions.
fn control_groups(engine: i32) -> Vec<PathBuf> {
    let start = format!("kotak-{engine}-");
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(&start) {
                found.push(entry.path());
            } else {
                pending.push(entry.path());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_panes_opened_and_closed_leave_no_process_descriptor_or_pty() {
    let panel = Panel::open().await;
    let pid = panel.window.panel_pid();
    let marker = format!("kotak-fifty-{}", std::process::id());
    let line = format!("bash -c 'exec -a {marker} sleep 100000'");
    // Warm up: first use opens what stays open for good (databases, thread wake-ups).
    for backend in ["native", "none"] {
        let id = panel.start(backend, Some(&line)).await;
        panel.phase(&id, "running").await;
        panel
            .invoke("close", json!({ "id": id }))
            .await
            .expect("closed");
        panel
            .invoke("dismiss", json!({ "id": id }))
            .await
            .expect("dismissed");
    }
    until("the warm-up is over", || survivors(&marker).is_empty()).await;
    let before = descriptors(pid).len();
    for n in 0..50 {
        let backend = if n % 2 == 0 { "native" } else { "none" };
        let id = panel.start(backend, Some(&line)).await;
        panel.phase(&id, "running").await;
        panel
            .invoke("close", json!({ "id": id }))
            .await
            .expect("closed");
        panel
            .invoke("dismiss", json!({ "id": id }))
            .await
            .expect("dismissed");
    }
    until("no process is left", || survivors(&marker).is_empty()).await;
    until("no PTY is left", || {
        !descriptors(pid)
            .iter()
            .any(|target| target.contains("/ptmx") || target.contains("/pts/"))
    })
    .await;
    // The web view opens and closes a few of its own; one forgotten a pane would be fifty.
    let most = before + 10;
    until(
        &format!("at most {most} descriptors, {before} before"),
        || descriptors(pid).len() <= most,
    )
    .await;
    panel.close().await;
}

/// What each open descriptor of a process leads to.
fn descriptors(pid: i32) -> Vec<String> {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .map(|entries| {
            entries
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok())
                .map(|target| target.to_string_lossy().into_owned())
                .collect()
        })
        .unwrap_or_default()
}

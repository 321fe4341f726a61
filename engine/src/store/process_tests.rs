//! Several processes, and disks that are full or read-only: each such test runs itself again as
//! another process.

use super::tests::{codes, database, end, is_journal, kept, open, open_clean, start, works};
use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set for a process that a test starts from its own binary.
const ROLE: &str = "KOTAK_STORE_TEST_ROLE";
const ROOT: &str = "KOTAK_STORE_TEST_ROOT";

/// Runs one test of this binary in another process, inside `wrapper`.
fn again(wrapper: &[&str], test: &str, role: &str, root: &Path) -> Command {
    let mut argv: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
    argv.push(std::env::current_exe().unwrap().into());
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .args(["--exact", "--nocapture", test])
        .env(ROLE, role)
        .env(ROOT, root);
    command
}

fn role() -> Option<(String, PathBuf)> {
    Some((
        std::env::var(ROLE).ok()?,
        PathBuf::from(std::env::var_os(ROOT)?),
    ))
}

#[test]
fn several_processes_write_the_same_file() {
    if let Some((name, root)) = role() {
        let store = open_clean(&root);
        for number in 0..50 {
            store.session_started(start(&format!("{name}-{number}")));
            store.session_ended(&format!("{name}-{number}"), end(number));
        }
        assert!(store.flush());
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let name = "store::process_tests::several_processes_write_the_same_file";
    let children: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|role| {
            again(&[], name, role, root.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = open_clean(root.path());
    let sessions = store.sessions(1000).unwrap();
    assert_eq!(sessions.len(), 150);
    for prefix in ["a-", "b-", "c-"] {
        let ended = sessions
            .iter()
            .filter(|row| row.id.starts_with(prefix) && row.ended_at_ms == Some(2_000));
        assert_eq!(ended.count(), 50, "{prefix}");
    }
}

#[test]
fn two_processes_that_find_the_same_damage_set_it_aside_once() {
    if let Some((name, root)) = role() {
        let (store, _) = open(&root);
        store.session_started(start(&name));
        assert!(store.flush());
        return;
    }
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(Dirs::under(root.path()).state).unwrap();
    fs::write(database(root.path()), b"garbage".repeat(1000)).unwrap();
    let name = "store::process_tests::two_processes_that_find_the_same_damage_set_it_aside_once";
    let children: Vec<_> = ["a", "b"]
        .iter()
        .map(|role| {
            again(&[], name, role, root.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let kept = kept(root.path());
    assert_eq!(
        kept.iter().filter(|path| !is_journal(path)).count(),
        1,
        "{kept:?}"
    );
    let mut ids: Vec<_> = open_clean(root.path())
        .sessions(10)
        .unwrap()
        .into_iter()
        .map(|row| row.id)
        .collect();
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
}

/// A file system of one MiB that only the child sees.
const SMALL_DISK: [&str; 7] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs -o size=1m,mode=700 none \"$KOTAK_STORE_TEST_ROOT\" && exec \"$0\" \"$@\"",
];

#[test]
fn a_full_disk_keeps_rows_in_memory_and_saves_them_when_there_is_space() {
    if let Some((_, root)) = role() {
        let store = open_clean(&root);
        let (told, notices) = std::sync::mpsc::channel();
        store.on_problem(move |problem| told.send(problem).unwrap());
        works(&store);
        assert!(store.flush());
        let filler = fill(&root);
        // Larger than what is left of the journal's last block.
        store.set_layout("l".repeat(200_000)).unwrap();
        store.session_started(start("while-full"));
        assert!(!store.flush());
        assert_eq!(codes(&[notices.recv().unwrap()]), ["DISK_FULL"]);
        assert_eq!(
            store.sessions(1).unwrap()[0].id,
            "while-full",
            "reads show what waits"
        );
        assert_eq!(
            store.layout().unwrap().map(|layout| layout.len()),
            Some(200_000)
        );
        assert!(!store.flush());
        assert!(notices.try_recv().is_err(), "one episode is told once");
        fs::remove_file(filler).unwrap();
        assert!(store.flush());
        drop(store);
        let store = open_clean(&root);
        assert_eq!(store.sessions(1).unwrap()[0].id, "while-full");
        return;
    }
    in_small_disk(
        "store::process_tests::a_full_disk_keeps_rows_in_memory_and_saves_them_when_there_is_space",
    );
}

#[test]
fn a_disk_that_is_full_from_the_start_does_not_stop_the_store() {
    if let Some((_, root)) = role() {
        fs::create_dir(Dirs::under(&root).state).unwrap();
        let filler = fill(&root);
        let (store, problems) = open(&root);
        assert_eq!(codes(&problems), ["DISK_FULL"]);
        works(&store);
        assert!(!store.flush());
        fs::remove_file(filler).unwrap();
        assert!(store.flush());
        drop(store);
        assert_eq!(open_clean(&root).sessions(1).unwrap()[0].id, "new");
        return;
    }
    in_small_disk(
        "store::process_tests::a_disk_that_is_full_from_the_start_does_not_stop_the_store",
    );
}

#[test]
fn a_read_only_state_directory_leaves_a_working_store_in_memory() {
    if let Some((_, root)) = role() {
        // This mount only: a remount of the file system repeats the owner's number, which has no
        // meaning in the child's user namespace unless it is zero.
        let status = Command::new("mount")
            .args(["-o", "remount,bind,ro"])
            .arg(&root)
            .status()
            .unwrap();
        assert!(status.success());
        let (store, problems) = open(&root);
        assert_eq!(codes(&problems), ["STATE_DIR_UNWRITABLE"]);
        works(&store);
        return;
    }
    in_small_disk(
        "store::process_tests::a_read_only_state_directory_leaves_a_working_store_in_memory",
    );
}

fn in_small_disk(test: &str) {
    let root = tempfile::tempdir().unwrap();
    let output = again(&SMALL_DISK, test, "child", root.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// Takes all the space there is.
fn fill(root: &Path) -> PathBuf {
    use std::io::Write;
    let path = root.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    while file.write(&[1; 4096]).is_ok() {}
    path
}

use super::engine_id::EngineId;
use super::*;
use crate::api::{LaunchRequest, Program};
use crate::backend::{BackendChoice, SandboxBackend};
use crate::error::Problem;
use crate::manager::SandboxState;
use crate::spec::{Mode, NetworkMode};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) fn start(id: &str) -> SessionStart {
    SessionStart {
        id: id.to_owned(),
        workspace: "/work".to_owned(),
        title: "bash".to_owned(),
        cwd: "/code/a \"b\"\n".to_owned(),
        program: "bash -l".to_owned(),
        requested_backend: Some(BackendChoice::Auto),
        network: Some(NetworkMode::Open),
        started_at_ms: 1_000,
    }
}

pub(super) fn end(code: i32) -> SessionEnd {
    SessionEnd {
        state: SandboxState::Destroyed,
        exit_code: Some(code),
        signal: None,
        error: None,
        ended_at_ms: 2_000,
    }
}

fn choice(cwd: &str) -> LaunchRequest {
    LaunchRequest {
        program: Program::Shell,
        cwd: cwd.to_owned(),
        backend: BackendChoice::Native,
        network: None,
        extra_domains: Vec::new(),
        port_forwards: Vec::new(),
        socket_grants: Vec::new(),
        mode: Mode::Review,
        protected_paths: vec!["/code/keep".to_owned()],
        exec_restriction: Default::default(),
        cols: 80,
        rows: 24,
    }
}

pub(super) fn open(root: &Path) -> (Store, Vec<Problem>) {
    Store::open(&Dirs::under(root))
}

pub(super) fn open_clean(root: &Path) -> Store {
    let (store, problems) = open(root);
    assert_eq!(problems, vec![]);
    store
}

pub(super) fn database(root: &Path) -> PathBuf {
    Dirs::under(root).state.join("store.sqlite")
}

pub(super) fn codes(problems: &[Problem]) -> Vec<&str> {
    problems
        .iter()
        .map(|problem| problem.code.as_str())
        .collect()
}

/// Files of the state directory whose name says that they were set aside.
pub(super) fn kept(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(Dirs::under(root).state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("store.sqlite.corrupt-"))
        .collect();
    found.sort();
    found
}

/// A store with one ended session, closed again.
fn filled(root: &Path) {
    let store = open_clean(root);
    store.session_started(start("old"));
    store.session_ended("old", end(0));
    assert!(store.flush());
}

pub(super) fn works(store: &Store) {
    store.session_started(start("new"));
    store.session_ended("new", end(3));
    let sessions = store.sessions(1).unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(
        (sessions[0].id.as_str(), sessions[0].exit_code),
        ("new", Some(3))
    );
}

#[test]
fn a_session_is_read_back_whole_by_a_later_engine() {
    let root = tempfile::tempdir().unwrap();
    {
        let store = open_clean(root.path());
        store.session_started(start("a"));
        store.session_changed("a", Some(SandboxBackend::Native), SandboxState::Active);
        store.session_ended(
            "a",
            SessionEnd {
                state: SandboxState::Error,
                exit_code: Some(137),
                signal: Some(9),
                error: Some(("GUARD_LOST".to_owned(), "the guard went".to_owned())),
                ended_at_ms: 2_000,
            },
        );
    }
    let store = open_clean(root.path());
    let expected = SessionRecord {
        id: "a".to_owned(),
        workspace: "/work".to_owned(),
        title: "bash".to_owned(),
        cwd: "/code/a \"b\"\n".to_owned(),
        program: "bash -l".to_owned(),
        backend: Some(SandboxBackend::Native),
        requested_backend: Some(BackendChoice::Auto),
        network: Some(NetworkMode::Open),
        state: SandboxState::Error,
        error_code: Some("GUARD_LOST".to_owned()),
        error_message: Some("the guard went".to_owned()),
        exit_code: Some(137),
        signal: Some(9),
        started_at_ms: 1_000,
        ended_at_ms: Some(2_000),
        engine_pid: std::process::id(),
    };
    assert_eq!(store.sessions(10).unwrap(), vec![expected]);
}

#[test]
fn a_session_id_used_again_keeps_both_rows_newest_first() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    for code in [1, 2] {
        store.session_started(start("space"));
        store.session_ended("space", end(code));
    }
    let found: Vec<_> = store
        .sessions(10)
        .unwrap()
        .iter()
        .map(|row| row.exit_code)
        .collect();
    assert_eq!(found, [Some(2), Some(1)]);
    assert_eq!(store.sessions(1).unwrap().len(), 1);
}

#[test]
fn layout_folders_and_last_choices_come_back() {
    let root = tempfile::tempdir().unwrap();
    {
        let store = open_clean(root.path());
        assert_eq!(store.layout().unwrap(), None);
        store.set_layout("{\"tabs\":[]}".to_owned()).unwrap();
        store.set_layout("{\"tabs\":[1]}".to_owned()).unwrap();
        store.remember_choice(&choice("/a"));
        std::thread::sleep(std::time::Duration::from_millis(3));
        store.remember_choice(&choice("/b"));
        std::thread::sleep(std::time::Duration::from_millis(3));
        store.folder_used("/a");
    }
    let store = open_clean(root.path());
    assert_eq!(store.layout().unwrap().as_deref(), Some("{\"tabs\":[1]}"));
    assert_eq!(store.recent_folders(10).unwrap(), ["/a", "/b"]);
    assert_eq!(
        store.last_choices(10).unwrap(),
        [choice("/b"), choice("/a")]
    );
    store.forget_folder("/b");
    assert_eq!(store.recent_folders(10).unwrap(), ["/a"]);
    let error = store.set_layout("x".repeat((1 << 20) + 1)).unwrap_err();
    assert_eq!(crate::error::Coded::code(&error), "LAYOUT_TOO_LARGE");
}

#[test]
fn the_files_are_private_to_the_user() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    works(&store);
    let state = Dirs::under(root.path()).state;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for entry in fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_database_of_the_first_version_is_migrated_with_its_rows() {
    let root = tempfile::tempdir().unwrap();
    let path = database(root.path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    schema::migrate_to(&mut connection, 1).unwrap();
    let own = EngineId::current();
    row::apply(
        &connection,
        &own,
        &row::Write::Started {
            engine: own.clone(),
            start: Box::new(start("first")),
        },
    )
    .unwrap();
    assert!(
        connection.prepare("SELECT * FROM folder").is_err(),
        "the old version has no folders"
    );
    drop(connection);

    let store = open_clean(root.path());
    assert_eq!(store.sessions(10).unwrap()[0].id, "first");
    store.folder_used("/a");
    assert_eq!(store.recent_folders(10).unwrap(), ["/a"]);
}

#[test]
fn a_database_of_a_newer_version_is_not_written_and_the_history_is_kept_in_memory() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path());
    let path = database(root.path());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();

    let (store, problems) = open(root.path());
    assert_eq!(codes(&problems), ["DATABASE_TOO_NEW"]);
    works(&store);
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(kept(root.path()), Vec::<PathBuf>::new());
}

pub(super) fn is_journal(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with("-wal") || name.ends_with("-shm")
}

/// Damages the closed database, opens it, and checks that the damaged bytes are kept, the store
/// works, and the next opening is clean.
fn damage_is_set_aside(damage: impl Fn(&mut Vec<u8>)) {
    let root = tempfile::tempdir().unwrap();
    filled(root.path());
    let path = database(root.path());
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, &bytes).unwrap();

    let (store, problems) = open(root.path());
    assert_eq!(codes(&problems), ["DATABASE_SET_ASIDE"]);
    // The journal's files may stand beside it.
    let mut kept = kept(root.path());
    kept.retain(|path| !is_journal(path));
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(
        problems[0].message.contains(kept[0].to_str().unwrap()),
        "{}",
        problems[0].message
    );
    assert_eq!(fs::read(&kept[0]).unwrap(), bytes);
    works(&store);
    drop(store);
    let store = open_clean(root.path());
    assert_eq!(store.sessions(10).unwrap().len(), 1);
}

#[test]
fn garbage_in_place_of_the_database_is_set_aside() {
    damage_is_set_aside(|bytes| *bytes = b"this was never a database\n".repeat(400));
}

#[test]
fn a_truncated_database_is_set_aside() {
    damage_is_set_aside(|bytes| bytes.truncate(bytes.len() / 2));
}

#[test]
fn a_database_with_an_overwritten_page_is_set_aside() {
    damage_is_set_aside(|bytes| bytes[4096..3 * 4096].fill(0x5a));
}

#[test]
fn another_programs_database_is_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let path = database(root.path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (7)")
        .unwrap();
    let (store, problems) = open(root.path());
    assert_eq!(codes(&problems), ["DATABASE_SET_ASIDE"]);
    works(&store);
    let theirs = Connection::open(&kept(root.path())[0]).unwrap();
    let value: i64 = theirs
        .query_row("SELECT x FROM theirs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(value, 7);
}

#[test]
fn the_journal_of_a_damaged_database_is_set_aside_with_it() {
    let root = tempfile::tempdir().unwrap();
    let path = database(root.path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, b"not a database, but of some length".repeat(200)).unwrap();
    let wal = path.with_file_name("store.sqlite-wal");
    fs::write(&wal, b"a journal").unwrap();
    let (_store, problems) = open(root.path());
    assert_eq!(codes(&problems), ["DATABASE_SET_ASIDE"]);
    let kept = kept(root.path());
    let journal = kept
        .iter()
        .find(|path| path.to_string_lossy().ends_with("-wal"))
        .unwrap();
    assert_eq!(fs::read(journal).unwrap(), b"a journal");
}

#[test]
fn damage_and_removal_while_the_store_is_open_do_not_lose_later_rows() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    works(&store);
    assert!(store.flush());
    // Another engine moved the file away, or a person removed it.
    for entry in fs::read_dir(Dirs::under(root.path()).state).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    store.session_started(start("after"));
    assert!(store.flush());
    drop(store);
    let store = open_clean(root.path());
    assert_eq!(store.sessions(10).unwrap()[0].id, "after");
}

#[test]
fn a_state_directory_that_cannot_be_made_leaves_a_working_store_in_memory() {
    let root = tempfile::tempdir().unwrap();
    let dirs = Dirs::under(root.path());
    fs::write(&dirs.state, "in the way").unwrap();
    let (store, problems) = Store::open(&dirs);
    assert_eq!(codes(&problems), ["STATE_DIR_UNWRITABLE"]);
    assert!(problems[0].fix.is_some());
    works(&store);
    store.set_layout("kept".to_owned()).unwrap();
    assert_eq!(store.layout().unwrap().as_deref(), Some("kept"));
}

#[test]
fn a_directory_that_others_may_write_to_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    let dirs = Dirs::under(root.path());
    fs::create_dir(&dirs.state).unwrap();
    fs::set_permissions(&dirs.state, fs::Permissions::from_mode(0o777)).unwrap();
    let (_store, problems) = Store::open(&dirs);
    assert_eq!(codes(&problems), ["STATE_DIR_UNSAFE"]);
    let mode = fs::metadata(&dirs.state).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o777, "an existing directory's mode is not changed");
    assert_eq!(fs::read_dir(&dirs.state).unwrap().count(), 0);
}

#[test]
fn a_link_in_place_of_the_database_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let path = database(root.path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let target = root.path().join("target");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let (store, problems) = open(root.path());
    assert_eq!(codes(&problems), ["DATABASE_UNAVAILABLE"]);
    works(&store);
    assert!(!target.exists());
}

#[test]
fn sessions_of_an_engine_that_is_gone_are_ended_and_those_of_a_running_one_are_not() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    store.session_started(start("mine"));
    assert!(store.flush());
    // A row of a process that had another start time: its process id was used again since.
    let own = EngineId::current();
    let gone = EngineId {
        start: format!("{}1", own.start),
        ..own
    };
    let connection = Connection::open(database(root.path())).unwrap();
    row::apply(
        &connection,
        &gone,
        &row::Write::Started {
            engine: gone.clone(),
            start: Box::new(start("theirs")),
        },
    )
    .unwrap();
    drop(connection);

    let (other, problems) = open(root.path());
    assert_eq!(problems, vec![]);
    let sessions = other.sessions(10).unwrap();
    let theirs = sessions.iter().find(|row| row.id == "theirs").unwrap();
    assert_eq!(theirs.state, SandboxState::Destroyed);
    assert_eq!(theirs.error_code.as_deref(), Some("ENGINE_ENDED"));
    assert_eq!(theirs.error_message.as_deref(), Some("engine ended"));
    assert!(theirs.ended_at_ms.is_some());
    let mine = sessions.iter().find(|row| row.id == "mine").unwrap();
    assert_eq!((mine.ended_at_ms, mine.error_code.as_deref()), (None, None));
}

#[test]
fn a_database_that_was_busy_at_the_start_is_written_once_it_is_free() {
    let root = tempfile::tempdir().unwrap();
    drop(open_clean(root.path()));
    let lock = fs::File::options()
        .write(true)
        .open(database(root.path()).with_extension("lock"))
        .unwrap();
    lock.lock().unwrap();
    let (store, problems) = open(root.path());
    assert_eq!(codes(&problems), ["DATABASE_BUSY"]);
    store.session_started(start("waits"));
    drop(lock);
    assert!(store.flush());
    drop(store);
    let kept = open_clean(root.path()).sessions(10).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].id, "waits");
}

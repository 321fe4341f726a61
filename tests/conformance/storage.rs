//! Kotak's own files fail: an unwritable state directory, a corrupt database, a full disk. It is
//! said with code and fix, and the session is what it would have been.

use kotak_tests::stage::{SECRET, Stage, is_root};
use kotak_tests::{Kotak, Outcome};

/// A sandboxed program that tries to read a secret and says that it ran.
fn sandboxed(call: Kotak) -> Outcome {
    call.args(["run", "--backend", "native", "--profile", "terminal", "--"])
        .args(["sh", "-c", "cat ~/.ssh/secret; echo ran"])
        .run()
}

/// It ran, in its sandbox, and the problem was told.
#[track_caller]
fn went_on(outcome: &Outcome, code: &str) {
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "ran\n"),
        "{outcome:?}"
    );
    assert!(!outcome.stdout.contains(SECRET), "{outcome:?}");
    assert!(
        outcome.stderr.contains(&format!("[{code}]")),
        "{code} is not told: {outcome:?}"
    );
    assert!(outcome.stderr.contains("  fix: "), "no fix: {outcome:?}");
}

#[track_caller]
fn quiet(outcome: &Outcome) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ran\n"));
    assert!(
        !outcome.stderr.contains("fix:"),
        "the control failed: {outcome:?}"
    );
}

#[test]
fn an_unwritable_state_directory_is_told_and_the_session_runs() {
    let stage = Stage::new();
    stage.write("file", "not a directory\n");
    let state = stage.home().join("file/state");
    went_on(
        &sandboxed(stage.kotak().env("KOTAK_STATE_DIR", &state)),
        "STATE_DIR_UNWRITABLE",
    );
    let fine = stage.home().join("fine");
    quiet(&sandboxed(stage.kotak().env("KOTAK_STATE_DIR", &fine)));
}

#[test]
fn a_corrupt_database_is_set_aside_and_nothing_of_it_is_lost() {
    let stage = Stage::new();
    quiet(&sandboxed(stage.kotak()));
    let state = stage.home().join(".local/state/kotak");
    for file in ["store.sqlite-wal", "store.sqlite-shm"] {
        let _absent = std::fs::remove_file(state.join(file));
    }
    let damage = b"this is not a database, and it is long enough to be told from a short one";
    std::fs::write(state.join("store.sqlite"), damage).expect("a file");
    went_on(&sandboxed(stage.kotak()), "DATABASE_SET_ASIDE");
    let kept = std::fs::read_dir(&state)
        .expect("a directory")
        .flatten()
        .find(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("store.sqlite.corrupt-")
        })
        .expect("the old file is kept");
    assert_eq!(std::fs::read(kept.path()).expect("a file"), damage);
    quiet(&sandboxed(stage.kotak()));
    let sessions = stage.kotak().args(["sessions", "--json"]).run();
    // The run that met the damage and the one after it; the first is in the file set aside.
    let history = sessions.stdout.matches("\"program\": \"sh\"").count();
    assert_eq!(history, 2, "{sessions:?}");
}

#[test]
fn a_full_disk_is_told_and_the_session_runs() {
    let stage = Stage::new();
    let state = stage.home().join("tiny");
    std::fs::create_dir(&state).expect("a directory");
    let on_disk = |fill: &str| {
        let line = format!(
            "mount -t tmpfs -o size=256k,mode=700 tiny '{0}' && {fill} && exec \"$@\"",
            state.display()
        )
        .replace("STATE", &state.display().to_string());
        let wrapper: &[&str] = if is_root() {
            &["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        } else {
            &[
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
            ]
        };
        let wrapper = wrapper.iter().copied().chain([line.as_str(), "sh"]);
        sandboxed(stage.kotak().env("KOTAK_STATE_DIR", &state).behind(wrapper))
    };
    went_on(
        &on_disk("{ cat /dev/zero > 'STATE/filler' 2>/dev/null || true; }"),
        "DISK_FULL",
    );
    let fine = on_disk("rm -f 'STATE/filler'");
    assert_eq!((fine.code, fine.stdout.as_str()), (0, "ran\n"), "{fine:?}");
}

//! What a call names changes while it runs: never a matching file on the host.

use crate::cases::last_answer;
use kotak_tests::field::{Field, Rules};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn seconds() -> String {
    std::env::var("KOTAK_RACE_SECONDS").unwrap_or_else(|_| "2".to_owned())
}

/// Runs one loop of `attempt` under `rules` while the host looks; whether a forbidden name was seen
/// in the workspace, and the loop's answer.
fn looked_at(rules: &Rules, words: &[&str], prepare: &str) -> (bool, serde_json::Value) {
    let field = Field::new();
    field.prepare(prepare);
    let attempt = field.attempt().display().to_string();
    let (call, session) = field.call(rules, &[&[attempt.as_str()][..], words].concat());
    let done = AtomicBool::new(false);
    let (seen, outcome) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = false;
            while !done.load(Ordering::Relaxed) {
                seen |= has_forbidden(&field.work());
                std::thread::sleep(Duration::from_millis(1));
            }
            seen
        });
        let outcome = call.run();
        done.store(true, Ordering::Relaxed);
        (watcher.join().expect("the watcher"), outcome)
    });
    let seen = seen || has_forbidden(&field.work());
    let run = kotak_tests::field::Run { outcome, session };
    let answer = last_answer(&run);
    if rules.globs.is_empty() {
        return (seen, answer);
    }
    let refusals = field.refusals(&run.session);
    assert!(!refusals.is_empty(), "nothing is in the history: {answer}");
    (seen, answer)
}

fn has_forbidden(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).expect("the workspace");
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy().to_lowercase();
        name == ".env" || name.ends_with(".key")
    })
}

#[test]
fn a_path_that_changes_while_it_is_read_never_becomes_a_matching_file() {
    // The names are eight bytes long, so that a thread writes each at once.
    let time = seconds();
    let words = ["flip", &time, "aaaa.txt", "bbbb.key"];
    let (seen, answer) = looked_at(
        &Rules::default(),
        &["flip", "1", "aaaa.txt", "bbbb.key"],
        "",
    );
    assert!(seen, "the control made none: {answer}");
    let (seen, answer) = looked_at(&Rules::names(), &words, "");
    assert!(!seen, "a matching file was made: {answer}");
    let count = |what: &str| answer[what].as_u64().unwrap_or_default();
    assert!(
        count("opened") > 0 && count("refused") > 0,
        "no race: {answer}"
    );
}

#[test]
fn a_file_that_becomes_a_symlink_never_leads_to_a_matching_file() {
    let time = seconds();
    let prepare = "echo x > file && ln -s .env link";
    let (seen, answer) = looked_at(
        &Rules::default(),
        &["exchange", "1", "file", "link"],
        prepare,
    );
    assert!(seen, "the control made none: {answer}");
    let (seen, answer) = looked_at(
        &Rules::names(),
        &["exchange", &time, "file", "link"],
        prepare,
    );
    assert!(!seen, "a matching file was made: {answer}");
    let count = |what: &str| answer[what].as_u64().unwrap_or_default();
    assert!(
        count("opened") > 0 && count("refused") > 0 && count("exchanges") > 0,
        "no race: {answer}"
    );
}

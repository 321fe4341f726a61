//! Random sequences of system calls on files in one session, from a seed, while the host looks for
//! what must never appear: a forbidden name, a change below a protected path, the content of a
//! secret. Five rules left out of a session in turn show that each would be found.
//!
//! `KOTAK_FUZZ_SECONDS` is how long the search runs: 60 when not given. `KOTAK_FUZZ_SEED` repeats
//! one that is printed with every find.

#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "a test that cannot be set up fails, and says why"
)]

mod oracle;

use kotak_tests::field::{Field, Rules};
use kotak_tests::stage::SECRET;
use oracle::Oracle;
use std::time::{Duration, Instant};

/// One session's share of the search, seconds: what earlier sequences have made of the workspace
/// must not keep later ones from where they could find something.
const ROUND: u64 = 5;
/// Rounds of a second that a planted hole must be found in.
const PATIENCE: u64 = 30;

/// The rules that the oracle holds sessions to.
fn rules() -> Rules {
    Rules {
        protected: vec!["safe", "keep/deep/gone"],
        exceptions: vec!["deep/*.pem"],
        home: true,
        ..Rules::names()
    }
}

/// A hole that is not in the rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hole {
    /// A secret where no rule hides it.
    OpenSecret,
}

/// Runs one round under `rules`; what the oracle found.
fn round(
    rules: &Rules,
    hole: Option<Hole>,
    seed: u64,
    seconds: u64,
) -> (Vec<String>, serde_json::Value) {
    let field = Field::new();
    field.prepare(
        "echo old > pre.key; mkdir -p keep/deep safe a state deep; echo original > safe/file; \
         git init -q . && git config user.name t",
    );
    if hole == Some(Hole::OpenSecret) {
        field.stage().write("notes/todo.txt", SECRET);
    }
    let oracle = Oracle::new(&field);
    let attempt = field.attempt().display().to_string();
    let argv = [
        attempt,
        "chaos".to_owned(),
        seed.to_string(),
        seconds.to_string(),
    ];
    let (call, _) = field.call(rules, &argv);
    let (outcome, found) = oracle.watch(|| call.run());
    let line = outcome.stdout.lines().last();
    let line = line.unwrap_or_else(|| panic!("no answer: {outcome:?}"));
    let answer = serde_json::from_str(line).unwrap_or_else(|e| panic!("`{line}`: {e}"));
    (found, answer)
}

/// Rounds under rules with a hole until the oracle finds it.
#[track_caller]
fn is_found(rules: &Rules, what: &str) {
    is_found_with(rules, None, what);
}

#[track_caller]
fn is_found_with(rules: &Rules, hole: Option<Hole>, what: &str) {
    for seed in 1..=PATIENCE {
        let (found, _) = round(rules, hole, seed, 1);
        if !found.is_empty() {
            assert!(
                found.iter().any(|line| line.contains(what)),
                "found something else: {found:?}"
            );
            return;
        }
    }
    panic!("the hole was not found in {PATIENCE} rounds");
}

#[test]
fn no_sequence_of_calls_gets_round_the_rules() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seconds = number("KOTAK_FUZZ_SECONDS").unwrap_or(60);
    let first = number("KOTAK_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |since| since.as_secs())
    });
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut steps, mut succeeded) = (first, 0, 0);
    while Instant::now() < end {
        let (found, answer) = round(&rules(), None, seed, ROUND);
        assert!(
            found.is_empty(),
            "KOTAK_FUZZ_SEED={seed} finds: {}\n{answer:#}",
            found.join("\n")
        );
        steps += answer["steps"].as_u64().unwrap_or_default();
        succeeded += answer["succeeded"].as_u64().unwrap_or_default();
        seed += 1;
    }
    println!(
        "file chaos: {steps} calls, {succeeded} succeeded, seeds {first} to {}",
        seed - 1
    );
    assert!(
        succeeded > 100,
        "of {steps} calls only {succeeded} succeeded: nothing was searched"
    );
}

#[test]
fn a_secret_that_is_not_hidden_is_found() {
    is_found_with(&rules(), Some(Hole::OpenSecret), "holds a secret");
}

#[test]
fn a_name_rule_that_is_missing_is_found() {
    let mut hole = rules();
    hole.globs.retain(|glob| *glob != ".env");
    is_found(&hole, ".env");
}

#[test]
fn a_glob_that_is_missing_is_found() {
    let mut hole = rules();
    hole.globs.retain(|glob| *glob != "*.key");
    is_found(&hole, ".key");
}

#[test]
fn an_exception_too_many_is_found() {
    let mut hole = rules();
    hole.exceptions.push("*.pem");
    is_found(&hole, "cert.pem");
}

#[test]
fn a_protected_path_that_is_missing_is_found() {
    let mut hole = rules();
    hole.protected.retain(|path| *path != "safe");
    is_found(&hole, "safe");
}

#[test]
fn a_protected_path_that_does_not_exist_yet_and_is_missing_is_found() {
    let mut hole = rules();
    hole.protected.retain(|path| *path != "keep/deep/gone");
    is_found(&hole, "gone");
}

#[test]
fn a_directory_that_is_not_judged_is_found() {
    let mut hole = rules();
    hole.runner.push("state");
    is_found(&hole, "state/.env");
}

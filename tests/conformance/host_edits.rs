//! REQ TM-2, SP: secrets stay hidden from a session while programs on the host save them.

use kotak_tests::stage::{SECRET, Stage};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the host saves.
const ROUNDS: u32 = 20;

/// Asks the host to save, and reads until it cannot.
fn reader(file: &str) -> String {
    format!(
        "for n in $(seq {ROUNDS}); do
            : > ask.$n
            until [ -e saved.$n ]; do sleep 0.01; done
            tries=0
            while cat {file} > /dev/null 2>&1; do
                tries=$((tries + 1))
                [ $tries -lt 2000 ] || {{ echo still readable; exit 1; }}
                sleep 0.01
            done
            cat ~/notes/todo.txt > /dev/null || {{ echo the control failed; exit 1; }}
        done
        echo hidden"
    )
}

/// Runs the reader in a terminal while `save` answers it on the host.
fn hidden_after_each_save(stage: &Stage, file: &str, save: impl Fn(&Path) + Sync) {
    let work = stage.work();
    let outcome = std::thread::scope(|scope| {
        let session = scope.spawn(|| stage.terminal(&reader(file)));
        for round in 1..=ROUNDS {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !work.join(format!("ask.{round}")).exists() && !session.is_finished() {
                assert!(Instant::now() < deadline, "round {round} does not begin");
                std::thread::sleep(Duration::from_millis(5));
            }
            save(stage.home());
            fs::write(work.join(format!("saved.{round}")), "").expect("a file");
        }
        session.join().expect("a session")
    });
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "hidden\n"),
        "{outcome:?}"
    );
    let outside = stage.bare(&format!("cat {file}"));
    assert!(
        outside.stdout.contains(SECRET),
        "the control failed: {outside:?}"
    );
}

#[test]
fn a_secret_file_that_the_host_saves_is_hidden_again_each_time() {
    let stage = Stage::new();
    hidden_after_each_save(&stage, "~/.netrc", |home| {
        let new = home.join(".netrc.new");
        fs::write(&new, SECRET).expect("a file");
        fs::rename(&new, home.join(".netrc")).expect("a rename");
    });
}

#[test]
fn a_secret_folder_that_the_host_makes_anew_is_hidden_again_each_time() {
    let stage = Stage::new();
    hidden_after_each_save(&stage, "~/.aws/secret", |home| {
        let aws = home.join(".aws");
        fs::remove_dir_all(&aws).expect("removal");
        fs::create_dir(&aws).expect("a folder");
        fs::write(aws.join("secret"), SECRET).expect("a file");
    });
}

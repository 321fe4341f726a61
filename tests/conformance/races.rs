//! Names that change under Kotak's hands.

use kotak_tests::stage::Stage;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_bind_source_swapped_for_a_symlink_is_never_the_wrong_directory() {
    // launch case: a bind source swapped for a symlink between check and mount. The symlink leads
    // to Kotak's own configuration, which no check lets through: it can only get in unchecked.
    let stage = Stage::new();
    stage.write(".config/kotak/marker", "wrong\n");
    stage.write("work/source/marker", "right\n");
    let wrong = stage.home().join(".config/kotak");
    let source = stage.work().join("source");
    let aside = stage.work().join("aside");
    let launch = || {
        let call = stage.kotak().args(["run", "--backend", "native", "--bind"]);
        call.arg(&source)
            .args(["--", "/bin/cat"])
            .arg(source.join("marker"))
            .run()
    };
    let before = launch();
    assert_eq!(before.stdout, "right\n", "the control failed: {before:?}");

    let stop = AtomicBool::new(false);
    let outcomes = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&source, &aside).expect("a rename");
                symlink(&wrong, &source).expect("a symlink");
                std::thread::yield_now();
                fs::remove_file(&source).expect("removal");
                fs::rename(&aside, &source).expect("a rename");
                std::thread::yield_now();
            }
        });
        let outcomes: Vec<_> = (0..25).map(|_| launch()).collect();
        stop.store(true, Ordering::Relaxed);
        outcomes
    });
    for outcome in &outcomes {
        assert!(!outcome.stdout.contains("wrong"), "{outcome:?}");
        assert!(
            outcome.stdout == "right\n" || outcome.code != 0,
            "{outcome:?}"
        );
    }
    let after = launch();
    assert_eq!(after.stdout, "right\n", "the control failed: {after:?}");
}

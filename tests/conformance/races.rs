//! Names that change under Kotak's hands.

use kotak_tests::stage::{SECRET, Stage};
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

/// Waits until a name is free and takes it with `take`, which must not replace what is there. What
/// is in the way is a mount point that a launch made; it must not outlive that launch.
fn take_back(what: &str, launching: &AtomicBool, take: impl Fn() -> std::io::Result<()>) -> bool {
    let mut looks_after = 0;
    let mut was_taken = false;
    while let Err(error) = take() {
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{what}");
        was_taken = true;
        if !launching.load(Ordering::Relaxed) {
            looks_after += 1;
        }
        assert!(looks_after < 200, "a mount point is left at {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    was_taken
}

#[test]
fn a_secret_that_vanishes_while_it_is_masked_leaves_no_mount_point_on_the_host() {
    // launch case: empty dotfiles or directories appear because a mask needed a mount point
    let stage = Stage::new();
    assert!(stage.terminal("true").succeeded(), "the control failed");
    let (file, dir) = (stage.home().join(".netrc"), stage.home().join(".kube"));
    let (copy, before) = (stage.home().join("copy"), stage.inventory());
    fs::copy(&file, &copy).expect("a copy");

    let launching = AtomicBool::new(true);
    let (outcomes, met) = std::thread::scope(|scope| {
        let racer = scope.spawn(|| {
            let mut met = 0;
            while launching.load(Ordering::Relaxed) {
                fs::remove_file(&file).expect("removal");
                fs::remove_dir_all(&dir).expect("removal");
                std::thread::sleep(std::time::Duration::from_millis(3));
                met += u32::from(take_back(".netrc", &launching, || {
                    fs::hard_link(&copy, &file)
                }));
                met += u32::from(take_back(".kube", &launching, || fs::create_dir(&dir)));
                fs::write(dir.join("secret"), SECRET).expect("a file");
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
            met
        });
        let outcomes: Vec<_> = (0..30).map(|_| stage.terminal("echo ran")).collect();
        launching.store(false, Ordering::Relaxed);
        (outcomes, racer.join().expect("the racer"))
    });
    println!("mount points met while launching: {met}");
    for outcome in &outcomes {
        let ran = (outcome.code, outcome.stdout.as_str()) == (0, "ran\n");
        let refused = outcome.code != 0 && outcome.stdout.is_empty();
        assert!(
            ran || refused && outcome.stderr.contains("  fix: "),
            "{outcome:?}"
        );
    }
    fs::remove_file(&copy).expect("removal");
    assert_eq!(stage.inventory(), before);
    assert!(stage.terminal("true").succeeded(), "the control failed");
}

//! Names that change under Kotak's hands.

use kotak_tests::stage::Stage;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// Moves `aside` back to its name, and never over what stands there: that is a mount point that a
/// launch made, and must not outlive it. Whether there was one.
fn move_back(aside: &Path, name: &Path, launching: &AtomicBool) -> bool {
    let mut met = false;
    let mut looks_after = 0;
    while let Err(errno) = renameat2(
        AT_FDCWD,
        aside,
        AT_FDCWD,
        name,
        RenameFlags::RENAME_NOREPLACE,
    ) {
        assert_eq!(errno, Errno::EEXIST, "{}", name.display());
        met = true;
        if !launching.load(Ordering::Relaxed) {
            looks_after += 1;
        }
        assert!(looks_after < 200, "left on the host: {}", name.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    met
}

#[test]
fn a_secret_that_vanishes_while_it_is_masked_leaves_no_mount_point_on_the_host() {
    // launch case: empty dotfiles or directories appear because a mask needed a mount point
    let stage = Stage::new();
    assert!(stage.terminal("true").succeeded(), "the control failed");
    let before = stage.inventory();
    let secrets = [".netrc", ".kube", ".cargo/credentials"].map(|name| stage.home().join(name));
    let aside = stage.home().join("aside");

    let launching = AtomicBool::new(true);
    let (outcomes, met) = std::thread::scope(|scope| {
        let racer = scope.spawn(|| {
            let mut met = 0;
            for (secret, pause) in secrets.iter().cycle().zip((0..12).cycle()) {
                if !launching.load(Ordering::Relaxed) {
                    break;
                }
                fs::rename(secret, &aside).expect("a rename");
                std::thread::sleep(Duration::from_millis(25));
                met += u32::from(move_back(&aside, secret, &launching));
                // Of another length each time, so that every moment of a launch is met.
                std::thread::sleep(Duration::from_millis(40 + 9 * pause));
            }
            met
        });
        let outcomes: Vec<_> = (0..40).map(|_| stage.terminal("echo ran")).collect();
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
    assert_eq!(stage.inventory(), before);
    assert!(stage.terminal("true").succeeded(), "the control failed");
}

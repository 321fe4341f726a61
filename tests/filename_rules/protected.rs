//! Protected paths, also where they do not exist yet (REQ SP-1): neither they nor their ancestors
//! move, and nothing is left of a launch on the host.

use crate::cases::{Control, judge_under, refused, same};
use kotak_tests::field::{Field, Rules};

/// Cases about `c0/keep/safe`, which exists, or not.
fn cases(steps: &[crate::cases::Case], protected: &'static str) {
    judge_under(&Rules::protecting(protected), Control::Rules, steps);
}

#[test]
fn a_protected_path_that_does_not_exist_cannot_be_made() {
    for (steps, action) in [
        (
            "open :keep/safe O_CREAT|O_WRONLY 0o600",
            "file-write-create",
        ),
        ("mkdir :keep/safe 0o700", "file-write-create"),
        ("symlink :/tmp :keep/safe", "file-write-create"),
        ("rename :ok.txt :keep/safe", "file-write-rename"),
        ("rename :sub :keep/safe", "file-write-rename"),
        ("link :ok.txt :keep/safe", "file-write-link"),
        ("mknod :keep/safe S_IFIFO|0o600 0", "file-write-create"),
        ("open :k/safe O_CREAT|O_WRONLY 0o600", "file-write-create"),
    ] {
        cases(
            &[refused("made", steps, action, "keep/safe").after("mkdir keep; ln -s keep k")],
            "c0/keep/safe",
        );
    }
}

#[test]
fn the_ancestors_of_a_protected_path_do_not_move() {
    for (steps, action, path) in [
        ("rename :keep :k", "file-write-rename", "keep"),
        (
            "renameat2 AT_FDCWD :keep AT_FDCWD :sub RENAME_EXCHANGE",
            "file-write-rename",
            "keep",
        ),
        ("rename :keep/deep :k", "file-write-rename", "keep/deep"),
        ("rmdir :keep/deep", "file-write-unlink", "keep/deep"),
    ] {
        cases(
            &[refused("moved", steps, action, path).after("mkdir -p keep/deep")],
            "c0/keep/deep/safe",
        );
    }
    // An ancestor that does not exist cannot be a symlink; as a directory it can be made.
    cases(
        &[refused(
            "a symlink",
            "symlink :sub :keep",
            "file-write-create",
            "keep",
        )],
        "c0/keep/deep/safe",
    );
    cases(
        &[same("a directory", "mkdir :keep 0o700")],
        "c0/keep/deep/safe",
    );
    cases(
        &[same("a sibling", "rename :keep/other :keep/moved")
            .after("mkdir -p keep/other keep/deep")],
        "c0/keep/deep/safe",
    );
}

#[test]
fn what_lies_in_a_protected_directory_stays() {
    for (steps, errnos) in [
        ("open :safe/file O_WRONLY 0", ["EACCES", "EROFS"]),
        ("open :safe/new O_CREAT|O_WRONLY 0o600", ["EACCES", "EROFS"]),
        ("unlink :safe/file", ["EACCES", "EROFS"]),
        ("rename :safe/file :x", ["EACCES", "EROFS"]),
        ("rename :ok.txt :safe/file", ["EACCES", "EROFS"]),
        ("link :safe/file :x", ["EACCES", "EXDEV"]),
        ("rename :safe :x", ["EACCES", "EBUSY"]),
        ("rmdir :safe", ["EACCES", "EBUSY"]),
        ("chdir :safe then truncate :file 0", ["EACCES", "EROFS"]),
    ] {
        let field = Field::new();
        field.prepare("mkdir safe && echo original > safe/file && echo ok > ok.txt");
        let attempt = field.attempt().display().to_string();
        let words = steps.split(' ').map(str::to_owned);
        let argv: Vec<String> = std::iter::once(attempt).chain(words).collect();
        let before = field.inventory();
        let run = field.run(&Rules::protecting("safe"), &argv);
        let answer = crate::cases::last_answer(&run);
        let name = answer["name"].as_str().unwrap_or("success");
        assert!(errnos.contains(&name), "`{steps}`: {answer}");
        assert_eq!(field.inventory(), before, "`{steps}`");
    }
    let field = Field::new();
    field.prepare("mkdir safe && echo original > safe/file");
    let run = field.shell(&Rules::default(), "echo x > safe/file && rm -r safe");
    assert!(run.outcome.succeeded(), "the control: {run:?}");
}

#[test]
fn a_launch_leaves_no_placeholder_not_even_when_the_engine_is_killed() {
    // launch case: empty dotfiles or directories appear because a mask needed a mount point
    let field = Field::new();
    field.prepare("mkdir -p a/.git b && echo x > f");
    let before = field.inventory();
    let rules = Rules {
        protected: vec!["none", "a/none/deeper", "b/.vscode", ".mcp.json"],
        ..Rules::names()
    };
    let run = field.shell(
        &rules,
        "ls -a . a b; mkdir none; mkdir -p a/none/deeper; true",
    );
    assert!(run.outcome.succeeded(), "{run:?}");
    assert!(!run.outcome.stdout.contains(".vscode"), "{run:?}");
    let expected = field.work().join("a/none");
    let after: Vec<_> = field
        .inventory()
        .into_iter()
        .filter(|(path, _)| *path != expected)
        .collect();
    assert_eq!(after, before);

    let (call, _) = field.call(&rules, &["/bin/sh", "-c", "echo up; sleep 1000"]);
    let mut child = call.command().spawn().expect("kotak");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut line = [0_u8; 3];
    std::io::Read::read_exact(&mut stdout, &mut line).expect("the payload runs");
    child.kill().expect("a signal");
    child.wait().expect("an end");
    std::io::Read::read_to_end(&mut stdout, &mut Vec::new()).expect("the end of the payload");
    let after: Vec<_> = field
        .inventory()
        .into_iter()
        .filter(|(path, _)| *path != expected)
        .collect();
    assert_eq!(after, before);
}

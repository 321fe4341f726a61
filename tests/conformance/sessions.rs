//! What one session leaves behind in the writable home must not blind the next one.

use kotak_tests::Outcome;
use kotak_tests::stage::{SECRET, Stage, is_root, skip};

/// The second session was refused with `code`, and names the command that helps.
fn refused(outcome: &Outcome, code: &str) {
    assert_ne!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains(code), "{outcome:?}");
    assert!(!outcome.stdout.contains(SECRET), "{outcome:?}");
}

/// The guard refuses it inside; then it is done on the host, as by a session without a guard that
/// supervises, so that the next one's launch can be seen to hold by itself.
fn refused_inside_done_outside(stage: &Stage, extra: &[&str], script: &str) {
    let inside = stage.terminal_with(extra, script);
    assert_ne!(inside.code, 0, "`{script}`: {inside:?}");
    let outside = stage.bare(script);
    assert!(outside.succeeded(), "`{script}`: {outside:?}");
}

/// Permissions do not stop root, so nothing is hidden from its launches by them.
fn root_sees_all() -> bool {
    if is_root() {
        skip("permissions hide nothing from root's launches");
    }
    is_root()
}

#[test]
fn taking_a_folders_permissions_does_not_uncover_its_secrets_to_the_next_session() {
    // REQ TM-2, SP-2
    if root_sees_all() {
        return;
    }
    for (dir, mode, secret) in [
        (".config", "0", ".config/gh/secret"),
        (".config", "0300", ".config/google-chrome/secret"),
        (".cargo", "0300", ".cargo/credentials.toml"),
        (".docker", "0", ".docker/config.json"),
        (".local/share", "0", ".local/share/keyrings/secret"),
    ] {
        let stage = Stage::new();
        refused_inside_done_outside(&stage, &[], &format!("chmod {mode} ~/{dir}"));
        let read = format!("chmod 700 ~/{dir}; cat ~/{secret}");
        let second = stage.terminal(&read);
        refused(&second, "_NOT_VISIBLE");
        assert!(second.stderr.contains("chmod u+rwx"), "{second:?}");
        let control = stage.bare(&read);
        assert!(control.stdout.contains(SECRET), "{control:?}");
        // With the permissions back, launches work again and hide it.
        let third = stage.terminal(&format!("cat ~/{secret}; echo ran"));
        assert_eq!(third.stdout, "ran\n", "{third:?}");
    }
}

#[test]
fn a_loop_of_symlinks_at_a_secret_path_refuses_the_next_session() {
    let stage = Stage::new();
    let first = stage.terminal("ln -s .vault-token ~/.vault-token");
    assert!(first.succeeded(), "{first:?}");
    refused(&stage.terminal("echo ran"), "SECRET_NOT_VISIBLE");
    std::fs::remove_file(stage.home().join(".vault-token")).expect("removal");
    assert!(stage.terminal("echo ran").succeeded(), "the control failed");
}

#[test]
fn secrets_of_a_glob_are_hidden_in_a_folder_with_many_entries() {
    let stage = Stage::new();
    let fill = "cd ~/.cargo && seq -f 'a%.0f' 10500 | xargs touch";
    assert!(stage.terminal(fill).succeeded());
    let read = "cat ~/.cargo/credentials.toml; echo ran";
    assert_eq!(stage.terminal(read).stdout, "ran\n");
    assert!(
        stage.bare(read).stdout.contains(SECRET),
        "the control failed"
    );
}

#[test]
fn a_protected_path_in_a_closed_folder_refuses_the_next_session() {
    // REQ SP-1
    if root_sees_all() {
        return;
    }
    let stage = Stage::new();
    stage.write("work/a/original/file", "original\n");
    let protected = stage.home().join("work/a/original");
    let extra = ["--protect", protected.to_str().expect("UTF-8")];
    refused_inside_done_outside(&stage, &extra, "chmod 0 ~/work/a");
    let write = "chmod 700 ~/work/a; echo evil > ~/work/a/original/file";
    refused(&stage.terminal_with(&extra, write), "PATH_NOT_VISIBLE");
    assert!(stage.bare("chmod 700 ~/work/a").succeeded());
    assert_eq!(
        stage.read("work/a/original/file").as_deref(),
        Some("original\n")
    );
    assert!(stage.bare(write).succeeded(), "the control failed");
}

#[test]
fn a_folder_made_to_look_like_a_repository_does_not_uncover_the_hooks_below_it() {
    let stage = Stage::new();
    let fake = "cd ~/work && touch HEAD && mkdir -p objects refs";
    refused_inside_done_outside(&stage, &[], fake);
    for attempt in [
        "echo evil > ~/work/.git/hooks/pre-commit",
        "echo evil > ~/work/sub/deep/.git/hooks/pre-commit",
        "echo evil > ~/work/sub/deep/.git/hooks/new",
    ] {
        assert_ne!(stage.terminal(attempt).code, 0, "`{attempt}` succeeded");
        assert!(stage.bare(attempt).succeeded(), "the control failed");
    }
}

#[test]
fn a_folder_that_cannot_be_listed_is_held_with_the_repositories_in_it() {
    if root_sees_all() {
        return;
    }
    for mode in ["0", "0300", "0400"] {
        let stage = Stage::new();
        refused_inside_done_outside(&stage, &[], &format!("chmod {mode} ~/work/sub"));
        let attempt = "chmod 700 ~/work/sub; echo evil > ~/work/sub/deep/.git/hooks/pre-commit";
        let second = stage.terminal(attempt);
        assert_ne!(second.code, 0, "{mode}: {second:?}");
        let moved = stage.terminal("mv ~/work/sub ~/work/moved");
        assert_ne!(moved.code, 0, "{mode}: {moved:?}");
        assert!(stage.bare("chmod 700 ~/work/sub").succeeded());
        assert_eq!(
            stage.read("work/sub/deep/.git/hooks/pre-commit").as_deref(),
            Some("original\n"),
            "{mode}"
        );
        assert!(stage.bare(attempt).succeeded(), "the control failed");
    }
}

#[test]
fn relative_hooks_are_held_in_every_work_tree() {
    let stage = Stage::new();
    let prepare = "mkdir ~/main && cd ~/main && git init -q -b main \
                   && git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m 1 \
                   && git worktree add -q ~/tree && git config core.hooksPath .husky \
                   && mkdir .husky ~/tree/.husky";
    let prepared = stage.bare(prepare);
    assert!(prepared.succeeded(), "{prepared:?}");
    for attempt in [
        "echo evil > ~/main/.husky/pre-commit",
        "echo evil > ~/tree/.husky/pre-commit",
    ] {
        assert_ne!(stage.terminal(attempt).code, 0, "`{attempt}` succeeded");
        assert!(stage.bare(attempt).succeeded(), "the control failed");
    }
}

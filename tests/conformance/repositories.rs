//! Repositories in their less common forms (launch case: `.git` is a file).

use kotak_tests::Outcome;
use kotak_tests::stage::Stage;

const COMMIT: &str = "git -c user.name=t -c user.email=t@example.com commit -q";

/// Runs git outside, to prepare a repository.
fn prepare(stage: &Stage, dir: &str, script: &str) {
    let outcome = stage.bare(&format!(
        "cd ~/{dir} && export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com \
         GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com && {script}"
    ));
    assert!(outcome.succeeded(), "`{script}`: {outcome:?}");
}

fn terminal_in(stage: &Stage, dir: &str, script: &str) -> Outcome {
    let dir = stage.home().join(dir);
    stage.terminal_with(&["--cwd", dir.to_str().expect("UTF-8")], script)
}

#[test]
fn a_submodule_works_and_its_hooks_and_configuration_stay_protected() {
    let stage = Stage::new();
    for dir in ["library", "project"] {
        std::fs::create_dir(stage.home().join(dir)).expect("a directory");
        prepare(
            &stage,
            dir,
            "git init -q -b main && git commit -q --allow-empty -m first",
        );
    }
    prepare(
        &stage,
        "project",
        "git -c protocol.file.allow=always submodule --quiet add ../library lib \
         && git commit -q -m added && mkdir -p .git/modules/lib/hooks \
         && echo original > .git/modules/lib/hooks/pre-push",
    );
    let inside = terminal_in(
        &stage,
        "project/lib",
        &format!("echo x > f && git add f && {COMMIT} -m two && git log --format=%s | head -1"),
    );
    assert_eq!(
        (inside.code, inside.stdout.trim()),
        (0, "two"),
        "{inside:?}"
    );
    for cwd in ["project", "project/lib"] {
        for attempt in [
            "echo evil > ~/project/.git/modules/lib/hooks/pre-push",
            "echo evil > ~/project/.git/modules/lib/hooks/post-checkout",
            "git -C ~/project/lib config core.pager evil",
            "git -C ~/project config core.fsmonitor evil",
            "mv ~/project/.git/modules/lib ~/project/.git/modules/l2",
            "mv ~/project/.git/modules ~/project/.git/m2",
        ] {
            let inside = terminal_in(&stage, cwd, attempt);
            assert_ne!(inside.code, 0, "{cwd}: `{attempt}` succeeded inside");
        }
    }
    let hook = stage.read("project/.git/modules/lib/hooks/pre-push");
    assert_eq!(hook.as_deref(), Some("original\n"));
    prepare(&stage, "project/lib", "git config core.pager less");
    prepare(
        &stage,
        "project",
        "echo changed > .git/modules/lib/hooks/pre-push",
    );
}

#[test]
fn a_worktree_alone_in_a_bind_can_be_committed_in() {
    let stage = Stage::new();
    std::fs::create_dir(stage.home().join("main")).expect("a directory");
    prepare(
        &stage,
        "main",
        "git init -q -b main && git commit -q --allow-empty -m first && git worktree add -q ../tree",
    );
    let tree = stage.home().join("tree");
    let bound = |script: &str| {
        let call = kotak_tests::Kotak::new(stage.home(), &tree);
        call.args(["run", "--backend", "native", "--bind"])
            .arg(&tree)
            .args(["--", "/bin/sh", "-c", script])
            .run()
    };
    let inside = bound(&format!(
        "echo x > f && git add f && {COMMIT} -m two && git log --format=%s | head -1"
    ));
    assert_eq!(
        (inside.code, inside.stdout.trim()),
        (0, "two"),
        "{inside:?}"
    );
    let home = stage.home().display();
    for attempt in [
        format!("echo evil > {home}/main/.git/hooks/pre-commit"),
        "git config core.pager evil".to_owned(),
        format!("echo evil >> {home}/main/.git/config"),
    ] {
        let inside = bound(&attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside");
    }
    prepare(&stage, "tree", "git config core.pager less");
}

#[test]
fn hooks_of_nested_repositories_are_protected_at_every_depth() {
    let stage = Stage::new();
    let hooks = ["work/a/.git/hooks/h", "work/a/b/c/d/e/.git/hooks/h"];
    for hook in hooks {
        stage.write(hook, "original\n");
        stage.write(&hook.replace("hooks/h", "HEAD"), "ref: refs/heads/main\n");
        stage.write(&hook.replace("hooks/h", "config"), "[core]\n");
    }
    for hook in hooks {
        for attempt in [
            format!("echo evil > ~/{hook}"),
            format!("echo evil > ~/{hook}2"),
            format!("echo evil >> ~/{}", hook.replace("hooks/h", "config")),
        ] {
            assert_ne!(stage.terminal(&attempt).code, 0, "`{attempt}` succeeded");
            assert!(stage.bare(&attempt).succeeded(), "the control failed");
        }
    }
}

#[test]
fn hooks_that_the_users_own_configuration_names_are_held() {
    // A global core.hooksPath makes git on the host run what lies there in every repository.
    let stage = Stage::new();
    for (value, hooks) in [("~/githooks", "githooks"), (".husky", "work/.husky")] {
        stage.write(
            ".gitconfig",
            &format!("[core]\n\thooksPath = \\\n  {value}\n"),
        );
        stage.write(&format!("{hooks}/pre-commit"), "original\n");
        for attempt in [
            format!("echo evil > ~/{hooks}/pre-commit"),
            format!("echo evil > ~/{hooks}/post-checkout"),
            format!("rm -rf ~/{hooks}"),
            format!("mv ~/{hooks} ~/elsewhere && mkdir ~/{hooks}"),
            "git config --global core.hooksPath ~/evil".to_owned(),
            "echo '[core]' >> ~/.gitconfig".to_owned(),
        ] {
            let inside = stage.terminal(&attempt);
            assert_ne!(inside.code, 0, "`{attempt}` succeeded inside: {inside:?}");
        }
        let hook = stage.read(&format!("{hooks}/pre-commit"));
        assert_eq!(hook.as_deref(), Some("original\n"));
        for control in [
            format!("echo changed > ~/{hooks}/pre-commit"),
            format!("mv ~/{hooks} ~/elsewhere && mv ~/elsewhere ~/{hooks}"),
            "git config --global core.hooksPath ~/other".to_owned(),
        ] {
            let outside = stage.bare(&control);
            assert!(
                outside.succeeded(),
                "the control `{control}` failed: {outside:?}"
            );
        }
    }
}

#[test]
fn thousands_of_repositories_do_not_keep_the_next_session_from_starting_and_are_held() {
    // launch case: a program inside made as many as the search can find
    let stage = Stage::new();
    for index in 0..7_000 {
        let at = stage.work().join(format!("many/m{index}/.git"));
        std::fs::create_dir_all(at.join("hooks")).expect("a directory");
        for name in ["HEAD", "config"] {
            std::fs::write(at.join(name), "").expect("a file");
        }
    }
    let mut script = String::new();
    for index in [0, 3_500, 6_999] {
        let at = format!("many/m{index}");
        script.push_str(&format!(
            "(echo evil > {at}/.git/hooks/pre-commit) && echo made a hook\n\
             (mv {at}/.git/hooks {at}/.git/old) && echo moved the hooks\n\
             (echo '[core] fsmonitor = ./evil' > {at}/.git/config); cat {at}/.git/config\n\
             echo free > {at}/file && cat {at}/file\n"
        ));
    }
    let inside = stage.terminal(&script);
    assert_eq!(inside.stdout, "free\n".repeat(3), "{inside:?}");
    let control = stage.bare("echo made > many/m6999/.git/hooks/pre-commit && echo made a hook");
    assert_eq!(
        control.stdout, "made a hook\n",
        "the control failed: {control:?}"
    );
}

//! Writes: the home and the working directory, no more; protected paths never; modes; binds.

use kotak_tests::stage::{PROTECTED_FILES, Stage, is_root};

#[test]
fn the_home_and_the_working_directory_are_writable() {
    // REQ TM-2
    let stage = Stage::new();
    let inside = stage.terminal("echo a > ~/fresh && echo b > ./fresh && cat ~/fresh fresh");
    assert_eq!(
        (inside.code, inside.stdout.as_str()),
        (0, "a\nb\n"),
        "{inside:?}"
    );
    assert_eq!(stage.read("fresh").as_deref(), Some("a\n"));
    assert_eq!(stage.read("work/fresh").as_deref(), Some("b\n"));
}

#[test]
fn writes_outside_the_home_and_the_working_directory_are_refused() {
    // REQ TM-2
    let stage = Stage::new();
    let roots: &[&str] = &[
        "/usr", "/etc", "/opt", "/var", "/var/lib", "/bin", "/sbin", "/", "/srv",
    ];
    for dir in roots
        .iter()
        .filter(|dir| std::path::Path::new(dir).exists())
    {
        let attempt = format!("touch {dir}/kotak-test-file");
        assert_ne!(stage.terminal(&attempt).code, 0, "{dir} is writable inside");
        if is_root() {
            let control = stage.bare(&format!("{attempt} && rm {dir}/kotak-test-file"));
            assert!(
                control.succeeded(),
                "the control failed for {dir}: {control:?}"
            );
        }
    }
}

#[test]
fn the_temporary_directories_are_private_and_writable() {
    // launch case: TMPDIR missing or read-only inside
    let stage = Stage::new();
    let name = format!("kotak-private-{}", std::process::id());
    let inside = stage.terminal(&format!(
        "echo x > /tmp/{name} && echo x > /var/tmp/{name} && mktemp >/dev/null && \
         test -w \"${{TMPDIR:-/tmp}}\""
    ));
    assert!(inside.succeeded(), "{inside:?}");
    assert!(
        !std::path::Path::new("/tmp").join(&name).exists(),
        "left on the host"
    );
    assert!(
        !std::path::Path::new("/var/tmp").join(&name).exists(),
        "left on the host"
    );
}

#[test]
fn every_mandatory_write_deny_that_exists_is_refused() {
    let stage = Stage::new();
    for file in PROTECTED_FILES {
        let path = format!("\"$HOME/{file}\"");
        let attempts = [
            format!("echo evil > {path}"),
            format!("echo evil >> {path}"),
            format!("rm -f {path}"),
            format!("mv {path} ~/elsewhere"),
            format!("ln -f {path} ~/again && echo evil > ~/again"),
            format!("echo evil > ~/new && mv -f ~/new {path}"),
            format!("sed -i s/original/evil/ {path}"),
            format!("chmod 777 {path}"),
        ];
        // All in one session, each telling when it succeeded.
        let script: String = attempts
            .iter()
            .enumerate()
            .map(|(number, attempt)| format!("({attempt}) && echo succeeded: {number}\n"))
            .chain(["echo end\n".to_owned()])
            .collect();
        let inside = stage.terminal(&script);
        assert_eq!(inside.stdout, "end\n", "{attempts:#?}: {inside:?}");
        assert_eq!(
            stage.read(file).as_deref(),
            Some("original\n"),
            "{file} changed"
        );
    }
    for file in PROTECTED_FILES {
        let control = stage.bare(&format!("echo changed > \"$HOME/{file}\""));
        assert!(
            control.succeeded(),
            "the control failed for {file}: {control:?}"
        );
        assert_eq!(stage.read(file).as_deref(), Some("changed\n"));
    }
}

#[test]
fn an_ancestor_of_a_protected_path_cannot_be_renamed_away() {
    let stage = Stage::new();
    for attempt in [
        "mv .git g",
        "mv sub s2",
        "mv sub/deep d2",
        "mv ~/work ~/w2",
        "mv ~/.config ~/c2",
        "mv ~/.config/systemd ~/s2",
        "mv ~/.local ~/l2",
    ] {
        let inside = stage.terminal(attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside");
    }
    let whole = "mv .git g; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit";
    let _ = stage.terminal(whole);
    assert_eq!(
        stage.read("work/.git/hooks/pre-commit").as_deref(),
        Some("original\n")
    );
    assert!(
        stage.bare("mv .git g && mv g .git").succeeded(),
        "the control failed"
    );
}

#[test]
fn protected_paths_are_read_only_in_every_mode() {
    // REQ SP protectedPaths, SP-1
    let stage = Stage::new();
    stage.write("work/original/src/main.rs", "fn main() {}\n");
    let path = stage.work().join("original");
    let path = path.to_str().expect("UTF-8");
    for mode in ["chat", "review", "plan", "orchestrate"] {
        let inside = stage.terminal_with(
            &["--mode", mode, "--protect", path],
            "cat original/src/main.rs; echo evil > original/src/main.rs",
        );
        assert_ne!(inside.code, 0, "{mode}: {inside:?}");
        assert!(
            inside.stdout.contains("fn main"),
            "{mode}: readable: {inside:?}"
        );
        let moved = stage.terminal_with(&["--mode", mode, "--protect", path], "mv original o2");
        assert_ne!(moved.code, 0, "{mode}: the protected directory was moved");
    }
    assert_eq!(
        stage.read("work/original/src/main.rs").as_deref(),
        Some("fn main() {}\n")
    );
    let control = stage.terminal("echo changed > original/src/main.rs");
    assert!(control.succeeded(), "the control failed: {control:?}");
}

#[test]
fn review_plan_and_orchestrate_are_read_only_and_chat_is_not() {
    // REQ SP mode
    let stage = Stage::new();
    for mode in ["review", "plan", "orchestrate"] {
        for attempt in [
            "echo x > new",
            "echo x > ~/new",
            "echo x > readme.txt",
            "rm readme.txt",
        ] {
            let inside = stage.terminal_with(&["--mode", mode], attempt);
            assert_ne!(inside.code, 0, "{mode}: `{attempt}` succeeded");
        }
    }
    let chat = stage.terminal_with(&["--mode", "chat"], "echo x > new && rm new");
    assert!(chat.succeeded(), "the control failed: {chat:?}");
    assert_eq!(stage.read("work/readme.txt").as_deref(), Some("hello\n"));
}

#[test]
fn nothing_is_left_on_the_host() {
    // launch case: empty dotfiles or directories appear because a mask needed a mount point
    let stage = Stage::new();
    // Half of the set is missing: nothing may be created for it.
    for path in [
        ".aws",
        ".kube",
        ".config/gh",
        "work/.claude",
        ".zshrc",
        "work/.envrc",
        ".netrc",
    ] {
        let path = stage.home().join(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).expect("removal");
        } else {
            std::fs::remove_file(path).expect("removal");
        }
    }
    assert!(stage.terminal("true").succeeded());
    let before = stage.inventory();
    assert!(
        stage
            .terminal("ls -A ~ >/dev/null; ls -A . > /dev/null")
            .succeeded()
    );
    assert_eq!(stage.inventory(), before);
}

#[test]
fn nothing_is_left_on_the_host_when_the_engine_is_killed() {
    let stage = Stage::new();
    assert!(stage.terminal("true").succeeded());
    let before = stage.inventory();
    let call = stage
        .kotak()
        .args(["run", "--backend", "native", "--profile", "terminal", "--"]);
    let mut child = call
        .args(["sh", "-c", "echo up; sleep 1000"])
        .command()
        .spawn()
        .expect("kotak");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut line = [0_u8; 3];
    std::io::Read::read_exact(&mut stdout, &mut line).expect("the payload runs");
    child.kill().expect("a signal");
    child.wait().expect("an end");
    // The end of the pipe shows that the payload is gone: it held the other end.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut rest).expect("the end of the payload");
    assert_eq!(stage.inventory(), before);
}

#[test]
fn a_worktree_works_and_the_hooks_of_its_repository_stay_protected() {
    // launch case: `.git` is a file
    let stage = Stage::new();
    let git = |dir: &str, args: &str| {
        let outcome = stage.bare(&format!(
            "cd ~/{dir} && git -c user.name=t -c user.email=t@example.com {args}"
        ));
        assert!(outcome.succeeded(), "git {args}: {outcome:?}");
    };
    std::fs::create_dir(stage.home().join("main")).expect("a directory");
    git("main", "init -q -b main");
    git("main", "commit -q --allow-empty -m first");
    git("main", "worktree add -q ../tree");
    let tree = stage.home().join("tree");
    let inside = stage.terminal_with(
        &["--cwd", tree.to_str().expect("UTF-8")],
        "echo x > f && git add f && git -c user.name=t -c user.email=t@example.com commit -q -m two \
         && git log --format=%s | head -1",
    );
    assert_eq!(
        (inside.code, inside.stdout.trim()),
        (0, "two"),
        "{inside:?}"
    );
    for attempt in [
        "echo evil > ~/main/.git/hooks/pre-commit",
        "git config core.pager evil",
    ] {
        let inside = stage.terminal_with(&["--cwd", tree.to_str().expect("UTF-8")], attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside");
    }
}

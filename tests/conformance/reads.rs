//! REQ TM-2, SP-2 and the read-deny set: no secret can be read, by any route.

use kotak_tests::stage::{SECRET, SECRET_DIRS, SECRET_FILES, Stage, is_root, skip};

/// Runs `script` inside, where it must not print the secret, and outside, where it must.
fn hidden(stage: &Stage, script: &str) {
    let inside = stage.terminal(script);
    assert!(
        !inside.stdout.contains(SECRET),
        "read inside by `{script}`: {inside:?}"
    );
    let outside = stage.bare(script);
    assert!(
        outside.stdout.contains(SECRET),
        "the control failed for `{script}`: {outside:?}"
    );
}

#[test]
fn every_secret_directory_is_unreadable_and_unlistable() {
    let stage = Stage::new();
    for dir in SECRET_DIRS {
        hidden(&stage, &format!("cat \"$HOME/{dir}/secret\""));
        let listing = format!("ls -A \"$HOME/{dir}\"");
        assert!(
            !stage.terminal(&listing).stdout.contains("secret"),
            "{dir} can be listed"
        );
        assert!(
            stage.bare(&listing).stdout.contains("secret"),
            "{dir}: the control failed"
        );
    }
}

#[test]
fn every_secret_file_is_unreadable() {
    let stage = Stage::new();
    for file in SECRET_FILES {
        hidden(&stage, &format!("cat \"$HOME/{file}\""));
    }
}

#[test]
fn ordinary_files_of_the_home_stay_readable() {
    let stage = Stage::new();
    let inside = stage.terminal("cat ~/notes/todo.txt ~/work/readme.txt");
    assert_eq!(
        (inside.code, inside.stdout.as_str()),
        (0, "buy milk\nhello\n"),
        "{inside:?}"
    );
}

#[test]
fn a_symlink_made_inside_does_not_reach_a_secret() {
    let stage = Stage::new();
    hidden(
        &stage,
        "ln -sf ~/.ssh/secret link; cat link; ln -sfn ~/.aws d; cat d/secret",
    );
}

#[test]
fn a_symlink_made_before_the_launch_does_not_reach_a_secret() {
    let stage = Stage::new();
    std::os::unix::fs::symlink(stage.home().join(".ssh"), stage.work().join("keys"))
        .expect("a symlink");
    hidden(&stage, "cat keys/secret");
}

#[test]
fn a_secret_directory_that_is_a_symlink_is_hidden_in_both_spellings() {
    // REQ SP-2
    let stage = Stage::new();
    stage.write("dotfiles/ssh/secret", SECRET);
    std::fs::remove_dir_all(stage.home().join(".ssh")).expect("removal");
    std::os::unix::fs::symlink(stage.home().join("dotfiles/ssh"), stage.home().join(".ssh"))
        .expect("a symlink");
    hidden(&stage, "cat ~/.ssh/secret");
    hidden(&stage, "cat ~/dotfiles/ssh/secret");
}

#[test]
fn a_home_that_is_a_symlink_hides_secrets_in_both_spellings() {
    // REQ SP-2
    let stage = Stage::new();
    let other = tempfile::Builder::new()
        .prefix("kotak-link-")
        .tempdir_in(stage.home().parent().expect("a parent"))
        .expect("a directory");
    let linked_home = other.path().join("home");
    std::os::unix::fs::symlink(stage.home(), &linked_home).expect("a symlink");
    let call = |backend: &str| {
        kotak_tests::Kotak::new(&linked_home, &stage.work())
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "/bin/sh",
                "-c",
            ])
            .arg(format!(
                "cat ~/.ssh/secret; cat {}/.aws/secret",
                stage.home().display()
            ))
            .run()
    };
    let inside = call("native");
    assert!(!inside.stdout.contains(SECRET), "{inside:?}");
    assert!(call("none").stdout.contains(SECRET), "the control failed");
}

#[test]
fn renaming_the_parent_of_a_secret_does_not_uncover_it() {
    let stage = Stage::new();
    let script = "mv ~/.config ~/moved; cat ~/moved/gh/secret ~/.config/gh/secret; \
                  mv ~/moved ~/.config 2>/dev/null";
    hidden(&stage, script);
}

#[test]
fn a_hard_link_does_not_uncover_a_secret() {
    let stage = Stage::new();
    hidden(
        &stage,
        "ln ~/.netrc copy; ln ~/.ssh/secret key; cat copy key; rm -f copy key",
    );
}

#[test]
fn proc_does_not_uncover_a_secret() {
    let stage = Stage::new();
    hidden(
        &stage,
        "cat /proc/self/root$HOME/.ssh/secret; cat /proc/1/root$HOME/.ssh/secret; \
         cat /proc/1/cwd$HOME/.ssh/secret; for p in /proc/[0-9]*; do cat $p/root$HOME/.ssh/secret; done",
    );
}

#[test]
fn a_mask_cannot_be_changed_written_into_unmounted_or_moved() {
    let stage = Stage::new();
    for attempt in [
        "chmod 777 ~/.ssh",
        "touch ~/.ssh/authorized_keys2",
        "rmdir ~/.ssh",
        "mv ~/.ssh ~/old",
        "rm -rf ~/.ssh",
        "umount ~/.ssh",
        "mount -t tmpfs none ~/.ssh",
        "chmod 777 ~/.netrc",
        "rm -f ~/.netrc",
        "mv ~/.netrc ~/n",
        "echo x > ~/.netrc",
    ] {
        let inside = stage.terminal(attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside");
    }
    assert_eq!(stage.read(".ssh/secret").as_deref(), Some(SECRET));
    assert_eq!(stage.read(".netrc").as_deref(), Some(SECRET));
    assert!(!stage.home().join(".ssh/authorized_keys2").exists());
    for control in [
        "chmod 700 ~/.ssh",
        "touch ~/.ssh/x",
        "echo x > ~/.netrc",
        "rm -rf ~/.ssh",
    ] {
        assert!(
            stage.bare(control).succeeded(),
            "the control `{control}` failed"
        );
    }
}

#[test]
fn kotaks_own_state_and_configuration_are_hidden() {
    let stage = Stage::new();
    stage.write(".config/kotak/config.toml", "fontSize = 14\n");
    assert!(stage.terminal("true").succeeded());
    for dir in [".local/state/kotak", ".config/kotak"] {
        let list = format!("ls -A ~/{dir}/ | grep .");
        assert_ne!(stage.terminal(&list).code, 0, "{dir} can be listed inside");
        assert!(
            stage.bare(&list).succeeded(),
            "the control failed for {dir}"
        );
        assert_ne!(
            stage.terminal(&format!("touch ~/{dir}/x")).code,
            0,
            "{dir} is writable inside"
        );
    }
}

#[test]
fn secrets_of_the_system_are_hidden_from_a_root_session() {
    if !is_root() {
        skip("the kernel already refuses /etc/shadow to an ordinary user: nothing to show");
        return;
    }
    let stage = Stage::new();
    assert_ne!(stage.terminal("cat /etc/shadow").code, 0);
    assert!(
        stage.bare("cat /etc/shadow").succeeded(),
        "the control failed"
    );
}

#[test]
fn other_homes_are_not_visible() {
    let stage = Stage::new();
    let neighbour = tempfile::Builder::new()
        .prefix("kotak-neighbour-")
        .tempdir_in(stage.home().parent().expect("a parent"))
        .expect("a directory");
    std::fs::write(neighbour.path().join("diary"), SECRET).expect("a file");
    hidden(&stage, &format!("cat {}/diary", neighbour.path().display()));
}

#[test]
fn secrets_in_moved_configuration_and_data_homes_stay_hidden_and_settings_there_held() {
    // REQ TM-2: XDG_CONFIG_HOME and XDG_DATA_HOME move what is secret
    let stage = Stage::new();
    for secret in [
        "cfg/gh/secret",
        "cfg/google-chrome/secret",
        "data/keyrings/secret",
    ] {
        stage.write(secret, SECRET);
    }
    stage.write("cfg/git/config", "original\n");
    stage.write("cfg/plain", "plain\n");
    let run = |backend: &str, script: &str| {
        let call = stage
            .kotak()
            .env("XDG_CONFIG_HOME", stage.home().join("cfg"))
            .env("XDG_DATA_HOME", stage.home().join("data"));
        call.args(["run", "--backend", backend, "--profile", "terminal", "--"])
            .args(["/bin/sh", "-c", script])
            .run()
    };
    for secret in [
        "cfg/gh/secret",
        "cfg/google-chrome/secret",
        "data/keyrings/secret",
        // Where they are when nothing moves them.
        ".config/gh/secret",
        ".local/share/keyrings/secret",
    ] {
        let read = format!("cat ~/{secret}; mv ~/cfg ~/c2; cat ~/c2/gh/secret; mv ~/c2 ~/cfg");
        let inside = run("native", &read);
        assert!(!inside.stdout.contains(SECRET), "{secret}: {inside:?}");
        let outside = run("none", &read);
        assert!(
            outside.stdout.contains(SECRET),
            "the control failed: {outside:?}"
        );
    }
    let plain = run("native", "cat ~/cfg/plain && echo new > ~/cfg/new");
    assert_eq!(
        (plain.code, plain.stdout.as_str()),
        (0, "plain\n"),
        "{plain:?}"
    );
    let write = "echo evil > ~/cfg/git/config";
    assert_ne!(run("native", write).code, 0);
    assert_eq!(stage.read("cfg/git/config").as_deref(), Some("original\n"));
    assert!(run("none", write).succeeded(), "the control failed");
}

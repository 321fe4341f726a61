//! What is held read-only, and the gaps of that.

use super::*;
use crate::policy::layout::LOOKED;

#[test]
fn existing_protected_paths_are_held_and_missing_ones_are_one_named_gap() {
    let mut host = with_code();
    host.file("/home/u/.bashrc", "")
        .dir("/home/u/.config/fish")
        .dir("/home/u/.local/bin");
    let policy = terminal(&host, "/home/u/code").unwrap();
    for held in [
        "/home/u/.bashrc",
        "/home/u/.config/fish",
        "/home/u/.local/bin",
    ] {
        assert_eq!(how(&policy, held), HELD, "{held}");
    }
    assert_eq!(how(&policy, "/home/u/.config"), PINNED);
    assert_eq!(how(&policy, "/home/u/.local"), PINNED);
    let missing = unsupervised(&policy, GapKind::MissingProtectedPath).unwrap();
    assert!(!missing.contains("~/.bashrc,"), "{missing}");
    assert!(
        unsupervised(&policy, GapKind::ProtectedFileReplaced)
            .unwrap()
            .contains("~/.bashrc")
    );
}

#[test]
fn a_protected_path_behind_a_symlink_is_held_where_it_is_and_named() {
    let mut host = with_code();
    host.file("/home/u/dotfiles/zshrc", "")
        .link("/home/u/.zshrc", "dotfiles/zshrc");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(how(&policy, "/home/u/dotfiles/zshrc"), HELD);
    assert_eq!(how(&policy, "/home/u/dotfiles"), PINNED);
    assert!(
        unsupervised(&policy, GapKind::ProtectedPathIsSymlink)
            .unwrap()
            .contains("~/.zshrc")
    );
    // A symlink inside a held directory cannot be replaced.
    let mut inside = with_code();
    inside
        .file("/home/u/.local/bin/real", "")
        .link("/home/u/.local/bin/kotak", "real");
    let mut own = context();
    own.kotak.binaries = vec![path("/home/u/.local/bin/kotak")];
    let spec = terminal_spec("/home/u/code", Mode::Chat, None);
    let policy = resolve(&spec, &own, &inside).unwrap();
    assert_eq!(unsupervised(&policy, GapKind::ProtectedPathIsSymlink), None);
}

#[test]
fn repositories_of_every_depth_are_held_with_every_directory_above_pinned() {
    let mut host = with_code();
    host.git_dir("/home/u/code/a/b/.git");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(how(&policy, "/home/u/code/a/b/.git/hooks"), HELD);
    assert_eq!(how(&policy, "/home/u/code/a/b/.git/config"), HELD);
    for pinned in [
        "/home/u/code/a",
        "/home/u/code/a/b",
        "/home/u/code/a/b/.git",
    ] {
        assert_eq!(how(&policy, pinned), PINNED, "{pinned}");
    }
    assert_eq!(
        how(&policy, "/home/u/code/a/b/.git/objects"),
        None,
        "commits still work"
    );
}

#[test]
fn directories_above_a_nested_root_are_pinned_too() {
    // `mv ~/x ~/y; mkdir -p ~/x/code/.git/hooks` would plant a hook where the host runs it.
    let mut host = FakeFs::debian();
    host.git_dir("/home/u/x/code/.git");
    let policy = terminal(&host, "/home/u/x/code").unwrap();
    assert_eq!(how(&policy, "/home/u/x"), PINNED);
    assert_eq!(
        how(&policy, "/home/u/x/code"),
        Some((Access::Write, BindRole::Workdir))
    );
}

#[test]
fn a_worktree_outside_home_brings_its_repository_and_keeps_the_hooks_held() {
    let mut host = FakeFs::debian();
    host.git_dir("/code/main/.git")
        .file("/code/wt/.git", "gitdir: /code/main/.git/worktrees/wt\n");
    host.file("/code/main/.git/worktrees/wt/commondir", "../..\n");
    host.file("/code/main/.git/worktrees/wt/gitdir", "/code/wt/.git\n");
    let policy = terminal(&host, "/code/wt").unwrap();
    assert_eq!(
        how(&policy, "/code/main/.git"),
        Some((Access::Write, BindRole::Repository))
    );
    assert_eq!(how(&policy, "/code/main/.git/hooks"), HELD);
    assert_eq!(how(&policy, "/code/wt/.git"), HELD);
    assert_eq!(
        how(&policy, "/code/main"),
        None,
        "the original's files are not there"
    );
    // A forged file brings nothing.
    host.file("/code/main/.git/worktrees/wt/gitdir", "/code/other/.git\n");
    host.file("/code/other/.git", "");
    let policy = terminal(&host, "/code/wt").unwrap();
    assert_eq!(how(&policy, "/code/main/.git"), None);
}

#[test]
fn what_the_search_leaves_out_is_a_named_gap() {
    let mut host = with_code();
    for index in 0..(SEARCH / 40) {
        for inner in 0..41 {
            host.file(format!("/home/u/code/d{index:05}/f{inner:02}"), "");
        }
    }
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert!(unsupervised(&policy, GapKind::UnsearchedDirectories).is_some());
    // Hooks and settings hold all the same; what a setting names by path does not.
    assert_eq!(gap(&policy, GapKind::UnsearchedDirectories), None);
    assert!(gap(&policy, GapKind::UnsearchedPrograms).is_some());
    let small = terminal(&with_code(), "/home/u/code").unwrap();
    assert_eq!(unsupervised(&small, GapKind::UnsearchedDirectories), None);
    assert_eq!(gap(&small, GapKind::UnsearchedPrograms), None);
}

const SEARCH: usize = crate::policy::SEARCH_ENTRIES;

fn with_repositories(count: usize) -> FakeFs {
    let mut host = with_code();
    host.git_dir("/home/u/code/.git");
    for index in 0..count {
        let at = format!("/home/u/code/m{index}/.git");
        host.file(format!("{at}/HEAD"), "")
            .file(format!("{at}/config"), "")
            .dir(format!("{at}/hooks"));
    }
    host
}

#[test]
fn thousands_of_repositories_launch_and_cost_no_more_than_their_number() {
    // REQ SP-2: a program inside can make them, and every later launch finds them
    let mut old = context();
    old.facts.seccomp_wait_killable = false;
    for context in [context(), old] {
        let cost = |count: usize| {
            let host = with_repositories(count);
            LOOKED.set(0);
            let spec = terminal_spec("/home/u/code", Mode::Chat, None);
            let policy = resolve(&spec, &context, &host).unwrap();
            (LOOKED.get(), host.paths_looked_at(), policy.binds.len())
        };
        let (few, many) = (cost(200), cost(2_000));
        assert!(many.0 < few.0 * 11, "places: {few:?}, {many:?}");
        assert!(many.1 < few.1 * 11, "paths: {few:?}, {many:?}");
    }
}

#[test]
fn beyond_so_many_mounts_the_supervisor_alone_holds_what_was_found() {
    // REQ SP-2, BW-5
    let host = with_repositories(7_000);
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert!(policy.binds.len() < 1_200, "{}", policy.binds.len());
    assert_eq!(how(&policy, "/home/u/code/.git/hooks"), HELD, "the nearest");
    for index in 0..7_000 {
        for name in ["hooks", "config"] {
            let at = path(format!("/home/u/code/m{index}/.git/{name}"));
            assert!(policy.files.protected.contains(&at), "{at}");
        }
    }
    assert_eq!(gap(&policy, GapKind::ProtectedPathUnmounted), None);
    assert!(unsupervised(&policy, GapKind::ProtectedPathUnmounted).is_some());

    let mut old = context();
    old.facts.seccomp_wait_killable = false;
    let spec = terminal_spec("/home/u/code", Mode::Chat, None);
    let mounted = resolve(&spec, &old, &host).unwrap();
    assert_eq!(how(&mounted, "/home/u/code/m6999/.git/hooks"), HELD);
    assert_eq!(gap(&mounted, GapKind::ProtectedPathUnmounted), None);

    let few = terminal(&with_repositories(100), "/home/u/code").unwrap();
    assert_eq!(how(&few, "/home/u/code/m99/.git/hooks"), HELD);
    assert_eq!(unsupervised(&few, GapKind::ProtectedPathUnmounted), None);
}

#[test]
fn thousands_of_unreadable_folders_are_held_without_a_mount_each() {
    // REQ SP-2
    let mut host = with_code();
    for index in 0..7_000 {
        let at = format!("/home/u/code/c{index:04}");
        host.dir(&at).unlisted(&at);
    }
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert!(policy.binds.len() < 1_200, "{}", policy.binds.len());
    assert_eq!(how(&policy, "/home/u/code/c0000"), HELD);
    assert_eq!(how(&policy, "/home/u/code/c6999"), None);
    let held = |index: usize| path(format!("/home/u/code/c{index:04}"));
    assert!(policy.files.protected.contains(&held(6_999)));
    assert!(gap(&policy, GapKind::UnreadableFolder).is_some());
    assert!(unsupervised(&policy, GapKind::ProtectedPathUnmounted).is_some());
}

#[test]
fn a_long_chain_of_git_directories_and_a_deep_folder_end_at_a_bound() {
    let mut host = with_code();
    host.git_dir("/home/u/code/.git");
    host.file("/home/u/code/.git/commondir", "/srv/c0\n");
    for index in 0..16_000 {
        let next = format!("/srv/c{}\n", index + 1);
        host.file(format!("/srv/c{index}/commondir"), next);
    }
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(how(&policy, "/home/u/code/.git/hooks"), HELD);
    let left = gap(&policy, GapKind::UnsearchedPrograms);
    assert!(left.is_some_and(|text| text.contains("/srv/c")), "{left:?}");

    let mut deep = with_code();
    deep.git_dir(&format!("/home/u/code{}/.git", "/d".repeat(50)));
    let policy = terminal(&deep, "/home/u/code").unwrap();
    assert_eq!(gap(&policy, GapKind::UnsearchedPrograms), None);
    deep.dir(format!("/home/u/code{}", "/d".repeat(150)));
    let policy = terminal(&deep, "/home/u/code").unwrap();
    assert!(gap(&policy, GapKind::UnsearchedPrograms).is_some());
}

#[test]
fn a_working_directory_on_path_stays_writable_and_is_a_named_gap() {
    let mut host = FakeFs::debian();
    host.dir("/home/u/.local/bin");
    let policy = terminal(&host, "/home/u/.local/bin").unwrap();
    assert_eq!(
        how(&policy, "/home/u/.local/bin"),
        Some((Access::Write, BindRole::Workdir))
    );
    assert!(
        gap(&policy, GapKind::ProtectedPathIsRoot)
            .unwrap()
            .contains("~/.local/bin")
    );
}

#[test]
fn protected_paths_win_in_every_mode_and_over_binds_inside_them() {
    // REQ SP-1
    let mut host = with_code();
    host.dir("/r/orig/sub").dir("/r/wt").dir("/orig2");
    let policy = binds(
        &host,
        r#""bindMounts": [{"hostPath": "/r"}, {"hostPath": "/r/orig/sub"}, {"hostPath": "/orig2"}],
           "protectedPaths": ["/r/orig", "/orig2", "/r/none"]"#,
    )
    .unwrap();
    assert_eq!(how(&policy, "/r/orig"), HELD);
    assert_eq!(bind(&policy, "/r/orig2"), None);
    assert_eq!(bind(&policy, "/orig2").unwrap().access, Access::Read);
    assert_eq!(bind(&policy, "/r").unwrap().access, Access::Write);
    assert!(
        policy
            .binds
            .iter()
            .all(|bind| { !bind.path.is_within(&path("/r/orig")) || bind.access == Access::Read })
    );
    assert!(
        unsupervised(&policy, GapKind::MissingProtectedPath)
            .unwrap()
            .contains("/r/none")
    );
}

#[test]
fn five_thousand_protected_files_are_all_held() {
    let mut host = with_code();
    let mut listed = Vec::new();
    for index in 0..5000 {
        let at = format!("/home/u/code/f{index}");
        host.file(&at, "");
        listed.push(format!("\"{at}\""));
    }
    let fields = format!(
        r#""bindMounts": [{{"hostPath": "/home/u/code"}}], "protectedPaths": [{}]"#,
        listed.join(",")
    );
    let policy = binds(&host, &fields).unwrap();
    let held = policy
        .binds
        .iter()
        .filter(|bind| bind.role == BindRole::Protected)
        .count();
    assert_eq!(held, 5000);
}

#[test]
fn what_can_be_made_in_a_given_folder_is_a_named_gap() {
    let mut host = with_code();
    host.dir("/home/u/code/.vscode");
    let fields = |access: &str| {
        format!(r#""bindMounts": [{{"hostPath": "/home/u/code"{access}}}], "protectedPaths": []"#)
    };
    let missing = |host: &FakeFs| {
        let policy = binds(host, &fields("")).unwrap();
        assert!(
            unsupervised(&policy, GapKind::NewRepositories)
                .unwrap()
                .contains("~/code")
        );
        unsupervised(&policy, GapKind::MissingProtectedPath)
            .unwrap()
            .to_owned()
    };
    // Six names of agents and editors, and the repository.
    let text = missing(&host);
    assert!(
        text.starts_with("7 protected") && text.contains("~/code/.claude"),
        "{text}"
    );
    host.dir("/home/u/code/.claude");
    let text = missing(&host);
    assert!(
        text.starts_with("6 protected") && !text.contains(".claude"),
        "{text}"
    );
    let read_only = binds(&host, &fields(r#", "readOnly": true"#)).unwrap();
    assert_eq!(
        unsupervised(&read_only, GapKind::MissingProtectedPath),
        None
    );
    assert_eq!(unsupervised(&read_only, GapKind::NewRepositories), None);
}

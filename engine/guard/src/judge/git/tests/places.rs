use super::super::GitPlace::{
    Commondir, Config, Data, Gitlink, Hook, HookSample, HooksDir, Inside, MaybeBare, Never, NotGit,
};
use super::super::{GitPlace, commondir, gitlink, place, symlink};
use proptest::prelude::*;

fn at(path: &str) -> GitPlace {
    let components: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
    place(&components)
}

#[test]
fn every_path_has_its_place() {
    for (path, expected) in [
        ("src/main.rs", NotGit),
        (".gitignore", NotGit),
        (".gitmodules", NotGit),
        (".github/x", NotGit),
        (".git", Gitlink),
        ("a/b/.GIT", Gitlink),
        (".g\u{200c}it", Gitlink),
        (".git/HEAD", Inside),
        (".git/config", Config),
        (".git/CONFIG", Config),
        (".git/config.lock", Inside),
        (".git/config.worktree", Config),
        (".git/config/x", Inside),
        (".git/hooks", HooksDir),
        (".git/Hooks", HooksDir),
        (".git/hoo\u{212a}s", HooksDir),
        (".git/hook\u{17f}", HooksDir),
        (".git/hooks/pre-commit", Hook),
        (".git/hooks/pre-commit.sample", HookSample),
        (".git/hooks/pre-commit.SAMPLE", Hook),
        (".git/hooks/x.sample/pre-commit", Hook),
        (".git/hooks/_/pre-commit", Hook),
        (".git/commondir", Never),
        (".git/remotes", Inside),
        (".git/remotes/origin", Never),
        (".git/branches", Inside),
        (".git/branches/origin", Never),
        (".git/refs/heads/main", Data),
        (".git/refs/heads/config", Data),
        (".git/refs/heads/hooks/x", Data),
        (".git/refs/remotes/origin/main", Data),
        (".git/logs/refs/heads/hooks/x", Data),
        (".git/objects/aa/bb", Data),
        (".git/REFS/x/config", Config),
        (".git/x/refs/config", Config),
        (".git/info/exclude", Inside),
        (".git/x/y/hooks/z", Hook),
        (".git/x/y/config", Config),
        // Repositories where git has none.
        (".git/refs/.git", Gitlink),
        (".git/refs/.GIT/config", Config),
        (".git/refs/x/.git/hooks/update", Hook),
        (".git/objects/.git/config", Config),
        (".git/logs/x/.git/hooks", HooksDir),
        (".git/objects/.git/refs/.git/config", Config),
        (".git/objects/.git/refs/config", Data),
        (".git/modules/.git", Gitlink),
        (".git/modules/.git/config", Config),
        (".git/modules/.git/commondir", Never),
        (".git/modules/.git/refs/config", Config),
        (".git/worktrees/.git", Gitlink),
        (".git/worktrees/.git/hooks/update", Hook),
        (".git/worktrees/.git/commondir", Never),
        (".git/worktrees/w/HEAD", Inside),
        (".git/worktrees/w/gitdir", Inside),
        (".git/worktrees/w/commondir", Commondir),
        (".git/worktrees/w/x/commondir", Never),
        (".git/worktrees/w/config.worktree", Config),
        (".git/worktrees/hooks/HEAD", Inside),
        (".git/worktrees/w/hooks/x", Hook),
        (".git/worktrees/w/refs/bisect/bad", Data),
        (".git/worktrees/w/modules/m/config", Config),
        (".git/worktrees/commondir", Inside),
        (".git/modules", Inside),
        (".git/modules/lib", Inside),
        (".git/modules/hooks/HEAD", Inside),
        (".git/modules/lib/config", Config),
        (".git/modules/a/b/config", Config),
        (".git/modules/a/b/hooks", HooksDir),
        (".git/modules/a/b/hooks/pre-push", Hook),
        (".git/modules/a/b/refs/heads/main", Data),
        (".git/modules/a/b/refs/remotes/origin/main", Data),
        (".git/modules/a/b/objects/aa/bb", Data),
        // Submodules called `a/refs`, `a/logs/x`, `a/worktrees/w/refs`, `a/.git/refs`.
        (".git/modules/a/refs/config", Config),
        (".git/modules/a/refs/heads/config", Config),
        (".git/modules/a/refs/CONFIG.worktree", Config),
        (".git/modules/a/refs/hooks/post-checkout", Hook),
        (".git/modules/a/refs/commondir", Never),
        (".git/modules/a/logs/x/hooks", HooksDir),
        (".git/modules/a/objects/hooks/x.sample", HookSample),
        (".git/modules/a/worktrees/w/refs/config", Config),
        (".git/modules/a/.git/refs/config", Config),
        (".git/modules/a/refs/.git/logs/config", Config),
        (".git/worktrees/w/modules/a/refs/config", Config),
        (".git/modules/a/commondir", Never),
        (".git/modules/a/modules/b/config", Config),
        (".git/modules/a/worktrees/w/commondir", Commondir),
        (".git/x/.git/config", Config),
        (".git/modules/x/.git", Gitlink),
        ("a.git/config", MaybeBare),
        ("a/HEAD", MaybeBare),
        ("a/head", MaybeBare),
        ("a/objects", MaybeBare),
        ("a/refs", MaybeBare),
        ("a/commondir", MaybeBare),
        ("a/hooks/pre-push", MaybeBare),
        ("a/objects/x", NotGit),
    ] {
        assert_eq!(at(path), expected, "{path}");
        assert_eq!(
            expected.is_git(),
            path.to_lowercase()
                .replace('\u{200c}', "")
                .split('/')
                .any(|name| name == ".git"),
            "{path}"
        );
    }
    assert_eq!(place(&[]), NotGit);
    assert_eq!(place(&[b"\xff.git", b"config"]), MaybeBare);
}

#[test]
fn a_gitlink_leads_to_a_git_directory_and_says_nothing_else() {
    for path in [
        "../.git/modules/lib",
        "../../.git/modules/a/b",
        "/home/u/p/.git/worktrees/w",
        "/home/u/p/.git",
        "../.git/worktrees/w/modules/lib",
        "../.git/modules/a/modules/b",
        "../.git/modules/a/worktrees/w",
        "/home/u/with space/.git/worktrees/\u{e9}",
    ] {
        let text = format!("gitdir: {path}\n");
        assert_eq!(gitlink(text.as_bytes()), Ok(path.as_bytes().to_vec()));
    }
    for text in [
        "",
        "gitdir:",
        "gitdir: \n",
        "gitdir: ../.git/modules/x",
        "gitdir:../.git/modules/x\n",
        "gitdir: ../.git/modules/x\r\n",
        "gitdir: ../.git/modules/x\n\n",
        "GITDIR: ../.git/modules/x\n",
        " gitdir: ../.git/modules/x\n",
        "gitdir: ../.git/modules/x\ngitdir: evil\n",
        "gitdir: ../.git/modules/x\0\n",
        "gitdir: ../.git/mod\tules/x\n",
        "gitdir: ../evil\n",
        "gitdir: /tmp/evil.git\n",
        "gitdir: ../.git/../evil\n",
        "gitdir: ../.git/modules/../../evil\n",
        "gitdir: ../.git/modules/x/../../../evil\n",
        "gitdir: ../.git/modules/./x\n",
        "gitdir: ../.git/modules//x\n",
        "gitdir: ../.git/modules/x/\n",
        "gitdir: ../.git/\n",
        "gitdir: ../.git/modules\n",
        "gitdir: ../.git/worktrees\n",
        "gitdir: ../.git/worktrees/a/b\n",
        "gitdir: ../.git/refs/x\n",
        "gitdir: ../.git/logs/x\n",
        "gitdir: ../.git/objects/x\n",
        "gitdir: ../.git/hooks\n",
        "gitdir: ../.git/evil\n",
        "gitdir: ../.GIT/modules/x\n",
        "gitdir: ../.git/Modules/x\n",
        "gitdir: ../.git/modules/x/refs/y\n",
        "gitdir: ../.git/modules/x/Logs/y\n",
        "gitdir: ../.git/modules/x/modules\n",
        "gitdir: ../.git/modules/x/hooks\n",
        "gitdir: ../.git/modules/..\n",
        "gitdir: .\n",
        "gitdir: ../.git/refs/.git\n",
        "gitdir: ../.GIT/.git\n",
    ] {
        gitlink(text.as_bytes()).expect_err(text);
    }
}

#[test]
fn the_only_symlink_below_git_is_the_one_that_git_tries() {
    let judged = |at: &str, to: &str| {
        let at: Vec<&[u8]> = at.split('/').map(str::as_bytes).collect();
        symlink(&at, to.as_bytes())
    };
    for (at, to) in [
        ("link", "/anywhere"),
        ("sub/HEAD", "x"),
        (".git/tAb3dE9", "testing"),
        ("p/.git/modules/a/b/tAAAAAA", "testing"),
    ] {
        assert_eq!(judged(at, to), Ok(()), "{at} -> {to}");
    }
    for (at, to) in [
        (".git", "testing"),
        (".git/tAb3dE9", "testing/x"),
        (".git/tAb3dE9", "/tmp/testing"),
        (".git/tAb3dE", "testing"),
        (".git/tAb3dE99", "testing"),
        (".git/tAb3d.9", "testing"),
        (".git/hooks", "testing"),
        (".git/hooks/tAb3dE9", "testing"),
        (".git/config", "testing"),
        (".git/refs/tAb3dE9", "testing"),
        (".git/modules", "x"),
        (".git/HEAD", "refs/heads/main"),
    ] {
        judged(at, to).expect_err(&format!("accepted: {at} -> {to}"));
    }
}

#[test]
fn a_commondir_is_the_git_directory_around_it() {
    assert_eq!(commondir(b"../..\n"), Ok(b"../..".to_vec()));
    for text in [
        "",
        "../..",
        "../..\n\n",
        "../../x\n",
        "/tmp/evil\n",
        "../../..\n",
        "../..\r\n",
    ] {
        commondir(text.as_bytes()).expect_err(text);
    }
}

/// Names that mean something somewhere, and some that do not.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "modules",
            "worktrees",
            "refs",
            "logs",
            "objects",
            "hooks",
            "config",
            "commondir",
            "remotes",
            "branches",
            ".git",
            "..",
            ".",
            "",
            "Hooks",
            "MODULES",
            "info",
            "x.sample",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,3}",
    ]
}

proptest! {
    #[test]
    fn what_lies_in_a_permitted_target_is_judged(below in proptest::collection::vec(name(), 0..7)) {
        let path = format!("p/.git/{}", below.join("/"));
        let path = path.trim_end_matches('/').to_owned();
        if gitlink(format!("gitdir: {path}\n").as_bytes()).is_ok() {
            prop_assert_eq!(at(&format!("{path}/config")), Config, "{}", path);
            prop_assert_eq!(at(&format!("{path}/config.worktree")), Config, "{}", path);
            prop_assert_eq!(at(&format!("{path}/hooks")), HooksDir, "{}", path);
            prop_assert_eq!(at(&format!("{path}/hooks/pre-commit")), Hook, "{}", path);
            prop_assert_eq!(at(&format!("{path}/hooks/a/b")), Hook, "{}", path);
            prop_assert_eq!(at(&format!("{path}/remotes/origin")), Never, "{}", path);
            prop_assert!(matches!(at(&format!("{path}/commondir")), Commondir | Never), "{}", path);
            prop_assert!(at(&path).is_git());
        }
    }

    #[test]
    fn whatever_a_submodule_is_called_what_makes_git_act_is_judged(
        below in proptest::collection::vec(name(), 1..7),
    ) {
        let plain = below.iter().all(|it| !matches!(&it[..], "" | "." | ".."));
        let in_hooks = below.iter().skip(1).any(|it| it.eq_ignore_ascii_case("hooks"));
        prop_assume!(plain && !in_hooks);
        let path = format!("p/.git/modules/{}", below.join("/"));
        // Below `remotes` nothing can be made at all.
        let judged = |name: &str| at(&format!("{path}/x/{name}"));
        prop_assert!(matches!(judged("config"), Config | Never), "{}", path);
        prop_assert!(matches!(judged("hooks"), HooksDir | Never), "{}", path);
        prop_assert!(matches!(judged("hooks/update"), Hook | Never), "{}", path);
    }

    #[test]
    fn no_components_make_it_panic(
        names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..6),
    ) {
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let _ = place(&names);
    }
}

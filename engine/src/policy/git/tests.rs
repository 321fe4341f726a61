use super::super::fake::{FakeFs, path};
use super::*;

fn search(host: &FakeFs, roots: &[&str], budget: usize) -> Found {
    let home = path("/home/u");
    let roots: Vec<_> = roots.iter().map(path).collect();
    Search::new(host, &home, &BTreeSet::new(), budget).run(&roots)
}

fn protects(found: &Found, all: &[&str]) {
    for at in all {
        assert!(
            found.protected.contains(&path(at)),
            "{at} is missing in {:?}",
            found.protected
        );
    }
}

#[test]
fn hooks_and_configuration_are_found_at_every_depth() {
    let mut host = FakeFs::default();
    host.git_dir("/w/.git").git_dir("/w/a/b/c/.git");
    let found = search(&host, &["/w"], 1000);
    protects(
        &found,
        &["/w/.git/hooks", "/w/.git/config", "/w/a/b/c/.git/hooks"],
    );
    protects(&found, &["/w/.git/config.worktree", "/w/.git/commondir"]);
    assert!(found.unsearched.is_empty());
}

#[test]
fn a_git_file_is_protected_and_followed_to_the_common_directory() {
    let mut host = FakeFs::default();
    host.git_dir("/w/main/.git");
    host.file("/w/wt/.git", "gitdir: ../main/.git/worktrees/wt\n");
    host.file("/w/main/.git/worktrees/wt/commondir", "../..\n");
    host.file("/w/main/.git/worktrees/wt/gitdir", "/w/wt/.git\n");
    host.file("/w/main/.git/worktrees/wt/HEAD", "ref: refs/heads/x\n");
    // Only the worktree is searched: the common directory is found by following.
    let found = search(&host, &["/w/wt"], 1000);
    protects(
        &found,
        &["/w/wt/.git", "/w/main/.git/hooks", "/w/main/.git/config"],
    );
    protects(
        &found,
        &[
            "/w/main/.git/worktrees/wt/commondir",
            "/w/main/.git/worktrees/wt/gitdir",
        ],
    );
}

#[test]
fn submodules_nested_in_modules_and_bare_repositories_are_found() {
    let mut host = FakeFs::default();
    host.git_dir("/w/.git")
        .git_dir("/w/.git/modules/lib/x")
        .git_dir("/w/mirror.git");
    let found = search(&host, &["/w"], 1000);
    protects(
        &found,
        &["/w/.git/modules/lib/x/hooks", "/w/mirror.git/hooks"],
    );
}

#[test]
fn what_a_configuration_includes_and_runs_is_protected() {
    let mut host = FakeFs::default();
    host.git_dir("/w/.git");
    host.file(
        "/w/.git/config",
        "[core]\n hooksPath = .husky # tracked\n fsmonitor = \"/w/tools/fs mon\"\n\
         [include]\n path = ../shared.cfg\n[includeIf \"gitdir:~/x/\"] path = ~/w.cfg\n",
    );
    host.file(
        "/w/shared.cfg",
        "[core]\nfsmonitor=tools/watch\n[credential]\nhelper = store\n",
    );
    let found = search(&host, &["/w"], 1000);
    protects(
        &found,
        &[
            "/w/.husky",
            "/w/shared.cfg",
            "/home/u/w.cfg",
            "/w/tools/watch",
        ],
    );
    assert!(!found.protected.contains(&path("/w/store")));
}

#[test]
fn agent_settings_are_protected_and_sockets_named_wherever_they_are() {
    let mut host = FakeFs::default();
    host.dir("/w/a/.vscode")
        .file("/w/.envrc", "")
        .file("/w/b/.mcp.json", "");
    host.node("/w/b/s", NodeKind::Socket);
    let found = search(&host, &["/w"], 1000);
    protects(&found, &["/w/a/.vscode", "/w/.envrc", "/w/b/.mcp.json"]);
    assert_eq!(found.sockets, BTreeSet::from([path("/w/b/s")]));
}

#[test]
fn the_budget_bounds_the_search_and_names_what_is_left() {
    let mut host = FakeFs::default();
    for index in 0..40 {
        host.dir(format!("/w/d{index:02}/sub"));
    }
    host.git_dir("/w/d39/sub/.git");
    let found = search(&host, &["/w"], 50);
    assert!(host.entries_read() <= 50, "{}", host.entries_read());
    assert!(!found.unsearched.is_empty());
    let all = search(&host, &["/w"], 10_000);
    assert!(all.unsearched.is_empty());
    protects(&all, &["/w/d39/sub/.git/hooks"]);
}

#[test]
fn near_repositories_come_before_heaps_of_generated_files() {
    let mut host = FakeFs::default();
    for index in 0..100 {
        host.dir(format!("/w/node_modules/p{index}/lib"));
    }
    host.git_dir("/w/x/y/z/.git");
    let found = search(&host, &["/w"], 60);
    protects(&found, &["/w/x/y/z/.git/hooks"]);
    assert!(!found.unsearched.is_empty());
}

#[test]
fn closed_directories_are_not_entered() {
    let mut host = FakeFs::default();
    host.git_dir("/w/secret/.git");
    let closed = BTreeSet::from([path("/w/secret")]);
    let home = path("/home/u");
    let found = Search::new(&host, &home, &closed, 1000).run(&[path("/w")]);
    assert_eq!(found, Found::default());
}

fn worktree() -> FakeFs {
    let mut host = FakeFs::default();
    host.git_dir("/r/.git");
    host.file("/w/.git", "gitdir: /r/.git/worktrees/w\n");
    host.file("/r/.git/worktrees/w/commondir", "../..\n");
    host.file("/r/.git/worktrees/w/gitdir", "/w/.git\n");
    host
}

#[test]
fn a_worktrees_common_directory_is_trusted_when_it_names_the_worktree_back() {
    assert_eq!(
        repository_of(&worktree(), &path("/w")),
        Some(path("/r/.git"))
    );
}

#[test]
fn a_forged_git_file_opens_nothing() {
    let mut other = worktree();
    other
        .file("/r/.git/worktrees/w/gitdir", "/elsewhere/.git\n")
        .file("/elsewhere/.git", "");
    assert_eq!(repository_of(&other, &path("/w")), None);

    let mut plain = FakeFs::default();
    plain
        .dir("/home/u/private")
        .file("/w/.git", "gitdir: /home/u/private\n");
    assert_eq!(repository_of(&plain, &path("/w")), None);

    // Forged in a directory of its own, pointing its common directory elsewhere.
    let mut forged = FakeFs::default();
    forged
        .git_dir("/r/.git")
        .file("/w/.git", "gitdir: /w/fake\n");
    forged
        .file("/w/fake/commondir", "/r/.git\n")
        .file("/w/fake/gitdir", "/w/.git\n");
    assert_eq!(repository_of(&forged, &path("/w")), None);
}

#[test]
fn a_submodules_directory_is_trusted_when_its_configuration_names_it_back() {
    let mut host = FakeFs::default();
    host.git_dir("/s/.git/modules/m")
        .file("/s/m/.git", "gitdir: ../.git/modules/m\n");
    assert_eq!(repository_of(&host, &path("/s/m")), None);
    host.file(
        "/s/.git/modules/m/config",
        "[core]\n\tworktree = ../../../m\n",
    );
    assert_eq!(
        repository_of(&host, &path("/s/m")),
        Some(path("/s/.git/modules/m"))
    );
}

#[test]
fn a_folder_made_to_look_like_a_repository_hides_nothing_below_it() {
    let mut host = FakeFs::default();
    host.git_dir("/w/p/.git").git_dir("/w/.git/modules/a/b");
    host.dir("/w/.git/objects").dir("/w/.git/refs");
    let below = ["/w/p/.git/hooks", "/w/.git/modules/a/b/hooks"];
    protects(&search(&host, &["/w"], 1000), &below);
    for dir in ["/w", "/w/.git/modules/a"] {
        host.file(format!("{dir}/HEAD"), "")
            .dir(format!("{dir}/objects"))
            .dir(format!("{dir}/refs"));
    }
    host.git_dir("/w/objects/p/.git");
    let found = search(&host, &["/w"], 1000);
    protects(&found, &below);
    protects(
        &found,
        &[
            "/w/hooks",
            "/w/.git/modules/a/hooks",
            "/w/objects/p/.git/hooks",
        ],
    );
}

#[test]
fn folders_that_cannot_be_listed_are_told() {
    let mut host = FakeFs::default();
    host.git_dir("/w/p/.git").dir("/w/q");
    assert!(search(&host, &["/w"], 1000).unreadable.is_empty());
    host.unlisted("/w/p").closed("/w/q");
    assert_eq!(
        search(&host, &["/w"], 1000).unreadable,
        BTreeSet::from([path("/w/p"), path("/w/q")])
    );
}

#[test]
fn relative_hooks_are_protected_in_every_work_tree() {
    let mut host = FakeFs::default();
    host.git_dir("/w/main/.git");
    host.file("/w/main/.git/config", "[core]\nhooksPath = .husky\n");
    host.file("/w/wt/.git", "gitdir: ../main/.git/worktrees/wt\n");
    host.file("/w/main/.git/worktrees/wt/commondir", "../..\n");
    host.file("/w/main/.git/worktrees/wt/gitdir", "/w/wt/.git\n");
    host.git_dir("/w/main/.git/modules/lib");
    host.file(
        "/w/main/.git/modules/lib/config",
        "[core]\nworktree = ../../../lib\nhooksPath = tools/hooks\n",
    );
    host.file("/w/main/lib/.git", "gitdir: ../.git/modules/lib\n");
    for root in ["/w", "/w/main", "/w/wt"] {
        protects(
            &search(&host, &[root], 1000),
            &["/w/main/.husky", "/w/wt/.husky", "/w/main/lib/tools/hooks"],
        );
    }
}

#[test]
fn what_everyones_configuration_runs_is_protected_in_every_repository() {
    let mut host = FakeFs::default();
    host.git_dir("/w/a/.git")
        .git_dir("/w/b/.git")
        .file("/w/a/tools/lint", "")
        .file(
            "/home/u/.gitconfig",
            "[core]\nhooksPath = .hooks\n[alias]\nlint = !sh tools/lint\n\
             [filter \"x\"]\nclean = ./bin/x --clean\n",
        );
    let (home, closed) = (path("/home/u"), BTreeSet::new());
    let mut search = Search::new(&host, &home, &closed, 1000);
    search.config_file(&path("/home/u/.gitconfig"));
    let found = search.run(&[path("/w")]);
    protects(
        &found,
        &[
            "/w/a/.hooks",
            "/w/b/.hooks",
            "/w/a/tools/lint",
            "/w/b/bin/x",
        ],
    );
    assert!(!found.protected.contains(&path("/w/b/tools/lint")));
}

#[test]
fn a_configuration_is_read_as_git_reads_it() {
    let text = b"[Core]\n\tHooksPath = \"a b\" ; c\n[remote \"x\"] url = y\n# no = no\nbare\n";
    assert_eq!(
        settings(text),
        [
            ("core".to_owned(), "hookspath".to_owned(), b"a b".to_vec()),
            ("remote".to_owned(), "url".to_owned(), b"y".to_vec()),
        ]
    );
}

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

fn read(text: &[u8]) -> Vec<(String, String, String)> {
    settings(text)
        .into_iter()
        .map(|(section, key, value)| (section, key, String::from_utf8(value).unwrap()))
        .collect()
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
    for (value, meant) in [
        ("a\\\n  b\\\n", "a  b"),
        ("a # no \\\nx = y", "a"),
        ("\"a # b\" ; c", "a # b"),
        ("a\" b \"c ", "a b c"),
        ("\" a \"", " a "),
        ("a\\\"b\\\\c\\td", "a\"b\\c\td"),
        ("a\r\n", "a"),
        ("\\\n a", "a"),
        ("", ""),
    ] {
        let found = read(format!("[core]\nhooksPath = {value}\n").as_bytes());
        let first = &found[0];
        assert_eq!(
            (first.1.as_str(), first.2.as_str()),
            ("hookspath", meant),
            "{value:?}"
        );
    }
    for heading in [
        "[filter \"a ] \\\" b\"]",
        "[filter.x]",
        "[FILTER \"]\"]",
        "\u{feff}[filter]",
    ] {
        let found = read(format!("{heading} clean = ./c\n").as_bytes());
        let expected = ("filter".into(), "clean".into(), "./c".into());
        assert_eq!(found, [expected], "{heading}");
    }
}

/// The same files, asked of git itself.
#[test]
fn what_git_reads_is_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    for text in [
        "[core]\n\thooksPath = a\\\n b\\\nc\n",
        "[core] hooksPath = \"x # y\" z ; w\n",
        "[alias \"q\\\"]\"] command = !\\\"a b\\\" \\\\\\\\ c\\n\n",
        "[core]\nhooksPath=\n[filter \"l\"]\n\tclean = git \\\n  x -- %f # y \\\n\tsmudge=\"\\\n z\"\n",
        "[core]\r\n\thooksPath = d\r\n",
    ] {
        std::fs::write(&file, text).unwrap();
        let output = std::process::Command::new("git")
            .args(["config", "--null", "--list", "--file"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{text:?}: {output:?}");
        let listed = String::from_utf8(output.stdout).unwrap();
        let by_git: Vec<(String, String, String)> = listed
            .split_terminator('\0')
            .map(|entry| {
                let (name, value) = entry.split_once('\n').unwrap();
                let (section, rest) = name.split_once('.').unwrap();
                let key = rest.rsplit('.').next().unwrap();
                (section.to_owned(), key.to_owned(), value.to_owned())
            })
            .collect();
        assert_eq!(read(text.as_bytes()), by_git, "{text:?}");
    }
}

#[test]
fn what_continued_and_quoted_lines_run_is_protected() {
    let mut host = FakeFs::default();
    host.git_dir("/w/.git");
    host.file("/w/tools/top", "")
        .file("/w/my tools/run", "")
        .file("/home/u/bin/x", "");
    host.file(
        "/w/.git/config",
        "[core]\n hooksPath = .hus\\\nky\n sshCommand = \"\\\"/opt/my ssh\\\" -v\"\n\
         [alias]\n a = \"!'my tools/run' --all\"\n b = !$(git rev-parse --show-toplevel)/tools/top\n\
         c = \"!f() { $HOME/bin/x; }; f\"\n\
         [submodule \"s\"]\n update = !./up\n[init]\n templateDir = ~/template\n",
    );
    let found = search(&host, &["/w"], 1000);
    protects(
        &found,
        &[
            "/w/.husky",
            "/opt/my ssh",
            "/w/my tools/run",
            "/w/tools/top",
            "/home/u/bin/x",
            "/w/up",
            "/home/u/template",
        ],
    );
}

#[test]
fn homes_of_named_users_are_looked_up_and_unknown_ones_are_not_guessed() {
    let mut host = FakeFs::default();
    host.file(
        "/etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nv:x:1001:1001::/srv/v:/bin/sh\n",
    );
    host.git_dir("/w/.git").file(
        "/w/.git/config",
        "[core]\n hooksPath = ~v/hooks\n fsmonitor = ~u/watch\n editor = ~nobody-here/edit\n\
         [include]\n path = ~v/more.cfg\n[includeIf \"hasconfig:remote.*.url:x\"]\n path = sub/more\n",
    );
    host.file("/srv/v/more.cfg", "[core]\n pager = /opt/pager\n");
    host.file("/w/.git/sub/more", "[include]\n path = deeper\n");
    host.file("/w/.git/sub/deeper", "[gpg]\n program = /opt/gpg\n");
    let found = search(&host, &["/w"], 1000);
    protects(
        &found,
        &[
            "/srv/v/hooks",
            "/home/u/watch",
            "/srv/v/more.cfg",
            "/opt/pager",
            "/w/.git/sub/deeper",
            "/opt/gpg",
        ],
    );
    let guessed = |at: &AbsPath| at.as_bytes().ends_with(b"edit");
    assert!(
        !found.protected.iter().any(guessed),
        "{:?}",
        found.protected
    );
}

#[test]
fn a_configuration_that_is_too_large_to_be_read_is_told() {
    let mut host = FakeFs::default();
    let padding = "# padding\n".repeat(CONFIG_BYTES / 10 - 10);
    host.git_dir("/w/.git").file(
        "/w/.git/config",
        format!("{padding}[core]\nhooksPath = .near\n"),
    );
    let found = search(&host, &["/w"], 1000);
    protects(&found, &["/w/.near"]);
    assert!(found.unsearched.is_empty());
    host.file("/w/.git/config", format!("{padding}{padding}"));
    let found = search(&host, &["/w"], 1000);
    assert_eq!(found.unsearched, BTreeSet::from([path("/w/.git/config")]));
}

#[test]
fn what_a_hostile_tree_can_name_is_bounded_and_the_rest_is_told() {
    // REQ SP-2: programs times work trees, configuration, and the length of all paths together
    let programs = |trees: usize, programs: usize| {
        let mut host = FakeFs::default();
        host.git_dir("/w/.git");
        let mut text = String::from("[alias]\n");
        for index in 0..programs {
            text.push_str(&format!("\ta{index} = !./p{index}\n"));
        }
        host.file("/w/.git/config", text);
        for index in 0..trees {
            host.file(
                format!("/w/.git/worktrees/t{index}/gitdir"),
                format!("/w/t{index}/.git\n"),
            );
            host.dir(format!("/w/t{index}"));
        }
        search(&host, &["/w"], 15_000)
    };
    let few = programs(10, 100);
    protects(&few, &["/w/p99", "/w/t9/p99"]);
    assert!(few.unsearched.is_empty(), "{:?}", few.unsearched);
    let many = programs(400, 1_000);
    assert!(many.unsearched.contains(&path("/w/.git")));
    protects(&many, &["/w/.git/hooks", "/w/.git/worktrees/t399/hooks"]);

    let configured = |repositories: usize| {
        let mut host = FakeFs::default();
        for index in 0..repositories {
            host.git_dir(&format!("/w/r{index}/.git"));
            host.file(format!("/w/r{index}/.git/config"), vec![b'#'; 1_000_000]);
        }
        search(&host, &["/w"], 15_000)
    };
    assert!(configured(10).unsearched.is_empty());
    let many = configured(80);
    assert!(!many.unsearched.is_empty());
    protects(&many, &["/w/r0/.git/hooks", "/w/r79/.git/config"]);

    let long = |repositories: usize| {
        let mut host = FakeFs::default();
        let at = format!("/w{}", format!("/{}", "n".repeat(250)).repeat(10));
        for index in 0..repositories {
            host.file(format!("{at}/r{index}/.git/HEAD"), "");
        }
        search(&host, &["/w"], 15_000)
    };
    assert!(long(100).unsearched.is_empty());
    let many = long(1_000);
    assert!(!many.unsearched.is_empty());
    let bytes: usize = many.protected.iter().map(|at| at.as_bytes().len()).sum();
    assert!(bytes <= PROTECTED_BYTES, "{bytes}");
}

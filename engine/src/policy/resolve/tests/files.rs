//! What the guard's supervisor is told to hold, which gaps it closes, and what is refused where
//! the kernel has no supervisor.

use super::*;
use crate::spec::FilenameRules;
use proptest::prelude::*;

fn protects(policy: &Policy, at: &str) -> bool {
    policy.files.protected.contains(&path(at))
}

fn paths(found: &[AbsPath]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

/// The same host with a kernel before 5.19.
fn old_kernel() -> HostContext {
    let mut old = context();
    old.facts.seccomp_wait_killable = false;
    old
}

const CLOSED: [GapKind; 6] = [
    GapKind::MissingProtectedPath,
    GapKind::NewRepositories,
    GapKind::ProtectedFileReplaced,
    GapKind::HardLinkedProtectedPath,
    GapKind::ProtectedPathIsSymlink,
    GapKind::UnsearchedDirectories,
];

#[test]
fn what_can_be_written_is_judged_and_nothing_else() {
    // REQ BW-5
    let mut host = with_code();
    host.dir("/data/rw").dir("/data/ro").file("/data/f", "");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(paths(&policy.files.roots), ["/home/u", "/home/u/code"]);
    let policy = binds(
        &host,
        r#""bindMounts": [{"hostPath": "/data/rw"}, {"hostPath": "/data/f"},
                          {"hostPath": "/data/ro", "readOnly": true}]"#,
    )
    .unwrap();
    assert_eq!(paths(&policy.files.roots), ["/data/f", "/data/rw"]);
    let review = binds(
        &host,
        r#""mode": "review", "bindMounts": [{"hostPath": "/data/rw"}]"#,
    )
    .unwrap();
    assert_eq!(paths(&review.files.roots), [""; 0]);
}

#[test]
fn protected_paths_are_held_whether_they_exist_or_not_in_both_spellings() {
    // REQ SP-1, SP-2
    let mut host = with_code();
    host.file("/home/u/.bashrc", "")
        .file("/home/u/dot/zshrc", "")
        .link("/home/u/.zshrc", "dot/zshrc")
        .dir("/home/u/cfg")
        .link("/home/u/.config", "cfg");
    let policy = terminal(&host, "/home/u/code").unwrap();
    for held in [
        "/home/u/.bashrc",
        // Missing, below a folder that is missing too.
        "/home/u/.local/share/systemd/user",
        "/home/u/.local/bin",
        // A symlink, what it leads to, and what is missing behind one.
        "/home/u/.zshrc",
        "/home/u/dot/zshrc",
        "/home/u/.config",
        "/home/u/.config/fish",
        "/home/u/cfg/fish",
        // At the top of what the session was given.
        "/home/u/code/.vscode",
    ] {
        assert!(protects(&policy, held), "{held}: {:?}", policy.files);
    }
    // The control: a repository can be made, and other files can.
    for free in ["/home/u/code/.git", "/home/u/code", "/home/u/notes"] {
        assert!(!protects(&policy, free), "{free}");
    }
    for kind in CLOSED {
        assert_eq!(gap(&policy, kind), None, "{kind:?}");
    }
}

#[test]
fn a_secret_that_is_there_cannot_be_overwritten_and_kotaks_own_cannot_be_planted() {
    let mut host = with_code();
    host.file("/home/u/.netrc", "")
        .dir("/home/u/dot/aws")
        .link("/home/u/.aws", "dot/aws");
    let policy = terminal(&host, "/home/u/code").unwrap();
    for held in [
        "/home/u/.netrc",
        "/home/u/.aws",
        "/home/u/dot/aws",
        // None of these exists, and another launch may look there.
        "/home/u/.local/state/kotak",
        "/home/u/.config/kotak",
        "/home/u/.cache/kotak",
    ] {
        assert!(protects(&policy, held), "{held}");
    }
    // The control: a login that is not there can be made inside, and only there is it known.
    assert!(!protects(&policy, "/home/u/.npmrc"));
}

#[test]
fn what_the_supervisor_closes_is_a_gap_where_the_kernel_has_none() {
    // REQ BW-4: a terminal runs, and says what is missing.
    let mut host = with_code();
    host.file("/home/u/.bashrc", "")
        .hard_links("/home/u/.bashrc", 2)
        .file("/home/u/dot/zshrc", "")
        .link("/home/u/.zshrc", "dot/zshrc");
    let spec = terminal_spec("/home/u/code", Mode::Chat, None);
    let old = resolve(&spec, &old_kernel(), &host).unwrap();
    assert_eq!(old.lack, Some(SupervisionLack::KillableWait));
    let new = resolve(&spec, &context(), &host).unwrap();
    assert_eq!(new.lack, None);
    for kind in &CLOSED[..5] {
        assert!(gap(&old, *kind).is_some(), "{kind:?}");
        assert_eq!(gap(&new, *kind), None, "{kind:?}");
        assert_eq!(gap(&old, *kind), unsupervised(&new, *kind));
    }
    assert!(!old.sentences.iter().any(|line| line.contains("hooks")));
    assert!(new.sentences.iter().any(|line| line.contains("hooks")));
}

#[test]
fn a_protected_file_with_other_names_is_held_by_its_inode() {
    let mut host = with_code();
    host.file("/home/u/.bashrc", "").file("/home/u/.zshrc", "");
    host.hard_links("/home/u/.bashrc", 2);
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(policy.files.inodes, [host.id("/home/u/.bashrc")]);
    assert_eq!(gap(&policy, GapKind::HardLinkedProtectedPath), None);
}

#[test]
fn a_folder_given_by_name_stays_writable_though_it_is_on_path() {
    let mut host = FakeFs::debian();
    host.dir("/home/u/.local/bin").dir("/home/u/.vscode/ext");
    for cwd in ["/home/u/.local/bin", "/home/u/.vscode/ext"] {
        let policy = terminal(&host, cwd).unwrap();
        assert!(
            !policy.files.protected.iter().any(|held| {
                // Neither it nor what it lies in; what is below it, such as .vscode, is.
                path(cwd).is_within(held)
            }),
            "{cwd}: {:?}",
            policy.files
        );
        assert!(gap(&policy, GapKind::ProtectedPathIsRoot).is_some());
    }
}

#[test]
fn a_runner_keeps_its_state_and_its_orders_stay_held_also_before_they_exist() {
    let mut host = with_code();
    host.dir("/home/u/.claude/projects")
        .file("/home/u/.claude/settings.json", "");
    let request = TerminalRequest {
        runner_state_dirs: vec![PathBuf::from("/home/u/.claude")],
        protected_paths: ["settings.json", "hooks", "a/b"]
            .map(|name| PathBuf::from("/home/u/.claude").join(name))
            .into(),
        ..terminal_request("/home/u/code", Mode::Chat, None)
    };
    let spec = ValidSpec::terminal(&request).unwrap();
    let policy = resolve(&spec, &context(), &host).unwrap();
    assert_eq!(paths(&policy.files.exempt), ["/home/u/.claude"]);
    assert!(!protects(&policy, "/home/u/.claude"));
    for (held, root) in [
        (
            "/home/u/.claude/settings.json",
            "/home/u/.claude/settings.json",
        ),
        ("/home/u/.claude/hooks", "/home/u/.claude/hooks"),
        // From its topmost folder on, so that none above it is moved away.
        ("/home/u/.claude/a/b", "/home/u/.claude/a"),
    ] {
        assert!(protects(&policy, held), "{held}");
        assert!(policy.files.roots.contains(&path(root)), "{root}");
    }
    assert_eq!(gap(&policy, GapKind::MissingProtectedPath), None);
    // The control: as a terminal without that runner, the folder is an agent's settings.
    assert!(protects(
        &terminal(&host, "/home/u/code").unwrap(),
        "/home/u/.claude"
    ));
}

#[test]
fn what_a_search_finds_in_a_runners_state_is_held_by_its_mounts_alone() {
    let mut host = with_code();
    host.git_dir("/home/u/state/p/.git");
    let policy = binds(&host, r#""runnerStateDirs": ["/home/u/state"]"#).unwrap();
    assert_eq!(how(&policy, "/home/u/state/p/.git/hooks"), HELD);
    assert_eq!(paths(&policy.files.roots), [""; 0]);
    assert!(policy.files.protected.is_empty(), "{:?}", policy.files);
    // `commondir` does not exist there, and nothing keeps it from being made.
    assert!(gap(&policy, GapKind::MissingProtectedPath).is_some());
}

#[test]
fn what_a_protected_pattern_may_match_later_is_a_named_gap() {
    let mut host = with_code();
    host.file("/home/u/code/a.lock", "");
    let fields = |patterns: &str| {
        format!(r#""bindMounts": [{{"hostPath": "/home/u/code"}}], "protectedPaths": [{patterns}]"#)
    };
    let policy = binds(&host, &fields(r#""/home/u/code/*.lock""#)).unwrap();
    assert_eq!(how(&policy, "/home/u/code/a.lock"), HELD);
    assert!(protects(&policy, "/home/u/code/a.lock"));
    let text = gap(&policy, GapKind::MissingProtectedPath).unwrap();
    assert!(text.ends_with("~/code/*.lock"), "{text}");
    let named = binds(&host, &fields(r#""/home/u/code/b.lock""#)).unwrap();
    assert_eq!(gap(&named, GapKind::MissingProtectedPath), None);
    assert!(protects(&named, "/home/u/code/b.lock"));
}

#[test]
fn rules_and_dispatch_are_refused_where_the_kernel_cannot_hold_them() {
    // REQ BW-4
    let host = with_code();
    let text = r#"{"sessionId": "s", "workspaceId": "w",
                   "bindMounts": [{"hostPath": "/home/u/code"}]}"#;
    let plain = SandboxSpec::from_json(text).unwrap();
    let ruled = SandboxSpec {
        filename_rules: FilenameRules {
            globs: vec![".env".to_owned()],
            exceptions: Vec::new(),
        },
        ..plain.clone()
    };
    let specs = [
        (ruled.validate().unwrap(), Profile::Binds),
        (plain.validate_dispatch().unwrap(), Profile::Dispatch),
    ];
    for change in [
        |facts: &mut crate::probe::HostFacts| facts.seccomp_notify = false,
        |facts: &mut crate::probe::HostFacts| facts.seccomp_wait_killable = false,
        |facts: &mut crate::probe::HostFacts| facts.ptrace_scope = Some(3),
    ] {
        let mut lacking = context();
        change(&mut lacking.facts);
        for (spec, _) in &specs {
            let refused = resolve(spec, &lacking, &host);
            let text = refused.as_ref().unwrap_err().to_string();
            assert!(text.contains("filename rules"), "{text}");
            assert_eq!(code(refused), "FILENAME_RULES_UNAVAILABLE");
        }
        assert!(resolve(&plain.validate().unwrap(), &lacking, &host).is_ok());
    }
    for (spec, profile) in &specs {
        let policy = resolve(spec, &context(), &host).unwrap();
        assert_eq!(policy.profile, *profile);
        assert!(policy.files.names.contains(&".env".to_owned()));
    }
}

#[test]
fn the_sentences_of_dispatch_name_its_rules() {
    let text = r#"{"sessionId": "s", "workspaceId": "w",
                   "bindMounts": [{"hostPath": "/home/u/code"}]}"#;
    let spec = SandboxSpec::from_json(text).unwrap();
    let policy = resolve(&spec.validate_dispatch().unwrap(), &context(), &with_code()).unwrap();
    let line = policy
        .sentences
        .iter()
        .find(|line| line.contains(".env"))
        .unwrap();
    assert!(
        line.starts_with(
            "Can not make, change or remove files named **.env**, **∗.key** and **∗.pem**, but for "
        ),
        "{line}"
    );
    assert!(line.contains("**2 more**"), "{line}");
}

proptest! {
    /// Whatever is there, each name of the mandatory set that the session could write is held, and
    /// a supervised session never has more gaps than one that is not.
    #[test]
    fn no_arrangement_of_files_leaves_a_protected_name_open(
        files in proptest::collection::vec(
            (prop_oneof![
                Just(".bashrc"), Just(".config/fish/config.fish"), Just(".vscode/x"),
                Just("code/.git/config"), Just("code/.envrc"), Just(".profile"), Just("a/b"),
            ], any::<bool>()), 0..6)
    ) {
        let mut host = with_code();
        for (name, linked) in files {
            if linked {
                host.file(format!("/home/u/real/{name}"), "");
                let at = path(format!("/home/u/{name}"));
                if host.symlink_metadata(&at).is_err() {
                    host.link(at.as_bytes(), format!("/home/u/real/{name}"));
                }
            } else if host.symlink_metadata(&path(format!("/home/u/{name}"))).is_err() {
                host.file(format!("/home/u/{name}"), "");
            }
        }
        let policy = terminal(&host, "/home/u/code").unwrap();
        for name in [".bashrc", ".config/fish", ".vscode", ".profile", ".gitconfig", ".ssh",
                     "code/.envrc", "code/.claude"] {
            let at = path(format!("/home/u/{name}"));
            prop_assert!(policy.files.protected.contains(&at), "{at}");
        }
        let kinds = |gaps: &[Gap]| {
            gaps.iter().map(|gap| gap.code.clone()).collect::<std::collections::BTreeSet<_>>()
        };
        let more: Vec<String> = kinds(&policy.gaps)
            .difference(&kinds(&policy.unsupervised_gaps)).cloned().collect();
        prop_assert!(more.iter().all(|code| code == GapKind::UnsearchedPrograms.code()));
    }
}

#[test]
fn what_git_runs_in_every_repository_by_a_relative_path_is_held_by_name_or_named() {
    let held = |policy: &Policy| -> Vec<String> {
        let names = policy.files.anywhere.iter();
        names
            .map(|name| String::from_utf8(name.clone()).unwrap())
            .collect()
    };
    let with = |config: &str| {
        let mut host = with_code();
        host.file("/home/u/.gitconfig", config);
        terminal(&host, "/home/u/code").unwrap()
    };
    // The control: nothing relative, nothing named.
    let plain = with("[core]\nhooksPath = ~/hooks\nfsmonitor = /opt/watch\npager = less\n");
    assert_eq!(gap(&plain, GapKind::RelativePrograms), None);
    assert_eq!(unsupervised(&plain, GapKind::RelativePrograms), None);
    assert!(held(&plain).contains(&".vscode".to_owned()));
    assert!(!held(&plain).contains(&".githooks".to_owned()));
    // A name that can be held wherever it is met.
    for path in [".githooks", "./.githooks/"] {
        let named = with(&format!("[core]\nhooksPath = {path}\n"));
        assert_eq!(gap(&named, GapKind::RelativePrograms), None, "{path}");
        assert!(unsupervised(&named, GapKind::RelativePrograms).is_some());
        assert!(held(&named).contains(&".githooks".to_owned()), "{path}");
    }
    // Nobody holds these in a repository that is made inside.
    for path in [
        "hooks",
        "tools/hooks",
        ".git/mine",
        ".GIT",
        "../.hooks",
        ".github/hooks",
        "..",
    ] {
        let left = with(&format!("[core]\nhooksPath = {path}\n"));
        let text = gap(&left, GapKind::RelativePrograms).unwrap();
        assert!(text.ends_with(&format!(": {path}")), "{text}");
        assert_eq!(held(&left), held(&plain), "{path}");
    }
    let filter = with("[filter \"x\"]\nclean = sh tools/clean\n");
    let text = gap(&filter, GapKind::RelativePrograms).unwrap();
    assert!(text.ends_with(", tools/clean"), "{text}");
}

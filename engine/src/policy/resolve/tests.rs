use super::super::fake::{FakeFs, context, path};
use super::super::{Link, Mask};
use super::*;
use crate::error::Coded;
use crate::spec::{EnvPolicy, Mode, SandboxSpec, TerminalRequest};
use std::path::PathBuf;

fn terminal_spec(cwd: &str, mode: Mode, network: Option<NetworkMode>) -> ValidSpec {
    ValidSpec::terminal(&TerminalRequest {
        session_id: "s".to_owned(),
        workspace_id: "w".to_owned(),
        cwd: PathBuf::from(cwd),
        mode,
        protected_paths: Vec::new(),
        network,
        extra_domains: Vec::new(),
        runner_state_dirs: Vec::new(),
        env_policy: EnvPolicy::default(),
    })
    .unwrap()
}

fn terminal(host: &FakeFs, cwd: &str) -> Result<Policy, PolicyError> {
    resolve(&terminal_spec(cwd, Mode::Chat, None), &context(), host)
}

fn binds_spec(fields: &str) -> ValidSpec {
    let text = format!(r#"{{"sessionId": "s", "workspaceId": "w", {fields}}}"#);
    SandboxSpec::from_json(&text).unwrap().validate().unwrap()
}

fn binds(host: &FakeFs, fields: &str) -> Result<Policy, PolicyError> {
    resolve(&binds_spec(fields), &context(), host)
}

fn code(result: Result<Policy, PolicyError>) -> &'static str {
    let error = result.unwrap_err();
    assert!(error.fix().is_some(), "{error} has no fix");
    error.code()
}

fn bind<'a>(policy: &'a Policy, at: &str) -> Option<&'a Bind> {
    policy.binds.iter().find(|bind| bind.path == path(at))
}

fn how(policy: &Policy, at: &str) -> Option<(Access, BindRole)> {
    bind(policy, at).map(|bind| (bind.access, bind.role))
}

fn mask<'a>(policy: &'a Policy, at: &str) -> Option<&'a Mask> {
    policy.masks.iter().find(|mask| mask.path == path(at))
}

fn gap(policy: &Policy, kind: GapKind) -> Option<&str> {
    policy
        .gaps
        .iter()
        .find(|gap| gap.code == kind.code())
        .map(|gap| gap.text.as_str())
}

const HELD: Option<(Access, BindRole)> = Some((Access::Read, BindRole::Protected));
const PINNED: Option<(Access, BindRole)> = Some((Access::Write, BindRole::Pinned));

fn with_code() -> FakeFs {
    let mut host = FakeFs::debian();
    host.dir("/home/u/code");
    host
}

#[test]
fn the_terminal_profile_shows_the_system_read_only_and_home_writable() {
    // REQ TM-2
    let policy = terminal(&with_code(), "/home/u/code").unwrap();
    assert_eq!(
        how(&policy, "/home/u"),
        Some((Access::Write, BindRole::Home))
    );
    assert_eq!(
        how(&policy, "/home/u/code"),
        Some((Access::Write, BindRole::Workdir))
    );
    for system in ["/usr", "/etc", "/var", "/sys", "/opt"] {
        assert_eq!(
            how(&policy, system),
            Some((Access::Read, BindRole::System)),
            "{system}"
        );
    }
    for hidden in [
        "/home",
        "/home/other",
        "/boot",
        "/mnt",
        "/media",
        "/proc",
        "/dev",
    ] {
        assert_eq!(how(&policy, hidden), None, "{hidden}");
    }
    let private: Vec<_> = policy
        .private
        .iter()
        .map(|dir| dir.path.to_string())
        .collect();
    assert_eq!(private, ["/run", "/run/user/1000", "/tmp", "/var/tmp"]);
    assert_eq!(policy.cwd, path("/home/u/code"));
}

#[test]
fn merged_usr_links_and_the_resolvers_file_are_there() {
    let policy = terminal(&with_code(), "/home/u/code").unwrap();
    let bin = Link {
        path: path("/bin"),
        target: b"usr/bin".to_vec(),
    };
    assert!(policy.links.contains(&bin), "{:?}", policy.links);
    // The link in /etc is in a bind already; its target in the private /run is added again.
    assert!(
        !policy
            .links
            .iter()
            .any(|link| link.path == path("/etc/resolv.conf"))
    );
    assert!(bind(&policy, "/run/systemd/resolve/stub-resolv.conf").is_some());
}

#[test]
fn a_home_behind_a_symlink_is_bound_where_it_is_and_reached_by_both_spellings() {
    let mut host = with_code();
    host.dir("/data/u/w")
        .dir("/data/u/.ssh")
        .link("/home/l", "/data/u");
    let context = HostContext {
        home: path("/home/l"),
        ..context()
    };
    let spec = terminal_spec("/home/l/w", Mode::Chat, None);
    let policy = resolve(&spec, &context, &host).unwrap();
    assert_eq!(
        how(&policy, "/data/u"),
        Some((Access::Write, BindRole::Home))
    );
    assert_eq!(policy.cwd, path("/data/u/w"));
    assert!(policy.links.contains(&Link {
        path: path("/home/l"),
        target: b"/data/u".to_vec()
    }));
    assert!(mask(&policy, "/data/u/.ssh").is_some());
}

#[test]
fn existing_secrets_are_masked_and_their_parents_pinned() {
    let mut host = with_code();
    host.dir("/home/u/.ssh")
        .file("/home/u/.config/gh/hosts.yml", "x")
        .file("/home/u/.netrc", "x");
    host.file("/home/u/.cargo/credentials.toml", "x");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(mask(&policy, "/home/u/.ssh").unwrap().kind, NodeKind::Dir);
    assert_eq!(
        mask(&policy, "/home/u/.config/gh").unwrap().kind,
        NodeKind::Dir
    );
    assert_eq!(
        mask(&policy, "/home/u/.netrc").unwrap().kind,
        NodeKind::File
    );
    assert!(mask(&policy, "/home/u/.cargo/credentials.toml").is_some());
    assert_eq!(how(&policy, "/home/u/.config"), PINNED);
    assert_eq!(how(&policy, "/home/u/.cargo"), PINNED);
    // Positive control: a file beside is not touched.
    assert_eq!(mask(&policy, "/home/u/code"), None);
    let replaced = gap(&policy, GapKind::SecretFileReplaced).unwrap();
    assert!(replaced.contains("~/.netrc"), "{replaced}");
    let missing = gap(&policy, GapKind::MissingSecretPath).unwrap();
    assert!(missing.contains("~/.aws"), "{missing}");
}

#[test]
fn a_secret_behind_a_symlink_is_masked_where_it_is_when_that_is_visible() {
    // REQ SP-2
    let mut host = with_code();
    host.dir("/home/u/dot/ssh").link("/home/u/.ssh", "dot/ssh");
    host.dir("/elsewhere/aws")
        .link("/home/u/.aws", "/elsewhere/aws");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert!(mask(&policy, "/home/u/dot/ssh").is_some());
    assert!(
        mask(&policy, "/elsewhere/aws").is_none(),
        "not visible at all"
    );
    assert!(bind(&policy, "/elsewhere/aws").is_none());
}

#[test]
fn hard_links_of_secrets_are_a_named_gap() {
    let mut host = with_code();
    host.file("/home/u/.ssh/id", "x")
        .file("/home/u/.npmrc", "x");
    assert_eq!(
        gap(
            &terminal(&host, "/home/u/code").unwrap(),
            GapKind::HardLinkedSecret
        ),
        None
    );
    host.hard_links("/home/u/.ssh/id", 2)
        .hard_links("/home/u/.npmrc", 2);
    let policy = terminal(&host, "/home/u/code").unwrap();
    let text = gap(&policy, GapKind::HardLinkedSecret).unwrap();
    assert!(
        text.contains("~/.ssh/id") && text.contains("~/.npmrc"),
        "{text}"
    );
}

#[test]
fn roots_secrets_in_etc_are_masked_for_root_alone() {
    let mut host = with_code();
    host.dir("/root/code");
    let root = HostContext {
        uid: 0,
        home: path("/root"),
        ..context()
    };
    let policy = resolve(&terminal_spec("/root/code", Mode::Chat, None), &root, &host).unwrap();
    assert!(mask(&policy, "/etc/shadow").is_some());
    let user = terminal(&host, "/home/u/code").unwrap();
    assert!(mask(&user, "/etc/shadow").is_none());
}

#[test]
fn kotaks_own_files_are_masked_in_a_wider_bind_and_its_programs_held() {
    let mut host = with_code();
    host.dir("/home/u/.local/state/kotak")
        .dir("/home/u/.config/kotak");
    host.file("/home/u/.cargo/bin/kotak", "x");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert!(mask(&policy, "/home/u/.local/state/kotak").is_some());
    assert!(mask(&policy, "/home/u/.config/kotak").is_some());
    assert_eq!(how(&policy, "/home/u/.cargo/bin/kotak"), HELD);
}

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
    let missing = gap(&policy, GapKind::MissingProtectedPath).unwrap();
    assert!(!missing.contains("~/.bashrc,"), "{missing}");
    assert!(
        gap(&policy, GapKind::ProtectedFileReplaced)
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
        gap(&policy, GapKind::ProtectedPathIsSymlink)
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
    assert_eq!(gap(&policy, GapKind::ProtectedPathIsSymlink), None);
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
    assert!(gap(&policy, GapKind::UnsearchedDirectories).is_some());
    assert_eq!(
        gap(
            &terminal(&with_code(), "/home/u/code").unwrap(),
            GapKind::UnsearchedDirectories
        ),
        None
    );
}
const SEARCH: usize = crate::policy::SEARCH_ENTRIES;

#[test]
fn a_read_only_mode_writes_nothing_of_the_users() {
    for mode in [Mode::Review, Mode::Plan, Mode::Orchestrate] {
        let spec = terminal_spec("/home/u/code", mode, None);
        let policy = resolve(&spec, &context(), &with_code()).unwrap();
        assert!(
            policy.binds.iter().all(|bind| bind.access == Access::Read),
            "{mode:?}"
        );
        assert_eq!(gap(&policy, GapKind::MissingProtectedPath), None);
        assert!(
            policy.sentences[0].contains("nothing of yours"),
            "{:?}",
            policy.sentences
        );
    }
}

#[test]
fn unusable_working_directories_are_refused_by_name() {
    let mut host = with_code();
    host.dir("/home/u/.ssh/sub")
        .file("/home/u/file", "")
        .link("/home/u/keys", ".ssh");
    host.dir("/home/u/.local/state/kotak/x");
    for (cwd, expected) in [
        ("/", "WORKDIR_TOO_WIDE"),
        ("/home", "WORKDIR_TOO_WIDE"),
        ("/usr", "WORKDIR_TOO_WIDE"),
        ("/etc", "WORKDIR_TOO_WIDE"),
        ("/home/u/.ssh", "PATH_INSIDE_SECRET"),
        ("/home/u/.ssh/sub", "PATH_INSIDE_SECRET"),
        ("/home/u/keys/sub", "PATH_INSIDE_SECRET"),
        ("/home/u/.local/state/kotak/x", "PATH_INSIDE_KOTAK"),
        ("/home/u/gone", "WORKDIR_MISSING"),
        ("/home/u/file", "NOT_A_DIRECTORY"),
    ] {
        assert_eq!(code(terminal(&host, cwd)), expected, "{cwd}");
    }
    assert!(terminal(&host, "/home/u").is_ok());
    host.deny("/home/u/code");
    assert_eq!(code(terminal(&host, "/home/u/code")), "PATH_UNREADABLE");
}

#[test]
fn unusable_homes_are_refused_by_name() {
    let mut host = with_code();
    host.dir("/code/x");
    for (home, expected) in [
        ("/", "HOME_UNUSABLE"),
        ("/usr/sbin", "HOME_UNUSABLE"),
        ("/nonexistent", "PATH_MISSING"),
    ] {
        let context = HostContext {
            home: path(home),
            ..context()
        };
        let spec = terminal_spec("/code/x", Mode::Chat, None);
        assert_eq!(code(resolve(&spec, &context, &host)), expected, "{home}");
    }
    let root = HostContext {
        home: path("/"),
        ..context()
    };
    assert_eq!(
        code(resolve(&binds_spec(r#""mode": "chat""#), &root, &host)),
        "HOME_UNUSABLE"
    );
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
fn sockets_in_writable_folders_are_masked() {
    let mut host = with_code();
    host.node("/home/u/.docker/run/docker.sock", NodeKind::Socket);
    let policy = terminal(&host, "/home/u/code").unwrap();
    let found = mask(&policy, "/home/u/.docker/run/docker.sock").unwrap();
    assert_eq!(found.kind, NodeKind::Socket);
    assert!(
        gap(&policy, GapKind::SocketsInVisibleFolders)
            .unwrap()
            .contains('~')
    );
}

#[test]
fn abstract_sockets_are_a_gap_of_open_networks_on_old_kernels_alone() {
    let mut old = context();
    old.facts.landlock_abi = 5;
    let spec = |network| terminal_spec("/home/u/code", Mode::Chat, Some(network));
    let found = |network, context: &HostContext| {
        let policy = resolve(&spec(network), context, &with_code()).unwrap();
        gap(&policy, GapKind::AbstractSockets).is_some()
    };
    assert!(found(NetworkMode::Open, &old));
    assert!(!found(NetworkMode::Off, &old));
    assert!(!found(NetworkMode::Open, &context()));
}

#[test]
fn the_bind_mount_form_shows_the_runtime_a_private_home_and_what_is_listed() {
    // REQ BW-1
    let mut host = with_code();
    host.dir("/data/ro").dir("/data/rw");
    let policy = binds(
        &host,
        r#""bindMounts": [{"hostPath": "/data/rw"}, {"hostPath": "/data/ro", "readOnly": true}]"#,
    )
    .unwrap();
    assert_eq!(
        how(&policy, "/data/rw"),
        Some((Access::Write, BindRole::Listed))
    );
    assert_eq!(
        how(&policy, "/data/ro"),
        Some((Access::Read, BindRole::Listed))
    );
    assert_eq!(how(&policy, "/usr"), Some((Access::Read, BindRole::System)));
    assert_eq!(
        how(&policy, "/etc/passwd"),
        Some((Access::Read, BindRole::System))
    );
    for hidden in ["/etc", "/etc/shadow", "/var", "/sys", "/home/u", "/opt"] {
        assert_eq!(how(&policy, hidden), None, "{hidden}");
    }
    assert!(
        policy
            .private
            .iter()
            .any(|dir| dir.path == path("/home/u") && dir.perms == 0o700)
    );
    assert_eq!(
        policy.cwd,
        path("/data/ro"),
        "the first listed folder by path"
    );
    assert_eq!(policy.network, NetworkMode::Allowlist);
}

#[test]
fn the_most_specific_bind_wins_in_any_order() {
    let mut host = with_code();
    host.dir("/d/ro/rw/ro2");
    let mounts = [
        r#"{"hostPath": "/d"}"#,
        r#"{"hostPath": "/d/ro", "readOnly": true}"#,
        r#"{"hostPath": "/d/ro/rw"}"#,
        r#"{"hostPath": "/d/ro/rw/ro2", "readOnly": true}"#,
    ];
    let forward = binds(&host, &format!(r#""bindMounts": [{}]"#, mounts.join(","))).unwrap();
    let mut reversed = mounts;
    reversed.reverse();
    let backward = binds(&host, &format!(r#""bindMounts": [{}]"#, reversed.join(","))).unwrap();
    assert_eq!(forward.binds, backward.binds);
    for (at, access) in [
        ("/d", Access::Write),
        ("/d/ro", Access::Read),
        ("/d/ro/rw", Access::Write),
        ("/d/ro/rw/ro2", Access::Read),
    ] {
        assert_eq!(bind(&forward, at).unwrap().access, access, "{at}");
    }
}

#[test]
fn binds_that_cannot_be_given_are_refused_by_name() {
    let mut host = with_code();
    host.dir("/home/u/.aws")
        .dir("/home/u/.config/kotak/x")
        .file("/home/u/.cargo/bin/kotak", "");
    host.node("/home/u/s", NodeKind::Socket)
        .node("/home/u/fifo", NodeKind::Special);
    host.link("/home/u/proc", "/proc/sys")
        .link("/home/u/same", "code");
    for (fields, expected) in [
        (r#"{"hostPath": "/gone"}"#, "BIND_SOURCE_MISSING"),
        (r#"{"hostPath": "/"}"#, "PATH_TOO_WIDE"),
        (r#"{"hostPath": "/", "readOnly": true}"#, "PATH_TOO_WIDE"),
        (r#"{"hostPath": "/run", "readOnly": true}"#, "PATH_TOO_WIDE"),
        (
            r#"{"hostPath": "/home/u/proc", "readOnly": true}"#,
            "PATH_TOO_WIDE",
        ),
        (r#"{"hostPath": "/home"}"#, "PATH_TOO_WIDE"),
        (r#"{"hostPath": "/etc"}"#, "PATH_TOO_WIDE"),
        (
            r#"{"hostPath": "/home/u/.aws", "readOnly": true}"#,
            "PATH_INSIDE_SECRET",
        ),
        (
            r#"{"hostPath": "/home/u/.config/kotak"}"#,
            "PATH_INSIDE_KOTAK",
        ),
        (
            r#"{"hostPath": "/home/u/.config/kotak/x", "readOnly": true}"#,
            "PATH_INSIDE_KOTAK",
        ),
        (
            r#"{"hostPath": "/home/u/.cargo/bin/kotak", "readOnly": true}"#,
            "PATH_INSIDE_KOTAK",
        ),
        (r#"{"hostPath": "/home/u/s"}"#, "SPECIAL_FILE"),
        (r#"{"hostPath": "/home/u/fifo"}"#, "SPECIAL_FILE"),
        (
            r#"{"hostPath": "/home/u/code"}, {"hostPath": "/home/u/same", "readOnly": true}"#,
            "BINDS_CONFLICT",
        ),
    ] {
        let found = binds(&host, &format!(r#""bindMounts": [{fields}]"#));
        assert_eq!(code(found), expected, "{fields}");
    }
    for fine in [
        r#"{"hostPath": "/home", "readOnly": true}"#,
        r#"{"hostPath": "/etc", "readOnly": true}"#,
        r#"{"hostPath": "/home/u"}"#,
        r#"{"hostPath": "/home/u/same"}, {"hostPath": "/home/u/code"}"#,
    ] {
        assert!(
            binds(&host, &format!(r#""bindMounts": [{fine}]"#)).is_ok(),
            "{fine}"
        );
    }
}

#[test]
fn a_wider_bind_is_masked_and_held_like_a_terminals_home() {
    let mut host = with_code();
    host.dir("/home/u/.ssh")
        .file("/home/u/.bashrc", "")
        .git_dir("/home/u/code/.git");
    host.dir("/home/u/.config/kotak");
    let policy = binds(&host, r#""bindMounts": [{"hostPath": "/home/u"}]"#).unwrap();
    assert!(mask(&policy, "/home/u/.ssh").is_some());
    assert!(mask(&policy, "/home/u/.config/kotak").is_some());
    assert_eq!(how(&policy, "/home/u/.bashrc"), HELD);
    assert_eq!(how(&policy, "/home/u/code/.git/hooks"), HELD);
    assert!(!policy.private.iter().any(|dir| dir.path == path("/home/u")));
}

#[test]
fn a_bind_behind_a_symlink_is_reached_by_both_spellings() {
    let mut host = with_code();
    host.dir("/mnt/disk/p").link("/proj", "/mnt/disk/p");
    let policy = binds(&host, r#""bindMounts": [{"hostPath": "/proj"}]"#).unwrap();
    assert_eq!(
        how(&policy, "/mnt/disk/p"),
        Some((Access::Write, BindRole::Listed))
    );
    let link = Link {
        path: path("/proj"),
        target: b"/mnt/disk/p".to_vec(),
    };
    assert!(policy.links.contains(&link), "{:?}", policy.links);
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
        gap(&policy, GapKind::MissingProtectedPath)
            .unwrap()
            .contains("/r/none")
    );
}

#[test]
fn runner_state_is_writable_in_every_mode_but_never_inside_what_is_protected() {
    let mut host = with_code();
    host.dir("/home/u/code/state/.claude")
        .dir("/home/u/p")
        .link("/home/u/l", "p");
    let fields = |mode: &str| {
        format!(
            r#""mode": "{mode}", "bindMounts": [{{"hostPath": "/home/u/code"}}],
               "runnerStateDirs": ["/home/u/code/state/.claude"]"#
        )
    };
    for mode in ["chat", "review", "plan", "orchestrate"] {
        let policy = binds(&host, &fields(mode)).unwrap();
        assert_eq!(
            how(&policy, "/home/u/code/state/.claude"),
            Some((Access::Write, BindRole::RunnerState)),
            "{mode}"
        );
    }
    let found = binds(
        &host,
        r#""protectedPaths": ["/home/u/p"], "runnerStateDirs": ["/home/u/l"]"#,
    );
    assert_eq!(code(found), "RUNNER_STATE_PROTECTED");
    host.dir("/home/u/.ssh/x");
    assert_eq!(
        code(binds(&host, r#""runnerStateDirs": ["/home/u/.ssh/x"]"#)),
        "PATH_INSIDE_SECRET"
    );
    assert_eq!(
        code(binds(&host, r#""runnerStateDirs": ["/home/u/no"]"#)),
        "PATH_MISSING"
    );
}

#[test]
fn a_working_directory_that_leads_out_of_every_bind_is_refused() {
    let mut host = with_code();
    host.dir("/elsewhere")
        .link("/home/u/code/out", "/elsewhere")
        .dir("/home/u/code/in");
    let fields = |dir: &str| {
        format!(r#""bindMounts": [{{"hostPath": "/home/u/code"}}], "guestWorkdir": "{dir}""#)
    };
    assert_eq!(
        code(binds(&host, &fields("/home/u/code/out"))),
        "WORKDIR_HIDDEN"
    );
    assert_eq!(
        code(binds(&host, &fields("/home/u/code/gone"))),
        "WORKDIR_MISSING"
    );
    assert!(binds(&host, &fields("/home/u/code/in")).is_ok());
}

#[test]
fn the_sentences_of_a_terminal_say_what_it_may_do() {
    let mut host = with_code();
    host.dir("/home/u/.ssh")
        .dir("/home/u/.aws")
        .dir("/home/u/.kube")
        .file("/home/u/.bashrc", "");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(
        policy.sentences,
        [
            "Can write to **~/code** and **your home**, but not to **1 protected path**.",
            "Can read **the system**; other homes, mounted disks and the host's sockets are hidden.",
            "Can not read **~/.ssh**, **~/.aws** and **~/.kube**.",
            "Reaches **any host**, as you do; the network is not observed.",
            "**2** environment variables are withheld.",
        ]
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
fn a_secret_behind_a_folder_without_permissions_refuses_the_launch_with_the_command_that_helps() {
    // REQ TM-2, SP-2
    let home = || {
        let mut host = with_code();
        host.file("/home/u/.config/gh/hosts.yml", "x")
            .file("/home/u/.cargo/credentials.toml", "x")
            .dir("/home/u/my notes");
        host
    };
    assert!(terminal(&home(), "/home/u/code").is_ok());
    for dir in [".config", ".cargo", ".local"] {
        let mut host = home();
        host.dir(format!("/home/u/{dir}"))
            .closed(format!("/home/u/{dir}"));
        let error = terminal(&host, "/home/u/code").unwrap_err();
        assert!(
            matches!(error.code(), "SECRET_NOT_VISIBLE" | "PATH_NOT_VISIBLE"),
            "{error}"
        );
        let command = error.fix().unwrap().command.unwrap();
        assert_eq!(command, format!("chmod u+rwx /home/u/{dir}"));
    }
    // Searchable, not listable: only the globs are blind.
    for dir in [".config", ".cargo"] {
        let mut host = home();
        host.unlisted(format!("/home/u/{dir}"));
        assert_eq!(
            code(terminal(&host, "/home/u/code")),
            "SECRET_NOT_VISIBLE",
            "{dir}"
        );
    }
    // A loop of symlinks is told apart from nothing, too.
    let mut host = home();
    host.link("/home/u/.aws", ".aws");
    assert_eq!(code(terminal(&host, "/home/u/code")), "SECRET_NOT_VISIBLE");
    // Not visible inside: nothing is refused.
    let mut host = home();
    host.closed("/home/u/.config");
    assert!(binds(&host, r#""bindMounts": [{"hostPath": "/home/u/code"}]"#).is_ok());
}

#[test]
fn a_protected_path_that_cannot_be_looked_at_refuses_the_launch() {
    // REQ SP-1
    let fields = |access: &str| {
        format!(
            r#""bindMounts": [{{"hostPath": "/home/u/code"{access}}}],
               "protectedPaths": ["/home/u/code/a/b/original"]"#
        )
    };
    let mut host = with_code();
    host.dir("/home/u/code/a/b/original");
    assert!(binds(&host, &fields("")).is_ok());
    host.closed("/home/u/code/a");
    assert_eq!(code(binds(&host, &fields(""))), "PATH_NOT_VISIBLE");
    assert!(binds(&host, &fields(r#", "readOnly": true"#)).is_ok());
}

#[test]
fn a_secret_closed_by_another_user_in_what_is_read_only_refuses_nothing() {
    let mut host = with_code();
    host.file("/var/private/k", "x").closed("/var/private");
    let mut context = context();
    context
        .env
        .push((b"KUBECONFIG".to_vec(), b"/var/private/k".to_vec()));
    let spec = terminal_spec("/home/u/code", Mode::Chat, None);
    let own = resolve(&spec, &context, &host);
    assert_eq!(own.unwrap_err().code(), "SECRET_NOT_VISIBLE");
    host.owner("/var/private", 0);
    assert!(resolve(&spec, &context, &host).is_ok());
}

#[test]
fn a_folder_that_cannot_be_searched_is_held_and_the_sessions_own_is_refused() {
    let mut host = with_code();
    host.git_dir("/home/u/code/p/.git").dir("/home/u/q/in");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(how(&policy, "/home/u/q"), None);
    host.unlisted("/home/u/code/p").closed("/home/u/q");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(how(&policy, "/home/u/code/p"), HELD);
    assert_eq!(how(&policy, "/home/u/q"), HELD);
    assert!(
        gap(&policy, GapKind::UnreadableFolder)
            .unwrap()
            .contains("~/code/p, ~/q")
    );
    host.unlisted("/home/u/code");
    assert_eq!(code(terminal(&host, "/home/u/code")), "PATH_NOT_VISIBLE");
    // A git directory that cannot be entered is held itself.
    let mut host = with_code();
    host.git_dir("/home/u/code/p/.git")
        .closed("/home/u/code/p/.git");
    let policy = terminal(&host, "/home/u/code").unwrap();
    assert_eq!(how(&policy, "/home/u/code/p/.git"), HELD);
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
            gap(&policy, GapKind::NewRepositories)
                .unwrap()
                .contains("~/code")
        );
        gap(&policy, GapKind::MissingProtectedPath)
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
    assert_eq!(gap(&read_only, GapKind::MissingProtectedPath), None);
    assert_eq!(gap(&read_only, GapKind::NewRepositories), None);
}

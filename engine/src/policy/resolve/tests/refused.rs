//! What is refused before anything runs.

use super::*;

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

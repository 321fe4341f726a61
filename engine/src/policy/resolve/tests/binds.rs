//! General specs with bind mounts, and runner state directories.

use super::*;

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

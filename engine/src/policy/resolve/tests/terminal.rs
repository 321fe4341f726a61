//! The fixed terminal profile: what it shows, where, and how it says so.

use super::*;

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
fn a_read_only_mode_writes_nothing_of_the_users() {
    for mode in [Mode::Review, Mode::Plan, Mode::Orchestrate] {
        let spec = terminal_spec("/home/u/code", mode, None);
        let policy = resolve(&spec, &context(), &with_code()).unwrap();
        assert!(
            policy.binds.iter().all(|bind| bind.access == Access::Read),
            "{mode:?}"
        );
        assert_eq!(unsupervised(&policy, GapKind::MissingProtectedPath), None);
        assert!(
            policy.sentences[0].contains("nothing of yours"),
            "{:?}",
            policy.sentences
        );
    }
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
            "Can not make **git hooks**, **editor settings** or **agent settings** there, also not in \
             new repositories.",
            "Can read **the system**; other homes, mounted disks and the host's sockets are hidden.",
            "Can not read **~/.ssh**, **~/.aws** and **~/.kube**.",
            "Reaches **any host**, as you do; the network is not observed.",
            "**2** environment variables are withheld.",
        ]
    );
}

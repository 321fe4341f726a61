//! What is masked.

use super::*;

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
fn what_is_hidden_again_while_a_session_runs_is_named_apart_from_what_is_not() {
    // REQ TM-2, SP
    let mut host = with_code();
    host.file("/home/u/.netrc", "x").dir("/home/u/.config");
    let policy = terminal(&host, "/home/u/code").unwrap();
    let missing = |path: &str| policy.missing.iter().any(|found| found.to_string() == path);
    assert!(missing("/home/u/.aws") && missing("/home/u/.config/gh"));
    // One that is there, one that no Linux has, and what a glob may name.
    assert!(!missing("/home/u/.netrc"));
    let odd = |path: &AbsPath| {
        let path = path.to_string();
        path.contains("Library") || path.contains('*')
    };
    assert!(!policy.missing.iter().any(odd), "{:?}", policy.missing);
    let left = named(&policy.watched_gaps, GapKind::SecretForAMoment).unwrap();
    assert!(left.contains("~/.netrc") || left.contains('…'), "{left}");
    let unwatched = named(&policy.watched_gaps, GapKind::MissingSecretPath).unwrap();
    assert!(
        unwatched.contains('*') && !unwatched.contains("~/.aws"),
        "{unwatched}"
    );
    assert_eq!(
        named(&policy.watched_gaps, GapKind::SecretFileReplaced),
        None
    );
    // Until it is confirmed, the wide ones stand.
    assert_eq!(gap(&policy, GapKind::SecretForAMoment), None);
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

//! From where programs may run.

use super::*;

fn restricted(fields: &str) -> String {
    format!(r#""execRestriction": "writable", {fields}"#)
}

fn allowed(policy: &Policy) -> Vec<String> {
    let exec = policy.exec.as_ref().unwrap();
    exec.allowed.iter().map(ToString::to_string).collect()
}

fn is_allowed(policy: &Policy, at: &str) -> bool {
    let exec = policy.exec.as_ref().unwrap();
    exec.allowed.iter().any(|tree| path(at).is_within(tree))
}

fn terminal_with(host: &FakeFs, grants: &[&str]) -> Result<Policy, PolicyError> {
    let request = TerminalRequest {
        files: TerminalFiles {
            exec_restriction: crate::spec::ExecRestriction::Writable,
            exec_grant_roots: grants.iter().map(PathBuf::from).collect(),
            ..TerminalFiles::default()
        },
        ..terminal_request("/home/u/code", Mode::Chat, None)
    };
    resolve(&ValidSpec::terminal(&request).unwrap(), &context(), host)
}

#[test]
fn programs_run_from_what_is_read_only_and_from_nothing_that_can_be_written() {
    // REQ BW-6
    let mut host = with_code();
    host.dir("/data/ro").dir("/data/rw").dir("/data/rw/ro2");
    let policy = binds(
        &host,
        &restricted(
            r#""bindMounts": [{"hostPath": "/data/rw"}, {"hostPath": "/data/ro", "readOnly": true},
                              {"hostPath": "/data/rw/ro2", "readOnly": true}]"#,
        ),
    )
    .unwrap();
    for runs in [
        "/usr/bin/sh",
        "/usr/lib/x",
        "/data/ro/tool",
        "/data/rw/ro2/tool",
    ] {
        assert!(is_allowed(&policy, runs), "{runs}: {:?}", allowed(&policy));
    }
    for never in [
        "/data/rw/prog",
        "/tmp/prog",
        "/var/tmp/prog",
        "/home/u/prog",
        "/run/x",
        "/dev/shm/x",
    ] {
        assert!(!is_allowed(&policy, never), "{never}");
    }
    // The control: without the restriction there is no plan.
    let free = binds(&host, r#""bindMounts": [{"hostPath": "/data/rw"}]"#).unwrap();
    assert_eq!(free.exec, None);
}

#[test]
fn a_writable_place_inside_a_readable_tree_is_left_out_of_it() {
    // Landlock would let programs run from /var/tmp and /srv/www with a rule for /var and /srv.
    let mut host = with_code();
    host.dir("/var/lib/x")
        .file("/var/f", "")
        .dir("/srv/www/in")
        .dir("/srv/other");
    host.link("/srv/link", "www");
    let request = TerminalRequest {
        files: TerminalFiles {
            exec_restriction: crate::spec::ExecRestriction::Writable,
            ..TerminalFiles::default()
        },
        ..terminal_request("/srv/www", Mode::Chat, None)
    };
    let spec = ValidSpec::terminal(&request).unwrap();
    let policy = resolve(&spec, &context(), &host).unwrap();
    for runs in ["/var/lib/x/prog", "/var/f", "/srv/other/prog", "/usr/bin/x"] {
        assert!(is_allowed(&policy, runs), "{runs}: {:?}", allowed(&policy));
    }
    for never in [
        "/var/tmp/prog",
        "/srv/www/prog",
        "/srv/www/in/prog",
        "/srv/link/prog",
    ] {
        assert!(
            !is_allowed(&policy, never),
            "{never}: {:?}",
            allowed(&policy)
        );
    }
}

#[test]
fn what_the_operator_named_runs_and_what_a_search_or_a_list_holds_does_not() {
    let mut host = with_code();
    host.dir("/home/u/.local/bin")
        .dir("/home/u/code/tools")
        .git_dir("/home/u/code/.git")
        .dir("/home/u/code/sub/.vscode")
        .dir("/home/u/.config/fish")
        .dir("/home/u/q/in")
        .unlisted("/home/u/q");
    let request = TerminalRequest {
        protected_paths: vec![PathBuf::from("/home/u/code/tools")],
        files: TerminalFiles {
            exec_restriction: crate::spec::ExecRestriction::Writable,
            ..TerminalFiles::default()
        },
        ..terminal_request("/home/u/code", Mode::Chat, None)
    };
    let spec = ValidSpec::terminal(&request).unwrap();
    let policy = resolve(&spec, &context(), &host).unwrap();
    for runs in ["/home/u/.local/bin", "/home/u/code/tools"] {
        assert_eq!(how(&policy, runs), HELD, "{runs}");
        assert!(is_allowed(&policy, &format!("{runs}/tool")), "{runs}");
    }
    // An earlier session may have written these: `pre-commit.sample` was free to make.
    for never in [
        "/home/u/code/.git/hooks",
        "/home/u/code/sub/.vscode",
        "/home/u/.config/fish",
        "/home/u/q",
    ] {
        assert_eq!(how(&policy, never), HELD, "{never}");
        assert!(!is_allowed(&policy, &format!("{never}/prog")), "{never}");
    }
    for never in ["/home/u/code/prog", "/home/u/prog"] {
        assert!(!is_allowed(&policy, never), "{never}");
    }
}

#[test]
fn a_granted_tree_runs_and_is_said() {
    // REQ BW-6, SP
    let mut host = with_code();
    host.dir("/home/u/code/target")
        .link("/home/u/code/t", "target");
    let policy = terminal_with(&host, &["/home/u/code/t"]).unwrap();
    assert!(is_allowed(&policy, "/home/u/code/target/debug/prog"));
    assert!(!is_allowed(&policy, "/home/u/code/prog"));
    let line = policy
        .sentences
        .iter()
        .find(|line| line.contains("Runs"))
        .unwrap();
    assert_eq!(
        line,
        "Runs programs only **from where it can not write** and from **~/code/target**; \
         interpreters run any script."
    );
}

#[test]
fn a_grant_that_makes_no_sense_is_refused_with_its_reason() {
    let mut host = with_code();
    host.dir("/home/u/code/.git/hooks")
        .dir("/home/u/code/.vscode/x")
        .dir("/home/u/.local/bin")
        .dir("/home/u/.ssh/x")
        .dir("/home/u/.config/kotak/x")
        .dir("/elsewhere")
        .file("/home/u/code/f", "")
        .dir("/home/u/.config/fish");
    for (grant, expected, part) in [
        ("/home/u", "EXEC_GRANT_INVALID", "home directory"),
        ("/home", "EXEC_GRANT_INVALID", "inside it"),
        ("/elsewhere", "EXEC_GRANT_INVALID", "may write"),
        ("/usr/lib", "EXEC_GRANT_INVALID", "may write"),
        ("/home/u/code/.git/hooks", "EXEC_GRANT_INVALID", "planted"),
        ("/home/u/code/.vscode/x", "EXEC_GRANT_INVALID", "planted"),
        ("/home/u/.local/bin", "EXEC_GRANT_INVALID", "planted"),
        ("/home/u/.config/fish", "EXEC_GRANT_INVALID", "planted"),
        ("/home/u/.ssh/x", "PATH_INSIDE_SECRET", "exec grant"),
        ("/home/u/.config/kotak/x", "PATH_INSIDE_KOTAK", "exec grant"),
        ("/home/u/code/none", "PATH_MISSING", "exec grant"),
        ("/home/u/code/f", "NOT_A_DIRECTORY", "exec grant"),
    ] {
        let refused = terminal_with(&host, &[grant]);
        let text = refused.as_ref().unwrap_err().to_string();
        assert!(text.contains(part), "{grant}: {text}");
        assert_eq!(code(refused), expected, "{grant}");
    }
    assert!(terminal_with(&host, &["/home/u/code"]).is_ok());
    // In a mode that writes nothing a workspace's grant changes nothing, and breaks nothing.
    let review = binds(
        &host,
        &restricted(
            r#""mode": "review", "bindMounts": [{"hostPath": "/home/u/code"}],
               "execGrantRoots": ["/home/u/code"]"#,
        ),
    );
    assert!(is_allowed(&review.unwrap(), "/home/u/code/prog"));
}

#[test]
fn an_approved_folder_that_makes_no_sense_here_is_left_out_and_refuses_nothing() {
    // REQ UI-7
    let mut host = with_code();
    host.dir("/home/u/code/target").dir("/home/u/other");
    let fields = restricted(r#""bindMounts": [{"hostPath": "/home/u/code"}]"#);
    let mut spec = binds_spec(&fields);
    for folder in ["/home/u/code/target", "/home/u/other", "/home/u/gone"] {
        spec.approve(path(folder));
    }
    let policy = resolve(&spec, &context(), &host).unwrap();
    assert!(is_allowed(&policy, "/home/u/code/target/prog"));
    assert!(!is_allowed(&policy, "/home/u/other/prog"));
    let exec = policy.exec.as_ref().unwrap();
    let left: Vec<_> = exec.left_out.iter().map(|(at, _)| at.to_string()).collect();
    assert_eq!(left, ["/home/u/other", "/home/u/gone"]);
    // The control: named by the spec it is an error.
    let named = format!(r#"{fields}, "execGrantRoots": ["/home/u/other"]"#);
    assert_eq!(code(binds(&host, &named)), "EXEC_GRANT_INVALID");
}

#[test]
fn dangerous_programs_are_refused_where_they_really_are_and_never_a_shell_of_many() {
    // REQ SB-5
    let mut host = with_code();
    for name in ["sudo-rs", "mount", "busybox", "env"] {
        host.file(format!("/usr/bin/{name}"), "");
    }
    host.link("/usr/bin/sudo", "sudo-rs")
        .link("/usr/bin/su", "busybox");
    let policy = terminal_with(&host, &[]).unwrap();
    assert_eq!(
        policy.exec.unwrap().denied,
        [path("/usr/bin/mount"), path("/usr/bin/sudo-rs")]
    );
}

#[test]
fn the_restriction_is_refused_where_the_kernel_cannot_hold_it() {
    // REQ BW-6
    let host = with_code();
    let spec = binds_spec(&restricted(
        r#""bindMounts": [{"hostPath": "/home/u/code"}]"#,
    ));
    assert!(resolve(&spec, &context(), &host).is_ok());
    for change in [
        |facts: &mut crate::probe::HostFacts| facts.landlock_abi = 1,
        |facts: &mut crate::probe::HostFacts| facts.seccomp_notify = false,
    ] {
        let mut lacking = context();
        change(&mut lacking.facts);
        let refused = resolve(&spec, &lacking, &host);
        assert_eq!(code(refused), "EXEC_RESTRICTION_UNAVAILABLE");
    }
}

//! Each way to a forbidden name, and to what stands under one.

use crate::harness::{User, Workspace, users};
use kotak_guard::proto::{Event, FileAction, Request, Rule};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

const EACCES: &str = "13";

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

fn only(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Runs attempts, each an expression that is true when it succeeded; all are refused with EACCES
/// and nothing new is there.
fn refused(user: User, before: &str, attempts: &[&str]) {
    for attempt in attempts {
        let mut workspace = Workspace::new(user, |_, _| {});
        workspace.perl(before);
        let names = workspace.names();
        let found = workspace.perl(&format!("print errno({attempt});"));
        assert_eq!(found, EACCES, "{attempt}");
        assert_eq!(workspace.names(), names, "{attempt}");
        let told = workspace.violation();
        assert!(told.observed && told.errno == libc::EACCES, "{told:?}");
        assert!(matches!(told.rule, Rule::Name(_)), "{attempt}: {told:?}");
        assert!(told.executable.unwrap().ends_with("perl"), "{attempt}");
    }
}

#[test]
fn a_supervised_sandbox_is_ready_after_a_trial() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        assert!(workspace.report.files_supervised);
        assert!(workspace.report.passed.iter().any(|it| it.name == "files"));
        assert_eq!(workspace.sh("echo x > ok.txt && cat ok.txt").stdout, "x\n");
        assert_eq!(workspace.names(), only(&["ok.txt", "pre.key"]));
    });
}

#[test]
fn a_matching_name_cannot_be_created() {
    every_user(|user| {
        refused(
            user,
            "mkdir 'sub' or die;",
            &[
                "sysopen(my $f, '.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, '.env', O_CREAT|O_RDONLY)",
                "sysopen(my $f, '.env', O_CREAT|O_EXCL|O_RDWR)",
                "sysopen(my $f, \"$ws/.env\", O_CREAT|O_WRONLY)",
                "sysopen(my $f, 'sub/../.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, './.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, \"/$ws//.env\", O_CREAT|O_WRONLY)",
                "sysopen(my $f, '.ENV', O_CREAT|O_WRONLY)",
                "sysopen(my $f, 'x.Key', O_CREAT|O_WRONLY)",
                "sysopen(my $f, \"a\\n.key\", O_CREAT|O_WRONLY)",
                "sysopen(my $f, \"\\xff\\xfe.key\", O_CREAT|O_WRONLY)",
                "sysopen(my $f, \"x.\\xe2\\x84\\xaaey\", O_CREAT|O_WRONLY)",
                "sysopen(my $f, './' x 2020 . 'x.key', O_CREAT|O_WRONLY)",
                "sysopen(my $f, '/proc/self/cwd/.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, '/proc/thread-self/cwd/.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, \"/proc/$$/cwd/.env\", O_CREAT|O_WRONLY)",
                "sysopen(my $f, '/proc/self/root' . $ws . '/.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, '/proc/self/task/../cwd/.env', O_CREAT|O_WRONLY)",
                "mkdir('.env')",
                "symlink('ok', '.env')",
                "do { require POSIX; POSIX::mkfifo('x.key', 0600) }",
            ],
        );
    });
}

#[test]
fn a_matching_name_cannot_be_reached_by_a_symlink() {
    every_user(|user| {
        refused(
            user,
            "symlink('.env', 'rel'); symlink(\"$ws/.env\", 'abs'); symlink('rel', 'chain'); \
             symlink('pre.key', 'old'); symlink('.', 'here');",
            &[
                "sysopen(my $f, 'rel', O_CREAT|O_WRONLY)",
                "sysopen(my $f, 'abs', O_CREAT|O_WRONLY)",
                "sysopen(my $f, 'chain', O_CREAT|O_WRONLY)",
                "sysopen(my $f, 'here/here/.env', O_CREAT|O_WRONLY)",
                "sysopen(my $f, 'old', O_WRONLY)",
                "truncate('old', 0)",
            ],
        );
    });
}

#[test]
fn nothing_is_renamed_or_linked_to_or_from_a_matching_name() {
    every_user(|user| {
        refused(
            user,
            "open(my $f, '>', 'ok.txt') or die;",
            &[
                "rename('ok.txt', '.env')",
                "rename('pre.key', 'x.txt')",
                "rename('ok.txt', 'pre.key')",
                "link('ok.txt', '.env')",
                "link('pre.key', 'x.txt')",
                "link('/proc/self/cwd/pre.key', 'x.txt')",
            ],
        );
    });
}

#[test]
fn a_directory_that_holds_a_matching_name_stays_where_it_is() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |dir, _| {
            for name in ["a/deep", "b", "free/deep"] {
                fs::create_dir_all(dir.join(name)).unwrap();
            }
            fs::write(dir.join("a/deep/.env"), "kept").unwrap();
            fs::write(dir.join("free/deep/env"), "").unwrap();
            for name in ["a", "a/deep", "b", "free", "free/deep"] {
                let mode = fs::Permissions::from_mode(0o777);
                fs::set_permissions(dir.join(name), mode).unwrap();
            }
        });
        let exchange = |one: &str, other: &str| {
            let call = libc::SYS_renameat2;
            format!(
                "do {{ my ($a, $b) = ('{one}', '{other}');
                 syscall({call}, -100, $a, -100, $b, 2) == 0 }}"
            )
        };
        let names = workspace.names();
        for attempt in [
            "rename('a', 'x')".to_owned(),
            "rename('a/deep', 'a/x')".to_owned(),
            "rename('a/deep', 'b')".to_owned(),
            exchange("a", "b"),
            exchange("b", "a"),
            exchange("b", "a/deep"),
        ] {
            let found = workspace.perl(&format!("print errno({attempt});"));
            assert_eq!(found, EACCES, "{attempt}");
            let told = workspace.violation();
            assert_eq!(told.rule, Rule::Name(".env".to_owned()), "{attempt}");
        }
        assert_eq!(workspace.names(), names);
        for attempt in ["rename('free', 'x')".to_owned(), exchange("x/deep", "b")] {
            let found = workspace.perl(&format!("print errno({attempt});"));
            assert_eq!(found, "ok", "{attempt}");
        }
    });
}

#[test]
fn what_has_a_matching_name_is_not_changed_or_removed_and_is_read() {
    every_user(|user| {
        refused(
            user,
            "1;",
            &[
                "truncate('pre.key', 0)",
                "sysopen(my $f, 'pre.key', O_RDONLY|O_TRUNC)",
                "sysopen(my $f, 'pre.key', 3)",
                "sysopen(my $f, 'pre.key', O_WRONLY)",
                "sysopen(my $f, 'pre.key', O_RDWR|O_APPEND)",
                "unlink('pre.key')",
                "chmod(0, 'pre.key')",
                "do { sysopen(my $r, 'pre.key', O_RDONLY) or die; \
                 sysopen(my $f, '/proc/self/fd/' . fileno($r), O_WRONLY) }",
                "do { sysopen(my $r, 'pre.key', O_RDONLY) or die; \
                 sysopen(my $f, '/dev/fd/' . fileno($r), O_WRONLY) }",
                "do { sysopen(my $r, 'pre.key', 010000000) or die; \
                 sysopen(my $f, '/proc/self/fd/' . fileno($r), O_WRONLY) }",
            ],
        );
        let mut workspace = Workspace::new(user, |_, _| {});
        let script = "open(my $f, '<', 'pre.key') or die; print <$f>; \
                      sysopen(my $g, 'pre.key', O_CREAT|O_RDONLY) or die; print <$g>;";
        assert_eq!(workspace.perl(script), "keptkept");
    });
}

#[test]
fn what_would_fail_anyway_fails_as_without_the_guard() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        let found = workspace.perl(
            "symlink('loop', 'loop'); mkdir 'dir';
             my @found = map { errno($_->()) } (
               sub { sysopen(my $f, '.env/', O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, 'n' x 256, O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, 'x/' x 2050, O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, 'loop', O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, '', O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, 'none/.env', O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, 'pre.key/.env', O_CREAT|O_WRONLY) },
               sub { sysopen(my $f, '.env', O_WRONLY) },
               sub { sysopen(my $f, 'dir', O_WRONLY) },
               sub { sysopen(my $f, 'dir', O_CREAT|O_RDONLY) },
               sub { sysopen(my $f, 'loop', O_WRONLY|O_NOFOLLOW) },
               sub { unlink('.env') },
               sub { rename('.env', 'x') },
               sub { rmdir('.') },
               sub { mkdir('dir') },
               sub { unlink('dir') },
             ); print join ' ', @found;",
        );
        // EISDIR, ENAMETOOLONG twice, ELOOP, ENOENT twice, ENOTDIR, ENOENT, EISDIR twice, ELOOP,
        // ENOENT twice, EINVAL, EEXIST, EISDIR.
        assert_eq!(found, "21 36 36 40 2 2 20 2 21 21 40 2 2 22 17 21");
        assert_eq!(workspace.names(), only(&["dir", "loop", "pre.key"]));
    });
}

#[test]
fn a_refusal_tells_who_and_what_and_repetitions_are_counted() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        workspace.sh("for i in 1 2 3 4 5; do (exec 3> a.key) 2>/dev/null; done; true");
        let first = workspace.violation();
        assert_eq!(first.action, FileAction::Create);
        assert_eq!(first.path, workspace.path("a.key"));
        assert_eq!(first.rule, Rule::Name("*.key".to_owned()));
        assert_eq!(first.call, "openat");
        let mut count = first.count;
        while count < 5 {
            count += workspace.violation().count;
        }
        assert_eq!(count, 5);
    });
}

#[test]
fn what_was_counted_is_told_before_the_session_ends() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        workspace.sh("for i in 1 2 3 4 5 6; do (exec 3> b.key) 2>/dev/null; done; true");
        workspace
            .guard
            .send(&Request::Shutdown { grace_ms: 0 }, &[]);
        let mut count = 0;
        loop {
            match workspace.guard.receive().unwrap().0 {
                Event::Violation(told) => count += told.count,
                Event::Bye => break,
                _ => {}
            }
        }
        // Some may have been taken in while the program ran.
        while count < 6 {
            count += workspace.violation().count;
        }
        assert_eq!(count, 6);
    });
}

//! Protected paths, their ancestors, names that are protected anywhere, and hard links.

use crate::harness::{User, Workspace, users};
use kotak_guard::proto::{FileNode, Rule, Violation};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

const EACCES: &str = "13";

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

/// `conf/fish` and `rc` are protected and missing, `.vscode` is protected anywhere.
fn workspace(user: User) -> Workspace {
    Workspace::new(user, |dir, rules| {
        let path = |name: &str| dir.join(name).to_str().unwrap().into();
        rules.protected = vec![path("conf/fish"), path("rc")];
        rules.anywhere = vec![b".vscode".to_vec()];
    })
}

/// Runs an attempt that is refused; what was told.
fn refused(workspace: &mut Workspace, attempt: &str) -> Violation {
    let names = workspace.names();
    let found = workspace.perl(&format!("print errno({attempt});"));
    assert_eq!(found, EACCES, "{attempt}");
    assert_eq!(workspace.names(), names, "{attempt}");
    workspace.violation()
}

#[test]
fn a_protected_path_that_does_not_exist_cannot_be_made_and_leaves_nothing() {
    every_user(|user| {
        let mut workspace = workspace(user);
        // The way there may be made.
        assert_eq!(workspace.perl("print errno(mkdir('conf'));"), "ok");
        for attempt in [
            "mkdir('conf/fish')",
            "sysopen(my $f, 'conf/fish', O_CREAT|O_WRONLY)",
            "symlink('x', 'conf/fish')",
            "sysopen(my $f, 'rc', O_CREAT|O_WRONLY)",
            "sysopen(my $f, 'conf/../rc', O_CREAT|O_WRONLY)",
            "sysopen(my $f, 'RC', O_CREAT|O_WRONLY)",
            "mkdir('conf/Fish')",
        ] {
            let told = refused(&mut workspace, attempt);
            assert!(matches!(told.rule, Rule::Protected(_)), "{told:?}");
        }
        // Beside it everything goes.
        assert_eq!(
            workspace
                .sh("echo > conf/fish2 && echo > rc2 && mkdir CONF")
                .stderr,
            ""
        );
    });
}

#[test]
fn an_ancestor_of_a_protected_path_stays_a_directory_where_it_is() {
    every_user(|user| {
        let mut workspace = workspace(user);
        for attempt in [
            "symlink('/tmp', 'conf')",
            "sysopen(my $f, 'conf', O_CREAT|O_WRONLY)",
            "do { require POSIX; POSIX::mkfifo('conf', 0600) }",
        ] {
            let told = refused(&mut workspace, attempt);
            assert!(matches!(told.rule, Rule::Ancestor(_)), "{told:?}");
        }
        workspace.perl("mkdir 'conf'; mkdir 'other';");
        workspace.perl("mkdir 'conf/sub';");
        for attempt in [
            "rename('conf', 'x')",
            "rmdir('conf')",
            "chmod(0, 'conf')",
            "chmod(0, 'conf/.')",
            "chmod(0, 'conf/./')",
            "chmod(0, 'conf/sub/..')",
            "do { chdir('conf') or die; my $done = chmod(0, '.'); chdir('..'); $done }",
        ] {
            let told = refused(&mut workspace, attempt);
            assert!(matches!(told.rule, Rule::Ancestor(_)), "{told:?}");
        }
        let chmod = "do { sysopen(my $d, 'conf', O_RDONLY) or die; chmod(0, $d) }";
        refused(&mut workspace, chmod);
        let found = workspace.perl(
            "print join ' ', map { errno(chmod(0755, $_)) }
                 'conf', 'conf/.', 'conf/sub/..', 'conf/sub/.', 'other/.';",
        );
        assert_eq!(found, "ok ok ok ok ok");
    });
}

#[test]
fn an_access_list_does_not_hide_what_is_protected() {
    every_user(|user| {
        let mut workspace = workspace(user);
        workspace.perl("mkdir 'conf'; mkdir 'conf/sub'; open(my $f, '>', 'ok') or die;");
        let (set, lset, fset, remove) = (
            libc::SYS_setxattr,
            libc::SYS_lsetxattr,
            libc::SYS_fsetxattr,
            libc::SYS_removexattr,
        );
        // Owner, group and others get nothing.
        let list = "my $name = 'system.posix_acl_access'; my ($dir, $ok) = ('conf', 'ok'); \
                    my $list = pack('V', 2) . join('', map { pack('vvV', $_, 0, 0xffffffff) } 1, 4, 32);";
        for attempt in [
            format!("do {{ {list} syscall({set}, $dir, $name, $list, length $list, 0) == 0 }}"),
            format!(
                "do {{ {list} $dir = 'conf/.'; \
                 syscall({set}, $dir, $name, $list, length $list, 0) == 0 }}"
            ),
            format!(
                "do {{ {list} $dir = 'conf/sub/..'; \
                 syscall({lset}, $dir, $name, $list, length $list, 0) == 0 }}"
            ),
            format!(
                "do {{ {list} sysopen(my $d, 'conf', O_RDONLY) or die; \
                 syscall({fset}, fileno($d), $name, $list, length $list, 0) == 0 }}"
            ),
        ] {
            let told = refused(&mut workspace, &attempt);
            assert!(matches!(told.rule, Rule::Ancestor(_)), "{told:?}");
        }
        // Beside it, it is set, and so is any other attribute.
        let found = workspace.perl(&format!(
            "{list} my ($own, $text) = ('user.kotak', 'text');
             print errno(syscall({set}, $ok, $name, $list, length $list, 0) == 0), ' ',
                 S_IMODE((stat 'ok')[2]), ' ';
             chmod(0600, 'ok') or die;
             print errno(syscall({set}, $ok, $own, $text, 4, 0) == 0), ' ',
                 errno(syscall({remove}, $ok, $own) == 0), ' ',
                 errno(syscall({remove}, $ok, $own) == 0);"
        ));
        // ENODATA at the end.
        assert_eq!(found, "ok 0 ok ok 61");
    });
}

#[test]
fn a_directory_does_not_bring_a_protected_path_along() {
    every_user(|user| {
        let mut workspace = workspace(user);
        workspace
            .perl("mkdir 'x'; mkdir 'x/fish'; mkdir 'y'; mkdir 'z'; symlink('/tmp', 'z/fish');");
        for attempt in [
            "rename('x', 'conf')",
            "rename('z', 'conf')",
            "rename('x', 'CONF')",
        ] {
            let told = refused(&mut workspace, attempt);
            assert!(matches!(told.rule, Rule::Protected(_)), "{told:?}");
            assert_eq!(told.other, Some(workspace.path(&attempt[8..9])));
        }
        assert_eq!(workspace.perl("print errno(rename('y', 'conf'));"), "ok");
    });
}

#[test]
fn a_name_protected_anywhere_is_refused_at_every_depth_and_below() {
    every_user(|user| {
        let mut workspace = workspace(user);
        workspace.perl("mkdir 'a'; mkdir 'a/b';");
        for attempt in [
            "mkdir('a/b/.vscode')",
            "mkdir('.VSCode')",
            "symlink('a', '.vscode')",
        ] {
            let told = refused(&mut workspace, attempt);
            assert!(matches!(told.rule, Rule::Anywhere(_)), "{told:?}");
        }
        fs::create_dir(workspace.dir.join("a/.vscode")).unwrap();
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(workspace.dir.join("a/.vscode"), open).unwrap();
        refused(
            &mut workspace,
            "sysopen(my $f, 'a/.vscode/x', O_CREAT|O_WRONLY)",
        );
    });
}

#[test]
fn a_directory_is_not_moved_where_its_names_would_be_forbidden_or_no_longer() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, rules| {
            rules.names.push("secrets/*.txt".to_owned());
            rules.exceptions.push("certs/*.key".to_owned());
        });
        workspace.perl(
            "mkdir 'x'; mkdir 'certs'; mkdir 'plain'; open(my $f, '>', 'x/a.txt') or die; \
             open(my $g, '>', 'certs/a.key') or die; open(my $h, '>', 'plain/a') or die;",
        );
        for attempt in ["rename('x', 'secrets')", "rename('certs', 'y')"] {
            let told = refused(&mut workspace, attempt);
            assert!(matches!(told.rule, Rule::Name(_)), "{told:?}");
        }
        let nr = libc::SYS_renameat2;
        let exchange = |one: &str, other: &str| {
            format!(
                "do {{ my ($one, $other) = ('{one}', '{other}'); \
                 syscall({nr}, -100, $one, -100, $other, 2) == 0 }}"
            )
        };
        refused(&mut workspace, &exchange("certs", "plain"));
        let exchange = exchange("x", "plain");
        assert_eq!(workspace.perl(&format!("print errno({exchange});")), "ok");
        assert_eq!(workspace.perl("print errno(rename('plain', 'p2'));"), "ok");
    });
}

#[test]
fn another_name_of_a_protected_file_is_as_good_as_its_own() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |dir, rules| {
            let (file, alias) = (dir.join("rc"), dir.join("alias"));
            fs::write(&file, "kept").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
            fs::hard_link(&file, alias).unwrap();
            let found = fs::metadata(file).unwrap();
            rules.inodes = vec![FileNode {
                dev: found.dev(),
                ino: found.ino(),
            }];
        });
        for attempt in [
            "sysopen(my $f, 'alias', O_WRONLY)",
            "truncate('alias', 0)",
            "link('alias', 'third')",
        ] {
            assert_eq!(refused(&mut workspace, attempt).rule, Rule::HardLink);
        }
        assert_eq!(workspace.sh("cat alias").stdout, "kept");
    });
}

#[test]
fn an_exempt_tree_is_not_judged_and_does_not_leak() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |dir, rules| {
            rules.exempt = vec![dir.join("state").to_str().unwrap().into()];
        });
        let script = "mkdir 'state'; mkdir 'state/d'; \
                      print errno(sysopen(my $f, 'state/d/.env', O_CREAT|O_WRONLY));";
        assert_eq!(workspace.perl(script), "ok");
        for attempt in [
            "rename('state/d/.env', '.env')",
            "rename('state/d', 'd')",
            "rename('state', 'other')",
            "link('state/d/.env', '.env')",
        ] {
            refused(&mut workspace, attempt);
        }
    });
}

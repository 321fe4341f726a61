//! Which programs run. REQ BW-6.

use crate::harness::{User, Workspace, users};
use kotak_guard::proto::{Check, ExecPlan, ExitStatus, FileAction, Rule, Setup};

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

fn trees(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter()
        .map(|path| {
            std::fs::canonicalize(path)
                .unwrap()
                .to_str()
                .unwrap()
                .into()
        })
        .collect()
}

fn restricted(user: User, change: impl Fn(&mut ExecPlan)) -> Result<Workspace, Check> {
    let with = |setup: &mut Setup| {
        let mut plan = ExecPlan {
            allowed: trees(&["/usr", "/bin", "/lib"]),
            denied: vec![],
        };
        change(&mut plan);
        setup.exec = Some(plan);
    };
    Workspace::try_new(user, |_, _| {}, with)
}

#[test]
fn a_program_in_a_writable_directory_does_not_run_and_is_told() {
    every_user(|user| {
        let mut workspace = restricted(user, |_| {}).unwrap();
        assert!(workspace.report.exec_restricted);
        let output = workspace.sh("cp /bin/true t && ./t");
        assert_eq!(output.status, ExitStatus::Code(126), "{}", output.stderr);
        let told = workspace.violation();
        assert_eq!((told.action, told.rule), (FileAction::Exec, Rule::Exec));
        assert_eq!(told.path, workspace.path("t"));
        assert!(!told.observed);
        // What is allowed runs, files move between directories, and scripts are read.
        let script = "true && mkdir a b && echo 'echo x' > a/f && mv a/f b/f && sh b/f";
        assert_eq!(workspace.sh(script).stdout, "x\n");
    });
}

#[test]
fn a_granted_tree_runs_its_programs() {
    every_user(|user| {
        let mut workspace = Workspace::try_new(
            user,
            |_, _| {},
            |setup| {
                let root = setup.files.as_ref().unwrap().roots[0].clone();
                let mut allowed = trees(&["/usr", "/bin", "/lib"]);
                allowed.push(root);
                setup.exec = Some(ExecPlan {
                    allowed,
                    denied: vec![],
                });
            },
        )
        .unwrap();
        let output = workspace.sh("cp /bin/true t && ./t");
        assert_eq!(output.status, ExitStatus::Code(0), "{}", output.stderr);
    });
}

#[test]
fn a_denied_program_in_an_allowed_tree_does_not_run() {
    every_user(|user| {
        let mut workspace = restricted(user, |plan| {
            plan.denied = vec![b"/usr/bin/env".to_vec(), b"/nonexistent".to_vec()];
        })
        .unwrap();
        let output = workspace.sh("/usr/bin/env true");
        assert_eq!(output.status, ExitStatus::Code(126), "{}", output.stderr);
        let told = workspace.violation();
        assert_eq!((told.action, told.rule), (FileAction::Exec, Rule::Exec));
        assert!(told.observed);
        // Its neighbours run.
        assert_eq!(
            workspace.sh("/usr/bin/id -u && ls /").status,
            ExitStatus::Code(0)
        );
    });
}

#[test]
fn an_allowed_tree_that_is_not_there_is_a_refusal() {
    every_user(|user| {
        let refused = restricted(user, |plan| plan.allowed.push(b"/nonexistent".to_vec()));
        assert_eq!(refused.err().unwrap().name, "exec-restriction");
    });
}

#[test]
fn a_copy_that_git_writes_into_is_no_program() {
    every_user(|user| {
        let mut workspace = Workspace::try_new(
            user,
            |_, rules| rules.git = true,
            |setup| {
                setup.exec = Some(ExecPlan {
                    allowed: trees(&["/usr", "/bin", "/lib"]),
                    denied: vec![],
                });
            },
        )
        .unwrap();
        let execveat = libc::SYS_execveat;
        let found = workspace.perl(&format!(
            "mkdir '.git' or die; sysopen(my $f, '.git/config', O_CREAT|O_RDWR, 0777) or die;
             open(my $program, '<', '/bin/true') or die; local $/; my $bytes = <$program>;
             syswrite($f, $bytes); my $n = fileno($f);
             print errno(chmod(0777, $f)), ' ';
             sysopen(my $g, \"/proc/self/fd/$n\", O_RDONLY) or die; my $m = fileno($g);
             require POSIX; POSIX::close($n); POSIX::close($n);
             my ($empty, $path) = ('', \"/proc/self/fd/$m\"); my $list = pack('QQ', 0, 0);
             $| = 1; print errno(syscall({execveat}, $m, $empty, $list, $list, 0x1000) == 0), ' ';
             print errno(syscall({execveat}, -100, $path, $list, $list, 0) == 0), ' ';
             print errno(chmod(0600, $g)), ' ', $bytes eq '' ? 'empty' : 'full';"
        ));
        assert_eq!(found, "1 13 13 ok full");
    });
}

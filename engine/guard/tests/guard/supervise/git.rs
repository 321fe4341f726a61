//! Git inside: everyday work goes on, and nothing that makes git run a program is left behind.

use crate::harness::{Output, User, Workspace, users};
use kotak_guard::proto::{Event, ExitStatus, FileAction, Request, Rule};
use std::fs;

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

fn workspace(user: User) -> Workspace {
    Workspace::new(user, |_, rules| rules.git = true)
}

const SETTINGS: &str = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a \
    GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b \
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always; \
    set -e\n";

fn git(workspace: &mut Workspace, script: &str) -> Output {
    workspace.sh(&format!("{SETTINGS}{script}"))
}

fn works(workspace: &mut Workspace, script: &str) {
    let output = git(workspace, script);
    assert_eq!(
        output.status,
        ExitStatus::Code(0),
        "{script}: {}",
        output.stderr
    );
}

const REPOSITORY: &str = "git init -q r && cd r && echo x > f && git add f && git commit -qm one";

#[test]
fn everyday_git_works() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        works(
            &mut workspace,
            "git clone -q r c && cd c && git config user.name me && git pull -q",
        );
        works(
            &mut workspace,
            "cd c && git remote add other ../r && git fetch -q other",
        );
        works(
            &mut workspace,
            "cd c && git checkout -qb b && git branch -q -u origin/HEAD b",
        );
        works(
            &mut workspace,
            "cd r && git worktree add -q ../w && cd ../w && echo y > g && \
            git add g && git commit -qm two && git status && git worktree list",
        );
        works(
            &mut workspace,
            "git init -q s && cd s && git submodule add -q ../r sub/r && \
            git commit -qm sub && git submodule update --init -q && cd sub/r && git status",
        );
        works(
            &mut workspace,
            "git clone -q --recurse-submodules s t && cd t/sub/r && git log -1",
        );
        works(
            &mut workspace,
            "cd r && git worktree remove ../w && git gc -q && cd .. && rm -rf c",
        );
        works(
            &mut workspace,
            "cd r && git branch hooks && git config --unset user.name || true",
        );
    });
}

/// An attempt that leaves no hook and no setting.
#[test]
fn hooks_and_settings_that_run_programs_are_refused_in_every_way() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        for attempt in [
            "echo x > r/.git/hooks/pre-commit",
            "mkdir -p g/hooks && echo x > g/hooks/pre-commit && mv g/hooks/pre-commit r/.git/hooks/",
            "cp r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit",
            "mv r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit",
            "ln r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit",
            "ln -s x r/.git/hooks/pre-commit",
            "mv r/.git/hooks r/.git/h",
            "mkdir l && git init -q l && mv l/.git l/g && echo x > l/g/hooks/update && mv l/g l/.git",
            "mkdir -p n/h/hooks && echo x > n/h/hooks/post-checkout && mv n/h n/.git",
            "mkdir -p m/h && printf '[core]\\n\\tfsmonitor = /x\\n' > m/h/config && mv m/h m/.git",
            "cd r && git config core.fsmonitor /x",
            "cd r && git config core.hooksPath /x",
            "cd r && git config alias.x '!x'",
            "printf '[core]\\n\\tfsmonitor = /x\\n' > r/.git/config",
            "printf '[core]\\n\\tfsmonitor = /x\\n' >> r/.git/config",
            "printf '[core]\\n\\tfsmonitor = /x\\n' > e; mv e r/.git/config",
            "printf '[core]\\n\\tfsmonitor = /x\\n' > e2; ln -f e2 r/.git/config",
            "ln -s ../e r/.git/config.worktree",
            "mkdir k && ln -s ../r/.git k/.git",
            "mkdir k2 && echo 'gitdir: ../evil' > k2/.git",
            "mkdir k3 && echo 'gitdir: /tmp/x/.git' > k3/.git",
            "mkdir k4 && mkfifo k4/.git",
            "mkdir k5 && echo 'gitdir: ../missing/.git/modules/x' > fk5 && mv fk5 k5/.git",
            "mkdir k6 && ln -s ../r k6/way && echo 'gitdir: way/.git' > fk6 && mv fk6 k6/.git",
            "mkdir k7 && echo 'gitdir: ../k7/x/../../r/.git' > fk7 && mv fk7 k7/.git",
            "mkdir -p r/.git/worktrees/w && echo /evil > r/.git/worktrees/w/commondir",
        ] {
            // A shell does not tell that closing what it redirected to has failed.
            git(&mut workspace, attempt);
            let told = workspace.violation();
            assert!(matches!(told.rule, Rule::Git(_)), "{attempt}: {told:?}");
        }
        for name in workspace.names() {
            let is_hook = name.contains(".git/hooks/") && !name.ends_with(".sample");
            assert!(!is_hook, "{name}");
            if name.ends_with(".git/config") {
                let text = fs::read_to_string(workspace.dir.join(&name)).unwrap();
                assert!(!text.contains("/x"), "{name}: {text}");
            }
        }
    });
}

#[test]
fn who_holds_the_file_that_became_a_configuration_cannot_change_it() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        let evil = r"[core]\n\tfsmonitor = /evil\n";
        // By rename, by a directory that becomes one, and by a descriptor in another process.
        let found = workspace.perl(&format!(
            r#"sub put {{ my ($f) = @_; syswrite($f, "{evil}"); }}
               open(my $a, '>', 'r/.git/config.lock') or die; syswrite($a, "[user]\n\tname = x\n");
               print errno(rename('r/.git/config.lock', 'r/.git/config')), ' ';
               put($a);
               mkdir 'm'; mkdir 'm/h'; open(my $b, '>', 'm/h/config') or die;
               print errno(rename('m/h', 'm/.git')), ' ';
               put($b);
               sysopen(my $c, 'r/.git/config', O_WRONLY|O_TRUNC) or die "open $!";
               syswrite($c, "[user]\n\tname = y\n");
               pipe(my $r, my $w) or die; my $child = fork();
               if (!$child) {{ close($w); sysread($r, my $end, 1); put($c); exit 0; }}
               print errno(close($c));
               close($w); waitpid($child, 0);"#
        ));
        assert_eq!(found, "ok ok ok");
        for name in ["r/.git/config", "m/.git/config"] {
            let text = fs::read_to_string(workspace.dir.join(name)).unwrap();
            assert!(!text.contains("evil"), "{name}: {text}");
        }
        let text = fs::read_to_string(workspace.dir.join("r/.git/config")).unwrap();
        assert_eq!(text, "[user]\n\tname = y\n");
    });
}

#[test]
fn what_is_not_closed_as_it_should_is_not_put_in_place_and_told() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        let present = fs::read_to_string(workspace.dir.join("r/.git/config")).unwrap();
        let range = libc::SYS_close_range;
        let open = "sysopen(my $f, 'r/.git/config', O_WRONLY|O_APPEND) or die;
                    syswrite($f, qq([user]\\n)) if $write; require POSIX;";
        for end in [
            "POSIX::_exit(0);",
            "kill 'KILL', $$;",
            "POSIX::dup2(0, fileno($f));",
            "exec 'true';",
            &format!("syscall({range}, fileno($f), fileno($f), 0) == 0 or die;"),
        ] {
            // In a child: Perl closes what it has.
            let attempt = |write: u32| {
                format!(
                    "my $write = {write}; my $child = fork();
                     if (!$child) {{ {open} {end} POSIX::_exit(0); }} waitpid($child, 0);"
                )
            };
            // Nothing was written: nothing is lost, and the next that is told is the other.
            workspace.perl(&attempt(0));
            workspace.perl(&attempt(1));
            let told = workspace.violation();
            assert_eq!(told.path, workspace.path("r/.git/config"), "{end}");
            assert_eq!((told.call.as_str(), told.count), ("openat", 1), "{end}");
            assert!(told.executable.unwrap().ends_with("perl"), "{end}");
            assert!(
                matches!(&told.rule, Rule::Git(why) if why.contains("not put in place")),
                "{end}: {:?}",
                told.rule
            );
            let text = fs::read_to_string(workspace.dir.join("r/.git/config")).unwrap();
            assert_eq!(text, present, "{end}");
            // Alike ones are counted together for a second.
            workspace = self::workspace(user);
            works(&mut workspace, REPOSITORY);
        }
    });
}

#[test]
fn what_is_being_written_when_the_session_ends_is_told() {
    every_user(|user| {
        for _ in 0..5 {
            let mut workspace = workspace(user);
            workspace.perl("mkdir '.git';");
            let script = format!(
                "chdir('{}'); open(my $f, '>', '.git/config') or die; $| = 1; print 'x'; sleep 99;",
                workspace.dir.display()
            );
            let writer = workspace.guard.exec_silent(&["perl", "-e", &script]);
            workspace.guard.started(writer);
            while !workspace.names().contains(".git/told") {
                workspace.sh("for n in /proc/[0-9]*/fd/1000; do test -e $n && > .git/told; done");
            }
            let stop = Request::Shutdown { grace_ms: 0 };
            workspace.guard.send(&stop, &[]);
            let mut told = Vec::new();
            loop {
                match workspace.guard.receive().unwrap().0 {
                    Event::Violation(violation) => told.push(violation.path),
                    Event::Bye => break,
                    _ => {}
                }
            }
            assert_eq!(told, [workspace.path(".git/config")]);
        }
    });
}

#[test]
fn what_cannot_be_judged_is_told_with_its_path() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        let script = "open(my $f, '>', 'long') or die; print $f '#' x 2000000; close $f;
                      chdir('r'); print errno(rename('../long', '.git/config'));";
        assert_eq!(workspace.perl(script), "13");
        let told = workspace.violation();
        assert!(matches!(told.rule, Rule::Undecided(_)), "{told:?}");
        assert_eq!(told.action, FileAction::Rename);
        assert_eq!(told.path, workspace.path("r/.git/config"));
    });
}

#[test]
fn a_repository_by_another_name_is_judged_as_one() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        works(
            &mut workspace,
            "git clone -q --bare r b.git && git init -q --bare e.git && cd r && \
            git push -q ../e.git HEAD:refs/heads/x && cd ../b.git && git config user.name me && \
            git log -1",
        );
        // Directories that are none may have such names.
        works(
            &mut workspace,
            "mkdir -p src/hooks refs && echo x > src/hooks/use && echo y > config",
        );
        let evil = "printf '[core]\\n\\tfsmonitor = /x\\n'";
        for attempt in [
            "echo x > b.git/hooks/update",
            "mkdir h && echo x > h/update && rmdir e.git/branches; rm -rf e.git/hooks; mv h e.git/hooks",
            &format!("{evil} > c; mv c b.git/config"),
            "cd b.git && git config core.fsmonitor /x",
            &format!("mkdir -p f/objects f/refs && {evil} > f/config && echo ref: x > f/HEAD"),
            "mkdir -p g/hooks g/objects && echo x > g/hooks/update && echo ref: x > g/HEAD && mkdir g/refs",
            "mkdir -p j/common/objects j/common/refs j/d && echo ref: x > j/d/HEAD && \
             echo ../common > j/d/commondir",
            "mkdir k && echo ref: x > k/HEAD && echo ../j/common > k/c && mv k/c k/commondir",
            "mkdir l && echo ref: x > l/HEAD && ln -s ../j/common/c l/commondir",
            "mkdir -p i/objects i/o && ln -s /tmp i/hooks && echo ref: x > i/HEAD && mv i/o i/refs",
        ] {
            git(&mut workspace, attempt);
            let told = workspace.violation();
            assert!(matches!(told.rule, Rule::Git(_)), "{attempt}: {told:?}");
        }
        assert!(!workspace.names().contains("e.git/hooks/update"));
        for dir in ["j/d", "k", "l"] {
            let names = workspace.names();
            assert!(names.contains(&format!("{dir}/HEAD")), "{dir}");
            assert!(!names.contains(&format!("{dir}/commondir")), "{dir}");
        }
        let text = fs::read_to_string(workspace.dir.join("b.git/config")).unwrap();
        assert!(text.contains("name = me") && !text.contains("/x"), "{text}");
    });
}

#[test]
fn a_repository_inside_a_git_directory_is_judged_as_one() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        // What git itself may have there.
        works(
            &mut workspace,
            "cd r && git branch config && git branch x/hooks/y && git branch objects && \
             git branch refs/HEAD && git worktree add -q ../hooks && git worktree add -q ../config",
        );
        let evil = "printf '[core]\\n\\tfsmonitor = /x\\n'";
        let bare = |dir: &str| {
            format!("mkdir -p {dir}/objects {dir}/refs {dir}/hooks && echo ref: x > {dir}/HEAD")
        };
        for attempt in [
            format!("mkdir -p r/.git/refs/.git && {evil} > r/.git/refs/.git/config"),
            "mkdir -p r/.git/objects/.git/hooks && echo x > r/.git/objects/.git/hooks/update"
                .to_owned(),
            "mkdir -p r/.git/logs/x && echo 'gitdir: /tmp/x/.git' > r/.git/logs/x/.git".to_owned(),
            "echo 'gitdir: /tmp/x/.git' > r/.git/modules/.git || \
             { mkdir r/.git/modules; echo 'gitdir: /tmp/x/.git' > r/.git/modules/.git; }"
                .to_owned(),
            format!("{}; {evil} > r/.git/refs/b/config", bare("r/.git/refs/b")),
            format!(
                "{}; echo > r/.git/objects/b/hooks/u",
                bare("r/.git/objects/b")
            ),
            format!(
                "mkdir -p r/.git/logs/c/refs r/.git/logs/c/objects && \
                 {evil} > r/.git/logs/c/config && echo ref: x > r/.git/logs/c/HEAD"
            ),
            format!("{}; {evil} > r/.git/modules/config", bare("r/.git/modules")),
            format!("{}; echo > r/.git/modules/hooks/u", bare("r/.git/modules")),
            format!(
                "{}; {evil} > w/.git/worktrees/config",
                bare("w/.git/worktrees")
            ),
            format!(
                "{}; echo > w/.git/worktrees/hooks/u",
                bare("w/.git/worktrees")
            ),
        ] {
            git(&mut workspace, &attempt);
            let told = workspace.violation();
            assert!(matches!(told.rule, Rule::Git(_)), "{attempt}: {told:?}");
        }
        for name in workspace.names() {
            let is_hook = name.ends_with("hooks/u") || name.ends_with("hooks/update");
            assert!(!is_hook, "{name}");
        }
    });
}

#[test]
fn a_submodule_that_is_moved_names_no_work_tree_elsewhere() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        works(
            &mut workspace,
            "git init -q s && cd s && git submodule add -q ../r lib && git commit -qm sub",
        );
        let before = workspace.names();
        for attempt in [
            "mkdir -p s/.git/modules/a; mv s/.git/modules/lib s/.git/modules/a/lib",
            "mkdir d; mv s/.git/modules/lib d/.git",
        ] {
            git(&mut workspace, attempt);
            let told = workspace.violation();
            assert!(matches!(told.rule, Rule::Git(_)), "{attempt}: {told:?}");
        }
        assert!(before.iter().all(|name| workspace.names().contains(name)));
        // With all that it is about, and to another name at the same depth.
        works(
            &mut workspace,
            "mv s t && cd t/lib && git status && cd ../.git/modules && mv lib x && mv x lib && \
             mkdir ../../../e && cd ../.. && mv .git ../e/.git && ls ../e/.git/config",
        );
    });
}

#[test]
fn a_gitlink_may_lead_to_what_git_makes_next_in_a_git_directory() {
    every_user(|user| {
        let mut workspace = workspace(user);
        works(&mut workspace, REPOSITORY);
        works(
            &mut workspace,
            "mkdir a && f='gitdir: ../r/.git/modules/x' && echo \"$f\" > f && mv f a/.git && \
             mkdir b && echo 'gitdir: ../r/.git' > f && mv f b/.git",
        );
    });
}

#[test]
fn a_repository_from_where_nothing_is_judged_is_judged_when_it_comes() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |dir, rules| {
            rules.git = true;
            rules.exempt = vec![dir.join("state").to_str().unwrap().into()];
        });
        let evil = "printf '[core]\\n\\tfsmonitor = /x\\n'";
        let make =
            |dir: &str| format!("mkdir -p {dir}/objects {dir}/refs && echo ref: x > {dir}/HEAD");
        works(
            &mut workspace,
            &format!(
                "{} && {evil} > state/a/d/config && {} && {evil} > state/b/.git/config && {} && \\
             mkdir state/c/hooks && echo x > state/c/hooks/update && {} && echo > state/ok/config",
                make("state/a/d"),
                make("state/b/.git"),
                make("state/c"),
                make("state/ok"),
            ),
        );
        for name in ["a", "b", "c"] {
            let script = format!("print errno(rename('state/{name}', '{name}'));");
            assert_eq!(workspace.perl(&script), "13", "{name}");
            let told = workspace.violation();
            assert!(matches!(told.rule, Rule::Git(_)), "{name}: {told:?}");
        }
        assert_eq!(
            workspace.perl("print errno(rename('state/ok', 'ok'));"),
            "ok"
        );
    });
}

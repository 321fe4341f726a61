//! Several programs, or a program and its memory, against the guard's look before the deed. How
//! long: `KOTAK_RACE_SECONDS`, 2 by default.

use crate::harness::{User, Workspace, users};
use std::{
    fs,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

fn seconds() -> u32 {
    let set = std::env::var("KOTAK_RACE_SECONDS").ok();
    set.map_or(2, |text| text.parse().unwrap())
}

/// What the attacker's parent and child do until time is up, as Perl; what the child prints.
fn race(workspace: &mut Workspace, parent: &str, child: &str) -> String {
    let seconds = seconds();
    workspace.perl(&format!(
        "my $path = join('', 'ok', 'ay'); substr($path, 0, 1) = 'o'; my $at = unpack('Q', pack('P', $path)); my $end = time + {seconds};
         my $pid = fork();
         if (!$pid) {{ my $done = 0; while (time <= $end) {{ {child} }} print $done; exit 0; }}
         while (time <= $end) {{ {parent} }} waitpid($pid, 0);"
    ))
}

/// Writes a word over the path in the child's memory.
fn poke(word: &str) -> String {
    let call = libc::SYS_process_vm_writev;
    format!(
        "{{ my $word = '{word}'; my $local = pack('PQ', $word, 4); my $remote = pack('QQ', $at, 4);
            my $n = syscall({call}, $pid, $local, 1, $remote, 1, 0); }}"
    )
}

fn none_is_there(workspace: &Workspace) {
    for name in workspace.names() {
        assert!(!name.ends_with(".env"), "{name}");
    }
}

#[test]
fn a_path_that_changes_while_the_call_runs_never_makes_a_forbidden_name() {
    every_user(|user| {
        let openat = libc::SYS_openat;
        let renameat = libc::SYS_renameat2;
        for attempt in [
            format!(
                "my $fd = syscall({openat}, -100, $path, O_CREAT|O_WRONLY, 0600);
                 if ($fd >= 0) {{ require POSIX; POSIX::close($fd); $done++; }} unlink 'okay';"
            ),
            format!(
                "open(my $f, '>', 'from') or die; my $from = 'from';
                 $done++ if syscall({renameat}, -100, $from, -100, $path, 0) == 0; unlink 'okay';"
            ),
        ] {
            let mut workspace = Workspace::new(user, |_, _| {});
            let parent = [poke(".env"), poke("okay")].concat();
            let done: u32 = race(&mut workspace, &parent, &attempt).parse().unwrap();
            // Positive control: the harmless name was made.
            assert!(done > 0, "{attempt}");
            // And the other one was tried.
            assert!(workspace.violation().path.ends_with(b".env"));
            none_is_there(&workspace);
        }
    });
}

#[test]
fn a_file_and_a_symlink_that_change_places_never_lead_to_a_forbidden_name() {
    every_user(|user| {
        let exchange = libc::SYS_renameat2;
        let mut workspace = Workspace::new(user, |_, _| {});
        workspace.perl("symlink('.env', 'l'); open(my $f, '>', 'f') or die;");
        let parent =
            format!("{{ my ($l, $f) = ('l', 'f'); syscall({exchange}, -100, $l, -100, $f, 2); }}");
        let child = "$done++ if sysopen(my $g, 'f', O_CREAT|O_WRONLY);";
        let done: u32 = race(&mut workspace, &parent, child).parse().unwrap();
        assert!(done > 0);
        none_is_there(&workspace);
    });
}

#[test]
fn a_directory_that_changes_place_never_takes_a_forbidden_path_along() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |dir, rules| {
            rules.protected = vec![dir.join("conf/fish").to_str().unwrap().into()];
            rules.git = true;
        });
        let parent = "mkdir 'x'; rename('x', 'conf'); rmdir 'conf'; rename('x', '.git');
                      rename('.git', 'x');";
        let child = "mkdir 'x'; $done++ if mkdir('x/fish'); rmdir 'x/fish';
                     sysopen(my $f, 'x/hooks', O_CREAT|O_WRONLY); unlink 'x/hooks';";
        let done: u32 = race(&mut workspace, parent, child).parse().unwrap();
        assert!(done > 0);
        let names = workspace.names();
        assert!(
            !names.contains("conf/fish") && !names.contains(".git/hooks"),
            "{names:?}"
        );
    });
}

/// In a sticky directory the kernel makes a file anew that the host has just taken away.
#[test]
fn what_the_host_takes_away_meanwhile_is_made_with_the_modes_of_who_makes_it() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        let dir = workspace.dir.join("s");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
        let (file, done) = (dir.join("f"), AtomicBool::new(false));
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut new = fs::OpenOptions::new();
                    let _ = new.write(true).create_new(true).mode(0o640).open(&file);
                    let _ = fs::remove_file(&file);
                }
            });
            // Somebody else has a umask of zero.
            let parent = "umask 0; sysopen(my $f, 's/a', O_CREAT|O_WRONLY, 0666) or die; \
                          close $f; unlink('s/a') or die;";
            let child = "umask 077; if (sysopen(my $f, 's/f', O_CREAT|O_WRONLY, 0666)) {
                             my $mode = S_IMODE((stat $f)[2]);
                             $done++ if $mode == 0600; $done += 1e9 if $mode == 0666; }";
            let found = race(&mut workspace, parent, child);
            done.store(true, Ordering::Relaxed);
            found
        });
        let count: u64 = found.parse().unwrap();
        assert!(count > 0 && count < 1_000_000_000, "{count}");
    });
}

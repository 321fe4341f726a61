//! What programs get from a supervised call is what the kernel would give them.

use crate::harness::{Flags, Guard, Place, User, Workspace, users};
use kotak_guard::proto::{Event, ExitStatus, FileAction, Request, Rule};
use std::{fs, os::unix::fs::PermissionsExt};

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

fn workspace(user: User) -> Workspace {
    Workspace::new(user, |_, _| {})
}

#[test]
fn modes_flags_offsets_and_close_on_exec_are_as_asked_for() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "umask 027; sysopen(my $f, 'a', O_CREAT|O_RDWR|O_APPEND, 0666) or die;
             mkdir('d', 0777) or die; require POSIX; POSIX::mkfifo('p', 0666) or die;
             umask 0; sysopen(my $g, 'b', O_CREAT|O_WRONLY, 0606) or die;
             my $flags = fcntl($f, F_GETFL, 0);
             printf '%o %o %o %o ', map { S_IMODE((stat $_)[2]) } 'a', 'd', 'p', 'b';
             print $flags & O_APPEND ? 1 : 0, $flags & O_NONBLOCK ? 1 : 0, $flags & 3, ' ',
                 sysseek($f, 0, 1), ' ', fcntl($f, F_GETFD, 0) & FD_CLOEXEC;",
        );
        assert_eq!(found, "640 750 640 606 102 0 but true 1");
    });
}

#[test]
fn an_unnamed_file_gets_a_permitted_name_and_no_forbidden_one() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let linkat = libc::SYS_linkat;
        let found = workspace.perl(&format!(
            "sysopen(my $f, '.', 020200000|O_RDWR, 0600) or die \"$!\"; syswrite($f, 'x');
             my $n = fileno($f);
             for ('.env', 'ok') {{
                 my ($empty, $name) = ('', $_);
                 print errno(syscall({linkat}, $n, $empty, -100, $name, 0x1000) == 0), ' ';
             }}
             my ($own, $key) = (\"/proc/self/fd/$n\", 'b.key');
             print errno(syscall({linkat}, -100, $own, -100, $key, 0x400) == 0);"
        ));
        assert_eq!(found, "13 ok 13");
        assert!(workspace.names().contains("ok"));
    });
}

#[test]
fn garbage_in_the_upper_halves_changes_nothing() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let openat = libc::SYS_openat;
        let found = workspace.perl(&format!(
            "my $high = 0x12345678 << 32; my $at = $high | 0xffffff9c;
             my $flags = $high | O_CREAT | O_WRONLY;
             my ($env, $ok) = ('.env', 'ok');
             print errno(syscall({openat}, $at, $env, $flags, 0600) >= 0), ' ',
                   errno(syscall({openat}, $at, $ok, $flags, 0600) >= 0), ' ',
                   errno(syscall({openat}, $at, 12345, $flags, 0600) >= 0);"
        ));
        assert_eq!(found, "13 ok 14");
    });
}

#[test]
fn a_filter_of_ones_own_does_not_lift_the_supervision() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let (prctl, seccomp) = (libc::SYS_prctl, libc::SYS_seccomp);
        let found = workspace.perl(&format!(
            "my $insn = pack('SCCL', 6, 0, 0, 0x7fff0000);
             my $prog = pack('SxxxxxxP', 1, $insn);
             syscall({prctl}, 38, 1, 0, 0, 0);
             syscall({seccomp}, 1, 0, $prog) == 0 or die \"$!\";
             print errno(sysopen(my $f, '.env', O_CREAT|O_WRONLY)), ' ',
                   errno(sysopen(my $g, 'ok', O_CREAT|O_WRONLY));"
        ));
        assert_eq!(found, "13 ok");
    });
}

#[test]
fn a_socket_is_bound_by_a_permitted_name_only() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "use Socket; sub at { my ($path) = @_; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
                 my $done = bind($s, pack_sockaddr_un($path)); my $errno = 0 + $!;
                 return $done ? unpack_sockaddr_un(getsockname $s) : $errno; }
             print join ' ', at('.env'), at(\"$ws/x.key\"), at('ok'), at(\"$ws/abs\") eq \"$ws/abs\",
                 at('ok');
             socket(my $t, AF_INET, SOCK_STREAM, 0) or die;
             print ' ', errno(bind($t, pack_sockaddr_in(0, INADDR_LOOPBACK)));",
        );
        assert_eq!(found, "13 13 ok 1 98 ok");
        assert!(!workspace.names().contains(".env"));
    });
}

/// unix(7): a path of 108 bytes without a NUL is the longest; the first NUL ends it.
#[test]
fn a_socket_has_the_whole_name_that_was_judged() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "use Socket; sub at { my ($path) = @_; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
                 return errno(bind($s, pack('S', AF_UNIX) . $path)); }
             my $long = './' x 51;
             my $deep = \"$ws/\" . 'd' x (102 - length \"$ws/\"); mkdir $deep or die;
             print join ' ', at($long . 'abcdef'), at($long . 'x.keyX'), at($long . 'abcdefX'),
                 at($long . 'ab.key' . 'XYZ'), at(\"cut\\0.key\"), at(\"y.key\\0X\"),
                 at('z' . \"\\0\" x 107), at('z2' . \"\\0\" x 107),
                 at(\"$deep/x.keyABC\");",
        );
        assert_eq!(found, "ok ok 22 22 ok 13 ok 22 22");
        let names = workspace.names();
        for name in ["abcdef", "x.keyX", "cut", "z"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert_eq!(names.len(), 6, "{names:?}");
    });
}

#[test]
fn both_ends_of_a_fifo_meet_and_a_killed_writer_leaves_the_guard_alive() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let output = workspace.sh("mkfifo p; (echo through > p) & cat p; wait");
        assert_eq!(output.stdout, "through\n");
        let output =
            workspace.sh("(echo x > p) & sleep 0.3; kill -9 $!; wait; echo alive > ok; cat ok");
        assert_eq!(output.stdout, "alive\n");
        let output = workspace.sh("(sleep 0.3; cat p) & echo late > p; wait");
        assert_eq!(output.stdout, "late\n");
        // A signal with a handler ends the wait.
        let found = workspace.perl(
            "$SIG{ALRM} = sub { die \"alarm\\n\" }; require Time::HiRes; Time::HiRes::alarm(0.3);
             eval { sysopen(my $f, 'p', O_WRONLY) }; print $@;",
        );
        assert_eq!(found, "alarm\n");
    });
}

#[test]
fn a_reader_never_meets_a_writer_that_was_killed() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "require POSIX; POSIX::mkfifo('p', 0600) or die; my ($empty, $full) = (0, 0);
             sub writer { my ($wait) = @_; my $child = fork(); return $child if $child;
                 select(undef, undef, undef, $wait);
                 sysopen(my $w, 'p', O_WRONLY) or die; syswrite($w, 'x'); POSIX::_exit(0); }
             for my $round (1 .. 200) {
                 my $killed = writer(0); select(undef, undef, undef, $round % 5 / 1000);
                 kill 'KILL', $killed; waitpid($killed, 0);
                 my $child = writer($round % 3 / 1000);
                 sysopen(my $r, 'p', O_RDONLY) or die; sysread($r, my $text, 9);
                 $text eq 'x' ? $full++ : $empty++;
                 kill 'KILL', $child; waitpid($child, 0);
             } print \"$full $empty\";",
        );
        assert_eq!(found, "200 0");
    });
}

#[test]
fn a_session_with_an_open_that_waits_freezes_and_goes_on() {
    every_user(|user| {
        let mut workspace = workspace(user);
        workspace.sh("mkfifo p");
        let script = format!("cd {}; echo through > p", workspace.dir.display());
        let writer = workspace.guard.exec_silent(&["sh", "-c", &script]);
        workspace.guard.started(writer);
        workspace.guard.send(&Request::Freeze, &[]);
        let (frozen, _) = workspace.guard.expect(|event| match event {
            Event::Frozen { processes } => Some(Ok(*processes)),
            Event::FreezeFailed { running } => Some(Err(*running)),
            _ => None,
        });
        assert_eq!(frozen, Ok(1));
        workspace.guard.send(&Request::Thaw, &[]);
        assert_eq!(workspace.sh("cat p").stdout, "through\n");
        assert_eq!(workspace.guard.exited(writer), ExitStatus::Code(0));
    });
}

#[test]
fn a_lease_is_broken_and_the_open_goes_on() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "open(my $f, '>', 'l') or die; close $f; pipe(my $r, my $w) or die;
             my $child = fork(); if (!$child) {
                 open(my $g, '<', 'l') or die; my $broken = 0;
                 $SIG{IO} = sub { $broken = 1 };
                 fcntl($g, 1024, 0) or die \"lease $!\"; syswrite($w, 'x');
                 select(undef, undef, undef, 0.05) until $broken;
                 fcntl($g, 1024, 2); exit 0; }
             sysread($r, my $x, 1);
             print errno(sysopen(my $h, 'l', O_WRONLY)); waitpid($child, 0);",
        );
        assert_eq!(found, "ok");
    });
}

#[test]
fn no_core_is_dumped_past_the_rules() {
    every_user(|user| {
        let line = |text: &str| {
            let line = text.lines().find(|it| it.starts_with("Max core file size"));
            let words = line.unwrap().split_ascii_whitespace().skip(4).take(2);
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut workspace = workspace(user);
        let output = workspace.sh("cat /proc/self/limits; ulimit -H -c unlimited");
        assert_eq!(line(&output.stdout), ["0", "0"]);
        assert_ne!(output.status, ExitStatus::Code(0), "{}", output.stderr);
        // Without rules it is as it was.
        let place = Place::Native(user, Flags::default());
        let own = line(&fs::read_to_string("/proc/self/limits").unwrap());
        let found = Guard::start(&place).sh("cat /proc/self/limits").stdout;
        assert_eq!(line(&found), own);
        if own == ["0", "0"] {
            println!("kotak-skip: who runs this may have no core files either way");
        }
    });
}

#[test]
fn a_fresh_program_runs_at_once_600_times() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let output = workspace.sh(
            "n=0; while [ $n -lt 600 ]; do cp /bin/true t$n && ./t$n || exit 1; rm t$n; \
             n=$((n+1)); done",
        );
        assert_eq!(output.status, ExitStatus::Code(0), "{}", output.stderr);
    });
}

#[test]
fn signals_do_not_make_calls_fail() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "require Time::HiRes; require POSIX; my $count = 0;
             POSIX::sigaction(POSIX::SIGALRM(), POSIX::SigAction->new(sub { $count++ },
                 POSIX::SigSet->new, POSIX::SA_RESTART())) or die;
             Time::HiRes::setitimer(0, 0.0005, 0.0005); my $failed = 0;
             for (1 .. 4000) { sysopen(my $f, 'x', O_CREAT|O_WRONLY) or $failed++; }
             Time::HiRes::setitimer(0, 0, 0); print $failed, ' ', $count > 10 ? 1 : 0;",
        );
        assert_eq!(found, "0 1");
    });
}

#[test]
fn the_terminal_of_a_program_is_its_own() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let guard: &mut Guard = &mut workspace.guard;
        let script = "echo direct-$((1+1))- > /dev/tty; echo fd-$((1+2))- > /dev/stdout";
        let (_, mut terminal) = crate::harness::Terminal::open(guard, &["sh", "-c", script]);
        terminal.read_until("direct-2-");
        terminal.read_until("fd-3-");
        // Without one there is none.
        let found = workspace.perl("print errno(sysopen(my $f, '/dev/tty', O_RDWR));");
        assert_eq!(found, "6");
    });
}

#[test]
fn a_terminal_that_a_program_makes_does_not_become_the_guards() {
    every_user(|user| {
        let mut workspace = workspace(user);
        // TIOCSPTLCK, TIOCGPTN; the third field from there is the terminal (proc_pid_stat(5)).
        let found = workspace.perl(
            "sysopen(my $m, '/dev/ptmx', O_RDWR|O_NOCTTY) or die \"$!\";
             my $zero = pack('i', 0); ioctl($m, 0x40045431, $zero) or die \"$!\";
             my $number = pack('i', 0); ioctl($m, 0x80045430, $number) or die \"$!\";
             my $name = '/dev/pts/' . unpack('i', $number);
             sysopen(my $s, $name, O_RDWR) or die \"$!\";
             open(my $stat, '<', '/proc/1/stat') or die; my $line = <$stat>;
             $line =~ /.*\\) \\S+ \\d+ \\d+ \\d+ (-?\\d+)/ or die $line;
             print -t $s ? 'terminal ' : 'none ', $1;",
        );
        assert_eq!(found, "terminal 0");
    });
}

#[test]
fn the_guard_opens_nothing_of_its_own_for_anybody() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let found = workspace.perl(
            "sysopen(my $d, '/proc/1', 010000000) or die \"$!\"; my $n = fileno($d);
             sysopen(my $m, '/proc/1/mem', 010000000) or die \"$!\"; my $o = fileno($m);
             my @found = map { errno(sysopen(my $f, $_, O_RDWR)) } ('/proc/1/mem',
                 \"/proc/self/fd/$o\", '/proc/1/task/1/mem', '/proc/self/../1/mem');
             push @found, errno(sysopen(my $g, '/proc/1/cwd/tmp/x', O_CREAT|O_WRONLY));
             push @found, errno(sysopen(my $h, \"/proc/self/fd/$n/mem\", O_RDWR));
             push @found, errno(sysopen(my $i, '/proc/self/mem', O_RDWR));
             print join ' ', @found;",
        );
        assert_eq!(found, "13 13 13 13 13 13 ok");
    });
}

#[test]
fn a_program_that_hides_its_memory_makes_nothing_and_is_told_of() {
    every_user(|user| {
        let mut workspace = workspace(user);
        // One that asks to is told that it cannot, and goes on.
        let prctl = libc::SYS_prctl;
        let found = workspace.perl(&format!(
            "print errno(syscall({prctl}, 4, 0, 0, 0, 0) == 0), ' ',
                 errno(sysopen(my $f, 'seen', O_CREAT|O_WRONLY));"
        ));
        assert_eq!(found, "1 ok");
        // One that nobody may read does hide.
        workspace.sh("cp /usr/bin/mkdir t && chmod 111 t && ./t new");
        let told = workspace.violation();
        assert!(matches!(told.rule, Rule::Undecided(_)), "{told:?}");
        assert_eq!(told.action, FileAction::Create);
        assert!(!workspace.names().contains("new"));
        assert_eq!(workspace.sh("mkdir new").status, ExitStatus::Code(0));
    });
}

#[test]
fn what_the_host_makes_private_stays_so() {
    every_user(|user| {
        let mut workspace = workspace(user);
        let closed = workspace.dir.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        let found = workspace.perl(
            "print errno(sysopen(my $f, 'closed/x', O_CREAT|O_WRONLY)), ' ',
                   errno(sysopen(my $g, '/usr/x', O_CREAT|O_WRONLY)), ' ',
                   errno(sysopen(my $h, '/dev/null', O_WRONLY));",
        );
        assert_eq!(found, "13 30 ok");
    });
}

//! Running programs: outcomes, streams, descriptors, typed failures. REQ SP-0.

use crate::harness::{
    BINARY, Flags, Guard, LEAKED, Place, Program, bubblewrap, eventually, fix_descriptors,
    host_setup, places, shared_directory, users,
};
use kotak_guard::proto::{ExecStage, ExitStatus, Request, Signal, SignalTarget, Stdio};
use std::{
    collections::BTreeSet, fs, os::fd::AsFd, os::unix::fs::PermissionsExt, process::Command,
};

#[test]
fn exit_codes_and_signals_come_back_as_they_are() {
    for place in places() {
        let mut guard = Guard::start(&place);
        assert_eq!(guard.sh("exit 0").status, ExitStatus::Code(0));
        assert_eq!(guard.sh("exit 7").status, ExitStatus::Code(7));
        assert_eq!(guard.sh("kill -KILL $$").status, ExitStatus::Signal(9));
        assert_eq!(guard.sh("kill -TERM $$").status, ExitStatus::Signal(15));
        // Real-time signals have no names, and are signals all the same.
        assert_eq!(guard.sh("kill -34 $$").status, ExitStatus::Signal(34));
        assert_eq!(guard.sh("kill -64 $$").status, ExitStatus::Signal(64));
    }
}

#[test]
fn the_three_streams_are_the_ones_that_came_with_the_request() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let output = guard.sh("read line; echo out; echo err >&2; exit ${line:-3}");
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(output.status, ExitStatus::Code(3));
    }
}

#[test]
fn arguments_environment_and_directory_are_the_ones_that_were_asked_for() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let (out, writer) = std::io::pipe().unwrap();
        let program = Program {
            cwd: "/usr",
            env: &[("A", "x y"), ("B", "")],
            ..Program::new(&[
                "sh",
                "-c",
                r#"pwd; echo "$1|$A|$B|$HOME"; umask"#,
                "sh",
                "a\nb",
            ])
        };
        let null = fs::File::open("/dev/null").unwrap();
        let id = guard.exec(program, &[null.as_fd(), writer.as_fd(), writer.as_fd()]);
        drop(writer);
        let text = std::io::read_to_string(out).unwrap();
        assert_eq!(guard.exited(id), ExitStatus::Code(0));
        // The mask is the engine's own.
        let own = own_umask();
        assert_eq!(text, format!("/usr\na\nb|x y||\n{own:04o}\n"));
    }
}

fn own_umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .unwrap();
    u32::from_str_radix(mask.trim(), 8).unwrap()
}

#[test]
fn a_program_that_cannot_run_is_a_typed_failure() {
    use ExecStage::{Cwd, Program as Executable};
    let directory = shared_directory();
    let script = |name: &str, mode: u32, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = script("plain", 0o644, "#!/bin/sh\n");
    let headless = script("headless", 0o755, "exit 0\n");
    let orphan = script("orphan", 0o755, "#!/nonexistent/interpreter\n");
    let good = script("good", 0o755, "#!/bin/sh\nexit 5\n");
    let bound = directory.to_str().unwrap();
    for place in places() {
        let place = match place {
            Place::Host => Place::Host,
            Place::Native(user, _) => {
                Place::Native(user, Flags::with(&format!("--bind {bound} {bound}")))
            }
        };
        let mut guard = Guard::start(&place);
        let null = fs::File::open("/dev/null").unwrap();
        let streams = [null.as_fd(); 3];
        let mut failure = |program: Program<'_>| {
            let id = guard.exec(program, &streams);
            guard.failed(id)
        };
        let named = |argv: &'static [&'static str]| Program::new(argv);
        assert_eq!(
            failure(named(&["no-such-program"])),
            (Executable, libc::ENOENT)
        );
        assert_eq!(
            failure(named(&["/no/such/program"])),
            (Executable, libc::ENOENT)
        );
        assert_eq!(failure(named(&["/usr"])), (Executable, libc::EACCES));
        assert_eq!(failure(named(&[])), (Executable, libc::ENOENT));
        assert_eq!(failure(named(&[""])), (Executable, libc::ENOENT));
        assert_eq!(failure(Program::new(&[&plain])), (Executable, libc::EACCES));
        assert_eq!(
            failure(Program::new(&[&headless])),
            (Executable, libc::ENOEXEC)
        );
        assert_eq!(
            failure(Program::new(&[&orphan])),
            (Executable, libc::ENOENT)
        );
        let found_and_refused = Program {
            env: &[("PATH", bound)],
            ..named(&["plain"])
        };
        assert_eq!(failure(found_and_refused), (Executable, libc::EACCES));
        let gone = Program {
            cwd: "/no/such/directory",
            ..named(&["true"])
        };
        assert_eq!(failure(gone), (Cwd, libc::ENOENT));
        let file = Program {
            cwd: "/proc/self/status",
            ..named(&["true"])
        };
        assert_eq!(failure(file), (Cwd, libc::ENOTDIR));
        let relative = Program {
            cwd: "usr",
            ..named(&["true"])
        };
        assert_eq!(failure(relative), (Cwd, libc::EINVAL));
        // Positive control: the same place, a file that can run, found in the exec's own PATH.
        let id = guard.exec(
            Program {
                env: &[("PATH", bound)],
                ..named(&["good"])
            },
            &streams,
        );
        assert_eq!(guard.exited(id), ExitStatus::Code(5));
        assert_eq!(guard.run(&[&good]).status, ExitStatus::Code(5));
        eventually("those that failed are reaped", || {
            guard.processes().is_empty()
        });
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_wrong_number_of_descriptors_or_a_used_id_is_refused() {
    let mut guard = Guard::start(&Place::Host);
    let null = fs::File::open("/dev/null").unwrap();
    for (stdio, count) in [(Stdio::Pipes, 2), (Stdio::Slave, 0), (Stdio::Slave, 2)] {
        let program = Program {
            stdio,
            ..Program::new(&["true"])
        };
        let id = guard.exec(program, &[null.as_fd(), null.as_fd()][..count]);
        assert_eq!(guard.failed(id), (ExecStage::Fork, libc::EBADF));
    }
    let not_a_terminal = Program {
        stdio: Stdio::Slave,
        ..Program::new(&["true"])
    };
    let id = guard.exec(not_a_terminal, &[null.as_fd()]);
    assert_eq!(guard.failed(id), (ExecStage::Session, libc::ENOTTY));
}

#[test]
fn the_payload_inherits_its_three_streams_and_nothing_else() {
    // Positive control: a plain sandbox hands the leaked descriptor on.
    let leaked = format!("/proc/self/fd/{LEAKED}");
    for user in users() {
        let mut command = bubblewrap(*user);
        command.args([
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--unshare-pid",
            "test",
            "-e",
        ]);
        fix_descriptors(command.arg(&leaked), &[]);
        assert!(command.status().unwrap().success());
    }
    for place in places() {
        let mut guard = Guard::start(&place);
        // 3 is the directory that the shell reads to expand the pattern.
        let output = guard.sh("echo /proc/self/fd/*");
        let found: BTreeSet<&str> = output.stdout.split_ascii_whitespace().collect();
        let expected = ["0", "1", "2", "3"].map(|number| format!("/proc/self/fd/{number}"));
        assert_eq!(found, expected.iter().map(String::as_str).collect());
    }
}

#[test]
fn signals_start_at_their_defaults_and_limits_are_the_engines() {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    for place in places() {
        let mut guard = Guard::start(&place);
        let status = guard.run(&["cat", "/proc/self/status"]).stdout;
        for mask in ["SigBlk", "SigIgn", "SigCgt"] {
            let none = format!("{mask}:\t0000000000000000\n");
            assert!(status.contains(&none), "{status}");
        }
        assert_eq!(guard.run(&["cat", "/proc/self/limits"]).stdout, limits);
    }
}

#[test]
fn an_engine_that_ignores_its_children_still_learns_how_they_end() {
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD", BINARY, "host", "13"]);
    let mut guard = Guard::spawn_command(command);
    guard.set_up(host_setup()).unwrap();
    assert_eq!(guard.sh("exit 7").status, ExitStatus::Code(7));
}

#[test]
fn two_hundred_programs_at_once_all_end_and_leave_no_zombie() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let ids: Vec<u64> = (0..200)
            .map(|number| {
                let script = format!("sleep 0.01 & exit {}", number % 100);
                guard.exec_silent(&["sh", "-c", &script])
            })
            .collect();
        for (number, id) in (0..).zip(ids) {
            assert_eq!(guard.exited(id), ExitStatus::Code(number % 100));
        }
        eventually("no process is left", || guard.processes().is_empty());
    }
}

#[test]
fn an_orphan_is_adopted_listed_and_reaped() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let output = guard.sh("(setsid sleep 0.2 >/dev/null 2>&1 &) ; exit 4");
        assert_eq!(output.status, ExitStatus::Code(4));
        eventually("the orphan is reaped", || guard.processes().is_empty());
    }
}

#[test]
fn processes_are_listed_with_their_place_in_the_tree() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let id = guard.exec_silent(&["sh", "-c", "sleep 1000; :", "the name"]);
        let (leader, _) = guard.started(id);
        eventually("both run", || {
            guard
                .processes()
                .iter()
                .any(|process| process.comm == "sleep")
        });
        let list = guard.processes();
        assert_eq!(list[0].argv, ["sh", "-c", "sleep 1000; :", "the name"]);
        assert_eq!(
            (list[0].pid, list[0].pgid, list[0].sid),
            (leader, leader, leader)
        );
        assert_eq!(
            (list[1].ppid, list[1].sid, list[1].tpgid),
            (leader, leader, -1)
        );
        assert_eq!(list[1].comm, "sleep");
        guard.send(&signal(libc::SIGKILL, SignalTarget::Group(id)), &[]);
        assert_eq!(guard.exited(id), ExitStatus::Signal(9));
        eventually("the group is gone", || guard.processes().is_empty());
    }
}

#[test]
fn a_signal_to_all_reaches_those_who_left_the_group() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let id = guard.exec_silent(&["sh", "-c", "setsid sleep 1000 & sleep 1000"]);
        guard.started(id);
        eventually("all run", || {
            let sleeping = guard.processes();
            sleeping
                .iter()
                .filter(|process| process.comm == "sleep")
                .count()
                == 2
        });
        guard.send(&signal(libc::SIGTERM, SignalTarget::All), &[]);
        assert_eq!(guard.exited(id), ExitStatus::Signal(15));
        eventually("all are gone", || guard.processes().is_empty());
    }
}

#[test]
fn a_signal_to_a_program_that_ended_or_out_of_range_does_nothing() {
    let mut guard = Guard::start(&Place::Host);
    let id = guard.exec_silent(&["true"]);
    guard.exited(id);
    for (number, to) in [
        (libc::SIGKILL, SignalTarget::Group(id)),
        (libc::SIGKILL, SignalTarget::Foreground(99)),
        (0, SignalTarget::All),
        (-1, SignalTarget::All),
        (1000, SignalTarget::All),
    ] {
        guard.send(&signal(number, to), &[]);
    }
    assert_eq!(guard.sh("exit 6").status, ExitStatus::Code(6));
}

pub(crate) fn signal(signal: i32, to: SignalTarget) -> Request {
    Request::Signal(Signal { signal, to })
}

//! Terminals: identity, job control, Ctrl-C, sizes, terminal injection.

use crate::{
    exec::signal,
    harness::{
        Flags, Guard, Place, Program, Terminal, eventually, expectation, native_setup, places,
        users, words,
    },
};
use kotak_guard::proto::{BpfInsn, ExecStage, ExitStatus, SignalTarget, Stdio};
use std::os::fd::AsFd;

const BASH: [&str; 4] = ["bash", "--norc", "--noprofile", "-i"];

fn sleepers(guard: &mut Guard) -> Vec<String> {
    let mut list: Vec<String> = guard
        .processes()
        .into_iter()
        .filter(|process| process.comm == "sleep")
        .map(|process| process.argv.join(" "))
        .collect();
    list.sort();
    list
}

#[test]
fn tty_names_a_device_that_exists_and_has_the_size_that_was_asked_for() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let script = "t=$(tty); test -c \"$t\" && echo \"[$t]\"; stty size; stty -a; echo end";
        let (id, mut terminal) = Terminal::open(&mut guard, &["sh", "-c", script]);
        let text = terminal.read_until("end\r\n");
        assert!(text.starts_with("[/dev/pts/"), "{text}");
        assert!(text.contains("\r\n24 80\r\n"), "{text}");
        assert!(
            text.contains(" iutf8") && !text.contains("-iutf8"),
            "{text}"
        );
        assert_eq!(guard.exited(id), ExitStatus::Code(0));
    }
}

#[test]
fn job_control_works_and_ctrl_c_reaches_the_foreground_alone() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let (id, mut terminal) = Terminal::open(&mut guard, &BASH);
        let mut all = terminal.read_until("ready> ");
        terminal.write("sleep 1001 &\n");
        all += &terminal.read_until("ready> ");
        terminal.write("sleep 1002\n");
        eventually("the foreground job runs", || {
            sleepers(&mut guard).len() == 2
        });
        terminal.write("\u{1a}");
        all += &terminal.read_until("Stopped");
        all += &terminal.read_until("ready> ");
        terminal.write("fg\n");
        all += &terminal.read_until("sleep 1002\r\n");
        eventually("the job is in the foreground again", || {
            guard.processes().iter().any(|process| {
                process.argv == ["sleep", "1002"]
                    && process.state != 'T'
                    && process.tpgid == process.pgid
            })
        });
        terminal.write("\u{3}");
        all += &terminal.read_until("ready> ");
        terminal.write("echo status-$?\n");
        all += &terminal.read_until("status-130");
        eventually("the other job is the only one", || {
            sleepers(&mut guard) == ["sleep 1001"]
        });
        terminal.write("exit 3\n");
        assert_eq!(guard.exited(id), ExitStatus::Code(3));
        assert!(!all.contains("no job control"), "{all}");
        assert!(!all.contains("cannot set terminal"), "{all}");
    }
}

#[test]
fn a_signal_to_the_foreground_leaves_the_shell_and_its_other_jobs() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let (id, mut terminal) = Terminal::open(&mut guard, &BASH);
        terminal.read_until("ready> ");
        terminal.write("sleep 1001 &\n");
        terminal.read_until("ready> ");
        terminal.write("sleep 1002\n");
        eventually("the foreground job has the terminal", || {
            guard
                .processes()
                .iter()
                .any(|process| process.argv == ["sleep", "1002"] && process.tpgid == process.pgid)
        });
        guard.send(&signal(libc::SIGKILL, SignalTarget::Foreground(id)), &[]);
        terminal.read_until("Killed");
        eventually("the other job is the only one", || {
            sleepers(&mut guard) == ["sleep 1001"]
        });
        terminal.write("exit\n");
        guard.exited(id);
    }
}

#[test]
fn a_new_size_is_told_to_the_program() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let script = "trap 'stty size' WINCH; echo armed; while :; do sleep 0.02; done";
        let (_, mut terminal) = Terminal::open(&mut guard, &["sh", "-c", script]);
        terminal.read_until("armed\r\n");
        terminal.resize(132, 50);
        terminal.read_until("50 132\r\n");
    }
}

#[test]
fn closing_the_terminal_hangs_up_its_session() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let (id, terminal) = Terminal::open(&mut guard, &["sleep", "1000"]);
        drop(terminal);
        assert_eq!(guard.exited(id), ExitStatus::Signal(libc::SIGHUP));
    }
}

#[test]
fn a_slave_from_the_engine_becomes_the_controlling_terminal() {
    let pair = nix::pty::openpty(None, None).unwrap();
    let mut guard = Guard::start(&Place::Host);
    let argv = ["sh", "-c", "echo through >/dev/tty; exit 2"];
    let program = Program {
        stdio: Stdio::Slave,
        ..Program::new(&argv)
    };
    let id = guard.exec(program, &[pair.slave.as_fd()]);
    drop(pair.slave);
    let mut terminal = Terminal::new(pair.master);
    terminal.read_until("through\r\n");
    assert_eq!(guard.exited(id), ExitStatus::Code(2));
}

#[test]
fn without_a_terminal_device_the_failure_names_the_terminal() {
    for user in users() {
        let dev = words("--tmpfs /dev --dev-bind /dev/null /dev/null");
        let place = Place::Native(
            *user,
            Flags {
                dev,
                ..Flags::default()
            },
        );
        let mut guard = Guard::start(&place);
        let stdio = Stdio::Pty { cols: 80, rows: 24 };
        let id = guard.exec(
            Program {
                stdio,
                ..Program::new(&["true"])
            },
            &[],
        );
        assert_eq!(guard.failed(id), (ExecStage::Pty, libc::ENOENT));
        // Positive control: the same sandbox runs it without one.
        assert_eq!(guard.run(&["true"]).status, ExitStatus::Code(0));
    }
}

/// Refuses one ioctl command with EPERM; everything else passes.
fn refuse_ioctl(command: u32) -> Vec<BpfInsn> {
    let number = u32::try_from(libc::SYS_ioctl).unwrap();
    let load = |k| BpfInsn {
        code: 0x20,
        jt: 0,
        jf: 0,
        k,
    };
    let equal = |k, jt, jf| BpfInsn {
        code: 0x15,
        jt,
        jf,
        k,
    };
    let answer = |k| BpfInsn {
        code: 0x06,
        jt: 0,
        jf: 0,
        k,
    };
    vec![
        load(0),
        equal(number, 0, 3),
        // The low half of the second argument, on a little-endian machine.
        load(24),
        equal(command, 0, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

#[test]
fn terminal_injection_is_refused_by_a_program_that_says_so() {
    let inject = r#"my $x = "x"; $! = 0; ioctl(STDIN, 0x5412, $x); printf "errno-%d-\n", $!"#;
    for user in users() {
        let place = Place::Native(*user, Flags::default());
        let mut setup = native_setup(expectation());
        setup.seccomp = vec![refuse_ioctl(0x5412)];
        let (mut guard, report) = Guard::start_with(&place, setup).unwrap();
        assert_eq!(report.seccomp_programs, 1);
        let (_, mut terminal) = Terminal::open(&mut guard, &["perl", "-e", inject]);
        terminal.read_until("errno-1-");
        // Positive control: without the program it is not this answer.
        let mut guard = Guard::start(&place);
        let (_, mut terminal) = Terminal::open(&mut guard, &["perl", "-e", inject]);
        let text = terminal.read_until("-\r\n");
        assert!(!text.contains("errno-1-"), "{text}");
    }
}

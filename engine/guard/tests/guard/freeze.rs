//! Suspend and resume.

use crate::harness::{Guard, eventually, places};
use kotak_guard::proto::{Event, ExecStage, ExitStatus, Request};
use std::io::{BufRead, BufReader};

fn freeze(guard: &mut Guard) -> u32 {
    guard.send(&Request::Freeze, &[]);
    guard
        .expect(|event| match event {
            Event::Frozen { processes } => Some(*processes),
            Event::FreezeFailed { running } => panic!("{running} kept running"),
            _ => None,
        })
        .0
}

fn thaw(guard: &mut Guard) {
    guard.send(&Request::Thaw, &[]);
    guard.expect(|event| matches!(event, Event::Thawed).then_some(()));
}

#[test]
fn a_counter_stands_still_while_frozen_and_goes_on_where_it_was() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let script = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.005; done";
        let (_, output) = guard.exec_reading(&["sh", "-c", script]);
        let mut lines = BufReader::new(output)
            .lines()
            .map(|line| line.unwrap().parse().unwrap());
        let first: u32 = lines.next().unwrap();
        assert_eq!(first, 1);
        assert!(freeze(&mut guard) >= 1);
        for _ in 0..20 {
            let states: Vec<char> = guard.processes().iter().map(|it| it.state).collect();
            // D: a parent in vfork(2), whose child is stopped.
            assert!(
                states.iter().all(|state| matches!(state, 'T' | 'Z' | 'D')),
                "{states:?}"
            );
        }
        thaw(&mut guard);
        let mut last = first;
        for next in lines.take(200) {
            assert_eq!(next, last + 1);
            last = next;
        }
    }
}

#[test]
fn a_job_that_was_stopped_before_stays_stopped() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let script = "sleep 1001 & while [ \"$c\" != sleep ]; do read c </proc/$!/comm; done; \
                      kill -STOP $!; sleep 1002 & echo ready; wait";
        let (_, output) = guard.exec_reading(&["sh", "-c", script]);
        BufReader::new(output).lines().next().unwrap().unwrap();
        let state = |guard: &mut Guard, seconds: &str| {
            let list = guard.processes();
            list.iter()
                .find(|it| it.argv == ["sleep", seconds])
                .map(|it| it.state)
        };
        eventually("one is stopped", || state(&mut guard, "1001") == Some('T'));
        eventually("one sleeps", || state(&mut guard, "1002") == Some('S'));
        assert_eq!(freeze(&mut guard), 2);
        assert_eq!(state(&mut guard, "1002"), Some('T'));
        // Asked again, the answer is the same and nothing is forgotten.
        assert_eq!(freeze(&mut guard), 2);
        thaw(&mut guard);
        eventually("the other goes on", || {
            state(&mut guard, "1002") == Some('S')
        });
        assert_eq!(state(&mut guard, "1001"), Some('T'));
    }
}

#[test]
fn a_shell_does_not_notice_that_its_job_was_frozen() {
    use crate::harness::Terminal;
    for place in places() {
        let mut guard = Guard::start(&place);
        let bash = ["bash", "--norc", "--noprofile", "-i"];
        let (id, mut terminal) = Terminal::open(&mut guard, &bash);
        terminal.read_until("ready> ");
        terminal.write("sleep 1001\n");
        eventually("the job has the terminal", || {
            guard
                .processes()
                .iter()
                .any(|it| it.comm == "sleep" && it.tpgid == it.pgid)
        });
        assert_eq!(freeze(&mut guard), 2);
        thaw(&mut guard);
        terminal.write("\u{3}");
        let text = terminal.read_until("ready> ");
        assert!(!text.contains("Stopped"), "{text}");
        terminal.write("exit 0\n");
        assert_eq!(guard.exited(id), ExitStatus::Code(0));
    }
}

#[test]
fn nothing_starts_while_frozen() {
    for place in places() {
        let mut guard = Guard::start(&place);
        assert_eq!(freeze(&mut guard), 0);
        let id = guard.exec_silent(&["true"]);
        assert_eq!(guard.failed(id), (ExecStage::Fork, libc::EBUSY));
        thaw(&mut guard);
        let id = guard.exec_silent(&["true"]);
        assert_eq!(guard.exited(id), ExitStatus::Code(0));
    }
}

#[test]
fn a_loop_that_forks_all_the_time_is_frozen_each_time() {
    for place in places() {
        let mut guard = Guard::start(&place);
        let script = "while :; do /bin/true; done";
        let id = guard.exec_silent(&["sh", "-c", script]);
        guard.started(id);
        for _ in 0..10 {
            assert!(freeze(&mut guard) >= 1);
            let states: Vec<char> = guard.processes().iter().map(|it| it.state).collect();
            assert!(
                !states.iter().any(|state| matches!(state, 'R' | 'S')),
                "{states:?}"
            );
            thaw(&mut guard);
        }
    }
}

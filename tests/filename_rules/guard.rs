//! The guard against itself: what a program inside can do to the process that judges it.

use crate::cases::last_answer;
use kotak_tests::field::{Field, Rules};
use serde_json::Value;

fn answers(field: &Field, attempts: &[&str]) -> Vec<(String, String)> {
    let attempt = field.attempt().display().to_string();
    let lines: Vec<String> = attempts
        .iter()
        .map(|words| format!("'{attempt}' {}", words.replace('|', "\\|")))
        .collect();
    let run = field.shell(&Rules::names(), &lines.join("\n"));
    let parsed = run
        .outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line));
    let names: Vec<String> = parsed
        .map(|answer| answer["name"].as_str().unwrap_or("success").to_owned())
        .collect();
    assert_eq!(names.len(), attempts.len(), "{run:?}");
    attempts
        .iter()
        .map(|words| (*words).to_owned())
        .zip(names)
        .collect()
}

#[test]
fn nothing_of_the_guard_can_be_opened() {
    let field = Field::new();
    for (attempt, name) in answers(
        &field,
        &[
            "open :/proc/1/mem O_RDONLY 0",
            "open :/proc/1/mem O_RDWR 0",
            "open :/proc/1/maps O_RDONLY 0",
            "open :/proc/1/fd/0 O_RDONLY 0",
            "open :/proc/1/cwd/x O_CREAT|O_WRONLY 0o600",
            "open :/proc/1/root/tmp/x O_CREAT|O_WRONLY 0o600",
            "open :/proc/1/oom_score_adj O_WRONLY 0",
            "open :/proc/1/environ O_RDONLY 0",
            "open :/proc/1/task/1/mem O_RDWR 0",
            "open :/proc/1/timerslack_ns O_WRONLY 0",
            "open :/proc/1/coredump_filter O_WRONLY 0",
            "rename :/proc/1/cwd/x :y",
        ],
    ) {
        assert!(
            ["EACCES", "EPERM"].contains(&name.as_str()),
            "`{attempt}`: {name}"
        );
    }
    // The numbers of its descriptors can be listed by root, as their owner; what they are cannot.
    for link in ["fd/0", "cwd", "root", "exe"] {
        let look = |pid: &str| {
            let line = format!("readlink /proc/{pid}/{link}");
            field.shell(&Rules::names(), &line).outcome
        };
        let guard = look("1");
        assert_eq!(
            (guard.code, guard.stdout.as_str()),
            (1, ""),
            "{link}: {guard:?}"
        );
        assert!(look("self").succeeded(), "the control: {link}");
    }
    // The same of the program itself works.
    for (attempt, name) in answers(
        &field,
        &[
            "open :/proc/self/mem O_RDWR 0",
            "open :/proc/self/maps O_RDONLY 0",
            "open :/proc/self/oom_score_adj O_WRONLY 0",
        ],
    ) {
        assert_eq!(name, "success", "the control `{attempt}`");
    }
}

#[test]
fn no_call_reaches_into_the_guard() {
    let field = Field::new();
    for (attempt, name) in answers(
        &field,
        &[
            "ptrace PTRACE_ATTACH 1 0 0",
            "ptrace PTRACE_SEIZE 1 0 0",
            "poke 1",
            "peek 1",
            "prlimit64 1 RLIMIT_NOFILE buf 0",
        ],
    ) {
        assert!(
            ["EACCES", "EPERM"].contains(&name.as_str()),
            "`{attempt}`: {name}"
        );
    }
    let attempt = field.attempt().display().to_string();
    let words = [
        "p=pidfd_open",
        "1",
        "0",
        "then",
        "pidfd_getfd",
        "$p",
        "0",
        "0",
    ];
    let run = field.run(&Rules::names(), &[&[attempt.as_str()][..], &words].concat());
    assert_eq!(last_answer(&run)["name"], "EPERM", "{run:?}");
    // Its own limits and a child of its own are the program's to change.
    let control = field.shell(
        &Rules::names(),
        &format!(
            "'{attempt}' prlimit64 0 RLIMIT_NOFILE 0 buf; '{attempt}' peek self; '{attempt}' poke self; \
             sleep 9 & '{attempt}' kill $! SIGKILL"
        ),
    );
    assert_eq!(
        control.outcome.stdout.matches("\"errno\":0").count(),
        4,
        "{control:?}"
    );
}

#[test]
fn no_signal_reaches_the_guard() {
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    let run = field.shell(
        &Rules::names(),
        &format!(
            "for s in 9 19 15 2 1 3 6 11 18 10 12; do '{attempt}' kill 1 $s >/dev/null; done; \
             kill -9 -1 2>/dev/null; echo fine > after; '{attempt}' open :.env O_CREAT\\|O_WRONLY 0o600"
        ),
    );
    // `kill -1` spares the caller and PID 1; the shell may have been told to go all the same.
    assert!(run.outcome.succeeded(), "{run:?}");
    assert_eq!(last_answer(&run)["name"], "EACCES", "{run:?}");
    assert_eq!(field.refusals(&run.session).len(), 1, "{run:?}");
    assert!(field.work().join("after").exists(), "the control");
}

#[test]
fn the_session_ends_with_its_guard() {
    // Killed from outside, as by the kernel when memory is short.
    let field = Field::new();
    let (call, session) = field.call(
        &Rules::names(),
        &[
            "/bin/sh",
            "-c",
            "echo up; while :; do date > tick; sleep 0.05; done",
        ],
    );
    let mut child = call.command().spawn().expect("kotak");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut line = [0_u8; 3];
    std::io::Read::read_exact(&mut stdout, &mut line).expect("the payload runs");
    let guard = guard_of(child.id()).expect("a guard below the command");
    kill(guard);
    std::io::Read::read_to_end(&mut stdout, &mut Vec::new()).expect("the end of the payload");
    let status = child.wait().expect("an end");
    assert!(!status.success(), "{status:?}");
    let sessions = field.stage().kotak().args(["sessions", "--json"]).run();
    let rows: Vec<Value> = serde_json::from_str(&sessions.stdout).expect("JSON");
    let row = rows.iter().find(|row| row["id"] == session.as_str());
    let row = row.unwrap_or_else(|| panic!("not listed: {sessions:?}"));
    assert_eq!(row["state"], "error", "{row}");
    // Whichever the engine hears of first, the end of the guard or that of its socket.
    let codes = ["SANDBOX_LOST", "SESSION_ENDED"];
    let code = row["errorCode"].as_str().unwrap_or_default();
    assert!(codes.contains(&code), "{row}");
    // Nothing writes any more.
    field.prepare("rm -f tick");
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!field.work().join("tick").exists());
}

#[test]
fn a_guard_that_does_not_answer_lets_nothing_through() {
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    let line =
        format!("echo up; read go; '{attempt}' open :.env O_CREAT\\|O_WRONLY 0o600; echo x > fine");
    let (call, _) = field.call(&Rules::names(), &["/bin/sh", "-c", &line]);
    let mut child = call.command().spawn().expect("kotak");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut line = [0_u8; 3];
    std::io::Read::read_exact(&mut stdout, &mut line).expect("the payload runs");
    let guard = guard_of(child.id()).expect("a guard below the command");
    signal(guard, nix::sys::signal::Signal::SIGSTOP);
    std::io::Write::write_all(&mut stdin, b"go\n").expect("the payload reads");
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(field.inventory(), Vec::new(), "something was let through");
    // The positive control: answered again, the permitted file is made and the other is not.
    signal(guard, nix::sys::signal::Signal::SIGCONT);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).expect("the end");
    child.wait().expect("an end");
    assert!(rest.contains("EACCES"), "{rest}");
    let made: Vec<_> = field
        .inventory()
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(made, [field.work().join("fine")]);
}

/// The guard of the session that runs a shell below `command`: the first process of its PID
/// namespace. Another may still be there, of the trial that every command begins with.
fn guard_of(command: u32) -> Option<i32> {
    let mut below = vec![i32::try_from(command).ok()?];
    let mut index = 0;
    while let Some(pid) = below.get(index).copied() {
        index += 1;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inner: Vec<&str> = inner.unwrap_or_default().split_whitespace().collect();
        let children = children_of(pid);
        let is_shell = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sh\n")
        };
        // The tests may themselves run in a namespace that is not the outermost.
        if inner.len() > 1 && inner.last() == Some(&"1") && children.iter().any(is_shell) {
            return Some(pid);
        }
        below.extend(children);
    }
    None
}

/// The children of all threads of a process.
fn children_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks
        .into_iter()
        .flatten()
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let numbers = lists.flat_map(|list| {
        let numbers = list
            .split_whitespace()
            .filter_map(|pid| pid.parse::<i32>().ok());
        numbers.collect::<Vec<i32>>()
    });
    numbers.collect()
}

fn kill(pid: i32) {
    signal(pid, nix::sys::signal::Signal::SIGKILL);
}

fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("a signal");
}

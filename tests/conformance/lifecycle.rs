//! Exit codes, signals, and that nothing survives a session.

use kotak_tests::stage::Stage;
use std::fs;
use std::io::Read;

/// Processes of the host whose command line contains `marker`.
fn survivors(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let cmdline = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        if text.contains(marker) {
            found.push(format!("{} {text}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

fn marker(name: &str) -> String {
    format!("kotak-{name}-{}", std::process::id())
}

/// A daemon by every trick: double fork, own session, deaf to signals, detached from all pipes.
fn daemon(marker: &str) -> String {
    format!(
        "(setsid bash -c 'trap \"\" HUP INT TERM QUIT; exec 0<&- 1>&- 2>&-; \
         (exec -a {marker} sleep 100000) & (exec -a {marker} sleep 100000) & wait' &) ; "
    )
}

#[test]
fn exit_codes_and_signals_are_passed_on() {
    let stage = Stage::new();
    for backend in ["native", "none"] {
        for (script, code) in [
            ("exit 0", 0),
            ("exit 7", 7),
            ("exit 255", 255),
            ("kill -TERM $$", 143),
            ("kill -KILL $$", 137),
        ] {
            let outcome = stage
                .kotak()
                .args([
                    "run",
                    "--backend",
                    backend,
                    "--profile",
                    "terminal",
                    "--",
                    "sh",
                    "-c",
                    script,
                ])
                .run();
            assert_eq!(outcome.code, code, "{backend} `{script}`: {outcome:?}");
        }
        let missing = stage
            .kotak()
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "no-such-program",
            ])
            .run();
        assert_eq!(missing.code, 127, "{backend}: {missing:?}");
        let plain = stage
            .kotak()
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "./readme.txt",
            ])
            .run();
        assert_eq!(plain.code, 126, "{backend}: {plain:?}");
    }
}

#[test]
fn a_program_that_speaks_like_the_runner_is_still_a_program() {
    // A runner failure is never taken for a task's exit, nor the reverse.
    let stage = Stage::new();
    let outcome = stage.terminal("echo 'bwrap: Creating new namespace failed' >&2; exit 1");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(!outcome.stderr.contains("BWRAP_FAILED"), "{outcome:?}");
}

#[test]
fn bytes_pass_unchanged_both_ways() {
    let stage = Stage::new();
    let input: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = {
        use sha2::Digest;
        let digest = sha2::Sha256::digest(&input);
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    for backend in ["native", "none"] {
        let outcome = stage
            .kotak()
            .input(input.clone())
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "sha256sum",
            ])
            .run();
        assert!(
            outcome.stdout.starts_with(&expected),
            "{backend}: {outcome:?}"
        );
    }
}

#[test]
fn nothing_survives_the_end_of_a_session() {
    // launch case: children survive when a pane closes
    let stage = Stage::new();
    for backend in ["native", "none"] {
        let marker = marker(&format!("end-{backend}"));
        let script = format!("{} sleep 0.3; echo done", daemon(&marker));
        let outcome = stage
            .kotak()
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "bash",
                "-c",
                &script,
            ])
            .run();
        assert_eq!(outcome.stdout, "done\n", "{backend}: {outcome:?}");
        assert_eq!(survivors(&marker), Vec::<String>::new(), "{backend}");
    }
    let marker = marker("control");
    let control = std::process::Command::new("bash")
        .args(["-c", &format!("{} sleep 0.3", daemon(&marker))])
        .status()
        .expect("bash");
    assert!(control.success());
    let left = survivors(&marker);
    for line in &left {
        let pid: i32 = line
            .split(' ')
            .next()
            .expect("a pid")
            .parse()
            .expect("a pid");
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL);
    }
    assert!(
        !left.is_empty(),
        "the control failed: such a daemon survives without Kotak"
    );
}

#[test]
fn nothing_survives_kill_9_of_the_engine() {
    // Must show 5, with the command as the engine
    let stage = Stage::new();
    let marker = marker("kill9");
    let mut engines = Vec::new();
    for n in 0..20 {
        let backend = if n % 2 == 0 { "native" } else { "none" };
        let script = format!("{} echo up; sleep 100000", daemon(&marker));
        let mut child = stage
            .kotak()
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "bash",
                "-c",
                &script,
            ])
            .command()
            .spawn()
            .expect("kotak");
        let mut up = [0_u8; 3];
        let stdout = child.stdout.as_mut().expect("a pipe");
        stdout.read_exact(&mut up).expect("the payload runs");
        engines.push(child);
    }
    wait_until("every daemon is up", || survivors(&marker).len() >= 40);
    for engine in &mut engines {
        engine.kill().expect("SIGKILL");
        engine.wait().expect("an end");
    }
    wait_until("every process is gone", || survivors(&marker).is_empty());
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(
        !mounts.contains(&*stage.home().to_string_lossy()),
        "a mount survived"
    );
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("not reached in 30 s: {what}");
}

#[test]
fn signals_to_the_command_reach_the_program() {
    let stage = Stage::new();
    for backend in ["native", "none"] {
        let mut child = stage
            .kotak()
            .args([
                "run",
                "--backend",
                backend,
                "--profile",
                "terminal",
                "--",
                "bash",
                "-c",
            ])
            .arg("trap 'echo got; exit 5' TERM; echo up; while :; do sleep 0.1; done")
            .command()
            .spawn()
            .expect("kotak");
        let mut stdout = child.stdout.take().expect("a pipe");
        let mut up = [0_u8; 3];
        stdout.read_exact(&mut up).expect("the payload runs");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).expect("a signal");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("output");
        assert_eq!(rest, "got\n", "{backend}");
        assert_eq!(child.wait().expect("an end").code(), Some(5), "{backend}");
    }
}

#[test]
fn a_working_directory_that_cannot_be_writable_is_refused() {
    let stage = Stage::new();
    for dir in ["/", "/usr", "/etc", "/home", "/proc", "/dev"] {
        let refused = stage
            .kotak()
            .args([
                "run",
                "--backend",
                "native",
                "--profile",
                "terminal",
                "--cwd",
                dir,
            ])
            .args(["--", "sh", "-c", "echo ran"])
            .run();
        assert_eq!(refused.code, 2, "{dir}: {refused:?}");
        assert!(!refused.stdout.contains("ran"), "{dir}: {refused:?}");
    }
    let secret = stage.home().join(".ssh");
    let refused = stage
        .kotak()
        .args([
            "run",
            "--backend",
            "native",
            "--profile",
            "terminal",
            "--cwd",
        ])
        .arg(&secret)
        .args(["--", "sh", "-c", "echo ran"])
        .run();
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(!refused.stdout.contains("ran"), "{refused:?}");
}

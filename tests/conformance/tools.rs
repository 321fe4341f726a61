//! Shells and common tools work inside as they do outside.

use kotak_tests::stage::{Stage, is_root, skip};
use std::path::Path;

/// Succeeds with the same output inside and outside.
#[track_caller]
fn same(stage: &Stage, shell: &str, script: &str) {
    let run = |backend: &str| {
        let call = stage.kotak().args(["run", "--backend", backend]);
        call.args(["--profile", "terminal", "--", shell, "-c", script])
            .run()
    };
    let outside = run("none");
    assert!(outside.succeeded(), "the control failed: {outside:?}");
    let inside = run("native");
    assert_eq!(
        (inside.code, inside.stdout),
        (outside.code, outside.stdout),
        "{shell}: `{script}`: {}",
        inside.stderr
    );
}

#[test]
fn here_documents_work_in_every_shell_that_is_installed() {
    // launch case: zsh here-documents need a writable temporary directory; long ones in bash do
    let stage = Stage::new();
    let long = "x".repeat(200_000);
    stage.write("work/long", &format!("cat <<EOF | wc -c\n{long}\nEOF\n"));
    let mut shells = 0;
    for shell in ["/bin/sh", "/bin/bash", "/bin/zsh", "/usr/bin/fish"] {
        if !Path::new(shell).exists() {
            skip(&format!("here-documents: {shell} is not installed"));
            continue;
        }
        shells += 1;
        if shell.ends_with("fish") {
            same(&stage, shell, "echo one | cat");
            continue;
        }
        same(
            &stage,
            shell,
            "cat <<EOF\none $((1 + 1))\nEOF\ncat <<'EOF'\n$HOME\nEOF\n",
        );
        same(&stage, shell, ". ./long");
    }
    assert!(shells >= 2, "sh and bash are there");
    same(
        &stage,
        "/bin/bash",
        "cat <<<here; diff <(echo a) <(echo a) && echo same",
    );
}

#[test]
fn the_locale_and_the_terminal_database_are_there() {
    let stage = Stage::new();
    let run = |backend: &str, script: &str| {
        let call = stage
            .kotak()
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color");
        call.args(["run", "--backend", backend, "--profile", "terminal"])
            .args(["--", "sh", "-c", script])
            .run()
    };
    for script in [
        "locale charmap",
        "printf '\\303\\244' | LC_ALL= wc -m",
        "tput colors",
        "date +%Z",
        "python3 -c 'import sys; print(sys.getfilesystemencoding(), \"\\u00e4\")'",
    ] {
        let outside = run("none", script);
        assert!(outside.succeeded(), "the control failed: {outside:?}");
        let inside = run("native", script);
        assert_eq!(inside.stdout, outside.stdout, "`{script}`: {inside:?}");
    }
    assert_eq!(run("native", "locale charmap").stdout, "UTF-8\n");
}

#[test]
fn a_missing_or_read_only_tmpdir_is_replaced_by_a_private_one() {
    // launch case: TMPDIR missing or read-only inside
    let stage = Stage::new();
    let script = "f=$(mktemp) && echo x > \"$f\" && cat \"$f\"";
    for tmpdir in ["/no/such/directory", "/usr", "/var/lib"] {
        let run = |backend: &str| {
            let call = stage.kotak().env("TMPDIR", tmpdir);
            call.args(["run", "--backend", backend, "--profile", "terminal"])
                .args(["--", "sh", "-c", script])
                .run()
        };
        let inside = run("native");
        assert_eq!(
            (inside.code, inside.stdout.as_str()),
            (0, "x\n"),
            "{inside:?}"
        );
        if !is_root() || !Path::new(tmpdir).exists() {
            assert_ne!(run("none").code, 0, "the control: {tmpdir} is of no use");
        }
    }
}

#[test]
fn sudo_and_su_say_why_they_cannot() {
    // launch case: `sudo` inside: refused with its own message
    let stage = Stage::new();
    for (program, attempt) in [
        ("/usr/bin/sudo", "sudo -n id -u"),
        ("/bin/su", "su nobody -s /bin/sh -c 'id -u' </dev/null"),
    ] {
        if !Path::new(program).exists() {
            skip(&format!(
                "refused with its own message: {program} is not installed"
            ));
            continue;
        }
        let inside = stage.terminal(attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside: {inside:?}");
        assert_eq!(inside.stdout, "", "{inside:?}");
        let name = program.rsplit('/').next().unwrap_or_default();
        assert!(inside.stderr.contains(&format!("{name}: ")), "{inside:?}");
        if is_root() {
            let outside = stage.bare(attempt);
            assert!(outside.succeeded(), "the control failed: {outside:?}");
        }
    }
}

#[test]
fn orphans_are_reaped_and_no_zombie_stays() {
    let stage = Stage::new();
    let script = "for i in $(seq 50); do (sh -c 'exit 3' &) ; done; \
                  for i in $(seq 200); do \
                    left=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '); \
                    [ \"$left\" = 0 ] && echo reaped && exit 0; sleep 0.05; done; \
                  echo \"$left zombies\"";
    let inside = stage.terminal(script);
    assert_eq!(inside.stdout, "reaped\n", "{inside:?}");
    // The control: the same look finds a zombie that nobody waits for.
    let zombie = stage.terminal(
        "python3 -c '\nimport os, time\npid = os.fork()\nif pid == 0: os._exit(0)\n\
         for _ in range(200):\n    state = open(f\"/proc/{pid}/stat\").read().rsplit(\") \", 1)[1][0]\n\
         \n    if state == \"Z\": break\n    time.sleep(0.05)\nprint(state)'",
    );
    assert_eq!(zombie.stdout, "Z\n", "the control failed: {zombie:?}");
}

/// Runs its arguments in a terminal, and writes what they write.
const IN_A_TERMINAL: &str = "import os, pty, sys
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(master, 65536)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
os.waitpid(pid, 0)";

#[test]
fn a_terminal_has_job_control_inside() {
    // launch case: job control lost in the shell
    let stage = Stage::new();
    for backend in ["native", "none"] {
        let outcome = stage
            .kotak()
            .behind(["/usr/bin/python3", "-c", IN_A_TERMINAL])
            .args(["run", "--backend", backend, "--profile", "terminal", "--"])
            .args(["bash", "--norc", "-ic"])
            .arg("sleep 100 & kill -STOP %1; jobs; kill -KILL %1; tty; set -o | grep monitor")
            .run();
        let text = &outcome.stdout;
        assert!(!text.contains("no job control"), "{backend}: {text}");
        assert!(text.contains("/dev/pts/"), "{backend}: {text}");
        assert!(text.contains("[1]"), "{backend}: {text}");
        let monitor = text.lines().find(|line| line.contains("monitor"));
        assert!(
            monitor.is_some_and(|line| line.contains("on")),
            "{backend}: {text}"
        );
    }
    // The control: without a terminal there is no job control to have.
    let without = stage.terminal("bash --norc -ic 'tty' 2>&1");
    assert!(without.stdout.contains("no job control"), "{without:?}");
}

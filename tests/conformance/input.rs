//! Bad input: each a typed error with code and fix, before anything ran; with its control.

use kotak_tests::stage::Stage;
use kotak_tests::{Kotak, Outcome};
use serde_json::json;

/// Refused with this exit code and error code, with a way out, and nothing ran.
#[track_caller]
pub(crate) fn refused(outcome: &Outcome, exit: i32, code: &str) {
    assert_eq!(outcome.code, exit, "{code} expected: {outcome:?}");
    assert!(
        outcome.stderr.contains(&format!("[{code}]")),
        "{code} expected: {outcome:?}"
    );
    assert!(outcome.stderr.contains("\n  fix: "), "no fix: {outcome:?}");
    assert!(
        !outcome.stdout.contains("ran"),
        "something ran: {outcome:?}"
    );
}

#[track_caller]
fn ran(outcome: &Outcome) {
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "ran\n"),
        "the control failed: {outcome:?}"
    );
}

#[test]
fn backend_names_that_are_none_are_refused_and_nothing_runs() {
    // REQ BK-2: a stored `docker` is native, but nobody may type it
    let stage = Stage::new();
    let with = |name: &str| {
        let call = stage.kotak().args(["run", "--backend", name]);
        call.args(["--", "echo", "ran"]).run()
    };
    for name in [
        "docker",
        "",
        "bubblewrap",
        "NATIVE",
        " native",
        "native,none",
    ] {
        refused(&with(name), 2, "UNKNOWN_BACKEND");
    }
    for name in ["native", "none", "auto"] {
        ran(&with(name));
    }
}

#[test]
fn a_malformed_spec_is_refused_and_a_good_one_runs() {
    let stage = Stage::new();
    let good = json!({
        "sessionId": "s", "workspaceId": "w",
        "bindMounts": [{ "hostPath": stage.work() }], "guestWorkdir": stage.work(),
    });
    let with = |spec: &str| {
        let call = stage
            .kotak()
            .input(spec)
            .args(["run", "--backend", "native"]);
        call.args(["--spec", "-", "--", "echo", "ran"]).run()
    };
    let changed = |field: &str, value: serde_json::Value| {
        let mut spec = good.clone();
        spec[field] = value;
        spec.to_string()
    };
    let whole = good.to_string();
    for bad in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        &whole[..whole.len() - 1],
        &format!("{whole} {whole}"),
        &changed("unknownField", json!(1)),
        &changed("mode", json!("yolo")),
        &changed("networkEnabled", json!("yes")),
        &changed("networkMode", json!("wide")),
        &changed("bindMounts", json!({})),
        &changed("sessionId", json!("")),
        &changed("sessionId", json!("line\nbreak")),
        &changed("guestWorkdir", json!("relative")),
        &changed("protectedPaths", json!(["relative"])),
        &changed("runnerStateDirs", json!([stage.home().join("not-there")])),
        &changed("bindMounts", json!([{ "hostPath": "/nul\u{0}byte" }])),
    ] {
        let outcome = with(bad);
        assert_eq!(outcome.code, 2, "`{bad}`: {outcome:?}");
        assert!(
            outcome.stderr.starts_with("kotak: ") && outcome.stderr.contains("\n  fix: "),
            "`{bad}`: {outcome:?}"
        );
        assert!(!outcome.stdout.contains("ran"), "`{bad}`: {outcome:?}");
    }
    ran(&with(&whole));
}

#[test]
fn one_path_bound_twice_in_two_ways_is_refused() {
    // launch case: duplicates
    let stage = Stage::new();
    let work = stage.work();
    let with = |second: bool| {
        let spec = json!({
            "sessionId": "s", "workspaceId": "w", "guestWorkdir": work,
            "bindMounts": [{ "hostPath": work }, { "hostPath": work, "readOnly": second }],
        });
        let call = stage.kotak().input(spec.to_string());
        call.args([
            "run",
            "--backend",
            "native",
            "--spec",
            "-",
            "--",
            "echo",
            "ran",
        ])
        .run()
    };
    let both = with(true);
    assert_eq!(both.code, 2, "{both:?}");
    assert!(both.stderr.contains("\n  fix: "), "{both:?}");
    assert!(!both.stdout.contains("ran"), "{both:?}");
    ran(&with(false));
}

#[test]
fn a_working_directory_that_vanished_before_the_launch_is_a_typed_error() {
    let stage = Stage::new();
    for backend in ["native", "none"] {
        let with = |line: &str| {
            let call = stage.kotak().behind_shell(line);
            call.args(["run", "--backend", backend, "--profile", "terminal"])
                .args(["--", "/bin/echo", "ran"])
                .run()
        };
        let gone = with("mkdir gone && cd gone && rmdir ../gone && exec \"$@\"");
        assert_eq!(gone.code, 2, "{backend}: {gone:?}");
        assert!(gone.stderr.contains("WORKDIR_"), "{backend}: {gone:?}");
        assert!(gone.stderr.contains("\n  fix: "), "{backend}: {gone:?}");
        assert!(!gone.stdout.contains("ran"), "{backend}: {gone:?}");
        ran(&with(
            "mkdir here && cd here && \"$@\"; code=$?; rmdir ../here; exit $code",
        ));
    }
}

#[test]
fn a_working_directory_deleted_while_running_leaves_the_session_going() {
    let stage = Stage::new();
    for backend in ["native", "none"] {
        let dir = stage.home().join("leaving");
        std::fs::create_dir(&dir).expect("a directory");
        let script = "echo up; read -r line; ls . ; /bin/echo \"still $line\"; exit 5";
        let mut child = Kotak::new(stage.home(), &dir)
            .args(["run", "--backend", backend, "--profile", "terminal", "--"])
            .args(["sh", "-c", script])
            .command()
            .spawn()
            .expect("kotak");
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).expect("the payload runs");
        assert_eq!(line, "up\n", "{backend}");
        std::fs::remove_dir(&dir).expect("removal");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut stdin, b"here\n").expect("input");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut rest).expect("output");
        assert_eq!(rest, "still here\n", "{backend}");
        assert_eq!(child.wait().expect("an end").code(), Some(5), "{backend}");
    }
}

#[test]
fn a_program_that_does_not_exist_or_cannot_run_is_told_apart() {
    let stage = Stage::new();
    let with = |program: &str| {
        let call = stage.kotak().args(["run", "--backend", "native"]);
        call.args(["--profile", "terminal", "--", program]).run()
    };
    refused(&with("/no/such/shell"), 127, "PROGRAM_NOT_FOUND");
    refused(&with("./readme.txt"), 126, "PROGRAM_NOT_EXECUTABLE");
    assert!(with("/bin/true").succeeded(), "the control failed");
}

//! `kotak run`: streams, exit codes, signals, and what is visible.

use super::*;
use kotak_engine::backend::SandboxBackend;
use kotak_engine::spec::NetworkMode;
use kotak_engine::store::SessionRecord;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};

fn sh<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut args = vec!["run"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    args
}

#[test]
fn the_programs_exit_code_is_passed_on_and_never_called_a_failure_of_the_sandbox() {
    let desk = Desk::new();
    for backend in ["native", "none"] {
        for code in [0, 1, 2, 3, 4, 7, 125, 126, 127, 255] {
            let script = format!("echo out; echo err >&2; exit {code}");
            let finished = desk.finish(&sh(&["--backend", backend], &script));
            assert_eq!(finished.code, Some(code), "{finished:?}");
            assert_eq!(finished.stdout, "out\n");
            assert!(finished.stderr.ends_with("err\n"), "{finished:?}");
            finished.unblamed();
        }
        for (signal, code) in [("KILL", 137), ("TERM", 143), ("34", 162)] {
            let script = format!("kill -{signal} $$");
            let finished = desk.finish(&sh(&["--backend", backend], &script));
            assert_eq!(finished.code, Some(code), "{finished:?}");
            finished.unblamed();
        }
    }
}

// REQ NO-1
#[test]
fn what_only_a_sandbox_can_enforce_is_refused_without_one() {
    let desk = Desk::new();
    let project = desk.project();
    let project = text(&project);
    let spec = |network: &str| {
        format!(
            r#"{{"sessionId":"s","workspaceId":"w",{network}
                "bindMounts":[{{"hostPath":"{project}"}}],"guestWorkdir":"{project}"}}"#
        )
    };
    let with_spec = |backend: &str, network: &str| {
        let args = ["run", "--backend", backend, "--spec", "-", "--", "true"];
        desk.feed(&args, spec(network).as_bytes())
    };
    let cases: [&[&str]; 5] = [
        &["--network", "off"],
        &["--network", "allowlist"],
        &["--ro-bind", "/usr"],
        &["--protect", "/etc"],
        &["--mode", "review"],
    ];
    for options in cases {
        let with = |backend| desk.finish(&sh(&[&["--backend", backend], options].concat(), "true"));
        with("none").refused(2, "FIELD_NOT_ENFORCED");
    }
    // The control: the same with a sandbox, and nothing of it without one.
    desk.finish(&sh(&["--backend", "native", "--network", "off"], "true"))
        .succeeded();
    desk.finish(&sh(&["--backend", "none"], "true")).succeeded();

    with_spec("none", r#""networkEnabled":false,"#).refused(2, "FIELD_NOT_ENFORCED");
    with_spec("native", r#""networkEnabled":false,"#).succeeded();
    with_spec("none", r#""networkEnabled":true,"#).succeeded();
    // Terminals too, where an open network was asked for by name.
    desk.finish(&sh(
        &[
            "--backend",
            "none",
            "--profile",
            "terminal",
            "--network",
            "open",
        ],
        "true",
    ))
    .refused(2, "FIELD_NOT_ENFORCED");
    desk.finish(&sh(&["--backend", "none", "--profile", "terminal"], "true"))
        .succeeded();
}

#[test]
fn a_program_that_is_missing_or_cannot_be_executed_is_told_by_kotak() {
    let desk = Desk::new();
    std::fs::write(desk.project().join("plain"), "no program").unwrap();
    for backend in ["native", "none"] {
        let run = |program| desk.finish(&["run", "--backend", backend, "--", program]);
        run("no-such-program").refused(127, "PROGRAM_NOT_FOUND");
        run("/nowhere/program").refused(127, "PROGRAM_NOT_FOUND");
        run("./plain").refused(126, "PROGRAM_NOT_EXECUTABLE");
        run("true").succeeded();
    }
}

#[test]
fn ten_megabytes_pass_through_the_pipes_unchanged() {
    let desk = Desk::new();
    let input: String = (0..10 << 20)
        .map(|n: u32| char::from(b' ' + (n * 7 % 95) as u8))
        .collect();
    for backend in ["native", "none"] {
        let finished = desk.feed(
            &["run", "--backend", backend, "--", "cat"],
            input.as_bytes(),
        );
        finished.succeeded();
        assert!(
            finished.stdout == input,
            "{} bytes came back",
            finished.stdout.len()
        );
    }
}

// REQ BK-7, SW-2
#[test]
fn the_badge_line_says_what_runs() {
    let desk = Desk::new();
    let native = desk.finish(&sh(&[], "true"));
    native.succeeded();
    assert!(
        native
            .stderr
            .contains("kotak: native · namespaces, no kernel boundary · "),
        "{native:?}"
    );
    let off = desk.finish(&sh(&["--sandbox", "off"], "true"));
    off.succeeded();
    assert!(
        off.stderr.contains("kotak: none · not sandboxed"),
        "{off:?}"
    );
    assert!(!off.stderr.contains("kotak: native"), "{off:?}");
    // A backend that is named is wrapped whatever the switch says.
    let named = desk.finish(&sh(&["--sandbox", "off", "--backend", "native"], "true"));
    named.succeeded();
    assert!(named.stderr.contains("kotak: native"), "{named:?}");
}

// REQ BW-1
#[test]
fn by_default_the_current_directory_is_writable_and_nothing_else_of_the_users_is_visible() {
    let desk = Desk::new();
    let home = desk.path("home");
    std::fs::write(home.join("private"), "mine").unwrap();
    let script = format!("echo new > here; cat {}/private", text(&home));
    let inside = desk.finish(&sh(&["--backend", "native"], &script));
    assert_ne!(inside.code, Some(0), "{inside:?}");
    assert_eq!(inside.stdout, "");
    assert_eq!(
        std::fs::read_to_string(desk.project().join("here")).unwrap(),
        "new\n"
    );
    let outside = desk.finish(&sh(&["--backend", "none"], &script));
    outside.succeeded();
    assert_eq!(outside.stdout, "mine");
}

#[test]
fn modes_and_read_only_binds_and_protected_paths_refuse_writes() {
    let desk = Desk::new();
    let project = text(&desk.project());
    let kept = text(&desk.project().join("kept"));
    std::fs::create_dir(&kept).unwrap();
    let write = "echo x > kept/file";
    for options in [
        &["--mode", "review"][..],
        &["--mode", "plan"],
        &["--mode", "orchestrate"],
        &["--ro-bind", &project],
        &["--protect", &kept],
    ] {
        let finished = desk.finish(&sh(options, write));
        assert_ne!(finished.code, Some(0), "{options:?} {finished:?}");
        finished.unblamed();
        assert!(!desk.project().join("kept/file").exists(), "{options:?}");
    }
    desk.finish(&sh(&["--mode", "chat"], write)).succeeded();
    assert!(desk.project().join("kept/file").exists());
}

#[test]
fn signals_are_passed_on_to_the_program() {
    let desk = Desk::new();
    for backend in ["native", "none"] {
        for (signal, script, code) in [
            (
                Signal::SIGTERM,
                "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done",
                9,
            ),
            (
                Signal::SIGINT,
                "trap 'exit 8' INT; echo up; while :; do sleep 0.05; done",
                8,
            ),
            (Signal::SIGTERM, "echo up; exec sleep 600", 143),
        ] {
            let mut child = desk
                .kotak(&sh(&["--backend", backend], script))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut up = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut up)
                .unwrap();
            assert_eq!(up, "up\n");
            kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
            assert_eq!(
                child.wait().unwrap().code(),
                Some(code),
                "{backend} {script}"
            );
        }
    }
}

#[test]
fn what_a_program_leaves_behind_is_ended_with_it() {
    let desk = Desk::new();
    for backend in ["native", "none"] {
        let beat = desk.project().join(format!("beat-{backend}"));
        let script = format!(
            "setsid sh -c 'trap \"\" HUP TERM; while :; do date +%s%N > {0}; sleep 0.05; done' \
             >/dev/null 2>&1 </dev/null & while [ ! -s {0} ]; do sleep 0.02; done",
            text(&beat)
        );
        desk.finish(&sh(&["--backend", backend], &script))
            .succeeded();
        let before = std::fs::read(&beat).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(400));
        assert_eq!(
            std::fs::read(&beat).unwrap(),
            before,
            "{backend}: it still beats"
        );
    }
}

#[test]
fn the_environment_is_an_allowlist_that_env_opens_by_name() {
    let desk = Desk::new();
    let shown = |options: &[&str]| {
        let mut command = desk.kotak(&sh(options, "echo \"<$TOKEN>\""));
        finish(command.env("TOKEN", "t")).stdout
    };
    assert_eq!(shown(&["--backend", "native"]), "<>\n");
    assert_eq!(shown(&["--backend", "native", "--env", "TOKEN"]), "<t>\n");
}

#[test]
fn the_history_lists_what_ran_as_what_and_how_it_ended() {
    let desk = Desk::new();
    assert_eq!(desk.finish(&["sessions"]).stdout, "no sessions yet\n");
    desk.finish(&sh(&["--backend", "none"], "exit 3"));
    desk.finish(&sh(&[], "exit 4"));
    desk.finish(&["run", "--backend", "native", "--", "no-such-program"]);
    desk.finish(&["run", "--backend", "microvm", "--", "true"]);
    let listed = desk.finish(&["sessions", "--json"]);
    let sessions: Vec<SessionRecord> = serde_json::from_str(&listed.stdout).unwrap();
    let rows: Vec<_> = sessions
        .iter()
        .map(|row| {
            (
                row.backend,
                row.exit_code,
                row.error_code.as_deref(),
                row.ended_at_ms.is_some(),
            )
        })
        .collect();
    let (native, none) = (Some(SandboxBackend::Native), Some(SandboxBackend::None));
    // What was refused before anything ran is no session.
    assert_eq!(
        rows,
        [
            (native, None, Some("PROGRAM_NOT_FOUND"), true),
            (native, Some(4), None, true),
            (none, Some(3), None, true),
        ]
    );
    // Without a sandbox the network is the host's, whatever the default of a run is.
    let networks: Vec<_> = sessions.iter().map(|row| row.network).collect();
    let (closed, open) = (Some(NetworkMode::Allowlist), Some(NetworkMode::Open));
    assert_eq!(networks, [closed, closed, open]);
    // Arguments may hold secrets, and are kept nowhere.
    assert!(sessions.iter().skip(1).all(|row| row.program == "sh"));
    let table = desk.finish(&["sessions", "--limit", "1"]);
    assert!(table.stdout.contains("PROGRAM_NOT_FOUND"), "{table:?}");
    assert_eq!(table.stdout.lines().count(), 2, "{table:?}");
}

#[test]
fn a_state_directory_that_cannot_be_used_is_told_and_stops_nothing() {
    let desk = Desk::new();
    std::fs::write(desk.path("state"), "in the way").unwrap();
    let finished = desk.finish(&sh(&["--backend", "native"], "echo ran"));
    finished.succeeded();
    assert_eq!(finished.stdout, "ran\n");
    assert!(
        finished.stderr.contains("[STATE_DIR_UNWRITABLE]"),
        "{finished:?}"
    );
}

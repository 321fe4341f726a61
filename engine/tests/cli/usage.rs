//! Bad input: each a typed error with a fix, and nothing runs.

use super::*;

/// Runs something that leaves a marker when it runs.
fn leave_marker<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run"];
    args.extend(options);
    args.extend(["--", "touch", "marker"]);
    args
}

#[track_caller]
fn refused_without_running(desk: &Desk, options: &[&str], exit: i32, code: &str) {
    desk.finish(&leave_marker(options)).refused(exit, code);
    assert!(!desk.marker().exists(), "nothing may have run");
}

// REQ BK-2, SW-4
#[test]
fn a_backend_name_that_is_none_is_refused_and_the_four_names_are_known() {
    let desk = Desk::new();
    for name in ["docker", "bwrap", "Native", ""] {
        refused_without_running(&desk, &["--backend", name], 2, "UNKNOWN_BACKEND");
    }
    for name in ["native", "none", "auto"] {
        desk.finish(&leave_marker(&["--backend", name])).succeeded();
        std::fs::remove_file(desk.marker()).unwrap();
    }
}

// REQ BK-6, SW-3
#[test]
fn microvm_asked_for_by_name_fails_loudly_whatever_the_switch_says() {
    let desk = Desk::new();
    for switch in ["on", "off"] {
        let args = leave_marker(&["--sandbox", switch, "--backend", "microvm"]);
        let finished = desk.finish(&args);
        finished.refused(3, "MICROVM_UNAVAILABLE");
        assert!(finished.stderr.contains("\n  cause: "), "{finished:?}");
        assert!(!finished.stderr.contains("kotak: native"), "{finished:?}");
        assert!(
            !finished.stderr.contains("--sandbox off."),
            "no fix is to opt out: {finished:?}"
        );
        assert!(!desk.marker().exists());
    }
}

// REQ SW-1
#[test]
fn the_switch_takes_on_and_off_and_nothing_else() {
    let desk = Desk::new();
    let code = "SANDBOX_SWITCH_INVALID";
    refused_without_running(&desk, &["--sandbox", "maybe"], 2, code);
    for variable in ["KOTAK_SANDBOX", "CC_SERVER_SANDBOX"] {
        finish(desk.kotak(&leave_marker(&[])).env(variable, "1")).refused(2, code);
        assert!(!desk.marker().exists());
        // The flag wins over either.
        finish(
            desk.kotak(&leave_marker(&["--sandbox", "on"]))
                .env(variable, "1"),
        )
        .succeeded();
        std::fs::remove_file(desk.marker()).unwrap();
    }
}

#[test]
fn a_malformed_spec_is_refused_by_field_and_a_good_one_runs() {
    let desk = Desk::new();
    let project = text(&desk.project());
    let good = format!(
        r#"{{"sessionId":"s","workspaceId":"w","bindMounts":[{{"hostPath":"{project}"}}],"guestWorkdir":"{project}"}}"#
    );
    let args = ["run", "--spec", "-", "--", "touch", "marker"];
    for bad in [
        "",
        "[]",
        "{",
        r#"{"sessionId":"s"}"#,
        &good.replace("sessionId", "sessionID"),
        &good.replace("hostPath", "hostpath"),
        &good.replace(r#""s""#, "7"),
    ] {
        desk.feed(&args, bad.as_bytes())
            .refused(2, "SPEC_MALFORMED");
        assert!(!desk.marker().exists(), "{bad}");
    }
    let unenforced = good.replacen('{', r#"{"resources":{"processes":9},"#, 1);
    let finished = desk.feed(&args, unenforced.as_bytes());
    finished.refused(2, "FIELD_NOT_ENFORCED");
    assert!(finished.stderr.contains("resources"), "{finished:?}");
    let pattern = good.replacen('{', r#"{"egressAllowlist":["example.org","*.com"],"#, 1);
    let finished = desk.feed(&args, pattern.as_bytes());
    finished.refused(2, "SPEC_HOST_PATTERN_INVALID");
    let named = "egressAllowlist[1] cannot be matched: \"*.com\"";
    assert!(finished.stderr.contains(named), "{finished:?}");
    desk.feed(&args, b"\xff\xfe").refused(2, "SPEC_UNREADABLE");
    desk.finish(&["run", "--spec", "/nowhere/spec.json", "--", "true"])
        .refused(2, "SPEC_UNREADABLE");
    assert!(!desk.marker().exists());

    desk.feed(&args, good.as_bytes()).succeeded();
    assert!(desk.marker().exists());
    let file = desk.path("spec.json");
    std::fs::write(&file, good).unwrap();
    desk.finish(&["run", "--spec", &text(&file), "--", "true"])
        .succeeded();
}

#[test]
fn relative_and_missing_paths_are_refused() {
    let desk = Desk::new();
    let project = text(&desk.project());
    let missing = text(&desk.path("missing"));
    for option in ["--bind", "--ro-bind"] {
        refused_without_running(&desk, &[option, "project"], 2, "SPEC_PATH_INVALID");
        refused_without_running(&desk, &[option, ""], 2, "USAGE");
        refused_without_running(&desk, &[option, &missing], 2, "BIND_SOURCE_MISSING");
    }
    refused_without_running(&desk, &["--cwd", "project"], 2, "SPEC_PATH_INVALID");
    refused_without_running(&desk, &["--protect", "src"], 2, "SPEC_PATH_INVALID");
    let terminal = ["--profile", "terminal", "--cwd", &missing];
    refused_without_running(&desk, &terminal, 2, "WORKDIR_MISSING");
    desk.finish(&leave_marker(&["--bind", &project]))
        .succeeded();
    assert!(desk.marker().exists());
}

// REQ BW-5, BW-6
#[test]
fn rules_and_grants_that_make_no_sense_are_refused_by_name() {
    let desk = Desk::new();
    let project = text(&desk.project());
    for (options, code) in [
        (&["--filename-rule", "[a"][..], "SPEC_GLOB_INVALID"),
        (&["--filename-rule", "/etc/x"], "SPEC_GLOB_INVALID"),
        (
            &["--filename-exception", "a/*.pem"],
            "SPEC_EXCEPTIONS_UNUSED",
        ),
        (&["--exec-grant", "/usr/src/x"], "SPEC_EXEC_GRANTS_UNUSED"),
        (&["--exec-restriction", "strict"], "FIELD_NOT_ENFORCED"),
        (
            &["--exec-restriction", "writable", "--exec-grant", "/"],
            "EXEC_GRANT_INVALID",
        ),
        (&["--exec-restriction", "most"], "USAGE"),
        (&["--profile", "terminal", "--bind", &project], "USAGE"),
        (&["--profile", "terminal", "--ro-bind", &project], "USAGE"),
    ] {
        refused_without_running(&desk, options, 2, code);
        // The same is said of dispatch, where it means something.
        if !options.contains(&"--profile") && code != "SPEC_EXCEPTIONS_UNUSED" {
            let dispatch = [options, &["--profile", "dispatch"]].concat();
            refused_without_running(&desk, &dispatch, 2, code);
        }
    }
}

// REQ BW-4, SW-3
#[test]
fn what_only_a_sandbox_can_hold_is_refused_without_one() {
    let desk = Desk::new();
    for options in [
        &["--profile", "dispatch"][..],
        &["--filename-rule", "*.key"],
        &["--exec-restriction", "writable"],
    ] {
        let none = [options, &["--backend", "none"]].concat();
        refused_without_running(&desk, &none, 2, "FIELD_NOT_ENFORCED");
        let off = [options, &["--sandbox", "off"]].concat();
        refused_without_running(&desk, &off, 2, "FIELD_NOT_ENFORCED");
    }
    desk.finish(&leave_marker(&["--backend", "none"]))
        .succeeded();
    assert!(desk.marker().exists());
}

// REQ BW-5, SP-1
#[test]
fn a_path_is_explained_by_its_rule_and_nothing_is_launched() {
    let desk = Desk::new();
    let project = text(&desk.project());
    let key = format!("{project}/new.key");
    let rules = ["--bind", &project, "--filename-rule", "*.key"];
    let ask = |path: &str, more: &[&str]| {
        let args = [&["explain", "path", path, "--json"], more].concat();
        let run = desk.finish(&args);
        let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        (run.code.unwrap(), found)
    };
    let (code, found) = ask(&key, &rules);
    assert_eq!(code, 1, "{found}");
    assert_eq!(found["create"]["allowed"], false, "{found}");
    assert_eq!(found["exists"], false, "{found}");
    let why = found["create"]["why"].as_str().unwrap();
    assert!(why.contains("*.key"), "{found}");
    // The control: without the rule it can be made.
    let (code, found) = ask(&key, &["--bind", &project]);
    assert_eq!(code, 0, "{found}");
    assert_eq!(found["create"]["allowed"], true, "{found}");
    let (code, found) = ask("/usr/bin/env", &["--bind", &project]);
    assert_eq!(
        (code, &found["execute"]["allowed"]),
        (1, &true.into()),
        "{found}"
    );
    desk.finish(&["explain", "path", &key, "--session", "none"])
        .refused(2, "NO_SUCH_SESSION");
    let words = desk.finish(&["explain", "path", &key, "--bind", &project]);
    assert!(words.stdout.contains("create   yes"), "{words:?}");
}

#[test]
fn a_shell_without_a_terminal_is_refused() {
    let desk = Desk::new();
    desk.feed(&["shell"], b"exit 0\n").refused(2, "NO_TERMINAL");
}

#[test]
fn wrong_usage_names_what_is_wrong() {
    let desk = Desk::new();
    desk.finish(&["frobnicate"]).refused(2, "USAGE");
    desk.finish(&["run", "--bind"]).refused(2, "USAGE");
    desk.finish(&["run", "--mode", "write", "--", "true"])
        .refused(2, "USAGE");
    desk.finish::<&str>(&[]).refused(2, "USAGE");
    let spec = ["run", "--spec", "-", "--bind", "/a", "--", "true"];
    desk.finish(&spec).refused(2, "USAGE");
}

#[test]
fn errors_are_problems_in_json_when_asked_for() {
    let desk = Desk::new();
    for args in [
        &["--json", "run", "--backend", "x", "--", "true"][..],
        &["--json", "frobnicate"][..],
        &["sessions", "--json", "--limit", "x"][..],
    ] {
        let finished = desk.finish(args);
        assert_eq!(finished.code, Some(2), "{finished:?}");
        let problem: kotak_engine::error::Problem =
            serde_json::from_str(finished.stderr.trim()).unwrap();
        assert!(
            ["UNKNOWN_BACKEND", "USAGE"].contains(&problem.code.as_str()),
            "{problem:?}"
        );
        assert!(problem.fix.is_some());
    }
}

#[test]
fn help_tells_the_exit_codes_and_the_default_bind() {
    let desk = Desk::new();
    let help = desk.finish(&["--help"]);
    help.succeeded();
    for line in ["  3     the backend is not available", "  125 ", "  128+n "] {
        assert!(help.stdout.contains(line), "{}", help.stdout);
    }
    let help = desk.finish(&["run", "--help"]);
    assert!(
        help.stdout
            .contains("the current directory is the one writable bind")
    );
}

// REQ PR-3, PR-6
#[test]
fn probe_says_the_start_up_line_once_and_reports_every_backend() {
    let desk = Desk::new();
    let finished = desk.finish(&["probe", "--json"]);
    finished.succeeded();
    let report: kotak_engine::probe::HostReport = serde_json::from_str(&finished.stdout).unwrap();
    let names: Vec<_> = report
        .backends
        .iter()
        .map(|row| (row.backend.name(), row.available))
        .collect();
    assert_eq!(
        names,
        [("microvm", false), ("native", true), ("none", true)]
    );
    let lines = finished.stderr.matches("agent sandbox").count();
    assert_eq!(lines, 1, "{finished:?}");
    assert!(
        finished.stderr.contains(&report.verdict.line),
        "{finished:?}"
    );

    let off = desk.finish(&["--sandbox", "off", "probe"]);
    off.succeeded();
    assert!(
        off.stderr
            .contains("agent sandbox DISABLED by --sandbox off"),
        "{off:?}"
    );
}

#[test]
fn probe_ends_with_3_where_native_is_not_available_and_a_run_starts_nothing() {
    let desk = Desk::new();
    // Another file system table, in which bubblewrap is a program that fails.
    let masked = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command.arg("mount --bind /bin/false \"$(command -v bwrap)\" && exec \"$0\" \"$@\"");
        command.arg(env!("CARGO_BIN_EXE_kotak"));
        finish(&mut desk.prepare(command, args))
    };
    let probe = masked(&["probe"]);
    assert_eq!(probe.code, Some(3), "{probe:?}");
    for backend in ["native", "auto"] {
        let run = masked(&leave_marker(&["--backend", backend]));
        assert_eq!(run.code, Some(3), "{run:?}");
        assert!(run.stderr.contains("UNAVAILABLE]"), "{run:?}");
        assert!(!desk.marker().exists());
    }
    desk.finish(&leave_marker(&["--backend", "native"]))
        .succeeded();
    assert!(desk.marker().exists());
}

//! Workspaces with odd names, paths with two spellings, and programs in what can be written.

use kotak_tests::field::{Field, Rules};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn rules_hold_in_a_workspace_with_any_name() {
    // launch case: workspace path with spaces, newlines, quotes, non-UTF-8 bytes, leading `-`
    for name in [
        &b"with space"[..],
        b"new\nline",
        b"quo'te\"$(x)`",
        b"-dash",
        b"not\xffutf-8",
        b"gl*b[a]?{b,c}!",
    ] {
        let field = Field::new();
        let dir = field.work().join(OsStr::from_bytes(name));
        std::fs::create_dir(&dir).expect("a directory");
        let call = |rules: &[&str]| {
            let call = kotak_tests::Kotak::new(field.stage().home(), &dir);
            let call = call.args(["run", "--backend", "native"]);
            // A spec holds text; the terminal takes any directory.
            let call = match std::str::from_utf8(name) {
                Ok(_) => call.arg("--bind").arg(&dir),
                Err(_) => call.args(["--profile", "terminal"]),
            };
            call.args(rules)
                .args(["--", "/bin/sh", "-c"])
                .arg("echo x > fine; echo x > \"$PWD/.env\"")
                .run()
        };
        let inside = call(&["--filename-rule", ".env"]);
        let shown = String::from_utf8_lossy(name);
        assert!(dir.join("fine").exists(), "{shown:?}: {inside:?}");
        assert!(!dir.join(".env").exists(), "{shown:?}: {inside:?}");
        assert!(
            inside.stderr.contains("ermission denied"),
            "{shown:?}: {inside:?}"
        );
        let control = call(&[]);
        assert!(
            dir.join(".env").exists(),
            "the control {shown:?}: {control:?}"
        );
    }
}

#[test]
fn a_path_is_protected_in_both_spellings() {
    // launch case: symlinked paths denied only in one spelling (REQ SP-2)
    for protected in ["alias/safe", "real/safe"] {
        for path in ["alias/safe", "real/safe"] {
            let field = Field::new();
            field.prepare("mkdir real && ln -s real alias");
            let before = field.inventory();
            let line = format!("mkdir {path}");
            let run = field.shell(&Rules::protecting(protected), &line);
            assert_ne!(run.outcome.code, 0, "{protected}, {path}: {run:?}");
            assert_eq!(field.inventory(), before, "{protected}, {path}");
            assert_eq!(field.refusals(&run.session).len(), 1, "{protected}, {path}");
            let control = field.shell(&Rules::names(), &line);
            assert!(control.outcome.succeeded(), "the control: {control:?}");
        }
    }
}

#[test]
fn a_program_that_was_written_inside_runs_only_where_that_was_granted() {
    // REQ BW-6
    let field = Field::new();
    field.prepare("mkdir bin && printf '#!/bin/sh\\necho ran\\n' > script && cp script bin && chmod 755 script bin/script");
    let restricted = Rules {
        exec: Some("writable"),
        ..Rules::names()
    };
    for line in [
        "./script",
        "cp script own && ./own",
        "cp /bin/true prog && ./prog",
        "bin/script",
    ] {
        let run = field.shell(&restricted, line);
        assert_eq!(run.outcome.code, 126, "`{line}`: {run:?}");
        let rows = field.refusals(&run.session);
        assert_eq!(rows.len(), 1, "`{line}`: {rows:?}");
        assert_eq!(rows[0].action, "process-exec", "`{line}`: {rows:?}");
        let name = line.rsplit('/').next().unwrap_or_default();
        assert!(rows[0].target.ends_with(name), "`{line}`: {rows:?}");
        let control = field.shell(&Rules::names(), line);
        assert!(
            control.outcome.succeeded(),
            "the control `{line}`: {control:?}"
        );
    }
    let granted = Rules {
        exec_roots: vec!["bin"],
        ..restricted.clone()
    };
    let run = field.shell(&granted, "bin/script && ! ./script 2>/dev/null");
    assert_eq!(
        (run.outcome.code, run.outcome.stdout.as_str()),
        (0, "ran\n"),
        "{run:?}"
    );
    // A shell that reads a script runs itself, not the script.
    let run = field.shell(&restricted, "sh ./script");
    assert_eq!(run.outcome.stdout, "ran\n", "{run:?}");
}

//! General specs with bind mounts (REQ BW-1, SP bindMounts, runnerStateDirs, modes).

use kotak_tests::stage::{SECRET, Stage};
use kotak_tests::{Kotak, Outcome};
use serde_json::{Value, json};
use std::path::Path;

fn spec(stage: &Stage, binds: &Value, more: &Value) -> String {
    let mut spec = json!({
        "sessionId": "conformance", "workspaceId": "w", "bindMounts": binds,
        "guestWorkdir": stage.work(),
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    spec.to_string()
}

fn run(stage: &Stage, spec: &str, script: &str) -> Outcome {
    stage.write("spec.json", spec);
    stage
        .kotak()
        .args(["run", "--backend", "native", "--spec"])
        .arg(stage.home().join("spec.json"))
        .args(["--", "/bin/sh", "-c", script])
        .run()
}

#[test]
fn only_bound_paths_are_visible() {
    // REQ BW-1
    let stage = Stage::new();
    let spec = spec(&stage, &json!([{ "hostPath": stage.work() }]), &json!({}));
    let home = stage.home().display().to_string();
    let inside = run(
        &stage,
        &spec,
        &format!("cat readme.txt; cat {home}/notes/todo.txt"),
    );
    assert_ne!(inside.code, 0, "{inside:?}");
    assert_eq!(inside.stdout, "hello\n", "{inside:?}");
    let listing = run(&stage, &spec, &format!("ls -A {home}"));
    assert_eq!(listing.stdout.trim(), "work", "{listing:?}");
    for hidden in ["/home", "/root", "/mnt", "/media", "/boot", "/var/log"] {
        let outcome = run(
            &stage,
            &spec,
            &format!("ls -A {hidden} 2>/dev/null | grep -v '^kotak-'"),
        );
        let own = stage.home().starts_with(hidden);
        assert!(
            own || outcome.stdout.trim().is_empty(),
            "{hidden}: {outcome:?}"
        );
    }
}

#[test]
fn a_read_only_bind_is_read_only_and_a_writable_one_is_not() {
    let stage = Stage::new();
    let notes = stage.home().join("notes");
    let binds = json!([{ "hostPath": stage.work() }, { "hostPath": notes, "readOnly": true }]);
    let spec = spec(&stage, &binds, &json!({}));
    let notes = notes.display();
    assert_ne!(
        run(&stage, &spec, &format!("echo x > {notes}/todo.txt")).code,
        0
    );
    assert_ne!(run(&stage, &spec, &format!("touch {notes}/new")).code, 0);
    assert!(
        run(&stage, &spec, "echo x > new && rm new").succeeded(),
        "the control failed"
    );
    assert_eq!(stage.read("notes/todo.txt").as_deref(), Some("buy milk\n"));
}

#[test]
fn the_most_specific_rule_wins_whatever_the_order() {
    let stage = Stage::new();
    stage.write("work/out/keep", "k\n");
    stage.write("work/out/deep/rw/keep", "k\n");
    let outer = json!({ "hostPath": stage.work() });
    let middle = json!({ "hostPath": stage.work().join("out"), "readOnly": true });
    let inner = json!({ "hostPath": stage.work().join("out/deep/rw") });
    for binds in [
        json!([outer, middle, inner]),
        json!([inner, middle, outer]),
        json!([middle, inner, outer]),
    ] {
        let spec = spec(&stage, &binds, &json!({}));
        let inside = run(
            &stage,
            &spec,
            "touch a && ! touch out/b 2>/dev/null && ! touch out/deep/c 2>/dev/null && \
             touch out/deep/rw/d && rm a out/deep/rw/d",
        );
        assert!(inside.succeeded(), "{binds}: {inside:?}");
    }
}

#[test]
fn modes_make_binds_read_only_but_runner_state_stays_writable() {
    // REQ SP mode, runnerStateDirs
    let stage = Stage::new();
    stage.write("runner/state", "s\n");
    let runner = stage.home().join("runner");
    for mode in ["chat", "review", "plan", "orchestrate"] {
        let more = json!({ "mode": mode, "runnerStateDirs": [runner] });
        let spec = spec(&stage, &json!([{ "hostPath": stage.work() }]), &more);
        let state = run(
            &stage,
            &spec,
            &format!("echo {mode} > {}/state", runner.display()),
        );
        assert!(state.succeeded(), "{mode}: runner state: {state:?}");
        assert_eq!(
            stage.read("runner/state").as_deref(),
            Some(format!("{mode}\n").as_str())
        );
        let write = run(&stage, &spec, "touch new && rm new");
        assert_eq!(write.succeeded(), mode == "chat", "{mode}: {write:?}");
    }
}

#[test]
fn protected_paths_hold_inside_a_writable_bind_in_every_mode() {
    // REQ SP protectedPaths
    let stage = Stage::new();
    stage.write("work/original/file", "o\n");
    let protected = stage.work().join("original");
    for mode in ["chat", "review", "plan", "orchestrate"] {
        let more = json!({ "mode": mode, "protectedPaths": [protected] });
        let spec = spec(&stage, &json!([{ "hostPath": stage.work() }]), &more);
        assert_ne!(
            run(&stage, &spec, "echo evil > original/file").code,
            0,
            "{mode}"
        );
        assert_ne!(run(&stage, &spec, "mv original o2").code, 0, "{mode}");
    }
    let open = spec(&stage, &json!([{ "hostPath": stage.work() }]), &json!({}));
    assert!(
        run(&stage, &open, "echo x > original/file").succeeded(),
        "the control failed"
    );
}

#[test]
fn a_bind_of_the_home_still_masks_secrets_and_protects() {
    let stage = Stage::new();
    let spec = spec(&stage, &json!([{ "hostPath": stage.home() }]), &json!({}));
    let inside = run(
        &stage,
        &spec,
        &format!("cat {}/.ssh/secret", stage.home().display()),
    );
    assert!(!inside.stdout.contains(SECRET), "{inside:?}");
    let write = run(
        &stage,
        &spec,
        &format!("echo x >> {}/.bashrc", stage.home().display()),
    );
    assert_ne!(write.code, 0);
    let control = run(
        &stage,
        &spec,
        &format!("echo x >> {}/notes/todo.txt", stage.home().display()),
    );
    assert!(control.succeeded(), "the control failed: {control:?}");
}

#[test]
fn a_restricted_network_has_no_route_out() {
    // REQ EG-7, EG-8: restricted modes have no route at all until the proxies exist
    let stage = Stage::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let attempt = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)' \
         2>/dev/null && echo connected"
    );
    let binds = json!([{ "hostPath": stage.work() }]);
    let off = json!({ "networkEnabled": false });
    for more in [
        json!({}),
        off,
        json!({ "networkMode": "ask" }),
        json!({ "networkMode": "off" }),
    ] {
        let spec = spec(&stage, &binds, &more);
        let inside = run(&stage, &spec, &attempt);
        assert!(!inside.stdout.contains("connected"), "{more}: {inside:?}");
        let links = run(
            &stage,
            &spec,
            "ls /sys/class/net 2>/dev/null; cat /proc/net/dev",
        );
        assert!(
            !links.stdout.contains("eth") && !links.stdout.contains("veth"),
            "{links:?}"
        );
        let loopback = run(
            &stage,
            &spec,
            "python3 -c 'import socket; s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); \
             socket.create_connection(s.getsockname()); print(\"loop\")'",
        );
        assert_eq!(
            loopback.stdout.trim(),
            "loop",
            "loopback works inside: {loopback:?}"
        );
    }
    let open = stage.terminal(&attempt);
    assert!(
        open.stdout.contains("connected"),
        "the control failed: {open:?}"
    );
}

#[test]
fn a_spec_with_five_thousand_paths_launches() {
    // launch case: path list longer than the kernel's argument limit, or bwrap's
    let stage = Stage::new();
    let root = stage.work().join("many");
    let binds: Vec<Value> = (0..2500)
        .map(|n| {
            let dir = root.join(format!("{n:04}-{}", "x".repeat(60)));
            std::fs::create_dir_all(&dir).expect("a directory");
            json!({ "hostPath": dir, "readOnly": n % 2 == 0 })
        })
        .collect();
    let protected: Vec<_> = (0..2500)
        .map(|n| {
            let dir = root.join(format!("protected-{n:04}-{}", "y".repeat(60)));
            std::fs::create_dir_all(&dir).expect("a directory");
            dir
        })
        .collect();
    let mut all = vec![json!({ "hostPath": stage.work() })];
    all.extend(binds);
    let spec = spec(&stage, &json!(all), &json!({ "protectedPaths": protected }));
    let inside = run(&stage, &spec, "ls many | wc -l");
    assert_eq!(
        (inside.code, inside.stdout.trim()),
        (0, "5000"),
        "{}",
        inside.stderr
    );
}

#[test]
fn more_mounts_than_can_be_launched_are_refused_with_the_folder_that_holds_most() {
    let stage = Stage::new();
    let many = stage.work().join("many");
    let protected: Vec<_> = (0..6_100)
        .map(|n| {
            let dir = many.join(n.to_string());
            std::fs::create_dir_all(&dir).expect("a directory");
            dir
        })
        .collect();
    let with = |count: usize| {
        let binds = json!([{ "hostPath": stage.work() }]);
        let more = json!({ "protectedPaths": protected[..count] });
        run(&stage, &spec(&stage, &binds, &more), "echo ran")
    };
    let refused = with(protected.len());
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("[TOO_MANY_MOUNTS]"), "{refused:?}");
    let named = format!("  fix: Work in a smaller folder than {}", many.display());
    assert!(refused.stderr.contains(&named), "{refused:?}");
    assert_eq!(refused.stdout, "", "something ran: {refused:?}");
    assert_eq!(with(100).stdout, "ran\n", "the control failed");
}

#[test]
fn binds_of_kotaks_own_directories_are_refused() {
    let stage = Stage::new();
    assert!(stage.terminal("true").succeeded());
    for own in [".local/state/kotak", ".config/kotak"] {
        std::fs::create_dir_all(stage.home().join(own)).expect("a directory");
        let spec = spec(
            &stage,
            &json!([{ "hostPath": stage.home().join(own) }]),
            &json!({}),
        );
        let refused = run(&stage, &spec, "echo ran");
        assert_eq!(refused.code, 2, "{own}: {refused:?}");
        assert!(!refused.stdout.contains("ran"), "{own}: {refused:?}");
    }
}

#[test]
fn unusable_binds_are_clear_errors() {
    let stage = Stage::new();
    for (bind, why) in [
        (json!({ "hostPath": "work" }), "relative"),
        (
            json!({ "hostPath": stage.home().join("not-there") }),
            "missing",
        ),
        (json!({ "hostPath": "/proc/self" }), "proc"),
        (
            json!({ "hostPath": stage.work(), "guestPath": "/elsewhere" }),
            "guestPath",
        ),
        (
            json!({ "hostPath": stage.work(), "extra": true }),
            "unknown field",
        ),
    ] {
        let spec = spec(
            &stage,
            &json!([{ "hostPath": stage.home().join("notes") }, bind]),
            &json!({ "guestWorkdir": stage.home().join("notes") }),
        );
        let refused = run(&stage, &spec, "echo ran");
        assert_eq!(refused.code, 2, "{why}: {refused:?}");
        assert!(!refused.stdout.contains("ran"), "{why}: {refused:?}");
        assert!(
            refused.stderr.contains("fix:") && refused.stderr.contains('['),
            "{why}: {refused:?}"
        );
    }
}

#[test]
fn a_field_without_a_mechanism_is_refused_by_name() {
    let stage = Stage::new();
    let binds = json!([{ "hostPath": stage.work() }]);
    for (field, value) in [
        ("execRestriction", json!("strict")),
        ("execGrantRoots", json!([stage.work()])),
        ("resources", json!({ "processes": 10 })),
    ] {
        let refused = run(
            &stage,
            &spec(&stage, &binds, &json!({ field: value })),
            "echo ran",
        );
        assert_eq!(refused.code, 2, "{field}: {refused:?}");
        assert!(
            refused.stderr.contains(field),
            "{field} is named: {refused:?}"
        );
        assert!(!refused.stdout.contains("ran"), "{field}: {refused:?}");
    }
    let control = run(&stage, &spec(&stage, &binds, &json!({})), "echo ran");
    assert_eq!(control.stdout, "ran\n", "the control failed: {control:?}");
}

#[test]
fn standard_dispatch_makes_files_and_no_keys() {
    // REQ BW-4, BW-5
    let stage = Stage::new();
    let work = stage.work();
    let run = |profile: &[&str]| {
        let script = "echo a > a.txt; for f in .env x.key y.PEM; do echo s > $f; done; ls -A";
        stage
            .kotak()
            .args(["run", "--backend", "native", "--bind"])
            .arg(&work)
            .args(["--cwd"])
            .arg(&work)
            .args(profile)
            .args(["--", "sh", "-c", script])
            .run()
    };
    let dispatch = run(&["--profile", "dispatch"]);
    assert_eq!(dispatch.code, 0, "{dispatch:?}");
    assert!(work.join("a.txt").exists(), "{dispatch:?}");
    for name in [".env", "x.key", "y.PEM"] {
        assert!(!work.join(name).exists(), "{name}: {dispatch:?}");
    }
    // The control: without the profile they can be made.
    let plain = run(&[]);
    for name in [".env", "x.key", "y.PEM"] {
        assert!(work.join(name).exists(), "{name}: {plain:?}");
    }
}

#[test]
fn odd_names_work() {
    // launch case: spaces, newlines, quotes, non-UTF-8 bytes, leading `-`
    use std::os::unix::ffi::OsStrExt;
    let stage = Stage::new();
    for name in [
        &b"with space"[..],
        b"new\nline",
        b"qu\"o'te`$(x)",
        b"-leading",
        &b"long-".repeat(40),
        b"bytes-\xff\xfe",
        "unic\u{f6}de-\u{202e}x".as_bytes(),
    ] {
        let dir = stage.home().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir(&dir).expect("a directory");
        std::fs::write(dir.join("f"), "content").expect("a file");
        let bound = Kotak::new(stage.home(), &dir)
            .args(["run", "--backend", "native", "--bind"])
            .arg(&dir)
            .args(["--", "/bin/sh", "-c", "cat ./f && echo -n new > ./g"])
            .run();
        if std::str::from_utf8(name).is_ok() {
            assert_eq!(
                (bound.code, bound.stdout.as_str()),
                (0, "content"),
                "{name:?}: {bound:?}"
            );
            assert!(dir.join("g").exists(), "{name:?}");
        } else {
            // A spec is text; the terminal profile takes any folder.
            assert_eq!(bound.code, 2, "{bound:?}");
            assert!(bound.stderr.contains("[PATH_NOT_TEXT]"), "{bound:?}");
            assert!(!dir.join("g").exists(), "{name:?}");
        }
        let terminal = terminal_in(&stage, &dir);
        assert_eq!(
            (terminal.code, terminal.stdout.as_str()),
            (0, "content"),
            "{name:?}: {terminal:?}"
        );
    }
}

fn terminal_in(stage: &Stage, dir: &Path) -> Outcome {
    Kotak::new(stage.home(), dir)
        .args([
            "run",
            "--backend",
            "native",
            "--profile",
            "terminal",
            "--cwd",
        ])
        .arg(dir)
        .args(["--", "/bin/cat", "./f"])
        .run()
}

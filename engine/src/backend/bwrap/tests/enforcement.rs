//! What the guard must find, and what the report then claims.

use super::*;

#[test]
fn capabilities_are_dropped_and_the_kernels_controls_are_read_only() {
    let plan = terminal_plan();
    let args: Vec<&[u8]> = plan.blocks[0].args.iter().map(Vec::as_slice).collect();
    let has = |wanted: &[&[u8]]| args.windows(wanted.len()).any(|found| found == wanted);
    assert!(has(&[b"--cap-drop", b"ALL"]));
    assert!(!args.contains(&b"--cap-add".as_slice()));
    assert!(has(&[b"--ro-bind", b"/proc/sys", b"/proc/sys"]));
    for flag in [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
    ] {
        assert!(args.contains(&flag.as_bytes()), "{flag}");
    }
    assert!(has(&[b"--die-with-parent", b"--as-pid-1"]));
    assert!(has(&[
        b"--perms",
        b"0000",
        b"--tmpfs",
        b"/home/u/.ssh",
        b"--remount-ro"
    ]));
    assert!(has(&[b"--ro-bind", b"/dev/null", b"/home/u/.netrc"]));
}

#[test]
fn only_an_open_network_is_shared_and_then_landlock_scopes_are_required() {
    for network in [
        NetworkMode::Open,
        NetworkMode::Allowlist,
        NetworkMode::Ask,
        NetworkMode::Off,
    ] {
        let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, network);
        let plan = native_plan(&policy, &facts()).unwrap();
        let open = network == NetworkMode::Open;
        let unshares = plan.blocks[0]
            .args
            .iter()
            .any(|arg| arg == b"--unshare-net");
        assert_eq!(unshares, !open, "{network:?}");
        let expect = expectation(&plan);
        assert_eq!(expect.loopback_only, !open);
        assert_eq!(expect.shared.contains(&Namespace::Network), open);
        assert_eq!(expect.unshared.contains(&Namespace::Network), !open);
        assert_eq!(plan.setup.landlock.required, open);
        assert_eq!(plan.setup.landlock.scope_abstract_unix, open);
    }
}

#[test]
fn an_old_kernel_under_an_open_network_is_a_named_gap_whatever_the_policy_knew() {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Open);
    let old = PlanFacts {
        landlock_abi: 5,
        ..facts()
    };
    let plan = native_plan(&policy, &old).unwrap();
    assert!(!plan.setup.landlock.required);
    let row = row(&plan.enforcement, Aspect::HostSockets);
    assert!(
        row.gaps
            .iter()
            .any(|gap| gap.code == GapKind::AbstractSockets.code())
    );
}

pub(super) fn row(
    enforcement: &crate::backend::Enforcement,
    aspect: Aspect,
) -> &crate::backend::EnforcementRow {
    enforcement
        .aspects
        .iter()
        .find(|row| row.aspect == aspect)
        .unwrap()
}

#[test]
fn missing_facts_and_an_old_bubblewrap_are_refused_by_name() {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Open);
    let old = PlanFacts {
        bwrap_version: (0, 4, 1),
        ..facts()
    };
    assert_eq!(
        native_plan(&policy, &old).unwrap_err().code(),
        "BUBBLEWRAP_TOO_OLD"
    );
    let mut blind = facts();
    blind.namespaces.retain(|(kind, _)| *kind != Namespace::Pid);
    assert_eq!(
        native_plan(&policy, &blind),
        Err(PlanError::NamespaceUnknown("pid"))
    );
    let mut no_cgroup = facts();
    no_cgroup
        .namespaces
        .retain(|(kind, _)| *kind != Namespace::Cgroup);
    let plan = native_plan(&policy, &no_cgroup).unwrap();
    assert!(!expectation(&plan).unshared.contains(&Namespace::Cgroup));
}

/// A report that bears out everything that a plan expects.
pub(super) fn ready(plan: &NativePlan) -> ReadyReport {
    let expect = expectation(plan);
    let mut names = vec!["namespace"; expect.unshared.len() + expect.shared.len()];
    names.extend([
        "pid-namespace",
        "capabilities",
        "no-new-privileges",
        "mount",
        "unreadable",
    ]);
    names.extend(["unwritable", "absent"]);
    if expect.loopback_only {
        names.extend(["loopback-only", "listeners"]);
    }
    if !expect.contents.is_empty() {
        names.push("content");
    }
    ReadyReport {
        passed: names
            .into_iter()
            .map(|name| Check {
                name: name.to_owned(),
                detail: String::new(),
            })
            .collect(),
        cap_eff: 0,
        landlock_abi: 7,
        abstract_unix_scoped: true,
        signals_scoped: true,
        seccomp_programs: u32::try_from(plan.setup.seccomp.len()).unwrap(),
        files_supervised: true,
        exec_restricted: plan.setup.exec.is_some(),
    }
}

#[test]
fn a_full_report_confirms_the_plan_as_it_is() {
    for (network, way) in [
        (NetworkMode::Open, None),
        (NetworkMode::Off, Some(way_in())),
        (NetworkMode::Ask, Some(way_in())),
    ] {
        let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, network);
        let plan = native_plan(&policy, &facts()).unwrap();
        let confirmed = confirm(&plan, &ready(&plan), way.as_ref());
        assert_eq!(confirmed, plan.enforcement);
    }
}

pub(super) fn way_in() -> WayIn {
    WayIn {
        bridge: Bridge::Guard,
        blind: None,
    }
}

#[test]
fn what_the_guard_did_not_see_is_not_claimed() {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Off);
    let plan = native_plan(&policy, &facts()).unwrap();
    for (missing, aspect) in [
        ("namespace", Aspect::Mounts),
        ("mount", Aspect::Mounts),
        ("unreadable", Aspect::SecretReads),
        ("unwritable", Aspect::ProtectedWrites),
        ("pid-namespace", Aspect::Processes),
        ("capabilities", Aspect::Processes),
        ("no-new-privileges", Aspect::Processes),
        ("loopback-only", Aspect::Network),
        ("listeners", Aspect::Network),
        ("content", Aspect::Network),
        ("absent", Aspect::HostSockets),
    ] {
        let mut report = ready(&plan);
        report.passed.retain(|check| check.name != missing);
        let confirmed = confirm(&plan, &report, Some(&way_in()));
        let row = row(&confirmed, aspect);
        assert_eq!(row.level, Level::Off, "{missing}");
        assert!(
            row.gaps.iter().any(|gap| gap.code == NOT_CONFIRMED),
            "{missing}"
        );
    }
    for report in [
        ReadyReport {
            cap_eff: 1,
            ..ready(&plan)
        },
        ReadyReport {
            seccomp_programs: 0,
            ..ready(&plan)
        },
    ] {
        assert_eq!(
            row(&confirm(&plan, &report, Some(&way_in())), Aspect::Processes).level,
            Level::Off
        );
    }
    let nothing = confirm(&plan, &ReadyReport::default(), Some(&way_in()));
    assert!(nothing.aspects.iter().all(|row| row.level == Level::Off));
}

#[test]
fn an_unscoped_kernel_is_a_named_gap_after_launch() {
    let plan = terminal_plan();
    let report = ReadyReport {
        abstract_unix_scoped: false,
        ..ready(&plan)
    };
    let confirmed = confirm(&plan, &report, None);
    let row = row(&confirmed, Aspect::HostSockets);
    assert_eq!(row.level, Level::Partial);
    assert!(
        row.gaps
            .iter()
            .any(|gap| gap.code == GapKind::AbstractSockets.code())
    );
}

fn dispatch_plan(host: &FakeFs, fields: &str) -> NativePlan {
    let text = format!(
        r#"{{"sessionId": "s", "workspaceId": "w",
             "bindMounts": [{{"hostPath": "/home/u/code"}}]{fields}}}"#
    );
    let spec = SandboxSpec::from_json(&text).unwrap().validate_dispatch();
    let policy = resolve(&spec.unwrap(), &context(), host).unwrap();
    native_plan(&policy, &facts()).unwrap()
}

#[test]
fn what_the_guard_does_not_supervise_brings_its_gaps_back() {
    // REQ BK-7, BW-4
    let plan = terminal_plan();
    let good = confirm(&plan, &ready(&plan), None);
    let report = ReadyReport {
        files_supervised: false,
        ..ready(&plan)
    };
    let confirmed = confirm(&plan, &report, None);
    for kind in [GapKind::MissingProtectedPath, GapKind::NewRepositories] {
        let has = |enforcement: &crate::backend::Enforcement| {
            let mut gaps = enforcement.gaps();
            gaps.any(|gap| gap.code == kind.code())
        };
        assert!(has(&confirmed), "{kind:?}");
        assert!(!has(&good), "{kind:?}");
    }
    assert_eq!(row(&good, Aspect::ProtectedWrites).level, Level::On);
    assert_eq!(row(&good, Aspect::FileReports).level, Level::On);
    let held = row(&confirmed, Aspect::ProtectedWrites);
    assert_eq!(held.level, Level::Partial);
    assert!(held.gaps.iter().any(|gap| gap.code == NOT_CONFIRMED));
    assert_eq!(row(&confirmed, Aspect::FileReports).level, Level::Off);
    // Nobody asked for these: the terminal runs.
    let names = row(&confirmed, Aspect::FilenameRules);
    assert_eq!((names.level, names.gaps.len()), (Level::Off, 0));
    assert_eq!(unmet(&plan, &report), None);
}

#[test]
fn what_must_hold_and_was_not_confirmed_starts_no_program() {
    // REQ BW-4, BW-6
    let plan = dispatch_plan(&home(), r#", "execRestriction": "writable""#);
    let good = ready(&plan);
    assert_eq!(unmet(&plan, &good), None);
    let unseen = ReadyReport {
        files_supervised: false,
        ..good.clone()
    };
    assert_eq!(unmet(&plan, &unseen), Some("filename rules"));
    let free = ReadyReport {
        exec_restricted: false,
        ..good.clone()
    };
    assert_eq!(unmet(&plan, &free), Some("exec restriction"));
    let names = confirm(&plan, &unseen, Some(&way_in()));
    assert_eq!(row(&names, Aspect::FilenameRules).level, Level::Off);
    let programs = confirm(&plan, &free, Some(&way_in()));
    assert_eq!(row(&programs, Aspect::ExecRestriction).level, Level::Off);
    let confirmed = confirm(&plan, &good, Some(&way_in()));
    assert_eq!(row(&confirmed, Aspect::FilenameRules).level, Level::On);
    // What gets round it is named, always.
    let programs = row(&confirmed, Aspect::ExecRestriction);
    assert_eq!(programs.level, Level::Partial);
    let codes: Vec<_> = programs.gaps.iter().map(|gap| gap.code.as_str()).collect();
    assert_eq!(codes, ["interpreters-run-scripts", "loader-runs-programs"]);
}

#[test]
fn an_old_kernel_is_told_in_the_row_of_filename_rules_and_nothing_is_supervised() {
    let mut old = context();
    old.facts.seccomp_notify = false;
    let policy = binds_policy(
        &home(),
        &old,
        r#""bindMounts": [{"hostPath": "/home/u/code"}]"#,
    );
    let plan = native_plan(&policy, &facts()).unwrap();
    assert_eq!(plan.setup.files, None);
    let names = row(&plan.enforcement, Aspect::FilenameRules);
    assert_eq!(names.level, Level::Off);
    assert!(names.detail.contains("user notification"), "{names:?}");
    assert_eq!(
        row(&plan.enforcement, Aspect::ProtectedWrites).level,
        Level::Partial
    );
    // The guard supervises nothing, as planned, and nothing is added to that.
    let report = ReadyReport {
        files_supervised: false,
        ..ready(&plan)
    };
    let confirmed = confirm(&plan, &report, Some(&way_in()));
    assert_eq!(confirmed, plan.enforcement);
}

#[test]
fn a_confirmed_watch_narrows_the_gaps_of_secrets_and_nothing_else() {
    // REQ TM-2, BK-7
    let plan = terminal_plan();
    let before = confirm(&plan, &ready(&plan), None);
    let mut after = before.clone();
    crate::backend::confirm_watch(&mut after, &plan);
    let has = |enforcement: &crate::backend::Enforcement, kind: GapKind| {
        let gaps = &row(enforcement, Aspect::SecretReads).gaps;
        gaps.iter().any(|gap| gap.code == kind.code())
    };
    assert!(has(&before, GapKind::MissingSecretPath));
    assert!(!has(&before, GapKind::SecretForAMoment));
    assert!(has(&after, GapKind::SecretForAMoment));
    assert!(!has(&after, GapKind::SecretFileReplaced));
    assert_eq!(row(&after, Aspect::SecretReads).level, Level::Partial);
    for (before, after) in before.aspects.iter().zip(&after.aspects) {
        assert!(before.aspect == Aspect::SecretReads || before == after);
    }
    // What is watched is seen through a bind, the outermost, and is each there once.
    assert!(
        plan.secrets
            .iter()
            .all(|secret| secret.path.is_within(&secret.root))
    );
    let home = plan
        .secrets
        .iter()
        .filter(|secret| secret.root.to_string() == "/home/u");
    assert!(home.count() > 10);
    assert!(
        plan.secrets
            .windows(2)
            .all(|pair| pair[0].path < pair[1].path)
    );
}

#[test]
fn the_row_of_protected_writes_counts_what_it_says_and_names_where_nothing_is_judged() {
    // REQ BK-7
    let mut host = home();
    host.dir("/home/u/state").dir("/home/u/code/.vscode");
    let detail = |fields: &str| {
        let plan = dispatch_plan(&host, fields);
        let held = plan.setup.files.as_ref().unwrap().protected.len();
        let confirmed = confirm(&plan, &ready(&plan), Some(&way_in()));
        let text = row(&confirmed, Aspect::ProtectedWrites).detail.clone();
        // Of those at `/home/u/code`, each is one that is held.
        let mounts = plan.blocks.iter().flat_map(|block| block.args.windows(3));
        let mounts =
            mounts.filter(|args| args[0] == b"--ro-bind" && args[2].starts_with(b"/home/u/code/"));
        (text, mounts.count(), held)
    };
    let (text, mounts, held) = detail("");
    assert!(
        text.starts_with(&format!("{mounts} mounts hold ")),
        "{text}"
    );
    assert!(
        text.contains(&format!(" {held} paths, existing or not")),
        "{text}"
    );
    assert!(text.ends_with(" in every repository"), "{text}");
    let (text, ..) = detail(r#", "runnerStateDirs": ["/home/u/state"]"#);
    assert!(
        text.ends_with("every repository but in /home/u/state, where a runner keeps its state"),
        "{text}"
    );
}

//! The mount list: its order, its pins, and the plans as committed.

use super::*;
use kotak_guard::proto::FileNode;

/// One option and its operands a line, as a person reads it.
fn listing(plan: &NativePlan) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
    let mut out = format!("{}", plan.bwrap);
    for arg in &plan.argv {
        out.push_str(&format!(" {}", text(arg)));
    }
    for block in &plan.blocks {
        out.push_str(&format!("\n\nargs {}:", block.fd));
        for arg in &block.args {
            let joint = if arg.starts_with(b"--") { "\n" } else { " " };
            out.push_str(&format!("{joint}{}", text(arg)));
        }
    }
    let expect = expectation(plan);
    out.push_str("\n\nunshared:");
    for kind in &expect.unshared {
        out.push_str(&format!(" {}", kind.proc_name()));
    }
    out.push_str("\nshared:");
    for kind in &expect.shared {
        out.push_str(&format!(" {}", kind.proc_name()));
    }
    out.push_str(&format!("\nloopback only: {}", expect.loopback_only));
    for (name, paths) in [
        ("unreadable", &expect.unreadable),
        ("unwritable", &expect.unwritable),
        ("absent", &expect.absent),
    ] {
        out.push_str(&format!("\n\n{name}:"));
        for path in paths {
            out.push_str(&format!("\n{}", text(path)));
        }
    }
    out.push_str("\n\nmounts:");
    for check in &expect.mounts {
        let how = if check.writable { "rw" } else { "ro" };
        out.push_str(&format!(
            "\n{how} {}:{} {}",
            check.dev,
            check.ino,
            text(&check.path)
        ));
    }
    if let Some(files) = &plan.setup.files {
        for (name, paths) in [
            ("roots", &files.roots),
            ("exempt", &files.exempt),
            ("held", &files.protected),
            ("held anywhere", &files.anywhere),
        ] {
            out.push_str(&format!("\n\n{name}:"));
            for path in paths {
                out.push_str(&format!("\n{}", text(path)));
            }
        }
        out.push_str(&format!("\n\nnames: {}", files.names.join(" ")));
        for exception in &files.exceptions {
            out.push_str(&format!("\nbut for {exception}"));
        }
        out.push_str(&format!("\ngit: {}", files.git));
        for FileNode { dev, ino } in &files.inodes {
            out.push_str(&format!("\ninode {dev}:{ino}"));
        }
    }
    if let Some(exec) = &plan.setup.exec {
        for (name, paths) in [("runs", &exec.allowed), ("never runs", &exec.denied)] {
            out.push_str(&format!("\n\n{name}:"));
            for path in paths {
                out.push_str(&format!("\n{}", text(path)));
            }
        }
    }
    out.push_str("\n\nenforcement:");
    for row in &plan.enforcement.aspects {
        out.push_str(&format!(
            "\n{:?} {:?}: {}",
            row.aspect, row.level, row.detail
        ));
        for gap in &row.gaps {
            out.push_str(&format!("\n  {}: {}", gap.code, gap.text));
        }
    }
    out.push_str("\n\nenvironment:");
    for (name, value) in &plan.env {
        out.push_str(&format!("\n{}={}", text(name), text(value)));
    }
    out.push_str(&format!("\nwithheld: {}\n", plan.withheld.join(" ")));
    out
}

#[test]
fn the_terminal_plan_is_as_committed() {
    golden::check("plan-terminal.txt", &listing(&terminal_plan()));
}

#[test]
fn a_read_only_terminal_without_network_is_as_committed() {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Review, NetworkMode::Off);
    let plan = native_plan(&policy, &facts()).unwrap();
    golden::check("plan-terminal-review-off.txt", &listing(&plan));
}

#[test]
fn the_bind_mount_plan_is_as_committed() {
    let mut host = home();
    host.dir("/data/ws/ro/rw")
        .dir("/data/ws/orig")
        .link("/proj", "/data/ws");
    let policy = binds_policy(
        &host,
        &context(),
        r#""bindMounts": [{"hostPath": "/data/ws/ro/rw"}, {"hostPath": "/proj"},
           {"hostPath": "/data/ws/ro", "readOnly": true}], "guestWorkdir": "/proj",
           "protectedPaths": ["/data/ws/orig"], "networkMode": "ask""#,
    );
    golden::check(
        "plan-binds.txt",
        &listing(&native_plan(&policy, &facts()).unwrap()),
    );
}

#[test]
fn the_dispatch_plan_is_as_committed() {
    // REQ BW-5, BW-6, DP-1
    let mut host = home();
    host.dir("/home/u/code/target")
        .file("/usr/bin/sudo", "")
        .file("/home/u/code/.envrc", "")
        .hard_links("/home/u/code/.envrc", 2);
    let spec = SandboxSpec::from_json(
        r#"{"sessionId": "s", "workspaceId": "w", "bindMounts": [{"hostPath": "/home/u/code"}],
            "execRestriction": "writable", "execGrantRoots": ["/home/u/code/target"]}"#,
    );
    let spec = spec.unwrap().validate_dispatch().unwrap();
    let policy = resolve(&spec, &context(), &host).unwrap();
    let plan = native_plan(&policy, &facts()).unwrap();
    golden::check("plan-dispatch.txt", &listing(&plan));
}

/// Parents come before children, nothing is mounted twice, and nothing that is mounted inside a
/// bind is missing on the host.
fn check_order(plan: &NativePlan, host: &FakeFs) {
    let list = mounts(plan.blocks.last().unwrap());
    for (index, (_, dest)) in list.iter().enumerate() {
        for (_, later) in &list[index + 1..] {
            let hides = dest.is_within(later) && !dest.is_within(&path("/proc"));
            assert!(!hides, "{later} comes after {dest} and covers it");
        }
    }
    for (option, dest) in &list {
        let around = list
            .iter()
            .filter(|(_, at)| dest != at && dest.is_within(at))
            .max_by_key(|(_, at)| at.depth());
        if let Some(("--bind" | "--ro-bind", _)) = around.map(|(how, at)| (how.as_str(), at)) {
            assert!(
                host.symlink_metadata(dest).is_ok(),
                "{option} {dest} would be made"
            );
        }
    }
}

#[test]
fn parents_come_first_and_no_mount_point_is_made_on_the_host() {
    check_order(&terminal_plan(), &home());
}

#[test]
fn every_bind_is_pinned_and_checked_by_its_inode() {
    let host = home();
    let plan = terminal_plan();
    let (masked, bound): (Vec<_>, Vec<_>) = plan.pins.iter().partition(|pin| pin.masked);
    let hidden: Vec<&[u8]> = masked.iter().map(|pin| pin.path.as_bytes()).collect();
    assert!(!hidden.is_empty());
    assert_eq!(hidden, expectation(&plan).unreadable);
    for pin in masked {
        assert_eq!(pin.id, host.id(pin.path.as_bytes()));
    }
    assert_eq!(bound.len(), expectation(&plan).mounts.len());
    for (pin, check) in bound.into_iter().zip(&expectation(&plan).mounts) {
        let id = host.id(pin.path.as_bytes());
        assert_eq!((pin.id, check.dev, check.ino), (id, id.dev, id.ino));
        assert_eq!(check.path, pin.path.as_bytes());
    }
}

#[test]
fn odd_bytes_in_paths_are_carried_as_they_are() {
    let odd = b"/data/- a\n\"'$(b)\\ \xff\xfe";
    let mut host = home();
    host.dir(odd);
    let mut spec = SandboxSpec::from_json(r#"{"sessionId": "s", "workspaceId": "w"}"#)
        .unwrap()
        .validate()
        .unwrap();
    spec.form = crate::spec::Form::Binds {
        binds: vec![crate::spec::ValidBind {
            path: path(odd),
            read_only: false,
        }],
        workdir: None,
    };
    let policy = resolve(&spec, &context(), &host).unwrap();
    let plan = native_plan(&policy, &facts()).unwrap();
    let wanted = [b"--bind".to_vec(), odd.to_vec(), odd.to_vec()];
    assert!(plan.blocks[0].args.windows(3).any(|found| found == wanted));
    assert_eq!(plan.cwd.as_bytes(), odd);
    let bytes = plan.blocks[0].bytes();
    assert_eq!(bytes.last(), Some(&0));
    assert_eq!(
        bytes.split(|byte| *byte == 0).count(),
        plan.blocks[0].args.len() + 1,
        "no argument holds a NUL"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is bound, in whatever order: the order of mounts holds, the most specific bind
    /// wins, and no mount point is made on the host.
    #[test]
    fn any_set_of_binds_keeps_the_order(
        picks in prop::collection::vec((0usize..12, any::<bool>()), 0..12),
        protect in prop::collection::vec(0usize..12, 0..4),
    ) {
        let pool = [
            "/data", "/data/a", "/data/a/b", "/data/a/b/c", "/data/a-b", "/data/x", "/home/u",
            "/home/u/code", "/home/u/code/.git", "/home/u/.config", "/tmp/w", "/tmp/w/z",
        ];
        let mut host = home();
        for dir in pool {
            host.dir(dir);
        }
        host.git_dir("/home/u/code/.git");
        let mut seen = BTreeMap::new();
        for (index, read_only) in &picks {
            seen.entry(pool[*index]).or_insert(*read_only);
        }
        // In the order of the picks, each path once.
        let mut order: Vec<&str> = Vec::new();
        for (index, _) in &picks {
            if !order.contains(&pool[*index]) {
                order.push(pool[*index]);
            }
        }
        let binds: Vec<String> = order
            .iter()
            .map(|at| format!(r#"{{"hostPath": "{at}", "readOnly": {}}}"#, seen[at]))
            .collect();
        let protected: Vec<String> =
            protect.iter().map(|index| format!("\"{}\"", pool[*index])).collect();
        let fields = format!(
            r#""bindMounts": [{}], "protectedPaths": [{}]"#,
            binds.join(","),
            protected.join(",")
        );
        let policy = binds_policy(&host, &context(), &fields);
        let plan = native_plan(&policy, &facts()).unwrap();
        check_order(&plan, &host);
        // The access at each listed path, as its nearest listed path and the protected ones say.
        for at in &order {
            let at = path(at);
            let held = protect.iter().any(|index| at.is_within(&path(pool[*index])));
            let nearest = expectation(&plan)
                .mounts
                .iter()
                .filter(|check| at.is_within(&path(&check.path)))
                .max_by_key(|check| check.path.len())
                .unwrap();
            let wanted = !held && !seen[at.to_string().as_str()];
            prop_assert_eq!(nearest.writable, wanted, "{}", at);
        }
    }
}

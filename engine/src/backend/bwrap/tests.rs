use super::*;
use crate::backend::{Aspect, Bridge, Level, NOT_CONFIRMED, SeccompArch, WayIn, confirm};
use crate::error::Coded;
use crate::golden;
use crate::policy::fake::{FakeFs, context, path};
use crate::policy::{GapKind, HostContext, HostFs, resolve};
use crate::spec::{EnvPolicy, Mode, SandboxSpec, TerminalRequest, ValidSpec};
use kotak_guard::proto::{Check, ReadyReport};
use proptest::prelude::*;
use std::path::PathBuf;

mod network;

fn facts() -> PlanFacts {
    let kinds = [
        Namespace::Cgroup,
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ];
    PlanFacts {
        bwrap_path: path("/usr/bin/bwrap"),
        bwrap_version: (0, 8, 0),
        arch: SeccompArch::X86_64,
        landlock_abi: 7,
        namespaces: (100..)
            .zip(kinds)
            .map(|(inode, kind)| (kind, inode))
            .collect(),
    }
}

fn terminal_policy(host: &FakeFs, cwd: &str, mode: Mode, network: NetworkMode) -> Policy {
    let request = TerminalRequest {
        session_id: "s".to_owned(),
        workspace_id: "w".to_owned(),
        cwd: PathBuf::from(cwd),
        mode,
        protected_paths: vec![],
        network: Some(network),
        extra_domains: Vec::new(),
        runner_state_dirs: Vec::new(),
        env_policy: EnvPolicy::default(),
    };
    resolve(&ValidSpec::terminal(&request).unwrap(), &context(), host).unwrap()
}

fn binds_policy(host: &FakeFs, context: &HostContext, fields: &str) -> Policy {
    let text = format!(r#"{{"sessionId": "s", "workspaceId": "w", {fields}}}"#);
    let spec = SandboxSpec::from_json(&text).unwrap().validate().unwrap();
    resolve(&spec, context, host).unwrap()
}

/// A home with a bit of everything.
fn home() -> FakeFs {
    let mut host = FakeFs::debian();
    host.dir("/home/u/.ssh")
        .file("/home/u/.config/gh/hosts.yml", "")
        .file("/home/u/.netrc", "");
    host.file("/home/u/.bashrc", "")
        .dir("/home/u/.local/bin")
        .git_dir("/home/u/code/.git");
    host.dir("/home/u/.local/state/kotak");
    host
}

fn terminal_plan() -> NativePlan {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Open);
    native_plan(&policy, &facts()).unwrap()
}

fn expectation(plan: &NativePlan) -> &Expectation {
    match &plan.setup.role {
        Role::Native(expect) => expect,
        Role::Host => panic!("not native"),
    }
}

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

/// What an argument list mounts, in order.
fn mounts(block: &ArgBlock) -> Vec<(String, AbsPath)> {
    let mut all = Vec::new();
    let mut args = block.args.iter();
    while let Some(option) = args.next() {
        let option = String::from_utf8(option.clone()).unwrap();
        let operands = match option.as_str() {
            "--bind" | "--ro-bind" | "--dev-bind" | "--symlink" | "--ro-bind-data" => 2,
            "--tmpfs" | "--remount-ro" | "--proc" | "--dev" | "--perms" | "--chdir"
            | "--cap-drop" | "--cap-add" | "--json-status-fd" => 1,
            _ => 0,
        };
        let operands: Vec<_> = args.by_ref().take(operands).collect();
        if let ("--bind" | "--ro-bind" | "--symlink" | "--tmpfs" | "--proc" | "--dev", Some(last)) =
            (option.as_str(), operands.last())
        {
            all.push((option, AbsPath::new(last).unwrap()));
        }
    }
    all
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
    assert_eq!(plan.pins.len(), expectation(&plan).mounts.len());
    for (pin, check) in plan.pins.iter().zip(&expectation(&plan).mounts) {
        let id = host.id(pin.path.as_bytes());
        assert_eq!((pin.id, check.dev, check.ino), (id, id.dev, id.ino));
        assert_eq!(check.path, pin.path.as_bytes());
    }
}

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

fn row(
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

fn many(count: usize) -> (FakeFs, String) {
    let mut host = home();
    let mut listed = Vec::new();
    for index in 0..count {
        let at = format!("/data/d/f{index}");
        host.file(&at, "");
        listed.push(format!("\"{at}\""));
    }
    let fields = format!(
        r#""bindMounts": [{{"hostPath": "/data/d"}}], "protectedPaths": [{}]"#,
        listed.join(",")
    );
    (host, fields)
}

#[test]
fn five_thousand_paths_are_put_together_in_stages_within_bubblewraps_limit() {
    let (host, fields) = many(5000);
    let plan = native_plan(&binds_policy(&host, &context(), &fields), &facts()).unwrap();
    let fds: Vec<i32> = plan.blocks.iter().map(|block| block.fd).collect();
    assert_eq!(fds, [FD_MORE_ARGS, FD_ARGS]);
    assert!(
        plan.blocks
            .iter()
            .all(|block| block.args.len() + plan.argv.len() < 9000)
    );
    // Every held file once: first below the assembly directory, then, after that became the root,
    // at its own place.
    let staged: Vec<AbsPath> = mounts(&plan.blocks[0])
        .into_iter()
        .filter_map(|(_, dest)| {
            let below = dest.below(&path("/dev/shm"))?;
            Some(AbsPath::root().join(below))
        })
        .filter(|dest| dest.is_within(&path("/data/d")))
        .collect();
    let last = mounts(&plan.blocks[1]);
    assert_eq!(last[0], ("--bind".to_owned(), path("/")));
    let rest = last
        .into_iter()
        .map(|(_, dest)| dest)
        .filter(|dest| dest.is_within(&path("/data/d")));
    let held: Vec<AbsPath> = staged.into_iter().chain(rest).collect();
    assert_eq!(held.len(), 5001);
    assert_eq!(held[0], path("/data/d"));
    assert!(
        held.windows(2).all(|pair| pair[0] < pair[1]),
        "in order, none twice"
    );
    let text: Vec<String> = plan
        .argv
        .iter()
        .map(|arg| String::from_utf8(arg.clone()).unwrap())
        .collect();
    assert_eq!(
        text.join(" "),
        "--args 15 -- /usr/bin/bwrap --args 10 -- /run/kotak/guard native 13"
    );
    let caps = |block: &ArgBlock| block.args.iter().any(|arg| arg == b"--cap-add");
    assert!(!plan.blocks.iter().any(caps));
}

#[test]
fn roots_stages_keep_the_one_capability_that_the_next_needs_and_the_last_keeps_none() {
    let (mut host, fields) = many(3100);
    host.dir("/root");
    let root = HostContext {
        uid: 0,
        home: path("/root"),
        ..context()
    };
    let plan = native_plan(&binds_policy(&host, &root, &fields), &facts()).unwrap();
    let adds = |block: &ArgBlock| {
        block
            .args
            .windows(2)
            .any(|pair| pair[0] == b"--cap-add" && pair[1] == b"CAP_SETFCAP")
    };
    let (last, stages) = plan.blocks.split_last().unwrap();
    assert!(stages.iter().all(adds));
    assert!(!last.args.iter().any(|arg| arg == b"--cap-add"));
}

#[test]
fn without_a_place_to_put_them_together_many_mounts_are_refused() {
    let (host, fields) = many(3100);
    let mut policy = binds_policy(&host, &context(), &fields);
    policy.assembly = None;
    assert_eq!(
        native_plan(&policy, &facts()).unwrap_err().code(),
        "TOO_MANY_MOUNTS"
    );
}

#[test]
fn more_mounts_than_launch_are_refused_with_the_folder_that_holds_most() {
    let count = |number| {
        let (host, fields) = many(number);
        native_plan(&binds_policy(&host, &context(), &fields), &facts())
    };
    assert!(count(5500).is_ok());
    let error = count(6000).unwrap_err();
    assert_eq!(error.code(), "TOO_MANY_MOUNTS");
    let fix = error.fix().unwrap().text;
    assert!(fix.contains("smaller folder than /data"), "{fix}");
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

/// A report that bears out everything that a plan expects.
fn ready(plan: &NativePlan) -> ReadyReport {
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
        seccomp_programs: 1,
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

fn way_in() -> WayIn {
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

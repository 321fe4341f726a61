//! The probe on the real kernel, with a plain bubblewrap as trial: what a bubblewrap says here and
//! what the probe makes of it. The whole launch, guard and all, is tried by the conformance tests.

use super::fake::row;
use super::*;
use crate::backend::SandboxBackend;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Runs `true` under the namespaces of production.
struct PlainBubblewrap;

impl TrialRunner for PlainBubblewrap {
    fn run(&self, request: &TrialRequest) -> TrialOutcome {
        let output = Command::new(&request.runner)
            .args([
                "--unshare-user",
                "--unshare-pid",
                "--unshare-ipc",
                "--unshare-uts",
            ])
            .args(["--unshare-net", "--cap-drop", "ALL", "--ro-bind", "/", "/"])
            .args(["--proc", "/proc", "--dev", "/dev", "--", "/bin/true"])
            .stdin(Stdio::null())
            .output();
        match output {
            Ok(output) if output.status.success() => fake::ready(1),
            Ok(output) => TrialOutcome::RunnerFailed {
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                status: output.status.code(),
            },
            Err(error) => TrialOutcome::SpawnFailed(error.to_string()),
        }
    }
}

fn host() -> SystemProbe {
    SystemProbe {
        project_dir: None,
        ..SystemProbe::new(Arc::new(PlainBubblewrap))
    }
}

const MARK: &str = "KOTAK-REPORT ";

/// Probes wherever this test runs and prints the report, for the tests below, which run it in
/// surroundings of their making.
#[test]
fn the_host_that_the_tests_run_on_gets_a_whole_report() {
    let report = probe(&host(), Switch::On);
    println!("{MARK}{}", serde_json::to_string(&report).expect("json"));
    assert_eq!(report.platform.os, "linux");
    assert_eq!(report.backends.len(), 3);
    assert!(
        report
            .rows
            .iter()
            .all(|row| row.status != RowStatus::Missing || row.cause.is_some())
    );
    assert!(
        !report
            .backend(SandboxBackend::Microvm)
            .expect("microvm")
            .available
    );
}

/// The report of a probe that runs at the end of this shell line, after `exec`.
fn report_within(wrapper: &[&str], script: &str) -> HostReport {
    let test = std::env::current_exe().expect("this test");
    let output = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .args(["sh", "-c", &format!("{script}\nexec \"$0\" \"$@\"")])
        .arg(test)
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg("probe::real_tests::the_host_that_the_tests_run_on_gets_a_whole_report")
        .stdin(Stdio::null())
        .output()
        .expect("the wrapper starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (_, after) = stdout
        .split_once(MARK)
        .unwrap_or_else(|| panic!("{stdout}\n{stderr}"));
    let line = after.lines().next().expect("a line");
    serde_json::from_str(line).expect("a report")
}

fn native_problem(report: &HostReport) -> crate::error::Problem {
    let native = report.backend(SandboxBackend::Native).expect("native");
    assert!(!native.available, "{report:?}");
    native.problem.clone().expect("a problem")
}

const USER_AND_MOUNTS: [&str; 4] = ["unshare", "--user", "--map-root-user", "--mount"];

// REQ PR-7: the control of the three tests after it.
#[test]
fn a_namespace_that_forbids_nothing_passes_the_trial() {
    let report = report_within(&USER_AND_MOUNTS, "true");
    assert_eq!(row(&report, "trial").status, RowStatus::Ok, "{report:?}");
    assert!(
        report
            .backend(SandboxBackend::Native)
            .expect("native")
            .available
    );
}

// REQ PR-7
#[test]
fn a_user_namespace_limit_of_zero_is_told() {
    let report = report_within(
        &USER_AND_MOUNTS,
        "echo 0 > /proc/sys/user/max_user_namespaces || exit 9",
    );
    let problem = native_problem(&report);
    assert!(
        problem.causes[0].contains("user.max_user_namespaces is 0"),
        "{problem:?}"
    );
    assert!(
        problem
            .fix
            .and_then(|fix| fix.command)
            .expect("a command")
            .contains("sysctl -w")
    );
    assert_eq!(row(&report, "user-namespaces").status, RowStatus::Missing);
}

// REQ PR-7
#[test]
fn a_masked_proc_is_told() {
    let report = report_within(&USER_AND_MOUNTS, "mount -t tmpfs none /proc/sys || exit 9");
    let problem = native_problem(&report);
    assert!(
        problem.causes[0].contains("/proc are masked"),
        "{problem:?}"
    );
}

// REQ PR-7
#[test]
fn a_proc_with_locked_masks_as_in_a_container_is_told() {
    let report = report_within(&USER_AND_MOUNTS, "mount -t tmpfs none /proc/tty || exit 9");
    let problem = native_problem(&report);
    assert!(
        problem.causes[0].contains("Can't mount proc on /newroot/proc"),
        "{problem:?}"
    );
    assert_eq!(row(&report, "user-namespaces").status, RowStatus::Ok);
}

/// A seccomp program that refuses `unshare` and `clone` of user namespaces with EPERM, and
/// `clone3` with ENOSYS, as container runtimes do.
#[cfg(target_arch = "x86_64")]
fn container_filter() -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    let program: [(u16, u8, u8, u32); 10] = [
        (LOAD, 0, 0, 0),             // system call number
        (EQUAL, 5, 0, 435),          // clone3
        (EQUAL, 1, 0, 272),          // unshare
        (EQUAL, 0, 5, 56),           // clone
        (LOAD, 0, 0, 16),            // flags
        (SET, 0, 3, 0x1000_0000),    // CLONE_NEWUSER
        (RETURN, 0, 0, 0x0005_0001), // EPERM
        (RETURN, 0, 0, 0x0005_0026), // ENOSYS
        (RETURN, 0, 0, 0x7fff_0000), // unreachable
        (RETURN, 0, 0, 0x7fff_0000), // allow
    ];
    let bytes = program.iter().flat_map(|(code, jt, jf, k)| {
        let mut insn = code.to_le_bytes().to_vec();
        insn.extend([*jt, *jf]);
        insn.extend(k.to_le_bytes());
        insn
    });
    bytes.collect()
}

// REQ PR-7
#[cfg(target_arch = "x86_64")]
#[test]
fn an_outer_seccomp_filter_is_told_apart_from_a_sysctl() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("filter");
    std::fs::write(&file, container_filter()).expect("the filter");
    let line = format!(
        "exec 9<'{}'; exec bwrap --dev-bind / / --unshare-user --uid 0 --gid 0 --seccomp 9 -- \"$@\"",
        file.display()
    );
    let report = report_within(&["sh", "-c", &line, "sh"], "true");
    let problem = native_problem(&report);
    assert!(problem.causes[0].contains("seccomp filter"), "{problem:?}");
    assert_eq!(row(&report, "user-namespaces").detail, "refused");
}

// REQ PR-4
#[test]
fn a_tool_missing_from_path_is_missing_however_installed_it_is() {
    let report = probe(
        &SystemProbe {
            path: Vec::new(),
            ..host()
        },
        Switch::On,
    );
    let native = report.backend(SandboxBackend::Native).expect("native");
    assert!(native.requires_install);
    let problem = native_problem(&report);
    assert_eq!(problem.causes, ["bubblewrap and socat are not installed"]);
    assert_eq!(row(&report, "trial").detail, "not run");

    let control = probe(&host(), Switch::On);
    assert_eq!(row(&control, "bubblewrap").status, RowStatus::Ok);
    for absent in ["bwrap", "socat"] {
        let dir = tempfile::tempdir().expect("a directory");
        let present = if absent == "bwrap" { "socat" } else { "bwrap" };
        let target = Path::new("/usr/bin").join(present);
        std::os::unix::fs::symlink(target, dir.path().join(present)).expect("a link");
        let path = vec![dir.path().to_path_buf()];
        let report = probe(&SystemProbe { path, ..host() }, Switch::On);
        let name = if absent == "bwrap" {
            "bubblewrap"
        } else {
            "socat"
        };
        assert_eq!(
            native_problem(&report).causes,
            [format!("{name} is not installed")]
        );
    }
}

#[test]
fn a_bwrap_in_a_writable_directory_is_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let mark = dir.path().join("ran");
    let fake = dir.path().join("bwrap");
    std::fs::write(&fake, format!("#!/bin/sh\ntouch '{}'\n", mark.display())).expect("a script");
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).expect("mode");

    let alone = SystemProbe {
        path: vec![dir.path().to_path_buf()],
        ..host()
    };
    let report = probe(&alone, Switch::On);
    assert!(
        native_problem(&report)
            .causes
            .iter()
            .any(|cause| cause.contains("writable"))
    );

    let mut path = vec![dir.path().to_path_buf()];
    path.extend(host().path);
    let report = probe(&SystemProbe { path, ..host() }, Switch::On);
    assert_eq!(
        report.facts.bwrap_path,
        probe(&host(), Switch::On).facts.bwrap_path
    );
    assert!(row(&report, "bubblewrap").detail.contains("passed over"));

    assert!(!mark.exists(), "the script never ran");
    // Control: it would have left its mark.
    assert!(Command::new(&fake).status().expect("runs").success());
    assert!(mark.exists());
}

#[test]
fn a_tool_that_hangs_is_killed_and_one_that_floods_is_cut() {
    let sh = Path::new("/bin/sh");
    let flood = unix::run_tool(
        sh,
        &["-c", "head -c 3000000 /dev/zero | tr '\\0' x; exit 3"],
        unix::TOOL_DEADLINE,
    );
    let ToolRun::Ended { code, stdout, .. } = flood else {
        panic!("{flood:?}")
    };
    assert_eq!((code, stdout.len()), (Some(3), 256 * 1024));
    assert_eq!(
        unix::run_tool(sh, &["-c", "exec sleep 1000"], Duration::from_millis(50)),
        ToolRun::TimedOut
    );
    assert!(matches!(
        unix::run_tool(Path::new("/nonexistent/tool"), &[], unix::TOOL_DEADLINE),
        ToolRun::NotStarted(_)
    ));
}

#[test]
fn a_tool_gets_no_environment_of_ours() {
    let run = unix::run_tool(Path::new("/usr/bin/env"), &[], unix::TOOL_DEADLINE);
    let ToolRun::Ended { stdout, .. } = run else {
        panic!("{run:?}")
    };
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["LC_ALL=C", "PATH=/usr/bin:/bin"]);
}

#[test]
fn files_are_told_apart_by_why_they_cannot_be_read() {
    assert_eq!(unix::read(Path::new("/nonexistent")), FileText::Missing);
    assert!(matches!(
        unix::read(Path::new("/etc/passwd")),
        FileText::Text(_)
    ));
    assert!(matches!(unix::read(Path::new("/etc")), FileText::Failed(_)));
    assert_eq!(unix::list(Path::new("/nonexistent")), Vec::<PathBuf>::new());
}

//! Every prerequisite of a microVM, from faked facts (REQ BK-3, BK-6, PR-8).

use super::fake::{FakeHost, found, row, says, text};
use super::*;
use crate::backend::SandboxBackend;
use std::path::PathBuf;

fn microvm(report: &HostReport) -> &BackendReport {
    report
        .backend(SandboxBackend::Microvm)
        .expect("a microVM report")
}

/// Status, cause and fix (words and command) of one row.
fn told(host: &FakeHost, id: &str) -> (RowStatus, String, String) {
    let report = host.report();
    let row = row(&report, id);
    let fix = row.fix.as_ref().map_or_else(String::new, |fix| {
        format!(
            "{} {}",
            fix.text,
            fix.command.as_deref().unwrap_or_default()
        )
    });
    (row.status, row.cause.clone().unwrap_or_default(), fix)
}

// REQ BK-6
#[test]
fn the_backend_is_unavailable_for_want_of_a_station_even_where_everything_else_is_there() {
    let report = FakeHost::debian().report();
    let problem = microvm(&report).problem.as_ref().expect("a problem");
    assert_eq!(problem.code, "MICROVM_UNAVAILABLE");
    assert_eq!(
        problem.message,
        "no microVM can be started: this version of Kotak has no station"
    );
    assert_eq!(
        problem.causes,
        ["this version of Kotak has no station, the part that runs inside a microVM"]
    );
    assert!(!microvm(&report).requires_install);
}

// REQ BK-6
#[test]
fn every_missing_precondition_is_named() {
    let host = FakeHost::debian().but(|host| {
        host.tools.remove("qemu-system-x86_64");
        host.dirs.clear();
        host.kvm = KvmCanary::Denied;
    });
    let report = host.report();
    let problem = microvm(&report).problem.as_ref().expect("a problem");
    assert_eq!(
        problem.message,
        "no microVM can be started: this version of Kotak has no station, and this host lacks \
         QEMU, QEMU's microvm machine, Guest kernel image, KVM"
    );
    assert_eq!(
        problem.causes,
        [
            "this version of Kotak has no station, the part that runs inside a microVM",
            "QEMU: qemu-system-x86_64 is not on PATH",
            "QEMU's microvm machine: there is no trusted QEMU to ask",
            "Guest kernel image: no kernel image in /boot, /usr/lib/modules or Kotak's own cache",
            "KVM: /dev/kvm is there, and you may not open it",
        ]
    );
    assert!(microvm(&report).requires_install);
    assert_eq!(
        told(&host, "qemu").2.trim(),
        "Install QEMU. sudo apt-get install qemu-system-x86"
    );
}

// REQ PR-8
#[test]
fn every_outcome_of_the_kvm_canary_has_its_cause_and_fix() {
    let emulated = KvmCanary::Emulated {
        at: "popcnt",
        exit: "internal error: emulation failure".to_owned(),
    };
    let cases = [
        (KvmCanary::Works, RowStatus::Ok, "", ""),
        (
            KvmCanary::Denied,
            RowStatus::Missing,
            "you may not open it",
            "usermod -aG kvm",
        ),
        (
            KvmCanary::OpenFailed(16),
            RowStatus::Missing,
            "opening /dev/kvm fails: busy",
            "",
        ),
        (
            KvmCanary::WrongVersion(9),
            RowStatus::Missing,
            "speaks version 9",
            "",
        ),
        (
            KvmCanary::SetupFailed {
                step: "KVM_CREATE_VM",
                errno: 16,
            },
            RowStatus::Missing,
            "KVM_CREATE_VM fails: busy; another hypervisor",
            "",
        ),
        (
            emulated,
            RowStatus::Missing,
            "stops at popcnt: internal error",
            "nested virtualisation",
        ),
        (
            KvmCanary::TimedOut,
            RowStatus::Missing,
            "did not end in time",
            "hardware virtualisation",
        ),
        (
            KvmCanary::Crashed("x".to_owned()),
            RowStatus::Missing,
            "own process failed: x",
            "",
        ),
        (
            KvmCanary::NotChecked,
            RowStatus::Info,
            "written for x86_64",
            "",
        ),
        (
            KvmCanary::NoDevice,
            RowStatus::Missing,
            "module is not loaded",
            "modprobe kvm_intel",
        ),
    ];
    for (kvm, status, cause, fix) in cases {
        let name = format!("{kvm:?}");
        let got = told(&FakeHost::debian().but(|host| host.kvm = kvm), "kvm");
        assert_eq!(got.0, status, "{name}");
        assert!(
            got.1.contains(cause) && got.1.is_empty() == cause.is_empty(),
            "{name}: {}",
            got.1
        );
        assert!(
            got.2.contains(fix) && got.2.is_empty() == fix.is_empty(),
            "{name}: {}",
            got.2
        );
    }
}

#[test]
fn a_missing_kvm_device_is_told_by_where_kotak_runs() {
    let host = FakeHost::debian().but(|host| host.kvm = KvmCanary::NoDevice);
    let docker = host
        .clone()
        .but(|host| drop(host.files.insert("/.dockerenv", text(""))));
    assert!(told(&docker, "kvm").2.contains("--device /dev/kvm"));
    let wsl = host
        .clone()
        .but(|host| host.kernel = "5.15.1-microsoft-standard-WSL2");
    assert!(told(&wsl, "kvm").2.contains("nestedVirtualization=true"));
    let plain = host.but(|host| drop(host.files.insert("/proc/cpuinfo", text("flags : sse\n"))));
    assert!(told(&plain, "kvm").2.contains("firmware"));
}

#[test]
fn another_architecture_says_that_the_canary_did_not_run() {
    let host = FakeHost::debian().but(|host| {
        host.arch = "aarch64";
        host.kvm = KvmCanary::NotChecked;
    });
    let report = host.report();
    assert_eq!(
        row(&report, "kvm").detail,
        "not checked on this architecture"
    );
    assert!(told(&host, "kvm").1.contains("aarch64"));
}

#[test]
fn the_microvm_machine_is_asked_of_qemu_itself() {
    const LIST: &str = "qemu-system-x86_64 -M";
    const ACCEL: &str = "qemu-system-x86_64 -accel";
    let with = |key, run| FakeHost::debian().but(|host| drop(host.runs.insert(key, run)));
    assert_eq!(told(&FakeHost::debian(), "qemu-microvm").0, RowStatus::Ok);
    let without = with(
        LIST,
        says("Supported machines are:\npc   Standard PC\nnotmicrovm x\n"),
    );
    let got = told(&without, "qemu-microvm");
    assert_eq!(got.0, RowStatus::Missing);
    assert!(got.1.contains("without the microvm machine"));
    let no_kvm = told(&with(ACCEL, says("tcg\n")), "qemu-microvm");
    assert_eq!(no_kvm.0, RowStatus::Partial);
    assert!(no_kvm.1.contains("does not list KVM"));
    for run in [
        ToolRun::TimedOut,
        ToolRun::NotStarted("x".to_owned()),
        ToolRun::Ended {
            code: Some(127),
            stdout: String::new(),
            stderr: "no lib".to_owned(),
        },
    ] {
        let got = told(&with(LIST, run), "qemu-microvm");
        assert_eq!(got.0, RowStatus::Missing);
        assert!(!got.1.is_empty());
    }
}

#[test]
fn guest_kernels_are_looked_for_in_the_cache_then_boot_then_modules() {
    let at = |host: &FakeHost| row(&host.report(), "guest-kernel").detail.clone();
    let host = FakeHost::debian();
    assert_eq!(at(&host), "/boot/vmlinuz-6.1");
    let cached = host.clone().but(|host| {
        host.dirs
            .insert("/cache", vec!["/cache/notes", "/cache/vmlinux-7"]);
        host.files.insert("/cache/vmlinux-7", text("kernel"));
    });
    assert_eq!(at(&cached), "/cache/vmlinux-7");
    let modules = host.clone().but(|host| {
        host.dirs.clear();
        host.dirs.insert(
            "/usr/lib/modules",
            vec!["/usr/lib/modules/6.9", "/usr/lib/modules/7.0"],
        );
        host.files
            .insert("/usr/lib/modules/7.0/vmlinuz", text("kernel"));
    });
    assert_eq!(at(&modules), "/usr/lib/modules/7.0/vmlinuz");
    let none = host.clone().but(|host| host.dirs.clear());
    assert_eq!(at(&none), "missing");
    assert!(
        told(&none, "guest-kernel")
            .2
            .contains("linux-image-cloud-amd64")
    );
    let closed = host.but(|host| drop(host.files.insert("/boot/vmlinuz-6.1", FileText::Denied)));
    let got = told(&closed, "guest-kernel");
    assert_eq!(got.0, RowStatus::Missing);
    assert!(
        got.2.contains("chmod 0644 '/boot/vmlinuz-6.1'"),
        "{}",
        got.2
    );
}

#[test]
fn an_untrusted_qemu_is_not_asked() {
    let host = FakeHost::debian().but(|host| {
        let why = Distrust::WritableByAll(PathBuf::from("/tmp"));
        let refused = RefusedTool {
            path: PathBuf::from("/tmp/qemu-system-x86_64"),
            why,
        };
        host.tools
            .insert("qemu-system-x86_64", ToolSearch::Refused(vec![refused]));
        host.runs.clear();
    });
    assert!(
        told(&host, "qemu")
            .1
            .contains("/tmp can be written by everybody")
    );
    assert!(told(&host, "qemu-microvm").1.contains("no trusted QEMU"));
    assert_eq!(
        told(
            &host.but(|h| drop(
                h.tools
                    .insert("qemu-system-x86_64", found("/usr/bin/qemu-system-x86_64"))
            )),
            "qemu"
        )
        .0,
        RowStatus::Partial
    );
}

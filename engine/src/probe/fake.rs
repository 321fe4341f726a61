//! A host made of values, for tests.

use super::facts::*;
use super::{BackendReport, HostReport, HostRow, Switch, VerdictState, probe};
use crate::backend::SandboxBackend;
use crate::error::Fix;
use kotak_guard::proto::{Check, ReadyReport};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A host on which everything works, until a test changes it.
#[derive(Debug, Clone)]
pub(super) struct FakeHost {
    pub(super) os: Os,
    pub(super) arch: &'static str,
    pub(super) kernel: &'static str,
    pub(super) uid: u32,
    pub(super) env: BTreeMap<&'static str, &'static str>,
    pub(super) files: BTreeMap<&'static str, FileText>,
    pub(super) dirs: BTreeMap<&'static str, Vec<&'static str>>,
    pub(super) tools: BTreeMap<&'static str, ToolSearch>,
    /// By "program first-argument…".
    pub(super) runs: BTreeMap<&'static str, ToolRun>,
    pub(super) landlock_abi: u32,
    pub(super) seccomp: SeccompFacts,
    pub(super) user_namespace: UserNamespaceTrial,
    pub(super) kvm: KvmCanary,
    pub(super) trial: TrialOutcome,
}

pub(super) fn text(text: &str) -> FileText {
    FileText::Text(text.to_owned())
}

pub(super) fn says(stdout: &str) -> ToolRun {
    ToolRun::Ended {
        code: Some(0),
        stdout: stdout.to_owned(),
        stderr: String::new(),
    }
}

pub(super) fn found(path: &str) -> ToolSearch {
    ToolSearch::Found {
        path: PathBuf::from(path),
        setuid: false,
        refused: Vec::new(),
    }
}

pub(super) fn ready(checks: usize) -> TrialOutcome {
    let check = Check {
        name: "check".to_owned(),
        detail: String::new(),
    };
    TrialOutcome::Ready(Box::new(ReadyReport {
        passed: vec![check; checks],
        files_supervised: true,
        ..ReadyReport::default()
    }))
}

pub(super) fn runner_failed(stderr: &str) -> TrialOutcome {
    TrialOutcome::RunnerFailed {
        stderr: stderr.to_owned(),
        status: Some(1),
    }
}

impl FakeHost {
    pub(super) fn debian() -> Self {
        Self {
            os: Os::Linux,
            arch: "x86_64",
            kernel: "6.18.0",
            uid: 1000,
            env: BTreeMap::new(),
            files: BTreeMap::from([
                (
                    "/etc/os-release",
                    text("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
                ),
                (
                    "/proc/version",
                    text("Linux version 6.18.0 (builder@debian)"),
                ),
                ("/proc/self/status", text("Seccomp:\t0\n")),
                (
                    "/proc/self/mountinfo",
                    text("22 1 254:0 / / rw - ext4 /dev/vda rw\n"),
                ),
                ("/proc/sys/user/max_user_namespaces", text("96363\n")),
                ("/proc/sys/kernel/overflowuid", text("65534\n")),
                ("/proc/cpuinfo", text("flags\t\t: fpu vmx sse\n")),
                ("/boot/vmlinuz-6.1", text("kernel")),
            ]),
            dirs: BTreeMap::from([("/boot", vec!["/boot/config-6.1", "/boot/vmlinuz-6.1"])]),
            tools: BTreeMap::from([
                ("bwrap", found("/usr/bin/bwrap")),
                ("socat", found("/usr/bin/socat")),
                ("qemu-system-x86_64", found("/usr/bin/qemu-system-x86_64")),
            ]),
            runs: BTreeMap::from([
                ("bwrap --version", says("bubblewrap 0.8.0\n")),
                (
                    "socat -V",
                    says("socat by Gerhard Rieger\nsocat version 1.7.4.4 on 2022\n"),
                ),
                (
                    "qemu-system-x86_64 --version",
                    says("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\n"),
                ),
                (
                    "qemu-system-x86_64 -M",
                    says("Supported machines are:\nmicrovm  microvm (i386)\n"),
                ),
                (
                    "qemu-system-x86_64 -accel",
                    says("Accelerators supported:\ntcg\nkvm\n"),
                ),
            ]),
            landlock_abi: 7,
            seccomp: SeccompFacts {
                filters: true,
                notify: true,
                wait_killable: true,
            },
            user_namespace: UserNamespaceTrial::Works,
            kvm: KvmCanary::Works,
            trial: ready(9),
        }
    }

    /// The same host after a change.
    pub(super) fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn report(&self) -> HostReport {
        probe(self, Switch::On)
    }
}

/// A row by its id.
pub(super) fn row<'a>(report: &'a HostReport, id: &str) -> &'a HostRow {
    let mut rows = report.rows.iter().filter(|row| row.id == id);
    let row = rows.next().unwrap_or_else(|| panic!("no row {id}"));
    assert!(rows.next().is_none(), "two rows {id}");
    row
}

pub(super) fn native(report: &HostReport) -> &BackendReport {
    report
        .backend(SandboxBackend::Native)
        .expect("a native report")
}

/// Cause and command of the native backend's problem.
pub(super) fn why_not(host: &FakeHost) -> (String, Option<Fix>) {
    let report = host.report();
    let native = native(&report).clone();
    assert!(!native.available);
    let problem = native.problem.expect("a problem");
    assert_eq!(problem.code, "NATIVE_UNAVAILABLE");
    assert_eq!(report.verdict.state, VerdictState::Unavailable);
    (problem.causes.join("; "), problem.fix)
}

pub(super) fn command(fix: &Option<Fix>) -> &str {
    fix.as_ref()
        .and_then(|fix| fix.command.as_deref())
        .unwrap_or_default()
}

impl HostProbe for FakeHost {
    fn os(&self) -> Os {
        self.os.clone()
    }

    fn arch(&self) -> String {
        self.arch.to_owned()
    }

    fn kernel_release(&self) -> String {
        self.kernel.to_owned()
    }

    fn uid(&self) -> u32 {
        self.uid
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).map(|value| (*value).to_owned())
    }

    fn read(&self, path: &Path) -> FileText {
        path.to_str()
            .and_then(|path| self.files.get(path))
            .cloned()
            .unwrap_or(FileText::Missing)
    }

    fn exists(&self, path: &Path) -> bool {
        self.read(path) != FileText::Missing
    }

    fn is_readable(&self, path: &Path) -> bool {
        matches!(self.read(path), FileText::Text(_))
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let entries = dir.to_str().and_then(|dir| self.dirs.get(dir));
        entries
            .map(|list| list.iter().map(PathBuf::from).collect())
            .unwrap_or_default()
    }

    fn find_tool(&self, name: &str) -> ToolSearch {
        self.tools.get(name).cloned().unwrap_or(ToolSearch::Missing)
    }

    fn run_tool(&self, path: &Path, args: &[&str]) -> ToolRun {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let key = format!("{name} {}", args.first().copied().unwrap_or_default());
        let run = self.runs.get(key.as_str()).cloned();
        run.unwrap_or_else(|| ToolRun::NotStarted(format!("no fake for {key}")))
    }

    fn landlock_abi(&self) -> u32 {
        self.landlock_abi
    }

    fn seccomp(&self) -> SeccompFacts {
        self.seccomp
    }

    fn user_namespace(&self) -> UserNamespaceTrial {
        self.user_namespace
    }

    fn kvm(&self) -> KvmCanary {
        self.kvm.clone()
    }

    fn image_dir(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/cache"))
    }

    fn trial(&self, request: &TrialRequest) -> TrialOutcome {
        let tool = if self.os == Os::Macos {
            "/usr/bin/sandbox-exec"
        } else {
            "/usr/bin/bwrap"
        };
        assert_eq!(
            request.runner,
            Path::new(tool),
            "only the tool that was found is run"
        );
        self.trial.clone()
    }

    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

//! Gathers everything that the report is made from. Slow checks run beside each other.

use super::HostFacts;
use super::facts::{
    FileText, HostProbe, KvmCanary, Os, SeccompFacts, ToolRun, ToolSearch, TrialOutcome,
    TrialRequest, UserNamespaceTrial,
};
use super::surroundings::{ContainerSigns, container_kind, is_chrooted, status_field, wsl_version};
use std::path::{Path, PathBuf};
use std::thread;

/// A host, as observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) os: Os,
    pub(crate) arch: String,
    pub(crate) kernel: String,
    pub(crate) uid: u32,
    pub(crate) native: Native,
    pub(crate) microvm: Microvm,
}

/// What the native backend needs, by platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Native {
    Linux(Box<LinuxHost>),
    Macos(MacosHost),
    NotOffered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinuxHost {
    /// os-release(5).
    pub(crate) os_release: FileText,
    pub(crate) wsl: Option<u8>,
    pub(crate) container: Option<String>,
    pub(crate) chrooted: bool,
    /// `/proc/sys/user/max_user_namespaces`
    pub(crate) max_user_namespaces: FileText,
    /// `/proc/sys/kernel/unprivileged_userns_clone` (Debian, Arch)
    pub(crate) unprivileged_userns_clone: FileText,
    /// `/proc/sys/kernel/apparmor_restrict_unprivileged_userns` (Ubuntu)
    pub(crate) apparmor_restrict: FileText,
    /// `/proc/sys/kernel/overflowuid`, which container runtimes mask with the rest of `/proc/sys`.
    pub(crate) overflow_uid: FileText,
    /// The `Seccomp` field of `/proc/self/status` is 2: a filter is on this process.
    pub(crate) filtered: bool,
    pub(crate) user_namespace: UserNamespaceTrial,
    pub(crate) kernel: KernelFacts,
    pub(crate) bwrap: Tool,
    pub(crate) socat: Tool,
    /// Absent when there is no bubblewrap to run it.
    pub(crate) trial: Option<TrialOutcome>,
}

/// What the Linux kernel brings for sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelFacts {
    pub(crate) landlock_abi: u32,
    pub(crate) seccomp: SeccompFacts,
    /// `/proc/sys/kernel/yama/ptrace_scope`
    pub(crate) ptrace_scope: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MacosHost {
    /// `SystemVersion.plist`
    pub(crate) system_version: FileText,
    pub(crate) sandbox_exec: bool,
    /// Absent when there is no `sandbox-exec`.
    pub(crate) trial: Option<TrialOutcome>,
}

/// A tool and its answer to being asked for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) search: ToolSearch,
    /// Absent when there is none to ask.
    pub(crate) version: Option<ToolRun>,
}

/// What a microVM needs on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Microvm {
    pub(crate) qemu: Tool,
    /// `-M help`
    pub(crate) machines: Option<ToolRun>,
    /// `-accel help`
    pub(crate) accelerators: Option<ToolRun>,
    pub(crate) guest_kernels: Vec<GuestKernel>,
    pub(crate) kvm: KvmCanary,
    /// The processor's flags, for the cause of a missing `/dev/kvm`.
    pub(crate) cpu_virtualisation: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestKernel {
    pub(crate) path: PathBuf,
    pub(crate) readable: bool,
}

pub(crate) const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// The QEMU that emulates this architecture, where there is a microvm machine for it.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// Looks at everything.
pub(crate) fn observe(host: &dyn HostProbe) -> Observed {
    let os = host.os();
    let ((native, qemu), (kvm, rest)) = beside(
        || {
            beside(
                || match os {
                    Os::Linux => Native::Linux(Box::new(linux(host))),
                    Os::Macos => Native::Macos(macos(host)),
                    Os::Windows | Os::Other(_) => Native::NotOffered,
                },
                || ask_qemu(host),
            )
        },
        || {
            beside(
                || {
                    if os == Os::Linux {
                        host.kvm()
                    } else {
                        KvmCanary::NotChecked
                    }
                },
                || (guest_kernels(host), cpu_virtualisation(host)),
            )
        },
    );
    let (qemu, machines, accelerators) = qemu;
    let (guest_kernels, cpu_virtualisation) = rest;
    Observed {
        arch: host.arch(),
        kernel: host.kernel_release(),
        uid: host.uid(),
        os,
        native,
        microvm: Microvm {
            qemu,
            machines,
            accelerators,
            guest_kernels,
            kvm,
            cpu_virtualisation,
        },
    }
}

fn linux(host: &dyn HostProbe) -> LinuxHost {
    let read = |path: &str| host.read(Path::new(path));
    let (socat, (user_namespace, bwrap)) = beside(
        || tool(host, "socat", "-V"),
        || {
            beside(
                || host.user_namespace(),
                || tool(host, "bwrap", "--version"),
            )
        },
    );
    let kernel = kernel(host);
    let facts = linux_facts(host.uid(), kernel, &bwrap, &socat);
    let trial = bwrap.search.path().map(|runner| {
        host.trial(&TrialRequest {
            runner: runner.to_path_buf(),
            facts,
        })
    });

    let status = read("/proc/self/status");
    let proc_version = read("/proc/version");
    let release = host.kernel_release();
    let interop = host.env("WSL_INTEROP").is_some() || host.exists(Path::new("/run/WSL"));
    LinuxHost {
        os_release: match read("/etc/os-release") {
            FileText::Missing => read("/usr/lib/os-release"),
            found => found,
        },
        wsl: wsl_version(&release, proc_version.text(), interop),
        container: container_kind(&ContainerSigns {
            dockerenv: host.exists(Path::new("/.dockerenv")),
            containerenv: host.exists(Path::new("/run/.containerenv")),
            systemd_container: &read("/run/systemd/container"),
            init_environment: &read("/proc/1/environ"),
            init_cgroup: &read("/proc/1/cgroup"),
            kubernetes: host.env("KUBERNETES_SERVICE_HOST").is_some(),
        }),
        chrooted: is_chrooted(read("/proc/self/mountinfo").text()),
        max_user_namespaces: read("/proc/sys/user/max_user_namespaces"),
        unprivileged_userns_clone: read("/proc/sys/kernel/unprivileged_userns_clone"),
        apparmor_restrict: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        overflow_uid: read("/proc/sys/kernel/overflowuid"),
        filtered: status_field(status.text(), "Seccomp") == Some("2"),
        user_namespace,
        kernel,
        bwrap,
        socat,
        trial,
    }
}

fn kernel(host: &dyn HostProbe) -> KernelFacts {
    let scope = host.read(Path::new("/proc/sys/kernel/yama/ptrace_scope"));
    KernelFacts {
        landlock_abi: host.landlock_abi(),
        seccomp: host.seccomp(),
        ptrace_scope: scope.text().and_then(|text| text.trim().parse().ok()),
    }
}

/// What the kernel itself can do, without tools and without a trial: what a policy is decided by,
/// where nothing is launched.
#[must_use]
pub fn kernel_facts(host: &dyn HostProbe) -> HostFacts {
    if host.os() != Os::Linux {
        return HostFacts::default();
    }
    let kernel = kernel(host);
    HostFacts {
        landlock_abi: kernel.landlock_abi,
        seccomp_notify: kernel.seccomp.notify,
        seccomp_wait_killable: kernel.seccomp.wait_killable,
        ptrace_scope: kernel.ptrace_scope,
        uid: host.uid(),
        ..HostFacts::default()
    }
}

/// The facts that later stages decide by.
pub(crate) fn linux_facts(uid: u32, kernel: KernelFacts, bwrap: &Tool, socat: &Tool) -> HostFacts {
    let path = |tool: &Tool| tool.search.path().and_then(Path::to_str).map(str::to_owned);
    HostFacts {
        bwrap_path: path(bwrap),
        bwrap_version: bwrap.version_text().as_deref().and_then(version_numbers),
        socat_path: path(socat),
        landlock_abi: kernel.landlock_abi,
        seccomp_notify: kernel.seccomp.notify,
        seccomp_wait_killable: kernel.seccomp.wait_killable,
        ptrace_scope: kernel.ptrace_scope,
        files_supervised: None,
        uid,
    }
}

fn macos(host: &dyn HostProbe) -> MacosHost {
    let runner = PathBuf::from(SANDBOX_EXEC);
    let sandbox_exec = host.exists(&runner);
    let facts = HostFacts {
        uid: host.uid(),
        ..HostFacts::default()
    };
    MacosHost {
        system_version: host.read(Path::new(
            "/System/Library/CoreServices/SystemVersion.plist",
        )),
        sandbox_exec,
        trial: sandbox_exec.then(|| host.trial(&TrialRequest { runner, facts })),
    }
}

fn ask_qemu(host: &dyn HostProbe) -> (Tool, Option<ToolRun>, Option<ToolRun>) {
    let search = host.find_tool(QEMU);
    let Some(path) = search.path().map(Path::to_path_buf) else {
        return (
            Tool {
                search,
                version: None,
            },
            None,
            None,
        );
    };
    let (version, (machines, accelerators)) = beside(
        || host.run_tool(&path, &["--version"]),
        || {
            beside(
                || host.run_tool(&path, &["-M", "help"]),
                || host.run_tool(&path, &["-accel", "help"]),
            )
        },
    );
    (
        Tool {
            search,
            version: Some(version),
        },
        Some(machines),
        Some(accelerators),
    )
}

fn tool(host: &dyn HostProbe, name: &str, version_flag: &str) -> Tool {
    let search = host.find_tool(name);
    let version = search
        .path()
        .map(|path| host.run_tool(path, &[version_flag]));
    Tool { search, version }
}

/// Kernel images that a microVM could boot: Kotak's own cache first, then the host's.
fn guest_kernels(host: &dyn HostProbe) -> Vec<GuestKernel> {
    let starts_with = |path: &Path, prefix: &str| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(prefix))
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Some(dir) = host.image_dir() {
        paths.extend(
            host.list(&dir)
                .into_iter()
                .filter(|path| starts_with(path, "vmlinu")),
        );
    }
    let boot = host.list(Path::new("/boot"));
    paths.extend(boot.into_iter().filter(|path| starts_with(path, "vmlinuz")));
    for modules in ["/usr/lib/modules", "/lib/modules"] {
        let versions = host.list(Path::new(modules));
        let images = versions.into_iter().map(|dir| dir.join("vmlinuz"));
        paths.extend(images.filter(|path| host.exists(path)));
        if paths.iter().any(|path| path.starts_with(modules)) {
            break; // `/lib` is the same directory on merged systems
        }
    }
    paths
        .into_iter()
        .map(|path| GuestKernel {
            readable: host.is_readable(&path),
            path,
        })
        .collect()
}

fn cpu_virtualisation(host: &dyn HostProbe) -> bool {
    host.read(Path::new("/proc/cpuinfo"))
        .text()
        .is_some_and(|text| {
            text.lines()
                .filter(|line| line.starts_with("flags"))
                .any(|line| {
                    line.split_whitespace()
                        .any(|flag| flag == "vmx" || flag == "svm")
                })
        })
}

impl Tool {
    /// The version as the tool says it: the first word that starts like one.
    pub(crate) fn version_text(&self) -> Option<String> {
        let Some(ToolRun::Ended {
            code: Some(0),
            stdout,
            ..
        }) = &self.version
        else {
            return None;
        };
        stdout.split_whitespace().find_map(|word| {
            let version: String = word
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let version = version.trim_end_matches('.');
            (version.contains('.') && version.starts_with(|c: char| c.is_ascii_digit()))
                .then(|| version.to_owned())
        })
    }
}

/// `major.minor[.patch]`.
pub(crate) fn version_numbers(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    let major = parts.next()??;
    let minor = parts.next()??;
    Some((major, minor, parts.next().flatten().unwrap_or(0)))
}

/// Runs both, the first one on a thread of its own; where no thread can be had, one after the
/// other.
fn beside<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let spawned = thread::Builder::new()
            .name("probe".to_owned())
            .spawn_scoped(scope, &first);
        let b = second();
        let a = match spawned {
            Ok(handle) => handle
                .join()
                .unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
            Err(_) => first(),
        };
        (a, b)
    })
}

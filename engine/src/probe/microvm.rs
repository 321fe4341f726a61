//! What a microVM needs on the host, and why there is none (REQ BK-3, BK-6). Pure.
//!
//! The guest side (the station) is not part of this version, so the backend is never available;
//! each prerequisite is looked at all the same, so that the report is ready for it.

use super::diagnose::{errno_words, one_line};
use super::distribution::{Distribution, Package, sudo};
use super::facts::{KvmCanary, Os, ToolRun};
use super::observe::{Observed, QEMU};
use super::report::{BackendReport, HostRow, RowStatus};
use super::rows::{ToolRow, install_fix, row};
use crate::backend::SandboxBackend;
use crate::error::{Fix, Problem};

const NOTE: &str = "a virtual machine of its own, with a kernel boundary";

/// The microVM's rows and the report of its backend.
pub(crate) fn microvm(
    observed: &Observed,
    distribution: &Distribution,
    container: Option<&str>,
    wsl: Option<u8>,
) -> (Vec<HostRow>, BackendReport) {
    let qemu = qemu_row(observed, distribution);
    let machine = machine_row(observed);
    let kernel = guest_kernel_row(observed, distribution);
    let kvm = kvm_row(observed, container, wsl);
    let station = row(
        "microvm",
        "microVM",
        RowStatus::Missing,
        "not available",
        "Sessions with a kernel of their own: the only backend with a kernel boundary.",
    )
    .because(
        "this version of Kotak has no station, the part that runs inside a microVM",
        None,
    );

    let mut rows = vec![qemu, machine, kernel, kvm];
    let mut causes: Vec<String> = station.cause.iter().cloned().collect();
    causes.extend(
        rows.iter()
            .filter(|row| row.status != RowStatus::Ok)
            .filter_map(|row| {
                row.cause
                    .as_ref()
                    .map(|cause| format!("{}: {cause}", row.label))
            }),
    );
    rows.push(station);

    let lacking: Vec<&str> = rows
        .iter()
        .filter(|row| row.id != "microvm" && row.status == RowStatus::Missing)
        .map(|row| row.label.as_str())
        .collect();
    let message = if lacking.is_empty() {
        "no microVM can be started: this version of Kotak has no station".to_owned()
    } else {
        format!(
            "no microVM can be started: this version of Kotak has no station, and this host lacks {}",
            lacking.join(", ")
        )
    };
    let report = BackendReport {
        backend: SandboxBackend::Microvm,
        available: false,
        requires_install: observed.microvm.qemu.search.path().is_none(),
        note: NOTE.to_owned(),
        problem: Some(Problem {
            code: "MICROVM_UNAVAILABLE".to_owned(),
            message,
            causes,
            fix: Some(Fix::words(
                "microVM sessions need a later version of Kotak; the host report says what this \
                 host lacks besides.",
            )),
        }),
    };
    (rows, report)
}

fn qemu_row(observed: &Observed, distribution: &Distribution) -> HostRow {
    let tool = ToolRow {
        id: "qemu",
        label: "QEMU",
        program: QEMU,
        package: Package::Qemu,
        enables: "Runs microVMs.",
    };
    match observed.os {
        Os::Linux => tool.row(&observed.microvm.qemu, distribution, observed.uid),
        Os::Macos | Os::Windows | Os::Other(_) => {
            // No package manager is known to be there.
            let mut row = tool.row(&observed.microvm.qemu, distribution, observed.uid);
            row.fix = row.fix.map(|_| Fix::words("Install QEMU."));
            row
        }
    }
}

/// QEMU's microvm machine, and whether this QEMU can use KVM at all.
fn machine_row(observed: &Observed) -> HostRow {
    let new = |status, detail: &str| {
        row(
            "qemu-microvm",
            "QEMU's microvm machine",
            status,
            detail,
            "The small machine type that starts fast.",
        )
    };
    let answer = match &observed.microvm.machines {
        None => {
            return new(RowStatus::Missing, "not asked")
                .because("there is no trusted QEMU to ask", None);
        }
        Some(ToolRun::Ended {
            code: Some(0),
            stdout,
            ..
        }) => stdout,
        Some(ToolRun::Ended { stderr, .. }) => {
            return new(RowStatus::Missing, "not known").because(
                format!("{QEMU} does not list its machines: {}", one_line(stderr)),
                None,
            );
        }
        Some(ToolRun::NotStarted(error)) => {
            return new(RowStatus::Missing, "not known").because(
                format!("{QEMU} could not be started: {}", one_line(error)),
                None,
            );
        }
        Some(ToolRun::TimedOut) => {
            return new(RowStatus::Missing, "not known")
                .because(format!("{QEMU} gave no answer in time"), None);
        }
    };
    if !answer
        .lines()
        .any(|line| line.split_whitespace().next() == Some("microvm"))
    {
        return new(RowStatus::Missing, "missing").because(
            "this QEMU was built without the microvm machine",
            Some(Fix::words("Install your distribution's full QEMU for x86.")),
        );
    }
    let kvm_built_in = matches!(
        &observed.microvm.accelerators,
        Some(ToolRun::Ended { code: Some(0), stdout, .. })
            if stdout.lines().any(|line| line.trim() == "kvm")
    );
    if observed.os == Os::Linux && !kvm_built_in {
        return new(RowStatus::Partial, "present, without KVM").because(
            "this QEMU does not list KVM among its accelerators",
            Some(Fix::words("Install your distribution's full QEMU for x86.")),
        );
    }
    new(RowStatus::Ok, "present")
}

fn guest_kernel_row(observed: &Observed, distribution: &Distribution) -> HostRow {
    let new = |status, detail: String| {
        row(
            "guest-kernel",
            "Guest kernel image",
            status,
            detail,
            "The kernel that a microVM boots.",
        )
    };
    let kernels = &observed.microvm.guest_kernels;
    if let Some(kernel) = kernels.iter().find(|kernel| kernel.readable) {
        return new(RowStatus::Ok, kernel.path.display().to_string());
    }
    if let Some(kernel) = kernels.first() {
        let path = kernel.path.display();
        return new(RowStatus::Missing, format!("{path}, not readable")).because(
            format!("{path} can only be read by root"),
            Some(Fix::command(
                "Make the kernel image readable; it holds no secret of this machine.",
                format!("{}chmod 0644 '{path}'", sudo(observed.uid)),
            )),
        );
    }
    let fix = match observed.os {
        Os::Linux => {
            let debian = match distribution.name.to_ascii_lowercase() {
                name if name.contains("ubuntu") => Some("linux-image-virtual"),
                name if name.contains("debian") && observed.arch == "x86_64" => {
                    Some("linux-image-cloud-amd64")
                }
                _ => None,
            };
            match debian {
                Some(package) => Fix::command(
                    "Install a kernel image; it need not be the one that this host runs.",
                    format!("{}apt-get install {package}", sudo(observed.uid)),
                ),
                None => install_fix(distribution, &[Package::GuestKernel], observed.uid),
            }
        }
        Os::Macos | Os::Windows | Os::Other(_) => {
            Fix::words("A later version of Kotak will bring its own.")
        }
    };
    new(RowStatus::Missing, "missing".to_owned()).because(
        "no kernel image in /boot, /usr/lib/modules or Kotak's own cache",
        Some(fix),
    )
}

fn kvm_row(observed: &Observed, container: Option<&str>, wsl: Option<u8>) -> HostRow {
    let new = |status, detail: &str| {
        row(
            "kvm",
            "KVM",
            status,
            detail,
            "Guest code runs on the processor itself; without it a microVM is software emulation.",
        )
    };
    let sudo = sudo(observed.uid);
    match &observed.microvm.kvm {
        KvmCanary::Works => new(RowStatus::Ok, "works: a canary guest ran its kernel code"),
        KvmCanary::NotChecked if observed.os == Os::Linux => {
            new(RowStatus::Info, "not checked on this architecture").because(
                format!(
                    "the canary guest is written for x86_64, and this is {}",
                    observed.arch
                ),
                None,
            )
        }
        KvmCanary::NotChecked => new(RowStatus::Info, "not checked on this platform")
            .because("KVM is part of Linux", None),
        KvmCanary::NoDevice => {
            no_kvm_device(new(RowStatus::Missing, "missing"), observed, container, wsl)
        }
        KvmCanary::Denied => new(RowStatus::Missing, "may not be opened").because(
            "/dev/kvm is there, and you may not open it",
            Some(Fix::command(
                "Join the group kvm, then log out and in again.",
                format!("{sudo}usermod -aG kvm \"$(id -un)\""),
            )),
        ),
        KvmCanary::OpenFailed(errno) => new(RowStatus::Missing, "cannot be opened").because(
            format!("opening /dev/kvm fails: {}", errno_words(*errno)),
            None,
        ),
        KvmCanary::WrongVersion(version) => new(RowStatus::Missing, "unknown interface").because(
            format!("/dev/kvm speaks version {version} of its interface, Kotak speaks 12"),
            None,
        ),
        KvmCanary::SetupFailed { step, errno } => new(RowStatus::Missing, "makes no machine")
            .because(
                format!(
                    "/dev/kvm opens, but {step} fails: {}{}",
                    errno_words(*errno),
                    if *errno == 16 {
                        "; another hypervisor may hold the processor"
                    } else {
                        ""
                    }
                ),
                None,
            ),
        KvmCanary::Emulated { at, exit } => new(RowStatus::Missing, "opens, but runs no kernel")
            .because(
                format!(
                    "/dev/kvm opens, but guest kernel code is emulated (nested virtualisation \
                     without hardware support), and stops at {at}: {exit}; no stock kernel can boot"
                ),
                Some(Fix::words(
                    "Use a host with hardware virtualisation, or a virtual machine whose provider \
                     offers nested virtualisation.",
                )),
            ),
        KvmCanary::TimedOut => new(RowStatus::Missing, "hangs").because(
            "the canary guest did not end in time and was killed",
            Some(Fix::words("Use a host with hardware virtualisation.")),
        ),
        KvmCanary::Crashed(how) => new(RowStatus::Missing, "not known").because(
            format!("the canary's own process failed: {}", one_line(how)),
            None,
        ),
    }
}

fn no_kvm_device(
    row: HostRow,
    observed: &Observed,
    container: Option<&str>,
    wsl: Option<u8>,
) -> HostRow {
    let sudo = sudo(observed.uid);
    if let Some(kind) = container {
        return row.because(
            format!("/dev/kvm does not exist in this container ({kind})"),
            Some(Fix::words(
                "Start the container with --device /dev/kvm, if its host has KVM.",
            )),
        );
    }
    if wsl == Some(2) {
        return row.because(
            "/dev/kvm does not exist: this WSL2 offers no nested virtualisation",
            Some(Fix::words(
                "Set nestedVirtualization=true in the [wsl2] section of %UserProfile%\\.wslconfig, \
                 then run wsl.exe --shutdown.",
            )),
        );
    }
    if observed.microvm.cpu_virtualisation {
        return row.because(
            "/dev/kvm does not exist: the processor can do it, and the kernel module is not loaded",
            Some(Fix::command(
                "Load the module of your processor.",
                format!("{sudo}modprobe kvm_intel || {sudo}modprobe kvm_amd"),
            )),
        );
    }
    row.because(
        "/dev/kvm does not exist: the processor offers no virtualisation here",
        Some(Fix::words(
            "Switch virtualisation (VT-x or AMD-V) on in the firmware; inside a virtual machine, \
             let its provider switch nested virtualisation on.",
        )),
    )
}

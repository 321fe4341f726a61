//! Each fault of a host, for real (REQ PR-4, PR-7): the probe says the cause and what mends it,
//! `--backend native` is refused, and nothing runs. The control is the same host without the fault.

use kotak_engine::backend::SandboxBackend;
use kotak_tests::stage::Stage;
use kotak_tests::{Kotak, Outcome};
use std::os::unix::fs::symlink;

/// What a host is made of: how every call of the command is started there.
type Surroundings<'a> = &'a dyn Fn(Kotak) -> Kotak;

fn probe(stage: &Stage, on: Surroundings) -> Outcome {
    on(stage.kotak()).arg("probe").run()
}

fn native(stage: &Stage, on: Surroundings) -> Outcome {
    let call = on(stage.kotak()).args(["run", "--backend", "native", "--profile", "terminal"]);
    call.args(["--", "/bin/sh", "-c", "echo ran"]).run()
}

/// The probe tells `cause` and one of `fixes` (which one depends on where the tests run, in a
/// container or not), and no session is sandboxed, nor runs without.
#[track_caller]
fn told(stage: &Stage, on: Surroundings, cause: &str, fixes: &[&str]) {
    let report = probe(stage, on);
    assert_eq!(report.code, 3, "{report:?}");
    assert!(
        report.stdout.contains(cause),
        "`{cause}` expected: {report:?}"
    );
    assert!(
        fixes.iter().any(|fix| report.stdout.contains(fix)),
        "one of {fixes:?} expected: {report:?}"
    );
    let line = "no OS-native agent sandbox on this host";
    assert_eq!(report.stdout.matches(line).count(), 1, "{report:?}");
    let refused = native(stage, on);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        refused.stderr.contains("[NATIVE_UNAVAILABLE]"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains(cause), "{refused:?}");
    assert!(!refused.stderr.contains("--sandbox off"), "{refused:?}");
    assert_eq!(refused.stdout, "", "something ran: {refused:?}");
    let auto = on(stage.kotak()).args(["run", "--profile", "terminal"]);
    let auto = auto.args(["--", "/bin/sh", "-c", "echo ran"]).run();
    assert_eq!(auto.code, 3, "{auto:?}");
    assert_eq!(auto.stdout, "", "auto fell to no sandbox: {auto:?}");
}

#[track_caller]
fn available(stage: &Stage, on: Surroundings) {
    let report = probe(stage, on);
    assert_eq!(report.code, 0, "the control failed: {report:?}");
    let ran = native(stage, on);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "ran\n"),
        "the control failed: {ran:?}"
    );
}

/// A directory with links to these programs alone.
fn tools(stage: &Stage, name: &str, programs: &[&str]) -> std::path::PathBuf {
    let dir = stage.home().join(name);
    std::fs::create_dir(&dir).expect("a directory");
    for program in programs {
        let real = ["/usr/bin", "/bin"]
            .iter()
            .map(|place| std::path::Path::new(place).join(program))
            .find(|path| path.exists())
            .expect("installed");
        symlink(real, dir.join(program)).expect("a link");
    }
    dir
}

#[test]
fn bubblewrap_or_socat_missing_from_path_is_named_with_its_package() {
    // REQ PR-4
    let stage = Stage::new();
    for (name, programs, missing, package) in [
        (
            "a",
            &["socat"][..],
            "bubblewrap is not installed",
            "bubblewrap",
        ),
        ("b", &["bwrap"][..], "socat is not installed", "socat"),
        (
            "c",
            &[][..],
            "bubblewrap and socat are not installed",
            "bubblewrap socat",
        ),
    ] {
        let path = tools(&stage, name, programs);
        told(
            &stage,
            &|call| call.env("PATH", &path),
            missing,
            &[&format!("install {package}")],
        );
    }
    let both = tools(&stage, "both", &["bwrap", "socat"]);
    available(&stage, &|call| call.env("PATH", &both));
}

#[test]
fn a_bubblewrap_in_a_writable_directory_is_never_run() {
    // launch case: `bwrap` found first in a writable or project directory on PATH
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let marker = stage.home().join("fake-bwrap-ran");
    stage.write(
        "work/bin/bwrap",
        &format!(
            "#!/bin/sh\ntouch '{0}'\nexec /usr/bin/bwrap \"$@\"\n",
            marker.display()
        ),
    );
    let fake = stage.work().join("bin/bwrap");
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let dir = stage.work().join("bin");
    let dir = dir.display();
    // The system's own is preferred, wherever it stands in PATH.
    available(&stage, &|call| {
        call.env("PATH", format!("{dir}:/usr/local/bin:/usr/bin:/bin"))
    });
    assert!(!marker.exists(), "the writable one was run");
    let socat = tools(&stage, "socat-only", &["socat"]);
    told(
        &stage,
        &|call| call.env("PATH", format!("{dir}:{}", socat.display())),
        &fake.display().to_string(),
        &["install bubblewrap"],
    );
    assert!(!marker.exists(), "the writable one was run");
    let direct = std::process::Command::new(&fake).arg("--version").output();
    assert!(direct.is_ok_and(|output| output.status.success()));
    assert!(
        marker.exists(),
        "the control failed: the fake tells when it is run"
    );
}

const OWN_USERS: [&str; 6] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "/bin/sh",
    "-c",
];

/// In a user namespace of its own, after a shell line.
fn within(call: Kotak, line: &str) -> Kotak {
    let line = format!("{line} && exec \"$@\"");
    call.behind(OWN_USERS.into_iter().chain([line.as_str(), "sh"]))
}

#[test]
fn forbidden_user_namespaces_are_told() {
    // REQ PR-7
    let stage = Stage::new();
    told(
        &stage,
        &|call| within(call, "echo 0 > /proc/sys/user/max_user_namespaces"),
        "user.max_user_namespaces is 0",
        &["sysctl -w user.max_user_namespaces"],
    );
    available(&stage, &|call| within(call, "true"));
}

#[test]
fn a_container_like_proc_is_told() {
    // launch case: inside a container, no `/proc` mount allowed
    let stage = Stage::new();
    told(
        &stage,
        &|call| within(call, "mount -t tmpfs none /proc/sys"),
        "/proc are masked",
        &["Run Kotak on the host itself"],
    );
    told(
        &stage,
        &|call| within(call, "mount -t tmpfs none /proc/tty"),
        "Can't mount proc on /newroot/proc",
        &["Run Kotak on the host itself"],
    );
    available(&stage, &|call| within(call, "true"));
}

/// Loads a filter that refuses user namespaces as container runtimes do, then runs its arguments.
/// `unshare` and `clone` with CLONE_NEWUSER: EPERM; `clone3`, whose flags cannot be seen: ENOSYS.
const FILTERED: &str = r"
import ctypes, os, struct, sys
program = [
    (0x20, 0, 0, 0),
    (0x15, 5, 0, 435),
    (0x15, 1, 0, 272),
    (0x15, 0, 4, 56),
    (0x20, 0, 0, 16),
    (0x45, 0, 2, VALUE),
    (0x06, 0, 0, 0x00050001),
    (0x06, 0, 0, 0x00050026),
    (0x06, 0, 0, 0x7fff0000),
]
code = b''.join(struct.pack('=HBBI', *one) for one in program)
held = ctypes.create_string_buffer(code)
fprog = struct.pack('@HP', len(program), ctypes.addressof(held))
libc = ctypes.CDLL(None, use_errno=True)
arguments = [ctypes.c_ulong] * 4
libc.prctl.argtypes = [ctypes.c_int] + arguments
assert libc.prctl(38, 1, 0, 0, 0) == 0
buffer = ctypes.create_string_buffer(fprog)
assert libc.prctl(22, 2, ctypes.addressof(buffer), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
";

#[cfg(target_arch = "x86_64")]
#[test]
fn an_outer_seccomp_filter_is_told_apart_from_a_setting() {
    // REQ PR-7
    let stage = Stage::new();
    let filtered = |call: Kotak, flag: &str| {
        let script = FILTERED.replace("VALUE", flag);
        call.behind(["/usr/bin/python3", "-c", script.as_str()])
    };
    // The control's filter looks for a flag that nobody sets (CLONE_DETACHED).
    available(&stage, &|call| filtered(call, "0x00400000"));
    told(
        &stage,
        &|call| filtered(call, "0x10000000"),
        "seccomp filter",
        &[
            "Run Kotak on the host itself",
            "outside the program that filters it",
        ],
    );
}

#[test]
fn the_switch_takes_effect_on_what_names_no_backend_alone() {
    // REQ SW-1, SW-2, SW-3
    let stage = Stage::new();
    let secret = ["--", "/bin/cat", ".ssh/secret"];
    let run = |switch: &[&str], backend: &[&str]| {
        let call = Kotak::new(stage.home(), stage.home()).args(switch);
        call.arg("run")
            .args(backend)
            .args(["--profile", "terminal"])
            .args(secret)
            .run()
    };
    let off = ["--sandbox", "off"];
    let readable = |outcome: &Outcome| outcome.stdout == kotak_tests::stage::SECRET;
    assert!(
        readable(&run(&off, &[])),
        "off and nothing named: no sandbox"
    );
    assert!(
        !readable(&run(&off, &["--backend", "native"])),
        "named: wrapped"
    );
    assert!(!readable(&run(&[], &[])), "on and nothing named: wrapped");
    assert!(
        readable(&run(&[], &["--backend", "none"])),
        "none named: none"
    );
    let microvm = run(&off, &["--backend", "microvm"]);
    assert_eq!(microvm.code, 3, "{microvm:?}");
    assert!(
        microvm.stderr.contains("[MICROVM_UNAVAILABLE]"),
        "{microvm:?}"
    );
    let fixes = |text: &str| -> String {
        let lines = text.lines().filter(|line| line.starts_with("  fix:"));
        lines.collect()
    };
    assert!(!fixes(&microvm.stderr).is_empty(), "{microvm:?}");
    assert!(
        !fixes(&microvm.stderr).contains("--sandbox off"),
        "{microvm:?}"
    );

    let line = |call: Kotak| call.arg("probe").run().stdout;
    let disabled = "agent sandbox DISABLED by --sandbox off";
    let call = || stage.kotak();
    assert!(line(call().args(off)).contains(disabled));
    assert!(line(call().env("KOTAK_SANDBOX", "off")).contains(disabled));
    assert!(line(call().env("CC_SERVER_SANDBOX", "off")).contains(disabled));
    let both = call().env("KOTAK_SANDBOX", "off").args(["--sandbox", "on"]);
    assert!(line(both).contains("agent sandbox ON"), "the flag wins");
    for bad in ["", "ON", "yes", "0"] {
        let refused = call().env("KOTAK_SANDBOX", bad).arg("probe").run();
        assert_eq!(refused.code, 2, "`{bad}`: {refused:?}");
        assert!(refused.stderr.contains("\n  fix: "), "{refused:?}");
    }
}

#[test]
fn stored_backend_names_are_read_as_they_were_meant() {
    // REQ BK-2
    let read = SandboxBackend::from_name;
    assert_eq!(read(Some("docker")), SandboxBackend::Native);
    assert_eq!(read(Some("native")), SandboxBackend::Native);
    assert_eq!(read(Some("microvm")), SandboxBackend::Microvm);
    for other in [None, Some(""), Some("none"), Some("Docker"), Some("vm")] {
        assert_eq!(read(other), SandboxBackend::None, "{other:?}");
    }
}

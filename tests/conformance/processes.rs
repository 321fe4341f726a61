//! Processes: PID namespace, no capability, no way to more privilege, no terminal injection.

use kotak_tests::stage::{Stage, is_root, skip};

#[test]
fn the_payload_sees_only_its_own_processes() {
    // REQ BW-1
    let stage = Stage::new();
    let mut host = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .expect("sleep");
    let pid = host.id();
    let look = format!("tr '\\0' ' ' < /proc/{pid}/cmdline");
    let inside = stage.terminal(&look);
    let outside = stage.bare(&look);
    let kill = stage.terminal(&format!("kill -9 {pid}"));
    let alive = host.try_wait().expect("a status").is_none();
    host.kill().expect("a signal");
    host.wait().expect("an end");
    assert!(!inside.stdout.contains("sleep 1000"), "{inside:?}");
    assert!(
        outside.stdout.contains("sleep 1000"),
        "the control failed: {outside:?}"
    );
    assert_ne!(kill.code, 0);
    assert!(alive, "a process of the host was killed from inside");
}

#[test]
fn the_payload_has_no_capability_and_no_new_privileges() {
    // launch case: root user runs the engine
    let stage = Stage::new();
    let inside = stage.terminal("grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\\t'");
    for line in inside.stdout.lines() {
        let (name, value) = line.split_once(':').expect("a field");
        match name {
            "NoNewPrivs" => assert_eq!(value, "1"),
            "CapInh" | "CapPrm" | "CapEff" | "CapAmb" | "CapBnd" => {
                assert_eq!(value.trim_start_matches('0'), "", "{name} is {value}");
            }
            other => panic!("unexpected {other}"),
        }
    }
    assert_eq!(inside.stdout.lines().count(), 6, "{inside:?}");
    if is_root() {
        let outside = stage.bare("grep CapEff /proc/self/status");
        assert!(
            !outside.stdout.ends_with("0000000000000000\n"),
            "the control failed: {outside:?}"
        );
    }
}

#[test]
fn kernel_settings_are_not_writable() {
    // launch case: root inside writes core_pattern, sysrq-trigger. Opens only; writes nothing.
    let stage = Stage::new();
    for file in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/sys/kernel/mm/ksm/run",
    ] {
        if !std::path::Path::new(file).exists() {
            skip(&format!("not writable inside: this kernel has no {file}"));
            continue;
        }
        let inside = stage.terminal(&format!(": >> {file}"));
        assert_ne!(inside.code, 0, "{file} can be opened for writing inside");
    }
    if is_root() {
        let control = stage.bare(": >> /proc/sys/kernel/core_pattern");
        assert!(control.succeeded(), "the control failed: {control:?}");
    }
}

#[test]
fn no_way_to_more_namespaces_mounts_or_keys() {
    let stage = Stage::new();
    for attempt in [
        "unshare -U true",
        "unshare -Ur true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "mount --bind /tmp /var",
        "umount /tmp",
        "chroot / true",
        "nsenter -t 1 -m true",
        "pivot_root / /tmp",
    ] {
        let inside = stage.terminal(attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside");
    }
    let control = stage.bare("unshare -Ur true");
    assert!(control.succeeded(), "the control failed: {control:?}");

    let call = |number: &str| {
        format!(
            "python3 -c 'import ctypes, os; l=ctypes.CDLL(None,use_errno=True); \
             r=l.syscall({number}); print(r, os.strerror(ctypes.get_errno()) if r<0 else \"ok\")'"
        )
    };
    // x86_64 numbers; keyctl(KEYCTL_GET_KEYRING_ID, session), bpf, userfaultfd, perf_event_open
    for (what, number) in [
        ("keyctl", "250,0,-3,1"),
        ("bpf", "321,0,0,0"),
        ("userfaultfd", "323,0"),
        ("setns", "308,0,0"),
    ] {
        let inside = stage.terminal(&call(number));
        assert_eq!(
            inside.stdout.trim(),
            "-1 Operation not permitted",
            "{what}: {inside:?}"
        );
    }
    let control = stage.bare(&call("39")); // getpid
    assert!(
        control.stdout.contains("ok"),
        "the control failed: {control:?}"
    );
    let uring = stage.terminal(&call("425,1,0"));
    assert_eq!(
        uring.stdout.trim(),
        "-1 Function not implemented",
        "{uring:?}"
    );
}

/// Makes a PTY its controlling terminal and injects one byte; prints the error.
const INJECT: &str = r#"python3 -c '
import fcntl, os, pty, termios, sys
master, slave = pty.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    try:
        fcntl.ioctl(slave, REQUEST, b"x")
        print("injected", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
    os._exit(0)
os.wait()
'"#;

#[test]
fn terminal_injection_is_refused() {
    // launch case: TIOCSTI, TIOCLINUX
    let stage = Stage::new();
    for request in ["termios.TIOCSTI", "termios.TIOCSTI + 0", "0x541C"] {
        let inside = stage.terminal(&INJECT.replace("REQUEST", request));
        assert_eq!(
            inside.stdout.trim(),
            "1",
            "{request}: EPERM expected: {inside:?}"
        );
    }
    let control = stage.bare(&INJECT.replace("REQUEST", "termios.TIOCSTI"));
    // Without the rule the request reaches the terminal layer: injected, or EIO where the kernel
    // has switched the feature off for all.
    assert!(
        ["injected", "5"].contains(&control.stdout.trim()),
        "the control failed: {control:?}"
    );
}

#[test]
fn a_command_number_with_garbage_in_its_high_bits_is_refused_too() {
    let stage = Stage::new();
    let inside = stage.terminal(
        "python3 -c 'import ctypes, os; l=ctypes.CDLL(None,use_errno=True); \
         l.syscall.argtypes=[ctypes.c_long]+[ctypes.c_ulong]*3; \
         r=l.syscall(16,0,0xdead00005412,0); print(r, ctypes.get_errno())'",
    );
    assert_eq!(inside.stdout.trim(), "-1 1", "{inside:?}");
}

#[test]
fn the_guard_cannot_be_read_traced_or_ended_from_inside() {
    let stage = Stage::new();
    for attempt in [
        "cat /proc/1/environ",
        "cat /proc/1/maps",
        "ls -l /proc/1/fd",
        "head -c 1 /proc/1/mem",
        "readlink /proc/1/cwd",
        "readlink /proc/1/root",
        "python3 -c 'import ctypes,sys; l=ctypes.CDLL(None); sys.exit(l.ptrace(16,1,0,0)!=0)'",
        "python3 -c 'import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))'",
    ] {
        let inside = stage.terminal(attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside: {inside:?}");
    }
    if is_root() {
        skip("the kernel lets user 0 write the guard's oom_score_adj");
    } else {
        // The kernel lets user 0 open this file of any process of the namespace, whatever it may
        // do otherwise. All it gains is to be ended first when memory runs out, with its session.
        let attempt = "echo 1000 > /proc/1/oom_score_adj";
        let inside = stage.terminal(attempt);
        assert_ne!(inside.code, 0, "`{attempt}` succeeded inside: {inside:?}");
        let own = stage.terminal("echo 1000 > /proc/self/oom_score_adj");
        assert!(own.succeeded(), "the control failed: {own:?}");
    }
    let alive =
        stage.terminal("kill -9 1; kill -STOP 1; kill -TERM 1; kill -INT 1; sh -c 'echo on'");
    assert_eq!(
        (alive.code, alive.stdout.as_str()),
        (0, "on\n"),
        "{alive:?}"
    );
    let own = stage.terminal("cat /proc/self/environ >/dev/null && ls /proc/self/fd >/dev/null");
    assert!(own.succeeded(), "the control failed: {own:?}");
}

#[test]
fn sudo_gains_nothing() {
    // launch case: `sudo` inside
    let stage = Stage::new();
    let setuid = stage.terminal("su -c 'id -u' </dev/null || sudo -n id -u");
    assert!(is_root() || setuid.stdout.trim() != "0", "{setuid:?}");
    let status = stage.terminal("cp /bin/sh ./suid && chmod 4755 ./suid && ./suid -p -c 'id -u'");
    let own = nix::unistd::getuid().to_string();
    assert_eq!(status.stdout.trim(), own, "{status:?}");
}

#[test]
fn common_tools_and_devices_work() {
    // launch case: here-documents, locale, terminfo, /dev/shm, /dev/ptmx
    let stage = Stage::new();
    for tool in [
        "cat <<EOF | grep -q x\nx\nEOF",
        "test -w /dev/shm && echo x > /dev/shm/x",
        "python3 -c 'import pty; pty.openpty()'",
        "python3 -c 'import multiprocessing as m; m.Lock()'",
        "test -c /dev/null && echo > /dev/null && test -c /dev/urandom && head -c 1 /dev/urandom >/dev/null",
        "getent passwd $(id -u) | grep -q .",
        "ls -d / /usr/bin/env >/dev/null",
        "git init -q fresh-repo && test -d fresh-repo/.git",
        "date >/dev/null && TERM=xterm-256color tput cols >/dev/null",
    ] {
        let inside = stage.terminal(tool);
        assert!(inside.succeeded(), "`{tool}`: {inside:?}");
    }
}

//! The guard against its own payload.

use crate::harness::{Flags, Guard, Place, users};
use kotak_guard::proto::ExitStatus;

fn natives() -> impl Iterator<Item = Guard> {
    users()
        .iter()
        .map(|user| Guard::start(&Place::Native(*user, Flags::default())))
}

#[test]
fn the_memory_root_and_environment_of_the_guard_are_closed() {
    for mut guard in natives() {
        for (attempt, action) in [
            ("mem", "head -c1 /proc/PID/mem"),
            ("open mem", "exec 3<>/proc/PID/mem"),
            ("root", "ls /proc/PID/root/"),
            ("cwd", "ls /proc/PID/cwd/"),
            ("exe", "readlink /proc/PID/exe"),
            ("maps", "cat /proc/PID/maps"),
            ("environ", "cat /proc/PID/environ"),
            ("descriptor", "readlink /proc/PID/fd/0"),
            ("namespace", "readlink /proc/PID/ns/mnt"),
            ("syscall", "cat /proc/PID/syscall"),
        ] {
            let guarded = action.replace("PID", "1");
            assert_ne!(guard.sh(&guarded).status, ExitStatus::Code(0), "{attempt}");
            if attempt == "mem" {
                // Address 0 is mapped nowhere; opening is what the next line compares.
                continue;
            }
            // Positive control: the same against a process of one's own.
            let own = action.replace("PID", "$!");
            let script = format!("sleep 100 & {own}; code=$?; kill $!; exit $code");
            assert_eq!(guard.sh(&script).status, ExitStatus::Code(0), "{attempt}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
const SYS_PTRACE: &str = "101";
#[cfg(target_arch = "aarch64")]
const SYS_PTRACE: &str = "117";

#[test]
fn the_guard_cannot_be_traced() {
    // PTRACE_ATTACH is 16, PTRACE_SEIZE 0x4206.
    let attempt = |pid: &str, how: &str| {
        format!(
            r#"my $pid = {pid}; my $result = syscall({SYS_PTRACE}, {how}, $pid, 0, 0);
               print $result == 0 ? "traced" : "errno ".($!+0); kill 9, $pid if $pid > 1;"#
        )
    };
    let child = r"do { my $child = fork(); if ($child == 0) { sleep 100; exit } $child }";
    for mut guard in natives() {
        for how in ["16", "0x4206"] {
            assert_eq!(
                guard.run(&["perl", "-e", &attempt("1", how)]).stdout,
                "errno 1"
            );
            // Positive control: a child of one's own can be.
            assert_eq!(
                guard.run(&["perl", "-e", &attempt(child, how)]).stdout,
                "traced"
            );
        }
    }
}

#[test]
fn signals_from_inside_do_not_touch_the_guard() {
    for mut guard in natives() {
        let script = "for s in KILL STOP TERM HUP INT QUIT SEGV ABRT TSTP PIPE CHLD USR1; do \
                      kill -$s 1; done; echo sent";
        assert_eq!(guard.sh(script).stdout, "sent\n");
        assert_eq!(guard.sh("exit 5").status, ExitStatus::Code(5));
        // Positive control: the same signal ends another process.
        let script = "sleep 100 & kill -KILL $!; wait $!";
        assert_eq!(guard.sh(script).status, ExitStatus::Code(137));
    }
}

#[test]
fn the_payload_cannot_gain_privileges() {
    for mut guard in natives() {
        let status = guard.run(&["cat", "/proc/self/status"]).stdout;
        let value = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap()
                .trim()
                .to_owned()
        };
        assert_eq!(value("NoNewPrivs:"), "1");
        assert_eq!(value("CapEff:"), "0000000000000000");
        assert_eq!(value("CapPrm:"), "0000000000000000");
    }
}

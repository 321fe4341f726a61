//! Other ways into the kernel.

use crate::cases::{Control, fails, judge, judge_under, refused, same};
use kotak_tests::field::{Field, Rules};
use kotak_tests::stage::{is_root, skip};

#[test]
fn a_filter_of_ones_own_does_not_let_a_name_through() {
    judge(&[
        refused(
            "open",
            "allow-filter then open :.env O_CREAT|O_WRONLY 0o600",
            "file-write-create",
            ".env",
        ),
        refused(
            "rename",
            "allow-filter then allow-filter then rename :ok.txt :.env",
            "file-write-rename",
            ".env",
        ),
        same(
            "a permitted name",
            "allow-filter then open :fine O_CREAT|O_WRONLY 0o600",
        ),
    ]);
}

#[test]
fn who_hides_from_the_guard_gets_nothing_and_is_told() {
    // Nobody may read the memory of such a process, so the name is not known.
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    let words = "undumpable then open :.env O_CREAT|O_WRONLY 0o600";
    let words: Vec<&str> = std::iter::once(attempt.as_str())
        .chain(words.split(' '))
        .collect();
    let run = field.run(&Rules::names(), &words);
    assert_eq!(crate::cases::last_answer(&run)["name"], "EACCES", "{run:?}");
    assert_eq!(field.inventory(), Vec::new());
    let rows = field.refusals(&run.session);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].pid > 1, "{rows:?}");
    let line = format!("'{attempt}' undumpable then open :.env O_CREAT\\|O_WRONLY 0o600");
    let control = field.outside(&line);
    assert!(
        field.work().join(".env").exists(),
        "the control: {control:?}"
    );
}

#[test]
fn calls_that_cannot_be_judged_do_not_exist() {
    let rules = Rules::names();
    judge_under(
        &rules,
        Control::Sandbox,
        &[
            fails(
                "openat2",
                "openat2 AT_FDCWD :.env how:O_CREAT|O_WRONLY,0o600 24",
                "ENOSYS",
            ),
            fails(
                "openat2 for a permitted name",
                "openat2 AT_FDCWD :fine how:O_CREAT|O_WRONLY,0o600 24",
                "ENOSYS",
            ),
            fails("clone3", "clone3 buf 88", "ENOSYS"),
        ],
    );
    // Whether the host has it is the host's matter.
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    let run = field.run(&rules, &[&attempt, "io_uring_setup", "8", "buf"]);
    assert_eq!(crate::cases::last_answer(&run)["name"], "ENOSYS", "{run:?}");
}

#[test]
fn other_architectures_do_not_exist() {
    if !cfg!(target_arch = "x86_64") {
        skip("int 0x80 and x32 are of x86-64 alone");
        return;
    }
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    // 8 is creat(2) of i386, 0x55 its readlink(2); 2 is open(2) of x32.
    for words in [
        ["int80", "8", ":.env", "0o600", "0"],
        ["int80", "8", ":fine", "0o600", "0"],
        ["x32", "2", ":.env", "O_CREAT|O_WRONLY", "0o600"],
        ["x32", "2", ":fine", "O_CREAT|O_WRONLY", "0o600"],
    ] {
        let run = field.run(&Rules::names(), &[&[attempt.as_str()][..], &words].concat());
        assert_eq!(
            crate::cases::last_answer(&run)["name"],
            "ENOSYS",
            "{words:?}: {run:?}"
        );
    }
    assert_eq!(field.inventory(), Vec::new());
    let control = field.outside(&format!("'{attempt}' int80 8 :.env 0o600"));
    if control.stdout.contains("\"errno\":0") {
        assert!(field.work().join(".env").exists(), "{control:?}");
    } else {
        skip("int 0x80: the host's kernel does not know it either");
    }
}

#[test]
fn what_would_change_the_walls_is_refused() {
    // `unshare` and the mount family work on the host, for the ordinary user in a user namespace.
    let refused: &[(&str, &str)] = &[
        ("unshare 0x10000000", "EPERM"),
        ("unshare 0x00020000", "EPERM"),
        ("unshare 0xdeadbeef10000000", "EPERM"),
        ("setns 3 0", "EPERM"),
        ("mount :none :/tmp :tmpfs 0 0", "EPERM"),
        ("umount2 :/proc 2", "EPERM"),
        ("fsopen :tmpfs 0", "EPERM"),
        ("pivot_root :. :.", "EPERM"),
        ("chroot :.", "EPERM"),
        ("open_by_handle_at AT_FDCWD buf 0", "EPERM"),
        ("userfaultfd 1", "EPERM"),
        ("bpf 0 buf 64", "EPERM"),
        ("perf_event_open buf 0 -1 -1 0", "EPERM"),
        ("keyctl 0 -3 1", "EPERM"),
        ("fanotify_init 0 0", "EPERM"),
        ("prlimit64 1 RLIMIT_NOFILE buf 0", "EPERM"),
    ];
    let field = Field::new();
    let attempt = field.attempt().display().to_string();
    let line: Vec<String> = refused
        .iter()
        .map(|(words, _)| format!("'{attempt}' {}", words.replace('|', "\\|")))
        .collect();
    let run = field.shell(&Rules::names(), &line.join("\n"));
    let errors: Vec<String> = run
        .outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line))
        .map(|answer| answer["name"].as_str().unwrap_or("success").to_owned())
        .collect();
    let expected: Vec<&str> = refused.iter().map(|(_, errno)| *errno).collect();
    assert_eq!(errors, expected, "{run:?}");
    if is_root() {
        let control = field.outside(&format!("'{attempt}' unshare 0x00020000"));
        assert!(
            control.stdout.contains("\"errno\":0"),
            "the control: {control:?}"
        );
    }
    let control = field.outside(&format!("'{attempt}' prlimit64 0 RLIMIT_NOFILE 0 buf"));
    assert!(
        control.stdout.contains("\"errno\":0"),
        "the control: {control:?}"
    );
}

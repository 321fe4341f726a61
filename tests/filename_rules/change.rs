//! Changes to a file that had a matching name before.

use crate::cases::{judge, refused, refused_somewhere, same};

const DATA: &str = "file-write-data";
const UNLINK: &str = "file-write-unlink";

#[test]
fn a_file_with_a_matching_name_cannot_be_written() {
    judge(&[
        refused("write", "open :pre.key O_WRONLY 0", DATA, "pre.key"),
        refused("read and write", "open :pre.key O_RDWR 0", DATA, "pre.key"),
        refused(
            "append",
            "open :pre.key O_WRONLY|O_APPEND 0",
            DATA,
            "pre.key",
        ),
        refused(
            "read and truncate",
            "open :pre.key O_RDONLY|O_TRUNC 0",
            DATA,
            "pre.key",
        ),
        refused("mode 3", "open :pre.key O_ACCMODE 0", DATA, "pre.key"),
        refused("creat", "creat :pre.key 0o600", DATA, "pre.key"),
        refused(
            "create or write",
            "open :pre.key O_CREAT|O_WRONLY 0o600",
            DATA,
            "pre.key",
        ),
        refused("truncate", "truncate :pre.key 0", DATA, "pre.key"),
        same("read", "f=open :pre.key O_RDONLY 0 then read $f buf 10"),
        same("another one", "open :ok.txt O_RDWR|O_TRUNC 0"),
        same("another one truncated", "truncate :ok.txt 1"),
        same("nothing to truncate", "truncate :none.key 0"),
        same("exclusive", "open :pre.key O_CREAT|O_EXCL|O_WRONLY 0o600"),
    ]);
}

#[test]
fn a_file_with_a_matching_name_cannot_be_removed() {
    judge(&[
        refused("unlink", "unlink :pre.key", UNLINK, "pre.key"),
        refused(
            "unlinkat",
            "unlinkat AT_FDCWD :./pre.key 0",
            UNLINK,
            "pre.key",
        ),
        refused("rmdir", "rmdir :old.pem", UNLINK, "old.pem").after("mkdir old.pem"),
        refused(
            "unlinkat of a folder",
            "unlinkat AT_FDCWD :old.pem AT_REMOVEDIR",
            UNLINK,
            "old.pem",
        )
        .after("mkdir old.pem"),
        same("another one", "unlink :ok.txt"),
        same("another folder", "rmdir :sub"),
        same("nothing", "unlink :none.key"),
    ]);
}

#[test]
fn a_file_with_a_matching_name_cannot_be_reopened_for_writing() {
    judge(&[
        refused_somewhere(
            "a descriptor",
            "f=open :pre.key O_RDONLY 0 then open @f O_WRONLY 0",
            DATA,
        ),
        refused_somewhere(
            "dev",
            "f=open :pre.key O_RDONLY 0 then open :/dev/fd/3 O_RDWR 0",
            DATA,
        ),
        refused_somewhere(
            "a path descriptor",
            "f=open :pre.key O_PATH 0 then open @f O_WRONLY|O_TRUNC 0",
            DATA,
        ),
        refused_somewhere(
            "truncated",
            "f=open :pre.key O_RDONLY 0 then truncate @f 0",
            DATA,
        ),
        refused_somewhere(
            "thread-self",
            "f=open :pre.key O_PATH 0 then open :/proc/thread-self/fd/3 O_RDWR 0",
            DATA,
        ),
        same(
            "another one",
            "f=open :ok.txt O_RDONLY 0 then open @f O_RDWR 0",
        ),
        same(
            "another path descriptor",
            "f=open :ok.txt O_PATH 0 then open @f O_WRONLY 0",
        ),
        same(
            "for reading",
            "f=open :pre.key O_PATH 0 then open @f O_RDONLY 0",
        ),
    ]);
}

#[test]
fn another_name_of_a_protected_file_is_refused_too() {
    // A hard link made on the host before the launch: the content is protected, whatever it is
    // called.
    use crate::cases::{Control, judge_under};
    for (steps, action) in [
        ("open :other.txt O_WRONLY 0", DATA),
        ("truncate :other.txt 0", DATA),
        ("link :other.txt :third.txt", "file-write-link"),
    ] {
        judge_under(
            &kotak_tests::field::Rules::protecting("c0/safe.txt"),
            Control::Rules,
            &[
                refused("another name", steps, action, "other.txt")
                    .after("echo safe > safe.txt; ln safe.txt other.txt"),
                same("a link of another file", "open :other.txt O_WRONLY 0")
                    .after("ln ok.txt other.txt"),
            ],
        );
    }
}

#[test]
fn an_exception_lifts_a_name_rule_and_nothing_else() {
    use crate::cases::{Control, judge_under};
    let mut rules = kotak_tests::field::Rules::names();
    rules.exceptions = vec!["vendor/certifi/*.pem"];
    judge_under(
        &rules,
        Control::Rules,
        &[
            same(
                "the exception",
                "open :vendor/certifi/ca.pem O_CREAT|O_WRONLY 0o600",
            )
            .after("mkdir -p vendor/certifi"),
            refused(
                "another name there",
                "open :vendor/certifi/x.key O_CREAT|O_WRONLY 0o600",
                "file-write-create",
                "vendor/certifi/x.key",
            )
            .after("mkdir -p vendor/certifi"),
            refused(
                "the name elsewhere",
                "open :vendor/ca.pem O_CREAT|O_WRONLY 0o600",
                "file-write-create",
                "vendor/ca.pem",
            )
            .after("mkdir -p vendor"),
            refused(
                "out of there",
                "rename :vendor/certifi/ca.pem :ca.pem",
                "file-write-rename",
                "ca.pem",
            )
            .after("mkdir -p vendor/certifi; echo x > vendor/certifi/ca.pem"),
        ],
    );
}

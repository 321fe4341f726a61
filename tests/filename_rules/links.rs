//! Renames, hard links and symlinks, to and from what is protected.

use crate::cases::{judge, refused, refused_somewhere, same};

const CREATE: &str = "file-write-create";
const RENAME: &str = "file-write-rename";
const LINK: &str = "file-write-link";

#[test]
fn a_rename_onto_a_matching_name_is_refused() {
    judge(&[
        refused("rename", "rename :ok.txt :.env", RENAME, ".env"),
        refused(
            "renameat",
            "renameat AT_FDCWD :ok.txt AT_FDCWD :sub/x.key",
            RENAME,
            "sub/x.key",
        ),
        refused(
            "renameat2",
            "renameat2 AT_FDCWD :ok.txt AT_FDCWD :.env 0",
            RENAME,
            ".env",
        ),
        refused(
            "no replace",
            "renameat2 AT_FDCWD :ok.txt AT_FDCWD :.ENV RENAME_NOREPLACE",
            RENAME,
            ".ENV",
        ),
        refused(
            "exchange",
            "renameat2 AT_FDCWD :ok.txt AT_FDCWD :pre.key RENAME_EXCHANGE",
            RENAME,
            "pre.key",
        ),
        refused("a directory", "rename :sub :.env", RENAME, ".env"),
        refused(
            "a directory, with a slash",
            "rename :sub :.env/",
            RENAME,
            ".env",
        ),
        refused(
            "through a descriptor",
            "d=open :sub O_PATH 0 then renameat AT_FDCWD :ok.txt $d :.env",
            RENAME,
            "sub/.env",
        ),
        refused(
            "garbage in the flags",
            "renameat2 AT_FDCWD :ok.txt AT_FDCWD :.env 0xdeadbeef00000001",
            RENAME,
            ".env",
        ),
        same("a permitted name", "rename :ok.txt :fine.txt"),
        same(
            "a permitted exchange",
            "renameat2 AT_FDCWD :ok.txt AT_FDCWD :sub RENAME_EXCHANGE",
        ),
        same("nothing to rename", "rename :none :fine"),
        same(
            "flags that exclude each other",
            "renameat2 AT_FDCWD :ok.txt AT_FDCWD :fine 3",
        ),
    ]);
}

#[test]
fn a_rename_away_from_a_matching_name_is_refused() {
    judge(&[
        refused("rename", "rename :pre.key :x.txt", RENAME, "pre.key"),
        refused("onto another", "rename :pre.key :ok.txt", RENAME, "pre.key"),
        refused(
            "exchange",
            "renameat2 AT_FDCWD :pre.key AT_FDCWD :ok.txt RENAME_EXCHANGE",
            RENAME,
            "pre.key",
        ),
        refused(
            "by an absolute path",
            "rename :HERE/pre.key :HERE/x",
            RENAME,
            "pre.key",
        ),
    ]);
}

#[test]
fn a_hard_link_to_or_from_a_matching_name_is_refused() {
    judge(&[
        refused("to one", "link :ok.txt :.env", LINK, ".env"),
        refused("from one", "link :pre.key :x.txt", LINK, "pre.key"),
        refused(
            "linkat to one",
            "linkat AT_FDCWD :ok.txt AT_FDCWD :sub/.env 0",
            LINK,
            "sub/.env",
        ),
        refused(
            "linkat from one",
            "linkat AT_FDCWD :pre.key AT_FDCWD :x 0",
            LINK,
            "pre.key",
        ),
        refused(
            "from one, through a symlink",
            "linkat AT_FDCWD :s AT_FDCWD :x AT_SYMLINK_FOLLOW",
            LINK,
            "pre.key",
        )
        .after("ln -s pre.key s"),
        refused_somewhere(
            "from one, through its descriptor",
            "f=open :pre.key O_RDONLY 0 then linkat AT_FDCWD @f AT_FDCWD :x AT_SYMLINK_FOLLOW",
            LINK,
        ),
        same("a permitted name", "link :ok.txt :fine.txt"),
        same("a symlink itself", "linkat AT_FDCWD :s AT_FDCWD :fine 0").after("ln -s ok.txt s"),
    ]);
}

#[test]
fn a_file_without_a_name_gets_only_a_permitted_one() {
    judge(&[
        refused(
            "by its path",
            "f=open :. O_TMPFILE|O_RDWR 0o600 then linkat AT_FDCWD @f AT_FDCWD :.env AT_SYMLINK_FOLLOW",
            LINK,
            ".env",
        ),
        same(
            "a permitted name",
            "f=open :. O_TMPFILE|O_RDWR 0o600 then linkat AT_FDCWD @f AT_FDCWD :fine AT_SYMLINK_FOLLOW",
        ),
        same(
            "by itself",
            "f=open :. O_TMPFILE|O_RDWR 0o600 then linkat $f : AT_FDCWD :fine AT_EMPTY_PATH",
        ),
        same(
            "written to",
            "f=open :. O_TMPFILE|O_RDWR 0o600 then write $f :text 4",
        ),
    ]);
    // Before Linux 6.10 only CAP_DAC_READ_SEARCH lets a descriptor be linked by itself.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut parts = release
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    if (parts.next(), parts.next()) < (Some(6), Some(10)) {
        kotak_tests::stage::skip("linkat(AT_EMPTY_PATH): this kernel refuses it whatever the name");
        return;
    }
    judge(&[refused(
        "by itself",
        "f=open :. O_TMPFILE|O_RDWR 0o600 then linkat $f : AT_FDCWD :.env AT_EMPTY_PATH",
        LINK,
        ".env",
    )]);
}

#[test]
fn a_symlink_that_leads_to_a_matching_name_leads_nowhere() {
    judge(&[
        refused("relative", "open :s O_CREAT|O_WRONLY 0o600", CREATE, ".env").after("ln -s .env s"),
        refused(
            "through a folder",
            "open :s O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/.env",
        )
        .after("ln -s ./sub/../sub/.env s"),
        refused("absolute", "open :s O_CREAT|O_WRONLY 0o600", CREATE, ".env")
            .after("ln -s \"$PWD/.env\" s"),
        refused("chained", "open :s3 O_CREAT|O_WRONLY 0o600", CREATE, ".env")
            .after("ln -s .env s1; ln -s s1 s2; ln -s \"$PWD/s2\" s3"),
        refused(
            "a folder's",
            "open :d/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/.env",
        )
        .after("ln -s sub d"),
        refused(
            "of a folder's folder",
            "open :d/e/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/.env",
        )
        .after("ln -s . sub/e; ln -s sub d"),
        refused(
            "to an existing one",
            "open :s O_WRONLY 0",
            "file-write-data",
            "pre.key",
        )
        .after("ln -s pre.key s"),
        refused("truncated", "truncate :s 0", "file-write-data", "pre.key")
            .after("ln -s pre.key s"),
        same("not followed", "open :s O_CREAT|O_EXCL|O_WRONLY 0o600").after("ln -s .env s"),
        same("not followed either", "open :s O_WRONLY|O_NOFOLLOW 0").after("ln -s .env s"),
        same("a permitted name", "open :s O_CREAT|O_WRONLY 0o600").after("ln -s fine s"),
        same("the symlink renamed", "rename :s :t").after("ln -s .env s"),
        same("the symlink removed", "unlink :s").after("ln -s pre.key s"),
    ]);
}

#[test]
fn a_symlink_with_a_matching_name_cannot_be_made() {
    judge(&[
        refused("symlink", "symlink :ok.txt :.env", CREATE, ".env"),
        refused(
            "symlinkat",
            "symlinkat :/etc/passwd AT_FDCWD :x.key",
            CREATE,
            "x.key",
        ),
        refused(
            "through a descriptor",
            "d=open :sub O_PATH 0 then symlinkat :x $d :.ENV",
            CREATE,
            "sub/.ENV",
        ),
        same("one that leads to a matching name", "symlink :.env :fine"),
    ]);
}

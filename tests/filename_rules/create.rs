//! New files with forbidden names, in every spelling.

use crate::cases::{judge, refused, refused_somewhere, same};

const CREATE: &str = "file-write-create";

#[test]
fn no_kind_of_open_creates_a_matching_name() {
    judge(&[
        refused("write", "open :.env O_CREAT|O_WRONLY 0o600", CREATE, ".env"),
        refused("read", "open :.env O_CREAT|O_RDONLY 0o600", CREATE, ".env"),
        refused(
            "exclusive",
            "open :.env O_CREAT|O_EXCL|O_RDWR 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "mode 3",
            "open :.env O_CREAT|O_ACCMODE 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "no follow",
            "open :.env O_CREAT|O_NOFOLLOW|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "append",
            "open :.env O_CREAT|O_APPEND|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "truncate",
            "open :x.key O_CREAT|O_TRUNC|O_RDWR 0o600",
            CREATE,
            "x.key",
        ),
        refused("creat", "creat :.env 0o600", CREATE, ".env"),
        refused(
            "openat",
            "openat AT_FDCWD :a.pem O_CREAT|O_WRONLY 0o600",
            CREATE,
            "a.pem",
        ),
        refused(
            "absolute",
            "openat 77 :HERE/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        same("a permitted name", "open :fine.txt O_CREAT|O_WRONLY 0o600"),
        same(
            "a name that only contains one",
            "open :x.key.txt O_CREAT|O_WRONLY 0o600",
        ),
        same(
            "a name that only ends like one",
            "open :x.env O_CREAT|O_WRONLY 0o600",
        ),
        same("reading", "open :pre.key O_RDONLY 0"),
        same("no file to read", "open :none.key O_RDONLY 0"),
    ]);
}

#[test]
fn no_spelling_of_a_path_creates_a_matching_name() {
    let long = format!("open :{}x.key O_CREAT|O_WRONLY 0o600", "./".repeat(2042));
    judge(&[
        refused(
            "dirfd",
            "d=open :sub O_RDONLY 0 then openat $d :.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/.env",
        ),
        refused(
            "O_PATH dirfd",
            "d=open :. O_PATH 0 then openat $d :sub/../.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused("dot", "open :./.env O_CREAT|O_WRONLY 0o600", CREATE, ".env"),
        refused(
            "dots",
            "open :sub/.././sub/..//.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "slashes",
            "open :/HERE//.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "upper case",
            "open :.ENV O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".ENV",
        ),
        refused(
            "mixed case",
            "open :x.Key O_CREAT|O_WRONLY 0o600",
            CREATE,
            "x.Key",
        ),
        refused(
            "a space",
            "open :a%20b.key O_CREAT|O_WRONLY 0o600",
            CREATE,
            "a b.key",
        ),
        refused_somewhere(
            "a line feed",
            "open :a%0A.key O_CREAT|O_WRONLY 0o600",
            CREATE,
        ),
        refused_somewhere(
            "no UTF-8",
            "open :%FF%FE.key O_CREAT|O_WRONLY 0o600",
            CREATE,
        ),
        refused_somewhere(
            "an escape",
            "open :%1B[2J.key O_CREAT|O_WRONLY 0o600",
            CREATE,
        ),
        refused("4,090 bytes", &long, CREATE, "x.key"),
        refused(
            "a working directory",
            "chdir :sub then open :.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/.env",
        ),
        refused(
            "a working directory by descriptor",
            "d=open :sub O_PATH 0 then fchdir $d then open :../.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
    ]);
}

#[test]
fn garbage_in_the_high_bits_changes_nothing() {
    judge(&[
        refused(
            "flags",
            "open :.env 0xdeadbeef00000041 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "flags of openat",
            "openat AT_FDCWD :.env 0xffffffff00000041 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "mode",
            "open :.env O_CREAT|O_WRONLY 0xdeadbeef00000180",
            CREATE,
            ".env",
        ),
        refused(
            "AT_FDCWD as 32 bits",
            "openat 0xffffff9c :.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "dirfd",
            "openat 0xdeadbeefffffff9c :.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        same(
            "a permitted name",
            "openat 0xdeadbeefffffff9c :fine 0xdeadbeef00000041 0o600",
        ),
    ]);
}

#[test]
fn no_way_through_proc_or_dev_creates_a_matching_name() {
    judge(&[
        refused(
            "self",
            "open :/proc/self/cwd/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "thread-self",
            "open :/proc/thread-self/cwd/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused("by number", "open-in-own-cwd .env", CREATE, ".env"),
        refused(
            "root",
            "open :/proc/self/root/HERE/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            ".env",
        ),
        refused(
            "a descriptor",
            "d=open :sub O_PATH 0 then e=openat $d :. O_DIRECTORY 0 then open :/proc/self/fd/4/.env O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/.env",
        ),
        refused(
            "dev",
            "d=open :sub O_DIRECTORY 0 then open :/dev/fd/3/x.key O_CREAT|O_WRONLY 0o600",
            CREATE,
            "sub/x.key",
        ),
        same(
            "a permitted name",
            "open :/proc/self/cwd/fine O_CREAT|O_WRONLY 0o600",
        ),
    ]);
}

#[test]
fn no_other_call_makes_a_matching_name() {
    judge(&[
        refused("mknod", "mknod :.env S_IFREG|0o600 0", CREATE, ".env"),
        refused(
            "mknodat",
            "mknodat AT_FDCWD :x.key S_IFREG|0o600 0",
            CREATE,
            "x.key",
        ),
        refused("a FIFO", "mknod :x.key S_IFIFO|0o600 0", CREATE, "x.key"),
        refused("mkdir", "mkdir :.env 0o700", CREATE, ".env"),
        refused(
            "mkdirat",
            "mkdirat AT_FDCWD :sub/.env 0o700",
            CREATE,
            "sub/.env",
        ),
        refused("mkdir with a slash", "mkdir :.env/ 0o700", CREATE, ".env"),
        refused(
            "a socket",
            "s=socket AF_UNIX SOCK_STREAM 0 then bind $s un:.env 110",
            CREATE,
            ".env",
        ),
        refused(
            "a socket by its path",
            "s=socket AF_UNIX SOCK_DGRAM 0 then bind $s un:./sub/x.key 110",
            CREATE,
            "sub/x.key",
        ),
        same("a permitted FIFO", "mknod :fine S_IFIFO|0o600 0"),
        same(
            "a permitted socket",
            "s=socket AF_UNIX SOCK_STREAM 0 then bind $s un:fine.sock 110",
        ),
        same(
            "an abstract socket",
            "s=socket AF_UNIX SOCK_STREAM 0 then bind $s un:%00kotak.key 110",
        ),
    ]);
}

#[test]
fn what_the_kernel_refuses_by_itself_keeps_its_errno() {
    let long = format!("open :{}.key O_CREAT|O_WRONLY 0o600", "x".repeat(252));
    judge(&[
        same("a slash at the end", "open :.env/ O_CREAT|O_WRONLY 0o600"),
        same("256 characters", &long),
        same("a bad address", "open 1 O_CREAT|O_WRONLY 0o600"),
        same(
            "an address of the kernel",
            "open 0xffff800000000000 O_CREAT|O_WRONLY 0o600",
        ),
        same("an empty path", "open : O_CREAT|O_WRONLY 0o600"),
        same("no directory", "open :none/.env O_CREAT|O_WRONLY 0o600"),
        same(
            "a file for a directory",
            "open :ok.txt/.env O_CREAT|O_WRONLY 0o600",
        ),
        same("a bad descriptor", "openat 77 :.env O_CREAT|O_WRONLY 0o600"),
        same(
            "a file descriptor for a directory",
            "d=open :ok.txt O_RDONLY 0 then openat $d :.env O_CREAT|O_WRONLY 0o600",
        ),
        same("a loop", "open :loop O_CREAT|O_WRONLY 0o600").after("ln -s loop loop"),
        same("a loop to a name", "open :l1/.env O_CREAT|O_WRONLY 0o600")
            .after("ln -s l2 l1; ln -s l1 l2"),
        same("an existing directory", "mkdir :sub 0o700"),
        same("a directory for a file", "open :sub O_WRONLY 0"),
    ]);
}

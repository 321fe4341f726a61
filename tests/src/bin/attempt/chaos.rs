//! Random sequences of file operations in the working directory, from a seed.

use crate::{Answer, call};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// Steps that are kept to be told at the end.
const TOLD: usize = 40;

/// Names that sequences are made of: some are permitted, some are not, some lead elsewhere.
const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "a/b",
    "a/c",
    "b/a",
    "c/d/a",
    "a/../b",
    "./a",
    "a//b",
    "b/.",
    "d/",
    ".env",
    "a/.env",
    ".ENV",
    "x.key",
    "b/y.Key",
    "pre.key",
    "cert.pem",
    "deep/ca.pem",
    "state/.env",
    "state/x",
    "state",
    "safe",
    "safe/file",
    "safe/new",
    "safe/../safe/file",
    "keep",
    "keep/deep",
    "keep/deep/gone",
    "keep/deep/gone/x",
    "k",
    "k/deep",
    "k/deep/gone",
    "secret",
    "secret/token",
    "s",
    "s/token",
    ".git",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/config",
    "g",
    "g/hooks",
    "g/hooks/pre-commit",
    "g/config",
    "../.ssh",
    "../.ssh/secret",
    "../.aws/secret",
    "../.netrc",
    "../notes/todo.txt",
    "../.bashrc",
    "/proc/self/cwd/.env",
    "/proc/thread-self/cwd/a",
    "/dev/fd/3",
    "/proc/self/fd/4",
    "/proc/self/fd/5/x.key",
];

/// Where secrets are, and where tests put one.
const SECRETS: &[&CStr] = &[
    c"../.ssh/secret",
    c"../.aws/secret",
    c"../.netrc",
    c"../notes/todo.txt",
    c"s/secret",
];

/// xorshift64*: a sequence is known by its seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    fn one_of<T: Copy>(&mut self, all: &[T], otherwise: T) -> T {
        all.get(self.below(all.len())).copied().unwrap_or(otherwise)
    }

    fn name(&mut self) -> Vec<u8> {
        let mut name = self.one_of(NAMES, "a").as_bytes().to_vec();
        name.push(0);
        name
    }
}

/// `chaos SEED SECONDS`
pub(crate) fn run(rest: &[Vec<u8>]) -> Answer {
    let number = |index: usize| {
        let text = rest.get(index).map(|text| String::from_utf8_lossy(text));
        text.and_then(|text| text.parse::<u64>().ok())
            .ok_or("chaos SEED SECONDS")
    };
    let seed = number(0)?;
    let end = Instant::now() + Duration::from_secs(number(1)?);
    // Zero would stay zero.
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut told = VecDeque::new();
    let (mut steps, mut succeeded) = (0_u64, 0_u64);
    while Instant::now() < end {
        let (step, result) = one(&mut dice);
        steps += 1;
        if result >= 0 {
            succeeded += 1;
            if told.len() == TOLD {
                told.pop_front();
            }
            told.push_back(step);
        }
    }
    // What was made last is told, so that a find can be followed.
    Ok(serde_json::json!({
        "call": "chaos", "seed": seed, "steps": steps, "succeeded": succeeded, "last": told,
    }))
}

/// Reads the beginning of a file, if it can be read; how many bytes of `content` now count.
fn read_start(path: i64, content: &mut [u8; 32]) -> i64 {
    let cwd = i64::from(libc::AT_FDCWD);
    let flags = i64::from(libc::O_RDONLY | libc::O_NONBLOCK);
    let fd = call::raw(libc::SYS_openat, [cwd, path, flags, 0, 0, 0]);
    if fd < 0 {
        return 6;
    }
    let address = content.as_mut_ptr() as i64;
    let length = call::raw(libc::SYS_read, [fd, address, 32, 0, 0, 0]);
    call::raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    if length > 0 { length } else { 6 }
}

/// One operation: what it was, and its result.
fn one(dice: &mut Dice) -> (String, i64) {
    let (first, second) = (dice.name(), dice.name());
    let cwd = i64::from(libc::AT_FDCWD);
    // A descriptor of before, or the working directory.
    let dir = dice.one_of(&[cwd, cwd, cwd, 3, 4, 5, 6], cwd);
    let (a, b) = (first.as_ptr() as i64, second.as_ptr() as i64);
    let (creat, write) = (libc::O_CREAT, libc::O_WRONLY);
    let mut content = *b"chaos\n..........................";
    // Nobody waits for the other end of a FIFO.
    let flags = dice.one_of(
        &[
            creat | write,
            creat,
            creat | libc::O_EXCL | libc::O_RDWR,
            write,
            write | libc::O_TRUNC,
            libc::O_TRUNC,
            libc::O_RDWR | libc::O_APPEND,
            libc::O_ACCMODE,
            libc::O_PATH,
            libc::O_PATH | libc::O_NOFOLLOW,
            libc::O_RDONLY,
            libc::O_RDONLY | libc::O_DIRECTORY,
            libc::O_TMPFILE | libc::O_RDWR,
            creat | write | libc::O_NOFOLLOW,
        ],
        creat,
    ) | libc::O_NONBLOCK;
    let (name, number, registers): (&str, i64, [i64; 6]) = match dice.below(17) {
        0..=4 => (
            "openat",
            libc::SYS_openat,
            [dir, a, i64::from(flags), 0o700, 0, 0],
        ),
        5 | 6 => ("renameat", libc::SYS_renameat, [dir, a, dir, b, 0, 0]),
        7 => {
            let how = dice.one_of(&[0, 1, 2], 0);
            ("renameat2", libc::SYS_renameat2, [cwd, a, dir, b, how, 0])
        }
        8 => {
            let how = dice.one_of(&[0, libc::AT_SYMLINK_FOLLOW, libc::AT_EMPTY_PATH], 0);
            (
                "linkat",
                libc::SYS_linkat,
                [dir, a, cwd, b, i64::from(how), 0],
            )
        }
        9 => ("symlinkat", libc::SYS_symlinkat, [a, dir, b, 0, 0, 0]),
        10 => ("mkdirat", libc::SYS_mkdirat, [dir, a, 0o700, 0, 0, 0]),
        11 => {
            let kind = dice.one_of(&[0o100_600, 0o010_600], 0o100_600);
            ("mknodat", libc::SYS_mknodat, [dir, a, kind, 0, 0, 0])
        }
        12 => {
            let how = dice.one_of(&[0, libc::AT_REMOVEDIR], 0);
            (
                "unlinkat",
                libc::SYS_unlinkat,
                [dir, a, i64::from(how), 0, 0, 0],
            )
        }
        13 => ("truncate", libc::SYS_truncate, [a, 1, 0, 0, 0, 0]),
        14 => {
            // The descriptors that later steps go through are 3 to 9.
            let fd = i64::try_from(dice.below(7)).unwrap_or(0) + 3;
            ("close", libc::SYS_close, [fd, 0, 0, 0, 0, 0])
        }
        _ => {
            // What could be read of the first goes into whatever the descriptor is.
            let fd = i64::try_from(dice.below(7)).unwrap_or(0) + 3;
            let source = match dice.below(2) {
                0 => a,
                _ => dice.one_of(SECRETS, c"a").as_ptr() as i64,
            };
            let length = read_start(source, &mut content);
            let address = content.as_ptr() as i64;
            ("write", libc::SYS_write, [fd, address, length, 0, 0, 0])
        }
    };
    let result = call::raw(number, registers);
    if number == libc::SYS_openat && result > 9 {
        call::raw(libc::SYS_close, [result, 0, 0, 0, 0, 0]);
    }
    let shown = |name: &[u8]| {
        String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name)).into_owned()
    };
    let step = match name {
        "openat" => format!("openat({dir}, {}, {flags:#o}) = {result}", shown(&first)),
        "close" | "write" => format!("{name}({})", registers[0]),
        _ => format!(
            "{name}({dir}, {}, {}) = {result}",
            shown(&first),
            shown(&second)
        ),
    };
    (step, result)
}

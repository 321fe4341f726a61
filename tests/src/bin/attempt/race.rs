//! Loops in which what a call names changes while it runs.

use crate::{Answer, call};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn words<const N: usize>(rest: &[Vec<u8>]) -> Result<[String; N], String> {
    let words: Vec<String> = rest
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    words.try_into().map_err(|_| format!("{N} arguments"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .map(Duration::from_secs)
        .map_err(|_| format!("no number of seconds: {text}"))
}

/// `flip SECONDS PERMITTED FORBIDDEN`: opens a path for creation while a second thread writes the
/// one name over the other in the memory that the path is read from. Both are eight bytes long,
/// so that each write is whole; the forbidden one is removed again, so that only the host sees it.
pub(crate) fn flip(rest: &[Vec<u8>]) -> Answer {
    let [time, permitted, forbidden] = words(rest)?;
    let end = Instant::now() + seconds(&time)?;
    let word = |name: &str| {
        <[u8; 8]>::try_from(name.as_bytes())
            .map(u64::from_ne_bytes)
            .map_err(|_| format!("not of eight bytes: {name}"))
    };
    let (permitted, forbidden) = (word(&permitted)?, word(&forbidden)?);
    // The name, then zeros.
    let path = [AtomicU64::new(permitted), AtomicU64::new(0)];
    let address = path.as_ptr() as i64;
    let flags = i64::from(libc::O_CREAT | libc::O_WRONLY);
    let done = AtomicBool::new(false);
    let (mut opened, mut refused) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for name in [forbidden, permitted] {
                    if let Some(first) = path.first() {
                        first.store(name, Ordering::Relaxed);
                    }
                    std::hint::spin_loop();
                }
            }
        });
        while Instant::now() < end {
            let cwd = i64::from(libc::AT_FDCWD);
            let fd = call::raw(libc::SYS_openat, [cwd, address, flags, 0o600, 0, 0]);
            if fd >= 0 {
                opened += 1;
                call::raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
            } else {
                refused += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    Ok(serde_json::json!({ "call": "flip", "opened": opened, "refused": refused }))
}

/// `exchange SECONDS FILE LINK`: writes to `FILE` while a second thread exchanges it with `LINK`,
/// a symlink to a forbidden name, in a loop.
pub(crate) fn exchange(rest: &[Vec<u8>]) -> Answer {
    let [time, file, link] = words(rest)?;
    let end = Instant::now() + seconds(&time)?;
    let terminated = |name: &str| [name.as_bytes(), b"\0"].concat();
    let (file, link) = (terminated(&file), terminated(&link));
    let cwd = i64::from(libc::AT_FDCWD);
    let flags = i64::from(libc::O_CREAT | libc::O_WRONLY);
    let done = AtomicBool::new(false);
    let exchanges = AtomicU64::new(0);
    let (mut opened, mut refused) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (file, link) = (file.as_ptr() as i64, link.as_ptr() as i64);
                // RENAME_EXCHANGE
                let result = call::raw(libc::SYS_renameat2, [cwd, file, cwd, link, 2, 0]);
                exchanges.fetch_add(u64::from(result == 0), Ordering::Relaxed);
            }
        });
        while Instant::now() < end {
            let path = file.as_ptr() as i64;
            let fd = call::raw(libc::SYS_openat, [cwd, path, flags, 0o600, 0, 0]);
            if fd >= 0 {
                opened += 1;
                call::raw(libc::SYS_write, [fd, path, 1, 0, 0, 0]);
                call::raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
            } else {
                refused += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let exchanges = exchanges.into_inner();
    Ok(serde_json::json!({
        "call": "exchange", "opened": opened, "refused": refused, "exchanges": exchanges,
    }))
}

/// `write-and-run TIMES FILE`: writes a program, closes it and runs it, again and again; counts the
/// runs that found the file still open for writing.
pub(crate) fn write_and_run(rest: &[Vec<u8>]) -> Answer {
    let [times, path] = words(rest)?;
    let times: u32 = times.parse().map_err(|_| format!("no number: {times}"))?;
    let program = std::fs::read("/bin/true").map_err(|error| error.to_string())?;
    let (mut ran, mut busy, mut failed) = (0_u32, 0_u32, 0_u32);
    for _ in 0..times {
        let written = std::fs::File::create(&path).and_then(|mut file| {
            file.write_all(&program)?;
            file.set_permissions(std::fs::Permissions::from_mode(0o755))
        });
        written.map_err(|error| error.to_string())?;
        match std::process::Command::new(format!("./{path}")).status() {
            Ok(status) if status.success() && status.signal().is_none() => ran += 1,
            Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => busy += 1,
            Ok(_) | Err(_) => failed += 1,
        }
        std::fs::remove_file(&path).map_err(|error| error.to_string())?;
    }
    Ok(serde_json::json!({ "call": "write-and-run", "ran": ran, "busy": busy, "failed": failed }))
}

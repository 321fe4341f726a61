//! How long one kind of call takes, in a loop.

use crate::{Answer, call};
use std::process::Command;
use std::time::Instant;

/// `measure read|write|create|exec TIMES`: nanoseconds of one call, on average.
pub(crate) fn run(rest: &[Vec<u8>]) -> Answer {
    let [what, times] = rest else {
        return Err("measure WHAT TIMES".to_owned());
    };
    let what = String::from_utf8_lossy(what).into_owned();
    let times: u32 = String::from_utf8_lossy(times)
        .parse()
        .map_err(|_| "no number of times".to_owned())?;
    std::fs::write("measured", b"x").map_err(|error| error.to_string())?;
    let started = Instant::now();
    for number in 0..times {
        let done = match what.as_str() {
            "read" => open("measured", libc::O_RDONLY),
            "write" => open("measured", libc::O_WRONLY),
            "create" => open(&format!("m{number}"), libc::O_CREAT | libc::O_WRONLY),
            "exec" => Command::new("/bin/true")
                .status()
                .is_ok_and(|status| status.success()),
            _ => return Err(format!("cannot measure `{what}`")),
        };
        if !done {
            return Err(format!("{what} {number} failed"));
        }
    }
    let each = started.elapsed().as_nanos() / u128::from(times.max(1));
    Ok(
        serde_json::json!({ "call": "measure", "what": what, "nanoseconds": u64::try_from(each).unwrap_or(u64::MAX) }),
    )
}

fn open(path: &str, flags: i32) -> bool {
    let path = [path.as_bytes(), b"\0"].concat();
    let cwd = i64::from(libc::AT_FDCWD);
    let registers = [cwd, path.as_ptr() as i64, i64::from(flags), 0o600, 0, 0];
    let fd = call::raw(libc::SYS_openat, registers);
    fd >= 0 && call::raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) == 0
}

//! `/dev/tty`: the terminal of whoever opens it, which for the guard is none.

use super::{
    answer::{Stop, undecided},
    caller::Caller,
    sys::open_as_given,
};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD},
};
use std::{
    ffi::CString,
    fs,
    os::fd::{AsFd, OwnedFd},
};

/// First and last major number of Unix98 terminals (admin-guide/devices.txt).
const PTS_MAJORS: std::ops::RangeInclusive<u32> = 136..=143;

/// Opens the caller's controlling terminal by its own name.
pub(super) fn open(caller: &Caller<'_>, flags: i32) -> Result<OwnedFd, Stop> {
    let stat = fs::read(format!("/proc/{}/stat", caller.call.tid));
    caller.still_waits()?;
    let device = stat
        .ok()
        .and_then(|line| terminal_of(&line))
        .ok_or_else(|| undecided("/proc does not tell the program's terminal"))?;
    let number = pts_number(device).ok_or(Errno::ENXIO)?;
    let path = CString::new(format!("/dev/pts/{number}")).map_err(|_| Errno::ENXIO)?;
    let flags = (flags & !(libc::O_CREAT | libc::O_EXCL)) | libc::O_NOCTTY | libc::O_CLOEXEC;
    open_as_given(AT_FDCWD.as_fd(), &path, flags, 0).map_err(|errno| match errno {
        Errno::ENOENT => Errno::ENXIO.into(),
        other => other.into(),
    })
}

/// Field 7 of proc_pid_stat(5); the name before it may hold anything, so the last parenthesis ends
/// it.
fn terminal_of(line: &[u8]) -> Option<u32> {
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let device: i32 = rest.split_ascii_whitespace().nth(4)?.parse().ok()?;
    Some(u32::from_ne_bytes(device.to_ne_bytes()))
}

/// The number below `/dev/pts` of a device as the kernel packs it (linux/kdev_t.h,
/// `new_encode_dev`).
fn pts_number(device: u32) -> Option<u32> {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xfff00);
    PTS_MAJORS
        .contains(&major)
        .then(|| (major - PTS_MAJORS.start()) * 256 + minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_found_behind_any_name() {
        assert_eq!(terminal_of(b"7 (a) b) S 1 7 7 34820 7 4194304"), Some(34820));
        assert_eq!(terminal_of(b"7 (x) S 1"), None);
        assert_eq!(pts_number(34820), Some(4));
        // Major 136, minor 300.
        assert_eq!(pts_number(0x0010_882c), Some(300));
        assert_eq!(pts_number(0), None);
        assert_eq!(pts_number(0x0401), None);
    }
}

//! Terminal sizes and duplicated PTY masters.
#![expect(
    unsafe_code,
    reason = "TIOCSWINSZ is an ioctl, and portable-pty lends a raw descriptor"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Sets the size of a terminal; its foreground group gets SIGWINCH when it changed.
pub fn set_window_size(master: BorrowedFd<'_>, cols: u16, rows: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize, which lives on our stack.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// An owned, close-on-exec duplicate of a descriptor that `owner` keeps open for the whole call.
pub fn duplicate<T: ?Sized>(owner: &T, fd: impl Fn(&T) -> Option<RawFd>) -> io::Result<OwnedFd> {
    let raw = fd(owner).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    // SAFETY: `owner` is borrowed for this whole call and keeps the descriptor open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(raw) };
    borrowed.try_clone_to_owned()
}

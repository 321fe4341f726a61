//! The size of a terminal that somebody else opened.
#![expect(unsafe_code, reason = "TIOCGWINSZ is an ioctl")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Columns and rows of a terminal.
pub fn window_size(terminal: BorrowedFd<'_>) -> io::Result<(u16, u16)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize, which lives on our stack.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok((size.ws_col, size.ws_row))
    }
}

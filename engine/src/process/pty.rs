//! PTY pairs of sessions without a sandbox, opened in the engine.

use super::ExecError;
use portable_pty::PtySize;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

/// Both sides of a new PTY, close-on-exec.
#[derive(Debug)]
pub(super) struct OpenPty {
    pub(super) master: OwnedFd,
    pub(super) slave: OwnedFd,
}

impl OpenPty {
    pub(super) fn open(cols: u16, rows: u16) -> Result<Self, ExecError> {
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = portable_pty::native_pty_system()
            .openpty(size)
            .map_err(|error| why(&error.to_string()))?;
        let name = pair
            .master
            .tty_name()
            .ok_or_else(|| why("the new terminal has no name"))?;
        // portable-pty keeps the slave's descriptor to itself; the device can be opened by name
        // while it holds it.
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(name)
            .map_err(ExecError::Terminal)?;
        let master = crate::sys::pty::duplicate(&*pair.master, |master| master.as_raw_fd())
            .map_err(ExecError::Terminal)?;
        Ok(Self {
            master,
            slave: slave.into(),
        })
    }
}

/// portable-pty says why only in words, so the system is asked again for its number.
fn why(words: &str) -> ExecError {
    match nix::pty::posix_openpt(
        nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_NOCTTY | nix::fcntl::OFlag::O_CLOEXEC,
    ) {
        Err(nix::errno::Errno::ENOSPC) => {
            ExecError::NoFreePty(io::Error::from_raw_os_error(libc::ENOSPC))
        }
        Err(errno) => ExecError::Terminal(errno.into()),
        Ok(_) => ExecError::Terminal(io::Error::other(words.to_owned())),
    }
}

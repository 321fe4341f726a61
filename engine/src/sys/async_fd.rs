//! Owned descriptors registered with the runtime.
#![expect(
    unsafe_code,
    reason = "tokio asks its caller to vouch for the descriptor"
)]

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor. Must be called inside a runtime.
pub fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd keeps its one descriptor open for as long as it lives.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|error| error.into_parts().1)
}

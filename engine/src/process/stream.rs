//! A stream that a caller hands to a program.

/// An owned descriptor or handle.
#[cfg(unix)]
pub type OwnedStream = std::os::fd::OwnedFd;
/// An owned descriptor or handle.
#[cfg(windows)]
pub type OwnedStream = std::os::windows::io::OwnedHandle;

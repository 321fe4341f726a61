//! Spawning, the guard link, PTYs.

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod collect;
#[cfg(target_os = "linux")]
mod descendants;
mod error;
#[cfg(target_os = "linux")]
pub mod guard_image;
#[cfg(target_os = "linux")]
pub mod guard_link;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
mod host_socket;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod low_ports;
#[cfg(target_os = "linux")]
mod masker;
#[cfg(target_os = "linux")]
mod master;
#[cfg(target_os = "linux")]
pub mod native;
#[cfg(target_os = "linux")]
mod pins;
#[cfg(target_os = "linux")]
mod pty;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod requests;
pub mod scrollback;
#[cfg(target_os = "linux")]
mod secret_watch;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod spawner;
mod stream;
mod terminal;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod violations;

#[cfg(target_os = "linux")]
pub use cgroup::remove_leftovers;
#[cfg(target_os = "linux")]
pub(crate) use collect::{output_pipe, read_pieces};
pub use error::*;
#[cfg(target_os = "linux")]
pub use host_socket::*;
#[cfg(target_os = "linux")]
pub use inside::*;
#[cfg(target_os = "linux")]
pub use secret_watch::{SecretNotice, SecretWatch};
#[cfg(target_os = "linux")]
pub use sockets::*;
#[cfg(target_os = "linux")]
pub use spawner::Spawner;
pub use stream::*;
pub use terminal::*;
#[cfg(target_os = "linux")]
pub use tree::*;
#[cfg(target_os = "linux")]
pub use violations::{Refused, Violations};

#[cfg(target_os = "linux")]
pub(crate) fn set_nonblocking(fd: &impl std::os::fd::AsFd) -> std::io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// `/dev/null`, for streams that nobody may use.
#[cfg(target_os = "linux")]
pub(crate) fn null() -> std::io::Result<std::os::fd::OwnedFd> {
    Ok(std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?
        .into())
}

/// Makes this process give up waiting for a guard's answer after a moment.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn hurry_for_test() {
    HURRY_MS.store(500, std::sync::atomic::Ordering::SeqCst);
}

/// Makes every later session of this process freeze by its guard.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn forbid_cgroups_for_test() {
    cgroup::FORBIDDEN.store(true, std::sync::atomic::Ordering::SeqCst);
}

/// Makes every later session of this process go without the watch over its secrets.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn forbid_secret_watch_for_test() {
    secret_watch::FORBIDDEN.store(true, std::sync::atomic::Ordering::SeqCst);
}

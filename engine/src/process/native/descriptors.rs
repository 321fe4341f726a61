//! The descriptors that a launch takes and gives.

use super::super::LaunchError;
use crate::backend::Pin;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Descriptors that an engine needs besides the pins of one launch.
const OTHER_FILES: u64 = 512;

/// Descriptors that proxies may need: two for each connection of several sessions at their limit
/// ([`Limits::connections`](crate::egress::Limits)).
const PROXY_FILES: u64 = 65_536;

/// Raises the soft limit of open files when a launch pins more than it allows, or brings proxies,
/// as far as the hard limit goes. The guard gives programs inside a limit of their own.
pub(super) fn make_room(pins: usize, proxies: bool) -> Result<(), LaunchError> {
    let failed = LaunchError::descriptor("the limit of open files");
    let wanted = u64::try_from(pins)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHER_FILES)
        .saturating_add(if proxies { PROXY_FILES } else { 0 });
    let raise = || -> nix::Result<()> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        if soft < wanted && soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard)?;
        }
        Ok(())
    };
    raise().map_err(io::Error::from).map_err(failed)
}

/// Opens a bind source without following a last symlink, and compares it with what the policy
/// saw.
pub(super) fn pin(pin: &Pin) -> Result<File, LaunchError> {
    let path = pin.path.to_path_buf();
    let changed = |cause| LaunchError::SourceChanged {
        path: path.clone(),
        named: pin.named,
        cause,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(&path)
        .map_err(|cause| match cause.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => LaunchError::descriptor("a bind source")(cause),
            _ => changed(Some(cause)),
        })?;
    let found = file.metadata().map_err(|cause| changed(Some(cause)))?;
    if (found.dev(), found.ino()) != (pin.id.dev, pin.id.ino) {
        return Err(changed(None));
    }
    Ok(file)
}

pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC)
        .map_err(io::Error::from)
        .map_err(LaunchError::descriptor("a pipe"))
}

pub(super) fn sealed_memfd(bytes: &[u8]) -> Result<OwnedFd, LaunchError> {
    let make = || -> io::Result<OwnedFd> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = File::from(memfd_create("kotak-args", flags)?);
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(0))?;
        let seals = nix::fcntl::SealFlag::F_SEAL_WRITE
            | nix::fcntl::SealFlag::F_SEAL_GROW
            | nix::fcntl::SealFlag::F_SEAL_SHRINK
            | nix::fcntl::SealFlag::F_SEAL_SEAL;
        nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_ADD_SEALS(seals))?;
        Ok(file.into())
    };
    make().map_err(LaunchError::descriptor("an argument file"))
}

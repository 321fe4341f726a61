//! The guard that the engine carries: verified by its hash, handed out from a sealed memory
//! file that nobody can change.

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl, open as open_path},
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::Mode,
    },
};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd, OwnedFd},
    sync::OnceLock,
};

/// The static binary that `build.rs` made.
static IMAGE: &[u8] = include_bytes!(env!("KOTAK_GUARD_PATH"));

/// The SHA-256 of the guard in hexadecimal, taken when it was built.
pub const GUARD_SHA256: &str = env!("KOTAK_GUARD_SHA256");

/// The bytes in this program are not the ones that were built. It comes inside an
/// [`io::Error`] of kind [`io::ErrorKind::InvalidData`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the embedded guard has hash {found}, not {expected}")]
pub struct DamagedGuard {
    /// The hash that was recorded.
    pub expected: String,
    /// The hash of what is there.
    pub found: String,
}

/// A new read-only descriptor of the guard, at offset 0 and closed on exec, for one launch. It
/// can be executed (execveat(2)), and bubblewrap can read it (`--ro-bind-data`, after
/// `--perms 0555`: without, the file inside is not executable).
///
/// # Errors
/// [`DamagedGuard`], or the system's word on memory files and descriptors.
pub fn open() -> io::Result<OwnedFd> {
    static SEALED: OnceLock<OwnedFd> = OnceLock::new();
    let sealed = match SEALED.get() {
        Some(sealed) => sealed,
        // A failure is not kept: descriptors may be free next time.
        None => {
            let sealed = seal(IMAGE, GUARD_SHA256)?;
            SEALED.get_or_init(|| sealed)
        }
    };
    // Opened again, not duplicated: a duplicate shares its offset with every other launch.
    let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
    Ok(open_path(
        path.as_str(),
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)
}

/// Verifies `image` and puts it into a sealed memory file.
fn seal(image: &[u8], expected: &str) -> io::Result<OwnedFd> {
    let found = hexadecimal(&Sha256::digest(image));
    if found != expected {
        let damaged = DamagedGuard {
            expected: expected.to_owned(),
            found,
        };
        return Err(io::Error::new(io::ErrorKind::InvalidData, damaged));
    }
    let mut file = File::from(executable_memory_file()?);
    file.write_all(image)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

fn executable_memory_file() -> Result<OwnedFd, Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Since Linux 6.3 a host can make memory files not executable unless asked otherwise;
    // older kernels do not know the flag.
    let executable = flags | MFdFlags::from_bits_retain(libc::MFD_EXEC);
    match memfd_create(c"kotak-guard", executable) {
        Err(Errno::EINVAL) => memfd_create(c"kotak-guard", flags),
        other => other,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Seek, SeekFrom},
        process::Command,
    };

    #[test]
    fn each_launch_reads_the_whole_image_from_its_own_offset() {
        let mut first = File::from(open().unwrap());
        let mut second = File::from(open().unwrap());
        let mut bytes = Vec::new();
        first.read_to_end(&mut bytes).unwrap();
        assert_eq!(second.stream_position().unwrap(), 0);
        assert_eq!(hexadecimal(&Sha256::digest(&bytes)), GUARD_SHA256);
        assert_eq!(bytes, IMAGE);
        second.seek(SeekFrom::End(0)).unwrap();
    }

    #[test]
    fn the_image_cannot_be_written_truncated_or_unsealed() {
        let sealed = open().unwrap();
        let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        let again = File::options().write(true).open(&path);
        // Opening for writing may be allowed; changing anything is not.
        if let Ok(mut file) = again {
            assert!(file.write_all(b"x").is_err());
            assert!(file.set_len(0).is_err());
            assert!(file.set_len(1 << 30).is_err());
            let none = FcntlArg::F_ADD_SEALS(SealFlag::empty());
            assert_eq!(fcntl(&file, none), Err(Errno::EPERM));
        }
        // Positive control: a memory file without seals takes all of it.
        let mut file = File::from(memfd_create(c"plain", MFdFlags::MFD_ALLOW_SEALING).unwrap());
        file.write_all(b"x").unwrap();
        file.set_len(0).unwrap();
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).unwrap();
    }

    #[test]
    fn an_image_with_another_hash_is_refused() {
        let error = seal(b"not the guard", GUARD_SHA256).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(
            error
                .get_ref()
                .is_some_and(|inner| inner.is::<DamagedGuard>())
        );
        // Positive control: with the hash that belongs to it, it is taken.
        let hash = hexadecimal(&Sha256::digest(b"not the guard"));
        assert!(seal(b"not the guard", &hash).is_ok());
    }

    #[test]
    fn the_image_runs_and_is_the_guard() {
        let image = open().unwrap();
        let program = format!("/proc/self/fd/{}", image.as_raw_fd());
        let output = Command::new(program).output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains("usage: kotak-guard"), "{words}");
        assert_eq!(output.status.code(), Some(122));
    }

    /// The types of the program headers of a 64-bit ELF file (elf(5)).
    fn segment_types(image: &[u8]) -> Vec<u32> {
        let number = |at: usize, bytes: usize| {
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(&image[at..at + bytes]);
            usize::try_from(u64::from_le_bytes(value)).unwrap()
        };
        let (table, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
        (0..count)
            .map(|index| u32::try_from(number(table + index * size, 4)).unwrap())
            .collect()
    }

    #[test]
    fn the_image_is_static() {
        const PT_LOAD: u32 = 1;
        const PT_INTERP: u32 = 3;
        let types = segment_types(IMAGE);
        assert!(types.contains(&PT_LOAD) && !types.contains(&PT_INTERP));
        // Positive control: a shell of the system names its loader.
        let shell = std::fs::read("/bin/sh").unwrap();
        assert!(segment_types(&shell).contains(&PT_INTERP));
    }
}

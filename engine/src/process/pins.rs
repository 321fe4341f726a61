//! What a launch mounts on, held while it is built, and what bubblewrap made in its stead.
//!
//! bubblewrap makes a mount point that is missing: an empty file or directory, on the host where
//! the mount lies in a writable bind. What the policy looked at and vanished before the mount would
//! leave one behind, and the session would hide nothing but that.

use super::LaunchError;
use crate::backend::Pin;
use nix::time::{ClockId, clock_gettime};
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Permission bits of the files that bubblewrap makes to mount on.
const FILE_MODE: u32 = 0o444;

/// Permission bits of its directories; less for those above a mount that nobody may read.
const DIR_MODES: [u32; 2] = [0o755, 0o700];

/// The mount targets of one launch. Dropping it, once nothing of the runner is left, removes from
/// the host what the runner made in place of a target that had vanished.
#[derive(Debug)]
pub(super) struct Pins<'a> {
    /// Open, so that no inode number is given to another file.
    held: Vec<(&'a Pin, File)>,
    /// By the clock that stamps files.
    began: SystemTime,
}

impl<'a> Pins<'a> {
    /// Opens every target with `open`, which compares it with what the policy saw.
    pub(super) fn hold(
        pins: &'a [Pin],
        open: impl Fn(&Pin) -> Result<File, LaunchError>,
    ) -> Result<Self, LaunchError> {
        let held = pins
            .iter()
            .map(|pin| open(pin).map(|file| (pin, file)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            held,
            began: ticked(),
        })
    }

    /// A target of a mask that is not there any more: what was mounted there hides something else.
    /// (The guard compares what was bound.)
    pub(super) fn unmasked(&self) -> Option<&'a Pin> {
        self.find_changed(|pin| pin.masked)
    }

    /// A target that is not there any more.
    pub(super) fn changed(&self) -> Option<&'a Pin> {
        self.find_changed(|_| true)
    }

    fn find_changed(&self, among: impl Fn(&Pin) -> bool) -> Option<&'a Pin> {
        let mut pins = self.held.iter().map(|(pin, _)| *pin);
        pins.find(|pin| {
            let there = fs::symlink_metadata(pin.path.to_path_buf());
            among(pin) && !there.is_ok_and(|found| is_target(&found, pin))
        })
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        let window = self.began..=SystemTime::now();
        let mut pins: Vec<&Pin> = self.held.iter().map(|(pin, _)| *pin).collect();
        // What lies below a made directory before that directory.
        pins.sort_by(|a, b| b.path.cmp(&a.path));
        for pin in pins {
            let path = pin.path.to_path_buf();
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if is_target(&found, pin) {
                continue;
            }
            if !was_made(&found, &window) {
                tracing::info!(path = %path.display(), "replaced by another program while a sandbox was being built");
                continue;
            }
            match remove(&path, &found) {
                Ok(()) => tracing::warn!(
                    path = %path.display(),
                    "vanished while a sandbox was being built; the empty mount point is removed"
                ),
                Err(error) => tracing::warn!(
                    path = %path.display(), %error,
                    "vanished while a sandbox was being built; the empty mount point is left"
                ),
            }
        }
    }
}

fn is_target(found: &Metadata, pin: &Pin) -> bool {
    (found.dev(), found.ino()) == (pin.id.dev, pin.id.ino)
}

/// Whether this is a mount point that the runner made: of this user, empty, with the permissions
/// that it gives, and born while it ran. Where the file system tells no birth it is never ours.
fn was_made(found: &Metadata, window: &RangeInclusive<SystemTime>) -> bool {
    let mode = found.mode() & 0o7777;
    let like_one = if found.is_dir() {
        DIR_MODES.contains(&mode)
    } else {
        found.is_file() && found.len() == 0 && found.nlink() == 1 && mode == FILE_MODE
    };
    like_one
        && found.uid() == nix::unistd::geteuid().as_raw()
        && found.created().is_ok_and(|born| window.contains(&born))
}

/// Removes an empty file or directory, and never what another program puts there meanwhile.
fn remove(path: &Path, found: &Metadata) -> io::Result<()> {
    if found.is_dir() {
        // Refused when anything is in it.
        return fs::remove_dir(path);
    }
    // unlink(2) takes a name, whatever stands there: so it is done under a name that nobody knows.
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let aside = tempfile::Builder::new().prefix(".kotak-").tempdir_in(dir)?;
    let moved = aside.path().join(name);
    fs::rename(path, &moved)?;
    let now = fs::symlink_metadata(&moved)?;
    if (now.dev(), now.ino(), now.len()) == (found.dev(), found.ino(), 0) {
        fs::remove_file(&moved)?;
        return Ok(());
    }
    // Another program's after all: back, unless that has put one more there.
    let back = fs::hard_link(&moved, path);
    if let Err(error) = back {
        let kept = aside.keep().join(name);
        return Err(io::Error::other(format!(
            "kept as {}: {error}",
            kept.display()
        )));
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Now, by the clock that stamps files: it lags behind by up to a tick of the kernel.
fn ticked() -> SystemTime {
    let coarse = clock_gettime(ClockId::CLOCK_REALTIME_COARSE);
    coarse.map_or_else(
        // No clock, no proof: nothing is ever taken for ours then.
        |_| SystemTime::now() + Duration::from_secs(1 << 32),
        |time| SystemTime::UNIX_EPOCH + Duration::from(time),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::FileId;
    use crate::spec::AbsPath;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    fn open(pin: &Pin) -> Result<File, LaunchError> {
        Ok(File::open(pin.path.to_path_buf()).unwrap())
    }

    fn pin(path: &Path, masked: bool) -> Pin {
        let found = fs::symlink_metadata(path).unwrap();
        Pin {
            path: AbsPath::from_path(path).unwrap(),
            id: FileId {
                dev: found.dev(),
                ino: found.ino(),
            },
            masked,
            named: false,
        }
    }

    /// As bubblewrap makes a file to mount on.
    fn make_like_the_runner(path: &Path) {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(FILE_MODE);
        options.open(path).unwrap();
    }

    #[test]
    fn what_the_runner_made_in_place_of_a_vanished_target_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, below) = (dir.path().join("key"), dir.path().join("keys/deep"));
        fs::write(&file, "secret").unwrap();
        fs::create_dir_all(&below).unwrap();
        let pins = [
            pin(&file, true),
            pin(&dir.path().join("keys"), false),
            pin(&below, true),
        ];
        let held = Pins::hold(&pins, open).unwrap();
        assert_eq!(held.unmasked(), None);
        fs::remove_file(&file).unwrap();
        fs::remove_dir_all(dir.path().join("keys")).unwrap();
        make_like_the_runner(&file);
        fs::create_dir_all(&below).unwrap();
        for made in [&below, &dir.path().join("keys")] {
            fs::set_permissions(made, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(
            held.unmasked().map(|pin| pin.path.to_path_buf()),
            Some(file)
        );
        drop(held);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_surely_the_runners_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let names = ["kept", "written", "opened", "older", "full"];
        for name in names {
            fs::write(at(name), "secret").unwrap();
        }
        make_like_the_runner(&at("made-before"));
        let pins: Vec<Pin> = names.iter().map(|name| pin(&at(name), true)).collect();
        // The clock that stamps files must have gone on since.
        std::thread::sleep(Duration::from_millis(30));
        let held = Pins::hold(&pins, open).unwrap();
        for name in ["written", "opened", "full"] {
            fs::remove_file(at(name)).unwrap();
        }
        fs::rename(at("made-before"), at("older")).unwrap();
        fs::write(at("written"), "new secret").unwrap();
        fs::write(at("opened"), "").unwrap();
        fs::set_permissions(at("opened"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(at("full")).unwrap();
        fs::write(at("full/file"), "x").unwrap();
        drop(held);
        for name in names {
            assert!(at(name).exists(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("written")).unwrap(), "new secret");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), names.len());
    }

    #[test]
    fn what_another_program_puts_there_at_the_last_moment_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        make_like_the_runner(&path);
        let looked_at = fs::symlink_metadata(&path).unwrap();
        // Kept, so that the new file has another inode.
        let _held = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(remove(&path, &looked_at).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // The control: the one that was looked at goes.
        assert!(remove(&path, &fs::symlink_metadata(&path).unwrap()).is_err());
        fs::write(&path, "").unwrap();
        remove(&path, &fs::symlink_metadata(&path).unwrap()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

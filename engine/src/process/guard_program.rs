//! The guard's program as a file in Kotak's own directory, which sandboxes bind.
//!
//! bubblewrap would copy it into every sandbox; from a file it costs one mount, and the kernel
//! shares its pages between sessions. What is there is compared with the program that this engine
//! carries before the first launch, and seen to be unchanged before each. Where no file can be
//! executed, as in a home that is mounted noexec, sandboxes get copies.

use super::guard_image;
use crate::backend::GuardFile;
use crate::policy::FileId;
use crate::spec::AbsPath;
use crate::store::Dirs;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// First part of its name; the hash follows, so that engines of two versions have two.
const PREFIX: &str = "guard-";

/// Permissions: this user may read and run it; nobody may write.
const MODE: u32 = 0o500;

/// The file, once it is there.
#[derive(Debug)]
pub struct GuardProgram {
    dirs: Dirs,
    placed: Mutex<Option<Placed>>,
}

/// The file as it was compared.
#[derive(Debug, Clone)]
struct Placed {
    file: GuardFile,
    seen: Seen,
}

/// What changes with a file: any write, rename, link or change of permissions moves `changed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    id: FileId,
    size: u64,
    changed: (i64, i64),
}

impl GuardProgram {
    /// In the run directory; nothing is made yet.
    #[must_use]
    pub fn within(dirs: Dirs) -> Self {
        Self {
            dirs,
            placed: Mutex::new(None),
        }
    }

    /// The file, made and compared where that was not done before; none where there can be none.
    /// Waits for the file system.
    #[must_use]
    pub fn file(&self) -> Option<GuardFile> {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let unchanged = placed.as_ref().filter(|placed| {
            let there = fs::symlink_metadata(placed.file.path.to_path_buf());
            there.is_ok_and(|there| seen(&there) == placed.seen)
        });
        if let Some(unchanged) = unchanged {
            return Some(unchanged.file.clone());
        }
        *placed = match self.place() {
            Ok(found) => Some(found),
            Err(error) => {
                tracing::info!(%error, "sandboxes get copies of the guard's program");
                None
            }
        };
        placed.as_ref().map(|placed| placed.file.clone())
    }

    fn place(&self) -> io::Result<Placed> {
        self.dirs.prepare_run().map_err(io::Error::other)?;
        let run = self.dirs.run.canonicalize()?;
        let flags = statvfs(&run)?.flags();
        if flags.contains(FsFlags::ST_NOEXEC) {
            return Err(io::Error::other("no program runs from its file system"));
        }
        let image = guard_image::verified()?;
        let name = format!("{PREFIX}{}", guard_image::GUARD_SHA256);
        let path = run.join(&name);
        let found = match compare(&path, image) {
            Ok(found) => found,
            Err(_) => {
                write(&run, &path, image)?;
                compare(&path, image)?
            }
        };
        remove_others(&run, &name);
        let path = AbsPath::from_path(&path).map_err(io::Error::other)?;
        Ok(Placed {
            file: GuardFile { path, id: found.id },
            seen: found,
        })
    }
}

fn seen(found: &Metadata) -> Seen {
    Seen {
        id: FileId {
            dev: found.dev(),
            ino: found.ino(),
        },
        size: found.size(),
        changed: (found.ctime(), found.ctime_nsec()),
    }
}

/// What is at a path, if it is the program, this user's, and not to be written by anybody.
fn compare(path: &Path, image: &[u8]) -> io::Result<Seen> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let before = file.metadata()?;
    let own = before.uid() == nix::unistd::geteuid().as_raw();
    let sealed = before.mode() & 0o7777 == MODE && before.nlink() == 1;
    if !(before.is_file() && own && sealed) || before.len() != image.len() as u64 {
        return Err(io::Error::other("another file is there"));
    }
    let mut bytes = Vec::with_capacity(image.len());
    Read::by_ref(&mut file)
        .take(before.len())
        .read_to_end(&mut bytes)?;
    if bytes != image {
        return Err(io::Error::other("its content is not the program"));
    }
    let (before, after) = (seen(&before), seen(&file.metadata()?));
    if before == after {
        Ok(after)
    } else {
        Err(io::Error::other("it was changed meanwhile"))
    }
}

/// Under another name first: nobody finds half of it. It may replace what is there.
fn write(run: &Path, path: &Path, image: &[u8]) -> io::Result<()> {
    let mut new = tempfile::Builder::new()
        .prefix(&format!(".{PREFIX}"))
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(MODE))
        .tempfile_in(run)?;
    new.as_file_mut().write_all(image)?;
    // Nobody runs a file that is open for writing (execve(2), ETXTBSY).
    let made = new.into_temp_path();
    fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(MODE))?;
    made.persist(path).map_err(|error| error.error)
}

/// Programs of other versions; an engine that still uses one makes it anew.
fn remove_others(run: &Path, name: &str) {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    for entry in entries {
        let other = entry.file_name();
        if other
            .to_str()
            .is_some_and(|other| other != name && other.strip_prefix(PREFIX).is_some_and(is_hash))
        {
            // Left for the next engine where it cannot be removed.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == guard_image::GUARD_SHA256.len()
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn program() -> (tempfile::TempDir, GuardProgram) {
        let root = tempfile::tempdir().unwrap();
        let program = GuardProgram::within(Dirs::under(root.path()));
        (root, program)
    }

    fn content(file: &GuardFile) -> Vec<u8> {
        fs::read(file.path.to_path_buf()).unwrap()
    }

    fn image() -> &'static [u8] {
        guard_image::verified().unwrap()
    }

    #[test]
    fn it_is_made_once_and_runs() {
        let (_root, program) = program();
        let file = program.file().unwrap();
        assert_eq!(content(&file), image());
        assert_eq!(program.file(), Some(file.clone()));
        let output = std::process::Command::new(file.path.to_path_buf()).output();
        let words = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(words.contains("usage: kotak-guard"), "{words}");
        // Another engine of the same version finds it.
        let again = GuardProgram::within(program.dirs.clone());
        assert_eq!(again.file(), Some(file));
    }

    #[test]
    fn whatever_is_there_instead_is_replaced() {
        let (_root, program) = program();
        let first = program.file().unwrap();
        let path = first.path.to_path_buf();
        let changes: [(&str, &dyn Fn()); 6] = [
            ("gone", &|| fs::remove_file(&path).unwrap()),
            ("another program", &|| {
                fs::remove_file(&path).unwrap();
                fs::copy("/bin/true", &path).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).unwrap();
            }),
            ("one byte", &|| {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
                let mut file = OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all(b"X").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).unwrap();
            }),
            ("writable", &|| {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            }),
            ("a link", &|| {
                fs::remove_file(&path).unwrap();
                symlink("/bin/true", &path).unwrap();
            }),
            ("two names", &|| {
                fs::hard_link(&path, path.with_extension("other")).unwrap();
            }),
        ];
        for (what, change) in changes {
            change();
            let file = program.file().unwrap();
            assert_eq!(file.path, first.path, "{what}");
            assert_eq!(content(&file), image(), "{what}");
            let found = fs::symlink_metadata(&path).unwrap();
            assert_eq!((found.mode() & 0o7777, found.nlink()), (MODE, 1), "{what}");
        }
    }

    #[test]
    fn programs_of_other_versions_are_removed_and_nothing_else() {
        let (_root, program) = program();
        program.dirs.prepare_run().unwrap();
        let run = program.dirs.run.clone();
        let other = format!("{PREFIX}{}", "0".repeat(64));
        for name in [&other, "guard-notes", "desk.lock"] {
            File::create(run.join(name)).unwrap();
        }
        program.file().unwrap();
        assert!(!run.join(&other).exists());
        assert!(run.join("guard-notes").exists() && run.join("desk.lock").exists());
    }

    #[test]
    fn without_a_directory_of_its_own_there_is_none() {
        let (root, program) = program();
        File::create(root.path().join("state")).unwrap();
        assert_eq!(program.file(), None);
        // Positive control: it is there as soon as that is possible.
        fs::remove_file(root.path().join("state")).unwrap();
        assert!(program.file().is_some());
    }
}

//! Opening the database file: never over a damaged, foreign or newer one.

use super::engine_id::EngineId;
use super::error::StoreError;
use super::row;
use super::schema::{self, SchemaError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a statement waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long opening waits for another process that opens.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// An open database file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) connection: Connection,
    /// Device and inode, to notice that the file was moved away under us.
    identity: (u64, u64),
}

impl OpenFile {
    /// Whether `path` still names the file that is open.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

/// A database in memory, for when there can be no file.
pub(super) fn in_memory() -> Result<Connection, StoreError> {
    let sql = |source| StoreError::Sql {
        path: PathBuf::from(":memory:"),
        source,
    };
    let mut connection = Connection::open_in_memory().map_err(sql)?;
    match schema::migrate(&mut connection) {
        Ok(()) => Ok(connection),
        Err(SchemaError::Sql(source)) => Err(sql(source)),
        Err(SchemaError::TooNew(_) | SchemaError::Foreign(_)) => {
            Err(sql(rusqlite::Error::InvalidQuery))
        }
    }
}

/// Opens the file. A damaged or foreign one is first moved aside with its journal; that it was is
/// the second part of the answer.
///
/// One process at a time does this, so that two that find the same damage do not move each
/// other's new file away.
pub(super) fn open(
    path: &Path,
    engine: &EngineId,
    now_ms: u64,
) -> Result<(OpenFile, Option<StoreError>), StoreError> {
    let _lock = lock(path)?;
    match attempt(path, engine, now_ms) {
        Ok(file) => Ok((file, None)),
        Err(Failure::Damaged(reason)) => {
            let kept = set_aside(path, now_ms).map_err(|source| StoreError::Unopenable {
                path: path.to_path_buf(),
                source,
            })?;
            match attempt(path, engine, now_ms) {
                Ok(file) => Ok((file, Some(StoreError::SetAside { kept, reason }))),
                Err(Failure::Other(error)) => Err(error),
                Err(Failure::Damaged(reason)) => Err(StoreError::Unopenable {
                    path: path.to_path_buf(),
                    source: io::Error::other(reason),
                }),
            }
        }
        Err(Failure::Other(error)) => Err(error),
    }
}

enum Failure {
    /// Another file must take this one's place.
    Damaged(String),
    /// The file is kept where it is.
    Other(StoreError),
}

fn attempt(path: &Path, engine: &EngineId, now_ms: u64) -> Result<OpenFile, Failure> {
    let sql = |error: rusqlite::Error| sort(path, error);
    let identity = touch(path).map_err(|source| {
        Failure::Other(if super::dirs::is_disk_full(&source) {
            StoreError::DiskFull {
                path: path.to_path_buf(),
                source: None,
            }
        } else {
            StoreError::Unopenable {
                path: path.to_path_buf(),
                source,
            }
        })
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sql)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
    // Until the file is known to be sound and ours, closing it must not write its journal back.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(sql)?;
    connection
        .pragma_update(None, "trusted_schema", false)
        .map_err(sql)?;
    connection
        .pragma_update(None, "cell_size_check", true)
        .map_err(sql)?;
    connection
        .pragma_update(None, "foreign_keys", true)
        .map_err(sql)?;
    let schema = |error| match error {
        SchemaError::TooNew(found) => Failure::Other(StoreError::TooNew {
            path: path.to_path_buf(),
            found,
            known: schema::VERSION,
        }),
        SchemaError::Foreign(reason) => Failure::Damaged(reason),
        SchemaError::Sql(error) => sort(path, error),
    };
    schema::recognise(&connection).map_err(schema)?;
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(sql)?;
    if verdict != "ok" {
        return Err(Failure::Damaged(verdict));
    }
    let _journal: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(sql)?;
    connection
        .pragma_update(None, "synchronous", "NORMAL")
        .map_err(sql)?;
    schema::migrate(&mut connection).map_err(schema)?;
    schema::complete(&connection).map_err(schema)?;
    row::tidy(&connection, engine, now_ms).map_err(sql)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        .map_err(sql)?;
    Ok(OpenFile {
        connection,
        identity,
    })
}

/// Makes the file (0600) where it is missing; refuses anything that is not a regular file.
fn touch(path: &Path) -> io::Result<(u64, u64)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    Ok((found.dev(), found.ino()))
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let lock_path = path.with_extension("lock");
    let unopenable = |source| StoreError::Unopenable {
        path: lock_path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&lock_path)
        .map_err(|source| {
            if super::dirs::is_disk_full(&source) {
                StoreError::DiskFull {
                    path: path.to_path_buf(),
                    source: None,
                }
            } else {
                unopenable(source)
            }
        })?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if began.elapsed() < OPEN_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(StoreError::Busy {
                    path: path.to_path_buf(),
                    waited: OPEN_TIMEOUT,
                });
            }
            Err(fs::TryLockError::Error(source)) => return Err(unopenable(source)),
        }
    }
}

/// Moves the file and its journal to `store.sqlite.corrupt-<ms>`. The journal goes first: a new
/// database must never find the journal of the old one.
fn set_aside(path: &Path, now_ms: u64) -> io::Result<PathBuf> {
    let suffixed = |base: &Path, suffix: &str| {
        let mut name = base.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let mut kept = suffixed(path, &format!(".corrupt-{now_ms}"));
    let mut count = 1;
    while fs::symlink_metadata(&kept).is_ok() {
        kept = suffixed(path, &format!(".corrupt-{now_ms}-{count}"));
        count += 1;
    }
    for suffix in ["-wal", "-shm"] {
        match fs::rename(suffixed(path, suffix), suffixed(&kept, suffix)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    fs::rename(path, &kept)?;
    Ok(kept)
}

fn sort(path: &Path, error: rusqlite::Error) -> Failure {
    if is_damage(&error) {
        Failure::Damaged(error.to_string())
    } else {
        Failure::Other(store_error(path, error))
    }
}

/// Whether an error says that the file is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Whether an error comes from the row itself, so that trying again cannot help.
pub(super) fn is_refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}

/// A statement's error by what it means for the user.
pub(super) fn store_error(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::DiskFull {
            path,
            source: Some(error),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy {
            path,
            waited: BUSY_TIMEOUT,
        },
        _ => StoreError::Sql {
            path,
            source: error,
        },
    }
}

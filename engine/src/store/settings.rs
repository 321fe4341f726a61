//! The user's settings in `config.toml`. An invalid file is reported and left as it is.

use super::dirs::{Dirs, is_disk_full};
use crate::api::Settings;
use crate::error::{Coded, Fix, Problem};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use toml::Spanned;

const FILE_NAME: &str = "config.toml";
/// A larger file is no configuration.
const SIZE_LIMIT: u64 = 256 << 10;
const FONT_SIZES: std::ops::RangeInclusive<u16> = 8..=40;
const SCROLLBACK: std::ops::RangeInclusive<u32> = 1_000..=200_000;
/// Seconds until an unanswered question denies.
const PROMPT_SECONDS: std::ops::RangeInclusive<u32> = 10..=600;
const FONT_FAMILY_LIMIT: usize = 200;

/// Why settings could not be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file, or a changed setting, is not valid.
    #[error("{} is not valid: {reason}", place(path, *line, key.as_deref()))]
    Invalid {
        /// The file; absent for a change that was never in one.
        path: Option<PathBuf>,
        /// Line, from 1.
        line: Option<usize>,
        /// The setting.
        key: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be read.
    #[error("the settings file {} cannot be read", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("the settings file {} cannot be written", path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Dir(#[from] super::dirs::DirError),
}

fn place(path: &Option<PathBuf>, line: Option<usize>, key: Option<&str>) -> String {
    let mut text = match (path, line) {
        (Some(path), Some(line)) => format!("{} line {line}", path.display()),
        (Some(path), None) => path.display().to_string(),
        (None, _) => return key.map_or("a setting".to_owned(), |key| format!("the setting {key}")),
    };
    if let Some(key) = key {
        text.push_str(&format!(", {key},"));
    }
    text
}

impl Coded for SettingsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "CONFIG_INVALID",
            Self::Unreadable { .. } => "CONFIG_UNREADABLE",
            Self::Unwritable { source, .. } if is_disk_full(source) => "DISK_FULL",
            Self::Unwritable { .. } => "CONFIG_UNWRITABLE",
            Self::Dir(error) => error.code(),
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::Invalid {
                path: Some(path), ..
            } => Fix::words(format!(
                "Correct {}. Until then the defaults hold; a setting changed in the window replaces the file and keeps this one as {}.",
                path.display(),
                backup_path(path).display()
            )),
            Self::Invalid { path: None, .. } => Fix::words("Choose a value in the range."),
            Self::Unreadable { path, .. } => Fix::words(format!(
                "Make {} a file that this user can read.",
                path.display()
            )),
            Self::Unwritable { source, .. } if is_disk_full(source) => {
                Fix::words("Free some space, then change the setting again.")
            }
            Self::Unwritable { path, .. } => {
                Fix::words(format!("Make {} writable for this user.", path.display()))
            }
            Self::Dir(error) => return error.fix(),
        })
    }
}

/// The settings in force, and the file that they are kept in.
#[derive(Debug)]
pub struct SettingsFile {
    dirs: Dirs,
    current: Mutex<Settings>,
}

impl SettingsFile {
    /// Reads the file. Where it is missing the defaults hold; where it is invalid they hold too,
    /// and the problem names file, line and setting.
    #[must_use]
    pub fn load(dirs: &Dirs) -> (Self, Vec<Problem>) {
        let path = dirs.config.join(FILE_NAME);
        let (settings, problems) = match read(&path) {
            Ok(None) => (Settings::default(), Vec::new()),
            Ok(Some(text)) => match parse(&path, &text) {
                Ok(settings) => (settings, Vec::new()),
                Err(error) => (Settings::default(), vec![error.problem()]),
            },
            Err(error) => (Settings::default(), vec![error.problem()]),
        };
        (
            Self {
                dirs: dirs.clone(),
                current: Mutex::new(settings),
            },
            problems,
        )
    }

    /// The settings in force.
    #[must_use]
    pub fn current(&self) -> Settings {
        self.locked().clone()
    }

    /// Checks the settings, puts them in force, and saves them. When saving fails they are in
    /// force until the end of the process, and the error says that they are not kept.
    ///
    /// Comments and order of a valid file stay; an invalid one is kept as `config.toml.bak`.
    pub fn change(&self, settings: Settings) -> Result<Settings, SettingsError> {
        check(&settings, |_| None, None)?;
        let mut current = self.locked();
        *current = settings.clone();
        self.dirs.prepare_config()?;
        // Written to where a link leads, so that a configuration kept elsewhere stays there.
        let path = self.dirs.config.join(FILE_NAME);
        let path = path.canonicalize().unwrap_or(path);
        let unwritable = |source| SettingsError::Unwritable {
            path: path.clone(),
            source,
        };
        let kept = read(&path)?;
        let text = match &kept {
            Some(bytes) if parse(&path, bytes).is_ok() => {
                updated(&String::from_utf8_lossy(bytes), &settings)
            }
            Some(bytes) => {
                replace(&backup_path(&path), bytes).map_err(unwritable)?;
                updated("", &settings)
            }
            None => updated("", &settings),
        };
        if kept.as_deref() != Some(text.as_bytes()) {
            replace(&path, text.as_bytes()).map_err(unwritable)?;
        }
        Ok(settings)
    }

    fn locked(&self) -> MutexGuard<'_, Settings> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn backup_path(path: &Path) -> PathBuf {
    path.with_file_name("config.toml.bak")
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, SettingsError> {
    use std::os::unix::fs::OpenOptionsExt;
    let unreadable = |source| SettingsError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(SIZE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(unreadable(io::Error::other(format!(
            "it is larger than {SIZE_LIMIT} bytes"
        ))));
    }
    Ok(Some(bytes))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Settings, SettingsError> {
    let text = std::str::from_utf8(bytes).map_err(|error| SettingsError::Invalid {
        path: Some(path.to_path_buf()),
        line: Some(line_of(bytes, error.valid_up_to())),
        key: None,
        reason: "it is not UTF-8 text".to_owned(),
    })?;
    let settings: Settings = toml::from_str(text).map_err(|error| {
        let span = error.span();
        let line = span.as_ref().map(|span| line_of(bytes, span.start));
        // A missing or misspelt value is found at its line; the setting is what stands before `=`.
        let key = line
            .and_then(|line| text.lines().nth(line - 1))
            .and_then(|line| line.split_once('='))
            .map(|(key, _)| key.trim().to_owned())
            .filter(|key| !key.is_empty());
        SettingsError::Invalid {
            path: Some(path.to_path_buf()),
            line,
            key,
            reason: error.message().to_owned(),
        }
    })?;
    let values = spans(text);
    check(
        &settings,
        |key| {
            values
                .get(key)
                .map(|value| line_of(bytes, value.span().start))
        },
        Some(path),
    )?;
    Ok(settings)
}

/// Refuses values outside their range. They are not clamped: a file that says one thing and does
/// another cannot be understood.
fn check(
    settings: &Settings,
    line: impl Fn(&str) -> Option<usize>,
    path: Option<&Path>,
) -> Result<(), SettingsError> {
    let invalid = |key: &str, reason: String| {
        Err(SettingsError::Invalid {
            path: path.map(Path::to_path_buf),
            line: line(key),
            key: Some(key.to_owned()),
            reason,
        })
    };
    if !FONT_SIZES.contains(&settings.font_size) {
        let (low, high) = (FONT_SIZES.start(), FONT_SIZES.end());
        return invalid(
            "fontSize",
            format!("{} is not between {low} and {high}", settings.font_size),
        );
    }
    if !SCROLLBACK.contains(&settings.scrollback_lines) {
        let (low, high) = (SCROLLBACK.start(), SCROLLBACK.end());
        let found = settings.scrollback_lines;
        return invalid(
            "scrollbackLines",
            format!("{found} is not between {low} and {high}"),
        );
    }
    if !PROMPT_SECONDS.contains(&settings.prompt_seconds) {
        let (low, high) = (PROMPT_SECONDS.start(), PROMPT_SECONDS.end());
        let found = settings.prompt_seconds;
        return invalid(
            "promptSeconds",
            format!("{found} is not between {low} and {high}"),
        );
    }
    let family = &settings.font_family;
    if family.len() > FONT_FAMILY_LIMIT || family.chars().any(char::is_control) {
        let reason = format!("a font family is at most {FONT_FAMILY_LIMIT} bytes of plain text");
        return invalid("fontFamily", reason);
    }
    Ok(())
}

/// Every top-level value with its place in the text.
fn spans(text: &str) -> BTreeMap<String, Spanned<toml::Value>> {
    toml::from_str(text).unwrap_or_default()
}

fn line_of(text: &[u8], offset: usize) -> usize {
    text.iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The text with each changed value in the old one's place, and new ones at the end.
fn updated(text: &str, settings: &Settings) -> String {
    let old = spans(text);
    let new = toml::Table::try_from(settings).unwrap_or_default();
    let defaults = toml::Table::try_from(Settings::default()).unwrap_or_default();
    let mut edits: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    for (key, value) in &new {
        match old.get(key) {
            Some(found) if found.get_ref() == value => {}
            Some(found) => edits.push((found.span(), value.to_string())),
            None if defaults.get(key) == Some(value) => {}
            None => added.push_str(&format!("{key} = {value}\n")),
        }
    }
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, value) in edits {
        text.replace_range(span, &value);
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&added);
    text
}

/// Writes the whole file or leaves the old one: temporary file (0600), fsync, rename, fsync of
/// the directory.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(".config-")
        .tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;

//! Identifiers as types, so that a session's id is never taken for a workspace's.

use sha2::{Digest, Sha256};
use std::fmt;

/// Longest id in bytes.
pub const MAX_ID_BYTES: usize = 128;

/// A session's id: not empty, at most [`MAX_ID_BYTES`], no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// Bytes of a folder's digest in the id of its workspace.
const DIGEST_BYTES: usize = 8;

/// A workspace's id: not empty, at most [`MAX_ID_BYTES`], no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceId(String);

/// Why a text is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// it is empty
    #[error("it is empty")]
    Empty,
    /// it is longer than 128 bytes
    #[error("it is longer than {MAX_ID_BYTES} bytes")]
    TooLong,
    /// it holds a control character
    #[error("it holds a control character")]
    Control,
}

fn checked(text: &str) -> Result<String, IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong);
    }
    if text.chars().any(char::is_control) {
        return Err(IdError::Control);
    }
    Ok(text.to_owned())
}

impl SessionId {
    /// Checks an id.
    ///
    /// # Errors
    /// When the text is empty, too long, or holds control characters.
    pub fn new(text: &str) -> Result<Self, IdError> {
        checked(text).map(Self)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl WorkspaceId {
    /// Checks an id.
    ///
    /// # Errors
    /// When the text is empty, too long, or holds control characters.
    pub fn new(text: &str) -> Result<Self, IdError> {
        checked(text).map(Self)
    }

    /// The id of the workspace that a folder is: the path itself where that can be an id, else its
    /// printable end behind a digest of the whole.
    #[must_use]
    pub fn of_folder(path: &str) -> String {
        if checked(path).is_ok() {
            return path.to_owned();
        }
        let digest = Sha256::digest(path);
        let mut id: String = digest
            .iter()
            .take(DIGEST_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        id.push(' ');
        let printable: String = path
            .chars()
            .map(|character| match character {
                control if control.is_control() => char::REPLACEMENT_CHARACTER,
                other => other,
            })
            .collect();
        let room = MAX_ID_BYTES.saturating_sub(id.len());
        let cut = printable.len().saturating_sub(room);
        let cut = (cut..=printable.len()).find(|at| printable.is_char_boundary(*at));
        id.push_str(printable.get(cut.unwrap_or_default()..).unwrap_or_default());
        id
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_id_is_kept_as_written() {
        assert_eq!(SessionId::new("space-7").unwrap().as_str(), "space-7");
        assert_eq!(
            WorkspaceId::new("日本 shop").unwrap().to_string(),
            "日本 shop"
        );
    }

    #[test]
    fn every_folder_has_an_id_of_its_own() {
        let long = format!("/home/u/{}", "\u{e4}".repeat(2000));
        let longer = format!("/mnt{long}");
        for folder in ["/home/u/a\nb", "/home/u/a\tb", &long, &longer, ""] {
            let id = WorkspaceId::of_folder(folder);
            assert!(WorkspaceId::new(&id).is_ok(), "{id:?}");
        }
        assert_eq!(WorkspaceId::of_folder("/home/u/shop"), "/home/u/shop");
        assert_ne!(
            WorkspaceId::of_folder(&long),
            WorkspaceId::of_folder(&longer)
        );
        let ids = ["/a\nb", "/a\tb"].map(WorkspaceId::of_folder);
        assert_ne!(ids[0], ids[1]);
        assert!(ids[0].ends_with(" /a\u{fffd}b"), "{}", ids[0]);
    }

    #[test]
    fn an_empty_long_or_unprintable_id_is_refused() {
        assert_eq!(SessionId::new(""), Err(IdError::Empty));
        assert_eq!(
            SessionId::new(&"x".repeat(MAX_ID_BYTES + 1)),
            Err(IdError::TooLong)
        );
        assert_eq!(WorkspaceId::new("a\nb"), Err(IdError::Control));
        assert!(SessionId::new(&"x".repeat(MAX_ID_BYTES)).is_ok());
    }
}

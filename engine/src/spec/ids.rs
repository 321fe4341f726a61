//! Identifiers as types, so that a session's id is never taken for a workspace's.

use std::fmt;

/// Longest id in bytes.
pub const MAX_ID_BYTES: usize = 128;

/// A session's id: not empty, at most [`MAX_ID_BYTES`], no control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

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

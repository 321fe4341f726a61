//! Absolute Unix paths as bytes, so that every path that the kernel takes can be carried, and the
//! pure stages run the same on every OS.

use std::ffi::OsString;
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Longest path in bytes that a system call takes, without the closing NUL (`PATH_MAX` − 1).
pub const MAX_PATH_BYTES: usize = 4095;

/// An absolute path without NUL, normalised lexically: no `.`, no `..`, no empty component, no
/// closing slash. Symlinks are not looked at; that is for [`crate::policy::HostFs`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AbsPath(Vec<u8>);

/// Why bytes are no absolute path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// it is empty
    #[error("it is empty")]
    Empty,
    /// it is not absolute
    #[error("it is not absolute")]
    Relative,
    /// it holds a NUL byte
    #[error("it holds a NUL byte")]
    Nul,
    /// it is longer than the kernel takes
    #[error("it is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl AbsPath {
    /// Checks and normalises.
    ///
    /// # Errors
    /// When the bytes are empty, relative, too long, or hold a NUL.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        if bytes.first() != Some(&b'/') {
            return Err(PathError::Relative);
        }
        if bytes.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        Ok(Self::root().joined(bytes))
    }

    /// Checks and normalises a path of the host.
    ///
    /// # Errors
    /// As [`AbsPath::new`].
    pub fn from_path(path: &Path) -> Result<Self, PathError> {
        Self::new(path.as_os_str().as_encoded_bytes())
    }

    /// `/`.
    #[must_use]
    pub fn root() -> Self {
        Self(b"/".to_vec())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as an `OsString`; lossless on Unix.
    #[must_use]
    pub fn to_os_string(&self) -> OsString {
        native::os_string(&self.0)
    }

    /// The same as a `PathBuf`; lossless on Unix.
    #[must_use]
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf::from(self.to_os_string())
    }

    /// Whether it is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == b"/"
    }

    /// The components, without the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
    }

    /// How many components; `/` has none.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// The last component; `/` has none.
    #[must_use]
    pub fn file_name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// The directory that holds it; `/` has none.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let cut = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(if cut == 0 {
            Self::root()
        } else {
            Self(self.0.get(..cut)?.to_vec())
        })
    }

    /// Its proper ancestors, nearest first, `/` last.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Adds a path below, or replaces by an absolute one; `.` and `..` are resolved lexically,
    /// `..` of `/` being `/`.
    #[must_use]
    pub fn join(&self, more: impl AsRef<[u8]>) -> Self {
        let more = more.as_ref();
        if more.first() == Some(&b'/') {
            Self::root().joined(more)
        } else {
            self.joined(more)
        }
    }

    fn joined(&self, more: &[u8]) -> Self {
        // Nearly every path of a policy is made of one name below another path.
        if !more.is_empty() && !matches!(more, b"." | b"..") && !more.contains(&b'/') {
            let base = if self.is_root() { &[] } else { self.as_bytes() };
            return Self([base, b"/", more].concat());
        }
        let mut parts: Vec<&[u8]> = self.components().collect();
        for part in more.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop();
                }
                name => parts.push(name),
            }
        }
        if parts.is_empty() {
            return Self::root();
        }
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
        for part in parts {
            bytes.push(b'/');
            bytes.extend_from_slice(part);
        }
        Self(bytes)
    }

    /// Whether it is `other` or lies below it, by whole components.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root()
            || self
                .0
                .strip_prefix(other.0.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
    }

    /// The bounds of what lies below it, in the order of paths: bytes between `/` and its successor,
    /// so that neither `/a-b` nor `/a.b` counts to `/a`. The bounds themselves name nothing.
    #[must_use]
    pub(crate) fn descendants(&self) -> (Bound<Self>, Bound<Self>) {
        let base = if self.is_root() { &[] } else { self.as_bytes() };
        let bound = |next: u8| Bound::Excluded(Self([base, &[next]].concat()));
        (bound(b'/'), bound(b'/' + 1))
    }

    /// What follows `base`, without a leading slash; none when it is not within.
    #[must_use]
    pub fn below(&self, base: &Self) -> Option<&[u8]> {
        if !self.is_within(base) {
            return None;
        }
        let start = if base.is_root() { 0 } else { base.0.len() };
        let rest = self.0.get(start..)?;
        Some(rest.strip_prefix(b"/").unwrap_or(rest))
    }
}

impl fmt::Display for AbsPath {
    /// For people: characters that mislead escaped, bytes that are no UTF-8 replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        if !text.chars().any(crate::text::misleads) {
            return f.write_str(&text);
        }
        for character in text.chars() {
            if crate::text::misleads(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(unix)]
mod native {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    pub(super) fn os_string(bytes: &[u8]) -> OsString {
        OsString::from_vec(bytes.to_vec())
    }
}

#[cfg(not(unix))]
mod native {
    use std::ffi::OsString;

    pub(super) fn os_string(bytes: &[u8]) -> OsString {
        OsString::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> AbsPath {
        AbsPath::new(text).unwrap()
    }

    #[test]
    fn a_path_is_normalised_lexically() {
        assert_eq!(path("//a/./b//../c/").as_bytes(), b"/a/c");
        assert_eq!(path("/../..").as_bytes(), b"/");
        assert_eq!(path("/").depth(), 0);
    }

    #[test]
    fn what_is_no_absolute_path_is_refused() {
        assert_eq!(AbsPath::new(""), Err(PathError::Empty));
        assert_eq!(AbsPath::new("a/b"), Err(PathError::Relative));
        assert_eq!(AbsPath::new(b"/a\0b"), Err(PathError::Nul));
        assert_eq!(
            AbsPath::new(vec![b'/'; MAX_PATH_BYTES + 1]),
            Err(PathError::TooLong)
        );
    }

    #[test]
    fn odd_names_are_kept_byte_for_byte() {
        let odd = AbsPath::new(b"/a b/\n\"'/-x/\xff\xfe").unwrap();
        assert_eq!(odd.as_bytes(), b"/a b/\n\"'/-x/\xff\xfe");
        assert_eq!(odd.file_name(), Some(b"\xff\xfe".as_slice()));
        assert_eq!(odd.to_string(), "/a b/\\n\"'/-x/\u{fffd}\u{fffd}");
    }

    #[test]
    fn within_goes_by_whole_components() {
        assert!(path("/a/b").is_within(&path("/a")));
        assert!(path("/a").is_within(&path("/a")));
        assert!(!path("/ab").is_within(&path("/a")));
        assert!(path("/a").is_within(&path("/")));
        assert!(!path("/").is_within(&path("/a")));
        assert_eq!(path("/a/b/c").below(&path("/a")), Some(b"b/c".as_slice()));
        assert_eq!(path("/a").below(&path("/")), Some(b"a".as_slice()));
    }

    #[test]
    fn ancestors_go_up_to_the_root() {
        let all: Vec<_> = path("/a/b/c").ancestors().collect();
        assert_eq!(all, [path("/a/b"), path("/a"), path("/")]);
        assert_eq!(path("/").parent(), None);
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(bytes in prop::collection::vec(1u8.., 0..60)) {
            let once = AbsPath::root().join(&bytes);
            prop_assert_eq!(AbsPath::new(once.as_bytes()), Ok(once.clone()));
            prop_assert!(!once.components().any(|part| part == b".." || part == b"."));
        }

        #[test]
        fn a_joined_name_is_within_and_below(name in "[a-z .\\-]{1,9}x") {
            let base = path("/base");
            let joined = base.join(&name);
            prop_assert!(joined.is_within(&base));
            let all: std::collections::BTreeSet<AbsPath> = ["/", "/a", "/a-b", "/a.b", "/a/b/c", "/a0", "/b"]
                .map(path)
                .into_iter()
                .chain([joined.clone(), base.clone()])
                .collect();
            for at in &all {
                let below: Vec<_> = all.range(at.descendants()).collect();
                let wanted: Vec<_> = all.iter().filter(|one| *one != at && one.is_within(at)).collect();
                prop_assert_eq!(below, wanted);
            }
            prop_assert_eq!(joined.below(&base), Some(name.as_bytes()));
            prop_assert_eq!(joined.parent(), Some(base));
        }
    }
}

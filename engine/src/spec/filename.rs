//! Filename rules, checked (REQ BW-5).
//!
//! A glob without a slash is matched against the last component of a path, one with a slash
//! against the path below the folder that can be written, at any depth. Case makes no difference:
//! a file system may make none.

use super::SpecError;
use globset::{GlobBuilder, GlobMatcher};

/// Most globs, and most exceptions, of one spec: each is tried at every creation of a name.
pub const MOST_GLOBS: usize = 256;

/// Longest glob in bytes.
pub const LONGEST_GLOB: usize = 1024;

/// What the standard dispatch of an agent forbids to make (REQ BW-4, BW-5).
pub const DISPATCH_GLOBS: [&str; 3] = [".env", "*.key", "*.pem"];

/// What the standard dispatch lets pass all the same, each shown to the operator: files of that
/// kind that installing packages brings, none of them a secret, and without which it breaks.
pub const DISPATCH_EXCEPTIONS: [&str; 7] = [
    // `python -m venv` unpacks pip, which brings the certificates of the web's authorities.
    "site-packages/pip/_vendor/certifi/cacert.pem",
    "site-packages/certifi/cacert.pem",
    "site-packages/botocore/cacert.pem",
    "site-packages/grpc/_cython/_credentials/roots.pem",
    // Packages of Node bring the keys of their own tests, and settings of their build.
    "node_modules/**/*.pem",
    "node_modules/**/*.key",
    "node_modules/**/.env",
];

/// Filename rules that passed validation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValidFilenameRules {
    pub(crate) globs: Vec<String>,
    pub(crate) exceptions: Vec<String>,
}

impl ValidFilenameRules {
    /// Names that cannot be made, each once.
    #[must_use]
    pub fn globs(&self) -> &[String] {
        &self.globs
    }

    /// Paths at which the globs do not hold, each once.
    #[must_use]
    pub fn exceptions(&self) -> &[String] {
        &self.exceptions
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }
}

/// A glob as the guard matches it: case-insensitive, `*` and `?` stop at a slash, `\` takes the
/// next character as it is.
///
/// # Errors
/// When it is no glob.
pub fn filename_glob(glob: &str) -> Result<GlobMatcher, globset::Error> {
    let anywhere = if glob.contains('/') {
        format!("**/{glob}")
    } else {
        glob.to_owned()
    };
    let built = GlobBuilder::new(&anywhere)
        .case_insensitive(true)
        .literal_separator(true)
        .backslash_escape(true)
        .build()?;
    Ok(built.compile_matcher())
}

/// Checks every glob of a list; each is kept once.
pub(super) fn globs(field: &'static str, texts: &[String]) -> Result<Vec<String>, SpecError> {
    if texts.len() > MOST_GLOBS {
        return Err(SpecError::TooManyGlobs {
            field,
            count: texts.len(),
        });
    }
    let mut kept: Vec<String> = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        if let Some(reason) = unusable(text) {
            return Err(SpecError::Glob {
                field: format!("{field}[{index}]"),
                glob: text.escape_debug().to_string(),
                reason,
            });
        }
        if !kept.contains(text) {
            kept.push(text.clone());
        }
    }
    Ok(kept)
}

/// Why a glob can match no name, or none.
fn unusable(glob: &str) -> Option<String> {
    let reason = if glob.is_empty() {
        "it is empty"
    } else if glob.len() > LONGEST_GLOB {
        "it is longer than 1024 bytes"
    } else if glob.contains('\0') {
        "it holds a NUL character, which no name has"
    } else if glob.starts_with('/') {
        "it starts with a slash, and is matched below the folders that can be written"
    } else if glob.ends_with('/') {
        "it ends with a slash, and a name has none"
    } else if glob.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "it holds an empty component, . or .., which no path below a folder has"
    } else {
        return filename_glob(glob)
            .err()
            .map(|error| error.kind().to_string());
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(glob: &str) -> Option<String> {
        unusable(glob)
    }

    #[test]
    fn what_can_match_no_name_is_told_with_the_reason() {
        for (glob, part) in [
            ("", "empty"),
            ("/etc/*.pem", "starts with a slash"),
            ("a\0b", "NUL"),
            ("dir/", "ends with a slash"),
            ("a//b", "empty component"),
            ("../x", ".."),
            ("a/./b", "."),
            ("[a", "unclosed character class"),
            ("{a,b", "unclosed alternate group"),
        ] {
            let found = reason(glob).unwrap_or_default();
            assert!(found.contains(part), "{glob:?}: {found:?}");
        }
        assert!(reason(&"x".repeat(LONGEST_GLOB + 1)).is_some());
        for fine in [
            ".env",
            "*.key",
            "a/b/*.pem",
            "node_modules/**/*.pem",
            "[ab]?",
            "{x,y}.z",
            "..x",
            "schlüssel.*",
        ] {
            assert_eq!(reason(fine), None, "{fine}");
        }
        assert_eq!(reason(&"x".repeat(LONGEST_GLOB)), None);
    }

    #[test]
    fn a_glob_is_matched_without_regard_to_case_and_stops_at_a_slash() {
        let is = |glob: &str, path: &str| filename_glob(glob).unwrap().is_match(path);
        assert!(is("*.key", "X.KEY") && is(".env", ".ENV"));
        assert!(!is("*.key", "a/x.key") && !is(".env", ".env.local"));
        for (path, matches) in [
            ("node_modules/a/b/test.pem", true),
            ("sub/node_modules/a.pem", true),
            ("node_modules_/a.pem", false),
            ("a.pem", false),
        ] {
            assert_eq!(is("node_modules/**/*.pem", path), matches, "{path}");
        }
    }

    #[test]
    fn the_dispatch_rules_are_globs_and_their_exceptions_cover_no_secret_beside_them() {
        // REQ BW-5
        for glob in DISPATCH_GLOBS.iter().chain(&DISPATCH_EXCEPTIONS) {
            assert_eq!(reason(glob), None, "{glob}");
        }
        let excepted = |path: &str| {
            DISPATCH_EXCEPTIONS
                .iter()
                .any(|glob| filename_glob(glob).unwrap().is_match(path))
        };
        for path in [
            "v/lib/python3.11/site-packages/pip/_vendor/certifi/cacert.pem",
            "v/lib/python3.11/site-packages/certifi/cacert.pem",
            "web/node_modules/public-encrypt/test/test_key.pem",
            "node_modules/bottleneck/.env",
        ] {
            assert!(excepted(path), "{path}");
        }
        for path in [
            ".env",
            "server.key",
            "certifi/cacert.pem",
            "v/lib/python3.11/site-packages/other.pem",
            "node_modules.pem",
        ] {
            assert!(!excepted(path), "{path}");
        }
    }
}

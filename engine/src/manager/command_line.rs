//! Command lines split by shell rules, without a shell, and names made safe to show. Pure.

use crate::error::{Coded, Fix};
use crate::text::printable_start;

/// Most characters of a title.
const TITLE_LIMIT: usize = 80;

/// Why a command line cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    /// Nothing to run.
    #[error("the command line is empty")]
    Empty,
    /// A quote without its end.
    #[error("a quote in the command line is not closed")]
    OpenQuote,
    /// A backslash at the very end.
    #[error("the command line ends in a backslash")]
    OpenEscape,
    /// NUL cannot be passed to a program.
    #[error("the command line holds a NUL character")]
    Nul,
}

impl Coded for SplitError {
    fn code(&self) -> &'static str {
        "COMMAND_LINE_INVALID"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Empty => "Type a program to run.",
            Self::OpenQuote => "Close the quote, or put a backslash before it.",
            Self::OpenEscape => "Remove the last backslash, or type the character that it is for.",
            Self::Nul => "Remove the NUL character.",
        }))
    }
}

/// Splits a line into words as POSIX shells quote them: single quotes keep everything, double
/// quotes keep all but `\` before `$`, `` ` ``, `"`, `\` and newline. Nothing is expanded.
pub(super) fn split(line: &str) -> Result<Vec<String>, SplitError> {
    if line.contains('\0') {
        return Err(SplitError::Nul);
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(SplitError::OpenQuote)? {
                        '\'' => break,
                        kept => word.push(kept),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(SplitError::OpenQuote)? {
                        '"' => break,
                        '\\' => match rest.next().ok_or(SplitError::OpenQuote)? {
                            '\n' => {}
                            escaped @ ('$' | '`' | '"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        kept => word.push(kept),
                    }
                }
            }
            '\\' => match rest.next().ok_or(SplitError::OpenEscape)? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if words.is_empty() {
        Err(SplitError::Empty)
    } else {
        Ok(words)
    }
}

/// A session's title from its program's path.
pub(super) fn title(program: &str) -> String {
    let name = program
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(program);
    printable_start(name, TITLE_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_quotes_them() {
        let cases: [(&str, &[&str]); 8] = [
            ("  a b\tc ", &["a", "b", "c"]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            (r"a\ b \'", &["a b", "'"]),
            (r#""\$x \n \"q\" \\""#, &[r#"$x \n "q" \"#]),
            (r"'a\b'", &[r"a\b"]),
            ("x'y'\"z\"", &["xyz"]),
            ("'' a", &["", "a"]),
            ("$HOME *.rs; ls", &["$HOME", "*.rs;", "ls"]),
        ];
        for (line, words) in cases {
            assert_eq!(
                split(line),
                Ok(words.iter().map(|word| (*word).to_owned()).collect()),
                "{line}"
            );
        }
    }

    #[test]
    fn a_line_that_cannot_be_split_is_a_typed_error() {
        let cases = [
            ("", SplitError::Empty),
            (" \n", SplitError::Empty),
            ("a 'b", SplitError::OpenQuote),
            ("a \"b", SplitError::OpenQuote),
            ("a \"b\\", SplitError::OpenQuote),
            ("a \\", SplitError::OpenEscape),
            ("a\0b", SplitError::Nul),
        ];
        for (line, error) in cases {
            assert_eq!(split(line), Err(error), "{line:?}");
        }
    }

    #[test]
    fn a_title_shows_what_would_mislead() {
        assert_eq!(title("/usr/bin/bash"), "bash");
        assert_eq!(
            title("/opt/evil\u{202e}native\u{1b}[0m"),
            "evil\\u{202e}native\\u{1b}[0m"
        );
        assert_eq!(title(&"x".repeat(200)).chars().count(), TITLE_LIMIT + 1);
    }
}

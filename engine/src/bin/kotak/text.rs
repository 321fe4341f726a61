//! Text on the user's terminal.

pub(crate) use kotak_engine::text::printable;
use std::io::{self, Write};

/// A name of others within a line of words: in double quotes when it holds white space, quotes or a
/// backslash, so that it cannot pass for more than one column.
pub(crate) fn quoted(name: &str) -> String {
    let plain =
        |letter: char| !letter.is_whitespace() && !matches!(letter, '"' | '\'' | '`' | '\\');
    if !name.is_empty() && name.chars().all(plain) {
        return printable(name);
    }
    let mut text = String::from("\"");
    for letter in name.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            ' ' => text.push(' '),
            other if other.is_whitespace() => text.extend(other.escape_unicode()),
            other => text.push_str(&printable(other.encode_utf8(&mut [0; 4]))),
        }
    }
    text.push('"');
    text
}

/// A sentence in a line of columns, which two spaces part: of more spaces in a row, as a name in
/// it may have them, all but the first are escaped.
pub(crate) fn sentence(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    let mut spaced = false;
    for letter in printable(words).chars() {
        if letter.is_whitespace() && (spaced || letter != ' ') {
            text.extend(letter.escape_unicode());
        } else {
            text.push(letter);
        }
        spaced = letter.is_whitespace();
    }
    text
}

/// Writes a result to standard output. A reader that went away early has what it wanted.
pub(crate) fn write_result(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_pass_for_columns_is_quoted_and_others_are_not() {
        for plain in ["/w/a-b.key", "größe", "example.com:443"] {
            assert_eq!(quoted(plain), plain);
        }
        assert_eq!(quoted("x  refused  y"), "\"x  refused  y\"");
        assert_eq!(quoted("a\" b\\"), "\"a\\\" b\\\\\"");
        assert_eq!(quoted("a\u{a0}b\n"), "\"a\\u{a0}b\\u{a}\"");
        assert_eq!(quoted("a \u{1b}[2J"), "\"a \\u{1b}[2J\"");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("it's"), "\"it's\"");
    }

    #[test]
    fn a_sentence_has_no_columns() {
        assert_eq!(sentence("filename rule *.key"), "filename rule *.key");
        assert_eq!(
            sentence("below /w/m  sudo [1]\u{a0}x"),
            "below /w/m \\u{20}sudo [1]\\u{a0}x"
        );
    }
}

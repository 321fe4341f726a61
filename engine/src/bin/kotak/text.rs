//! Text of others on the user's terminal.

use std::io::{self, Write};

/// The text with everything escaped that a terminal would obey or that would reorder the line.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Direction marks, zero-width characters, and line separators.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{061c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    )
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
    fn controls_and_direction_marks_are_shown_and_other_text_stays() {
        assert_eq!(printable("größe 字 ~/a b"), "größe 字 ~/a b");
        assert_eq!(printable("a\u{1b}]0;x\u{7}\n"), "a\\u{1b}]0;x\\u{7}\\u{a}");
        assert_eq!(printable("a\u{202e}b\u{9b}c"), "a\\u{202e}b\\u{9b}c");
    }
}

//! Text of others made safe to show: every character visible that a terminal would obey, or that
//! would hide or reorder what stands beside it.

/// Whether a character is not what it looks like: controls, bidirectional marks (UAX #9),
/// zero-width characters, line separators, tags.
#[must_use]
pub fn misleads(character: char) -> bool {
    // Most text, at once.
    if matches!(character, ' '..='~') {
        return false;
    }
    character.is_control()
        || matches!(
            u32::from(character),
            0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xfff9..=0xfffb | 0xe0000..=0xe007f
        )
}

/// The text on one line, with what misleads escaped.
#[must_use]
pub fn printable(text: &str) -> String {
    printable_start(text, usize::MAX)
}

/// The same of its first characters; `…` stands for the rest.
#[must_use]
pub fn printable_start(text: &str, limit: usize) -> String {
    let mut shown = String::with_capacity(text.len());
    for (count, character) in text.chars().enumerate() {
        if count == limit {
            shown.push('…');
            break;
        }
        if misleads(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misleads_is_escaped_and_other_text_stays() {
        assert_eq!(printable("größe 字 ~/a b"), "größe 字 ~/a b");
        assert_eq!(printable("a\u{1b}]0;x\u{7}\n"), "a\\u{1b}]0;x\\u{7}\\u{a}");
        assert_eq!(printable("a\u{202e}b\u{9b}c"), "a\\u{202e}b\\u{9b}c");
        assert_eq!(printable("a\u{ad}\u{e0041}"), "a\\u{ad}\\u{e0041}");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(printable_start("abcd", 4), "abcd");
        assert_eq!(printable_start("abcde", 4), "abcd…");
    }
}

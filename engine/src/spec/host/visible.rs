//! Text that cannot mislead the eye.

use unicode_security::{MixedScript, skeleton};

/// Characters that are not drawn or that turn the direction of what stands around them:
/// `Default_Ignorable_Code_Point` and `Bidi_Control` (Unicode, `DerivedCoreProperties.txt`,
/// `PropList.txt`), with the blanks that look like nothing.
const INVISIBLE: [(u32, u32); 20] = [
    (0x00AD, 0x00AD),   // soft hyphen
    (0x034F, 0x034F),   // combining grapheme joiner
    (0x061C, 0x061C),   // Arabic letter mark
    (0x115F, 0x1160),   // Hangul fillers
    (0x17B4, 0x17B5),   // Khmer inherent vowels
    (0x180B, 0x180F),   // Mongolian selectors and vowel separator
    (0x200B, 0x200F),   // zero-width space, joiners, direction marks
    (0x202A, 0x202E),   // embeddings and overrides
    (0x2060, 0x206F),   // word joiner, invisible operators, isolates
    (0x2800, 0x2800),   // braille blank
    (0x3164, 0x3164),   // Hangul filler
    (0xFE00, 0xFE0F),   // variation selectors
    (0xFEFF, 0xFEFF),   // byte order mark
    (0xFFA0, 0xFFA0),   // halfwidth Hangul filler
    (0xFFF0, 0xFFFB),   // unassigned ignorables, interlinear annotation
    (0x1BCA0, 0x1BCA3), // shorthand format controls
    (0x1D159, 0x1D159), // musical null note head
    (0x1D173, 0x1D17A), // musical format controls
    (0xE0000, 0xE007F), // tags
    (0xE0080, 0xE0FFF), // variation selectors and unassigned ignorables
];

/// Whether a character is not drawn, or changes the direction of the text.
pub(super) fn is_invisible(character: char) -> bool {
    let code = u32::from(character);
    INVISIBLE
        .iter()
        .any(|&(first, last)| (first..=last).contains(&code))
}

/// Makes a text safe to look at: control, invisible and direction-changing characters, line
/// separators and blanks outside ASCII are written as `\u{…}`; and so is every character outside
/// ASCII of a label that mixes scripts (UTS #39 §5.1), or that as a whole can be taken for an
/// ASCII one (UTS #39 §4). Labels are what stands between dots and other ASCII punctuation.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(|character: char| {
        character.is_ascii_punctuation() && !matches!(character, '-' | '_') || character == ' '
    }) {
        let misleads = misleads(part);
        for character in part.chars() {
            let hidden = character.is_control()
                || is_invisible(character)
                || (character.is_whitespace() && character != ' ')
                || (misleads && !character.is_ascii());
            if hidden {
                shown.extend(character.escape_unicode());
            } else {
                shown.push(character);
            }
        }
    }
    shown
}

/// Whether a label can be taken for another.
fn misleads(label: &str) -> bool {
    if label.is_ascii() {
        return false;
    }
    !label.is_single_script() || skeleton(label).all(|character| character.is_ascii())
}

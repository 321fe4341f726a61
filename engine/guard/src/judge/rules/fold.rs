//! Names that a file system without regard to case takes for others (ext4 and f2fs `casefold`,
//! APFS: full case folding of the canonical decomposition, without ignorable code points).

/// What such a file system may take a name for, where that is not the name but for ASCII case.
/// Only what can become ASCII matters: rules for names are case-insensitive in ASCII.
pub(super) fn folded(name: &[u8]) -> Option<Vec<u8>> {
    if name.is_ascii() {
        return None;
    }
    let mut changed = false;
    let mut text = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match becomes(c) {
                Some(other) => {
                    changed = true;
                    text.extend_from_slice(other.as_bytes());
                }
                None => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        text.extend_from_slice(chunk.invalid());
    }
    changed.then_some(text)
}

/// CaseFolding.txt (C, F), UnicodeData.txt (canonical singletons) and Default_Ignorable_Code_Point
/// of the Unicode Character Database, as far as the result is ASCII.
fn becomes(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{17f}' => "s",
        '\u{212a}' => "k",
        '\u{df}' | '\u{1e9e}' => "ss",
        '\u{fb00}' => "ff",
        '\u{fb01}' => "fi",
        '\u{fb02}' => "fl",
        '\u{fb03}' => "ffi",
        '\u{fb04}' => "ffl",
        '\u{fb05}' | '\u{fb06}' => "st",
        '\u{37e}' => ";",
        '\u{1fef}' => "`",
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => "",
        _ => return None,
    })
}

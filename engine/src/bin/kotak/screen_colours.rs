//! Which colours a program has set in the user's terminal (OSC 4, 10 to 12): a question in the
//! colour of its background cannot be read.

use std::collections::BTreeMap;

/// Strings of a program that change no colour: titles, the folder, links, the clipboard, marks of
/// prompts. Whatever else is said to the terminal may be a colour of a kind that is not known here.
const HARMLESS: [&str; 9] = ["0", "1", "2", "7", "8", "9", "52", "133", "633"];
/// Most colours that are kept; a palette has 256.
const MOST: usize = 300;
/// Longest name of a colour that is kept.
const LONGEST: usize = 64;

/// The colours that a program set.
#[derive(Debug, Default)]
pub(crate) struct Colours {
    /// A string has begun and was not yet found harmless.
    is_open: bool,
    /// Something was said that may have changed a colour. A user whose shell chose the colours
    /// keeps them otherwise.
    are_touched: bool,
    /// By what stands before the name: `4;1`, `10`.
    set: BTreeMap<String, String>,
}

impl Colours {
    /// A string begins.
    pub(crate) fn may_change(&mut self) {
        // One that begins within another, or was given up, was never judged.
        self.are_touched |= self.is_open;
        self.is_open = true;
    }

    /// A string has ended.
    pub(crate) fn follow(&mut self, text: &str) {
        self.is_open = false;
        let (kind, rest) = text.split_once(';').unwrap_or((text, ""));
        if HARMLESS.contains(&kind) {
            return;
        }
        self.are_touched = true;
        match kind {
            "4" => {
                let mut words = rest.split(';');
                while let (Some(index), Some(name)) = (words.next(), words.next()) {
                    if index.parse::<u8>().is_ok() {
                        self.keep(format!("4;{index}"), name);
                    }
                }
            }
            // Further names are of the colours that follow: text, background, cursor.
            "10" | "11" | "12" => {
                let first = kind.parse().unwrap_or(10_u8);
                for (number, name) in (first..=12).zip(rest.split(';')) {
                    self.keep(number.to_string(), name);
                }
            }
            "104" if rest.is_empty() => self.set.retain(|key, _| !key.starts_with("4;")),
            "104" => {
                for index in rest.split(';') {
                    self.set.remove(&format!("4;{index}"));
                }
            }
            "110" | "111" | "112" => {
                self.set.remove(&kind.replacen('1', "", 1));
            }
            _ => {}
        }
    }

    /// Only names: a question about a colour sets none.
    fn keep(&mut self, key: String, name: &str) {
        let is_name = name.len() <= LONGEST
            && name != "?"
            && !name.is_empty()
            && name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if is_name && (self.set.len() < MOST || self.set.contains_key(&key)) {
            self.set.insert(key, name.to_owned());
        }
    }

    /// The terminal was reset, and its colours with it.
    pub(crate) fn forget(&mut self) {
        self.set.clear();
    }

    /// The user's own colours, where a program may have set others.
    pub(crate) fn put_aside(&self) -> &'static str {
        if self.are_touched || self.is_open {
            // The palette, as terminals and as the console of Linux say it; text and background.
            "\u{1b}]104\u{1b}\\\u{1b}]R\u{1b}\\\u{1b}]110\u{1b}\\\u{1b}]111\u{1b}\\"
        } else {
            ""
        }
    }

    /// The program's.
    pub(crate) fn put_back(&self) -> String {
        let set = self.set.iter();
        set.map(|(key, name)| format!("\u{1b}]{key};{name}\u{1b}\\"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(strings: &[&str]) -> Colours {
        let mut colours = Colours::default();
        for text in strings {
            colours.may_change();
            colours.follow(text);
        }
        colours
    }

    #[test]
    fn only_what_may_have_changed_a_colour_is_undone() {
        for harmless in ["0;a title", "8;;https://a.example/", "52;c;aGk=", "133;A"] {
            assert_eq!(colours(&[harmless]).put_aside(), "", "{harmless:?}");
        }
        for other in [
            "4;0;red",
            "10;#fff",
            "04;0;red",
            "P0ffffff",
            "1337;SetColors=bg=fff",
            "",
        ] {
            let aside = colours(&[other]).put_aside();
            assert!(
                aside.contains("]104") && aside.contains("]111"),
                "{other:?}"
            );
        }
        // One that was given up is not known to be harmless.
        let mut open = Colours::default();
        open.may_change();
        assert_ne!(open.put_aside(), "");
        open.may_change();
        open.follow("0;a title");
        assert_ne!(open.put_aside(), "");
    }

    #[test]
    fn colours_are_put_back_as_they_were_set_last() {
        let set = colours(&[
            "4;1;red;2;rgb:00/ff/00",
            "10;white;black",
            "4;1;blue",
            "11;?",
        ]);
        assert_eq!(
            set.put_back(),
            "\u{1b}]10;white\u{1b}\\\u{1b}]11;black\u{1b}\\\u{1b}]4;1;blue\u{1b}\\\u{1b}]4;2;rgb:00/ff/00\u{1b}\\"
        );
        let set = colours(&["4;1;red;2;green", "10;white;black", "104;1", "110"]);
        assert_eq!(
            set.put_back(),
            "\u{1b}]11;black\u{1b}\\\u{1b}]4;2;green\u{1b}\\"
        );
        assert_eq!(colours(&["4;1;red", "104"]).put_back(), "");
    }

    #[test]
    fn no_flood_of_colours_takes_memory_and_no_name_holds_a_control() {
        let mut strings: Vec<_> = (0..10_000).map(|index| format!("4;0{index};red")).collect();
        strings.push(format!("10;{}", "x".repeat(LONGEST + 1)));
        strings.push("11;a\u{7}b".to_owned());
        let strings: Vec<_> = strings.iter().map(String::as_str).collect();
        let set = colours(&strings);
        assert!(set.set.len() <= MOST);
        assert!(set.set.keys().all(|key| key.starts_with("4;")));
    }
}

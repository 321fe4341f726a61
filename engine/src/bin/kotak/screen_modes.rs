//! Which modes a program has set in the user's terminal, so that Kotak can put them aside for a
//! question and put them back after it.

use std::collections::BTreeSet;

/// Private modes (DECSET) that matter to a question: they would change what keys send, or where
/// and how text is drawn. 47, 1047 and 1049 are the alternate screen.
const FOLLOWED: [u16; 19] = [
    1, 6, 7, 9, 25, 47, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1047, 1049, 2004,
];
const ALTERNATE: [u16; 3] = [47, 1047, 1049];
/// Modes that are on in a fresh terminal.
const ON_AT_FIRST: [u16; 2] = [7, 25];
/// Longest parameter text of a sequence that is followed.
const LONGEST: usize = 64;

/// Follows a program's output.
#[derive(Debug, Default)]
pub(crate) struct ScreenModes {
    state: State,
    parameters: Vec<u8>,
    /// Followed modes that are not as at first.
    changed: BTreeSet<u16>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After `ESC [`.
    Control,
    /// After `ESC [ ?`.
    Private,
}

impl ScreenModes {
    /// Looks at what is written to the terminal.
    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = match (self.state, *byte) {
                (_, 0x1b) => State::Escape,
                // CAN and SUB end any sequence.
                (_, 0x18 | 0x1a) => State::Text,
                (State::Escape, b'[') => State::Control,
                (State::Escape, b'c') => {
                    self.changed.clear();
                    State::Text
                }
                (State::Control, b'?') => {
                    self.parameters.clear();
                    State::Private
                }
                (State::Private, byte @ (b'0'..=b'9' | b';')) => {
                    if self.parameters.len() < LONGEST {
                        self.parameters.push(byte);
                    }
                    State::Private
                }
                (State::Private, end @ (b'h' | b'l')) => {
                    self.set(end == b'h');
                    State::Text
                }
                _ => State::Text,
            };
        }
    }

    fn set(&mut self, on: bool) {
        let text = String::from_utf8_lossy(&self.parameters).into_owned();
        for mode in text.split(';').filter_map(|mode| mode.parse().ok()) {
            if !FOLLOWED.contains(&mode) {
                continue;
            }
            if on == ON_AT_FIRST.contains(&mode) {
                self.changed.remove(&mode);
            } else {
                self.changed.insert(mode);
            }
        }
    }

    /// Whether the program draws on the alternate screen.
    pub(crate) fn is_alternate(&self) -> bool {
        ALTERNATE.iter().any(|mode| self.changed.contains(mode))
    }

    /// Ends whatever sequence the program left open, puts its modes aside, and opens an empty
    /// alternate screen.
    pub(crate) fn put_aside(&self) -> String {
        // CAN ends a control sequence, ST a string; SI and the ASCII set undo line drawing.
        let mut text = "\u{18}\u{1b}\\\u{f}\u{1b}(B".to_owned();
        for mode in &self.changed {
            if !ALTERNATE.contains(mode) {
                text.push_str(&private(*mode, ON_AT_FIRST.contains(mode)));
            }
        }
        if self.is_alternate() {
            text.push_str("\u{1b}7");
        } else {
            text.push_str(&private(1049, true));
        }
        // Insert mode off, margins off, plain characters, nothing on the screen.
        text.push_str("\u{1b}[4l\u{1b}[r\u{1b}[0m\u{1b}[2J\u{1b}[H");
        text
    }

    /// Undoes [`ScreenModes::put_aside`]. A program on the alternate screen has to draw again.
    pub(crate) fn put_back(&self) -> String {
        let mut text = "\u{1b}[0m\u{1b}[2J\u{1b}[H".to_owned();
        if self.is_alternate() {
            text.push_str("\u{1b}8");
        } else {
            text.push_str(&private(1049, false));
        }
        for mode in &self.changed {
            if !ALTERNATE.contains(mode) {
                text.push_str(&private(*mode, !ON_AT_FIRST.contains(mode)));
            }
        }
        text
    }
}

fn private(mode: u16, on: bool) -> String {
    format!("\u{1b}[?{mode}{}", if on { 'h' } else { 'l' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_followed_through_any_cut_of_the_output() {
        let output = b"text\x1b[?1049h\x1b[?25l\x1b[?1;2004h\x1b[1;31mred\x1b[?2004l";
        for cut in 0..output.len() {
            let mut modes = ScreenModes::default();
            let (first, second) = output.split_at(cut);
            modes.follow(first);
            modes.follow(second);
            assert!(modes.is_alternate());
            assert_eq!(modes.changed, BTreeSet::from([1, 25, 1049]));
        }
    }

    #[test]
    fn what_is_put_aside_is_put_back() {
        let mut modes = ScreenModes::default();
        modes.follow(b"\x1b[?1003h\x1b[?7l");
        let aside = modes.put_aside();
        assert!(aside.starts_with("\u{18}\u{1b}\\"), "{aside:?}");
        for sequence in ["\u{1b}[?1003l", "\u{1b}[?7h", "\u{1b}[?1049h"] {
            assert!(aside.contains(sequence), "{sequence:?} in {aside:?}");
        }
        let back = modes.put_back();
        for sequence in ["\u{1b}[?1003h", "\u{1b}[?7l", "\u{1b}[?1049l"] {
            assert!(back.contains(sequence), "{sequence:?} in {back:?}");
        }
        // On the alternate screen already, leaving it would leave the program's.
        modes.follow(b"\x1b[?1049h");
        assert!(!modes.put_back().contains("1049"));
        modes.follow(b"\x1bc");
        assert!(!modes.is_alternate());
        assert!(!modes.put_aside().contains("1003"));
    }

    #[test]
    fn endless_parameters_take_no_memory_and_set_nothing() {
        let mut modes = ScreenModes::default();
        modes.follow(b"\x1b[?");
        modes.follow(&vec![b'1'; 1 << 20]);
        modes.follow(b"h");
        assert!(modes.parameters.len() <= LONGEST);
        assert_eq!(modes.changed, BTreeSet::new());
    }
}

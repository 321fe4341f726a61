//! Which modes a program has set in the user's terminal, so that Kotak can put them aside for a
//! question and put them back after it (REQ EG-9).
//!
//! A program that is asked about may want its question to be unreadable, or to be answered by
//! something else than keys. So whatever changes what keys send, or where and how text is drawn, is
//! put aside whether or not it was seen to be set: a terminal may understand more than is followed
//! here. Only what was seen is put back.

use crate::screen_colours::Colours;
use std::collections::BTreeSet;

/// Private modes (DECSET) that matter to a question: they would change what keys send (1, 9, 66,
/// 1000 to 1016, 2004, 9001), or where, how and when text is drawn (5 reversed, 6, 7, 25, 69 side
/// margins, 2026 held back). 47, 1047 and 1049 are the alternate screen.
const FOLLOWED: [u16; 24] = [
    1, 5, 6, 7, 9, 25, 47, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016,
    1047, 1049, 2004, 2026, 9001,
];
const ALTERNATE: [u16; 3] = [47, 1047, 1049];
/// Modes that are on in a fresh terminal.
const ON_AT_FIRST: [u16; 2] = [7, 25];
const WRAP: u16 = 7;
const SIDE_MARGINS: u16 = 69;
/// What a soft reset (DECSTR) of a program undoes.
const SOFT: [u16; 5] = [1, 6, 25, 66, SIDE_MARGINS];
/// Longest text of a sequence that is followed.
const LONGEST: usize = 1024;

/// Follows a program's output.
#[derive(Debug, Default)]
pub(crate) struct ScreenModes {
    state: State,
    /// What the sequence holds so far.
    text: Vec<u8>,
    /// The last byte may be the first of a control of two (C1 in UTF-8).
    is_lead: bool,
    /// Followed modes that are not as at first.
    changed: BTreeSet<u16>,
    /// Parameters of DECSTBM and DECSLRM, where they were set.
    rows: Option<String>,
    sides: Option<String>,
    /// The level of xterm's modifyOtherKeys, where it was set.
    other_keys: Option<String>,
    colours: Colours,
    /// The program chose another character set than UTF-8.
    is_not_utf8: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After `ESC %`.
    Charset,
    /// After `ESC [`.
    Control,
    /// After `ESC ]`.
    System,
}

impl ScreenModes {
    /// Looks at what is written to the terminal.
    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let was_lead = std::mem::replace(&mut self.is_lead, *byte == 0xc2);
            self.state = match *byte {
                0x9b if was_lead => self.begin(State::Control),
                0x9d if was_lead => self.begin(State::System),
                0x9c if was_lead => self.end_system(),
                0x1b => {
                    // ST begins with it too: its second byte decides.
                    if self.state != State::System {
                        self.text.clear();
                    }
                    State::Escape
                }
                // CAN and SUB end any sequence.
                0x18 | 0x1a => self.begin(State::Text),
                byte => self.next(byte),
            };
        }
    }

    fn next(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (State::Escape, b'[') => self.begin(State::Control),
            (State::Escape, b']') => self.begin(State::System),
            (State::Escape, b'\\') | (State::System, 0x07) => self.end_system(),
            (State::Escape, b'%') => State::Charset,
            (State::Escape, b'c') => {
                self.reset();
                State::Text
            }
            (State::Charset, set) => {
                self.is_not_utf8 |= set != b'G';
                State::Text
            }
            (State::Control, 0x20..=0x3f) | (State::System, _) => {
                if self.text.len() < LONGEST {
                    self.text.push(byte);
                }
                self.state
            }
            // Other controls are obeyed within a sequence and do not end it.
            (State::Control, 0x00..=0x1f | 0x7f) => State::Control,
            (State::Control, end) => {
                let text = self.taken();
                self.control(&text, end);
                State::Text
            }
            (State::Text | State::Escape, _) => State::Text,
        }
    }

    fn begin(&mut self, state: State) -> State {
        self.text.clear();
        if state == State::System {
            self.colours.may_change();
        }
        state
    }

    /// What a sequence holds; nothing of one that is too long.
    fn taken(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        if text.len() < LONGEST {
            String::from_utf8_lossy(&text).into_owned()
        } else {
            String::new()
        }
    }

    fn end_system(&mut self) -> State {
        let text = self.taken();
        self.colours.follow(&text);
        State::Text
    }

    fn control(&mut self, text: &str, end: u8) {
        match (text.chars().next(), end) {
            (Some('?'), b'h' | b'l') => self.set(text, end == b'h'),
            (Some('!'), b'p') => {
                self.changed.retain(|mode| !SOFT.contains(mode));
                (self.rows, self.sides) = (None, None);
            }
            (Some('>'), b'm') => {
                let mut numbers = text.trim_start_matches('>').split(';');
                if matches!(numbers.next(), Some("4" | "")) {
                    self.other_keys = numbers
                        .next()
                        .filter(|level| is_numbers(level))
                        .map(Into::into);
                }
            }
            (None | Some('0'..='9' | ';'), b'r') => {
                self.rows = Some(text.to_owned()).filter(|text| is_numbers(text));
            }
            (None | Some('0'..='9' | ';'), b's') if self.changed.contains(&SIDE_MARGINS) => {
                self.sides = Some(text.to_owned()).filter(|text| is_numbers(text));
            }
            _ => {}
        }
    }

    fn set(&mut self, text: &str, on: bool) {
        let modes = text.trim_start_matches('?').split(';');
        for mode in modes.filter_map(|mode| mode.parse().ok()) {
            if !FOLLOWED.contains(&mode) {
                continue;
            }
            if on == ON_AT_FIRST.contains(&mode) {
                self.changed.remove(&mode);
            } else {
                self.changed.insert(mode);
            }
            if mode == SIDE_MARGINS {
                self.sides = None;
            }
        }
    }

    /// The program reset the terminal.
    fn reset(&mut self) {
        self.changed.clear();
        (self.rows, self.sides, self.other_keys) = (None, None, None);
        self.colours.forget();
    }

    /// Whether the program draws on the alternate screen.
    pub(crate) fn is_alternate(&self) -> bool {
        ALTERNATE.iter().any(|mode| self.changed.contains(mode))
    }

    /// Ends whatever sequence the program left open, puts its modes aside, and opens an empty
    /// alternate screen.
    pub(crate) fn put_aside(&self) -> String {
        // CAN ends a control sequence, ST a string; `ESC <` leaves the VT52's own sequences.
        let mut text = "\u{18}\u{1b}\\\u{1b}<".to_owned();
        if self.is_not_utf8 {
            text.push_str("\u{1b}%G");
        }
        // First of all: it keeps the cursor, which some of the modes move.
        if self.is_alternate() {
            text.push_str("\u{1b}7");
        } else {
            text.push_str(&private(1049, true));
        }
        for mode in FOLLOWED {
            // A row that is too long after all is cut, and scrolls nothing away.
            let on = ON_AT_FIRST.contains(&mode) && mode != WRAP;
            if !ALTERNATE.contains(&mode) {
                text.push_str(&private(mode, on));
            }
        }
        text.push_str(self.colours.put_aside());
        // Keys as of old: the kitty keyboard keeps what it was on its stack; xterm does not. The
        // keyboard is not locked, inserts nothing, and is not echoed.
        text.push_str("\u{1b}[>0u\u{1b}[>4;0m\u{1b}[2l\u{1b}[4l\u{1b}[12h");
        // SI and the ASCII set undo line drawing. Margins off, plain characters that nothing keeps
        // from being erased (DECSCA), nothing on the screen.
        text.push_str("\u{f}\u{1b}(B\u{1b}[r\u{1b}[0m\u{1b}[0\"q\u{1b}[2J\u{1b}[H");
        text
    }

    /// Undoes [`ScreenModes::put_aside`]. A program on the alternate screen has to draw again.
    pub(crate) fn put_back(&self) -> String {
        // The stack of the kitty keyboard is the screen's, so before another is shown.
        let mut text = "\u{1b}[0m\u{1b}[2J\u{1b}[H\u{1b}[<u".to_owned();
        match &self.other_keys {
            Some(level) => text.push_str(&format!("\u{1b}[>4;{level}m")),
            // As the user's terminal has it by itself.
            None => text.push_str("\u{1b}[>4m"),
        }
        text.push_str(&self.colours.put_back());
        if !self.changed.contains(&WRAP) {
            text.push_str(&private(WRAP, true));
        }
        for mode in &self.changed {
            if !ALTERNATE.contains(mode) {
                text.push_str(&private(*mode, !ON_AT_FIRST.contains(mode)));
            }
        }
        for (margins, end) in [(&self.rows, 'r'), (&self.sides, 's')] {
            if let Some(margins) = margins {
                text.push_str(&format!("\u{1b}[{margins}{end}"));
            }
        }
        // Last of all: margins and modes moved the cursor.
        if self.is_alternate() {
            text.push_str("\u{1b}8");
        } else {
            text.push_str(&private(1049, false));
        }
        text
    }
}

/// Whether a text is numbers and nothing else, at least one.
fn is_numbers(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.bytes().any(|byte| byte.is_ascii_digit())
        && bytes.all(|byte| byte.is_ascii_digit() || byte == b';')
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
        for sequence in ["\u{1b}[?1003l", "\u{1b}[?1049h"] {
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
        assert!(!modes.put_back().contains("1003"));
    }

    #[test]
    fn endless_parameters_take_no_memory_and_set_nothing() {
        let mut modes = ScreenModes::default();
        modes.follow(b"\x1b[?");
        modes.follow(&vec![b'1'; 1 << 20]);
        modes.follow(b"h");
        assert!(modes.text.len() <= LONGEST);
        assert_eq!(modes.changed, BTreeSet::new());
    }

    #[test]
    fn whatever_hides_a_question_or_takes_its_keys_is_put_aside_seen_or_not() {
        let aside = ScreenModes::default().put_aside();
        for sequence in [
            // Side margins, reversed colours, drawing that is held back.
            "\u{1b}[?69l",
            "\u{1b}[?5l",
            "\u{1b}[?2026l",
            // The mouse, pasted text, keys of Windows.
            "\u{1b}[?1003l",
            "\u{1b}[?2004l",
            "\u{1b}[?9001l",
            // The kitty keyboard and xterm's other keys; the keyboard is not locked.
            "\u{1b}[>0u",
            "\u{1b}[>4;0m",
            "\u{1b}[2l",
            // Text that the program protected from being erased.
            "\u{1b}[0\"q",
            // Rows that are too long.
            "\u{1b}[?7l",
        ] {
            assert!(aside.contains(sequence), "{sequence:?} in {aside:?}");
        }
        // The cursor is kept before a mode moves it.
        assert!(aside.find("[?1049h") < aside.find("[?6l"), "{aside:?}");
        assert!(aside.ends_with("\u{1b}[2J\u{1b}[H"), "{aside:?}");
        let back = ScreenModes::default().put_back();
        for sequence in ["\u{1b}[<u", "\u{1b}[>4m", "\u{1b}[?7h"] {
            assert!(back.contains(sequence), "{sequence:?} in {back:?}");
        }
        for mode in ["?69", "?5", "?2004", "?25"] {
            assert!(!back.contains(mode), "{mode:?} in {back:?}");
        }
    }

    #[test]
    fn what_a_program_was_seen_to_set_is_put_back() {
        let mut modes = ScreenModes::default();
        // As controls of two bytes too, and with another control within a sequence.
        modes.follow(b"\x1b[?5h\xc2\x9b?69h\x1b[3;70s\x1b[2;\x0020r\x1b[>4;2m");
        modes.follow(b"\x1b]10;red\x07\x1b]4;1;blue\x1b\\");
        let aside = modes.put_aside();
        for reset in ["\u{1b}]104", "\u{1b}]110", "\u{1b}]111"] {
            assert!(aside.contains(reset), "{reset:?} in {aside:?}");
        }
        let back = modes.put_back();
        for sequence in [
            "\u{1b}[?5h",
            "\u{1b}[?69h",
            "\u{1b}[3;70s",
            "\u{1b}[2;20r",
            "\u{1b}[>4;2m",
            "\u{1b}]10;red\u{1b}\\",
            "\u{1b}]4;1;blue\u{1b}\\",
        ] {
            assert!(back.contains(sequence), "{sequence:?} in {back:?}");
        }
        // Side margins mean nothing before their mode; the cursor is put back after all of them.
        assert!(back.find("?69h") < back.find("3;70s"));
        assert!(back.ends_with("\u{1b}[?1049l"), "{back:?}");
        // A soft reset undoes margins, a whole one everything.
        modes.follow(b"\x1b[!p");
        let back = modes.put_back();
        assert!(!back.contains("?69") && !back.contains("20r"), "{back:?}");
        assert!(back.contains("?5h") && back.contains("10;red"), "{back:?}");
        modes.follow(b"\x1bc");
        assert_eq!(modes.put_back(), ScreenModes::default().put_back());
    }

    #[test]
    fn another_character_set_and_an_open_sequence_do_not_garble_a_question() {
        let mut modes = ScreenModes::default();
        assert!(!modes.put_aside().contains("%G"));
        modes.follow(b"\x1b%@\x1b]11;white");
        let aside = modes.put_aside();
        assert!(aside.starts_with("\u{18}\u{1b}\\"), "{aside:?}");
        assert!(aside.contains("\u{1b}%G"), "{aside:?}");
        assert!(aside.contains("\u{1b}]111"), "{aside:?}");
        // What was never ended was never set.
        assert!(!modes.put_back().contains("white"));
    }
}

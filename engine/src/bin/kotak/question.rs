//! A question in the terminal, as text and keys. Pure.

use crate::layout::{self, Part};
use crate::text::printable;
use kotak_engine::api::{Answer, AnswerScope, HostHistory, Prompt};
use kotak_engine::egress::ask::READING_MS;
use std::time::{Duration, Instant};

/// What a key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// An answer, with the scope that is chosen.
    Answer(Answer),
    /// Another scope.
    Scope(usize),
}

/// What a key means for a question. Keys that mean nothing do nothing; there is no key that a
/// line of text holds by chance and that allows: a burst of more than one byte is no answer.
pub(crate) fn key(bytes: &[u8], prompt: &Prompt) -> Option<Key> {
    let [byte] = bytes else { return None };
    Some(match byte {
        // Ctrl-C and Ctrl-D are what a person presses to get away.
        b'd' | 0x03 | 0x04 => Key::Answer(Answer::Deny),
        b'D' => Key::Answer(Answer::DenySession),
        b'o' => Key::Answer(Answer::AllowOnce),
        b's' => Key::Answer(Answer::AllowSession),
        b'w' => Key::Answer(Answer::AllowWorkspace),
        digit @ b'1'..=b'9' => {
            let place = usize::from(digit - b'1');
            prompt.words.get(place)?;
            Key::Scope(place)
        }
        _ => return None,
    })
}

/// The scope at a place, the exact host and port where there is none.
pub(crate) fn scope(prompt: &Prompt, place: usize) -> AnswerScope {
    prompt
        .words
        .get(place)
        .map_or(AnswerScope::HostPort, |words| words.scope)
}

/// A question that stands on the screen, and what its user chose so far.
#[derive(Debug)]
pub(crate) struct Standing {
    drawn: Instant,
    chosen: usize,
    /// Whether all that an answer needs is in sight.
    whole: bool,
}

impl Standing {
    /// Drawn just now.
    pub(crate) fn new(drawn: Instant, whole: bool) -> Self {
        Self {
            drawn,
            chosen: 0,
            whole,
        }
    }

    /// Drawn again.
    pub(crate) fn drawn_again(&mut self, whole: bool) {
        self.whole = whole;
    }

    /// The place of the scope that is chosen.
    pub(crate) fn chosen(&self) -> usize {
        self.chosen
    }

    /// The answer of a key that was read then. One that was read before the question could be is
    /// thrown away: a key that repeats would answer the next question as it appears (REQ EG-9).
    pub(crate) fn press(&mut self, at: Instant, bytes: &[u8], prompt: &Prompt) -> Option<Answer> {
        if at.saturating_duration_since(self.drawn) < READING {
            return None;
        }
        match key(bytes, prompt)? {
            Key::Answer(answer) => (self.whole || answer == Answer::Deny).then_some(answer),
            Key::Scope(place) => {
                self.chosen = place;
                None
            }
        }
    }
}

/// How long a question stands before a key counts.
const READING: Duration = Duration::from_millis(READING_MS);
/// Fewer columns show nothing to decide by.
const LEAST_COLUMNS: usize = 32;
/// Columns of a program's name, which its maker chose: it must not push the host out of sight.
const NAME_COLUMNS: usize = 32;

/// What may be said of a question beside the question itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    /// The place of the scope that is chosen.
    pub(crate) chosen: usize,
    /// Until it denies by itself.
    pub(crate) seconds_left: u64,
    /// Questions behind it.
    pub(crate) more: u32,
}

/// The question, for a screen of so many columns and rows, and whether all of it that an answer
/// needs is in sight. The host always is, whole; of patterns at least the end (REQ EG-9).
pub(crate) fn draw(prompt: &Prompt, around: Around, (columns, rows): (u16, u16)) -> (String, bool) {
    // A row that fills the last column loses it to the clearing of the row's rest.
    let width = usize::from(columns).saturating_sub(1);
    let height = usize::from(rows);
    let page = (width >= LEAST_COLUMNS)
        .then(|| layout::fit(parts(prompt, around, width), height))
        .flatten();
    let whole = page.is_some();
    let page = page.unwrap_or_else(|| {
        let mut small: Vec<_> = [
            "kotak asks; this window is too small.",
            "Make it larger, or press d to deny.",
        ]
        .map(|row| layout::start(row, width))
        .into();
        small.push(layout::end(&target(prompt), width));
        small.truncate(height);
        small
    });
    // A row of double width, which a program may have left (DECDWL), would hide its right half.
    let page: Vec<_> = page
        .iter()
        .map(|row| format!("\u{1b}#5{row}\u{1b}[K"))
        .collect();
    // No line feed after the last row: it would scroll the first one away.
    (format!("\u{1b}[H{}\u{1b}[J", page.join("\r\n")), whole)
}

fn target(prompt: &Prompt) -> String {
    let host = printable(&prompt.host);
    if host.contains(':') {
        format!("[{host}]:{}", prompt.port)
    } else {
        format!("{host}:{}", prompt.port)
    }
}

/// In the order in which they stand; ranks say in which order they go when rows are few.
fn parts(prompt: &Prompt, around: Around, width: usize) -> Vec<Part> {
    let gap = || Part::line(9, "", width);
    let who = prompt
        .process
        .as_ref()
        .map_or("A program", |actor| actor.name.as_str());
    let who = layout::start(&printable(who), NAME_COLUMNS);
    let mut parts = vec![
        Part::line(
            1,
            "kotak asks. Everything in the session stands still until you answer.",
            width,
        ),
        gap(),
        Part::whole(&format!("{who} wants to reach "), &target(prompt), width),
    ];
    if let Some(unicode) = &prompt.unicode {
        parts.push(Part::named("  which reads: ", &printable(unicode), width));
    }
    parts.push(gap());
    if let Some(actor) = &prompt.process {
        let command = format!("  command    {}", printable(&actor.command));
        parts.push(Part::line(4, &command, width));
        if let Some(cwd) = &actor.cwd {
            let cwd = format!("  in         {}", printable(cwd));
            parts.push(Part::line(6, &cwd, width));
        }
        if !actor.parents.is_empty() {
            let parents: Vec<_> = actor.parents.iter().map(|name| printable(name)).collect();
            let parents = format!("  started by {}", parents.join(" ← "));
            parts.push(Part::line(7, &parents, width));
        }
    }
    let session = format!(
        "  session    {} in {}",
        printable(&prompt.session_title),
        printable(&prompt.workspace)
    );
    parts.push(Part::line(3, &session, width));
    let attempts = format!("  attempts   {} wait on this answer", prompt.attempts);
    parts.push(Part::line(5, &attempts, width));
    let history = format!("  history    {}", history_words(prompt.history));
    parts.push(Part::line(5, &history, width));
    if around.more > 0 {
        let more = format!("  after it   {} more", around.more);
        parts.push(Part::line(8, &more, width));
    }
    parts.push(gap());
    parts.push(keys(width));
    parts.push(gap());
    for (place, words) in prompt.words.iter().enumerate() {
        let mark = if place == around.chosen { '>' } else { ' ' };
        let label = format!("{mark} {} ", place + 1);
        parts.push(Part::named(&label, &printable(&words.pattern), width));
    }
    parts.push(gap());
    let left = format!("  denied in {} s", around.seconds_left);
    parts.push(Part::line(2, &left, width));
    parts
}

/// What was read of earlier connections, and no more: the history is bounded.
fn history_words(history: HostHistory) -> &'static str {
    match history {
        HostHistory::Allowed => "the host was allowed before",
        HostHistory::NoneAllowed => "no allowed connection to the host in it",
        HostHistory::Unknown => "not read",
    }
}

/// The keys, side by side where there is room.
fn keys(width: usize) -> Part {
    let rows = [
        "  d deny      D deny for the session",
        "  o once      s for the session      w always in this workspace",
    ];
    if rows.iter().all(|row| layout::columns(row) <= width) {
        return Part::rows(0, rows.map(str::to_owned).into());
    }
    let rows = [
        "  d deny   D deny for the session",
        "  o once   s for the session",
        "  w always in this workspace",
    ];
    Part::rows(0, rows.map(|row| layout::start(row, width)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kotak_engine::api::{Actor, PromptState, ScopeWords};

    fn prompt() -> Prompt {
        Prompt {
            id: "p".to_owned(),
            session_id: "s".to_owned(),
            session_title: "sh".to_owned(),
            workspace: "/w".to_owned(),
            backend: None,
            host: "xn--bcher-kva.example".to_owned(),
            unicode: Some("b\u{fc}cher.example".to_owned()),
            port: 443,
            parent: None,
            process: Some(Actor {
                pid: 7,
                name: "cu\u{1b}[2Jrl".to_owned(),
                executable: None,
                command: format!("curl \u{202e}{}", "x".repeat(500)),
                cwd: Some("/w".to_owned()),
                parents: vec!["sh".to_owned()],
            }),
            address: None,
            first_ms: 0,
            attempts: 3,
            history: HostHistory::Unknown,
            state: PromptState::Waiting,
            deadline_ms: Some(1),
            countdown_ms: 60_000,
            words: vec![
                ScopeWords {
                    scope: AnswerScope::HostPort,
                    pattern: "xn--bcher-kva.example:443".to_owned(),
                },
                ScopeWords {
                    scope: AnswerScope::Host,
                    pattern: "xn--bcher-kva.example".to_owned(),
                },
            ],
        }
    }

    #[test]
    fn a_question_says_all_and_obeys_nothing_that_it_shows() {
        let (text, whole) = draw(&prompt(), AROUND, (80, 24));
        assert!(whole);
        for wanted in [
            "cu\\u{1b}[2Jrl wants to reach xn--bcher-kva.example:443",
            "which reads: b\u{fc}cher.example",
            "curl \\u{202e}",
            "started by sh",
            "3 wait on this answer",
            "history    not read",
            "2 more",
            "> 2 xn--bcher-kva.example",
            "  1 xn--bcher-kva.example:443",
            "denied in 42 s",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in {text:?}");
        }
        assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{202e}'));
    }

    const AROUND: Around = Around {
        chosen: 1,
        seconds_left: 42,
        more: 2,
    };

    /// The rows of a page as a screen shows them.
    fn rows(text: &str) -> Vec<String> {
        let text = text.replace("\u{1b}[H", "").replace("\u{1b}[J", "");
        let rows = text.split("\r\n");
        rows.map(|row| {
            let single = row.strip_prefix("\u{1b}#5").expect("a row of single width");
            single.replace("\u{1b}[K", "")
        })
        .collect()
    }

    fn long_prompt() -> Prompt {
        let labels = ["a", "b", "c"].map(|letter| letter.repeat(60)).join(".");
        let host = format!("accounts.google.com.{labels}.evil.net");
        let pattern = |scope, pattern: String| ScopeWords { scope, pattern };
        let parent = host.replacen("accounts", "*", 1);
        Prompt {
            unicode: Some(host.replace('a', "漢")),
            words: vec![
                pattern(AnswerScope::HostPort, format!("{host}:8443")),
                pattern(AnswerScope::Host, host.clone()),
                pattern(AnswerScope::Parent, parent),
            ],
            host,
            port: 8443,
            ..prompt()
        }
    }

    #[test]
    fn a_long_host_stands_whole_and_every_pattern_shows_its_end() {
        let prompt = long_prompt();
        let mut shown = 0;
        for columns in [20, 33, 40, 60, 80, 132, 400] {
            for height in [1, 3, 8, 10, 12, 14, 16, 24, 50] {
                let (text, whole) = draw(&prompt, AROUND, (columns, height));
                let rows = rows(&text);
                // Nothing that the screen would wrap or scroll.
                assert!(rows.len() <= usize::from(height), "{rows:?}");
                for row in &rows {
                    assert!(layout::columns(row) < usize::from(columns), "{row:?}");
                }
                if !whole {
                    continue;
                }
                shown += 1;
                let page: String = rows.iter().map(|row| row.trim_start()).collect();
                assert!(page.contains(&format!("{}:8443", prompt.host)), "{page}");
                // The host, how it reads, and the patterns.
                assert_eq!(page.matches(".evil.net").count(), 5, "{page}");
                assert_eq!(page.matches(".evil.net:8443").count(), 2, "{page}");
            }
        }
        assert!(shown > 20, "{shown}");
        assert!(draw(&prompt, AROUND, (80, 24)).1);
    }

    #[test]
    fn a_name_that_a_program_chose_does_not_push_its_host_away() {
        let mut prompt = prompt();
        if let Some(actor) = &mut prompt.process {
            actor.name = "\u{1f480}curl wants to reach good.example:443".repeat(9);
        }
        let (text, whole) = draw(&prompt, AROUND, (80, 24));
        assert!(
            whole && text.contains("xn--bcher-kva.example:443"),
            "{text:?}"
        );
        assert!(!text.contains("good.example"), "{text:?}");
    }

    #[test]
    fn in_a_window_too_small_to_read_nothing_is_allowed() {
        let (_, whole) = draw(&long_prompt(), AROUND, (80, 6));
        assert!(!whole);
        let drawn = Instant::now();
        let mut standing = Standing::new(drawn, whole);
        let later = drawn + READING;
        for key in [b"o", b"s", b"w", b"D"] {
            assert_eq!(standing.press(later, key, &prompt()), None);
        }
        assert_eq!(standing.press(later, b"d", &prompt()), Some(Answer::Deny));
        standing.drawn_again(true);
        assert_eq!(
            standing.press(later, b"o", &prompt()),
            Some(Answer::AllowOnce)
        );
    }

    #[test]
    fn each_question_is_read_before_a_key_that_repeats_answers_it() {
        let prompt = prompt();
        let began = Instant::now();
        let mut standing = Standing::new(began, true);
        let mut answered = Vec::new();
        // A key that is held down, thirty-three times a second.
        for press in 0..60 {
            let at = began + Duration::from_millis(30) * press;
            if standing.press(at, b"w", &prompt).is_some() {
                answered.push(at - began);
                // The next question is drawn as soon as this one is answered.
                standing = Standing::new(at, true);
            }
        }
        assert_eq!(
            answered,
            [510, 1020, 1530].map(Duration::from_millis),
            "a question was answered unread"
        );
        // Nor does a scope that was chosen unread stay chosen.
        assert_eq!(standing.press(began, b"2", &prompt), None);
        assert_eq!(standing.chosen(), 0);
    }

    #[test]
    fn of_the_history_only_what_was_read_is_said() {
        for (history, words) in [
            (HostHistory::Unknown, "history    not read"),
            (HostHistory::NoneAllowed, "no allowed connection"),
            (HostHistory::Allowed, "was allowed before"),
        ] {
            let prompt = Prompt {
                history,
                ..prompt()
            };
            let (text, _) = draw(&prompt, AROUND, (80, 24));
            assert!(text.contains(words), "{text:?}");
            assert!(!text.contains("never"), "{text:?}");
        }
    }

    #[test]
    fn only_single_keys_are_answers() {
        let prompt = prompt();
        for (bytes, meaning) in [
            (&b"d"[..], Some(Key::Answer(Answer::Deny))),
            (b"\x03", Some(Key::Answer(Answer::Deny))),
            (b"D", Some(Key::Answer(Answer::DenySession))),
            (b"o", Some(Key::Answer(Answer::AllowOnce))),
            (b"s", Some(Key::Answer(Answer::AllowSession))),
            (b"w", Some(Key::Answer(Answer::AllowWorkspace))),
            (b"2", Some(Key::Scope(1))),
            (b"3", None),
            (b"\r", None),
            (b"y", None),
            (b"ow", None),
            (b"\x1b[A", None),
            (b"", None),
        ] {
            assert_eq!(key(bytes, &prompt), meaning, "{bytes:?}");
        }
        assert_eq!(scope(&prompt, 1), AnswerScope::Host);
        assert_eq!(scope(&prompt, 9), AnswerScope::HostPort);
    }
}

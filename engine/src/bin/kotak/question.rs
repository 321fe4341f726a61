//! A question in the terminal, as text and keys. Pure.

use crate::text::printable;
use kotak_engine::api::{Answer, AnswerScope, Prompt};

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

/// The question, for a screen of so many columns and rows.
pub(crate) fn draw(
    prompt: &Prompt,
    chosen: usize,
    seconds_left: u64,
    more: u32,
    (columns, rows): (u16, u16),
) -> String {
    let mut lines = vec![
        "kotak asks. Everything in the session stands still until you answer.".to_owned(),
        String::new(),
    ];
    let who = prompt
        .process
        .as_ref()
        .map_or("A program", |actor| actor.name.as_str());
    lines.push(format!(
        "{} wants to reach {}:{}",
        printable(who),
        printable(&prompt.host),
        prompt.port
    ));
    if let Some(unicode) = &prompt.unicode {
        lines.push(format!("  which reads: {}", printable(unicode)));
    }
    lines.push(String::new());
    if let Some(actor) = &prompt.process {
        lines.push(format!("  command    {}", printable(&actor.command)));
        if let Some(cwd) = &actor.cwd {
            lines.push(format!("  in         {}", printable(cwd)));
        }
        if !actor.parents.is_empty() {
            let parents: Vec<_> = actor.parents.iter().map(|name| printable(name)).collect();
            lines.push(format!("  started by {}", parents.join(" ← ")));
        }
    }
    lines.push(format!(
        "  session    {} in {}",
        printable(&prompt.session_title),
        printable(&prompt.workspace)
    ));
    lines.push(format!(
        "  attempts   {} wait on this answer; the host was {} before",
        prompt.attempts,
        if prompt.allowed_before {
            "allowed"
        } else {
            "never allowed"
        }
    ));
    if more > 0 {
        lines.push(format!("  after it   {more} more"));
    }
    lines.push(String::new());
    lines.push("  d deny      D deny for the session".to_owned());
    lines.push("  o once      s for the session      w always in this workspace".to_owned());
    lines.push(String::new());
    for (place, words) in prompt.words.iter().enumerate() {
        let mark = if place == chosen { '>' } else { ' ' };
        lines.push(format!(
            "{mark} {} {}",
            place + 1,
            printable(&words.pattern)
        ));
    }
    lines.push(String::new());
    lines.push(format!("  denied in {seconds_left} s"));
    let width = usize::from(columns).max(20);
    let mut text = "\u{1b}[H".to_owned();
    for line in lines.iter().take(usize::from(rows).max(10)) {
        // A longer line would push the answers off the screen.
        let cut: String = line.chars().take(width - 1).collect();
        text.push_str(&cut);
        text.push_str("\u{1b}[K\r\n");
    }
    text.push_str("\u{1b}[J");
    text
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
            allowed_before: false,
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
        let text = draw(&prompt(), 1, 42, 2, (80, 24));
        for wanted in [
            "cu\\u{1b}[2Jrl wants to reach xn--bcher-kva.example:443",
            "which reads: b\u{fc}cher.example",
            "curl \\u{202e}",
            "started by sh",
            "3 wait on this answer",
            "never allowed",
            "2 more",
            "> 2 xn--bcher-kva.example",
            "  1 xn--bcher-kva.example:443",
            "denied in 42 s",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in {text:?}");
        }
        assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{202e}'));
        for line in text.split("\r\n") {
            assert!(line.chars().count() < 90, "{line:?}");
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

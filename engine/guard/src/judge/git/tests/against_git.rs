//! Our reading of the syntax beside that of the installed git.

use super::super::{config, parse};
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

/// A name, and the value where there is one.
type Listed = (Vec<u8>, Option<Vec<u8>>);

/// What git reads in `text`: names and values, or nothing when it gives up.
fn listed(text: &[u8]) -> Option<Vec<Listed>> {
    let mut child = Command::new("git")
        .args(["config", "--list", "--null", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("git");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text)
        .expect("git reads");
    let output = child.wait_with_output().expect("git ends");
    output.status.success().then(|| {
        let entries = output.stdout.split(|byte| *byte == 0);
        entries
            .filter(|entry| !entry.is_empty())
            .map(|entry| match entry.iter().position(|byte| *byte == b'\n') {
                Some(at) => (entry[..at].to_vec(), Some(entry[at + 1..].to_vec())),
                None => (entry.to_vec(), None),
            })
            .collect()
    })
}

fn ours(settings: &[parse::Setting]) -> Vec<Listed> {
    settings
        .iter()
        .map(|setting| {
            let sub = setting
                .subsection
                .iter()
                .flat_map(|sub| [&b"."[..], sub].concat());
            let mut name = setting.section.clone().into_bytes();
            name.extend(sub);
            name.push(b'.');
            name.extend(setting.key.as_bytes());
            (name, setting.value.clone())
        })
        .collect()
}

fn no_git() -> bool {
    let missing = Command::new("git").arg("--version").output().is_err();
    if missing {
        println!("kotak-skip: git is not installed, so its reading is not compared");
    }
    missing
}

/// Pieces of which configurations and what is nearly one are made.
fn piece() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "[core]",
        "[core]\n",
        "[remote \"o\"]\n",
        "[remote \"a\\\"b\\\\\"]",
        "[Branch \"X.y\"]\n",
        "[user]\n",
        "bare",
        "url",
        "name",
        " = ",
        "=",
        "true",
        "false",
        "x y",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "\\\n",
        "\\\r\n",
        "\\n",
        "\\t",
        "\\b",
        "\\\\",
        "\\\"",
        "\"",
        "#",
        ";",
        "[",
        "]",
        "\\",
        "hooksPath",
        "\u{feff}",
        "\u{e9}",
        "\u{b}",
        "'",
        "!sh",
        "[core.x]\n",
        "a-1",
        "/",
        ":",
        "\n\tbare = true\n",
        "\n\tname = a b  # c\n",
        "\n\turl = https://h/x\n",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn git_reads_what_we_read(pieces in proptest::collection::vec(piece(), 0..14), settled in any::<bool>()) {
        if no_git() {
            return Ok(());
        }
        let mut text = if settled { "[user]\n\tname = ".to_owned() } else { String::new() };
        text.extend(pieces);
        if let Ok(settings) = parse::settings(text.as_bytes()) {
            prop_assert_eq!(Some(ours(&settings)), listed(text.as_bytes()), "{:?}", text);
        } else {
            prop_assert!(config(text.as_bytes()).is_err());
        }
    }
}

#[test]
fn git_gives_up_or_reads_the_same_on_plain_files() {
    if no_git() {
        return;
    }
    for text in [
        "[core]\n\tbare = true\n\tfilemode\n[remote \"A.b\"]\nurl=x # c\n",
        "\u{feff}[user]\r\n\tname = \"a  b\"  \r\n",
        "[user]\n\tname = a \\\n\t b\n\tname = x",
        "[branch \"\"]\n\tmerge = x\n",
    ] {
        let settings = parse::settings(text.as_bytes()).expect(text);
        assert_eq!(Some(ours(&settings)), listed(text.as_bytes()), "{text:?}");
        assert!(!settings.is_empty());
    }
}

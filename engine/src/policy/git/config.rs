//! Git configuration: its settings, and which of them make git run a program.

use crate::spec::AbsPath;

/// A path of a file, or a directory of files, that git runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    /// As written.
    path: Vec<u8>,
    /// The setting names it alone or first; a later word may be no path at all.
    pub(super) sure: bool,
}

impl Program {
    /// Where it is whatever the work tree.
    pub(super) fn absolute(&self, home: &AbsPath) -> Option<AbsPath> {
        match self.path.strip_prefix(b"~/") {
            Some(below) => Some(home.join(below)),
            None if self.sure => AbsPath::new(&self.path).ok(),
            None => None,
        }
    }

    /// Where it is in a work tree, when the path is relative.
    pub(super) fn below(&self, tree: &AbsPath) -> Option<AbsPath> {
        let absolute = self.path.starts_with(b"~/");
        (!absolute).then(|| tree.join(&self.path))
    }
}

/// What a setting makes git run, by path; a name without a slash is looked up on `PATH`.
pub(super) fn run_by(section: &str, key: &str, value: &[u8]) -> Vec<Program> {
    let one = |path: &[u8]| Program {
        path: path.to_vec(),
        sure: true,
    };
    let runs = matches!(
        (section, key),
        (
            "core",
            "fsmonitor"
                | "sshcommand"
                | "editor"
                | "pager"
                | "askpass"
                | "gitproxy"
                | "alternaterefscommand"
        ) | ("credential", "helper")
            | ("diff", "external" | "textconv" | "command")
            | ("difftool" | "mergetool" | "man" | "browser", "cmd" | "path")
            | ("merge", "driver")
            | ("filter", "clean" | "smudge" | "process")
            | ("gpg", "program" | "defaultkeycommand")
            | ("sequence", "editor")
            | ("interactive", "difffilter")
            | ("uploadpack", "packobjectshook")
            | (
                "sendemail",
                "smtpserver" | "sendmailcmd" | "tocmd" | "cccmd"
            )
            | ("trailer", "command" | "cmd")
            | ("remote", "uploadpack" | "receivepack")
            | ("alias" | "pager", _)
    );
    match (section, key) {
        ("core", "hookspath") if !value.is_empty() => vec![one(value)],
        _ if !runs => Vec::new(),
        _ => {
            let command = value.strip_prefix(b"!").unwrap_or(value).trim_ascii();
            let words = command.split(u8::is_ascii_whitespace).enumerate();
            let mut found: Vec<Program> = words
                .map(|(index, word)| (index, word.trim_ascii()))
                .map(|(index, word)| {
                    let quote = |byte: &u8| matches!(byte, b'\'' | b'"');
                    let bare: Vec<u8> = word.iter().copied().filter(|byte| !quote(byte)).collect();
                    (index, bare)
                })
                .filter(|(_, word)| word.contains(&b'/'))
                .map(|(index, word)| Program {
                    path: word,
                    sure: index == 0,
                })
                .collect();
            if command.contains(&b'/') && command.contains(&b' ') {
                // A path with a space in it.
                found.push(Program {
                    path: command.to_vec(),
                    sure: false,
                });
            }
            found
        }
    }
}

/// The settings of a git configuration: section and key in lower case, subsections dropped.
pub(super) fn settings(text: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"[") {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                continue;
            };
            let name = rest.get(..end).unwrap_or_default();
            let name = name
                .split(|byte| matches!(byte, b' ' | b'"' | b'\t' | b'.'))
                .next();
            section = String::from_utf8_lossy(name.unwrap_or_default()).to_lowercase();
            line = rest.get(end + 1..).unwrap_or_default().trim_ascii();
        }
        if matches!(line.first(), None | Some(b'#' | b';')) {
            continue;
        }
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let key = line.get(..equals).unwrap_or_default().trim_ascii();
        let value = line.get(equals + 1..).unwrap_or_default().trim_ascii();
        let key = String::from_utf8_lossy(key).to_lowercase();
        found.push((section.clone(), key, unquoted(value)));
    }
    found
}

/// A value without its quotes, escapes and comment.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut quoted = false;
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => break,
            b'\\' => out.extend(bytes.next()),
            other => out.push(other),
        }
    }
    out.trim_ascii().to_vec()
}

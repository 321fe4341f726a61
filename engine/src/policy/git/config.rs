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
    pub(super) fn absolute(&self, homes: &Homes<'_>) -> Option<AbsPath> {
        match self.path.first() {
            Some(b'~') => homes.expand(&self.path),
            Some(b'/') if self.sure => AbsPath::new(&self.path).ok(),
            Some(_) | None => None,
        }
    }

    /// As written, when it is looked for in each work tree.
    pub(super) fn relative(&self) -> Option<&[u8]> {
        (!matches!(self.path.first(), Some(b'~' | b'/') | None)).then_some(self.path.as_slice())
    }

    /// The one name that it is in every work tree, when that can be held wherever it is met: of a
    /// hidden folder or file, since others may well have a name such as `hooks`, and not git's own.
    pub(super) fn hidden_name(&self) -> Option<&[u8]> {
        let path = self.relative().filter(|_| self.sure)?;
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !matches!(*name, b"" | b"."));
        let name = names.next()?;
        let alone = names.next().is_none();
        let hidden = name.starts_with(b".") && name != b".." && !name.contains(&0);
        (alone && hidden && !name.eq_ignore_ascii_case(b".git")).then_some(name)
    }

    /// Where it is in a work tree, when the path is relative.
    pub(super) fn below(&self, tree: &AbsPath) -> Option<AbsPath> {
        let absolute = matches!(self.path.first(), Some(b'~'));
        (!absolute).then(|| tree.join(&self.path))
    }
}

/// Home directories by name, for `~/` and `~user/`.
pub(super) struct Homes<'a> {
    /// The user's own.
    pub(super) own: &'a AbsPath,
    /// The text of the user database (passwd(5)).
    pub(super) passwd: Vec<u8>,
}

impl Homes<'_> {
    /// A path that begins with `~`, as git and shells expand it.
    pub(super) fn expand(&self, path: &[u8]) -> Option<AbsPath> {
        let named = path.strip_prefix(b"~")?;
        let end = named.iter().position(|byte| *byte == b'/');
        let (user, below) = named.split_at(end.unwrap_or(named.len()));
        let below = below.strip_prefix(b"/").unwrap_or_default();
        if user.is_empty() {
            return Some(self.own.join(below));
        }
        let mut lines = self.passwd.split(|byte| *byte == b'\n');
        let listed = lines.find_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            (fields.next() == Some(user)).then(|| AbsPath::new(fields.nth(4)?).ok())?
        });
        // Not every user database is a file; homes are named after their users.
        let own = self.own.file_name() == Some(user);
        let home = listed.or_else(|| own.then(|| self.own.clone()))?;
        Some(home.join(below))
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
            | ("submodule", "update")
            | ("guitool" | "hook", "cmd" | "command")
            | ("gc", "recentobjectshook")
            | ("tar", "command")
            | ("imap", "tunnel")
            | ("lfs", "path")
            | ("alias" | "pager", _)
    );
    match (section, key) {
        // Hooks of a template are copied into every repository that is made.
        ("core", "hookspath") | ("init", "templatedir") if !value.is_empty() => {
            vec![one(value.strip_prefix(b":(optional)").unwrap_or(value))]
        }
        _ if !runs => Vec::new(),
        _ => {
            let command = value.strip_prefix(b"!").unwrap_or(value).trim_ascii();
            let mut found: Vec<Program> = words(command)
                .into_iter()
                .enumerate()
                .filter(|(_, word)| word.contains(&b'/'))
                .map(|(index, word)| {
                    let path = substituted(&word);
                    Program {
                        sure: index == 0 && path == word,
                        path,
                    }
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

/// The settings of a git configuration, read as git reads them (git-config(1), "Syntax"): section
/// and key in lower case, subsections dropped. Where git gives a file up, the rest of it is read
/// all the same: too much is protected rather than too little.
pub(super) fn settings(text: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut input = Input(text);
    let mut section = String::new();
    let mut found = Vec::new();
    while let Some(byte) = input.next() {
        match byte {
            b'#' | b';' => input.skip_line(),
            b'[' => section = input.section(),
            byte if byte.is_ascii_alphabetic() => {
                let key = input.key(byte);
                if let Some(value) = input.value() {
                    found.push((section.clone(), key, value));
                }
            }
            _ => {}
        }
    }
    found
}

/// What is left of a configuration.
struct Input<'a>(&'a [u8]);

impl Iterator for Input<'_> {
    type Item = u8;

    /// The next byte; the two that end a line on other systems are one.
    fn next(&mut self) -> Option<u8> {
        if self.0.starts_with(b"\r\n") {
            self.0 = self.0.get(1..)?;
        }
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

impl Input<'_> {
    fn skip_line(&mut self) {
        self.find(|byte| *byte == b'\n');
    }

    /// A heading after its `[`: `section.sub]`, or `section "any sub]"]`. The name up to its end.
    fn section(&mut self) -> String {
        let mut name = Vec::new();
        let mut named = true;
        let mut quoted = false;
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => break,
                b'"' => quoted = !quoted,
                b'\\' if quoted => {
                    self.next();
                }
                b']' if !quoted => break,
                _ => {}
            }
            named &= byte.is_ascii_alphanumeric() || byte == b'-';
            if named {
                name.push(byte);
            }
        }
        String::from_utf8_lossy(&name).to_lowercase()
    }

    /// A key whose first byte was read.
    fn key(&mut self, first: u8) -> String {
        let mut key = vec![first];
        while let Some(byte) = self.0.first().copied()
            && (byte.is_ascii_alphanumeric() || byte == b'-')
        {
            key.push(byte);
            self.next();
        }
        String::from_utf8_lossy(&key).to_lowercase()
    }

    /// A value, with its quotes, escapes, continued lines and comment resolved; none for a key
    /// without one.
    fn value(&mut self) -> Option<Vec<u8>> {
        while matches!(self.0.first(), Some(b' ' | b'\t')) {
            self.next();
        }
        if self.0.first() != Some(&b'=') {
            self.skip_line();
            return None;
        }
        self.next();
        let mut value = Vec::new();
        // White space at the end counts only within quotes.
        let mut length = 0;
        let mut quoted = false;
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => break,
                b'#' | b';' if !quoted => {
                    self.skip_line();
                    break;
                }
                byte if byte.is_ascii_whitespace() && !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'"' => quoted = !quoted,
                b'\\' => match self.next() {
                    None => break,
                    Some(b'\n') => continue,
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(0x08),
                    Some(other) => value.push(other),
                },
                other => value.push(other),
            }
            length = value.len();
        }
        value.truncate(length);
        Some(value)
    }
}

/// The words of a shell's command line, without their quotes; a command after `;`, `|` or `&` is
/// words too.
fn words(command: &[u8]) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let mut quote = None;
    let mut depth = 0_usize;
    let mut bytes = command.iter().copied();
    while let Some(byte) = bytes.next() {
        let Some(word) = words.last_mut() else { break };
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(b'\''), byte) => word.push(byte),
            (None, b'\'' | b'"') => quote = Some(byte),
            (_, b'\\') => word.extend(bytes.next()),
            // A substitution is one word with what stands around it.
            (_, b'(') => {
                depth += 1;
                word.push(byte);
            }
            (_, b')') if depth > 0 => {
                depth -= 1;
                word.push(byte);
            }
            (None, b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' | b')')
                if depth == 0 =>
            {
                words.push(Vec::new());
            }
            (_, byte) => word.push(byte),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A word without the variable or substitution that it begins with: that is the user's home
/// directory, or with the more likelihood the work tree.
fn substituted(word: &[u8]) -> Vec<u8> {
    let home = [b"$HOME/".as_slice(), b"${HOME}/"];
    if let Some(below) = home.iter().find_map(|home| word.strip_prefix(*home)) {
        return [b"~/", below].concat();
    }
    let end = match word {
        [b'$', b'(', ..] => word.iter().rposition(|byte| *byte == b')'),
        [b'$', b'{', ..] => word.iter().position(|byte| *byte == b'}'),
        [b'$', ..] => word.iter().position(|byte| *byte == b'/').map(|at| at - 1),
        _ => None,
    };
    match end.and_then(|end| word.get(end + 1..)) {
        Some([b'/', below @ ..]) => below.to_vec(),
        Some(_) | None => word.to_vec(),
    }
}

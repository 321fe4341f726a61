//! The syntax of git configuration (git-config(1), "Syntax"), read as git 2.47 reads it, and more
//! strictly where git's readers do not all agree.

use super::MAX_CONFIG_BYTES;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// In lower case.
    pub(super) section: String,
    /// As written, escapes resolved.
    pub(super) subsection: Option<Vec<u8>>,
    /// In lower case.
    pub(super) key: String,
    /// Quotes, escapes and continued lines resolved; none for a key without `=`.
    pub(super) value: Option<Vec<u8>>,
}

impl Setting {
    /// `section.subsection.key`, for people.
    pub(super) fn name(&self) -> String {
        let Self { section, key, .. } = self;
        match &self.subsection {
            Some(sub) => format!("{section}.{}.{key}", String::from_utf8_lossy(sub)),
            None => format!("{section}.{key}"),
        }
    }
}

/// All settings in order.
///
/// # Errors
/// What does not parse, with its line.
pub(super) fn settings(bytes: &[u8]) -> Result<Vec<Setting>, String> {
    if bytes.len() > MAX_CONFIG_BYTES {
        return Err(format!("it is longer than {MAX_CONFIG_BYTES} bytes"));
    }
    // Git skips the mark of UTF-8.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut input = Input {
        rest: text,
        line: 1,
    };
    let found = input.settings();
    found.map_err(|what| format!("line {} does not parse: {what}", input.line))
}

/// What is left to read.
struct Input<'a> {
    rest: &'a [u8],
    line: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        match self.rest {
            [b'\r', b'\n', ..] => Some(b'\n'),
            rest => rest.first().copied(),
        }
    }

    /// The next byte; CR LF is one, and the end of the file none. Control characters end strings
    /// in some readers and are white space in others, so none is read.
    fn next(&mut self) -> Parsed<Option<u8>> {
        let (byte, rest) = match self.rest {
            [] => return Ok(None),
            [b'\r', b'\n', rest @ ..] => (b'\n', rest),
            [byte, rest @ ..] => (*byte, rest),
        };
        if byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n') {
            return Err("a control character");
        }
        self.rest = rest;
        self.line += usize::from(byte == b'\n');
        Ok(Some(byte))
    }

    fn settings(&mut self) -> Parsed<Vec<Setting>> {
        let mut found = Vec::new();
        let mut heading: Option<(String, Option<Vec<u8>>)> = None;
        while let Some(byte) = self.next()? {
            match byte {
                b' ' | b'\t' | b'\n' => {}
                b'#' | b';' => self.comment()?,
                b'[' => heading = Some(self.heading()?),
                first if first.is_ascii_alphabetic() => {
                    let (section, subsection) =
                        heading.clone().ok_or("a key before any section")?;
                    let key = self.key(first)?;
                    let value = self.value()?;
                    found.push(Setting {
                        section,
                        subsection,
                        key,
                        value,
                    });
                }
                _ => return Err("neither a section, a key nor a comment"),
            }
        }
        Ok(found)
    }

    /// To the end of the line. Some readers take a backslash there for a continued line.
    fn comment(&mut self) -> Parsed<()> {
        let mut last = b' ';
        while let Some(byte) = self.next()? {
            match (last, byte) {
                (b'\\', b'\n') => return Err("a comment that ends with a backslash"),
                (_, b'\n') => return Ok(()),
                (_, byte) => last = byte,
            }
        }
        if last == b'\\' {
            return Err("a backslash at the end of the file");
        }
        Ok(())
    }

    /// After `[`: `section]` or `section "subsection"]`. The form `section.subsection]` is out of
    /// date, and readers do not agree on its case.
    fn heading(&mut self) -> Parsed<(String, Option<Vec<u8>>)> {
        let mut section = String::new();
        loop {
            match self.next()? {
                Some(b']') if !section.is_empty() => return Ok((section, None)),
                Some(b' ' | b'\t') if !section.is_empty() => break,
                Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                    section.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return Err("a section that is not named by letters, digits and `-`"),
            }
        }
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.next()?;
        }
        if self.next()? != Some(b'"') {
            return Err("a subsection without quotes");
        }
        let mut subsection = Vec::new();
        loop {
            match self.next()? {
                None | Some(b'\n') => return Err("a subsection without an end"),
                Some(b'"') => break,
                Some(b'\\') => match self.next()? {
                    Some(byte @ (b'"' | b'\\')) => subsection.push(byte),
                    // Git drops the backslash; others may not.
                    _ => return Err("an escape in a subsection that is neither `\\\"` nor `\\\\`"),
                },
                Some(byte) => subsection.push(byte),
            }
        }
        match self.next()? {
            Some(b']') => Ok((section, Some(subsection))),
            _ => Err("a subsection that is not followed by `]`"),
        }
    }

    fn key(&mut self, first: u8) -> Parsed<String> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        while let Some(byte) = self.peek()
            && (byte.is_ascii_alphanumeric() || byte == b'-')
        {
            key.push(char::from(byte.to_ascii_lowercase()));
            self.next()?;
        }
        Ok(key)
    }

    /// What follows a key, to the end of the line.
    fn value(&mut self) -> Parsed<Option<Vec<u8>>> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.next()?;
        }
        match self.next()? {
            None | Some(b'\n') => return Ok(None),
            Some(b'=') => {}
            Some(_) => return Err("a key that is not followed by `=`"),
        }
        let mut value = Vec::new();
        // White space at the end counts only within quotes.
        let mut length = 0;
        let mut quoted = false;
        loop {
            match self.next()? {
                None | Some(b'\n') if quoted => return Err("a quote without an end"),
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    self.comment()?;
                    break;
                }
                Some(byte @ (b' ' | b'\t')) if !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                Some(b'"') => quoted = !quoted,
                Some(b'\\') => match self.next()? {
                    Some(b'\n') => {}
                    // Git ends the value there; whatever is added would go on with it.
                    None => return Err("a backslash at the end of the file"),
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(0x08),
                    Some(byte @ (b'"' | b'\\')) => value.push(byte),
                    Some(_) => return Err("an escape that git does not know"),
                },
                Some(byte) => value.push(byte),
            }
            length = value.len();
        }
        value.truncate(length);
        Ok(Some(value))
    }
}

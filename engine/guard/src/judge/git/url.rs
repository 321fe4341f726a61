//! Where git is sent by a URL (git-fetch(1), "Git URLs"), and which forms start a program.

/// Whether a value that git may take for a URL, or for a remote's name, starts no program but those
/// of git and ssh.
pub(super) fn address(value: &[u8]) -> Result<(), &'static str> {
    if value.is_empty() {
        return Err("is empty");
    }
    if value.iter().any(u8::is_ascii_control) || has_encoded_control(value) {
        return Err("holds a control character");
    }
    if starts_like_an_option(value) {
        return Err("starts with `-`, which a program takes for an option");
    }
    if without_ipv6(value).windows(2).any(|pair| pair == b"::") {
        return Err("names a transport helper (`::`), which is a program");
    }
    if let Some((scheme, rest)) = split(value, b"://") {
        if !matches!(scheme, b"https" | b"http" | b"ssh" | b"git" | b"file") {
            return Err("has a scheme for which git starts a program");
        }
        return host(rest);
    }
    let slash = value.iter().position(|byte| *byte == b'/');
    let first = value.get(..slash.unwrap_or(value.len())).unwrap_or(value);
    match split(first, b":") {
        // `[user@]host:path`, by ssh; the path may go on after the slash.
        Some((_, path)) if starts_like_an_option(path) => Err("has a path that starts with `-`"),
        Some((named, _)) => host(named),
        None => Ok(()),
    }
}

/// Whether a URL that is put in the place of the beginning of others leaves them no choice of
/// scheme and host: what is added to it is not known here.
pub(super) fn base(value: &[u8]) -> Result<(), &'static str> {
    address(value)?;
    let complete = match split(value, b"://") {
        Some((b"file", _)) => true,
        Some((_, rest)) => rest.contains(&b'/') && !rest.starts_with(b"/"),
        None if value.starts_with(b"/") => true,
        // `user@host:`
        None => split(value, b":").is_some_and(|(named, _)| {
            split(named, b"@").is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
        }),
    };
    complete
        .then_some(())
        .ok_or("is put before other URLs and does not itself name a scheme and a whole host")
}

/// The host, with the user before it, at the beginning of `rest`.
fn host(rest: &[u8]) -> Result<(), &'static str> {
    let authority = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
    let host = authority
        .rsplit(|byte| *byte == b'@')
        .next()
        .unwrap_or_default();
    let option = starts_like_an_option(authority)
        || starts_like_an_option(host)
        || starts_like_an_option(host.strip_prefix(b"[").unwrap_or(host));
    if option {
        return Err("has a host that starts with `-`");
    }
    // `%2d` and the like: some programs decode a host, some do not.
    if host.contains(&b'%') {
        return Err("has a host with encoded characters");
    }
    Ok(())
}

/// Also behind what a program may skip, and encoded.
fn starts_like_an_option(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    text.starts_with(b"-") || text.to_ascii_lowercase().starts_with(b"%2d")
}

/// `%00` to `%1f`: git hands the decoded form to credential helpers, line by line.
fn has_encoded_control(value: &[u8]) -> bool {
    value
        .windows(3)
        .any(|code| matches!(code, [b'%', b'0' | b'1', digit] if digit.is_ascii_hexdigit()))
}

/// A URL without the address between the brackets of its authority.
fn without_ipv6(value: &[u8]) -> Vec<u8> {
    let Some((scheme, rest)) = split(value, b"://") else {
        return value.to_vec();
    };
    let end = rest
        .iter()
        .position(|byte| *byte == b'/')
        .unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let address = |open: usize| {
        let close = authority.iter().position(|byte| *byte == b']')?;
        let inner = authority.get(open + 1..close)?;
        let plain = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        inner.iter().all(plain).then(|| {
            let before = authority.get(..open).unwrap_or_default();
            [before, authority.get(close + 1..).unwrap_or_default()].concat()
        })
    };
    let open = authority.iter().position(|byte| *byte == b'[');
    let authority = open.and_then(address).unwrap_or_else(|| authority.to_vec());
    [scheme, b"://", &authority, path].concat()
}

/// What stands before and after the first `mark`.
fn split<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(mark.len()).position(|part| part == mark)?;
    Some((text.get(..at)?, text.get(at + mark.len()..)?))
}

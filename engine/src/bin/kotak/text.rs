//! Text on the user's terminal.

pub(crate) use kotak_engine::text::printable;
use std::io::{self, Write};

/// Writes a result to standard output. A reader that went away early has what it wanted.
pub(crate) fn write_result(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

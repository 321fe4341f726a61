//! A terminal: the master side of a PTY, with its scrollback.

/// The master side of a PTY.
#[derive(Debug)]
pub struct Terminal {}

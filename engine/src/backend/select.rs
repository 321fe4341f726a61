//! Which backend a launch gets.

/// What applies when a client names no backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientDefault {
    /// A terminal of the panel: `none` (REQ TM-1).
    Terminal,
    /// `kotak shell` and `kotak run`: the best available while the switch is on.
    Command,
}

//! The switch (REQ SW).

/// `--sandbox on|off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Switch {
    /// Wrap where the host offers a backend.
    #[default]
    On,
    /// Opt out.
    Off,
}

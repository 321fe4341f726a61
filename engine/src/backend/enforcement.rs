//! What a launched session really enforces: reported facts, never promises.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The enforcement report of one session, aspect by aspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// One row per aspect, in a fixed order.
    pub aspects: Vec<EnforcementRow>,
}

impl Enforcement {
    /// Every named gap, in order.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.aspects.iter().flat_map(|row| row.gaps.iter())
    }
}

/// One aspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct EnforcementRow {
    /// Which aspect.
    pub aspect: Aspect,
    /// On, off or partial.
    pub level: Level,
    /// In plain words, what holds.
    pub detail: String,
    /// What does not hold, each by name. Not empty when `level` is `partial`.
    pub gaps: Vec<Gap>,
}

/// The aspects of a native session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Aspect {
    /// Mount namespace: what is visible and writable.
    Mounts,
    /// Secret paths unreadable.
    SecretReads,
    /// Protected paths unwritable.
    ProtectedWrites,
    /// PID namespace, capabilities, no terminal injection.
    Processes,
    /// The network.
    Network,
    /// Host sockets, pathname and abstract.
    HostSockets,
    /// Filename rules at creation time.
    FilenameRules,
    /// Exec restriction.
    ExecRestriction,
    /// What is refused of files and programs is told.
    FileReports,
}

/// How far an aspect holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Holds.
    On,
    /// Holds but for the named gaps.
    Partial,
    /// Not asked for, or not there.
    Off,
}

/// Something that a policy wants and this launch does not enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// Stable, lower kebab case, e.g. `missing-protected-path`.
    pub code: String,
    /// In plain words, as the badge's tooltip shows it.
    pub text: String,
}

//! What a policy needs to know of the user and the host, as values.

use crate::probe::HostFacts;
use crate::spec::AbsPath;

/// The user, their environment, and where Kotak keeps its own things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostContext {
    /// Real user id.
    pub uid: u32,
    /// Real group id.
    pub gid: u32,
    /// Home directory, as the user's environment spells it.
    pub home: AbsPath,
    /// Home directory in the user database, when it is known: its secrets are secrets too when
    /// `HOME` names another.
    pub passwd_home: Option<AbsPath>,
    /// The host's environment; what of it reaches the payload is decided by the policy. `PATH`
    /// and `XDG_RUNTIME_DIR` are read from it.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Kotak's own places.
    pub kotak: KotakPaths,
    /// What the probe saw.
    pub facts: HostFacts,
}

/// Kotak's own files: never readable (state, configuration) or writable (binaries) inside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KotakPaths {
    /// Directories of state: store, logs, run files.
    pub state: Vec<AbsPath>,
    /// Directories of configuration.
    pub config: Vec<AbsPath>,
    /// Executables of Kotak itself.
    pub binaries: Vec<AbsPath>,
}

impl HostContext {
    /// The user's home directories, each once.
    pub(super) fn homes(&self) -> impl Iterator<Item = &AbsPath> {
        let other = self.passwd_home.as_ref();
        std::iter::once(&self.home).chain(other.filter(|other| {
            // What is no home of a person has no secrets of theirs: `/`, of a system account.
            **other != self.home && !other.is_root()
        }))
    }

    /// A variable of the host's environment.
    #[must_use]
    pub fn var(&self, name: &[u8]) -> Option<&[u8]> {
        self.env
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_slice())
    }

    /// The absolute directories of `PATH`, in order.
    #[must_use]
    pub fn path_dirs(&self) -> Vec<AbsPath> {
        self.var(b"PATH")
            .unwrap_or_default()
            .split(|byte| *byte == b':')
            .filter_map(|dir| AbsPath::new(dir).ok())
            .collect()
    }
}

//! Named gaps: what a policy wants and this host, or this stage, cannot give. One gap per kind,
//! with a count and examples, so that a badge can show them all.

use crate::backend::{Aspect, Gap};
use std::collections::{BTreeMap, BTreeSet};

/// How many examples a gap's text names.
const EXAMPLES: usize = 3;

/// The kinds of gaps known before launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GapKind {
    /// A read-denied path does not exist, so nothing hides it once the host makes it.
    MissingSecretPath,
    /// A read-denied file has other names.
    HardLinkedSecret,
    /// A secret folder was not looked through to its end for files with other names.
    HardLinksUnsearched,
    /// A host program that replaces a masked file drops its mask.
    SecretFileReplaced,
    /// A secret that the host replaces or makes is readable until it is hidden again.
    SecretForAMoment,
    /// A write-denied path does not exist, so it can be created inside.
    MissingProtectedPath,
    /// A write-denied path is reached through a symlink that can be replaced.
    ProtectedPathIsSymlink,
    /// A write-denied path is the session's own folder.
    ProtectedPathIsRoot,
    /// A write-denied file has other names.
    HardLinkedProtectedPath,
    /// A host program that replaces a protected file drops its protection.
    ProtectedFileReplaced,
    /// A write-denied path has no mount, since too many were found.
    ProtectedPathUnmounted,
    /// The search for repositories stopped at its budget.
    UnsearchedDirectories,
    /// A path could not be looked at.
    UnreadablePath,
    /// A folder could not be listed, and is held read-only.
    UnreadableFolder,
    /// A repository made inside is not protected until the next launch.
    NewRepositories,
    /// What git runs by a relative path is not protected in a repository made inside.
    RelativePrograms,
    /// What git configuration names was not searched for everywhere.
    UnsearchedPrograms,
    /// Unix sockets in visible folders can be connected to.
    SocketsInVisibleFolders,
    /// Abstract Unix sockets of the host can be connected to.
    AbstractSockets,
    /// An interpreter runs scripts from where programs may not run.
    InterpretersRun,
    /// The dynamic loader runs programs from where programs may not run.
    LoaderRuns,
}

impl GapKind {
    /// Every kind.
    pub const ALL: [Self; 21] = [
        Self::MissingSecretPath,
        Self::HardLinkedSecret,
        Self::HardLinksUnsearched,
        Self::SecretFileReplaced,
        Self::SecretForAMoment,
        Self::MissingProtectedPath,
        Self::ProtectedPathIsSymlink,
        Self::ProtectedPathIsRoot,
        Self::HardLinkedProtectedPath,
        Self::ProtectedFileReplaced,
        Self::ProtectedPathUnmounted,
        Self::UnsearchedDirectories,
        Self::UnreadablePath,
        Self::UnreadableFolder,
        Self::NewRepositories,
        Self::RelativePrograms,
        Self::UnsearchedPrograms,
        Self::SocketsInVisibleFolders,
        Self::AbstractSockets,
        Self::InterpretersRun,
        Self::LoaderRuns,
    ];

    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::MissingSecretPath => "missing-secret-path",
            Self::HardLinkedSecret => "hard-linked-secret",
            Self::HardLinksUnsearched => "hard-links-unsearched",
            Self::SecretFileReplaced => "secret-file-replaced",
            Self::SecretForAMoment => "secret-for-a-moment",
            Self::MissingProtectedPath => "missing-protected-path",
            Self::ProtectedPathIsSymlink => "protected-path-is-symlink",
            Self::ProtectedPathIsRoot => "protected-path-is-root",
            Self::HardLinkedProtectedPath => "hard-linked-protected-path",
            Self::ProtectedFileReplaced => "protected-file-replaced",
            Self::ProtectedPathUnmounted => "protected-path-unmounted",
            Self::UnsearchedDirectories => "unsearched-directories",
            Self::UnreadablePath => "unreadable-path",
            Self::UnreadableFolder => "unreadable-folder",
            Self::NewRepositories => "new-repositories",
            Self::RelativePrograms => "relative-programs",
            Self::UnsearchedPrograms => "unsearched-programs",
            Self::InterpretersRun => "interpreters-run-scripts",
            Self::LoaderRuns => "loader-runs-programs",
            Self::SocketsInVisibleFolders => "sockets-in-visible-folders",
            Self::AbstractSockets => "abstract-sockets",
        }
    }

    /// The aspect of the enforcement report that it belongs to.
    #[must_use]
    pub fn aspect(self) -> Aspect {
        match self {
            Self::MissingSecretPath
            | Self::HardLinkedSecret
            | Self::HardLinksUnsearched
            | Self::SecretFileReplaced
            | Self::SecretForAMoment => Aspect::SecretReads,
            Self::MissingProtectedPath
            | Self::ProtectedPathIsSymlink
            | Self::ProtectedPathIsRoot
            | Self::HardLinkedProtectedPath
            | Self::ProtectedFileReplaced
            | Self::ProtectedPathUnmounted
            | Self::UnsearchedDirectories
            | Self::UnreadablePath
            | Self::UnreadableFolder
            | Self::NewRepositories
            | Self::RelativePrograms
            | Self::UnsearchedPrograms => Aspect::ProtectedWrites,
            Self::InterpretersRun | Self::LoaderRuns => Aspect::ExecRestriction,
            Self::SocketsInVisibleFolders | Self::AbstractSockets => Aspect::HostSockets,
        }
    }

    /// The aspect of a gap's code; none for a code of another stage.
    #[must_use]
    pub fn aspect_of(code: &str) -> Option<Aspect> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.code() == code)
            .map(Self::aspect)
    }

    /// The gap of one case without a name.
    #[must_use]
    pub fn gap(self) -> Gap {
        Gap {
            code: self.code().to_owned(),
            text: self.text(1, ""),
        }
    }

    fn text(self, count: usize, names: &str) -> String {
        let plural = |one: &str, many: &str| {
            if count == 1 {
                format!("1 {one}")
            } else {
                format!("{count} {many}")
            }
        };
        match self {
            Self::MissingSecretPath => format!(
                "{} not exist now and would be readable once something on the host creates them: \
                 {names}",
                plural("secret path does", "secret paths do")
            ),
            Self::HardLinkedSecret => format!(
                "{} other hard links, and is readable under them where they are visible: {names}",
                plural("secret file has", "secret files have")
            ),
            Self::HardLinksUnsearched => format!(
                "{} not looked through to the end for files with other hard links, which would be \
                 readable under them: {names}",
                plural("secret folder was", "secret folders were")
            ),
            Self::SecretFileReplaced => format!(
                "{} one by one; a program on the host that replaces such a file makes the new one \
                 readable: {names}",
                plural("secret file is hidden", "secret files are hidden")
            ),
            Self::SecretForAMoment => format!(
                "{} hidden one by one or not there yet; when a program on the host replaces or \
                 makes one, it is readable for the moment until Kotak hides it again: {names}",
                plural("secret path is", "secret paths are")
            ),
            Self::MissingProtectedPath => format!(
                "{} not exist and can be created inside: {names}",
                plural("protected path does", "protected paths do")
            ),
            Self::ProtectedPathIsSymlink => format!(
                "{} through a symbolic link that can be replaced inside: {names}",
                plural("protected path is reached", "protected paths are reached")
            ),
            Self::ProtectedPathIsRoot => format!(
                "{} a folder that this session was given to write, and stays writable: {names}",
                plural("protected path is", "protected paths are")
            ),
            Self::HardLinkedProtectedPath => format!(
                "{} other hard links, and is writable under them where they are: {names}",
                plural("protected file has", "protected files have")
            ),
            Self::ProtectedFileReplaced => format!(
                "{} one by one; a program on the host that replaces such a file makes the new one \
                 writable: {names}",
                plural("protected file is held", "protected files are held")
            ),
            Self::ProtectedPathUnmounted => format!(
                "{} no mount, since there are too many, and can be changed inside: {names}",
                plural("protected path has", "protected paths have")
            ),
            Self::UnsearchedDirectories => format!(
                "{} not searched for repositories and agent settings: {names}",
                plural("folder was", "folders were")
            ),
            Self::UnreadablePath => format!(
                "{} not be looked at, so nothing protects what may be there: {names}",
                plural("path could", "paths could")
            ),
            Self::UnreadableFolder => format!(
                "{} not be searched for repositories and agent settings, and {} read-only: {names}",
                plural("folder could", "folders could"),
                if count == 1 { "is" } else { "are" }
            ),
            Self::NewRepositories => format!(
                "the hooks and settings of a repository that is made, moved or cloned inside can \
                 be written until the session ends: {names}"
            ),
            Self::RelativePrograms => format!(
                "{} in every repository, and can be written in one that is made, moved or cloned \
                 inside until the session ends: {names}",
                plural(
                    "relative path may be run by your git configuration",
                    "relative paths may be run by your git configuration"
                )
            ),
            Self::UnsearchedPrograms => format!(
                "{} not searched for what git configuration there runs or includes by path, which \
                 can be changed: {names}",
                plural("folder was", "folders were")
            ),
            Self::InterpretersRun => {
                "an interpreter that may run, such as a shell or Python, runs scripts from folders \
                 that can be written (`sh script.sh`)"
                    .to_owned()
            }
            Self::LoaderRuns => {
                "the dynamic loader, called by its name, runs programs from folders that can be \
                 written, and libraries there can be loaded"
                    .to_owned()
            }
            Self::SocketsInVisibleFolders => format!(
                "Unix sockets that a program on the host opens below {names} can be connected to"
            ),
            Self::AbstractSockets => {
                "this kernel cannot close the host's abstract Unix sockets (Landlock ABI 6) while \
                 the network is open"
                    .to_owned()
            }
        }
    }
}

/// The gaps of a policy while they are collected.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Whether the supervisor works or not.
    always: GapSet,
    /// Closed by the supervisor.
    unsupervised: GapSet,
    /// What the supervisor leaves of a wider one.
    supervised: GapSet,
    /// What is left of those about secrets that are replaced or made while the session runs, where
    /// they are hidden again.
    watched: GapSet,
}

impl Gaps {
    /// Names a gap that no supervisor closes.
    pub(super) fn add(&mut self, kind: GapKind, case: impl Into<String>) {
        self.always.add(kind, case);
    }

    /// Names a gap that is narrower where secrets are hidden again while the session runs.
    pub(super) fn watched(&mut self, wide: GapKind, left: GapKind, case: &str) {
        self.always.add(wide, case);
        self.watched.add(left, case);
    }

    /// What is left of the gaps that [`Self::watched`] named.
    pub(super) fn take_watched(&mut self) -> Vec<Gap> {
        std::mem::take(&mut self.watched).finish()
    }

    /// Where a gap belongs, by whether the supervisor holds what it is about.
    pub(super) fn of(&mut self, held: bool) -> &mut GapSet {
        if held {
            &mut self.unsupervised
        } else {
            &mut self.always
        }
    }

    /// Names a gap of which the supervisor leaves a part.
    pub(super) fn narrowed(&mut self, wide: GapKind, left: GapKind, case: &str) {
        self.unsupervised.add(wide, case);
        self.supervised.add(left, case);
    }

    /// What is left where the supervisor works, and what where it does not.
    pub(super) fn finish(self) -> (Vec<Gap>, Vec<Gap>) {
        let supervised = self.always.clone().with(self.supervised).finish();
        let unsupervised = self.always.with(self.unsupervised).finish();
        (supervised, unsupervised)
    }
}

/// Gaps of one kind of host.
#[derive(Debug, Default, Clone)]
pub(super) struct GapSet(BTreeMap<GapKind, BTreeSet<Case>>);

/// One case: whether it waits behind those that were asked for by name, and its words.
type Case = (bool, String);

impl GapSet {
    /// Names one more case.
    pub(super) fn add(&mut self, kind: GapKind, case: impl Into<String>) {
        let case = case.into();
        let cases = self.0.entry(kind).or_default();
        let first = (false, case);
        if !cases.contains(&first) {
            cases.insert((true, first.1));
        }
    }

    /// Names a case that comes before the others, since the spec itself names it.
    pub(super) fn add_first(&mut self, kind: GapKind, case: impl Into<String>) {
        let waiting = (true, case.into());
        let cases = self.0.entry(kind).or_default();
        cases.remove(&waiting);
        cases.insert((false, waiting.1));
    }

    fn with(mut self, more: Self) -> Self {
        for (kind, cases) in more.0 {
            for (waiting, case) in cases {
                if waiting {
                    self.add(kind, case);
                } else {
                    self.add_first(kind, case);
                }
            }
        }
        self
    }

    /// One gap per kind.
    fn finish(self) -> Vec<Gap> {
        self.0
            .into_iter()
            .map(|(kind, cases)| {
                let count = cases.len();
                let mut names: Vec<&str> = cases
                    .iter()
                    .take(EXAMPLES)
                    .map(|(_, case)| case.as_str())
                    .collect();
                if count > EXAMPLES {
                    names.push("…");
                }
                Gap {
                    code: kind.code().to_owned(),
                    text: kind.text(count, &names.join(", ")),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_one_kind_become_one_gap_with_a_count_and_examples() {
        let mut set = GapSet::default();
        for name in ["~/d", "~/a", "~/b", "~/c", "~/a"] {
            set.add(GapKind::MissingProtectedPath, name);
        }
        assert_eq!(
            set.finish(),
            [Gap {
                code: "missing-protected-path".to_owned(),
                text: "4 protected paths do not exist and can be created inside: ~/a, ~/b, ~/c, …"
                    .to_owned()
            }]
        );
    }

    #[test]
    fn what_the_spec_names_comes_first_and_counts_once() {
        let mut set = GapSet::default();
        for name in ["~/a", "~/b", "~/c", "~/z"] {
            set.add(GapKind::MissingProtectedPath, name);
        }
        set.add_first(GapKind::MissingProtectedPath, "~/z");
        set.add(GapKind::MissingProtectedPath, "~/z");
        let text = &set.finish()[0].text;
        assert!(text.starts_with("4 protected"), "{text}");
        assert!(text.ends_with(": ~/z, ~/a, ~/b, …"), "{text}");
    }

    #[test]
    fn every_kind_has_a_code_of_its_own_and_an_aspect() {
        let codes: BTreeSet<_> = GapKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), GapKind::ALL.len());
        for kind in GapKind::ALL {
            assert_eq!(GapKind::aspect_of(kind.code()), Some(kind.aspect()));
        }
        assert_eq!(GapKind::aspect_of("other"), None);
    }
}

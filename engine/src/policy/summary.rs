//! A policy in sentences, for the sheet and the Policy view; emphasised parts between `**`.

use super::layout::{Layout, Place};
use super::{Access, BindRole, ExecPolicy, FilePolicy, NodeKind, Profile};
use crate::spec::{AbsPath, Grant, NetworkMode};

/// How many names one sentence spells out.
const NAMES: usize = 5;

/// What the sentences are made from.
pub(super) struct Summary<'a> {
    pub(super) layout: &'a Layout<'a>,
    pub(super) profile: Profile,
    pub(super) cwd: &'a AbsPath,
    pub(super) network: NetworkMode,
    /// Domains on the allowlist.
    pub(super) domains: usize,
    /// What is let through its walls.
    pub(super) grants: &'a [Grant],
    pub(super) protected: usize,
    pub(super) withheld: usize,
    /// What the supervisor holds; absent where it does not work.
    pub(super) files: Option<&'a FilePolicy>,
    pub(super) exec: Option<&'a ExecPolicy>,
}

/// What a session may do.
pub(super) fn sentences(summary: &Summary<'_>) -> Vec<String> {
    let mut all = vec![writes(summary)];
    all.extend(summary.files.into_iter().flat_map(makes));
    all.push(sees(summary));
    all.extend(summary.exec.map(|exec| runs(summary, exec)));
    all.extend(secrets(summary));
    all.push(network(summary.network, summary.domains));
    all.extend(
        summary
            .grants
            .iter()
            .map(|grant| format!("{}.", grant.sentence())),
    );
    if summary.withheld > 0 {
        let variables = if summary.withheld == 1 {
            "variable is"
        } else {
            "variables are"
        };
        all.push(format!(
            "**{}** environment {variables} withheld.",
            summary.withheld
        ));
    }
    all
}

fn writes(summary: &Summary<'_>) -> String {
    let layout = summary.layout;
    let mut roots = Vec::new();
    if layout.is_writable(summary.cwd) && *summary.cwd != layout.home {
        roots.push(emphasis(&layout.shown(summary.cwd)));
    }
    for (path, place) in &layout.places {
        let Place::Bind(bind) = place else { continue };
        if bind.access == Access::Read || path == summary.cwd {
            continue;
        }
        match bind.role {
            BindRole::Home => roots.push(emphasis("your home")),
            BindRole::Listed | BindRole::RunnerState => {
                roots.push(emphasis(&layout.shown(path)));
            }
            BindRole::Repository => {
                roots.push(format!(
                    "its repository at {}",
                    emphasis(&layout.shown(path))
                ));
            }
            BindRole::Workdir | BindRole::System | BindRole::Protected | BindRole::Pinned => {}
        }
    }
    if layout.is_writable(summary.cwd)
        && *summary.cwd == layout.home
        && summary.profile == Profile::Terminal
    {
        roots = vec![emphasis("your home")];
    }
    if roots.is_empty() {
        return "Can write to **nothing of yours**; temporary files are private to the session."
            .to_owned();
    }
    let held = match summary.protected {
        0 => String::new(),
        1 => ", but not to **1 protected path**".to_owned(),
        count => format!(", but not to **{count} protected paths**"),
    };
    format!("Can write to {}{held}.", list(&roots))
}

/// What cannot be made in what can be written.
fn makes(files: &FilePolicy) -> Vec<String> {
    let mut all = Vec::new();
    if files.roots.is_empty() {
        return all;
    }
    all.push(
        "Can not make **git hooks**, **editor settings** or **agent settings** there, also not in \
         new repositories."
            .to_owned(),
    );
    if !files.names.is_empty() {
        let globs = |globs: &[String]| {
            let shown: Vec<String> = globs.iter().map(|glob| emphasis(glob)).collect();
            list(&shown)
        };
        let but = if files.exceptions.is_empty() {
            String::new()
        } else {
            format!(", but for {}", globs(&files.exceptions))
        };
        all.push(format!(
            "Can not make, change or remove files named {}{but}.",
            globs(&files.names)
        ));
    }
    all
}

/// From where programs may run.
fn runs(summary: &Summary<'_>, exec: &ExecPolicy) -> String {
    let granted: Vec<String> = exec
        .grants
        .iter()
        .map(|path| emphasis(&summary.layout.shown(path)))
        .collect();
    let but = if granted.is_empty() {
        String::new()
    } else {
        format!(" and from {}", list(&granted))
    };
    format!("Runs programs only **from where it can not write**{but}; interpreters run any script.")
}

fn sees(summary: &Summary<'_>) -> String {
    match summary.profile {
        Profile::Terminal => {
            let home = if summary.layout.is_writable(&summary.layout.home) {
                ""
            } else {
                "**your home** and "
            };
            format!(
                "Can read {home}**the system**; other homes, mounted disks and the host's sockets \
                 are hidden."
            )
        }
        Profile::Binds | Profile::Dispatch => {
            let readable: Vec<String> = summary
                .layout
                .places
                .iter()
                .filter_map(|(path, place)| match place {
                    Place::Bind(bind)
                        if bind.role == BindRole::Listed && bind.access == Access::Read =>
                    {
                        Some(emphasis(&summary.layout.shown(path)))
                    }
                    Place::Bind(_) | Place::Private(_) | Place::Mask(_) => None,
                })
                .collect();
            if readable.is_empty() {
                "Sees **the system's programs** and nothing else of the host.".to_owned()
            } else {
                format!(
                    "Can read {} and the system's programs; nothing else of the host is there.",
                    list(&readable)
                )
            }
        }
    }
}

fn secrets(summary: &Summary<'_>) -> Option<String> {
    let layout = summary.layout;
    let mut names: Vec<(usize, String)> = layout
        .places
        .iter()
        .filter_map(|(path, place)| match place {
            Place::Mask(mask) if mask.kind != NodeKind::Socket => {
                let shown = layout.shown(path);
                let promised = ["~/.ssh", "~/.aws", "~/.gnupg", "~/.config/gh"];
                let rank = promised.iter().position(|name| *name == shown);
                Some((rank.unwrap_or(promised.len()), emphasis(&shown)))
            }
            Place::Mask(_) | Place::Bind(_) | Place::Private(_) => None,
        })
        .collect();
    names.sort();
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| format!("Can not read {}.", list(&names)))
}

fn network(network: NetworkMode, domains: usize) -> String {
    match network {
        NetworkMode::Open => {
            "Reaches **any host**, as you do; the network is not observed.".to_owned()
        }
        NetworkMode::Allowlist => format!("May reach **{domains} domains**."),
        NetworkMode::Ask => format!("May reach **{domains} domains**, asks for others."),
        NetworkMode::Off => "Reaches **no host**; attempts are refused and seen.".to_owned(),
    }
}

fn emphasis(text: &str) -> String {
    // A path cannot end the emphasis early.
    format!("**{}**", text.replace('*', "∗"))
}

fn list(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMES)
        .map(String::as_str)
        .collect::<Vec<_>>();
    match (shown.as_slice(), names.len().saturating_sub(NAMES)) {
        ([], _) => String::new(),
        ([one], 0) => (*one).to_owned(),
        ([start @ .., last], 0) => format!("{} and {last}", start.join(", ")),
        (all, more) => format!("{} and **{more} more**", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_joined_as_people_write_it() {
        let names: Vec<String> = (1..8).map(|index| index.to_string()).collect();
        assert_eq!(list(&names[..1]), "1");
        assert_eq!(list(&names[..3]), "1, 2 and 3");
        assert_eq!(list(&names), "1, 2, 3, 4, 5 and **2 more**");
    }

    #[test]
    fn each_network_has_its_sentence() {
        let of = |mode| network(mode, 41);
        assert_eq!(of(NetworkMode::Allowlist), "May reach **41 domains**.");
        assert_eq!(
            of(NetworkMode::Ask),
            "May reach **41 domains**, asks for others."
        );
        assert_eq!(
            of(NetworkMode::Off),
            "Reaches **no host**; attempts are refused and seen."
        );
        assert!(of(NetworkMode::Open).ends_with("not observed."));
    }

    #[test]
    fn a_path_cannot_forge_emphasis() {
        assert_eq!(emphasis("a** b"), "**a∗∗ b**");
    }
}

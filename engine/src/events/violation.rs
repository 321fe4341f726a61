//! What a policy refused, in words (REQ SP, SandboxViolation).

use crate::text::printable_start;
use kotak_guard::proto::{FileAction, Rule, Violation};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Characters of a path, a rule or a command line that are shown: as many as the kernel takes
/// bytes of a path.
const SHOWN: usize = 4096;

/// Something that the policy refused. All text is safe to show: lossy where it is not UTF-8, with
/// control and direction-changing characters escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SandboxViolation {
    /// The denied verb: `file-read-data`, `file-write-create`, `process-exec`, …
    pub action: String,
    /// The path.
    pub target: String,
    /// The other end of a rename or link.
    pub other: Option<String>,
    /// Whether `target` is the path itself, byte for byte; else it could not be written as text.
    pub exact: bool,
    /// Which rule refused it.
    pub rule: RefusalRule,
    /// Name of the system call.
    pub call: String,
    /// What the program got, as `errno.h` names it.
    pub error: String,
    /// Process id inside.
    pub pid: i32,
    /// Short name of the program.
    pub program: String,
    /// Its file inside, when that could be read.
    pub executable: Option<String>,
    /// Its command line.
    pub argv: Vec<String>,
    /// How many alike this stands for since the last one; at least 1.
    #[ts(type = "number")]
    pub count: u64,
    /// Raw log line.
    pub raw: Option<String>,
    /// Observed or inferred.
    pub evidence: Evidence,
}

/// Which rule refused something. Text is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum RefusalRule {
    /// A filename rule.
    Name {
        /// The glob, as it was written.
        glob: String,
    },
    /// A protected path, or one below it.
    Protected {
        /// The protected path.
        path: String,
    },
    /// An ancestor of a protected path was to be moved or removed.
    Ancestor {
        /// The protected path.
        path: String,
    },
    /// A name that is protected wherever it stands.
    Anywhere {
        /// The name.
        name: String,
    },
    /// Git would run a program by it.
    Git {
        /// What, in plain words.
        what: String,
    },
    /// A file that has a protected name elsewhere.
    HardLink,
    /// A program in a folder that the session can write.
    Exec,
    /// The content of a secret.
    Secret {
        /// The secret's path.
        path: String,
    },
    /// It could not be found out whether it may be done.
    Undecided {
        /// Why not, in plain words.
        reason: String,
    },
}

/// Where the knowledge of a violation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Seen at the point of refusal.
    Observed,
    /// Not seen itself: foreseen by the guard, which knows what the kernel refuses, or concluded
    /// from effects.
    Inferred,
}

impl SandboxViolation {
    /// What the guard says, made safe to show.
    #[must_use]
    pub fn of(seen: &Violation) -> Self {
        let target = shown(&seen.path);
        let mut violation = Self {
            exact: target.as_bytes() == seen.path,
            target,
            action: seen.action.verb().to_owned(),
            other: seen.other.as_deref().map(shown),
            rule: RefusalRule::of(&seen.rule),
            call: text(&seen.call),
            error: errno_name(seen.errno),
            pid: seen.pid,
            program: text(&seen.comm),
            executable: seen.executable.as_deref().map(text),
            argv: seen.argv.iter().map(|argument| text(argument)).collect(),
            count: seen.count.max(1),
            raw: None,
            evidence: if seen.observed {
                Evidence::Observed
            } else {
                Evidence::Inferred
            },
        };
        violation.raw = Some(violation.raw_line());
        violation
    }

    /// Whether a program was to be run.
    #[must_use]
    pub fn is_exec(&self) -> bool {
        self.action == FileAction::Exec.verb()
    }

    /// The command line as one text, bounded.
    #[must_use]
    pub fn command(&self) -> String {
        printable_start(&self.argv.join(" "), SHOWN)
    }

    /// In a few words, why: `filename rule .env`.
    #[must_use]
    pub fn why(&self) -> String {
        self.rule.why(&self.target)
    }

    fn raw_line(&self) -> String {
        let mut line = format!("{} {}", self.action, self.target);
        if let Some(other) = &self.other {
            line.push_str(&format!(" other={other}"));
        }
        line.push_str(&format!(
            " call={} error={} pid={} comm={}",
            self.call, self.error, self.pid, self.program
        ));
        if let Some(executable) = &self.executable {
            line.push_str(&format!(" exe={executable}"));
        }
        printable_start(&line, 4 * SHOWN)
    }
}

impl RefusalRule {
    fn of(rule: &Rule) -> Self {
        match rule {
            Rule::Name(glob) => Self::Name { glob: text(glob) },
            Rule::Protected(path) => Self::Protected { path: shown(path) },
            Rule::Ancestor(path) => Self::Ancestor { path: shown(path) },
            Rule::Anywhere(name) => Self::Anywhere { name: shown(name) },
            Rule::Git(what) => Self::Git { what: text(what) },
            Rule::HardLink => Self::HardLink,
            Rule::Exec => Self::Exec,
            Rule::Secret(path) => Self::Secret { path: shown(path) },
            Rule::Undecided(reason) => Self::Undecided {
                reason: text(reason),
            },
        }
    }

    /// In a few words, for a row whose target is `target`.
    #[must_use]
    pub fn why(&self, target: &str) -> String {
        match self {
            Self::Name { glob } => format!("filename rule {glob}"),
            Self::Protected { path } if path == target => "protected path".to_owned(),
            Self::Protected { path } => format!("below the protected {path}"),
            Self::Ancestor { path } => format!("holds the protected {path}"),
            Self::Anywhere { name } => format!("{name} is protected everywhere"),
            Self::Git { what } => format!("git would run programs: {what}"),
            Self::HardLink => "the same file has a protected name".to_owned(),
            Self::Exec => "exec restriction".to_owned(),
            Self::Secret { .. } => "a secret".to_owned(),
            Self::Undecided { reason } => format!("could not be decided: {reason}"),
        }
    }

    /// In a whole sentence, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Name { glob } => format!(
                "no file whose name matches {glob} can be made, changed or removed in what this \
                 session can write"
            ),
            Self::Protected { path } => format!(
                "neither {path} nor anything below it can be made, changed or removed, whether it \
                 exists or not"
            ),
            Self::Ancestor { path } => format!(
                "{path} is protected, so no folder that holds it can be moved, removed or replaced"
            ),
            Self::Anywhere { name } => {
                format!("files and folders named {name} are protected wherever they stand")
            }
            Self::Git { what } => {
                format!("git runs programs that its own files name, outside of the sandbox too: {what}")
            }
            Self::HardLink => {
                "the file has another name that is protected, and its content is protected by every \
                 name"
                    .to_owned()
            }
            Self::Exec => {
                "programs in folders that this session can write, or an earlier one could, do not \
                 run, unless the folder is approved"
                    .to_owned()
            }
            Self::Secret { path } => {
                format!("{path} is a secret, which no session can read or replace")
            }
            Self::Undecided { reason } => format!(
                "it could not be found out whether this may be done, so it was refused: {reason}"
            ),
        }
    }

    /// What would have allowed it, in words; the narrowest way, where there is one.
    #[must_use]
    pub fn way_out(&self) -> Option<&'static str> {
        match self {
            Self::Name { .. } => Some("an exception for this path in the filename rules"),
            Self::Exec => Some("approving the folder that the program lies in"),
            Self::Protected { .. }
            | Self::Ancestor { .. }
            | Self::Anywhere { .. }
            | Self::Git { .. }
            | Self::HardLink
            | Self::Secret { .. }
            | Self::Undecided { .. } => None,
        }
    }

    /// The name of its kind, as on the wire.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Name { .. } => "name",
            Self::Protected { .. } => "protected",
            Self::Ancestor { .. } => "ancestor",
            Self::Anywhere { .. } => "anywhere",
            Self::Git { .. } => "git",
            Self::HardLink => "hardLink",
            Self::Exec => "exec",
            Self::Secret { .. } => "secret",
            Self::Undecided { .. } => "undecided",
        }
    }

    /// What the rule names: a glob, a path, a name, or words.
    #[must_use]
    pub fn what(&self) -> Option<&str> {
        match self {
            Self::Name { glob: what }
            | Self::Protected { path: what }
            | Self::Ancestor { path: what }
            | Self::Anywhere { name: what }
            | Self::Git { what }
            | Self::Secret { path: what }
            | Self::Undecided { reason: what } => Some(what),
            Self::HardLink | Self::Exec => None,
        }
    }
}

/// Bytes of a program, as they can be shown.
pub(crate) fn shown(bytes: &[u8]) -> String {
    text(&String::from_utf8_lossy(bytes))
}

fn text(text: &str) -> String {
    printable_start(text, SHOWN)
}

/// The name of an errno(3) that a supervisor gives; the number of any other.
fn errno_name(errno: i32) -> String {
    // The numbers of Linux, under which alone there is a guard (asm-generic/errno-base.h).
    let name = match errno {
        1 => "EPERM",
        2 => "ENOENT",
        5 => "EIO",
        13 => "EACCES",
        16 => "EBUSY",
        17 => "EEXIST",
        18 => "EXDEV",
        30 => "EROFS",
        other => return format!("errno {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The creation of `.env` in `/w`, refused by its name.
    pub(crate) fn seen() -> Violation {
        Violation {
            action: FileAction::Create,
            path: b"/w/.env".to_vec(),
            other: None,
            rule: Rule::Name(".env".to_owned()),
            errno: 13,
            call: "openat".to_owned(),
            observed: true,
            pid: 7,
            comm: "node".to_owned(),
            executable: Some("/usr/bin/node".to_owned()),
            argv: vec!["node".to_owned(), "setup.js".to_owned()],
            count: 1,
        }
    }

    #[test]
    fn a_violation_says_what_who_and_by_which_rule() {
        // REQ SP, SandboxViolation
        let violation = SandboxViolation::of(&seen());
        assert_eq!(violation.action, "file-write-create");
        assert_eq!(violation.target, "/w/.env");
        assert!(violation.exact && !violation.is_exec());
        assert_eq!(violation.why(), "filename rule .env");
        assert_eq!(violation.command(), "node setup.js");
        assert_eq!(violation.evidence, Evidence::Observed);
        assert_eq!(
            violation.raw.as_deref(),
            Some(
                "file-write-create /w/.env call=openat error=EACCES pid=7 comm=node \
                 exe=/usr/bin/node"
            )
        );
    }

    #[test]
    fn names_that_are_no_text_or_mislead_are_escaped_and_not_called_exact() {
        for (path, target) in [
            (&b"/w/a\n.key"[..], "/w/a\\u{a}.key"),
            ("/w/\u{202e}yek.a".as_bytes(), "/w/\\u{202e}yek.a"),
            (b"/w/\xff.key", "/w/\u{fffd}.key"),
        ] {
            let violation = SandboxViolation::of(&Violation {
                path: path.to_vec(),
                comm: "a\u{1b}[2J".to_owned(),
                argv: vec!["x\ny".to_owned()],
                other: Some(path.to_vec()),
                rule: Rule::Protected(path.to_vec()),
                observed: false,
                count: 0,
                ..seen()
            });
            assert_eq!(violation.target, target);
            assert!(!violation.exact);
            assert_eq!(violation.other.as_deref(), Some(target));
            assert_eq!(violation.rule.what(), Some(target));
            assert_eq!(violation.why(), "protected path");
            assert_eq!(violation.program, "a\\u{1b}[2J");
            assert_eq!(violation.argv, ["x\\u{a}y"]);
            assert_eq!(violation.count, 1);
            assert_eq!(violation.evidence, Evidence::Inferred);
            let raw = violation.raw.unwrap();
            assert!(!raw.chars().any(crate::text::misleads), "{raw:?}");
        }
    }

    #[test]
    fn every_rule_has_words_that_name_what_it_protects() {
        let path = || b"/w/.git/hooks".to_vec();
        for (rule, kind) in [
            (Rule::Name("*.key".to_owned()), "name"),
            (Rule::Protected(path()), "protected"),
            (Rule::Ancestor(path()), "ancestor"),
            (Rule::Anywhere(b".envrc".to_vec()), "anywhere"),
            (Rule::Git("core.pager".to_owned()), "git"),
            (Rule::HardLink, "hardLink"),
            (Rule::Exec, "exec"),
            (Rule::Secret(path()), "secret"),
            (Rule::Undecided("too slow".to_owned()), "undecided"),
        ] {
            let rule = RefusalRule::of(&rule);
            assert_eq!(rule.kind(), kind);
            let wire = serde_json::to_value(&rule).unwrap();
            assert_eq!(wire["kind"], kind);
            if let Some(what) = rule.what() {
                assert!(rule.sentence().contains(what), "{}", rule.sentence());
            }
            assert!(!rule.why("/w/x").is_empty());
        }
    }
}

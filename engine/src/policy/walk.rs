//! Resolving a path step by step, so that every symlink on the way is known (REQ SP-2).

use super::{HostFs, NodeInfo, NodeKind};
use crate::spec::AbsPath;
use globset::GlobBuilder;
use std::collections::VecDeque;
use std::io;

/// Most symlinks on one path, as the kernel has it.
const MAX_LINKS: usize = 40;

/// Most entries of one directory that a glob is matched against; more is a refusal, since what is
/// not looked at is not denied.
const GLOB_ENTRIES: usize = 1_000_000;

/// Where a path leads.
#[derive(Debug)]
pub(super) struct Walk {
    /// The symlinks followed: canonical place and target as written.
    pub(super) links: Vec<(AbsPath, Vec<u8>)>,
    /// What was found.
    pub(super) end: End,
}

/// How a walk ended.
#[derive(Debug)]
pub(super) enum End {
    /// At something that exists; the path is canonical.
    Found { path: AbsPath, info: NodeInfo },
    /// At nothing: the deepest directory that exists, the name missing in it, and where the whole
    /// path would be, every symlink that exists resolved.
    Missing {
        parent: AbsPath,
        name: Vec<u8>,
        path: AbsPath,
        cause: io::Error,
    },
    /// It cannot be told.
    Unknown {
        /// What could not be looked at.
        at: AbsPath,
        /// The directory, or symlink, that is in the way.
        blocker: AbsPath,
        cause: io::Error,
    },
}

/// Follows a path through every symlink.
pub(super) fn walk(host: &dyn HostFs, path: &AbsPath) -> Walk {
    let mut links = Vec::new();
    let mut todo: VecDeque<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
    let mut here = AbsPath::root();
    let mut info = match host.symlink_metadata(&here) {
        Ok(info) => info,
        Err(cause) => {
            return Walk {
                links,
                end: End::Unknown {
                    blocker: here.clone(),
                    at: here,
                    cause,
                },
            };
        }
    };
    while let Some(part) = todo.pop_front() {
        if info.kind != NodeKind::Dir {
            let cause = io::Error::from(io::ErrorKind::NotADirectory);
            return Walk {
                links,
                end: missing(here, part, &todo, cause),
            };
        }
        let next = here.join(&part);
        let found = match host.symlink_metadata(&next) {
            Ok(found) => found,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return Walk {
                    links,
                    end: missing(here, part, &todo, cause),
                };
            }
            Err(cause) => {
                return Walk {
                    links,
                    end: End::Unknown {
                        at: next,
                        blocker: here,
                        cause,
                    },
                };
            }
        };
        if found.kind != NodeKind::Symlink {
            // `..` of a symlink's target: the parent is known, its kind is a directory.
            (here, info) = (next, found);
            continue;
        }
        let target = match host.read_link(&next) {
            Ok(target) => target,
            Err(cause) => {
                return Walk {
                    links,
                    end: End::Unknown {
                        blocker: next.clone(),
                        at: next,
                        cause,
                    },
                };
            }
        };
        links.push((next.clone(), target.clone()));
        if links.len() > MAX_LINKS {
            let cause = io::Error::other("too many symbolic links");
            return Walk {
                links,
                end: End::Unknown {
                    blocker: next.clone(),
                    at: next,
                    cause,
                },
            };
        }
        if target.first() == Some(&b'/') {
            here = AbsPath::root();
        }
        match host.symlink_metadata(&here) {
            Ok(found) => info = found,
            Err(cause) => {
                return Walk {
                    links,
                    end: End::Unknown {
                        blocker: here.clone(),
                        at: here,
                        cause,
                    },
                };
            }
        }
        let parts = target.split(|byte| *byte == b'/');
        for part in parts.filter(|part| !part.is_empty() && *part != b".").rev() {
            todo.push_front(part.to_vec());
        }
    }
    Walk {
        links,
        end: End::Found { path: here, info },
    }
}

fn missing(parent: AbsPath, name: Vec<u8>, rest: &VecDeque<Vec<u8>>, cause: io::Error) -> End {
    let path = rest
        .iter()
        .fold(parent.join(&name), |path, part| path.join(part));
    End::Missing {
        parent,
        name,
        path,
        cause,
    }
}

/// Where a path leads through every symlink, as far as it exists, and whether something is there.
#[must_use]
pub fn leads_to(host: &dyn HostFs, path: &AbsPath) -> (AbsPath, bool) {
    match walk(host, path).end {
        End::Found { path, .. } => (path, true),
        End::Missing { path, .. } => (path, false),
        End::Unknown { .. } => (path.clone(), false),
    }
}

/// Whether a path is a glob by SP-2.
pub(super) fn is_glob(path: &AbsPath) -> bool {
    path.as_bytes()
        .iter()
        .any(|byte| matches!(byte, b'*' | b'?'))
}

/// What a glob names.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    /// The existing paths, sorted; a path that is no glob is itself.
    pub(super) paths: Vec<AbsPath>,
    /// How the look at a directory failed in which more of them may be: each an [`End::Unknown`].
    pub(super) unseen: Vec<End>,
}

/// Expands a glob.
pub(super) fn expand(host: &dyn HostFs, pattern: &AbsPath) -> Expansion {
    if !is_glob(pattern) {
        return Expansion {
            paths: vec![pattern.clone()],
            unseen: Vec::new(),
        };
    }
    let mut found = vec![AbsPath::root()];
    let mut unseen = Vec::new();
    for part in pattern.components() {
        if !part.iter().any(|byte| matches!(byte, b'*' | b'?')) {
            for path in &mut found {
                *path = path.join(part);
            }
            continue;
        }
        let names = NamePattern::new(part);
        let mut next = Vec::new();
        for dir in &found {
            // Through symlinks: listed where the directory really is, kept in the given spelling.
            match walk(host, dir).end {
                End::Found { path: real, info } if info.kind == NodeKind::Dir => {
                    match matching(host, &real, &names) {
                        Ok(entries) => next.extend(entries.iter().map(|name| dir.join(name))),
                        Err(cause) => unseen.push(End::Unknown {
                            blocker: real.clone(),
                            at: real,
                            cause,
                        }),
                    }
                }
                End::Found { .. } | End::Missing { .. } => {}
                end @ End::Unknown { .. } => unseen.push(end),
            }
        }
        next.sort();
        found = next;
    }
    Expansion {
        paths: found,
        unseen,
    }
}

/// The names in a directory that match; all of them, or an error.
fn matching(host: &dyn HostFs, dir: &AbsPath, names: &NamePattern<'_>) -> io::Result<Vec<Vec<u8>>> {
    let listing = match host.read_dir(dir, GLOB_ENTRIES) {
        Ok(listing) => listing,
        // Gone since.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(cause),
    };
    if listing.cut {
        return Err(io::Error::other(format!(
            "it holds more than {GLOB_ENTRIES} entries"
        )));
    }
    let entries = listing.entries.iter().map(|(name, _)| name);
    Ok(entries
        .filter(|name| names.is_match(name))
        .cloned()
        .collect())
}

/// One component of a glob, in which only `*` and `?` are special.
enum NamePattern<'a> {
    /// A literal and then `*`: nearly all of the sets, and a launch must not pay for a regular
    /// expression each.
    Prefix(&'a [u8]),
    /// Any other form, compiled once for a whole listing.
    Glob(globset::GlobMatcher),
    /// Not a glob after all: it matches nothing.
    Nothing,
}

impl<'a> NamePattern<'a> {
    fn new(pattern: &'a [u8]) -> Self {
        if let Some(prefix) = pattern.strip_suffix(b"*")
            && !prefix.iter().any(|byte| matches!(byte, b'*' | b'?'))
        {
            return Self::Prefix(prefix);
        }
        let mut text = String::new();
        for character in String::from_utf8_lossy(pattern).chars() {
            if matches!(character, '[' | ']' | '{' | '}' | '\\' | '!') {
                text.push('\\');
            }
            text.push(character);
        }
        GlobBuilder::new(&text)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_or(Self::Nothing, |glob| Self::Glob(glob.compile_matcher()))
    }

    fn is_match(&self, name: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Glob(glob) => {
                let path = AbsPath::root().join(name).to_path_buf();
                path.file_name().is_some_and(|name| glob.is_match(name))
            }
            Self::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeFs, path};
    use super::*;

    fn found(host: &FakeFs, at: &str) -> (AbsPath, usize) {
        let walk = walk(host, &path(at));
        match walk.end {
            End::Found { path, .. } => (path, walk.links.len()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_symlink_on_the_way_is_followed_and_named() {
        let mut host = FakeFs::default();
        host.link("/home", "var/home")
            .dir("/var/home/u/a/b")
            .link("/var/home/u/l", "a/../a/b");
        host.link("/abs", "/home/u/l");
        assert_eq!(found(&host, "/home/u/a"), (path("/var/home/u/a"), 1));
        assert_eq!(found(&host, "/abs"), (path("/var/home/u/a/b"), 3));
        assert_eq!(found(&host, "/"), (path("/"), 0));
    }

    #[test]
    fn a_missing_path_ends_at_the_deepest_directory() {
        let mut host = FakeFs::default();
        host.link("/l", "real").dir("/real");
        let End::Missing {
            parent,
            name,
            path: whole,
            ..
        } = walk(&host, &path("/l/x/y")).end
        else {
            panic!()
        };
        assert_eq!((parent, name), (path("/real"), b"x".to_vec()));
        assert_eq!(whole, path("/real/x/y"));
    }

    #[test]
    fn a_dangling_link_a_loop_and_a_file_in_the_middle_are_not_found() {
        let mut host = FakeFs::default();
        host.link("/d", "gone")
            .link("/a", "b")
            .link("/b", "a")
            .file("/f", "");
        assert!(matches!(walk(&host, &path("/d")).end, End::Missing { .. }));
        assert!(matches!(walk(&host, &path("/a")).end, End::Unknown { .. }));
        assert!(matches!(
            walk(&host, &path("/f/x")).end,
            End::Missing { .. }
        ));
    }

    fn names(host: &FakeFs, pattern: &str) -> Vec<AbsPath> {
        let found = expand(host, &path(pattern));
        assert!(found.unseen.is_empty(), "{found:?}");
        found.paths
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_told_and_a_large_one_is_read_to_its_end() {
        let mut host = FakeFs::default();
        for index in 0..10_500 {
            host.file(format!("/c/a{index}"), "");
        }
        host.file("/c/credentials.toml", "");
        assert_eq!(names(&host, "/c/cred*"), [path("/c/credentials.toml")]);
        host.unlisted("/c");
        let found = expand(&host, &path("/c/cred*"));
        assert!(
            matches!(&found.unseen[..], [End::Unknown { blocker, .. }] if *blocker == path("/c")),
            "{found:?}"
        );
    }

    #[test]
    fn only_star_and_question_mark_are_special_in_a_glob() {
        let mut host = FakeFs::default();
        for name in ["credentials", "credentials.toml", "config", "a[1]", "a1"] {
            host.file(format!("/c/{name}"), "");
        }
        assert_eq!(
            names(&host, "/c/credentials*"),
            [path("/c/credentials"), path("/c/credentials.toml")]
        );
        assert_eq!(names(&host, "/c/a[1]*"), [path("/c/a[1]")]);
        assert_eq!(names(&host, "/c/a?"), [path("/c/a1")]);
        assert_eq!(names(&host, "/none/*"), []);
        assert_eq!(names(&host, "/none/x"), [path("/none/x")]);
    }
}

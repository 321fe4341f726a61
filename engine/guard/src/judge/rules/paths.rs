//! Paths as bytes: which root one lies in, and what is protected.

use super::{Deed, RulesError, plain};
use crate::proto::Rule;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Every prefix of a path that is one of its ancestors or itself, longest first; `/` is the last.
pub(super) fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut end = Some(path.len());
    std::iter::from_fn(move || {
        let length = end?;
        let prefix = path.get(..length)?;
        end = match prefix.iter().rposition(|byte| *byte == b'/') {
            _ if length <= 1 => None,
            Some(0) => Some(1),
            other => other,
        };
        Some(prefix)
    })
}

/// The last component.
pub(super) fn name_of(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|byte| *byte == b'/');
    path.get(start.map_or(0, |slash| slash + 1)..)
        .unwrap_or_default()
}

/// Refuses what is not absolute and canonical.
fn checked(path: &[u8]) -> Result<&[u8], RulesError> {
    let canonical = path == b"/"
        || path.strip_prefix(b"/").is_some_and(|rest| {
            rest.split(|byte| *byte == b'/')
                .all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0))
        });
    if canonical {
        return Ok(path);
    }
    Err(RulesError::Path {
        path: String::from_utf8_lossy(path).into_owned(),
    })
}

/// What is judged and what is not: the deepest entry decides.
#[derive(Debug)]
pub(super) struct Zones {
    judged: HashMap<Vec<u8>, bool>,
    sorted: BTreeSet<Vec<u8>>,
}

impl Zones {
    pub(super) fn new(roots: &[Vec<u8>], exempt: &[Vec<u8>]) -> Result<Self, RulesError> {
        let mut judged = HashMap::new();
        for path in exempt {
            judged.insert(checked(path)?.to_vec(), false);
        }
        // One that is both is judged.
        for path in roots {
            judged.insert(checked(path)?.to_vec(), true);
        }
        let sorted = judged.keys().cloned().collect();
        Ok(Self { judged, sorted })
    }

    /// The root whose rules hold for a path; none where nothing is judged.
    pub(super) fn root_of<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let (root, judged) =
            prefixes(path).find_map(|prefix| Some((prefix, *self.judged.get(prefix)?)))?;
        judged.then_some(root)
    }

    /// Whether a root or an exempt tree begins at a path or below it.
    pub(super) fn begins_below(&self, path: &[u8]) -> bool {
        self.judged.contains_key(path) || strictly_below(&self.sorted, path).next().is_some()
    }
}

/// Protected paths and their ancestors, by what names are compared by: a directory without regard
/// to case holds a protected path in whatever case.
#[derive(Debug)]
pub(super) struct Protected {
    /// Each with what it was written as.
    paths: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Below the root that the protected path lies in, each with one of the paths.
    ancestors: HashMap<Vec<u8>, Vec<u8>>,
}

impl Protected {
    pub(super) fn new(paths: &[Vec<u8>], roots: &[Vec<u8>]) -> Result<Self, RulesError> {
        let mut ancestors = HashMap::new();
        for path in paths {
            for dir in prefixes(checked(path)?).skip(1) {
                if roots.iter().any(|root| root == dir) {
                    break;
                }
                ancestors.entry(plain(dir)).or_insert_with(|| path.clone());
            }
        }
        Ok(Self {
            paths: paths
                .iter()
                .map(|path| (plain(path), path.clone()))
                .collect(),
            ancestors,
        })
    }

    pub(super) fn verdict(&self, path: &[u8], deed: Deed) -> Option<Rule> {
        if self.paths.is_empty() {
            return None;
        }
        let path = plain(path);
        if let Some(found) = prefixes(&path).find_map(|prefix| self.paths.get(prefix)) {
            return Some(Rule::Protected(found.clone()));
        }
        match deed {
            // The way to it may be made, and an ancestor be written in.
            Deed::MakeDirectory | Deed::Write => None,
            Deed::MakeFile
            | Deed::MakeSymlink
            | Deed::MakeOther
            | Deed::Permit
            | Deed::Unlink
            | Deed::RemoveDirectory
            | Deed::MoveAway => self.ancestors.get(&path).cloned().map(Rule::Ancestor),
        }
    }

    /// As they were written.
    pub(super) fn below<'a>(&'a self, dir: &[u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let prefix = with_slash(&plain(dir));
        self.paths
            .range(prefix.clone()..)
            .take_while(move |(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| path.len() > 1)
            .map(|(_, written)| written.as_slice())
    }
}

/// The paths of a set that lie below a directory.
fn strictly_below<'a>(
    set: &'a BTreeSet<Vec<u8>>,
    dir: &[u8],
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let prefix = with_slash(dir);
    set.range(prefix.clone()..)
        .take_while(move |path| path.starts_with(&prefix))
        .filter(|path| path.len() > 1)
        .map(Vec::as_slice)
}

fn with_slash(dir: &[u8]) -> Vec<u8> {
    let mut dir = dir.to_vec();
    if dir.last() != Some(&b'/') {
        dir.push(b'/');
    }
    dir
}

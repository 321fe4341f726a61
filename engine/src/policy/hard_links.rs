//! Files in secret folders that have names elsewhere too: a mask hides one name only.

use super::gap::GapKind;
use super::layout::Layout;
use super::{FileId, NodeKind};
use crate::spec::AbsPath;
use std::collections::{BTreeMap, VecDeque};

/// How many files of all secret folders together one launch looks at. Each costs a look at the file
/// system, and a browser's profile holds tens of thousands.
const FILES: usize = 4_000;

/// How many entries of one folder are listed.
const LISTED: usize = 100_000;

/// The search for them, bounded for a whole launch.
pub(super) struct HardLinks {
    left: usize,
}

impl Default for HardLinks {
    fn default() -> Self {
        Self { left: FILES }
    }
}

/// Files that were met under fewer names than they have: those names, and how many they have.
type Met = BTreeMap<FileId, (Vec<AbsPath>, u64)>;

impl HardLinks {
    /// Names a gap for each file at any depth of a secret folder that has a name outside of it, and
    /// one for the folder when not all of it was looked at.
    pub(super) fn name(&mut self, layout: &mut Layout<'_>, secret: &AbsPath) {
        let mut met = Met::new();
        let (mut files, mut folders) = (0_usize, 0_usize);
        let mut todo = VecDeque::from([secret.clone()]);
        while let Some(dir) = todo.pop_front() {
            if self.left == 0 {
                folders += 1;
                continue;
            }
            let Ok(listing) = layout.host.read_dir(&dir, LISTED) else {
                folders += 1;
                continue;
            };
            folders += usize::from(listing.cut);
            for (name, kind) in &listing.entries {
                let at = dir.join(name);
                match kind {
                    NodeKind::Dir => todo.push_back(at),
                    NodeKind::File if self.left == 0 => files += 1,
                    NodeKind::File => {
                        self.left -= 1;
                        if let Ok(info) = layout.host.symlink_metadata(&at)
                            && info.nlink > 1
                        {
                            let names = met.entry(info.id).or_insert((Vec::new(), info.nlink));
                            names.0.push(at);
                        }
                    }
                    NodeKind::Symlink | NodeKind::Socket | NodeKind::Special => {}
                }
            }
        }
        for (names, all) in met.into_values() {
            // All of them in here: hidden together.
            if u64::try_from(names.len()).is_ok_and(|found| found >= all) {
                continue;
            }
            for name in names {
                let shown = layout.shown(&name);
                layout.gaps.add(GapKind::HardLinkedSecret, shown);
            }
        }
        if files > 0 || folders > 0 {
            let shown = layout.shown(secret);
            layout.gaps.add(
                GapKind::HardLinksUnsearched,
                format!("{shown} ({files} files and {folders} folders)"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeFs, context, path};
    use super::*;
    use crate::backend::Gap;

    fn gaps(host: &FakeFs, secrets: &[&str]) -> Vec<Gap> {
        let context = context();
        let mut layout = Layout::new(host, &context);
        let mut search = HardLinks::default();
        for secret in secrets {
            search.name(&mut layout, &path(secret));
        }
        std::mem::take(&mut layout.gaps).finish().1
    }

    #[test]
    fn every_file_at_any_depth_is_looked_at() {
        let mut host = FakeFs::debian();
        for index in 0..1_000 {
            host.file(format!("/home/u/.ssh/a{index:04}"), "");
        }
        host.file("/home/u/.ssh/z", "")
            .file("/home/u/.ssh/old/keys/y", "");
        assert_eq!(gaps(&host, &["/home/u/.ssh"]), [], "the control");
        host.hard_links("/home/u/.ssh/z", 2)
            .hard_links("/home/u/.ssh/old/keys/y", 3);
        let found = gaps(&host, &["/home/u/.ssh"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, "hard-linked-secret");
        for name in ["2 secret files", "~/.ssh/z", "~/.ssh/old/keys/y"] {
            assert!(found[0].text.contains(name), "{found:?}");
        }
    }

    #[test]
    fn what_is_not_looked_at_is_counted() {
        let mut host = FakeFs::debian();
        for index in 0..FILES + 7 {
            host.file(format!("/home/u/.mozilla/p/f{index:05}"), "");
        }
        host.dir("/home/u/.mozilla/p/z/deep").dir("/home/u/.ssh");
        let found = gaps(&host, &["/home/u/.mozilla", "/home/u/.ssh"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, "hard-links-unsearched");
        for part in [
            "2 secret folders were",
            "~/.mozilla (7 files and 1 folders)",
            "~/.ssh (0 files and 1 folders)",
        ] {
            assert!(found[0].text.contains(part), "{found:?}");
        }
        let mut closed = FakeFs::debian();
        closed.dir("/home/u/.ssh/x").unlisted("/home/u/.ssh/x");
        let found = gaps(&closed, &["/home/u/.ssh"]);
        assert!(
            found[0].text.contains("(0 files and 1 folders)"),
            "{found:?}"
        );
    }
}

//! What a folder is: whether it exists, the repository it is in, its branch.
//!
//! A repository may be hostile, so git is never run in it: its configuration can name programs.
//! Two facts are wanted, and they stand in two small files, `.git` and `HEAD`; reading these here
//! needs less trust than a library that would read configuration and references on the way. Every
//! read is bounded, of a regular file, and follows no link in its last component.

use crate::api::FolderInfo;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Ancestors that are looked at.
const DEPTH_LIMIT: usize = 128;
/// Bytes of a `.git` file or of `HEAD`.
const SIZE_LIMIT: u64 = 4096;
/// Digits of a commit id when the head is detached.
const SHORT_ID: usize = 7;

/// Looks at a folder. May wait for a slow file system: not for an async thread.
#[must_use]
pub fn folder_info(path: &str) -> FolderInfo {
    let folder = Path::new(path);
    let exists = folder.is_absolute() && folder.is_dir();
    let repository = if exists { repository_of(folder) } else { None };
    let (repo_root, branch) = repository.map_or((None, None), |(root, head)| {
        (
            root.to_str().map(str::to_owned),
            head.and_then(|head| branch_of(&head)),
        )
    });
    FolderInfo {
        path: path.to_owned(),
        exists,
        repo_root,
        branch,
    }
}

/// The group that a folder's sessions belong to: the repository's root, else the folder.
#[must_use]
pub fn workspace_of(path: &str) -> String {
    folder_info(path)
        .repo_root
        .unwrap_or_else(|| path.to_owned())
}

/// The nearest ancestor that is a repository, and the text of its `HEAD` where that is readable.
fn repository_of(folder: &Path) -> Option<(PathBuf, Option<String>)> {
    // Links above the folder lead where the kernel would lead a shell that changes into it.
    let folder = folder.canonicalize().ok()?;
    folder.ancestors().take(DEPTH_LIMIT).find_map(|ancestor| {
        let git = ancestor.join(".git");
        let found = fs::symlink_metadata(&git).ok()?;
        let git_dir = if found.is_dir() {
            git
        } else if found.is_file() {
            linked_git_dir(ancestor, &git)?
        } else if found.is_symlink() && git.join("HEAD").symlink_metadata().is_ok() {
            // Git would follow it; where it leads is not read here.
            return Some((ancestor.to_path_buf(), None));
        } else {
            return None;
        };
        let head = git_dir.join("HEAD");
        fs::symlink_metadata(&head).ok()?;
        Some((ancestor.to_path_buf(), head_text(&head)))
    })
}

/// Where a `.git` file of a worktree or submodule points to.
fn linked_git_dir(root: &Path, git: &Path) -> Option<PathBuf> {
    let text = small_file(git)?;
    let target = text.strip_prefix("gitdir:")?.trim();
    (!target.is_empty()).then(|| root.join(target))
}

/// The text of `HEAD`; an old-style one is a link whose target is the reference.
fn head_text(head: &Path) -> Option<String> {
    match fs::read_link(head) {
        Ok(target) => Some(format!("ref: {}", target.to_str()?)),
        Err(_) => small_file(head),
    }
}

/// The branch, or the short commit id of a detached head.
fn branch_of(head: &str) -> Option<String> {
    let head = head.trim_end();
    match head.strip_prefix("ref:") {
        Some(reference) => {
            let name = reference.trim_start();
            let name = name.strip_prefix("refs/heads/").unwrap_or(name);
            (!name.is_empty() && !name.chars().any(char::is_control)).then(|| name.to_owned())
        }
        None => {
            let is_id =
                matches!(head.len(), 40 | 64) && head.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| head.chars().take(SHORT_ID).collect())
        }
    }
}

fn small_file(path: &Path) -> Option<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(SIZE_LIMIT + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= SIZE_LIMIT).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn repository(head: &str) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        fs::create_dir_all(path.join(".git")).unwrap();
        fs::write(path.join(".git/HEAD"), head).unwrap();
        fs::create_dir_all(path.join("a/b")).unwrap();
        (root, path)
    }

    fn found(path: &Path) -> (Option<String>, Option<String>) {
        let info = folder_info(path.to_str().unwrap());
        assert!(info.exists);
        (info.repo_root, info.branch)
    }

    fn text(path: &Path) -> Option<String> {
        Some(path.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_folder_below_a_repository_shows_its_root_and_branch() {
        let (_root, path) = repository("ref: refs/heads/topic/one\n");
        let expected = (text(&path), Some("topic/one".to_owned()));
        assert_eq!(found(&path), expected);
        assert_eq!(found(&path.join("a/b")), expected);
        assert_eq!(
            workspace_of(path.join("a").to_str().unwrap()),
            path.to_str().unwrap()
        );
    }

    #[test]
    fn a_detached_head_shows_the_short_id() {
        let (_root, path) = repository("0123456789abcdef0123456789abcdef01234567\n");
        assert_eq!(found(&path).1.as_deref(), Some("0123456"));
    }

    #[test]
    fn a_worktree_shows_the_branch_of_its_own_git_directory() {
        let (_root, path) = repository("ref: refs/heads/main\n");
        let own = path.join(".git/worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("HEAD"), "ref: refs/heads/side\n").unwrap();
        let tree = path.join("a");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(found(&tree), (text(&tree), Some("side".to_owned())));
        fs::write(tree.join(".git"), "gitdir: ../.git/worktrees/w\n").unwrap();
        assert_eq!(found(&tree), (text(&tree), Some("side".to_owned())));
    }

    #[test]
    fn missing_and_relative_folders_and_files_do_not_exist() {
        let (_root, path) = repository("ref: refs/heads/main\n");
        for path in [
            "relative",
            "",
            path.join("none").to_str().unwrap(),
            path.join(".git/HEAD").to_str().unwrap(),
        ] {
            let expected = FolderInfo {
                path: path.to_owned(),
                exists: false,
                repo_root: None,
                branch: None,
            };
            assert_eq!(folder_info(path), expected);
        }
        let plain = tempfile::tempdir().unwrap();
        assert_eq!(
            workspace_of(plain.path().to_str().unwrap()),
            plain.path().to_str().unwrap()
        );
    }

    #[test]
    fn a_head_that_leads_out_blocks_or_is_too_large_gives_no_branch() {
        let (_root, path) = repository("x");
        let head = path.join(".git/HEAD");
        let replace = |make: &dyn Fn(&Path)| {
            fs::remove_file(&head).unwrap();
            make(&head);
            found(&path)
        };
        let secret = path.join("secret");
        fs::write(&secret, "ref: refs/heads/read-through-a-link\n").unwrap();
        let no_branch = (text(&path), None);
        // A link is read as the reference that old versions of git kept there, and not followed.
        let shown = replace(&|head| symlink(&secret, head).unwrap());
        assert_eq!(shown.1.as_deref(), secret.to_str());
        let shown = replace(&|head| {
            nix::unistd::mkfifo(head, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        });
        assert_eq!(shown, no_branch);
        let large = format!("ref: refs/heads/{}", "x".repeat(5000));
        assert_eq!(replace(&|head| fs::write(head, &large).unwrap()), no_branch);
        let control = "ref: refs/heads/a\u{1b}[31mb\n";
        assert_eq!(
            replace(&|head| fs::write(head, control).unwrap()),
            no_branch
        );
        let good = "ref: refs/heads/good\n";
        assert_eq!(
            replace(&|head| fs::write(head, good).unwrap()).1.as_deref(),
            Some("good")
        );
    }

    #[test]
    fn programs_that_a_repository_configures_are_not_run() {
        let (_root, path) = repository("ref: refs/heads/main\n");
        let trap = path.join("ran");
        let config = format!(
            "[core]\n\tfsmonitor = touch {0}\n\tpager = touch {0}\n[include]\n\tpath = /dev/zero\n",
            trap.display()
        );
        fs::write(path.join(".git/config"), config).unwrap();
        assert_eq!(found(&path).1.as_deref(), Some("main"));
        assert!(!trap.exists());
    }
}

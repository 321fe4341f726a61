//! Tool lookup over faked files (launch case: "`bwrap` found first in a writable or project
//! directory on PATH").

use super::*;
use std::collections::BTreeMap;

#[derive(Default)]
struct Files {
    stats: BTreeMap<PathBuf, ToolStat>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Files {
    fn with(mut self, path: &str, uid: u32, gid: u32, mode: u32) -> Self {
        let path = PathBuf::from(path);
        let dir = ToolStat {
            uid: 0,
            gid: 0,
            mode: 0o755,
            is_file: false,
        };
        for ancestor in path.ancestors().skip(1) {
            self.stats.entry(ancestor.to_path_buf()).or_insert(dir);
        }
        let is_file = path
            .file_name()
            .is_some_and(|name| name == "bwrap" || name == "env");
        self.stats.insert(
            path,
            ToolStat {
                uid,
                gid,
                mode,
                is_file,
            },
        );
        self
    }

    fn link(mut self, from: &str, to: &str) -> Self {
        self.links.insert(PathBuf::from(from), PathBuf::from(to));
        self
    }
}

impl ToolFs for Files {
    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let target = self.links.get(path).map_or(path, PathBuf::as_path);
        self.stats
            .contains_key(target)
            .then(|| target.to_path_buf())
    }

    fn stat(&self, path: &Path) -> Option<ToolStat> {
        self.stats.get(path).copied()
    }
}

fn user() -> Searcher {
    Searcher {
        uid: 1000,
        gids: vec![1000, 50],
        overflow_uid: None,
        project: Some(PathBuf::from("/home/u/project")),
    }
}

fn root() -> Searcher {
    Searcher {
        uid: 0,
        gids: vec![0],
        overflow_uid: None,
        project: None,
    }
}

fn look(files: &Files, who: &Searcher, path: &str) -> ToolSearch {
    let dirs: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
    search(files, who, &dirs, "bwrap")
}

fn found(path: &str) -> ToolSearch {
    ToolSearch::Found {
        path: PathBuf::from(path),
        setuid: false,
        refused: Vec::new(),
    }
}

fn refused(path: &str, why: Distrust) -> ToolSearch {
    ToolSearch::Refused(vec![RefusedTool {
        path: PathBuf::from(path),
        why,
    }])
}

#[test]
fn a_tool_that_is_nowhere_on_path_is_missing() {
    let files = Files::default().with("/usr/bin/bwrap", 0, 0, 0o755);
    assert_eq!(look(&files, &user(), "/opt/bin"), ToolSearch::Missing);
    assert_eq!(search(&files, &user(), &[], "bwrap"), ToolSearch::Missing);
    assert_eq!(look(&files, &user(), "/usr/bin"), found("/usr/bin/bwrap"));
}

#[test]
fn a_file_that_cannot_be_executed_is_not_a_tool() {
    let files = Files::default().with("/usr/bin/bwrap", 0, 0, 0o644);
    assert_eq!(look(&files, &user(), "/usr/bin"), ToolSearch::Missing);
}

#[test]
fn a_system_directory_comes_first_whatever_its_place_on_path() {
    let files =
        Files::default()
            .with("/opt/tools/bwrap", 0, 0, 0o755)
            .with("/usr/bin/bwrap", 0, 0, 0o755);
    assert_eq!(
        look(&files, &user(), "/opt/tools:/usr/bin"),
        found("/usr/bin/bwrap")
    );
    assert_eq!(
        look(&files, &user(), "/opt/tools"),
        found("/opt/tools/bwrap")
    );
}

#[test]
fn a_tool_in_a_directory_of_the_user_is_passed_over_for_the_system_one() {
    let files = Files::default()
        .with("/home/u", 1000, 1000, 0o755)
        .with("/home/u/bin", 1000, 1000, 0o755)
        .with("/home/u/bin/bwrap", 0, 0, 0o755)
        .with("/usr/bin/bwrap", 0, 0, 0o755);
    let why = Distrust::WritableByUser(PathBuf::from("/home/u/bin"));
    assert_eq!(
        look(&files, &user(), "/home/u/bin"),
        refused("/home/u/bin/bwrap", why.clone())
    );
    assert_eq!(
        look(&files, &user(), "/home/u/bin:/usr/bin"),
        ToolSearch::Found {
            path: PathBuf::from("/usr/bin/bwrap"),
            setuid: false,
            refused: vec![RefusedTool {
                path: PathBuf::from("/home/u/bin/bwrap"),
                why
            }],
        }
    );
    // The same directory is another user's, and cannot be written by this one.
    let other = Searcher {
        uid: 1001,
        gids: vec![1001],
        ..user()
    };
    assert_eq!(
        look(&files, &other, "/home/u/bin"),
        found("/home/u/bin/bwrap")
    );
}

#[test]
fn a_writable_file_or_any_writable_directory_above_it_is_refused() {
    let own = Files::default().with("/opt/bwrap", 1000, 0, 0o555);
    assert_eq!(
        look(&own, &user(), "/opt"),
        refused(
            "/opt/bwrap",
            Distrust::WritableByUser(PathBuf::from("/opt/bwrap"))
        )
    );
    let group = Files::default()
        .with("/opt", 0, 50, 0o775)
        .with("/opt/bwrap", 0, 0, 0o755);
    assert_eq!(
        look(&group, &user(), "/opt"),
        refused(
            "/opt/bwrap",
            Distrust::WritableByUser(PathBuf::from("/opt"))
        )
    );
    assert_eq!(
        look(
            &group,
            &Searcher {
                gids: vec![1000],
                ..user()
            },
            "/opt"
        ),
        found("/opt/bwrap")
    );
    let above = Files::default()
        .with("/opt", 0, 0, 0o1777)
        .with("/opt/x/bin/bwrap", 0, 0, 0o755);
    assert_eq!(
        look(&above, &user(), "/opt/x/bin"),
        refused(
            "/opt/x/bin/bwrap",
            Distrust::WritableByAll(PathBuf::from("/opt"))
        )
    );
    let system = Files::default().with("/usr/bin/bwrap", 0, 0, 0o757);
    assert_eq!(
        look(&system, &root(), "/usr/bin"),
        refused(
            "/usr/bin/bwrap",
            Distrust::WritableByAll(PathBuf::from("/usr/bin/bwrap"))
        )
    );
}

#[test]
fn root_does_not_run_what_belongs_to_another_user() {
    let files = Files::default().with("/opt/bwrap", 1000, 1000, 0o755);
    assert_eq!(
        look(&files, &root(), "/opt"),
        refused(
            "/opt/bwrap",
            Distrust::OwnedByOther(PathBuf::from("/opt/bwrap"))
        )
    );
    let outside = Files::default().with("/opt/bwrap", 65534, 65534, 0o755);
    let nested = Searcher {
        overflow_uid: Some(65534),
        ..root()
    };
    assert_eq!(look(&outside, &nested, "/opt"), found("/opt/bwrap"));
    assert!(matches!(
        look(&outside, &root(), "/opt"),
        ToolSearch::Refused(_)
    ));
}

#[test]
fn the_project_and_relative_entries_are_refused_even_when_nobody_can_write_there() {
    let files = Files::default().with("/home/u/project/node_modules/.bin/bwrap", 0, 0, 0o755);
    assert_eq!(
        look(&files, &user(), "/home/u/project/node_modules/.bin"),
        refused(
            "/home/u/project/node_modules/.bin/bwrap",
            Distrust::Project(PathBuf::from("/home/u/project"))
        )
    );
    assert_eq!(
        look(&files, &user(), "node_modules/.bin"),
        refused(
            "/home/u/project/node_modules/.bin/bwrap",
            Distrust::RelativeEntry
        )
    );
    let elsewhere = Searcher {
        project: Some(PathBuf::from("/home/u/other")),
        ..user()
    };
    assert_eq!(
        look(&files, &elsewhere, "/home/u/project/node_modules/.bin"),
        found("/home/u/project/node_modules/.bin/bwrap")
    );
}

#[test]
fn a_start_in_the_root_directory_or_in_usr_does_not_make_the_system_a_project() {
    let files = Files::default().with("/usr/bin/bwrap", 0, 0, 0o755);
    for dir in ["/", "/usr", "/usr/bin"] {
        let who = Searcher {
            project: Some(PathBuf::from(dir)),
            ..user()
        };
        assert_eq!(
            look(&files, &who, "/usr/bin"),
            found("/usr/bin/bwrap"),
            "{dir}"
        );
    }
}

#[test]
fn a_link_is_followed_and_the_file_is_judged() {
    let files = Files::default()
        .with("/home/u", 1000, 1000, 0o755)
        .with("/home/u/bin/bwrap", 1000, 1000, 0o755)
        .with("/home/u/links", 1000, 1000, 0o755)
        .with("/usr/bin/bwrap", 0, 0, 0o755)
        .with("/usr/bin/env", 0, 0, 0o755)
        .with("/opt/links", 0, 0, 0o755);
    let linked = files.link("/home/u/links/bwrap", "/usr/bin/bwrap");
    assert_eq!(
        look(&linked, &user(), "/home/u/links"),
        found("/usr/bin/bwrap")
    );
    let hidden = linked.link("/opt/links/bwrap", "/home/u/bin/bwrap");
    assert_eq!(
        look(&hidden, &user(), "/opt/links"),
        refused(
            "/opt/links/bwrap",
            Distrust::WritableByUser(PathBuf::from("/home/u/bin/bwrap"))
        )
    );
    // A trusted program under a false name, by a link that the user could have made.
    let disguised = hidden.link("/home/u/links/bwrap", "/usr/bin/env");
    assert!(matches!(
        look(&disguised, &user(), "/home/u/links"),
        ToolSearch::Refused(_)
    ));
    let by_root = disguised.link("/opt/links/bwrap", "/usr/bin/env");
    assert_eq!(look(&by_root, &user(), "/opt/links"), found("/usr/bin/env"));
}

#[test]
fn the_set_user_id_bit_is_reported() {
    let files = Files::default().with("/usr/bin/bwrap", 0, 0, 0o4755);
    assert!(matches!(
        look(&files, &user(), "/usr/bin"),
        ToolSearch::Found { setuid: true, .. }
    ));
}

use super::*;
use crate::spec::{ExecRestriction, TerminalFiles, TerminalRequest};
use crate::store::{Dirs, GrantStart};
use std::path::{Path, PathBuf};

/// A home with a workspace in it, and a program's folder in that.
struct Scene {
    root: tempfile::TempDir,
    view: HostView,
    store: Arc<Store>,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(root.path()).unwrap();
        std::fs::create_dir_all(base.join("home/code/shop/target/debug")).unwrap();
        std::fs::create_dir_all(base.join("home/.cargo/bin")).unwrap();
        std::fs::write(base.join("home/code/shop/a.txt"), "").unwrap();
        let dirs = Dirs::under(&base.join("home/kotak"));
        std::fs::create_dir_all(dirs.state.join("x")).unwrap();
        let view = HostView {
            home: base.join("home"),
            passwd_home: None,
            ..HostView::read(dirs)
        };
        let store = Store::open(&Dirs::under(&base.join("store"))).0;
        Self {
            root,
            view,
            store: Arc::new(store),
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        let base = std::fs::canonicalize(self.root.path()).unwrap();
        if below.is_empty() {
            base
        } else {
            base.join(below)
        }
    }

    fn workspace(&self) -> String {
        self.path("home/code/shop").to_str().unwrap().to_owned()
    }

    fn look(&self, folder: &Path) -> Result<(), &'static str> {
        let folder = AbsPath::from_path(folder).unwrap();
        look(&self.view, &folder, &self.workspace()).map_err(|error| {
            assert!(error.fix().is_some());
            error.code()
        })
    }

    fn approve(&self, below: &str, session: Option<&str>) -> GrantInfo {
        let start = GrantStart {
            grant: Grant::Exec(AbsPath::from_path(&self.path(below)).unwrap()),
            session_id: session.map(str::to_owned),
            workspace: self.workspace(),
        };
        self.store.add_grant(start).unwrap()
    }

    fn spec(&self, session: &str, exec_restriction: ExecRestriction) -> ValidSpec {
        ValidSpec::terminal(&TerminalRequest {
            files: TerminalFiles {
                exec_restriction,
                ..TerminalFiles::default()
            },
            ..TerminalRequest::plain(session, &self.workspace(), self.path("home/code/shop"))
        })
        .unwrap()
    }

    /// What a restricted session's spec is launched with.
    fn roots(&self, session: &str) -> (Vec<String>, Vec<Joined>) {
        let mut spec = self.spec(session, ExecRestriction::Writable);
        let joined = join(&mut spec, &self.store, &self.view).unwrap();
        let base = self.path("").to_str().unwrap().to_owned() + "/";
        let below = |path: &AbsPath| path.to_string().replace(&base, "");
        (spec.approved().iter().map(below).collect(), joined)
    }

    fn standings(&self, all: &ExecGrants, session: &str) -> Vec<(i64, ExecStanding)> {
        let known = self.store.grants(None).unwrap();
        all.standings(session, &self.workspace(), known)
            .into_iter()
            .map(|each| (each.grant.id, each.standing))
            .collect()
    }
}

#[test]
fn a_folder_that_makes_no_sense_is_refused_with_its_reason_and_others_are_not() {
    // REQ UI-7
    let scene = Scene::new();
    for (below, refusal) in [
        ("home/code/shop/target/debug", None),
        ("home/code/shop/target", None),
        ("home/code/shop", None),
        ("home/code", Some("EXEC_FOLDER_TOO_WIDE")),
        ("home", Some("EXEC_FOLDER_TOO_WIDE")),
        ("", Some("EXEC_FOLDER_TOO_WIDE")),
        ("home/code/shop/a.txt", Some("EXEC_FOLDER_IS_NONE")),
        ("home/code/shop/none", Some("EXEC_FOLDER_MISSING")),
        ("home/kotak/state", Some("EXEC_FOLDER_IS_KOTAKS")),
        ("home/kotak/state/x", Some("EXEC_FOLDER_IS_KOTAKS")),
    ] {
        assert_eq!(scene.look(&scene.path(below)).err(), refusal, "{below}");
    }
    for (path, refusal) in [
        ("/", "EXEC_FOLDER_TOO_WIDE"),
        ("/usr/bin", "EXEC_FOLDER_NEEDLESS"),
        ("/dev", "EXEC_FOLDER_PRIVATE"),
    ] {
        assert_eq!(scene.look(Path::new(path)), Err(refusal));
    }
}

#[test]
fn a_folder_that_a_session_put_a_link_in_the_place_of_is_not_followed() {
    let scene = Scene::new();
    let target = scene.path("home/code/shop/target");
    scene.approve("home/code/shop/target", None);
    assert_eq!(scene.roots("s").0, ["home/code/shop/target"]);
    std::fs::remove_dir_all(&target).unwrap();
    std::os::unix::fs::symlink(scene.path("home"), &target).unwrap();
    assert_eq!(scene.look(&target), Err("EXEC_FOLDER_BEHIND_SYMLINK"));
    let below = target.join(".cargo/bin");
    assert_eq!(scene.look(&below), Err("EXEC_FOLDER_BEHIND_SYMLINK"));
    let (roots, joined) = scene.roots("s");
    assert_eq!(roots, [] as [&str; 0]);
    let problem = joined[0].outcome.clone().unwrap_err();
    assert_eq!(problem.code, "EXEC_FOLDER_BEHIND_SYMLINK");
}

#[test]
fn a_launch_takes_what_is_approved_for_it_and_its_workspace_and_only_where_programs_are_refused() {
    // REQ BW-6
    let scene = Scene::new();
    scene.approve("home/code/shop/target", None);
    scene.approve("home/code/shop/target/debug", Some("s"));
    scene.approve("home/code/shop", Some("other"));
    let (mut roots, _) = scene.roots("s");
    roots.sort();
    assert_eq!(
        roots,
        ["home/code/shop/target", "home/code/shop/target/debug"]
    );
    assert_eq!(scene.roots("t").0, ["home/code/shop/target"]);
    let mut free = scene.spec("s", ExecRestriction::Off);
    assert!(join(&mut free, &scene.store, &scene.view).is_none());
    assert_eq!(free.approved(), []);
}

#[test]
fn where_a_folder_stands_follows_from_what_was_launched_and_what_is_approved_now() {
    let scene = Scene::new();
    let all = ExecGrants::new(Arc::clone(&scene.store));
    let kept = scene.approve("home/code/shop/target", None);
    let revoked = scene.approve("home/code/shop/target/debug", Some("s"));
    let lost = scene.approve("home/.cargo/none", None);
    let (_, joined) = scene.roots("s");
    assert!(!all.restricts("s"));
    all.started("s", joined);
    assert!(all.restricts("s"));
    let later = scene.approve("home/code/shop", None);
    scene.approve("home/code/shop", Some("other"));
    scene.store.remove_grant(revoked.id).unwrap();
    assert_eq!(
        scene.standings(&all, "s"),
        [
            (kept.id, ExecStanding::InForce),
            (revoked.id, ExecStanding::Revoked),
            (lost.id, ExecStanding::Unusable),
            (later.id, ExecStanding::NextStart),
        ]
    );
    let uses = scene.store.grant_uses().unwrap();
    let of = |id| uses.iter().find(|each| each.grant == id).unwrap();
    assert_eq!(of(kept.id).inside, kept.path);
    let problem = of(lost.id).problem.clone().unwrap();
    assert_eq!(problem.code, "EXEC_FOLDER_MISSING");
    // What cannot be used and is revoked is nothing any more.
    scene.store.remove_grant(lost.id).unwrap();
    assert_eq!(scene.standings(&all, "s").len(), 3);
    all.ended("s");
    let left = [
        (kept.id, ExecStanding::NextStart),
        (later.id, ExecStanding::NextStart),
    ];
    assert_eq!(scene.standings(&all, "s"), left);
}

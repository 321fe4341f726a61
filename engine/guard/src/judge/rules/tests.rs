use super::*;
use proptest::prelude::*;

const ALL: [Deed; 9] = [
    Deed::MakeDirectory,
    Deed::MakeFile,
    Deed::MakeSymlink,
    Deed::MakeOther,
    Deed::Write,
    Deed::Permit,
    Deed::Unlink,
    Deed::RemoveDirectory,
    Deed::MoveAway,
];

fn file_rules() -> FileRules {
    let list = |paths: &[&str]| paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    FileRules {
        roots: list(&["/home/u", "/home/u/state/inner", "/ws"]),
        exempt: list(&["/home/u/state"]),
        names: [".env", "*.key", "secrets/*.txt"]
            .map(str::to_owned)
            .to_vec(),
        exceptions: ["certs/*.key"].map(str::to_owned).to_vec(),
        protected: list(&["/home/u/.config/fish", "/home/u/.bashrc", "/ws/a/b/c"]),
        anywhere: list(&[".vscode"]),
        git: true,
        inodes: vec![FileNode { dev: 1, ino: 2 }],
    }
}

fn rules() -> Rules {
    Rules::new(&file_rules()).unwrap()
}

fn verdict(path: &str, deed: Deed) -> Verdict {
    rules().verdict(path.as_bytes(), deed)
}

fn name(glob: &str) -> Verdict {
    Verdict::Refuse(Rule::Name(glob.to_owned()))
}

fn is_refused_by_git(path: &str, deed: Deed) -> bool {
    matches!(verdict(path, deed), Verdict::Refuse(Rule::Git(_)))
}

#[test]
fn a_name_is_matched_in_any_case_with_any_bytes_and_for_every_deed() {
    for deed in ALL {
        for path in ["/ws/.env", "/ws/d/.ENV", "/home/u/state/inner/.env"] {
            assert_eq!(verdict(path, deed), name(".env"), "{path}");
        }
        for path in ["/ws/x.key", "/ws/X.Key", "/ws/a\n.key", "/ws/.key"] {
            assert_eq!(verdict(path, deed), name("*.key"), "{path}");
        }
        // Beside: part of a name, a directory's name above, the root itself.
        for path in [
            "/ws/x.keys",
            "/ws/.env/x",
            "/ws/.envrc",
            "/ws/a.key/b",
            "/ws",
        ] {
            assert_eq!(verdict(path, deed), Verdict::Allow, "{path}");
        }
        assert_eq!(rules().verdict(b"/ws/\xff\xfe.key", deed), name("*.key"));
        assert_eq!(rules().verdict(b"/ws/\xff\xfe.kez", deed), Verdict::Allow);
    }
}

#[test]
fn what_a_file_system_without_regard_to_case_takes_for_a_name_is_that_name() {
    for path in [
        "/ws/x.\u{212a}ey",
        "/ws/.e\u{200d}nv",
        "/ws/.\u{ad}env",
        "/ws/.vs\u{200b}code",
        "/ws/.v\u{17f}code/x",
    ] {
        let found = verdict(path, Deed::MakeFile);
        assert!(matches!(found, Verdict::Refuse(_)), "{path}");
    }
    for path in ["/ws/é.txt", "/ws/\u{200d}", "/ws/schlüssel.keÿ"] {
        assert_eq!(verdict(path, Deed::MakeFile), Verdict::Allow, "{path}");
    }
}

#[test]
fn a_glob_with_a_slash_is_matched_below_the_root_and_exceptions_lift_names_only() {
    let deed = Deed::MakeFile;
    for path in ["/ws/secrets/a.txt", "/ws/d/e/Secrets/a.TXT"] {
        assert_eq!(verdict(path, deed), name("secrets/*.txt"), "{path}");
    }
    for path in [
        "/ws/secrets/d/a.txt",
        "/ws/secrets",
        "/ws/a.txt",
        "/ws/x/certs/a.key",
    ] {
        assert_eq!(verdict(path, deed), Verdict::Allow, "{path}");
    }
    assert_eq!(verdict("/ws/certs/d/a.key", deed), name("*.key"));
    let excepted = "/ws/certs/.vscode/../x.key";
    assert!(matches!(
        verdict(excepted, deed),
        Verdict::Refuse(Rule::Anywhere(_))
    ));
}

#[test]
fn the_deepest_root_or_exempt_tree_decides() {
    let deed = Deed::MakeFile;
    assert_eq!(verdict("/home/u/state/.env", deed), Verdict::Allow);
    assert_eq!(verdict("/home/u/statement/.env", deed), name(".env"));
    assert_eq!(verdict("/home/u/state/inner/d/.env", deed), name(".env"));
    assert_eq!(verdict("/tmp/.env", deed), Verdict::Allow);
    assert_eq!(verdict("/wsx/.env", deed), Verdict::Allow);
    let everything = FileRules {
        roots: vec![b"/".to_vec()],
        names: vec!["etc/*.key".to_owned()],
        ..FileRules::default()
    };
    let everything = Rules::new(&everything).unwrap();
    assert_eq!(everything.verdict(b"/etc/x.key", deed), name("etc/*.key"));
}

#[test]
fn protected_paths_hold_whether_they_exist_and_their_ancestors_stay() {
    let protected = |path: &str| Verdict::Refuse(Rule::Protected(path.as_bytes().to_vec()));
    let ancestor = |path: &str| Verdict::Refuse(Rule::Ancestor(path.as_bytes().to_vec()));
    for deed in ALL {
        for path in ["/home/u/.config/fish", "/home/u/.config/fish/x/y"] {
            assert_eq!(verdict(path, deed), protected("/home/u/.config/fish"));
        }
        assert_eq!(
            verdict("/home/u/.bashrc", deed),
            protected("/home/u/.bashrc")
        );
        assert_eq!(verdict("/home/u/.bashrc2", deed), Verdict::Allow);
        let expected = match deed {
            Deed::MakeDirectory | Deed::Write => Verdict::Allow,
            _ => ancestor("/home/u/.config/fish"),
        };
        assert_eq!(verdict("/home/u/.config", deed), expected, "{deed:?}");
        // Ancestors at or above the root are no business of the rules.
        assert_eq!(verdict("/home", deed), Verdict::Allow);
    }
    assert_eq!(verdict("/ws/a", Deed::MoveAway), ancestor("/ws/a/b/c"));
    let rules = rules();
    let below = |dir: &[u8]| {
        rules
            .protected_below(dir)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    assert_eq!(below(b"/ws/a"), [b"/ws/a/b/c".to_vec()]);
    assert_eq!(below(b"/ws/a/b/c"), Vec::<Vec<u8>>::new());
    assert_eq!(below(b"/home/u/.conf"), Vec::<Vec<u8>>::new());
    assert_eq!(below(b"/").len(), 3);
}

#[test]
fn a_protected_path_is_protected_in_every_case() {
    let fish = b"/home/u/.config/fish".to_vec();
    for path in [
        "/home/u/.config/Fish",
        "/home/u/.CONFIG/fi\u{17f}h/x",
        "/home/u/.config/\u{fb01}sh",
    ] {
        for deed in ALL {
            let refused = Verdict::Refuse(Rule::Protected(fish.clone()));
            assert_eq!(verdict(path, deed), refused, "{path}");
        }
    }
    let ancestor = Verdict::Refuse(Rule::Ancestor(fish.clone()));
    assert_eq!(verdict("/home/u/.Config", Deed::MakeSymlink), ancestor);
    assert_eq!(
        verdict("/home/u/.Config", Deed::MakeDirectory),
        Verdict::Allow
    );
    assert_eq!(
        verdict("/home/u/.Config/fis", Deed::MakeFile),
        Verdict::Allow
    );
    let rules = rules();
    let below: Vec<&[u8]> = rules.protected_below(b"/home/u/.CONFIG").collect();
    assert_eq!(below, [fish.as_slice()]);
    assert_eq!(rules.protected_below(b"/home/u/.conf").count(), 0);
}

#[test]
fn what_makes_git_run_programs_is_refused_or_judged_by_content() {
    let config = Verdict::Content(GitFile::Config);
    for deed in [Deed::MakeFile, Deed::Write] {
        assert_eq!(verdict("/ws/.git/config", deed), config);
        assert_eq!(verdict("/ws/r/.git/modules/m/config", deed), config);
        assert_eq!(verdict("/ws/.git", deed), Verdict::Content(GitFile::Link));
        let commondir = "/ws/.git/worktrees/w/commondir";
        assert_eq!(
            verdict(commondir, deed),
            Verdict::Content(GitFile::Commondir)
        );
        for path in [
            "/ws/.git/config.lock",
            "/ws/.git/HEAD",
            "/ws/.git/refs/heads/hooks",
        ] {
            assert_eq!(verdict(path, deed), Verdict::Allow, "{path}");
        }
        assert_eq!(verdict("/ws/.git/hooks/x.sample", deed), Verdict::Allow);
        assert!(is_refused_by_git("/ws/.git/hooks/pre-commit", deed));
        assert!(is_refused_by_git("/ws/.GIT/Hooks/pre-commit", deed));
    }
    for path in [
        "/ws/.git",
        "/ws/.git/config",
        "/ws/.git/hooks",
        "/ws/.git/x",
        "/ws/.git/refs/x",
    ] {
        assert!(is_refused_by_git(path, Deed::MakeSymlink), "{path}");
    }
    for path in ["/ws/.git/config", "/ws/.git/hooks/x.sample", "/ws/.git"] {
        assert!(is_refused_by_git(path, Deed::MakeOther), "{path}");
    }
    assert_eq!(verdict("/ws/.git", Deed::MakeDirectory), Verdict::Allow);
    assert_eq!(
        verdict("/ws/.git/hooks", Deed::MakeDirectory),
        Verdict::Allow
    );
    assert!(is_refused_by_git("/ws/.git/hooks", Deed::MoveAway));
    assert!(is_refused_by_git("/ws/.git/hooks/pre-commit", Deed::Unlink));
    let off = FileRules {
        git: false,
        ..file_rules()
    };
    let off = Rules::new(&off).unwrap();
    assert_eq!(
        off.verdict(b"/ws/.git/hooks/x", Deed::MakeFile),
        Verdict::Allow
    );
}

#[test]
fn a_file_on_its_way_to_its_place_is_nobodys() {
    for path in [
        "/ws/.git/.kotak-git-1",
        "/ws/.Kotak-Git-1-2",
        "/ws/a.git/.kotak-git-",
    ] {
        for deed in ALL {
            // One that was left behind can be taken away.
            let permitted = deed == Deed::Unlink;
            assert_eq!(is_refused_by_git(path, deed), !permitted, "{path} {deed:?}");
        }
    }
    assert_eq!(verdict("/ws/.kotak-gi", Deed::MakeFile), Verdict::Allow);
    let without = Rules::new(&FileRules {
        git: false,
        ..file_rules()
    });
    let found = without.unwrap().verdict(b"/ws/.kotak-git-1", Deed::Write);
    assert_eq!(found, Verdict::Allow);
}

#[test]
fn what_moves_along_is_judged_where_it_was_and_where_it_comes() {
    let rules = rules();
    let moved =
        |old: &str, new: &str| rules.moved_verdict(old.as_bytes(), new.as_bytes(), Deed::MakeFile);
    // Matching before and after.
    assert_eq!(moved("/ws/a/.env", "/ws/b/.env"), Verdict::Allow);
    assert_eq!(
        moved("/ws/x/a.txt", "/ws/secrets/a.txt"),
        name("secrets/*.txt")
    );
    assert_eq!(
        moved("/ws/secrets/a.txt", "/ws/x/a.txt"),
        name("secrets/*.txt")
    );
    assert_eq!(moved("/ws/certs/a.key", "/ws/x/a.key"), name("*.key"));
    assert_eq!(
        moved("/home/u/state/d/.env", "/home/u/d/.env"),
        name(".env")
    );
    let config = Verdict::Content(GitFile::Config);
    assert_eq!(moved("/ws/g/config", "/ws/.git/config"), config);
    // What it may name depends on where it stands.
    assert_eq!(moved("/ws/a/.git/config", "/ws/b/.git/config"), config);
    assert_eq!(moved("/ws/a/.git", "/ws/b/.git"), Verdict::Allow);
    assert!(matches!(
        moved("/ws/g/hooks/x", "/ws/.git/hooks/x"),
        Verdict::Refuse(Rule::Git(_))
    ));
    assert!(rules.depends_on_place(b"/ws/g", b"/ws/.git"));
    let plain = FileRules {
        names: vec![".env".to_owned()],
        exceptions: vec![],
        ..file_rules()
    };
    let plain = Rules::new(&plain).unwrap();
    assert!(!plain.depends_on_place(b"/ws/x", b"/ws/y"));
    assert!(plain.depends_on_place(b"/ws/x", b"/home/u/x"));
    assert!(plain.depends_on_place(b"/home/u/state/x", b"/home/u/x"));
    assert!(plain.depends_on_place(b"/home/u", b"/home/v"));
    assert!(plain.depends_on_place(b"/ws/.git", b"/ws/g"));
    assert!(plain.depends_on_place(b"/ws/.git/modules/a", b"/ws/.git/modules/b"));
}

#[test]
fn what_could_be_a_bare_repository_is_named_by_its_directory() {
    let rules = rules();
    let dirs = |path: &str| -> Vec<String> {
        let found = rules.bare_candidates(path.as_bytes());
        found
            .into_iter()
            .map(|end| path[..end].to_owned())
            .collect()
    };
    assert_eq!(dirs("/ws/r/config"), ["/ws/r"]);
    assert_eq!(dirs("/ws/r/HEAD"), ["/ws/r"]);
    assert_eq!(dirs("/ws/r/Hooks/x/config"), ["/ws/r", "/ws/r/Hooks/x"]);
    assert_eq!(dirs("/ws/config/x"), [""; 0]);
    assert_eq!(dirs("/ws/.git/config"), [""; 0]);
    assert_eq!(dirs("/tmp/r/config"), [""; 0]);
}

#[test]
fn what_is_no_rule_is_an_error() {
    let wrong = |change: fn(&mut FileRules)| {
        let mut rules = file_rules();
        change(&mut rules);
        Rules::new(&rules).err()
    };
    let glob = wrong(|rules| rules.names.push("[".to_owned()));
    assert!(matches!(glob, Some(RulesError::Glob { .. })));
    for path in ["relative", "/a/", "/a//b", "/a/../b", "/a/.", ""] {
        for place in 0..3 {
            let mut rules = file_rules();
            let lists = [&mut rules.roots, &mut rules.exempt, &mut rules.protected];
            lists.into_iter().nth(place).unwrap().push(path.into());
            let found = Rules::new(&rules).err();
            assert!(matches!(found, Some(RulesError::Path { .. })), "{path}");
        }
    }
    let name = wrong(|rules| rules.anywhere.push(b"a/b".to_vec()));
    assert!(matches!(name, Some(RulesError::Name { .. })));
    assert!(wrong(|_| {}).is_none());
}

#[test]
fn inodes_are_known() {
    assert!(rules().is_protected_inode(FileNode { dev: 1, ino: 2 }));
    assert!(!rules().is_protected_inode(FileNode { dev: 2, ino: 1 }));
}

fn component() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        any::<u8>().prop_filter("no separator", |byte| !matches!(byte, 0 | b'/')),
        1..12,
    )
    .prop_filter("no dots", |name| !matches!(&name[..], b"." | b".."))
}

proptest! {
    #[test]
    fn a_forbidden_name_is_refused_wherever_it_is(
        dirs in proptest::collection::vec(component(), 0..5),
        before in component(),
        upper in any::<bool>(),
    ) {
        let mut path = b"/ws".to_vec();
        for dir in &dirs {
            path.push(b'/');
            path.extend_from_slice(dir);
        }
        let excepted = dirs.last().is_some_and(|dir| dir.eq_ignore_ascii_case(b"certs"));
        prop_assume!(!excepted);
        path.push(b'/');
        path.extend_from_slice(&before);
        path.extend_from_slice(if upper { b".KEY" } else { b".key" });
        for deed in ALL {
            let found = rules().verdict(&path, deed);
            prop_assert!(matches!(found, Verdict::Refuse(_)), "{:?}", found);
        }
    }

    #[test]
    fn what_lies_outside_every_root_is_never_judged(
        dirs in proptest::collection::vec(component(), 1..6),
    ) {
        let mut path = b"/out".to_vec();
        for dir in &dirs {
            path.push(b'/');
            path.extend_from_slice(dir);
        }
        for deed in ALL {
            prop_assert_eq!(rules().verdict(&path, deed), Verdict::Allow);
        }
    }

    #[test]
    fn nothing_at_or_below_a_protected_path_is_let_through(
        dirs in proptest::collection::vec(component(), 0..6),
    ) {
        let mut path = b"/home/u/.config/fish".to_vec();
        for dir in &dirs {
            path.push(b'/');
            path.extend_from_slice(dir);
        }
        for deed in ALL {
            prop_assert!(matches!(
                rules().verdict(&path, deed),
                Verdict::Refuse(Rule::Protected(_))
            ));
        }
    }
}

//! What makes git run programs, in repositories that exist and in those that are made inside.

use kotak_tests::field::{Field, Rules};

const GIT: &str = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com \
    GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com; ";

/// Each attempt arms nothing and is in the history, and succeeds without a sandbox. What it leads
/// to inside is not asked: a configuration is judged when it is closed, and no shell looks at that.
#[track_caller]
fn refused_in(prepare: &str, attempts: &[&str]) {
    for attempt in attempts {
        let field = Field::new();
        field.prepare(&format!("{GIT}{prepare}"));
        let before = field.inventory();
        let run = field.shell(&Rules::names(), &format!("{GIT}{attempt}"));
        let held: Vec<_> = field.inventory();
        let armed = |list: &[(std::path::PathBuf, Option<Vec<u8>>)]| {
            list.iter()
                .filter(|(_, content)| {
                    content
                        .as_ref()
                        .is_some_and(|content| content.windows(4).any(|part| part == b"evil"))
                })
                .filter(|(path, _)| path.components().any(|part| part.as_os_str() == ".git"))
                .count()
        };
        assert_eq!(
            (armed(&before), armed(&held)),
            (0, 0),
            "`{attempt}`: {held:?}"
        );
        let rows = field.refusals(&run.session);
        assert!(
            !rows.is_empty(),
            "`{attempt}` is not in the history: {run:?}"
        );
        let free = Field::new();
        free.prepare(&format!("{GIT}{prepare}"));
        let control = free.outside(&format!("{GIT}{attempt}"));
        assert!(control.succeeded(), "the control `{attempt}`: {control:?}");
    }
}

#[test]
fn hooks_of_a_repository_made_inside_cannot_be_made() {
    refused_in(
        "true",
        &[
            "git init -q r && echo evil > r/.git/hooks/pre-commit",
            "mkdir -p r/.git/hooks && echo evil > r/.git/hooks/pre-commit",
            "mkdir -p r/.git/hooks/sub && echo evil > r/.git/hooks/sub/x",
            "git init -q r && cp r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit && echo evil",
            "git init -q r && mv r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit",
            "git init -q r && ln r/.git/hooks/pre-commit.sample r/.git/hooks/pre-commit",
            "git init -q r && ln -s /bin/true r/.git/hooks/pre-commit",
            "git init -q r && rm -r r/.git/hooks && mkdir evil && ln -s ../evil r/.git/hooks",
            "git init -q r && rm -r r/.git/hooks && mkdir h && echo evil > h/pre-commit && mv h r/.git/hooks",
            "mkdir -p g/hooks && echo evil > g/hooks/pre-commit && mkdir r && mv g r/.git",
            "mkdir g && ln -s g .git",
            "git init -q r && git -C r config core.hooksPath evil",
            "git init -q r && git -C r config core.fsmonitor evil",
            "git init -q r && git -C r config alias.x '!evil'",
            "git init -q r && git -C r config filter.x.clean evil",
            "git init -q r && printf '[core]\\n\\tpager = evil\\n' > r/.git/config",
            "git init -q r && printf '[core]\\n\\tpager = evil\\n' > c && mv c r/.git/config",
            "mkdir -p d/objects d/refs && mkdir s && printf 'gitdir: ../d\\nevil' > s/.git",
        ],
    );
}

#[test]
fn a_protected_repository_stays_where_it_is() {
    // The shared case: mv .git g; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit
    refused_in(
        "git init -q r && cd r && git commit -q --allow-empty -m one",
        &[
            "cd r && mv .git g && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
            "cd r && echo evil > .git/hooks/pre-commit",
            "cd r && mv .git/hooks h",
            "cd r && git config core.editor evil",
        ],
    );
}

#[test]
fn git_works_in_a_repository_made_inside() {
    let script = format!(
        "{GIT}set -e; git init -q -b main r; cd r; git config user.name me; git config pull.rebase true; \
         git remote add origin ../other; echo x > f; ln -s f link; git add f link; git commit -qm one; git config --get core.symlinks || true; git branch side; \
         git branch -u main side; git worktree add -q ../tree side; cd ../tree; echo y > g; git add g; \
         git commit -qm two; cd ../r; git merge -q side; git worktree remove ../tree; cd ..; \
         git clone -q r copy; git -C copy log --format=%s; \
         git -C r -c protocol.file.allow=always submodule --quiet add ../copy sub; git -C r commit -qm sub; \
         git clone -q --bare r bare.git; git -C r gc -q; git -C r config --get pull.rebase; cat r/sub/f; readlink copy/link r/sub/link"
    );
    let field = Field::new();
    let control = field.outside(&script);
    assert!(control.succeeded(), "the control: {control:?}");
    let field = Field::new();
    let run = field.shell(&Rules::names(), &script);
    assert_eq!(
        (run.outcome.code, &run.outcome.stdout),
        (control.code, &control.stdout),
        "{run:?} {:?}",
        field.refusals(&run.session)
    );
    assert_eq!(field.refusals(&run.session), Vec::new());
}

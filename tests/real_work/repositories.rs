//! Version control, archives and databases.

use crate::{Work, same_device};
use kotak_tests::stage::skip;

#[test]
fn git_commits_rebases_clones_and_keeps_work_trees_and_submodules() {
    Work::new(&["git"], "mkdir lib && cd lib && export GIT_AUTHOR_DATE=1700000000+0000 GIT_COMMITTER_DATE=1700000000+0000 && git init -q -b main && git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m lib")
        // Indexes hold times and inodes; names of packs those of what they hold, in some order.
        .volatile(&["/index", ".idx", ".pack", ".rev", "/gitdir", ".git", "/FETCH_HEAD", "commit-graph", "packs"])
        .is_the_same(
            "rm -rf lib/.git/logs; git init -q -b main r; cd r; git config user.name me; git config gc.auto 0; \
             for i in 1 2 3 4 5; do echo $i > f$i; git add f$i; git commit -qm c$i; done; \
             git checkout -q -b side HEAD~3; echo s > s; git add s; git commit -qm side; git rebase -q main; \
             git checkout -q main; git merge -q side; git stash list; echo dirty >> f1; git stash -q; git stash pop -q; git checkout -q f1; \
             git tag v1; git worktree add -q ../tree v1; git -C ../tree log --format='%s %h'; git worktree remove ../tree; \
             git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -qm module; git submodule --quiet update; git submodule status; \
             cd ..; git clone -q r copy 2>/dev/null; git -C copy log --format='%s %h' | head -3; git -C copy checkout -q -b new; \
             git -C copy commit -q --allow-empty -m pushed; git -C copy push -q origin new 2>/dev/null; git -C r branch; \
             git -C r cherry-pick --no-commit new~1 2>/dev/null || true; git -C r reset -q --hard; git -C r fsck 2>/dev/null; \
             rm -f r/.git/ORIG_HEAD r/.git/hooks/*.sample copy/.git/hooks/*.sample r/.git/modules/lib/hooks/*.sample; find . -name objects -type d -prune -exec rm -rf {} +; find . -name logs -type d -prune -exec rm -rf {} +",
        );
}

#[test]
fn fifty_thousand_files_are_unpacked() {
    let work = Work::new(
        &["tar"],
        "seq -f 'd%g' 0 499 | xargs mkdir; for d in d*; do (cd $d; seq -f 'f%g' 0 99 | xargs touch); done; \
         tar --sort=name --mtime=@1700000000 -cf all.tar d*; rm -rf d*",
    );
    work.is_the_same("tar -xf all.tar; find . -type f | wc -l; rm -rf d1 d2; find d3 | wc -l");
    let own = same_device(&work.field().work(), std::path::Path::new("/"));
    println!("unpacked on the file system of `/`: {own}");
}

#[test]
fn sqlite_writes_its_journals_and_databases() {
    Work::new(&["sqlite3"], "true")
        .volatile(&[".db"])
        .is_the_same(
            "for mode in wal delete truncate persist memory; do \
             sqlite3 $mode.db \"pragma journal_mode=$mode; create table t(x); begin; with recursive c(x) as (select 1 union all select x+1 from c where x<2000) insert into t select x from c; commit; select sum(x) from t; vacuum;\"; \
             sqlite3 $mode.db 'select count(*) from t; pragma integrity_check'; done; rm -f *-journal",
        );
}

#[test]
fn python_uses_sqlite_by_itself() {
    Work::new(&["python3"], "true").volatile(&[".db"]).is_the_same(
        "python3 -c 'import sqlite3\nc = sqlite3.connect(\"a.db\")\nc.execute(\"pragma journal_mode=wal\")\nc.execute(\"create table t(x)\")\nc.executemany(\"insert into t values (?)\", ((i,) for i in range(500)))\nc.commit()\nprint(c.execute(\"select sum(x) from t\").fetchone())\nc.close()\n'",
    );
}

#[test]
fn everyday_tools_change_files_in_place() {
    Work::new(&["sed", "perl", "gzip", "patch", "install"], "seq 1000 > numbers; cp numbers other").is_the_same(
        "sed -i 's/7/seven/' numbers; perl -pi -e 's/1/one/' other; sort -o numbers numbers; \
         gzip -nk other; gunzip -c other.gz | cmp - other; cp -a numbers copy; mv copy moved; ln numbers hard; ln -s numbers soft; \
         install -m 755 numbers installed; printf -- '--- other\\n+++ other\\n@@ -1,1 +1,1 @@\\n-one\\n+first\\n' | patch -s other; \
         dd if=/dev/zero of=sparse bs=1 count=1 seek=1M 2>/dev/null; truncate -s 10 sparse; split -l 300 numbers part.; \
         find . -name 'part.*' -exec chmod 640 {} +; mkfifo pipe; (echo through > pipe &); cat pipe; rm pipe; \
         tar -czf - numbers other 2>/dev/null | tar -tzf -; mkdir -p a/b/c; rmdir -p a/b/c; touch -d @1700000000 soft; \
         diff -u numbers other | wc -l; rm -f other.gz",
    );
}

#[test]
fn rsync_mirrors_a_tree() {
    let work = Work::new(
        &["rsync"],
        "mkdir -p from/a/b; seq 100 > from/a/x; seq 200 > from/a/b/y; ln -s x from/a/l",
    );
    if !std::path::Path::new("/usr/bin/rsync").exists() {
        skip("rsync is not installed");
        return;
    }
    work.is_the_same("rsync -a --delete from/ to/; seq 5 > from/a/x; rm from/a/b/y; rsync -a --delete --checksum from/ to/; find to | sort");
}

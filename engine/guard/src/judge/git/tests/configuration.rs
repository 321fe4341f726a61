use super::super::{config, config_at, config_change, config_move};
use proptest::prelude::*;

fn refused(text: &[u8], named: &str) {
    let reason = config(text).expect_err(&format!("accepted: {}", String::from_utf8_lossy(text)));
    assert!(reason.contains(named), "`{named}` is not in `{reason}`");
}

fn accepted(text: &str) {
    assert_eq!(config(text.as_bytes()), Ok(()), "{text}");
}

#[test]
fn what_git_writes_is_harmless() {
    for text in [
        "",
        "\n\n# a comment\n; another\n",
        // git init, also of a bare repository, and on other systems.
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
        "[core]\r\n\trepositoryformatversion = 0\r\n\tsymlinks = false\r\n\tignorecase = true\r\n\tprecomposeunicode = true\r\n",
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n\trefStorage = reftable\n",
        // git clone, with a branch and a partial one.
        "[remote \"origin\"]\n\turl = https://example.com/a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
        "[remote \"origin\"]\n\turl = git@example.com:a/b.git\n\tpromisor = true\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialClone = origin\n",
        "[remote \"up\"]\n\turl = ../other\n\tpushurl = ssh://git@[2001:db8::1]:22/x\n\tmirror = true\n\ttagOpt = --no-tags\n",
        "[remote \"x\"]\n\turl = /srv/git/a b.git\n\turl = file:///srv/x\n\turl = git://h/x\n\turl = user@host.example:~/x\n",
        // git submodule, worktree, sparse-checkout.
        "[submodule]\n\tactive = .\n[submodule \"a/b\"]\n\turl = ../lib\n\tactive = true\n\tupdate = rebase\n",
        "[extensions]\n\tworktreeConfig = true\n[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n",
        // Users and their tools.
        "[user]\n\tname = \"A. U. Thor\"\n\temail = a@example.com ; mine\n\tsigningkey = ABCD1234\n[commit]\n\tgpgsign\n",
        "[pull]\n\trebase = merges\n\tff = only\n[push]\n\tdefault = simple\n\tautoSetupRemote = true\n[rebase]\n\tautosquash=on\n",
        "[color]\n\tui = auto\n[color \"diff\"]\n\tmeta = \"bold #ff8800\"\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n\tpruneExpire = 2.weeks.ago\n",
        "[branch \"x\"]\n\trebase = true\n\tdescription = why it is\\nso\n\tvscode-merge-base = origin/main\n",
        "[lfs]\n\trepositoryformatversion = 0\n[lfs \"https://example.com/a.git/info/lfs\"]\n\taccess = basic\n",
        "[url \"https://example.com/\"]\n\tinsteadOf = git@example.com:\n\tinsteadOf = ssh://git@example.com/\n",
        "[url \"git@example.com:\"]\n\tpushInsteadOf = https://example.com/\n",
        "[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n[core]\n\twhitespace = trailing-space,-tab-in-indent,tabwidth=4\n",
        // Odd, and harmless all the same.
        "\u{feff}[core]bare=false",
        "[user]\n\tname = a\\\n  b\n",
    ] {
        if text.contains("why it is") {
            refused(text.as_bytes(), "branch.x.description");
        } else {
            accepted(text);
        }
    }
}

#[test]
fn every_setting_that_runs_a_program_is_refused_by_name() {
    for key in [
        "core.hooksPath",
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "core.pager",
        "core.gitProxy",
        "core.askPass",
        "core.alternateRefsCommand",
        "core.attributesFile",
        "core.excludesFile",
        "core.useReplaceRefs",
        "core.alternateRefsPrefixes",
        "sequence.editor",
        "diff.external",
        "diff.tool",
        "diff.guitool",
        "diff.orderFile",
        "merge.tool",
        "merge.guitool",
        "interactive.diffFilter",
        "init.templateDir",
        "credential.helper",
        "credential.useHttpPath",
        "gpg.program",
        "gpg.format",
        "gc.recentObjectsHook",
        "gc.repackFilterTo",
        "include.path",
        "uploadpack.packObjectsHook",
        "receive.denyCurrentBranch",
        "receive.procReceiveRefs",
        "protocol.allow",
        "man.viewer",
        "web.browser",
        "help.browser",
        "instaweb.httpd",
        "trailer.ifexists",
        "sendemail.smtpServer",
        "imap.tunnel",
        "ssh.variant",
        "http.proxy",
        "http.cookieFile",
        "http.sslVerify",
        "alias.st",
        "pager.log",
        "commit.template",
        "format.pretty",
        "format.headers",
        "pull.octopus",
        "pull.twohead",
        "merge.default",
        "rebase.instructionFormat",
        "push.pushOption",
        "fetch.bundleURI",
        "transfer.bundleURI",
        "mailmap.file",
        "log.showSignature",
        "safe.directory",
        "svn.authorsFile",
        "gui.diffopts",
        "blame.ignoreRevsFileX",
        "maintenance.repo",
        "trace2.eventTarget",
        "bundle.version",
        "lfs.url",
        "lfs.standalonetransferagent",
        "lfs.concurrenttransfers",
        "lfs.path",
        "clone.defaultRemoteName",
        "sendpack.sideband",
        "showbranch.default",
        "unknown.key",
        "core.unknown",
        "user.unknown",
        "extensions.unknown",
        "remote.unknown",
        "branch.unknown",
    ] {
        let (section, name) = key.split_once('.').expect("a dot");
        let shown = format!("{}.{}", section.to_lowercase(), name.to_lowercase());
        for line in [
            format!("[{section}]\n{name} = true\n"),
            format!("[{section}] {name} = true"),
            format!(
                "[{}]\n\t{} = x\n",
                section.to_uppercase(),
                name.to_uppercase()
            ),
            format!("[user]\n\tname = x\n[{section}]\n\t{name} = \\\n/bin/sh\n"),
        ] {
            refused(line.as_bytes(), &shown);
        }
    }
    for (heading, key) in [
        ("filter \"lfs\"", "clean"),
        ("filter \"lfs\"", "smudge"),
        ("filter \"x\"", "process"),
        ("filter \"x\"", "required"),
        ("diff \"x\"", "command"),
        ("diff \"x\"", "textconv"),
        ("diff \"x\"", "binary"),
        ("diff \"x\"", "xfuncname"),
        ("merge \"x\"", "driver"),
        ("merge \"x\"", "name"),
        ("difftool \"x\"", "cmd"),
        ("mergetool \"x\"", "path"),
        ("gpg \"ssh\"", "program"),
        ("gpg \"ssh\"", "defaultKeyCommand"),
        ("gpg \"ssh\"", "allowedSignersFile"),
        ("includeIf \"gitdir:/\"", "path"),
        ("protocol \"ext\"", "allow"),
        ("remote \"o\"", "uploadpack"),
        ("remote \"o\"", "receivepack"),
        ("remote \"o\"", "vcs"),
        ("remote \"o\"", "proxy"),
        ("branch \"m\"", "mergeOptions"),
        ("trailer \"x\"", "command"),
        ("trailer \"x\"", "cmd"),
        ("tar \"x\"", "command"),
        ("tar \"tar.gz\"", "command"),
        ("man \"x\"", "cmd"),
        ("browser \"x\"", "cmd"),
        ("guitool \"x\"", "cmd"),
        ("hook \"x\"", "command"),
        ("lfs \"customtransfer.x\"", "path"),
        ("lfs \"extension.x\"", "clean"),
        ("credential \"https://x\"", "helper"),
        ("http \"https://x\"", "extraHeader"),
        ("core \"x\"", "bare"),
        ("user \"x\"", "name"),
        ("core \"\"", "bare"),
        ("alias \"x\"", "command"),
        ("submodule \"x\"", "path"),
        ("svn-remote \"svn\"", "url"),
    ] {
        let text = format!("[{heading}]\n\t{key} = true\n");
        refused(text.as_bytes(), &format!(".{}` ", key.to_lowercase()));
    }
}

#[test]
fn values_that_make_a_harmless_setting_a_program_are_refused() {
    for text in [
        "[submodule \"x\"]\n\tupdate = !touch /tmp/x\n",
        "[submodule \"x\"]\n\tupdate = \"!touch /tmp/x\"\n",
        "[submodule \"x\"]\n\tupdate = Checkout\n",
        "[submodule \"x\"]\n\tupdate\n",
        "[branch \"m\"]\n\trebase = !x\n",
        "[commit]\n\tgpgsign = /bin/sh\n",
        "[user]\n\tsigningkey = --output=/tmp/x\n",
        "[user]\n\tname = \"a\\nb\"\n",
        "[user]\n\tname\n",
        "[i18n]\n\tcommitEncoding = ../../tmp/x\n",
        "[core]\n\tprotectNTFS = false\n",
        "[core]\n\tprotectHFS = 0\n",
        "[core]\n\tsharedRepository = 0777\n",
        "[core]\n\tsharedRepository = all\n",
        "[core]\n\tbare = maybe\n",
        "[core]\n\trepositoryformatversion = 0x0\n",
        "[core]\n\tautocrlf = x\n",
        "[core]\n\tworktree = /home/someone\n",
        "[core]\n\tworktree = ../x\n",
        "[remote \"o\"]\n\ttagOpt = --upload-pack=x\n",
        "[remote \"o\"]\n\tfetch = --upload-pack=x\n",
        "[remote \"o\"]\n\turl\n",
        "[blame]\n\tignoreRevsFile = /etc/shadow\n",
        "[blame]\n\tignoreRevsFile = ../x\n",
        "[blame]\n\tignoreRevsFile = ~/x\n",
        "[extensions]\n\tpartialClone = ext::sh\n",
        "[branch \"m\"]\n\tremote = ext::sh -c x\n",
        "[remote]\n\tpushDefault = ext::sh -c x\n",
    ] {
        refused(text.as_bytes(), "`");
    }
}

#[test]
fn addresses_that_start_a_program_are_refused() {
    for url in [
        "ext::sh -c 'touch /tmp/x'",
        "EXT::sh",
        "fd::3",
        "persistent-https::x",
        "a::b",
        "::x",
        "foo://host/x",
        "ext://x",
        "HTTPS://x/y",
        "ftp://x/y",
        "rsync://x/y",
        "://x",
        "s3://b/x",
        "-oProxyCommand=x",
        "--upload-pack=x",
        "ssh://-oProxyCommand=x/y",
        " -x",
        "ssh://user@-oProxyCommand=x/y",
        "ssh://%2doProxyCommand=x/y",
        "user@-oProxyCommand=x:y",
        "-oProxyCommand=x:y",
        "host:-x",
        "host:--upload-pack=x",
        "ssh://[-oProxyCommand=x]/y",
        "https://x%0ahost=y/",
        "https://x/%0D%0A",
        "https://x/%00",
        "ssh://[ext::sh -c x]/y",
        "http://[::1]/a::b",
        "/a/b::c",
        "https:/x::y",
        "%2Dx",
    ] {
        for text in [
            format!("[remote \"o\"]\n\turl = \"{url}\"\n"),
            format!("[remote \"o\"]\n\tpushurl = \"{url}\"\n"),
            format!("[submodule \"o\"]\n\turl = \"{url}\"\n"),
            format!("[branch \"o\"]\n\tpushRemote = \"{url}\"\n"),
            format!("[url \"{url}\"]\n\tinsteadOf = https://example.com/\n"),
        ] {
            refused(text.as_bytes(), "`");
        }
    }
    refused(
        b"[remote \"o\"]\n\turl = \"https://x/\\nhost=y\"\n",
        "control",
    );
    refused(b"[remote \"o\"]\n\turl = \"\"\n", "empty");
}

#[test]
fn what_is_put_before_other_urls_leaves_them_no_scheme_and_no_host() {
    for base in [
        // With `insteadOf = y/` and `url = y/xt::sh -c evil`.
        "e",
        "ext:",
        "",
        ".",
        "https:",
        "https://",
        "https://example.com",
        "ssh://",
        "ssh:///",
        "host:",
        "@host:",
        "git@",
        "git@:",
    ] {
        let text = format!("[url \"{base}\"]\n\tinsteadOf = y/\n");
        refused(text.as_bytes(), "insteadof");
    }
    for base in [
        "https://example.com/",
        "ssh://git@h:22/",
        "git@h:",
        "/srv/",
        "file:///srv/",
    ] {
        accepted(&format!("[url \"{base}\"]\n\tinsteadOf = y/\n"));
    }
}

#[test]
fn what_does_not_parse_is_refused_with_its_line() {
    for text in [
        &b"[core]\n\tbare = fa\0lse\n"[..],
        b"[core\0]\n\tbare = false\n",
        b"[remote \"a\0b\"]\n\turl = x\n",
        b"[core]\n\tbare = true\rhooksPath = x\n",
        b"[core]\n\rhooksPath = x\n",
        b"[core]\n\tbare = true\x0bx\n",
        b"[core]\n\x0cbare = true\n",
        b"[core]\n\tbare = \x1b[31m\n",
        b"[core\n]\n\tbare = true\n",
        b"[core",
        b"[core]\n[",
        b"[]\n\tbare = true\n",
        b"[ core]\n\tbare = true\n",
        b"[core ]\n\tbare = true\n",
        b"[core.x]\n\tbare = true\n",
        b"[branch.main]\n\tremote = origin\n",
        b"[branch \"x\" ]\n\tremote = origin\n",
        b"[branch \"x\"y]\n\tremote = origin\n",
        b"[branch x]\n\tremote = origin\n",
        b"[branch \"x\n\"]\n\tremote = origin\n",
        b"[branch \"x\\n\"]\n\tremote = origin\n",
        b"[branch \"x\\\n\"]\n\tremote = origin\n",
        b"[branch \"x",
        b"[c\xc3\xb6re]\n\tbare = true\n",
        b"bare = true\n",
        b"[core]\n\t9bare = true\n",
        b"[core]\n\tba_re = true\n",
        b"[core]\n\tba.re = true\n",
        b"[core]\n\tbare true\n",
        b"[core]\n\tbare # c\n",
        b"[core]\n\t= true\n",
        b"[user]\n\tname = \"x\n",
        b"[user]\n\tname = \"x",
        b"[user]\n\tname = x\\q\n",
        b"[user]\n\tname = \\",
        b"[user]\n\tname = x # c\\\n[core]\n\thooksPath = y\n",
        b"# c\\\n[core]\n",
        b"# c\\",
        b"[user]\n\tname = x # c\\",
        b"\xef\xbb[core]\n",
        b"\xef\xbb\xbf\xef\xbb\xbf[core]\n",
        b"\xff\xfe[\0c\0",
        b"<<<<<<< HEAD\n",
        b"#!/bin/sh\ntouch /tmp/x\n",
    ] {
        refused(text, "does not parse");
    }
    let mut long = b"[core]\n".to_vec();
    long.resize(super::super::MAX_CONFIG_BYTES + 1, b'\n');
    refused(&long, "longer");
    refused(b"[core]\n\n\n\tbare = \x01\n", "line 4");
}

#[test]
fn the_work_tree_of_a_submodule_is_its_own() {
    let judged = |at: &str, tree: &str| {
        let at: Vec<&[u8]> = at.split('/').map(str::as_bytes).collect();
        config_at(format!("[core]\n\tworktree = {tree}\n").as_bytes(), &at)
    };
    for (at, tree) in [
        (".git/modules/lib/config", "../../../lib"),
        ("p/.git/modules/lib/config", "../../../vendor/lib"),
        ("p/.git/modules/a/b/config", "../../../../a/b"),
        ("p/.git/modules/a/modules/b/config", "../../../../../a/b"),
    ] {
        assert_eq!(judged(at, tree), Ok(()), "{at}: {tree}");
    }
    for (at, tree) in [
        ("p/.git/modules/lib/config", "../../../../lib"),
        ("p/.git/modules/lib/config", "../../lib"),
        ("p/.git/modules/lib/config", "../../../"),
        ("p/.git/modules/lib/config", "../../.."),
        ("p/.git/modules/lib/config", "../../../a/../../b"),
        ("p/.git/modules/lib/config", "../../../.git/x"),
        ("p/.git/modules/lib/config", "../../../a/.GIT"),
        ("p/.git/modules/lib/config", "/home/someone"),
        ("p/.git/modules/lib/config", "~/x"),
        ("p/.git/modules/lib/config", ""),
        ("p/.git/config", "../lib"),
        ("p/.git/config", ".."),
        ("p/.git/worktrees/x/config.worktree", "../../../lib"),
        ("p/modules/lib/config", "../../../lib"),
        ("", "../lib"),
    ] {
        judged(at, tree).expect_err(&format!("accepted at {at}: {tree}"));
    }
}

#[test]
fn a_work_tree_that_is_moved_stays_its_own() {
    fn parts(path: &str) -> Vec<&[u8]> {
        path.split('/').map(str::as_bytes).collect()
    }
    let moved = |text: &str, from, to| config_move(text.as_bytes(), &parts(from), &parts(to));
    let tree = "[core]\n\tworktree = ../../../lib\n";
    let from = "p/.git/modules/lib/config";
    for to in ["q/.git/modules/lib/config", "a/b/.git/modules/x/config"] {
        assert_eq!(moved(tree, from, to), Ok(()), "{to}");
    }
    for to in ["p/.git/modules/a/b/config", "p/.git/config", "q/lib/config"] {
        moved(tree, from, to).expect_err(to);
    }
    // What the user has set goes along, but no work tree.
    let own = "[alias]\n\tx = !x\n";
    assert_eq!(moved(own, "p/.git/config", "q/.git/config"), Ok(()));
    let tree = "[core]\n\tworktree = ../x\n";
    moved(tree, "p/.git/config", "q/a/.git/config").expect_err("it leads elsewhere");
    moved("[core", "p/.git/config", "q/.git/config").expect_err("it does not parse");
}

#[test]
fn what_the_user_has_set_may_stay_and_nothing_like_it_may_come() {
    let present = b"[core]\n\thooksPath = .husky\n[alias]\n\tst = status\n";
    for new in [
        "[core]\n\thooksPath = .husky\n[alias]\n\tst = status\n",
        "[core]\n\tbare = false\n\thookspath = \".husky\"\n[alias]\nst=status\n[pull]\n\trebase = true\n",
    ] {
        assert_eq!(config_change(present, new.as_bytes(), &[]), Ok(()), "{new}");
        config(new.as_bytes()).expect_err("it is not harmless by itself");
    }
    for new in [
        "[core]\n\thooksPath = .husky2\n[alias]\n\tst = status\n",
        "[core]\n\thooksPath = .husky\n",
        "[alias]\n\tst = status\n[core]\n\thooksPath = .husky\n",
        "[core]\n\thooksPath = .husky\n[alias]\n\tst = status\n\tst = !evil\n",
        "[core]\n\thooksPath = .husky\n[alias \"x\"]\n\tst = status\n",
        "[core]\n\thooksPath = .husky\n[core]\n\thooksPath = .husky\n[alias]\n\tst = status\n",
        "",
        "[core",
    ] {
        config_change(present, new.as_bytes(), &[]).expect_err(new);
    }
    config_change(b"[core", b"[core]\n\tpager = x\n", &[]).expect_err("nothing is known");
    assert_eq!(config_change(b"", b"[core]\n\tbare = false\n", &[]), Ok(()));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = config(&bytes);
    }

    #[test]
    fn a_key_that_is_not_known_is_refused_wherever_it_stands(
        section in "[a-z][a-z-]{2,11}", key in "[a-z][a-z-]{2,15}", value in "[a-z/! ]{0,12}",
        filling in "(\\[user\\]\n\tname = x\n|# c\n|\n){0,4}", sub in proptest::option::of("[a-z:/.]{0,8}"),
    ) {
        let free = ["advice", "color", "column", "commitgraph"];
        prop_assume!(!free.contains(&section.as_str()));
        // No row has a key with an `x-` before it.
        let heading = sub.map_or(section.clone(), |sub| format!("{section} \"{sub}\""));
        let text = format!("{filling}[{heading}]\n\tx-{key} = {value}\n{filling}");
        let reason = config(text.as_bytes()).expect_err("an unknown key");
        prop_assert!(reason.contains(&format!("x-{key}")), "{}", reason);
    }
}

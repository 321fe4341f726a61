//! Plans run for real: the generated arguments, the real bubblewrap, the real kernel, a real tree
//! of files; in place of the guard a shell script that tries things and says what happened.
//! As the user who runs the tests, and, when that is root, as an ordinary user too.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use kotak_engine::backend::{
    FD_GUARD, FD_GUARD_COPY, FD_RESOLVER, NativePlan, PlanFacts, SeccompArch, native_plan,
};
use kotak_engine::policy::{HostContext, KotakPaths, OsHostFs, resolve};
use kotak_engine::probe::HostFacts;
use kotak_engine::spec::{AbsPath, Mode, NetworkMode, SandboxSpec, TerminalRequest, ValidSpec};
use kotak_guard::proto::Namespace;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A user of no account, for the tests that root runs.
const ORDINARY: u32 = 61_234;

struct Tree {
    dir: tempfile::TempDir,
    uid: u32,
}

impl Tree {
    /// A home with secrets, settings, repositories and odd names, and a folder elsewhere.
    fn new(uid: u32) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("kotak plan-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let tree = Self { dir, uid };
        fs::set_permissions(tree.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in [
            (".ssh/id", "SECRET"),
            (".aws/credentials", "SECRET"),
            (".config/gh/hosts.yml", "SECRET"),
            (".netrc", "SECRET"),
            (".bashrc", "mine"),
            (".local/bin/tool", "mine"),
            (".local/state/kotak/store.sqlite", "SECRET"),
            ("code/file", "mine"),
            ("code/.git/HEAD", "ref: refs/heads/main"),
            ("code/.git/config", "[core]"),
            ("code/.git/hooks/pre-commit", "mine"),
            ("code/.git/objects/x", "mine"),
            ("code/.git/refs/x", "mine"),
            ("dot/zshrc", "mine"),
            ("code/- odd\n\"'$(x)/f", "mine"),
            ("code/- odd\n\"'$(x)/.git/hooks/h", "mine"),
        ] {
            tree.write(name, text);
        }
        symlink("dot/zshrc", tree.home().join(".zshrc")).unwrap();
        symlink(".ssh", tree.home().join("keys")).unwrap();
        fs::create_dir(tree.dir.path().join("other home")).unwrap();
        fs::write(tree.dir.path().join("other home/f"), "not theirs").unwrap();
        tree.give(tree.dir.path());
        tree
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn give(&self, path: &Path) {
        if self.uid != effective_uid() {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.uid)).unwrap();
        }
        if path.is_dir() && !path.is_symlink() {
            for entry in fs::read_dir(path).unwrap() {
                self.give(&entry.unwrap().path());
            }
        }
    }

    fn context(&self) -> HostContext {
        let home = AbsPath::from_path(&self.home()).unwrap();
        let search = format!("{}/.local/bin:/usr/bin:/bin", self.home().display());
        HostContext {
            uid: self.uid,
            gid: self.uid,
            passwd_home: None,
            env: vec![(b"PATH".to_vec(), search.into_bytes())],
            kotak: KotakPaths {
                state: vec![home.join(".local/state/kotak")],
                config: vec![home.join(".config/kotak")],
                binaries: vec![],
            },
            home,
            facts: HostFacts::default(),
        }
    }

    fn plan(&self, spec: &ValidSpec) -> NativePlan {
        let policy = resolve(spec, &self.context(), &OsHostFs::default()).unwrap();
        native_plan(&policy, &facts()).unwrap()
    }

    fn terminal(&self, cwd: &Path, mode: Mode, network: NetworkMode) -> NativePlan {
        let request = TerminalRequest {
            mode,
            network: Some(network),
            ..TerminalRequest::plain("s", "w", cwd.to_owned())
        };
        self.plan(&ValidSpec::terminal(&request).unwrap())
    }

    /// Every path of the tree with its kind, size and mode: what a session may not change.
    fn inventory(&self) -> Vec<(PathBuf, u64, u32)> {
        let mut all = Vec::new();
        let mut todo = vec![self.dir.path().to_owned()];
        while let Some(path) = todo.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                todo.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            let size = if metadata.is_dir() {
                0
            } else {
                metadata.size()
            };
            all.push((path, size, metadata.mode()));
        }
        all.sort();
        all
    }

    /// Runs `script` where the guard would run, and returns what it printed.
    fn run(&self, plan: &NativePlan, script: &str) -> String {
        let work = tempfile::Builder::new()
            .prefix("kotak-plan-work-")
            .tempdir()
            .unwrap();
        fs::set_permissions(work.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut launch = String::from("set -e\n");
        for block in &plan.blocks {
            let file = work.path().join(format!("args{}", block.fd));
            fs::write(&file, block.bytes()).unwrap();
            launch.push_str(&format!("exec {}<'{}'\n", block.fd, file.display()));
        }
        if let Some(resolver) = &plan.resolver {
            let file = work.path().join("resolver");
            fs::write(&file, resolver).unwrap();
            launch.push_str(&format!("exec {FD_RESOLVER}<'{}'\n", file.display()));
        }
        let cwd = work.path().join("cwd");
        fs::write(&cwd, plan.cwd.as_bytes()).unwrap();
        let guard = work.path().join("guard");
        let home = plan.env.iter().find(|(name, _)| name == b"HOME").unwrap();
        let home = String::from_utf8(home.1.clone()).unwrap();
        fs::write(
            &guard,
            format!(
                "#!/bin/sh\nexport HOME='{home}' PATH=/usr/bin:/bin\ncd \"$(cat /proc/self/fd/13)\" || exit 9\n\
                 {script}\n"
            ),
        )
        .unwrap();
        fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).unwrap();
        let launched = work.path().join("launch");
        launch.push_str("exec 11>/dev/null\n");
        for fd in [FD_GUARD_COPY, FD_GUARD] {
            launch.push_str(&format!("exec {fd}<'{}'\n", guard.display()));
        }
        launch.push_str(&format!("exec 13<'{}'\n", cwd.display()));
        launch.push_str(&format!("exec env -i '{}' \"$@\"\n", plan.bwrap));
        fs::write(&launched, launch).unwrap();

        // Root's run in namespaces of its own, so that an escape cannot write the host's /proc/sys.
        let mut command = if effective_uid() == 0 {
            let mut outer = Command::new("unshare");
            outer.args(["-m", "-p", "-f", "--mount-proc"]);
            if self.uid != 0 {
                let id = self.uid.to_string();
                outer.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
            }
            outer.arg("bash");
            outer
        } else {
            Command::new("bash")
        };
        command.arg(&launched).current_dir("/");
        command.args(plan.argv.iter().map(|arg| std::ffi::OsStr::from_bytes(arg)));
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{errors}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }
}

fn effective_uid() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// The users to run as.
fn users() -> Vec<u32> {
    match effective_uid() {
        0 => vec![0, ORDINARY],
        uid => vec![uid],
    }
}

fn facts() -> PlanFacts {
    let bwrap = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("bwrap"))
        .find(|path| path.is_file())
        .expect("bubblewrap is installed")
        .canonicalize()
        .unwrap();
    let namespaces = [
        Namespace::Cgroup,
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ];
    PlanFacts {
        bwrap_path: AbsPath::from_path(&bwrap).unwrap(),
        bwrap_version: (0, 8, 0),
        arch: SeccompArch::X86_64,
        landlock_abi: 0,
        namespaces: namespaces.map(|kind| (kind, 1)).into(),
    }
}

/// `try WHAT COMMAND…` prints `WHAT yes` or `WHAT no`.
const TRY: &str = "try() { what=$1; shift; if (eval \"$@\") >/dev/null 2>&1; \
                   then echo \"$what yes\"; else echo \"$what no\"; fi; }\n";

fn expect(found: &str, wanted: &[(&str, &str)]) {
    for (what, answer) in wanted {
        let line = format!("{what} {answer}");
        assert!(
            found.lines().any(|found| found == line),
            "{line} is not in:\n{found}"
        );
    }
}

#[test]
fn a_terminal_reads_and_writes_what_it_may_and_leaves_nothing_behind() {
    for uid in users() {
        let tree = Tree::new(uid);
        let before = tree.inventory();
        let plan = tree.terminal(&tree.home().join("code"), Mode::Chat, NetworkMode::Open);
        let script = format!(
            "{TRY}
            try pid-one '[ $$ = 1 ]'
            try as-me '[ $(id -u) = {uid} ]'
            try no-caps 'grep -q \"CapEff:.0000000000000000\" /proc/self/status'
            try cwd '[ -f file ]'
            try read-mine 'cat ~/code/file'
            try write-code 'echo x > new && rm new'
            try write-home 'echo x > ~/new && rm ~/new'
            try write-objects 'echo x > .git/objects/y && rm .git/objects/y'
            try odd 'cat ./\"- odd\"*/f'
            try tmp 'echo x > /tmp/x && echo x > /var/tmp/x'
            try runtime 'echo x > /run/user/{uid}/x'
            try shm 'echo x > /dev/shm/x'
            try null 'echo x > /dev/null'
            try usr 'ls /usr/bin/env && /bin/true'
            try resolv 'cat /etc/resolv.conf'
            try read-ssh 'ls ~/.ssh || cat ~/.ssh/id'
            try read-ssh-link 'ls ~/keys/ || cat ~/keys/id'
            try read-ssh-proc 'cat /proc/self/root$HOME/.ssh/id'
            try read-aws 'cat ~/.aws/credentials'
            try read-gh 'cat ~/.config/gh/hosts.yml'
            try read-netrc 'cat ~/.netrc'
            try read-kotak 'cat ~/.local/state/kotak/store.sqlite'
            try chmod-mask 'chmod 700 ~/.ssh'
            try write-mask 'echo x > ~/.ssh/x'
            try rename-secret-parent 'mv ~/.config ~/c'
            try write-bashrc 'echo x >> ~/.bashrc'
            try replace-bashrc 'rm ~/.bashrc || mv ~/.bashrc ~/b'
            try write-linked 'echo x >> ~/.zshrc'
            try write-path 'echo x > ~/.local/bin/evil'
            try write-hooks 'echo x > .git/hooks/post-commit'
            try write-config 'echo x >> .git/config'
            try write-odd-hooks 'echo x > ./\"- odd\"*/.git/hooks/h'
            try rename-git 'mv .git g'
            try rename-code 'cd / && mv ~/code ~/c'
            try write-usr 'echo x > /usr/x'
            try write-etc 'echo x > /etc/x'
            try write-root 'echo x > /x'
            try write-run 'echo x > /run/x'
            try write-sysctl 'echo x > /proc/sys/kernel/core_pattern'
            try write-sysrq 'echo h > /proc/sysrq-trigger'
            try see-others 'ls ../../\"other home\"'
            try see-boot 'ls /boot'
            try see-shadow 'cat /etc/shadow'
            try mount 'mount -t tmpfs x /tmp'
            "
        );
        let found = tree.run(&plan, &script);
        for what in [
            "pid-one",
            "as-me",
            "no-caps",
            "cwd",
            "read-mine",
            "write-code",
            "write-home",
            "write-objects",
            "odd",
            "tmp",
            "runtime",
            "shm",
            "null",
            "usr",
            "resolv",
        ] {
            expect(&found, &[(what, "yes")]);
        }
        for what in [
            "read-ssh",
            "read-ssh-link",
            "read-ssh-proc",
            "read-aws",
            "read-gh",
            "read-netrc",
            "read-kotak",
            "chmod-mask",
            "write-mask",
            "rename-secret-parent",
            "write-bashrc",
            "replace-bashrc",
            "write-linked",
            "write-path",
            "write-hooks",
            "write-config",
            "rename-git",
            "write-odd-hooks",
            "rename-code",
            "write-usr",
            "write-etc",
            "write-root",
            "write-run",
            "write-sysctl",
            "write-sysrq",
            "see-others",
            "see-boot",
            "see-shadow",
            "mount",
        ] {
            expect(&found, &[(what, "no")]);
        }
        assert_eq!(tree.inventory(), before, "nothing is left on the host");
    }
}

#[test]
fn without_a_sandbox_the_same_attempts_succeed() {
    // The positive control of the refusals above.
    let tree = Tree::new(effective_uid());
    let script = format!(
        "{TRY}cd '{home}/code'; HOME='{home}'
        try read-ssh 'cat ~/.ssh/id'
        try write-bashrc 'echo x >> ~/.bashrc'
        try rename-git 'mv .git g && mv g .git'
        try write-hooks 'echo x > .git/hooks/post-commit'
        try see-others 'ls ../../\"other home\"'
        ",
        home = tree.home().display()
    );
    let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    for what in [
        "read-ssh",
        "write-bashrc",
        "rename-git",
        "write-hooks",
        "see-others",
    ] {
        expect(&found, &[(what, "yes")]);
    }
}

#[test]
fn a_read_only_mode_and_a_closed_network_hold() {
    for uid in users() {
        let tree = Tree::new(uid);
        let before = tree.inventory();
        let script = format!(
            "{TRY}
            try read 'cat file'
            try write 'echo x > new'
            try write-home 'echo x > ~/new'
            try tmp 'echo x > /tmp/x'
            try only-lo '[ \"$(ls /sys/class/net 2>/dev/null | grep -v lo)\" = \"\" ] || \
              ! grep -vE \"lo:|^Inter|face\" /proc/self/net/dev | grep -vqE \": *0 *0 *0\"'
            try route 'grep -q 00000000 /proc/self/net/route'
            "
        );
        for mode in [Mode::Review, Mode::Plan, Mode::Orchestrate] {
            let plan = tree.terminal(&tree.home().join("code"), mode, NetworkMode::Off);
            let found = tree.run(&plan, &script);
            expect(
                &found,
                &[("read", "yes"), ("tmp", "yes"), ("only-lo", "yes")],
            );
            expect(
                &found,
                &[("write", "no"), ("write-home", "no"), ("route", "no")],
            );
        }
        assert_eq!(tree.inventory(), before);
    }
}

#[test]
fn the_bind_mount_form_shows_what_is_listed_and_nothing_else() {
    for uid in users() {
        let tree = Tree::new(uid);
        tree.write("ws/rw/ro/rw2/f", "mine");
        tree.write("ws/orig/f", "mine");
        tree.write("hidden/f", "mine");
        tree.give(tree.dir.path());
        let before = tree.inventory();
        let at = |name: &str| tree.home().join(name).display().to_string();
        let spec = serde_json::json!({
            "sessionId": "s", "workspaceId": "w", "guestWorkdir": at("ws/rw"),
            "bindMounts": [
                {"hostPath": at("ws/rw/ro/rw2")},
                {"hostPath": at("ws/rw/ro"), "readOnly": true},
                {"hostPath": at("ws/rw")},
                {"hostPath": at("ws/orig")},
            ],
            "protectedPaths": [at("ws/orig")],
        });
        let spec = SandboxSpec::from_json(&spec.to_string())
            .unwrap()
            .validate()
            .unwrap();
        let script = format!(
            "{TRY}
            try write 'echo x > new && rm new'
            try write-rw2 'echo x > ro/rw2/new && rm ro/rw2/new'
            try read-ro 'ls ro'
            try read-orig 'cat ../orig/f'
            try home 'echo x > ~/private'
            try tmp 'echo x > /tmp/x'
            try write-ro 'echo x > ro/new'
            try write-orig 'echo x > ../orig/f'
            try hidden 'ls ~/hidden'
            try ssh 'ls ~/.ssh'
            try var 'ls /var/lib'
            try shadow 'ls /etc/shadow'
            try sys 'ls /sys/kernel'
            try beside 'echo x > ../new && false || ls ../../code'
            "
        );
        let found = tree.run(&tree.plan(&spec), &script);
        for what in ["write", "write-rw2", "read-ro", "read-orig", "home", "tmp"] {
            expect(&found, &[(what, "yes")]);
        }
        for what in [
            "write-ro",
            "write-orig",
            "hidden",
            "ssh",
            "var",
            "shadow",
            "sys",
            "beside",
        ] {
            expect(&found, &[(what, "no")]);
        }
        assert_eq!(tree.inventory(), before, "nothing is left on the host");
    }
}

#[test]
fn a_plan_of_more_arguments_than_bubblewrap_takes_runs_in_stages() {
    for uid in users() {
        let tree = Tree::new(uid);
        // Symlinks cost arguments and no mounts, so this is quick; the stages are the same.
        let links = tree.dir.path().join("links");
        fs::create_dir(&links).unwrap();
        tree.write("ws/held/f", "mine");
        tree.write("ws/.git/HEAD", "mine");
        tree.write(".ssh/id", "SECRET");
        let mut binds = vec![serde_json::json!({"hostPath": tree.home()})];
        for index in 0..3000 {
            let link = links.join(format!("l{index}"));
            symlink("../home/ws", &link).unwrap();
            binds.push(serde_json::json!({"hostPath": link}));
        }
        tree.give(tree.dir.path());
        let before = tree.inventory();
        let spec = serde_json::json!({
            "sessionId": "s", "workspaceId": "w", "bindMounts": binds,
            "protectedPaths": [tree.home().join("ws/held")],
            "guestWorkdir": links.join("l2999"),
        });
        let spec = SandboxSpec::from_json(&spec.to_string())
            .unwrap()
            .validate()
            .unwrap();
        let plan = tree.plan(&spec);
        assert!(plan.blocks.len() > 1, "{} blocks", plan.blocks.len());
        assert!(plan.blocks.iter().all(|block| block.args.len() < 9000));
        let script = format!(
            "{TRY}
            try pid-one '[ $$ = 1 ]'
            try no-caps 'grep -q \"CapEff:.0000000000000000\" /proc/self/status'
            try write 'echo x > new && rm new'
            try first-link 'cat {links}/l0/held/f'
            try last-link 'cat {links}/l2999/held/f'
            try held 'echo x > held/f'
            try ssh 'ls ~/.ssh'
            try assembly 'ls -d /dev/shm/usr'
            try write-root 'echo x > /x'
            try write-sysctl 'echo x > /proc/sys/kernel/core_pattern'
            ",
            links = links.display().to_string().replace(' ', "?"),
        );
        let found = tree.run(&plan, &script);
        for what in ["pid-one", "no-caps", "write", "first-link", "last-link"] {
            expect(&found, &[(what, "yes")]);
        }
        for what in ["held", "ssh", "assembly", "write-root", "write-sysctl"] {
            expect(&found, &[(what, "no")]);
        }
        assert_eq!(tree.inventory(), before, "nothing is left on the host");
    }
}

#[test]
fn ownership_helpers_agree_with_the_system() {
    // `chown` is what makes the tree another user's; without it root's tests would prove nothing.
    if effective_uid() == 0 {
        let tree = Tree::new(ORDINARY);
        assert_eq!(
            fs::metadata(tree.home().join("code/file")).unwrap().uid(),
            ORDINARY
        );
        chown(tree.home().join("code/file"), Some(0), Some(0)).unwrap();
        assert_eq!(
            fs::metadata(tree.home().join("code/file")).unwrap().uid(),
            0
        );
    }
}

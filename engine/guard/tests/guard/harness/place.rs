//! Where a guard runs, and as whom.
#![expect(unsafe_code, reason = "fixed descriptor numbers for a child")]

use kotak_guard::proto::{Expectation, LandlockPlan, Namespace, PROTOCOL_VERSION, Role, Setup};
use nix::unistd::Uid;
use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    process::Command,
};

/// Inherited on purpose, to see that no payload gets it.
pub(crate) const LEAKED: RawFd = 20;

/// Who starts the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Only when the tests run as root; in an outer PID and mount namespace.
    Root,
    /// An ordinary user: the one who runs the tests, or 65534 when that is root.
    Ordinary,
}

/// Everybody as whom a sandbox can be tested here.
pub(crate) fn users() -> &'static [User] {
    if Uid::effective().is_root() {
        &[User::Root, User::Ordinary]
    } else {
        &[User::Ordinary]
    }
}

/// A way to run the guard.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// `kotak-guard host`, as the user of the tests.
    Host,
    /// `kotak-guard native` in a sandbox.
    Native(User, Flags),
}

/// Every place, with the default flags.
pub(crate) fn places() -> Vec<Place> {
    let native = users()
        .iter()
        .map(|user| Place::Native(*user, Flags::default()));
    std::iter::once(Place::Host).chain(native).collect()
}

/// Variations of the sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    pub(crate) unshare_net: bool,
    /// Instead of `--dev /dev`.
    pub(crate) dev: Vec<String>,
    /// After everything else.
    pub(crate) extra: Vec<String>,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            unshare_net: true,
            dev: words("--dev /dev"),
            extra: Vec::new(),
        }
    }
}

impl Flags {
    pub(crate) fn with(extra: &str) -> Self {
        Self {
            extra: words(extra),
            ..Self::default()
        }
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut list = words(
            "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try \
             --die-with-parent --as-pid-1 --cap-drop ALL",
        );
        if self.unshare_net {
            list.push("--unshare-net".into());
        }
        list.extend(words("--ro-bind / / --proc /proc"));
        list.extend(self.dev.clone());
        list.extend(words(
            "--ro-bind /proc/sys /proc/sys --tmpfs /tmp --tmpfs /run \
             --perms 0555 --ro-bind-data 12 /run/kotak/guard",
        ));
        list.extend(self.extra.clone());
        list
    }
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// What a native guard should find under the default flags.
pub(crate) fn expectation() -> Expectation {
    let all = [
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ];
    let inode = |namespace: Namespace| {
        let path = format!("/proc/self/ns/{}", namespace.proc_name());
        (namespace, std::fs::metadata(path).unwrap().ino())
    };
    Expectation {
        outer: all.map(inode).to_vec(),
        unshared: all.to_vec(),
        shared: vec![],
        mounts: vec![],
        unreadable: vec![],
        unwritable: vec![b"/proc/sys/kernel/core_pattern".to_vec(), b"/usr".to_vec()],
        absent: vec![b"/run/dbus".to_vec()],
        loopback_only: true,
        contents: vec![],
        private: vec![b"/tmp".to_vec()],
    }
}

pub(crate) fn native_setup(expect: Expectation) -> Setup {
    Setup {
        protocol: PROTOCOL_VERSION,
        role: Role::Native(Box::new(expect)),
        landlock: LandlockPlan::default(),
        seccomp: vec![],
        files: None,
        exec: None,
        loopback: None,
        hand_over_mounts: false,
    }
}

pub(crate) fn host_setup() -> Setup {
    Setup {
        protocol: PROTOCOL_VERSION,
        role: Role::Host,
        landlock: LandlockPlan::default(),
        seccomp: vec![],
        files: None,
        exec: None,
        loopback: None,
        hand_over_mounts: false,
    }
}

/// `bwrap` as the given user.
pub(crate) fn bubblewrap(user: User) -> Command {
    let prefix: &[&str] = match user {
        User::Root => &[
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ],
        User::Ordinary if Uid::effective().is_root() => &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ],
        User::Ordinary => &[],
    };
    let mut words: VecDeque<OsString> = prefix.iter().map(OsString::from).collect();
    if !words.is_empty() {
        words.push_back("--".into());
    }
    words.push_back("bwrap".into());
    let mut command = Command::new(words.pop_front().unwrap());
    command
        .args(words)
        .current_dir("/")
        .env_remove("LD_LIBRARY_PATH");
    command
}

/// Gives a child descriptors at fixed numbers, and one that it should not pass on.
pub(crate) fn fix_descriptors(command: &mut Command, list: &[(BorrowedFd<'_>, RawFd)]) {
    let null = File::open("/dev/null").unwrap();
    // Above all the numbers that are handed out, so that dup2 cannot run over a source.
    let raise = |fd: BorrowedFd<'_>| {
        let raised = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(64)).unwrap();
        // SAFETY: fcntl has just opened it.
        unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(raised) }
    };
    let mut moves: Vec<(OwnedFd, RawFd)> = list
        .iter()
        .map(|(fd, number)| (raise(*fd), *number))
        .collect();
    moves.push((raise(null.as_fd()), LEAKED));
    let arrange = move || {
        for (source, number) in &moves {
            // SAFETY: dup2 is safe to call between fork and exec, and both are numbers.
            if unsafe { libc::dup2(source.as_raw_fd(), *number) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only calls dup2.
    unsafe { command.pre_exec(arrange) };
}

//! The facts that policies and plans are made from, gathered for this process.

use crate::error::{Coded, Fix};
use crate::policy::{HostContext, KotakPaths, OsHostFs};
use crate::probe::HostFacts;
use crate::process::HostSockets;
use crate::spec::{AbsPath, PathError};
use crate::store::Dirs;
use kotak_guard::proto::Namespace;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What does not change while an engine runs.
#[derive(Debug, Clone)]
pub(super) struct HostView {
    pub(super) home: PathBuf,
    pub(super) passwd_home: Option<PathBuf>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) dirs: Dirs,
    /// Kept for the engine's life: it remembers what it listed.
    pub(super) files: OsHostFs,
}

/// The user's home directory is no usable path.
#[derive(Debug, thiserror::Error)]
#[error("the home directory \"{}\" is not usable as a path", home.display())]
pub(super) struct HomeUnusable {
    home: PathBuf,
    #[source]
    cause: PathError,
}

impl Coded for HomeUnusable {
    fn code(&self) -> &'static str {
        "HOME_UNUSABLE"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words("Set HOME to a directory of your own."))
    }
}

impl HostView {
    /// Reads the environment and the user database.
    pub(super) fn read(dirs: Dirs) -> Self {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid())
            .ok()
            .flatten();
        let home = std::env::var_os("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute())
            .or_else(|| user.as_ref().map(|user| user.dir.clone()))
            .unwrap_or_else(|| PathBuf::from("/"));
        Self {
            home,
            passwd_home: user.map(|user| user.dir),
            env: std::env::vars_os().collect(),
            dirs,
            files: OsHostFs::default(),
        }
    }

    /// The context that a policy is resolved in.
    pub(super) fn context(&self, facts: HostFacts) -> Result<HostContext, HomeUnusable> {
        let home = AbsPath::from_path(&self.home).map_err(|cause| HomeUnusable {
            home: self.home.clone(),
            cause,
        })?;
        let absolute = |path: &Path| AbsPath::from_path(path).ok();
        Ok(HostContext {
            uid: nix::unistd::getuid().as_raw(),
            gid: nix::unistd::getgid().as_raw(),
            home,
            passwd_home: self.passwd_home.as_deref().and_then(absolute),
            env: self
                .env
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            kotak: self.kotak_paths(),
            facts,
        })
    }

    fn kotak_paths(&self) -> KotakPaths {
        let absolute = |path: &Path| AbsPath::from_path(path).ok();
        let state = [&self.dirs.state, &self.dirs.run, &self.dirs.cache];
        KotakPaths {
            state: state.into_iter().filter_map(|dir| absolute(dir)).collect(),
            config: absolute(&self.dirs.config).into_iter().collect(),
            binaries: std::env::current_exe()
                .ok()
                .as_deref()
                .and_then(absolute)
                .into_iter()
                .collect(),
        }
    }

    /// The sockets of this host, as this process's environment names them.
    pub(super) fn sockets(&self) -> HostSockets {
        let agent = self.env.iter().find(|(name, _)| name == "SSH_AUTH_SOCK");
        HostSockets {
            kotak: self.kotak_paths(),
            uid: nix::unistd::getuid().as_raw(),
            agent: agent.and_then(|(_, path)| AbsPath::new(path.as_bytes()).ok()),
        }
    }
}

/// Namespace inodes of this process, every kind that the kernel has.
pub(super) fn own_namespaces() -> Vec<(Namespace, u64)> {
    [
        Namespace::Cgroup,
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ]
    .into_iter()
    .filter_map(|kind| {
        let found = std::fs::metadata(format!("/proc/self/ns/{}", kind.proc_name())).ok()?;
        Some((kind, found.ino()))
    })
    .collect()
}

//! Unix sockets of the host that a session may be joined to (REQ EG-12).
//!
//! A sandbox may write the folder that a granted socket lies in. So the path is walked anew for
//! every connection, no symlink on it is followed, what is found must be a socket that does not
//! control the host, and the connection is made to what was looked at, not to a name.

use crate::error::{Coded, Fix};
use crate::policy::{KotakPaths, host_control, well_known_controls};
use crate::spec::AbsPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstat, stat};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::net::UnixStream;

/// Sockets of this host, and what of them may be let in.
#[derive(Debug, Clone)]
pub struct HostSockets {
    /// Kotak's own places.
    pub kotak: KotakPaths,
    /// The user.
    pub uid: u32,
    /// What `SSH_AUTH_SOCK` names.
    pub agent: Option<AbsPath>,
}

/// Why a socket of the host is not let in.
#[derive(Debug, thiserror::Error)]
pub enum HostSocketError {
    /// No agent runs, as far as the environment says.
    #[error("SSH_AUTH_SOCK of this computer names no ssh agent")]
    NoAgent,
    /// Nothing is there.
    #[error("there is no socket {path}")]
    Missing {
        /// Where.
        path: String,
    },
    /// The path leads through a symlink, which a sandbox may have made.
    #[error("{path} leads through a symbolic link to {leads_to}")]
    BehindSymlink {
        /// As given.
        path: String,
        /// Where it leads now.
        leads_to: String,
    },
    /// Something else is there.
    #[error("{path} is not a socket")]
    NotASocket {
        /// Where.
        path: String,
    },
    /// Whoever speaks to it is outside of every sandbox.
    #[error("{path} is never let into a sandbox: {why}")]
    ControlsHost {
        /// Which.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// It cannot be looked at.
    #[error("the socket {path} cannot be looked at")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Coded for HostSocketError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoAgent => "NO_SSH_AGENT",
            Self::Missing { .. } => "SOCKET_MISSING",
            Self::BehindSymlink { .. } => "SOCKET_BEHIND_SYMLINK",
            Self::NotASocket { .. } => "NOT_A_SOCKET",
            Self::ControlsHost { .. } => "SOCKET_CONTROLS_HOST",
            Self::Unreadable { .. } => "SOCKET_UNREADABLE",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(match self {
            Self::NoAgent => Fix::command(
                "Start an agent, add a key, and start Kotak from the same shell.",
                "eval \"$(ssh-agent)\" && ssh-add",
            ),
            Self::Missing { .. } => Fix::words("Start the service first, or correct the path."),
            Self::BehindSymlink { leads_to, .. } => {
                Fix::words(format!("If {leads_to} is what is meant, grant that."))
            }
            Self::NotASocket { .. } => Fix::words("Give the path of a Unix socket."),
            Self::ControlsHost { .. } => Fix::words(
                "Leave it out: with it there would be no sandbox. Do what needs it yourself, outside \
                 of the session.",
            ),
            Self::Unreadable { .. } => Fix::words("Choose a socket that you may connect to."),
        })
    }
}

impl HostSockets {
    /// Looks at a socket as it is now.
    ///
    /// # Errors
    /// It is not there, is none, lies behind a symlink, or controls the host.
    pub fn look(&self, path: &AbsPath) -> Result<OwnedFd, HostSocketError> {
        let shown = || crate::text::printable(&path.to_string());
        let controls = |why| HostSocketError::ControlsHost { path: shown(), why };
        if let Some(why) = host_control(path, &self.kotak) {
            return Err(controls(why));
        }
        let how = OpenHow::new()
            // Not O_NOFOLLOW: with O_PATH it would give the link itself (open(2)).
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        let unreadable = |errno: Errno| HostSocketError::Unreadable {
            path: shown(),
            source: errno.into(),
        };
        let socket = match openat2(AT_FDCWD, path.as_bytes(), how) {
            Ok(socket) => socket,
            Err(Errno::ENOENT | Errno::ENOTDIR) => {
                return Err(HostSocketError::Missing { path: shown() });
            }
            Err(Errno::ELOOP) => return Err(self.behind_symlink(path)),
            Err(errno) => return Err(unreadable(errno)),
        };
        let found = fstat(&socket).map_err(unreadable)?;
        if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
            return Err(HostSocketError::NotASocket { path: shown() });
        }
        // The same one under another name: a hard link, or a bind mount.
        for known in well_known_controls(self.uid) {
            if stat(known.as_bytes()).is_ok_and(|known| is_same(&known, &found))
                && let Some(why) = host_control(&known, &self.kotak)
            {
                return Err(controls(why));
            }
        }
        Ok(socket)
    }

    fn behind_symlink(&self, path: &AbsPath) -> HostSocketError {
        let shown = crate::text::printable(&path.to_string());
        let leads_to = std::fs::canonicalize(path.to_path_buf())
            .ok()
            .and_then(|target| AbsPath::from_path(&target).ok());
        match leads_to {
            None => HostSocketError::Missing { path: shown },
            Some(target) => match host_control(&target, &self.kotak) {
                Some(why) => HostSocketError::ControlsHost { path: shown, why },
                None => HostSocketError::BehindSymlink {
                    path: shown,
                    leads_to: crate::text::printable(&target.to_string()),
                },
            },
        }
    }

    /// Connects to a socket, after looking at it.
    ///
    /// # Errors
    /// As [`HostSockets::look`], or the system's word.
    pub async fn connect(&self, path: &AbsPath) -> io::Result<UnixStream> {
        let (own, path) = (self.clone(), path.clone());
        let looked = tokio::task::spawn_blocking(move || own.look(&path));
        let socket = looked
            .await
            .map_err(io::Error::other)?
            .map_err(io::Error::other)?;
        // What was looked at, whatever has its name by now (proc(5), /proc/pid/fd).
        UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())).await
    }
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn host() -> HostSockets {
        HostSockets {
            kotak: KotakPaths::default(),
            uid: nix::unistd::getuid().as_raw(),
            agent: None,
        }
    }

    /// A folder whose own path leads through no symlink.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn code(path: &Path) -> Option<&'static str> {
        let path = AbsPath::from_path(path).unwrap();
        host().look(&path).err().map(|error| error.code())
    }

    #[tokio::test]
    async fn a_socket_is_connected_to_and_nothing_else_is() {
        // REQ EG-12
        let (_dir, folder) = folder();
        let path = folder.join("db.sock");
        assert_eq!(code(&path), Some("SOCKET_MISSING"));
        std::fs::write(folder.join("file"), "x").unwrap();
        assert_eq!(code(&folder.join("file")), Some("NOT_A_SOCKET"));
        assert_eq!(code(&folder.join("file/below")), Some("SOCKET_MISSING"));
        assert_eq!(code(&folder), Some("NOT_A_SOCKET"));
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(code(&path), None);
        let mut stream = host()
            .connect(&AbsPath::from_path(&path).unwrap())
            .await
            .unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let mut accepted = UnixStream::from_std(accepted).unwrap();
        accepted.write_all(b"hello").await.unwrap();
        drop(accepted);
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn no_symlink_on_the_way_is_followed() {
        // REQ EG-12: a sandbox that may write the folder could point it anywhere.
        let (_dir, folder) = folder();
        std::fs::create_dir(folder.join("real")).unwrap();
        let _listener = UnixListener::bind(folder.join("real/db.sock")).unwrap();
        std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("real/db.sock", folder.join("db.sock")).unwrap();
        assert_eq!(code(&folder.join("real/db.sock")), None, "the control");
        for link in ["link/db.sock", "db.sock"] {
            let path = AbsPath::from_path(&folder.join(link)).unwrap();
            let error = host().look(&path).unwrap_err();
            assert_eq!(error.code(), "SOCKET_BEHIND_SYMLINK", "{link}");
            let real = folder.join("real/db.sock").display().to_string();
            assert!(error.fix().unwrap().text.contains(&real), "{link}");
        }
        std::os::unix::fs::symlink("nowhere", folder.join("dangling")).unwrap();
        assert_eq!(code(&folder.join("dangling")), Some("SOCKET_MISSING"));
    }

    #[test]
    fn a_socket_that_controls_the_host_is_refused_by_name_and_behind_a_link() {
        // REQ EG-12
        let (_dir, folder) = folder();
        let _listener = UnixListener::bind(folder.join("docker.sock")).unwrap();
        assert_eq!(
            code(&folder.join("docker.sock")),
            Some("SOCKET_CONTROLS_HOST")
        );
        std::os::unix::fs::symlink("docker.sock", folder.join("innocent.sock")).unwrap();
        assert_eq!(
            code(&folder.join("innocent.sock")),
            Some("SOCKET_CONTROLS_HOST")
        );
        // Whether it exists or not.
        assert_eq!(
            code(Path::new("/var/run/docker.sock")),
            Some("SOCKET_CONTROLS_HOST")
        );
    }
}

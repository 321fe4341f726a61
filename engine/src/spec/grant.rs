//! What opens a session's walls, each thing by itself: a loopback port in or out, a Unix socket of
//! the host (REQ EG-12), a folder whose programs may run (REQ UI-7).

use super::{AbsPath, ForwardDirection, PortForward, SocketGrant};
use crate::error::{Coded, Fix};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use ts_rs::TS;

/// Instead of a path: the agent that `SSH_AUTH_SOCK` of the host names.
pub const SSH_AGENT: &str = "ssh-agent";

/// Grants of one session.
pub const MOST_GRANTS: usize = 64;

/// Ports inside on which every restricted session has listeners of its own: ssh, DNS, HTTP, the
/// SOCKS5 proxy, HTTPS and the HTTP proxy. A forward in would give the host's other users the
/// session's proxies, and a forward out would stand in their way.
const OWN_PORTS: [u16; 6] = [22, 53, 80, 443, 1080, 3128];

/// Ports of the host behind which stands what controls it, as long as they are used as they usually
/// are: the container engine's interface, and the display.
const CONTROL_PORTS: [(RangeInclusive<u16>, &str); 2] = [
    (
        2375..=2376,
        "a container engine's interface, by which the whole host is controlled",
    ),
    (
        6000..=6063,
        "a display's, on which keys can be read and typed for others",
    ),
];

/// What is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum GrantKind {
    /// A port inside, reached from the host: `host:guest`.
    PortIn,
    /// A port of the host, reached from inside: `host:guest`.
    PortOut,
    /// A socket of the host, by its absolute path, or `ssh-agent`.
    Socket,
    /// A folder that can be written and whose programs may run, by its absolute path.
    Exec,
}

/// One grant, checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grant {
    /// The host's 127.0.0.1 has a port that leads to a server inside. Every user and program of
    /// the host can connect to it, as to any server on its loopback.
    PortIn(Ports),
    /// The loopback inside has a port that leads to a server on the host's 127.0.0.1.
    PortOut(Ports),
    /// A Unix socket inside leads to one of the host.
    Socket(SocketName),
    /// Programs in this folder and below it run, though the session can write there.
    Exec(AbsPath),
}

/// The two ends of a forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ports {
    /// On the host's 127.0.0.1.
    pub host: NonZeroU16,
    /// On the sandbox's 127.0.0.1.
    pub guest: NonZeroU16,
}

/// Which socket of the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketName {
    /// That of the ssh agent.
    SshAgent,
    /// The one at this path.
    Path(AbsPath),
}

/// Why something cannot be granted as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// A port is no number from 1 to 65535.
    #[error("\"{text}\" is not a port, nor PORT:HOSTPORT")]
    Port {
        /// As given.
        text: String,
    },
    /// The session has listeners of its own there.
    #[error("port {port} inside belongs to the session's own proxies")]
    OwnPort {
        /// Which.
        port: u16,
    },
    /// Whoever speaks to that port of the host is outside of every sandbox.
    #[error("port {port} of the host is never let into a sandbox: it is {why}")]
    ControlPort {
        /// Which.
        port: u16,
        /// What usually stands there.
        why: &'static str,
    },
    /// A socket's path is relative, too long, or holds a NUL or a control character.
    #[error("\"{path}\" is not the absolute path of a socket")]
    SocketPath {
        /// As given, escaped.
        path: String,
    },
    /// A folder's path is relative, the root, too long, or holds what cannot be read.
    #[error("\"{path}\" is not the absolute path of a folder whose programs can be let run")]
    ExecFolder {
        /// As given, escaped.
        path: String,
    },
    /// Two forwards would listen at one place.
    #[error("port {port} {side} is forwarded twice")]
    Conflict {
        /// Which.
        port: u16,
        /// `of the host` or `inside`.
        side: &'static str,
    },
    /// More than a session can have.
    #[error("{count} grants are more than the {MOST_GRANTS} that a session can have")]
    TooMany {
        /// How many were asked for.
        count: usize,
    },
}

impl Coded for GrantError {
    fn code(&self) -> &'static str {
        match self {
            Self::Port { .. } => "GRANT_PORT_INVALID",
            Self::OwnPort { .. } => "GRANT_PORT_OWN",
            Self::ControlPort { .. } => "PORT_CONTROLS_HOST",
            Self::SocketPath { .. } => "GRANT_SOCKET_PATH_INVALID",
            Self::ExecFolder { .. } => "EXEC_FOLDER_INVALID",
            Self::Conflict { .. } => "GRANTS_CONFLICT",
            Self::TooMany { .. } => "TOO_MANY_GRANTS",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Port { .. } => {
                "Write the port inside, from 1 to 65535, and behind a colon the port on this \
                 computer where that is another one: 3000 or 3000:8080."
                    .to_owned()
            }
            Self::OwnPort { .. } => format!(
                "Use a port inside other than {}.",
                OWN_PORTS.map(|port| port.to_string()).join(", ")
            ),
            Self::ControlPort { .. } => {
                "Leave it out, or let the service listen on another port.".to_owned()
            }
            Self::SocketPath { .. } => {
                format!("Give the whole path, from the root, or {SSH_AGENT}.")
            }
            Self::ExecFolder { .. } => "Give the whole path of a folder, from the root.".to_owned(),
            Self::Conflict { .. } => "Choose another port for one of the two.".to_owned(),
            Self::TooMany { .. } => "Leave out what is not needed.".to_owned(),
        }))
    }
}

impl Ports {
    /// Reads `GUEST` or `GUEST:HOST`, as a person writes it.
    ///
    /// # Errors
    /// [`GrantError::Port`]; [`GrantError::OwnPort`] for a port inside that is the session's own.
    pub fn parse(text: &str) -> Result<Self, GrantError> {
        let invalid = || GrantError::Port {
            text: text.escape_debug().to_string(),
        };
        let port = |text: &str| {
            // Not `+80`, which parse::<u16> takes.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let (guest, host) = match text.split_once(':') {
            None => (port(text), port(text)),
            Some((guest, host)) => (port(guest), port(host)),
        };
        let (guest, host): (NonZeroU16, NonZeroU16) = guest.zip(host).ok_or_else(invalid)?;
        Self { host, guest }.checked()
    }

    fn checked(self) -> Result<Self, GrantError> {
        let port = self.guest.get();
        if OWN_PORTS.contains(&port) {
            return Err(GrantError::OwnPort { port });
        }
        Ok(self)
    }

    /// Reads the store's `host:guest`.
    fn stored(text: &str) -> Option<Self> {
        let (host, guest) = text.split_once(':')?;
        let ports = Self {
            host: host.parse().ok()?,
            guest: guest.parse().ok()?,
        };
        ports.checked().ok()
    }
}

impl SocketName {
    /// Reads an absolute path, or `ssh-agent`.
    ///
    /// # Errors
    /// [`GrantError::SocketPath`].
    pub fn parse(text: &str) -> Result<Self, GrantError> {
        if text == SSH_AGENT {
            return Ok(Self::SshAgent);
        }
        let invalid = || GrantError::SocketPath {
            path: text.escape_debug().to_string(),
        };
        if text.chars().any(char::is_control) {
            return Err(invalid());
        }
        let path = AbsPath::new(text).map_err(|_| invalid())?;
        if path.is_root() {
            return Err(invalid());
        }
        Ok(Self::Path(path))
    }
}

/// Reads the absolute path of a folder whose programs may run.
///
/// # Errors
/// [`GrantError::ExecFolder`].
pub fn exec_folder(text: &str) -> Result<AbsPath, GrantError> {
    let invalid = || GrantError::ExecFolder {
        path: crate::text::printable(text),
    };
    // What is approved must be what is seen.
    if text.chars().any(crate::text::misleads) {
        return Err(invalid());
    }
    match AbsPath::new(text) {
        Ok(path) if !path.is_root() => Ok(path),
        Ok(_) | Err(_) => Err(invalid()),
    }
}

impl Grant {
    /// A port of the host, reached from inside.
    ///
    /// # Errors
    /// [`GrantError::ControlPort`].
    pub fn port_out(ports: Ports) -> Result<Self, GrantError> {
        let port = ports.host.get();
        match CONTROL_PORTS
            .iter()
            .find(|(range, _)| range.contains(&port))
        {
            Some((_, why)) => Err(GrantError::ControlPort { port, why }),
            None => Ok(Self::PortOut(ports)),
        }
    }

    /// What it grants.
    #[must_use]
    pub fn kind(&self) -> GrantKind {
        match self {
            Self::PortIn(_) => GrantKind::PortIn,
            Self::PortOut(_) => GrantKind::PortOut,
            Self::Socket(_) => GrantKind::Socket,
            Self::Exec(_) => GrantKind::Exec,
        }
    }

    /// As it is kept beside its kind; [`Grant::stored`] reads it back.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Self::PortIn(ports) | Self::PortOut(ports) => {
                format!("{}:{}", ports.host, ports.guest)
            }
            Self::Socket(SocketName::SshAgent) => SSH_AGENT.to_owned(),
            Self::Socket(SocketName::Path(path)) | Self::Exec(path) => path.to_string(),
        }
    }

    /// Reads what was kept; nothing when this version cannot.
    #[must_use]
    pub fn stored(kind: GrantKind, value: &str) -> Option<Self> {
        match kind {
            GrantKind::PortIn => Ports::stored(value).map(Self::PortIn),
            GrantKind::PortOut => Self::port_out(Ports::stored(value)?).ok(),
            GrantKind::Socket => SocketName::parse(value).ok().map(Self::Socket),
            GrantKind::Exec => exec_folder(value).ok().map(Self::Exec),
        }
    }

    /// What it lets through, as one sentence without a full stop; emphasised parts between `**`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let emphasis = |text: String| format!("**{}**", text.replace('*', "∗"));
        match self {
            Self::PortIn(Ports { host, guest }) => format!(
                "Everybody on this computer reaches its port **{guest}** as \
                 {}",
                emphasis(format!("127.0.0.1:{host}"))
            ),
            Self::PortOut(Ports { host, guest }) => format!(
                "Reaches {} of this computer as its own port **{guest}**",
                emphasis(format!("127.0.0.1:{host}"))
            ),
            Self::Socket(SocketName::SshAgent) => {
                "Can sign with every key in **your ssh agent**".to_owned()
            }
            Self::Socket(SocketName::Path(path)) => format!(
                "Reaches the socket {} of this computer",
                emphasis(crate::text::printable_start(&path.to_string(), 1024))
            ),
            Self::Exec(path) => format!(
                "Can run programs in {}, whatever it writes there",
                emphasis(crate::text::printable_start(&path.to_string(), 1024))
            ),
        }
    }
}

impl fmt::Display for Grant {
    /// `port 3000 inside, as 127.0.0.1:8080 of this computer`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortIn(Ports { host, guest }) => write!(
                formatter,
                "port {guest} inside, opened as 127.0.0.1:{host} of this computer"
            ),
            Self::PortOut(Ports { host, guest }) => write!(
                formatter,
                "127.0.0.1:{host} of this computer, opened as port {guest} inside"
            ),
            Self::Socket(SocketName::SshAgent) => formatter.write_str("your ssh agent"),
            Self::Socket(SocketName::Path(path)) => write!(formatter, "the socket {path}"),
            Self::Exec(path) => write!(formatter, "programs in {path} may run"),
        }
    }
}

/// Checks what a spec or a request lists, each once.
///
/// # Errors
/// The first thing that is wrong, and two forwards that listen at one place.
pub fn grants(forwards: &[PortForward], sockets: &[SocketGrant]) -> Result<Vec<Grant>, GrantError> {
    let count = forwards.len() + sockets.len();
    if count > MOST_GRANTS {
        return Err(GrantError::TooMany { count });
    }
    let mut all = Vec::with_capacity(count);
    for forward in forwards {
        all.push(forward.checked()?);
    }
    for socket in sockets {
        all.push(Grant::Socket(SocketName::parse(&socket.host_path)?));
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|grant| seen.insert(grant.clone()));
    refuse_conflicts(&all)?;
    Ok(all)
}

/// Each listens alone: the forwards in on the host, those out inside.
fn refuse_conflicts(grants: &[Grant]) -> Result<(), GrantError> {
    let mut taken = HashMap::new();
    for grant in grants {
        let (port, side) = match grant {
            Grant::PortIn(ports) => (ports.host, "of the host"),
            Grant::PortOut(ports) => (ports.guest, "inside"),
            Grant::Socket(_) | Grant::Exec(_) => continue,
        };
        if taken.insert((port, side), grant).is_some() {
            let port = port.get();
            return Err(GrantError::Conflict { port, side });
        }
    }
    Ok(())
}

impl PortForward {
    /// The grant that it asks for.
    ///
    /// # Errors
    /// A port inside that is 0 or the session's own, or a port of the host that controls it.
    pub fn checked(&self) -> Result<Grant, GrantError> {
        let guest = NonZeroU16::new(self.guest_port).ok_or_else(|| GrantError::Port {
            text: self.guest_port.to_string(),
        })?;
        let host = NonZeroU16::new(self.host_port).unwrap_or(guest);
        let ports = Ports { host, guest }.checked()?;
        match self.direction {
            ForwardDirection::In => Ok(Grant::PortIn(ports)),
            ForwardDirection::Out => Grant::port_out(ports),
        }
    }
}

#[cfg(test)]
mod tests;

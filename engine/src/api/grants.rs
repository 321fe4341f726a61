//! What the window and the command see of grants (REQ EG-12).

use crate::error::Problem;
use crate::spec::{ExecRestriction, Grant, GrantError, GrantKind, Ports, SocketName, exec_folder};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;
use ts_rs::TS;

/// A port or a socket that the operator lets through a sandbox's walls, or a folder whose programs
/// may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct GrantInfo {
    /// Its number in the store.
    #[ts(type = "number")]
    pub id: i64,
    /// What.
    pub kind: GrantKind,
    /// The port on this computer's 127.0.0.1, of a port.
    pub host_port: Option<u16>,
    /// The port inside, of a port.
    pub guest_port: Option<u16>,
    /// The path on this computer, or `ssh-agent`, of a socket; the path of a folder.
    pub path: Option<String>,
    /// The session it holds for; absent for one of a workspace.
    pub session_id: Option<String>,
    /// The workspace it holds for: each session that starts there has it.
    pub workspace: String,
    /// Milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub created_at_ms: u64,
    /// The grant in words.
    pub words: String,
}

/// What became of a grant in one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantUse {
    /// The grant's number.
    pub grant: i64,
    /// The session.
    pub session_id: String,
    /// What it is reached by: an address, or a path inside. Absent while it is not open.
    pub inside: Option<String>,
    /// Why it is not open.
    pub problem: Option<Problem>,
}

/// A grant as a running session has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SessionGrant {
    /// Which.
    pub grant: GrantInfo,
    /// What it is reached by: an address, or a path inside. Absent while it is not open.
    pub reached_by: Option<String>,
    /// Why it is not open.
    pub problem: Option<Problem>,
    /// Connections through it now.
    pub open: u32,
}

/// From where a session may run programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ExecPolicy {
    /// Whether programs in folders that the session can write are refused.
    pub restriction: ExecRestriction,
    /// Approved folders of this session and its workspace, oldest first.
    pub grants: Vec<ExecGrant>,
}

/// A folder whose programs may run, as it stands for one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ExecGrant {
    /// Which.
    pub grant: GrantInfo,
    /// Whether programs there run now.
    pub standing: ExecStanding,
    /// Why it is not in force.
    pub problem: Option<Problem>,
}

/// Where an approved folder stands. A sandbox that runs can be neither widened nor narrowed
/// (landlock(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ExecStanding {
    /// Programs there run.
    InForce,
    /// Programs there will run once the session is started anew.
    NextStart,
    /// It was revoked, and programs there run until the session ends.
    Revoked,
    /// The folder cannot be used as it is now.
    Unusable,
}

/// A grant to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewGrant {
    /// What.
    pub kind: GrantKind,
    /// Ports as a person writes them, `GUEST` or `GUEST:HOST`; of a socket its path, or
    /// `ssh-agent`; of a folder its path.
    pub what: String,
    /// For one running session; absent for every session that starts in the workspace from now on.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The workspace; absent takes the session's.
    #[serde(default)]
    pub workspace: Option<String>,
}

impl NewGrant {
    /// What it grants.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn checked(&self) -> Result<Grant, GrantError> {
        Ok(match self.kind {
            GrantKind::PortIn => Grant::PortIn(Ports::parse(&self.what)?),
            GrantKind::PortOut => Grant::port_out(Ports::parse(&self.what)?)?,
            GrantKind::Socket => Grant::Socket(SocketName::parse(&self.what)?),
            GrantKind::Exec => Grant::Exec(exec_folder(&self.what)?),
        })
    }
}

impl GrantInfo {
    /// A grant as it is kept: its number, kind and value, session and workspace, and time.
    pub(crate) fn new(
        id: i64,
        (kind, value): (GrantKind, &str),
        (session_id, workspace): (Option<String>, String),
        created_at_ms: u64,
    ) -> Self {
        let grant = Grant::stored(kind, value);
        let reach = match &session_id {
            Some(session) => format!("until the session {session} ends"),
            None => format!("for every session that starts in {workspace}"),
        };
        let what = grant.as_ref().map_or_else(
            // It can be revoked all the same.
            || format!("{value}, which this version cannot read"),
            Grant::to_string,
        );
        let (ports, path) = match grant {
            Some(Grant::PortIn(ports) | Grant::PortOut(ports)) => (Some(ports), None),
            Some(Grant::Socket(_) | Grant::Exec(_)) => (None, Some(value.to_owned())),
            None => (None, None),
        };
        Self {
            id,
            kind,
            host_port: ports.map(|ports| ports.host.get()),
            guest_port: ports.map(|ports| ports.guest.get()),
            path,
            session_id,
            workspace,
            created_at_ms,
            words: format!("{what}, {reach}"),
        }
    }

    /// What it grants; nothing when this version cannot read it.
    #[must_use]
    pub fn grant(&self) -> Option<Grant> {
        let ports = || {
            Some(Ports {
                host: NonZeroU16::new(self.host_port?)?,
                guest: NonZeroU16::new(self.guest_port?)?,
            })
        };
        match self.kind {
            GrantKind::PortIn => ports().map(Grant::PortIn),
            GrantKind::PortOut => Grant::port_out(ports()?).ok(),
            GrantKind::Socket => {
                let path = self.path.as_deref()?;
                SocketName::parse(path).ok().map(Grant::Socket)
            }
            GrantKind::Exec => exec_folder(self.path.as_deref()?).ok().map(Grant::Exec),
        }
    }
}

//! The statements: what is written, and what is read.

use super::activity;
use super::engine_id::{EngineId, Life};
use super::grants;
use super::record::{SessionEnd, SessionNetworkRecord, SessionRecord, SessionStart};
use super::rules;
use crate::api::LaunchRequest;
use crate::backend::SandboxBackend;
use crate::manager::SandboxState;
use crate::spec::NetworkMode;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Sessions that the history keeps.
const KEPT_SESSIONS: i64 = 20_000;
/// Folders whose use and last choice are kept.
const KEPT_FOLDERS: i64 = 100;

/// One change. Every kind can be applied again later, in order.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Started {
        engine: EngineId,
        start: Box<SessionStart>,
    },
    Launched {
        id: String,
        backend: Option<SandboxBackend>,
        state: SandboxState,
    },
    Ended {
        id: String,
        end: SessionEnd,
    },
    Setting {
        key: &'static str,
        value: String,
    },
    Folder {
        path: String,
        choice: Option<String>,
        at_ms: u64,
    },
    ForgetFolder {
        path: String,
    },
    Network {
        id: String,
        network: SessionNetworkRecord,
        at_ms: u64,
    },
    GrantUsed {
        grant: i64,
        session: String,
        inside: Option<String>,
        problem: Option<String>,
    },
    GrantsEnded {
        session: String,
    },
}

impl Write {
    /// Whether `later` makes this change needless.
    pub(super) fn is_replaced_by(&self, later: &Self) -> bool {
        matches!((self, later), (Self::Setting { key: own, .. }, Self::Setting { key: new, .. }) if own == new)
    }
}

/// Applies one change.
pub(super) fn apply(
    connection: &Connection,
    own: &EngineId,
    write: &Write,
) -> rusqlite::Result<()> {
    match write {
        Write::Started { engine, start } => connection
            .prepare_cached(
                "INSERT INTO session (id, workspace, title, cwd, program, requested_backend, network,
                    state, started_at_ms, engine_pid, engine_start)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                start.id,
                start.workspace,
                start.title,
                start.cwd,
                start.program,
                start.requested_backend.as_ref().and_then(word),
                start.network.as_ref().and_then(word),
                word(&SandboxState::Created),
                millis(start.started_at_ms),
                engine.pid,
                engine.start,
            ])?,
        Write::Launched { id, backend, state } => connection
            .prepare_cached(
                "UPDATE session SET backend = ?3, state = ?4 WHERE seq = (SELECT max(seq) FROM session
                    WHERE id = ?1 AND engine_start = ?2 AND ended_at_ms IS NULL)",
            )?
            .execute(params![id, own.start, backend.as_ref().and_then(word), word(state)])?,
        Write::Ended { id, end } => {
            let (code, message) = end.error.clone().unzip();
            rules::session_ended(connection, id)?;
            grants::session_ended(connection, id)?;
            connection
                .prepare_cached(
                    "UPDATE session SET state = ?3, exit_code = ?4, signal = ?5, error_code = ?6,
                        error_message = ?7, ended_at_ms = ?8
                     WHERE seq = (SELECT max(seq) FROM session
                        WHERE id = ?1 AND engine_start = ?2 AND ended_at_ms IS NULL)",
                )?
                .execute(params![
                    id,
                    own.start,
                    word(&end.state),
                    end.exit_code,
                    end.signal,
                    code,
                    message,
                    millis(end.ended_at_ms),
                ])?
        }
        Write::Setting { key, value } => connection
            .prepare_cached(
                "INSERT INTO setting (key, value) VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![key, value])?,
        Write::Folder { path, choice, at_ms } => {
            let chosen = choice.as_ref().map(|_| millis(*at_ms));
            connection
                .prepare_cached(
                    "INSERT INTO folder (path, used_at_ms, last_choice, chosen_at_ms)
                     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (path) DO UPDATE SET
                        used_at_ms = excluded.used_at_ms,
                        last_choice = coalesce(excluded.last_choice, last_choice),
                        chosen_at_ms = coalesce(excluded.chosen_at_ms, chosen_at_ms)",
                )?
                .execute(params![path, millis(*at_ms), choice, chosen])?;
            connection
                .prepare_cached(
                    "DELETE FROM folder WHERE path NOT IN
                        (SELECT path FROM folder ORDER BY used_at_ms DESC, path LIMIT ?1)",
                )?
                .execute([KEPT_FOLDERS])?
        }
        Write::Network { id, network, at_ms } => connection
            .prepare_cached(
                "INSERT OR REPLACE INTO session_network
                    (session_id, mode, allowlist, workspace, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                id,
                word(&network.mode),
                serde_json::to_string(&network.allowlist).unwrap_or_default(),
                network.workspace,
                millis(*at_ms),
            ])?,
        Write::GrantUsed {
            grant,
            session,
            inside,
            problem,
        } => {
            let of = (*grant, session.as_str());
            grants::used(connection, of, inside.as_deref(), problem.as_deref())?
        }
        Write::GrantsEnded { session } => {
            grants::session_ended(connection, session)?;
            0
        }
        Write::ForgetFolder { path } => {
            connection.prepare_cached("DELETE FROM folder WHERE path = ?1")?.execute([path])?
        }
    };
    Ok(())
}

/// Ends the rows of engines that are gone, and lets the oldest history go.
pub(super) fn tidy(connection: &Connection, own: &EngineId, now_ms: u64) -> rusqlite::Result<()> {
    let mut engines = connection.prepare(
        "SELECT DISTINCT engine_pid, engine_start FROM session WHERE ended_at_ms IS NULL",
    )?;
    let engines: Vec<EngineId> = engines
        .query_map([], |row| {
            Ok(EngineId {
                pid: row.get(0)?,
                start: row.get(1)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    for engine in engines
        .iter()
        .filter(|engine| engine.life(own) == Life::Gone)
    {
        connection.execute(
            "UPDATE session SET state = ?3, error_code = 'ENGINE_ENDED',
                error_message = 'engine ended', ended_at_ms = max(?4, started_at_ms)
             WHERE ended_at_ms IS NULL AND engine_pid = ?1 AND engine_start = ?2",
            params![
                engine.pid,
                engine.start,
                word(&SandboxState::Destroyed),
                millis(now_ms)
            ],
        )?;
    }
    connection.execute(
        "DELETE FROM session WHERE ended_at_ms IS NOT NULL AND seq <=
            (SELECT seq FROM session ORDER BY seq DESC LIMIT 1 OFFSET ?1)",
        [KEPT_SESSIONS],
    )?;
    // What belongs to no session that is kept; a session's row may come later than its network.
    connection.execute(
        "DELETE FROM session_network WHERE at_ms < ?1
            AND session_id NOT IN (SELECT id FROM session)",
        [millis(now_ms.saturating_sub(24 * 60 * 60 * 1000))],
    )?;
    activity::tidy(connection)?;
    rules::tidy(connection)?;
    grants::tidy(connection)?;
    Ok(())
}

/// The newest sessions first.
pub(super) fn sessions(
    connection: &Connection,
    limit: u32,
) -> rusqlite::Result<Vec<SessionRecord>> {
    connection
        .prepare_cached(
            "SELECT id, workspace, title, cwd, program, backend, requested_backend, network, state,
                error_code, error_message, exit_code, signal, started_at_ms, ended_at_ms, engine_pid
             FROM session ORDER BY seq DESC LIMIT ?1",
        )?
        .query_map([limit], record)?
        .collect()
}

/// The newest session of an id.
pub(super) fn session(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Option<SessionRecord>> {
    connection
        .prepare_cached(
            "SELECT id, workspace, title, cwd, program, backend, requested_backend, network, state,
                error_code, error_message, exit_code, signal, started_at_ms, ended_at_ms, engine_pid
             FROM session WHERE id = ?1 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([id], record)
        .optional()
}

/// What a session's network was launched with; nothing for one that was not restricted.
pub(super) fn session_network(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Option<SessionNetworkRecord>> {
    connection
        .prepare_cached(
            "SELECT mode, allowlist, workspace FROM session_network WHERE session_id = ?1",
        )?
        .query_row([id], |row| {
            let mode: String = row.get(0)?;
            let allowlist: String = row.get(1)?;
            Ok((read_word(&mode), allowlist, row.get(2)?))
        })
        .optional()
        .map(|found| {
            let (mode, allowlist, workspace) = found?;
            Some(SessionNetworkRecord {
                // What cannot be read reaches nothing.
                mode: mode.unwrap_or(NetworkMode::Off),
                allowlist: serde_json::from_str(&allowlist).unwrap_or_default(),
                workspace,
            })
        })
}

pub(super) fn setting(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM setting WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

/// Folders, last used first.
pub(super) fn folders(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("SELECT path FROM folder ORDER BY used_at_ms DESC, path LIMIT ?1")?
        .query_map([limit], |row| row.get(0))?
        .collect()
}

/// Last choices, newest first. A choice that this version cannot read is left out.
pub(super) fn choices(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<LaunchRequest>> {
    let texts: Vec<String> = connection
        .prepare_cached(
            "SELECT last_choice FROM folder WHERE last_choice IS NOT NULL
             ORDER BY chosen_at_ms DESC, path LIMIT ?1",
        )?
        .query_map([limit], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(texts
        .iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect())
}

fn record(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let backend: Option<String> = row.get(5)?;
    Ok(SessionRecord {
        id: row.get(0)?,
        workspace: row.get(1)?,
        title: row.get(2)?,
        cwd: row.get(3)?,
        program: row.get(4)?,
        // A stored name is read by REQ BK-2; an absent one means that nothing ran.
        backend: backend.map(|name| SandboxBackend::from_name(Some(&name))),
        requested_backend: row
            .get::<_, Option<String>>(6)?
            .and_then(|name| read_word(&name)),
        network: row
            .get::<_, Option<String>>(7)?
            .and_then(|name| read_word(&name)),
        state: read_word(&row.get::<_, String>(8)?).unwrap_or(SandboxState::Error),
        error_code: row.get(9)?,
        error_message: row.get(10)?,
        exit_code: row.get(11)?,
        signal: row.get(12)?,
        started_at_ms: row.get::<_, i64>(13)?.try_into().unwrap_or(0),
        ended_at_ms: row
            .get::<_, Option<i64>>(14)?
            .map(|ms| ms.try_into().unwrap_or(0)),
        engine_pid: row.get(15)?,
    })
}

/// The wire name of a plain enum.
pub(super) fn word<T: Serialize>(value: &T) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Some(name),
        Ok(_) | Err(_) => None,
    }
}

pub(super) fn read_word<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
}

pub(super) fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

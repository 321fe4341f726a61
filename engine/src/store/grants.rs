//! Grants that last: ports and sockets let into sessions by the operator (REQ EG-12).

use super::error::StoreError;
use super::history::{ChangeError, Store};
use super::row::{millis, read_word, word};
use super::writer::now_ms;
use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

/// Grants that are kept at most.
const MOST_GRANTS: u32 = 10_000;
const COLUMNS: &str = "id, kind, value, session_id, workspace, created_at_ms";

/// What is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GrantKind {
    /// A port inside, reached from the host: `host:guest`.
    PortIn,
    /// A port of the host, reached from inside: `host:guest`.
    PortOut,
    /// A socket of the host, by its absolute path.
    Socket,
}

/// A grant to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantStart {
    /// What.
    pub kind: GrantKind,
    /// Which: ports or a path.
    pub value: String,
    /// The session that it ends with; absent for a grant of the workspace.
    pub session_id: Option<String>,
    /// The workspace, a folder.
    pub workspace: String,
}

/// A grant as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantRecord {
    /// Its number.
    pub id: i64,
    /// What.
    pub kind: GrantKind,
    /// Which.
    pub value: String,
    /// The session that it ends with.
    pub session_id: Option<String>,
    /// The workspace.
    pub workspace: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: u64,
}

impl Store {
    /// Keeps a grant, once for its session or workspace.
    ///
    /// # Errors
    /// It cannot be written now, or there are too many.
    pub fn add_grant(&self, start: GrantStart) -> Result<GrantRecord, StoreError> {
        self.change(move |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = format!(
                "SELECT {COLUMNS} FROM grants WHERE kind = ?1 AND value = ?2 AND workspace = ?3
                    AND coalesce(session_id, '') = coalesce(?4, '')"
            );
            let key = params![
                word(&start.kind),
                start.value,
                start.workspace,
                start.session_id
            ];
            if let Some(known) = transaction.query_row(&sql, key, record).optional()? {
                return Ok(known);
            }
            let count: u32 =
                transaction.query_row("SELECT count(*) FROM grants", [], |row| row.get(0))?;
            if count >= MOST_GRANTS {
                return Err(ChangeError::Refused(StoreError::TooManyRules {
                    limit: MOST_GRANTS,
                }));
            }
            let sql = format!(
                "INSERT INTO grants (kind, value, workspace, session_id, created_at_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5) RETURNING {COLUMNS}"
            );
            let added = transaction.query_row(
                &sql,
                params![
                    word(&start.kind),
                    start.value,
                    start.workspace,
                    start.session_id,
                    millis(now_ms()),
                ],
                record,
            )?;
            transaction.commit()?;
            Ok(added)
        })
    }

    /// Revokes a grant, and gives it as it stood; nothing when there is none.
    ///
    /// # Errors
    /// It cannot be written now.
    pub fn remove_grant(&self, id: i64) -> Result<Option<GrantRecord>, StoreError> {
        self.change(move |connection| {
            let sql = format!("DELETE FROM grants WHERE id = ?1 RETURNING {COLUMNS}");
            Ok(connection.query_row(&sql, [id], record).optional()?)
        })
    }

    /// Grants that hold for a session: its own, and those of its workspace; all without one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn grants(&self, session: Option<(&str, &str)>) -> Result<Vec<GrantRecord>, StoreError> {
        let (session, workspace) = session
            .map(|(session, workspace)| (session.to_owned(), workspace.to_owned()))
            .unzip();
        self.read(move |connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM grants WHERE ?1 IS NULL OR session_id = ?1
                    OR (session_id IS NULL AND workspace = ?2) ORDER BY id"
            );
            connection
                .prepare_cached(&sql)?
                .query_map(params![session, workspace], record)?
                .collect()
        })
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<GrantRecord> {
    let kind: String = row.get(1)?;
    let kind = read_word(&kind).ok_or_else(|| {
        rusqlite::Error::InvalidColumnType(1, "kind".to_owned(), rusqlite::types::Type::Text)
    })?;
    Ok(GrantRecord {
        id: row.get(0)?,
        kind,
        value: row.get(2)?,
        session_id: row.get(3)?,
        workspace: row.get(4)?,
        created_at_ms: row.get::<_, i64>(5)?.try_into().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{end, open_clean, start};
    use super::*;

    #[test]
    fn a_grant_is_kept_once_holds_where_it_was_given_and_can_be_revoked() {
        let root = tempfile::tempdir().unwrap();
        let store = open_clean(root.path());
        let grant = |value: &str, session: Option<&str>| GrantStart {
            kind: GrantKind::PortIn,
            value: value.to_owned(),
            session_id: session.map(str::to_owned),
            workspace: "/w".to_owned(),
        };
        store.session_started(start("s"));
        let kept = store.add_grant(grant("3000:3000", None)).unwrap();
        assert_eq!(store.add_grant(grant("3000:3000", None)).unwrap(), kept);
        let own = store.add_grant(grant("3000:3000", Some("s"))).unwrap();
        let of = |session, workspace| store.grants(Some((session, workspace))).unwrap();
        assert_eq!(of("s", "/w"), [kept.clone(), own]);
        assert_eq!(of("t", "/w"), std::slice::from_ref(&kept));
        assert_eq!(of("t", "/other"), []);
        store.session_ended("s", end(0));
        assert_eq!(store.grants(None).unwrap(), std::slice::from_ref(&kept));
        assert_eq!(store.remove_grant(kept.id).unwrap(), Some(kept.clone()));
        assert_eq!(store.remove_grant(kept.id).unwrap(), None);
    }
}

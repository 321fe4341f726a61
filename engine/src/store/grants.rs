//! Grants: ports and sockets let into sessions by the operator, and what became of each in the
//! sessions that have it (REQ EG-12).

use super::error::StoreError;
use super::history::{ChangeError, Store};
use super::row::{Write, millis, read_word, word};
use super::watch;
use super::writer::{Message, now_ms};
use crate::api::{GrantInfo, GrantUse};
use crate::error::Problem;
use crate::spec::{Grant, GrantKind};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

/// Grants that are kept at most.
const MOST_GRANTS: u32 = 10_000;
/// Counts every change of a grant, so that other engines notice it.
pub(super) const GENERATION: &str = "grants_generation";
const COLUMNS: &str = "id, kind, value, session_id, workspace, created_at_ms";

/// Is told all grants, oldest first, each time that any changed. Called from the store's thread.
pub type GrantsListener = Box<dyn Fn(Vec<GrantInfo>) + Send>;

/// A grant to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantStart {
    /// What.
    pub grant: Grant,
    /// The session that it ends with; absent for a grant of the workspace.
    pub session_id: Option<String>,
    /// The workspace, a folder.
    pub workspace: String,
}

impl Store {
    /// Keeps a grant, once for its session or workspace.
    ///
    /// # Errors
    /// It cannot be written now, or there are too many.
    pub fn add_grant(&self, start: GrantStart) -> Result<GrantInfo, StoreError> {
        self.change(move |connection| add(connection, &start, now_ms()))
    }

    /// Revokes a grant, and gives it as it stood; nothing when there is none. Sessions that have
    /// it, of any engine, lose it within half a second.
    ///
    /// # Errors
    /// It cannot be written now.
    pub fn remove_grant(&self, id: i64) -> Result<Option<GrantInfo>, StoreError> {
        self.change(move |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = format!("DELETE FROM grants WHERE id = ?1 RETURNING {COLUMNS}");
            let removed = transaction.query_row(&sql, [id], info).optional()?;
            transaction.execute("DELETE FROM grant_use WHERE grant_id = ?1", [id])?;
            if removed.is_some() {
                watch::changed(&transaction, GENERATION)?;
            }
            transaction.commit()?;
            Ok(removed)
        })
    }

    /// Grants that hold for a session: its own, and those of its workspace; all without one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn grants(&self, session: Option<(&str, &str)>) -> Result<Vec<GrantInfo>, StoreError> {
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
                .query_map(params![session, workspace], info)?
                .collect()
        })
    }

    /// Tells `listener` all grants now, and each time that one changes: at once for changes of this
    /// engine, within half a second for those of others. There is one listener; a later one takes
    /// its place.
    pub fn on_grants(&self, listener: impl Fn(Vec<GrantInfo>) + Send + 'static) {
        self.send(Message::ListenGrants(Box::new(listener)));
    }

    /// A session's engine opened a grant, with what it is reached by, or could not.
    pub fn grant_used(&self, grant: i64, session: &str, outcome: Result<String, Problem>) {
        let (inside, problem) = match outcome {
            Ok(inside) => (Some(inside), None),
            Err(problem) => (None, serde_json::to_string(&problem).ok()),
        };
        self.write(Write::GrantUsed {
            grant,
            session: session.to_owned(),
            inside,
            problem,
        });
    }

    /// What became of grants in the sessions that have them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn grant_uses(&self) -> Result<Vec<GrantUse>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT grant_id, session_id, inside, problem FROM grant_use
                     ORDER BY grant_id, session_id",
                )?
                .query_map([], |row| {
                    let problem: Option<String> = row.get(3)?;
                    Ok(GrantUse {
                        grant: row.get(0)?,
                        session_id: row.get(1)?,
                        inside: row.get(2)?,
                        problem: problem.and_then(|text| serde_json::from_str(&text).ok()),
                    })
                })?
                .collect()
        })
    }

    /// A session's network is closed: its own grants go, and what it used is used no more.
    pub fn grants_ended(&self, session: &str) {
        self.write(Write::GrantsEnded {
            session: session.to_owned(),
        });
    }
}

fn add(
    connection: &mut Connection,
    start: &GrantStart,
    now_ms: u64,
) -> Result<GrantInfo, ChangeError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (kind, value) = (word(&start.grant.kind()), start.grant.value());
    let sql = format!(
        "SELECT {COLUMNS} FROM grants WHERE kind = ?1 AND value = ?2 AND workspace = ?3
            AND coalesce(session_id, '') = coalesce(?4, '')"
    );
    let key = params![kind, value, start.workspace, start.session_id];
    if let Some(known) = transaction.query_row(&sql, key, info).optional()? {
        return Ok(known);
    }
    let count: u32 = transaction.query_row("SELECT count(*) FROM grants", [], |row| row.get(0))?;
    if count >= MOST_GRANTS {
        return Err(ChangeError::Refused(StoreError::TooManyRules {
            limit: MOST_GRANTS,
        }));
    }
    let sql = format!(
        "INSERT INTO grants (kind, value, workspace, session_id, created_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5) RETURNING {COLUMNS}"
    );
    let row = params![
        kind,
        value,
        start.workspace,
        start.session_id,
        millis(now_ms)
    ];
    let added = transaction.query_row(&sql, row, info)?;
    watch::changed(&transaction, GENERATION)?;
    transaction.commit()?;
    Ok(added)
}

/// All grants, oldest first.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<GrantInfo>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM grants ORDER BY id"))?
        .query_map([], info)?
        .collect()
}

/// What became of a grant in a session; a grant that was revoked meanwhile is in no use.
pub(super) fn used(
    connection: &Connection,
    (grant, session): (i64, &str),
    inside: Option<&str>,
    problem: Option<&str>,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO grant_use (grant_id, session_id, inside, problem)
             SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM grants WHERE id = ?1)",
        )?
        .execute(params![grant, session, inside, problem])
}

/// The grants of a session end with it.
pub(super) fn session_ended(connection: &Connection, session: &str) -> rusqlite::Result<()> {
    let gone = connection
        .prepare_cached("DELETE FROM grants WHERE session_id = ?1")?
        .execute([session])?;
    connection
        .prepare_cached("DELETE FROM grant_use WHERE session_id = ?1")?
        .execute([session])?;
    if gone > 0 {
        watch::changed(connection, GENERATION)?;
    }
    Ok(())
}

/// The same for sessions whose engine went away without saying so.
pub(super) fn tidy(connection: &Connection) -> rusqlite::Result<()> {
    let ended = "session_id IN (SELECT id FROM session GROUP BY id
        HAVING count(ended_at_ms) = count(*))";
    let gone = connection.execute(&format!("DELETE FROM grants WHERE {ended}"), [])?;
    connection.execute(
        &format!("DELETE FROM grant_use WHERE {ended} OR grant_id NOT IN (SELECT id FROM grants)"),
        [],
    )?;
    if gone > 0 {
        watch::changed(connection, GENERATION)?;
    }
    Ok(())
}

fn info(row: &Row<'_>) -> rusqlite::Result<GrantInfo> {
    let kind: String = row.get(1)?;
    let kind: GrantKind = read_word(&kind).ok_or_else(|| {
        rusqlite::Error::InvalidColumnType(1, "kind".to_owned(), rusqlite::types::Type::Text)
    })?;
    let value: String = row.get(2)?;
    Ok(GrantInfo::new(
        row.get(0)?,
        (kind, &value),
        (row.get(3)?, row.get(4)?),
        row.get::<_, i64>(5)?.try_into().unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{end, open_clean, start};
    use super::*;
    use crate::spec::Ports;
    use std::sync::mpsc::channel;

    fn grant(session: Option<&str>) -> GrantStart {
        GrantStart {
            grant: Grant::PortIn(Ports::parse("3000:8080").unwrap()),
            session_id: session.map(str::to_owned),
            workspace: "/w".to_owned(),
        }
    }

    fn problem() -> Problem {
        Problem {
            code: "PORT_IN_USE".to_owned(),
            message: "taken".to_owned(),
            causes: Vec::new(),
            fix: None,
        }
    }

    #[test]
    fn a_grant_is_kept_once_holds_where_it_was_given_and_can_be_revoked() {
        // REQ EG-12
        let root = tempfile::tempdir().unwrap();
        let store = open_clean(root.path());
        store.session_started(start("s"));
        let kept = store.add_grant(grant(None)).unwrap();
        assert_eq!(kept.grant(), Some(grant(None).grant));
        assert_eq!(store.add_grant(grant(None)).unwrap(), kept);
        let own = store.add_grant(grant(Some("s"))).unwrap();
        let of = |session, workspace| store.grants(Some((session, workspace))).unwrap();
        assert_eq!(of("s", "/w"), [kept.clone(), own]);
        assert_eq!(of("t", "/w"), std::slice::from_ref(&kept));
        assert_eq!(of("t", "/other"), []);
        store.session_ended("s", end(0));
        assert_eq!(store.grants(None).unwrap(), std::slice::from_ref(&kept));
        assert_eq!(store.remove_grant(kept.id).unwrap(), Some(kept.clone()));
        assert_eq!(store.remove_grant(kept.id).unwrap(), None);
    }

    #[test]
    fn what_became_of_a_grant_goes_with_its_session_and_with_the_grant() {
        let root = tempfile::tempdir().unwrap();
        let store = open_clean(root.path());
        let kept = store.add_grant(grant(None)).unwrap();
        store.grant_used(kept.id, "s", Ok("127.0.0.1:3000".to_owned()));
        store.grant_used(kept.id, "t", Err(problem()));
        let uses = store.grant_uses().unwrap();
        let seen: Vec<_> = uses
            .iter()
            .map(|each| {
                (
                    each.session_id.as_str(),
                    each.inside.is_some(),
                    each.problem.clone(),
                )
            })
            .collect();
        assert_eq!(seen, [("s", true, None), ("t", false, Some(problem()))]);
        // A later word takes the place of the earlier one.
        store.grant_used(kept.id, "t", Ok("127.0.0.1:3000".to_owned()));
        assert_eq!(store.grant_uses().unwrap()[1].problem, None);
        store.grants_ended("s");
        assert_eq!(store.grant_uses().unwrap().len(), 1);
        store.remove_grant(kept.id).unwrap();
        assert_eq!(store.grant_uses().unwrap(), []);
        // A word that comes too late is not kept.
        store.grant_used(kept.id, "t", Ok(String::new()));
        assert_eq!(store.grant_uses().unwrap(), []);
    }

    #[test]
    fn another_engine_hears_of_a_grant_and_of_its_end() {
        let root = tempfile::tempdir().unwrap();
        let (here, there) = (open_clean(root.path()), open_clean(root.path()));
        let (told, hears) = channel();
        there.on_grants(move |grants| told.send(grants).unwrap());
        assert_eq!(hears.recv().unwrap(), []);
        let kept = here.add_grant(grant(Some("s"))).unwrap();
        assert_eq!(hears.recv().unwrap(), [kept]);
        here.grants_ended("s");
        assert_eq!(hears.recv().unwrap(), []);
    }
}

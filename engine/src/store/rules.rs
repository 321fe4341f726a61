//! The operator's rules: answers to prompts that last, and entries made by hand.

use super::error::StoreError;
use super::history::{ChangeError, Store};
use super::row::{millis, read_word, word};
use super::watch;
use super::writer::{Message, now_ms};
use crate::api::{RuleInfo, RuleOrigin};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

/// Rules that are kept at most.
const MOST_RULES: u32 = 10_000;
/// Counts every change of a rule, so that other engines notice it.
pub(super) const GENERATION: &str = "rules_generation";

const COLUMNS: &str = "id, pattern, allow, session_id, workspace, origin, created_at_ms";

/// Is told all rules, oldest first, each time that any changed. Called from the store's thread.
pub type RulesListener = Box<dyn Fn(Vec<RuleInfo>) + Send>;

/// A rule to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleStart {
    /// A checked pattern in canonical form, with or without a port.
    pub pattern: String,
    /// Allow or deny.
    pub allow: bool,
    /// The session that it ends with; absent for a rule of the workspace.
    pub session_id: Option<String>,
    /// The workspace, a folder.
    pub workspace: String,
    /// Where it came from.
    pub origin: RuleOrigin,
}

/// Which rules are wanted; absent fields want all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleFilter {
    /// Of this workspace.
    pub workspace: Option<String>,
    /// Of this session, and of no workspace.
    pub session_id: Option<String>,
}

impl Store {
    /// Keeps a rule, and gives it as it stands. One with the same pattern for the same session or
    /// workspace is kept as it is when it says the same, and replaced when it says the opposite.
    ///
    /// # Errors
    /// It cannot be written now, or there are too many.
    pub fn add_rule(&self, start: RuleStart) -> Result<RuleInfo, StoreError> {
        self.change(move |connection| add(connection, &start, now_ms()))
    }

    /// Removes a rule, and gives it as it stood; nothing when there is none.
    ///
    /// # Errors
    /// It cannot be written now.
    pub fn remove_rule(&self, id: i64) -> Result<Option<RuleInfo>, StoreError> {
        self.change(move |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = format!("DELETE FROM rule WHERE id = ?1 RETURNING {COLUMNS}");
            let removed = transaction.query_row(&sql, [id], info).optional()?;
            if removed.is_some() {
                watch::changed(&transaction, GENERATION)?;
            }
            transaction.commit()?;
            Ok(removed)
        })
    }

    /// Rules, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn rules(&self, filter: &RuleFilter) -> Result<Vec<RuleInfo>, StoreError> {
        let filter = filter.clone();
        self.read(move |connection| list(connection, &filter))
    }

    /// All rules, which `learn` is shown first on the store's own thread: so what it learns is
    /// never older than what the listener of [`Store::on_rules`] was told before.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn learn_rules(
        &self,
        learn: impl FnOnce(&[RuleInfo]) + Send + 'static,
    ) -> Result<Vec<RuleInfo>, StoreError> {
        self.read(move |connection| {
            let rules = list(connection, &RuleFilter::default())?;
            learn(&rules);
            Ok(rules)
        })
    }

    /// Tells `listener` all rules now, and each time that one changes: at once for changes of this
    /// engine, within half a second for those of others. There is one listener; a later one takes
    /// its place.
    pub fn on_rules(&self, listener: impl Fn(Vec<RuleInfo>) + Send + 'static) {
        self.send(Message::ListenRules(Box::new(listener)));
    }
}

fn add(
    connection: &mut Connection,
    start: &RuleStart,
    now_ms: u64,
) -> Result<RuleInfo, ChangeError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM rule WHERE pattern = ?1 AND workspace = ?2
            AND coalesce(session_id, '') = coalesce(?3, '')"
    );
    let same = transaction
        .query_row(
            &sql,
            params![start.pattern, start.workspace, start.session_id],
            info,
        )
        .optional()?;
    match same {
        Some(same) if same.allow == start.allow => return Ok(same),
        Some(opposite) => {
            transaction.execute("DELETE FROM rule WHERE id = ?1", [opposite.id])?;
        }
        None => {
            let count: u32 =
                transaction.query_row("SELECT count(*) FROM rule", [], |row| row.get(0))?;
            if count >= MOST_RULES {
                return Err(ChangeError::Refused(StoreError::TooManyRules {
                    limit: MOST_RULES,
                }));
            }
        }
    }
    let sql = format!(
        "INSERT INTO rule (pattern, allow, session_id, workspace, origin, created_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING {COLUMNS}"
    );
    let added = transaction.query_row(
        &sql,
        params![
            start.pattern,
            start.allow,
            start.session_id,
            start.workspace,
            word(&start.origin),
            millis(now_ms),
        ],
        info,
    )?;
    watch::changed(&transaction, GENERATION)?;
    transaction.commit()?;
    Ok(added)
}

/// All rules, oldest first.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<RuleInfo>> {
    list(connection, &RuleFilter::default())
}

fn list(connection: &Connection, filter: &RuleFilter) -> rusqlite::Result<Vec<RuleInfo>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM rule WHERE (?1 IS NULL OR workspace = ?1)
            AND (?2 IS NULL OR session_id = ?2) ORDER BY id"
    );
    connection
        .prepare_cached(&sql)?
        .query_map(params![filter.workspace, filter.session_id], info)?
        .collect()
}

fn info(row: &Row<'_>) -> rusqlite::Result<RuleInfo> {
    let mut rule = RuleInfo {
        id: row.get(0)?,
        pattern: row.get(1)?,
        allow: row.get(2)?,
        session_id: row.get(3)?,
        workspace: row.get(4)?,
        origin: read_word(&row.get::<_, String>(5)?).unwrap_or(RuleOrigin::Operator),
        created_at_ms: row.get::<_, i64>(6)?.try_into().unwrap_or(0),
        words: String::new(),
    };
    rule.words = in_words(&rule);
    Ok(rule)
}

fn in_words(rule: &RuleInfo) -> String {
    let verb = if rule.allow { "Allow" } else { "Deny" };
    let reach = match &rule.session_id {
        Some(session) => format!("until the session {session} ends"),
        None => format!("always in {}", rule.workspace),
    };
    format!("{verb} {} {reach}", rule.pattern)
}

/// The rules of a session end with it.
pub(super) fn session_ended(connection: &Connection, session: &str) -> rusqlite::Result<()> {
    let gone = connection
        .prepare_cached("DELETE FROM rule WHERE session_id = ?1")?
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
    let gone = connection.execute(&format!("DELETE FROM rule WHERE {ended}"), [])?;
    if gone > 0 {
        watch::changed(connection, GENERATION)?;
    }
    Ok(())
}

//! Questions to the history of connections and refusals.

use super::write::{EXEC, FILE};
use super::{HistoryBound, SessionTotals};
use crate::api::{ActivityKind, ActivityPage, ActivityQuery, ActivityRow, Outcome};
use crate::egress::journal::FLOOD_SLOT_MS;
use crate::events::Evidence;
use crate::store::row::{millis, read_word};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

/// Rows of a page where the query names no number.
const USUAL_LIMIT: u32 = 200;
/// Most rows of a page.
pub(super) const MOST_ROWS: u32 = 1_000;

const COLUMNS: &str = "id, session_id, at_ms, last_ms, outcome, action, target, unicode, why,
    way_out, count, actor, evidence, raw, connection, file";

/// The condition by which counts are of connections.
pub(super) const CONNECTIONS: &str = "reason NOT IN ('file', 'exec')";

/// The conditions of a query, in SQL.
#[derive(Default)]
struct Conditions {
    text: Vec<&'static str>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, text: &'static str, value: Option<Value>) {
        self.text.push(text);
        self.values.extend(value);
    }

    /// `WHERE …`, or nothing.
    fn sql(&self) -> String {
        if self.text.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", self.text.join(" AND "))
        }
    }
}

fn conditions(query: &ActivityQuery) -> Conditions {
    let mut all = Conditions::default();
    let text = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    if let Some(session) = text(&query.session_id) {
        all.add("session_id = ?", Some(session.into()));
    }
    if query.refused_only {
        all.add("outcome = 'refused'", None);
    }
    if let Some(kind) = query.kind {
        all.add(
            match kind {
                ActivityKind::Network => "connection IS NOT NULL",
                ActivityKind::Files => "connection IS NULL AND action != 'process-exec'",
                ActivityKind::Exec => "connection IS NULL AND action = 'process-exec'",
            },
            None,
        );
    }
    if let Some(action) = text(&query.action) {
        // The text to find comes first here, so that it is bound once.
        all.add("instr(action, ?) = 1", Some(action.into()));
    }
    if let Some(process) = text(&query.process) {
        all.add("instr(lower(process), lower(?)) > 0", Some(process.into()));
    }
    if let Some(target) = text(&query.target) {
        all.add("instr(lower(target), lower(?)) > 0", Some(target.into()));
    }
    if let Some(before) = query.before {
        all.add("id < ?", Some(before.into()));
    }
    if let Some(from_ms) = query.from_ms {
        all.add("last_ms >= ?", Some(millis(from_ms).into()));
    }
    if let Some(to_ms) = query.to_ms {
        all.add("at_ms <= ?", Some(millis(to_ms).into()));
    }
    all
}

/// A page, newest first.
pub(in crate::store) fn page(
    connection: &Connection,
    query: &ActivityQuery,
    bound: HistoryBound,
) -> rusqlite::Result<ActivityPage> {
    let limit = match query.limit {
        0 => USUAL_LIMIT,
        limit => limit.min(MOST_ROWS),
    };
    let mut conditions = conditions(query);
    let sql = format!(
        "SELECT {COLUMNS} FROM activity {} ORDER BY id DESC LIMIT ?",
        conditions.sql()
    );
    conditions.values.push((i64::from(limit) + 1).into());
    let mut rows: Vec<ActivityRow> = connection
        .prepare_cached(&sql)?
        .query_map(params_from_iter(conditions.values), row)?
        .collect::<rusqlite::Result<_>>()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(ActivityPage {
        rows,
        more,
        only_counted: only_counted(connection, query)?,
        bound: bound.in_words(),
    })
}

/// How many attempts of a query have no row. What has none has no process and no target either,
/// so filters by those leave it out; it has a session, an outcome, and its minute.
fn only_counted(connection: &Connection, query: &ActivityQuery) -> rusqlite::Result<u64> {
    let named = |value: &Option<String>| value.as_ref().is_some_and(|value| !value.is_empty());
    if named(&query.process) || named(&query.target) || named(&query.action) {
        return Ok(0);
    }
    let mut conditions = Conditions::default();
    if let Some(session) = query.session_id.clone().filter(|id| !id.is_empty()) {
        conditions.add("session_id = ?", Some(session.into()));
    }
    if query.refused_only {
        conditions.add("outcome = 'refused'", None);
    }
    match query.kind {
        Some(ActivityKind::Network) => conditions.add(CONNECTIONS, None),
        Some(ActivityKind::Files) => conditions.add("reason = ?", Some(FILE.to_owned().into())),
        Some(ActivityKind::Exec) => conditions.add("reason = ?", Some(EXEC.to_owned().into())),
        None => {}
    }
    let (what, table) = if query.from_ms.is_none() && query.to_ms.is_none() {
        ("only_counted + pruned", "activity_total")
    } else {
        if let Some(from_ms) = query.from_ms {
            let slot = from_ms - from_ms % FLOOD_SLOT_MS;
            conditions.add("slot_ms >= ?", Some(millis(slot).into()));
        }
        if let Some(to_ms) = query.to_ms {
            conditions.add("slot_ms <= ?", Some(millis(to_ms).into()));
        }
        ("count", "activity_flood")
    };
    let sql = format!(
        "SELECT coalesce(sum({what}), 0) FROM {table} {}",
        conditions.sql()
    );
    connection
        .prepare_cached(&sql)?
        .query_row(params_from_iter(conditions.values), |row| number(row, 0))
}

/// What a session's attempts came to, over all its runs.
pub(in crate::store) fn totals(
    connection: &Connection,
    session: &str,
) -> rusqlite::Result<SessionTotals> {
    let mut totals = SessionTotals::default();
    let mut statement = connection.prepare_cached(
        "SELECT outcome, reason, sum(total), sum(only_counted + pruned) FROM activity_total
         WHERE session_id = ?1 GROUP BY outcome, reason ORDER BY outcome, reason",
    )?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let outcome: String = row.get(0)?;
        let reason: String = row.get(1)?;
        let total = number(row, 2)?;
        totals.only_counted += number(row, 3)?;
        if reason == FILE {
            totals.files += total;
        } else if reason == EXEC {
            totals.programs += total;
        } else if outcome == "refused" {
            totals.refused += total;
            totals.reasons.push((read_word(&reason), total));
        } else {
            totals.allowed += total;
        }
    }
    Ok(totals)
}

/// Whether any session was ever allowed to reach a host, as far as the history goes.
pub(in crate::store) fn allowed_before(
    connection: &Connection,
    host: &str,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM activity WHERE host = ?1 AND outcome IN ('allowed', 'open') LIMIT 1",
        )?
        .query_row([host], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

fn row(row: &Row<'_>) -> rusqlite::Result<ActivityRow> {
    let json = |column| -> rusqlite::Result<Option<String>> { row.get(column) };
    Ok(ActivityRow {
        id: row.get(0)?,
        session_id: row.get(1)?,
        at_ms: number(row, 2)?,
        last_ms: number(row, 3)?,
        outcome: read_word(&row.get::<_, String>(4)?).unwrap_or(Outcome::Refused),
        action: row.get(5)?,
        target: row.get(6)?,
        unicode: row.get(7)?,
        why: row.get(8)?,
        way_out: row.get(9)?,
        count: row.get(10)?,
        process: json(11)?.and_then(|text| serde_json::from_str(&text).ok()),
        evidence: read_word(&row.get::<_, String>(12)?).unwrap_or(Evidence::Inferred),
        raw: row.get(13)?,
        connection: json(14)?.and_then(|text| serde_json::from_str(&text).ok()),
        file: json(15)?.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

/// A count or a time; none is negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column)
        .map(|value| u64::try_from(value).unwrap_or(0))
}

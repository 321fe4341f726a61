//! Statements that write rows and counts, and those that let old ones go.

use super::HistoryBound;
use super::inbox::Waiting;
use crate::api::{ActivityRow, Outcome};
use crate::egress::journal::{Counted, SessionRun, Tally};
use crate::store::open::is_refusal;
use crate::store::row::{millis, word};
use rusqlite::{Connection, OptionalExtension, params};

/// How far a row moves whose number another engine took in the same millisecond.
const PROBES: i64 = 64;
/// Rows that one transaction lets go, so that nobody waits for long.
const PRUNED_AT_ONCE: u32 = 2_000;
/// What stands in place of a reason for refusals that are no connections.
pub(super) const FILE: &str = "file";
/// The same for programs that did not run.
pub(super) const EXEC: &str = "exec";
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Writes all that waited. Each statement replaces what it wrote before, so doing it again does
/// no harm. What the schema can never take holds up nothing else; gives how much that was.
pub(in crate::store) fn apply(connection: &Connection, waiting: &Waiting) -> rusqlite::Result<u64> {
    let mut refused = 0;
    let mut one = |result: rusqlite::Result<()>| match result {
        Err(error) if is_refusal(&error) => {
            tracing::error!(%error, "a part of the activity was refused");
            refused += 1;
            Ok(())
        }
        other => other,
    };
    for row in waiting.rows.values() {
        one(write_row(connection, row))?;
    }
    for ((run, counted), tally) in &waiting.tallies {
        one(write_tally(connection, run, *counted, tally))?;
    }
    for ((run, counted, slot_ms), count) in &waiting.floods {
        one(write_flood(connection, run, *counted, (*slot_ms, *count)))?;
    }
    Ok(refused)
}

fn write_tally(
    connection: &Connection,
    run: &SessionRun,
    counted: Counted,
    tally: &Tally,
) -> rusqlite::Result<()> {
    let (outcome, reason) = names(counted);
    connection
        .prepare_cached(
            "INSERT INTO activity_total
                (session_id, since_ms, outcome, reason, total, only_counted, last_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (session_id, since_ms, outcome, reason) DO UPDATE SET
                total = excluded.total, only_counted = excluded.only_counted,
                last_ms = excluded.last_ms",
        )?
        .execute(params![
            run.id,
            millis(run.since_ms),
            outcome,
            reason,
            millis(tally.total),
            millis(tally.only_counted),
            millis(tally.last_ms),
        ])?;
    Ok(())
}

fn write_flood(
    connection: &Connection,
    run: &SessionRun,
    counted: Counted,
    (slot_ms, count): (u64, u64),
) -> rusqlite::Result<()> {
    let (outcome, reason) = names(counted);
    connection
        .prepare_cached(
            "INSERT INTO activity_flood (session_id, slot_ms, since_ms, outcome, reason, count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (session_id, slot_ms, since_ms, outcome, reason)
             DO UPDATE SET count = excluded.count",
        )?
        .execute(params![
            run.id,
            millis(slot_ms),
            millis(run.since_ms),
            outcome,
            reason,
            millis(count),
        ])?;
    Ok(())
}

/// How a kind is stored; a refusal without a reason has the empty one.
pub(super) fn names(counted: Counted) -> (&'static str, String) {
    match counted {
        Counted::Allowed => ("allowed", String::new()),
        Counted::Refused(reason) => (
            "refused",
            reason.as_ref().and_then(word).unwrap_or_default(),
        ),
        Counted::File => ("refused", FILE.to_owned()),
        Counted::Exec => ("refused", EXEC.to_owned()),
    }
}

fn write_row(connection: &Connection, row: &ActivityRow) -> rusqlite::Result<()> {
    let (_, reason) = names(Counted::of_row(row));
    let actor = row.process.as_ref().and_then(to_json);
    let connection_detail = row.connection.as_ref().and_then(to_json);
    let file = row.file.as_ref().and_then(to_json);
    let mut statement = connection.prepare_cached(
        "INSERT INTO activity (id, session_id, at_ms, last_ms, outcome, reason, action, target,
            unicode, why, way_out, count, process, actor, evidence, raw, host, connection, file)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
         ON CONFLICT (id) DO UPDATE SET
            last_ms = excluded.last_ms, outcome = excluded.outcome, reason = excluded.reason,
            why = excluded.why, way_out = excluded.way_out, count = excluded.count,
            process = excluded.process, actor = excluded.actor, raw = excluded.raw,
            connection = excluded.connection, file = excluded.file
         WHERE session_id = excluded.session_id AND target = excluded.target",
    )?;
    // A number that another engine took at the same time belongs to a row of another session;
    // the next free one is taken, by this row and by its later states alike.
    for id in row.id..row.id.saturating_add(PROBES) {
        let changed = statement.execute(params![
            id,
            row.session_id,
            millis(row.at_ms),
            millis(row.last_ms),
            word(&row.outcome),
            reason,
            row.action,
            row.target,
            row.unicode,
            row.why,
            row.way_out,
            row.count,
            row.process.as_ref().map(|actor| actor.name.as_str()),
            actor,
            word(&row.evidence),
            row.raw,
            row.connection.as_ref().map(|detail| detail.host.as_str()),
            connection_detail,
            file,
        ])?;
        if changed > 0 {
            return Ok(());
        }
    }
    tracing::error!(
        session = row.session_id,
        "an activity row found no free number"
    );
    Ok(())
}

fn to_json<T: serde::Serialize>(value: &T) -> Option<String> {
    serde_json::to_string(value).ok()
}

/// Connections of engines that are gone are open no more.
pub(in crate::store) fn tidy(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE activity SET outcome = ?1 WHERE outcome = 'open' AND session_id IN
            (SELECT id FROM session GROUP BY id HAVING count(ended_at_ms) = count(*))",
        [word(&Outcome::Allowed)],
    )?;
    Ok(())
}

/// Lets some rows past the bound go; true when there may be more. What goes stays counted.
pub(in crate::store) fn prune(
    connection: &mut Connection,
    bound: HistoryBound,
    now_ms: u64,
) -> rusqlite::Result<bool> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let oldest_ms = millis(now_ms.saturating_sub(u64::from(bound.days) * DAY_MS));
    let last_kept: Option<i64> = transaction
        .prepare_cached("SELECT id FROM activity ORDER BY id DESC LIMIT 1 OFFSET ?1")?
        .query_row([bound.rows], |row| row.get(0))
        .optional()?;
    let gone: Vec<(String, i64, String, String, i64)> = transaction
        .prepare_cached(
            "DELETE FROM activity WHERE id IN (SELECT id FROM activity
                WHERE outcome != 'open' AND (id <= ?1 OR last_ms < ?2) ORDER BY id LIMIT ?3)
             RETURNING session_id, at_ms, outcome, reason, count",
        )?
        .query_map(
            params![last_kept.unwrap_or(-1), oldest_ms, PRUNED_AT_ONCE],
            |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                ))
            },
        )?
        .collect::<rusqlite::Result<_>>()?;
    let mut counts = std::collections::BTreeMap::new();
    for (session, at_ms, outcome, reason, count) in &gone {
        let outcome = if outcome == "refused" {
            "refused"
        } else {
            "allowed"
        };
        // Of all rows of one second together: runs of one id are further apart than that.
        *counts
            .entry((session, outcome, reason, at_ms / 1000))
            .or_insert(0_i64) += count;
    }
    for ((session, outcome, reason, at_s), count) in counts {
        transaction
            .prepare_cached(
                "UPDATE activity_total SET pruned = pruned + ?5
                 WHERE session_id = ?1 AND outcome = ?2 AND reason = ?3 AND since_ms =
                    (SELECT max(since_ms) FROM activity_total WHERE session_id = ?1
                        AND outcome = ?2 AND reason = ?3 AND since_ms < (?4 + 1) * 1000)",
            )?
            .execute(params![session, outcome, reason, at_s, count])?;
    }
    transaction
        .prepare_cached("DELETE FROM activity_flood WHERE slot_ms < ?1")?
        .execute([oldest_ms])?;
    transaction
        .prepare_cached(
            "DELETE FROM activity_total WHERE last_ms < ?1
                AND session_id NOT IN (SELECT id FROM session)",
        )?
        .execute([oldest_ms])?;
    transaction.commit()?;
    Ok(gone.len() >= PRUNED_AT_ONCE as usize)
}

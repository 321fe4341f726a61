//! The database's schema, version by version. A migration that was released is never changed.

use rusqlite::{Connection, TransactionBehavior};

/// `KOTA`: tells Kotak's database from any other SQLite file.
const APPLICATION_ID: i64 = 0x4B4F_5441;

/// Step `n` leads from version `n` to `n + 1`.
const MIGRATIONS: [&str; 5] = [
    "CREATE TABLE session (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        workspace TEXT NOT NULL,
        title TEXT NOT NULL,
        cwd TEXT NOT NULL,
        program TEXT NOT NULL,
        backend TEXT,
        requested_backend TEXT,
        network TEXT,
        state TEXT NOT NULL,
        error_code TEXT,
        error_message TEXT,
        exit_code INTEGER,
        signal INTEGER,
        started_at_ms INTEGER NOT NULL,
        ended_at_ms INTEGER,
        engine_pid INTEGER NOT NULL,
        engine_start TEXT NOT NULL
    ) STRICT;
    CREATE INDEX session_id ON session (id);
    CREATE INDEX session_open ON session (engine_pid) WHERE ended_at_ms IS NULL;
    CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;",
    "CREATE TABLE folder (
        path TEXT PRIMARY KEY,
        used_at_ms INTEGER NOT NULL,
        last_choice TEXT,
        chosen_at_ms INTEGER
    ) STRICT, WITHOUT ROWID;",
    // `id` holds the time, so that rows of all engines lie in the order in which they came.
    // `activity_total` counts every attempt, `activity_flood` those without a row, by the minute;
    // `since_ms` tells the runs of a session id that is used again apart.
    "CREATE TABLE activity (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL,
        action TEXT NOT NULL,
        target TEXT NOT NULL,
        unicode TEXT,
        why TEXT NOT NULL,
        way_out TEXT,
        count INTEGER NOT NULL,
        process TEXT,
        actor TEXT,
        evidence TEXT NOT NULL,
        raw TEXT,
        host TEXT,
        connection TEXT
    ) STRICT;
    CREATE INDEX activity_session ON activity (session_id, id);
    CREATE INDEX activity_open ON activity (session_id) WHERE outcome = 'open';
    CREATE INDEX activity_host ON activity (host) WHERE outcome IN ('allowed', 'open');
    CREATE TABLE activity_total (
        session_id TEXT NOT NULL,
        since_ms INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL,
        total INTEGER NOT NULL,
        only_counted INTEGER NOT NULL,
        pruned INTEGER NOT NULL DEFAULT 0,
        last_ms INTEGER NOT NULL,
        PRIMARY KEY (session_id, since_ms, outcome, reason)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE activity_flood (
        session_id TEXT NOT NULL,
        slot_ms INTEGER NOT NULL,
        since_ms INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (session_id, slot_ms, since_ms, outcome, reason)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE session_network (
        session_id TEXT PRIMARY KEY,
        mode TEXT NOT NULL,
        allowlist TEXT NOT NULL,
        workspace TEXT NOT NULL,
        at_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE rule (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        pattern TEXT NOT NULL,
        allow INTEGER NOT NULL,
        session_id TEXT,
        workspace TEXT NOT NULL,
        origin TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX rule_once ON rule (pattern, workspace, coalesce(session_id, ''));
    CREATE TABLE grants (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        value TEXT NOT NULL,
        session_id TEXT,
        workspace TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX grants_once
        ON grants (kind, value, workspace, coalesce(session_id, ''));",
    "CREATE TABLE grant_use (
        grant_id INTEGER NOT NULL,
        session_id TEXT NOT NULL,
        inside TEXT,
        problem TEXT,
        PRIMARY KEY (grant_id, session_id)
    ) STRICT, WITHOUT ROWID;",
    "ALTER TABLE activity ADD COLUMN file TEXT;",
];

/// Every table that the newest version has.
const TABLES: [&str; 10] = [
    "activity",
    "activity_flood",
    "activity_total",
    "folder",
    "grant_use",
    "grants",
    "rule",
    "session",
    "session_network",
    "setting",
];

/// The newest version known.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Why a file's schema cannot be used.
#[derive(Debug)]
pub(super) enum SchemaError {
    /// Written by a later version.
    TooNew(i64),
    /// A SQLite database, but not Kotak's, or with tables missing.
    Foreign(String),
    /// A statement failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Brings a database to the newest version, in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), SchemaError> {
    migrate_to(connection, VERSION)
}

pub(super) fn migrate_to(connection: &mut Connection, target: i64) -> Result<(), SchemaError> {
    if version(connection)? < target {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have migrated in between.
        let from = version(&transaction)?;
        for (step, sql) in (0..).zip(MIGRATIONS) {
            if step >= from && step < target {
                transaction.execute_batch(sql)?;
            }
        }
        if from < target {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", target)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Checks that the database is Kotak's and not from the future, before anything is written to it.
pub(super) fn recognise(connection: &Connection) -> Result<(), SchemaError> {
    let found = version(connection)?;
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if found == 0 && id == 0 && tables == 0 {
        return Ok(());
    }
    if id != APPLICATION_ID || found < 1 {
        return Err(SchemaError::Foreign(
            "it is another program's database".to_owned(),
        ));
    }
    if found > VERSION {
        return Err(SchemaError::TooNew(found));
    }
    Ok(())
}

/// Checks that every table is there.
pub(super) fn complete(connection: &Connection) -> Result<(), SchemaError> {
    for table in TABLES {
        let found: i64 = connection.query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [table],
            |row| row.get(0),
        )?;
        if found == 0 {
            return Err(SchemaError::Foreign(format!(
                "the table {table} is missing"
            )));
        }
    }
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

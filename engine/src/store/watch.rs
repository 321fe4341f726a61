//! Noticing that rules or grants changed, in this engine or in another one.

use rusqlite::{Connection, OptionalExtension};

/// Is told everything, oldest first, each time that any of it changed. Called from the store's
/// thread.
pub(super) type Listener<T> = Box<dyn Fn(Vec<T>) + Send>;

/// Notices changes of one table.
pub(super) struct Watch<T> {
    /// The setting that counts its changes.
    generation: &'static str,
    list: fn(&Connection) -> rusqlite::Result<Vec<T>>,
    pub(super) listener: Option<Listener<T>>,
    /// What the listener was told last.
    told: Option<Vec<T>>,
    /// SQLite's count of other connections' changes, and the generation, when last looked at.
    seen: Option<(i64, i64)>,
}

impl<T: Clone + PartialEq> Watch<T> {
    pub(super) fn new(
        generation: &'static str,
        list: fn(&Connection) -> rusqlite::Result<Vec<T>>,
    ) -> Self {
        Self {
            generation,
            list,
            listener: None,
            told: None,
            seen: None,
        }
    }

    /// Tells the listener when it is not as it was told.
    pub(super) fn look(&mut self, connection: &Connection) {
        let Some(listener) = &self.listener else {
            return;
        };
        let state = || -> rusqlite::Result<(i64, i64)> {
            let others = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
            let generation = connection
                .prepare_cached("SELECT CAST(value AS INTEGER) FROM setting WHERE key = ?1")?
                .query_row([self.generation], |row| row.get(0))
                .optional()?;
            Ok((others, generation.unwrap_or(0)))
        };
        let found = match state() {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, self.generation, "changes cannot be looked for");
                return;
            }
        };
        if self.seen == Some(found) {
            return;
        }
        match (self.list)(connection) {
            Ok(all) => {
                self.seen = Some(found);
                if self.told.as_ref() != Some(&all) {
                    self.told = Some(all.clone());
                    listener(all);
                }
            }
            Err(error) => tracing::warn!(%error, self.generation, "what changed cannot be read"),
        }
    }
}

/// Says to every engine that something changed.
pub(super) fn changed(connection: &Connection, generation: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO setting (key, value) VALUES (?1, '1')
             ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
        )?
        .execute([generation])?;
    Ok(())
}

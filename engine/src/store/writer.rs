//! The one thread that owns the database.

use super::engine_id::EngineId;
use super::error::StoreError;
use super::open::{self, OpenFile};
use super::row::{self, Write};
use crate::error::{Coded, Problem};
use rusqlite::{Connection, TransactionBehavior};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File name in the state directory.
pub(super) const FILE_NAME: &str = "store.sqlite";
/// Changes kept in memory while they cannot be written.
const PENDING_LIMIT: usize = 4096;
/// How often a change that could not be written is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// A reader's question; it is given the database or why there is none.
pub(super) type Query = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// What the thread is asked to do.
pub(super) enum Message {
    Write(Write),
    Read(Query),
    Listen(Box<dyn Fn(Problem) + Send>),
    Flush(SyncSender<bool>),
    Stop,
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// Where the rows go.
pub(super) enum Place {
    /// To a file; not open while it cannot be.
    File {
        path: PathBuf,
        open: Option<OpenFile>,
    },
    /// To memory only, because there can be no file.
    Memory(Option<Connection>),
}

/// The thread's state.
pub(super) struct Writer {
    place: Place,
    engine: EngineId,
    /// Changes that could not be written yet, oldest first.
    pending: VecDeque<Write>,
    dropped: u64,
    /// Code of the problem that keeps changes waiting, told once.
    last_code: Option<&'static str>,
    notices: Vec<Problem>,
    listener: Option<Box<dyn Fn(Problem) + Send>>,
}

impl Writer {
    pub(super) fn new(place: Place, engine: EngineId, notices: Vec<Problem>) -> Self {
        Self {
            place,
            engine,
            pending: VecDeque::new(),
            dropped: 0,
            last_code: None,
            notices,
            listener: None,
        }
    }

    /// What nobody was told of yet.
    pub(super) fn take_notices(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.notices)
    }

    pub(super) fn run(mut self, received: &Receiver<Message>) {
        loop {
            let message = if self.pending.is_empty() {
                received.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                received.recv_timeout(RETRY_EVERY)
            };
            match message {
                Ok(Message::Write(write)) => {
                    // While something waits, new changes queue behind it until the next try.
                    let waiting = !self.pending.is_empty();
                    self.push(write);
                    if !waiting {
                        self.try_pending();
                    }
                }
                Ok(Message::Read(query)) => self.answer(query),
                Ok(Message::Listen(listener)) => {
                    self.listener = Some(listener);
                    for notice in self.take_notices() {
                        self.tell(notice);
                    }
                }
                Ok(Message::Flush(done)) => {
                    self.try_pending();
                    // Whoever asked may have stopped waiting.
                    let _sent = done.send(self.pending.is_empty());
                }
                Err(RecvTimeoutError::Timeout) => self.try_pending(),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.try_pending();
                    return;
                }
            }
        }
    }

    /// The first opening decides whether there can be a file at all.
    pub(super) fn open_first(&mut self) {
        if let Err(error) = self.connect() {
            let permanent = match &error {
                StoreError::TooNew { .. } | StoreError::Unopenable { .. } => true,
                // These pass: what waits is written later.
                StoreError::Busy { .. }
                | StoreError::DiskFull { .. }
                | StoreError::SetAside { .. }
                | StoreError::Sql { .. }
                | StoreError::RowsDropped { .. }
                | StoreError::Stopped
                | StoreError::LayoutTooLarge { .. } => false,
            };
            self.tell_once(&error);
            if permanent {
                self.place = Place::Memory(None);
                if let Err(error) = self.connect() {
                    self.tell(error.problem());
                }
            }
        }
    }

    /// Makes sure that a connection is there and is to the file that the path names.
    fn connect(&mut self) -> Result<(), StoreError> {
        match &mut self.place {
            Place::Memory(Some(_)) => Ok(()),
            Place::Memory(none) => {
                *none = Some(open::in_memory()?);
                Ok(())
            }
            Place::File { path, open } => {
                if open.as_ref().is_some_and(|file| file.is_at(path)) {
                    return Ok(());
                }
                *open = None;
                let (file, replaced) = open::open(path, &self.engine, now_ms())?;
                *open = Some(file);
                if let Some(replaced) = replaced {
                    self.tell(replaced.problem());
                }
                Ok(())
            }
        }
    }

    fn push(&mut self, write: Write) {
        self.pending
            .retain(|earlier| !earlier.is_replaced_by(&write));
        self.pending.push_back(write);
        if self.pending.len() > PENDING_LIMIT {
            self.pending.pop_front();
            self.dropped += 1;
        }
    }

    fn try_pending(&mut self) {
        // One more try right away when the file turns out to be damaged: opening replaces it.
        for _ in 0..2 {
            match self.write_pending() {
                Ok(()) => {
                    self.last_code = None;
                    if self.dropped > 0 {
                        let dropped = std::mem::take(&mut self.dropped);
                        self.tell(StoreError::RowsDropped { dropped }.problem());
                    }
                    return;
                }
                Err(Halt::Damaged) => {
                    if let Place::File { open, .. } = &mut self.place {
                        *open = None;
                    }
                }
                Err(Halt::Error(error)) => {
                    self.tell_once(&error);
                    return;
                }
            }
        }
    }

    /// Writes everything that waits in one transaction, or nothing.
    fn write_pending(&mut self) -> Result<(), Halt> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.connect().map_err(Halt::Error)?;
        let (connection, path) = match &mut self.place {
            Place::File {
                path,
                open: Some(file),
            } => (&mut file.connection, path.clone()),
            Place::Memory(Some(connection)) => (connection, PathBuf::from(":memory:")),
            Place::File { open: None, .. } | Place::Memory(None) => {
                return Err(Halt::Error(StoreError::Stopped));
            }
        };
        let halt = |error: rusqlite::Error| {
            if open::is_damage(&error) {
                Halt::Damaged
            } else {
                Halt::Error(open::store_error(&path, error))
            }
        };
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(halt)?;
        let mut refused = 0;
        for write in &self.pending {
            match row::apply(&transaction, &self.engine, write) {
                Ok(()) => {}
                // A row that the schema can never take must not hold up the others.
                Err(error) if open::is_refusal(&error) => {
                    tracing::error!(%error, "a history row was refused");
                    refused += 1;
                }
                Err(error) => return Err(halt(error)),
            }
        }
        transaction.commit().map_err(halt)?;
        self.pending.clear();
        self.dropped += refused;
        Ok(())
    }

    /// Answers a query with what is in the file and what still waits to be.
    fn answer(&mut self, query: Query) {
        if self.pending.is_empty()
            && let Err(error) = self.connect()
        {
            // The file cannot be opened now; the waiting rows are all there is to show.
            self.tell_once(&error);
        }
        let connection = match &mut self.place {
            Place::File {
                open: Some(file), ..
            } => &mut file.connection,
            Place::Memory(Some(connection)) => connection,
            Place::File { open: None, .. } | Place::Memory(None) => {
                match open::in_memory() {
                    Ok(mut connection) => {
                        with_pending(&mut connection, &self.engine, &self.pending, query);
                    }
                    Err(error) => query(Err(error)),
                }
                return;
            }
        };
        if self.pending.is_empty() {
            query(Ok(connection));
        } else {
            with_pending(connection, &self.engine, &self.pending, query);
        }
    }

    fn tell_once(&mut self, error: &StoreError) {
        if self.last_code != Some(error.code()) {
            self.last_code = Some(error.code());
            self.tell(error.problem());
        }
    }

    fn tell(&mut self, problem: Problem) {
        tracing::warn!(code = problem.code, causes = ?problem.causes, "{}", problem.message);
        match &self.listener {
            Some(listener) => listener(problem),
            None => self.notices.push(problem),
        }
    }
}

enum Halt {
    /// The file must be replaced first.
    Damaged,
    /// Nothing could be written now.
    Error(StoreError),
}

/// Runs a query as if the waiting changes had been written. The transaction is rolled back, so
/// this needs no space on the disk.
fn with_pending(
    connection: &mut Connection,
    engine: &EngineId,
    pending: &VecDeque<Write>,
    query: Query,
) {
    match connection.transaction_with_behavior(TransactionBehavior::Deferred) {
        Ok(transaction) => {
            for write in pending {
                if row::apply(&transaction, engine, write).is_err() {
                    break;
                }
            }
            query(Ok(&transaction));
            // Dropping the transaction rolls it back.
        }
        Err(error) => query(Err(open::store_error(
            std::path::Path::new(FILE_NAME),
            error,
        ))),
    }
}

//! The one thread that owns the database.

use super::activity::{self, HistoryBound, Inbox};
use super::engine_id::EngineId;
use super::error::StoreError;
use super::grants::{self, GrantsListener};
use super::open::{self, OpenFile};
use super::row::{self, Write};
use super::rules::{self, RulesListener};
use super::watch::Watch;
use crate::api::{GrantInfo, RuleInfo};
use crate::error::{Coded, Problem};
use rusqlite::{Connection, TransactionBehavior};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// File name in the state directory.
pub(super) const FILE_NAME: &str = "store.sqlite";
/// Changes kept in memory while they cannot be written.
const PENDING_LIMIT: usize = 4096;
/// How often a change that could not be written is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// How long activity is collected for one transaction.
const COLLECT: Duration = Duration::from_millis(50);
/// How often rules and grants that other engines change are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Writes of activity after which the history's bound is looked at.
const PRUNE_EVERY: u32 = 50;

/// A reader's question; it is given the database or why there is none.
pub(super) type Query = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// A change whose result is waited for; it is given the database or why there is none.
pub(super) type Change = Box<dyn FnOnce(Result<&mut Connection, StoreError>) + Send>;

/// What the thread is asked to do.
pub(super) enum Message {
    Write(Write),
    /// Something waits in the inbox.
    Activity,
    Read(Query),
    /// Done at once or not at all.
    Change(Change),
    ListenRules(RulesListener),
    ListenGrants(GrantsListener),
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
    /// Activity that could not be written yet.
    inbox: Arc<Inbox>,
    /// When the activity that waits is written.
    write_at: Option<Instant>,
    bound: HistoryBound,
    /// Writes of activity until the bound is looked at.
    until_prune: u32,
    rules: Watch<RuleInfo>,
    grants: Watch<GrantInfo>,
}

impl Writer {
    pub(super) fn new(
        place: Place,
        engine: EngineId,
        notices: Vec<Problem>,
        inbox: Arc<Inbox>,
        bound: HistoryBound,
    ) -> Self {
        Self {
            inbox,
            write_at: None,
            bound,
            until_prune: 1,
            rules: Watch::new(rules::GENERATION, rules::all),
            grants: Watch::new(grants::GENERATION, grants::list),
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
            let message = match self.next_wait() {
                None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => received.recv_timeout(wait),
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
                Ok(Message::Activity) => {
                    self.write_at
                        .get_or_insert_with(|| Instant::now() + COLLECT);
                }
                Ok(Message::Read(query)) => self.answer(query),
                Ok(Message::Change(change)) => self.change(change),
                Ok(Message::ListenRules(listener)) => {
                    self.rules.listener = Some(listener);
                    self.look_at_changes();
                }
                Ok(Message::ListenGrants(listener)) => {
                    self.grants.listener = Some(listener);
                    self.look_at_changes();
                }
                Ok(Message::Listen(listener)) => {
                    self.listener = Some(listener);
                    for notice in self.take_notices() {
                        self.tell(notice);
                    }
                }
                Ok(Message::Flush(done)) => {
                    self.try_pending();
                    // Whoever asked may have stopped waiting.
                    let _sent = done.send(self.pending.is_empty() && self.inbox.is_empty());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.pending.is_empty() {
                        self.try_pending();
                    }
                    self.look_at_changes();
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.try_pending();
                    return;
                }
            }
            // However many messages come, what was collected is not kept waiting.
            if self.write_at.is_some_and(|at| at <= Instant::now()) {
                self.try_pending();
            }
        }
    }

    /// How long the thread may sleep; for ever without a value.
    fn next_wait(&self) -> Option<Duration> {
        let retry = (!self.pending.is_empty()).then_some(RETRY_EVERY);
        let look = self.is_watched().then_some(LOOK_EVERY);
        let write = self
            .write_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        [retry, look, write].into_iter().flatten().min()
    }

    /// The open database, after what waited was written.
    fn ready(&mut self) -> Result<&mut Connection, StoreError> {
        self.try_pending();
        self.connect()?;
        self.open_connection().ok_or(StoreError::Stopped)
    }

    fn open_connection(&mut self) -> Option<&mut Connection> {
        match &mut self.place {
            Place::File { open, .. } => open.as_mut().map(|file| &mut file.connection),
            Place::Memory(connection) => connection.as_mut(),
        }
    }

    fn change(&mut self, change: Change) {
        change(self.ready());
        self.look_at_changes();
    }

    fn is_watched(&self) -> bool {
        self.rules.listener.is_some() || self.grants.listener.is_some()
    }

    /// Tells of rules and grants that changed, here or in another engine.
    fn look_at_changes(&mut self) {
        if !self.is_watched() || self.connect().is_err() {
            return;
        }
        let connection = match &mut self.place {
            Place::File { open, .. } => open.as_mut().map(|file| &mut file.connection),
            Place::Memory(connection) => connection.as_mut(),
        };
        if let Some(connection) = connection {
            self.rules.look(connection);
            self.grants.look(connection);
        }
    }

    /// Lets old activity go now and then, a piece at a time.
    fn prune(&mut self) {
        self.until_prune = self.until_prune.saturating_sub(1);
        if self.until_prune > 0 {
            return;
        }
        let bound = self.bound;
        let pruned = self
            .open_connection()
            .map(|connection| activity::prune(connection, bound, now_ms()));
        self.until_prune = match pruned {
            // There is more: after the next write already.
            Some(Ok(true)) => 1,
            Some(Ok(false)) | None => PRUNE_EVERY,
            Some(Err(error)) => {
                tracing::warn!(%error, "old activity could not be let go");
                PRUNE_EVERY
            }
        };
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
                | StoreError::Export { .. }
                | StoreError::TooManyRules { .. }
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
        self.write_at = None;
        // One more try right away when the file turns out to be damaged: opening replaces it.
        for _ in 0..2 {
            match self.write_pending() {
                Ok(()) => {
                    self.last_code = None;
                    self.prune();
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
                    break;
                }
            }
        }
        if !self.inbox.is_empty() {
            self.write_at = Some(Instant::now() + RETRY_EVERY);
        }
    }

    /// Writes everything that waits in one transaction, or nothing.
    fn write_pending(&mut self) -> Result<(), Halt> {
        if self.pending.is_empty() && self.inbox.is_empty() {
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
        let waiting = self.inbox.take();
        let written = write_all(connection, &self.engine, &self.pending, &waiting);
        let refused = match written {
            Ok(refused) => refused,
            Err(error) => {
                self.inbox.give_back(waiting);
                return Err(halt(error));
            }
        };
        self.pending.clear();
        self.dropped += refused;
        Ok(())
    }

    /// Answers a query with what is in the file and what still waits to be.
    fn answer(&mut self, query: Query) {
        if self.pending.is_empty() && !self.inbox.is_empty() {
            self.try_pending();
        }
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
                        with_pending(
                            &mut connection,
                            &self.engine,
                            &self.pending,
                            &self.inbox,
                            query,
                        );
                    }
                    Err(error) => query(Err(error)),
                }
                return;
            }
        };
        if self.pending.is_empty() && self.inbox.is_empty() {
            query(Ok(connection));
        } else {
            with_pending(connection, &self.engine, &self.pending, &self.inbox, query);
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
    inbox: &Inbox,
    query: Query,
) {
    match connection.transaction_with_behavior(TransactionBehavior::Deferred) {
        Ok(transaction) => {
            for write in pending {
                if row::apply(&transaction, engine, write).is_err() {
                    break;
                }
            }
            if let Err(error) = inbox.peek(|waiting| activity::apply(&transaction, waiting)) {
                tracing::debug!(%error, "what waits is not shown");
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

/// Writes all in one transaction; gives the number of changes that the schema can never take.
fn write_all(
    connection: &mut Connection,
    engine: &EngineId,
    pending: &VecDeque<Write>,
    activity: &activity::Waiting,
) -> rusqlite::Result<u64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut refused = 0;
    for write in pending {
        match row::apply(&transaction, engine, write) {
            Ok(()) => {}
            // A row that the schema can never take must not hold up the others.
            Err(error) if open::is_refusal(&error) => {
                tracing::error!(%error, "a history row was refused");
                refused += 1;
            }
            Err(error) => return Err(error),
        }
    }
    refused += activity::apply(&transaction, activity)?;
    transaction.commit()?;
    Ok(refused)
}

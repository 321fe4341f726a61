//! The store as its users hold it.

use super::activity::{self, HistoryBound, Inbox, Recorder, SessionTotals};
use super::dirs::Dirs;
use super::engine_id::EngineId;
use super::error::StoreError;
use super::open;
use super::record::{SessionEnd, SessionNetworkRecord, SessionRecord, SessionStart};
use super::row::{self, Write};
use super::writer::{Change, FILE_NAME, Message, Place, Writer, now_ms};
use crate::api::{ActivityPage, ActivityQuery, LaunchRequest, Timeline};
use crate::backend::SandboxBackend;
use crate::error::{Coded, Problem};
use crate::manager::SandboxState;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Bytes of a layout.
const LAYOUT_LIMIT: usize = 1 << 20;
const LAYOUT_KEY: &str = "layout";

/// The history and what the window remembers. Shared freely; all work is done by one thread, and
/// a change never makes its caller wait for the disk.
///
/// Several processes may have the same file open.
#[derive(Debug)]
pub struct Store {
    messages: Sender<Message>,
    engine: EngineId,
    inbox: Arc<Inbox>,
    bound: HistoryBound,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens `store.sqlite` in the state directory. Always gives a store: where there can be no
    /// file it keeps its rows in memory, and the problems say why.
    #[must_use]
    pub fn open(dirs: &Dirs) -> (Self, Vec<Problem>) {
        Self::open_with(dirs, HistoryBound::default())
    }

    /// The same with another bound on the history of connections and refusals.
    #[must_use]
    pub fn open_with(dirs: &Dirs, bound: HistoryBound) -> (Self, Vec<Problem>) {
        let engine = EngineId::current();
        let mut problems = Vec::new();
        let place = match prepared_path(dirs) {
            Ok(path) => Place::File { path, open: None },
            Err(problem) => {
                problems.push(problem);
                Place::Memory(None)
            }
        };
        let inbox = Arc::new(Inbox::default());
        let mut writer = Writer::new(place, engine.clone(), problems, Arc::clone(&inbox), bound);
        writer.open_first();
        let problems = writer.take_notices();
        Self::start(engine, inbox, bound, writer, problems)
    }

    fn start(
        engine: EngineId,
        inbox: Arc<Inbox>,
        bound: HistoryBound,
        writer: Writer,
        mut problems: Vec<Problem>,
    ) -> (Self, Vec<Problem>) {
        let (messages, received) = channel();
        let thread = std::thread::Builder::new()
            .name("kotak-store".to_owned())
            .spawn(move || writer.run(&received));
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                let mut problem = StoreError::Stopped.problem();
                problem.causes.push(error.to_string());
                problems.push(problem);
                None
            }
        };
        (
            Self {
                messages,
                engine,
                inbox,
                bound,
                thread: Mutex::new(thread),
            },
            problems,
        )
    }

    /// Tells `listener` of every problem from now on, and of those since opening that nobody has
    /// been told of. It is called from the store's thread.
    pub fn on_problem(&self, listener: impl Fn(Problem) + Send + 'static) {
        self.send(Message::Listen(Box::new(listener)));
    }

    /// A session begins.
    pub fn session_started(&self, start: SessionStart) {
        let engine = self.engine.clone();
        self.write(Write::Started {
            engine,
            start: Box::new(start),
        });
    }

    /// The launch gave a result, or the state changed.
    pub fn session_changed(&self, id: &str, backend: Option<SandboxBackend>, state: SandboxState) {
        self.write(Write::Launched {
            id: id.to_owned(),
            backend,
            state,
        });
    }

    /// A session ended.
    pub fn session_ended(&self, id: &str, end: SessionEnd) {
        self.write(Write::Ended {
            id: id.to_owned(),
            end,
        });
    }

    /// The newest sessions of all engines, newest first.
    pub fn sessions(&self, limit: u32) -> Result<Vec<SessionRecord>, StoreError> {
        self.read(move |connection| row::sessions(connection, limit))
    }

    /// The newest session of an id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| row::session(connection, &id))
    }

    /// A session's restricted network begins.
    pub fn network_started(&self, id: &str, network: SessionNetworkRecord) {
        self.write(Write::Network {
            id: id.to_owned(),
            network,
            at_ms: now_ms(),
        });
    }

    /// What a session's network was launched with; nothing for one that was not restricted.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn session_network(&self, id: &str) -> Result<Option<SessionNetworkRecord>, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| row::session_network(connection, &id))
    }

    /// The window's layout as it was last saved.
    pub fn layout(&self) -> Result<Option<String>, StoreError> {
        self.read(|connection| row::setting(connection, LAYOUT_KEY))
    }

    /// Saves the window's layout.
    pub fn set_layout(&self, layout: String) -> Result<(), StoreError> {
        if layout.len() > LAYOUT_LIMIT {
            return Err(StoreError::LayoutTooLarge {
                size: layout.len(),
                limit: LAYOUT_LIMIT,
            });
        }
        self.write(Write::Setting {
            key: LAYOUT_KEY,
            value: layout,
        });
        Ok(())
    }

    /// A folder was used without a choice to remember.
    pub fn folder_used(&self, path: &str) {
        self.write(Write::Folder {
            path: path.to_owned(),
            choice: None,
            at_ms: now_ms(),
        });
    }

    /// A launch was asked for: its folder was used, and the choice is the folder's last.
    pub fn remember_choice(&self, request: &LaunchRequest) {
        let choice = serde_json::to_string(request).ok();
        self.write(Write::Folder {
            path: request.cwd.clone(),
            choice,
            at_ms: now_ms(),
        });
    }

    /// Forgets a folder and its choice.
    pub fn forget_folder(&self, path: &str) {
        self.write(Write::ForgetFolder {
            path: path.to_owned(),
        });
    }

    /// Folders, last used first.
    pub fn recent_folders(&self, limit: u32) -> Result<Vec<String>, StoreError> {
        self.read(move |connection| row::folders(connection, limit))
    }

    /// The last choice of each folder, newest first.
    pub fn last_choices(&self, limit: u32) -> Result<Vec<LaunchRequest>, StoreError> {
        self.read(move |connection| row::choices(connection, limit))
    }

    /// Puts connections and refusals down.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder {
            inbox: Arc::clone(&self.inbox),
            messages: self.messages.clone(),
        }
    }

    /// A page of connections and refusals, newest first.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn activity(&self, query: &ActivityQuery) -> Result<ActivityPage, StoreError> {
        let (query, bound) = (query.clone(), self.bound);
        self.read(move |connection| activity::page(connection, &query, bound))
    }

    /// Connections and refusals over time, of one session or of all: `steps` equal steps (at most
    /// 2,000) from `from_ms` on, the last one at or after `to_ms`.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn timeline(
        &self,
        session: Option<&str>,
        from_ms: u64,
        to_ms: u64,
        steps: u32,
    ) -> Result<Timeline, StoreError> {
        let session = session.map(str::to_owned);
        self.read(move |connection| {
            activity::timeline(connection, session.as_deref(), from_ms, to_ms, steps)
        })
    }

    /// What a session's attempts came to: every one of them, with a row or without.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn totals(&self, session: &str) -> Result<SessionTotals, StoreError> {
        let session = session.to_owned();
        self.read(move |connection| activity::totals(connection, &session))
    }

    /// Whether any session was ever allowed to reach a host, as far as the history goes.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn allowed_before(&self, host: &str) -> Result<bool, StoreError> {
        let host = host.to_owned();
        self.read(move |connection| activity::allowed_before(connection, &host))
    }

    /// Waits until all changes made so far were tried; true when none is left waiting.
    #[must_use]
    pub fn flush(&self) -> bool {
        let (done, wait) = sync_channel(1);
        self.send(Message::Flush(done)) && wait.recv().unwrap_or(false)
    }

    pub(super) fn write(&self, write: Write) {
        self.send(Message::Write(write));
    }

    /// Makes a change now, or says why it cannot be made.
    pub(super) fn change<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, ChangeError> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        let change: Change = Box::new(move |connection| {
            let result = connection.and_then(|connection| {
                let path = connection.path().unwrap_or_default().to_owned();
                change(connection).map_err(|error| match error {
                    ChangeError::Refused(refusal) => refusal,
                    ChangeError::Sql(error) => {
                        open::store_error(std::path::Path::new(&path), error)
                    }
                })
            });
            // Whoever changes waits for the answer; it cannot have gone.
            let _sent = answer.send(result);
        });
        self.send(Message::Change(change));
        wait.recv().unwrap_or(Err(StoreError::Stopped))
    }

    pub(super) fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        self.send(Message::Read(Box::new(move |connection| {
            let result = connection.and_then(|connection| {
                query(connection).map_err(|error| {
                    let path = connection.path().unwrap_or_default();
                    open::store_error(std::path::Path::new(path), error)
                })
            });
            // The reader waits for the answer; it cannot have gone.
            let _sent = answer.send(result);
        })));
        wait.recv().unwrap_or(Err(StoreError::Stopped))
    }

    pub(super) fn send(&self, message: Message) -> bool {
        let sent = self.messages.send(message).is_ok();
        if !sent {
            tracing::warn!("the store's thread does not run; a change was not recorded");
        }
        sent
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let stopping = self.messages.send(Message::Stop).is_ok();
        let thread = self.thread.get_mut().map_or(None, Option::take);
        if let (true, Some(thread)) = (stopping, thread) {
            // A panic of that thread has been reported by the panic hook.
            let _ended = thread.join();
        }
    }
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum ChangeError {
    /// A rule of the store's own.
    Refused(StoreError),
    /// A statement failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

fn prepared_path(dirs: &Dirs) -> Result<PathBuf, Problem> {
    dirs.prepare_state().map_err(|error| error.problem())?;
    // SQLite is told to follow no link, so the directory itself is resolved here.
    let state = dirs.state.canonicalize().map_err(|source| {
        StoreError::Unopenable {
            path: dirs.state.clone(),
            source,
        }
        .problem()
    })?;
    Ok(state.join(FILE_NAME))
}

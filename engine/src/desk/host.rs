//! The window's end of the desk.

use super::message::{ToGuest, ToHost, VERSION};
use super::{DeskError, Reply, frame, is_own, lock_path, socket_path};
use crate::api::{ActivityRow, Answer, AnswerScope, FoldedPrompts, Prompt};
use crate::error::{Coded, Problem};
use crate::store::Dirs;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Guests at the same time.
const GUESTS: usize = 64;
/// Questions of one guest; its own broker shows fewer.
const PROMPTS: usize = 256;
/// Sessions of one guest that have questions folded.
const FOLDS: usize = 64;
/// Messages to one guest that wait.
const OUTBOX: usize = 64;
/// How long a guest may take for its first message, and for a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer that comes sooner after a question came here was not meant for it.
const EARLY: Duration = Duration::from_millis(500);

/// What the window is told.
#[derive(Debug, Clone, PartialEq)]
pub enum DeskEvent {
    /// A question of another engine is new or changed.
    Prompt(Box<Prompt>),
    /// A question of another engine is no more.
    PromptGone(String),
    /// Questions of another engine that are not shown one by one.
    Folded(FoldedPrompts),
    /// Live rows of another engine.
    Rows {
        /// The rows.
        rows: Vec<ActivityRow>,
        /// How many were only counted.
        skipped: u64,
    },
}

/// Is told of what comes. Must not wait.
pub type HostListener = Box<dyn Fn(DeskEvent) + Send + Sync>;

/// The desk as its owner has it. Dropping it closes the socket, and every guest's questions are
/// then asked elsewhere or denied.
pub struct Host {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
    /// Held for as long as the socket is ours.
    _lock: File,
}

struct Shared {
    guests: Mutex<BTreeMap<u64, GuestState>>,
    listener: HostListener,
    next_request: AtomicU64,
}

struct GuestState {
    outbox: mpsc::Sender<ToGuest>,
    prompts: HashMap<String, (Prompt, Instant)>,
    folded: HashMap<String, FoldedPrompts>,
    replies: HashMap<u64, oneshot::Sender<Reply>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Host").finish_non_exhaustive()
    }
}

impl Host {
    /// Takes the desk. Must be called inside a runtime.
    ///
    /// # Errors
    /// Another engine of this user has it, or the socket cannot be made.
    pub fn open(dirs: &Dirs, listener: HostListener) -> Result<Self, DeskError> {
        dirs.prepare_run().map_err(DeskError::Directory)?;
        let lock = take_lock(dirs)?;
        let path = socket_path(dirs);
        let failed = |source| DeskError::Socket {
            path: path.clone(),
            source,
        };
        // Whoever left it behind is gone: it would hold the lock.
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let socket = UnixListener::bind(&path).map_err(failed)?;
        // Nobody else may enter the directory, so there is no moment in which they could connect.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let shared = Arc::new(Shared {
            guests: Mutex::default(),
            listener,
            next_request: AtomicU64::new(1),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(Arc::clone(&shared), socket));
        Ok(Self {
            shared,
            _tasks: tasks,
            _lock: lock,
        })
    }

    /// Questions of other engines.
    #[must_use]
    pub fn prompts(&self) -> Vec<Prompt> {
        let guests = self.shared.guests();
        let all = guests.values().flat_map(|guest| guest.prompts.values());
        all.map(|(prompt, _)| prompt.clone()).collect()
    }

    /// Questions of other engines that are not shown one by one.
    #[must_use]
    pub fn folded(&self) -> Vec<FoldedPrompts> {
        let guests = self.shared.guests();
        let all = guests.values().flat_map(|guest| guest.folded.values());
        all.filter(|folded| folded.hosts > 0 || folded.denied_unasked > 0)
            .cloned()
            .collect()
    }

    /// Whether a question is another engine's.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.shared.owner(id).is_some()
    }

    /// Answers a question of another engine.
    ///
    /// # Errors
    /// What that engine says; that it is gone or silent; or that the question came here too short
    /// a time ago to have been read.
    pub async fn answer(&self, id: &str, answer: Answer, scope: AnswerScope) -> Reply {
        let since = self.shared.owner(id).map(|(_, came)| came.elapsed());
        if since.is_some_and(|since| since < EARLY) {
            return Err(crate::egress::ask::AnswerError::TooEarly.problem());
        }
        let id = id.to_owned();
        self.request(&id.clone(), move |request| ToGuest::Answer {
            request,
            id,
            answer,
            scope,
        })
        .await
    }

    /// Stops the countdown of a question of another engine.
    ///
    /// # Errors
    /// As [`Host::answer`].
    pub async fn hold(&self, id: &str) -> Reply {
        let id = id.to_owned();
        self.request(&id.clone(), move |request| ToGuest::Hold { request, id })
            .await
    }

    /// Lets the countdown of a question of another engine go on.
    pub fn release(&self, id: &str) {
        if let Some((owner, _)) = self.shared.owner(id) {
            self.shared.release(owner, id);
        }
    }

    /// The window is gone: every countdown goes on.
    pub fn release_all(&self) {
        let held: Vec<(u64, String)> = {
            let guests = self.shared.guests();
            let all = guests.iter();
            all.flat_map(|(number, guest)| guest.prompts.keys().map(|id| (*number, id.clone())))
                .collect()
        };
        for (owner, id) in held {
            self.shared.release(owner, &id);
        }
    }

    async fn request(&self, id: &str, message: impl FnOnce(u64) -> ToGuest) -> Reply {
        let request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        let (owner, _) = self.shared.owner(id).ok_or_else(gone)?;
        let (sender, reply) = oneshot::channel();
        {
            let mut guests = self.shared.guests();
            let guest = guests.get_mut(&owner).ok_or_else(gone)?;
            guest
                .outbox
                .try_send(message(request))
                .map_err(|_| DeskError::Silent.problem())?;
            guest.replies.insert(request, sender);
        }
        match tokio::time::timeout(PATIENCE, reply).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(gone()),
            Err(_) => {
                if let Some(guest) = self.shared.guests().get_mut(&owner) {
                    guest.replies.remove(&request);
                }
                Err(DeskError::Silent.problem())
            }
        }
    }
}

fn gone() -> Problem {
    DeskError::Gone.problem()
}

/// The lock is the kernel's: it ends with its owner, however that ends.
fn take_lock(dirs: &Dirs) -> Result<File, DeskError> {
    let path = lock_path(dirs);
    let failed = |source| DeskError::Socket {
        path: path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(DeskError::Taken),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

impl Shared {
    fn guests(&self) -> MutexGuard<'_, BTreeMap<u64, GuestState>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which guest asks a question, and since when.
    fn owner(&self, id: &str) -> Option<(u64, Instant)> {
        self.guests().iter().find_map(|(number, guest)| {
            let (_, came) = guest.prompts.get(id)?;
            Some((*number, *came))
        })
    }

    fn release(&self, owner: u64, id: &str) {
        if let Some(guest) = self.guests().get(&owner) {
            // A guest that takes nothing is about to be parted with; its holds lapse by then.
            let _sent = guest
                .outbox
                .try_send(ToGuest::Release { id: id.to_owned() });
        }
    }
}

async fn accept(shared: Arc<Shared>, socket: UnixListener) {
    let mut guests = JoinSet::new();
    let mut number: u64 = 0;
    loop {
        let accepted = tokio::select! {
            Some(_) = guests.join_next() => continue,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                number += 1;
                match is_own(&stream) {
                    Ok(true) if guests.len() < GUESTS => {
                        guests.spawn(serve(Arc::clone(&shared), number, stream));
                    }
                    Ok(true) => tracing::warn!("too many engines at the desk"),
                    Ok(false) => tracing::warn!("somebody else came to the desk"),
                    Err(error) => tracing::warn!(%error, "a guest at the desk cannot be told"),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the desk cannot take a guest");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one guest until it goes; then its questions go too.
async fn serve(shared: Arc<Shared>, number: u64, stream: UnixStream) {
    let _leaving = Leaving {
        shared: Arc::clone(&shared),
        number,
    };
    if let Err(error) = talk(&shared, number, stream).await {
        tracing::debug!(%error, "a guest left the desk");
    }
}

struct Leaving {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some(guest) = self.shared.guests().remove(&self.number) else {
            return;
        };
        for id in guest.prompts.into_keys() {
            (self.shared.listener)(DeskEvent::PromptGone(id));
        }
        for (session_id, _) in guest.folded {
            (self.shared.listener)(DeskEvent::Folded(FoldedPrompts {
                session_id,
                hosts: 0,
                denied_unasked: 0,
            }));
        }
    }
}

async fn talk(shared: &Shared, number: u64, stream: UnixStream) -> io::Result<()> {
    let nonsense = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let (mut reader, mut writer) = stream.into_split();
    let hello = tokio::time::timeout(PATIENCE, frame::read::<ToHost>(&mut reader)).await;
    match hello.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
        Some(ToHost::Hello { version: VERSION }) => {}
        Some(_) | None => return Err(nonsense("it is of another version")),
    }
    let welcome = frame::encode(&ToGuest::Welcome { version: VERSION });
    frame::write(&mut writer, &welcome.unwrap_or_default()).await?;
    let (outbox, mut outgoing) = mpsc::channel(OUTBOX);
    let state = GuestState {
        outbox,
        prompts: HashMap::new(),
        folded: HashMap::new(),
        replies: HashMap::new(),
    };
    shared.guests().insert(number, state);
    let sending = async {
        while let Some(message) = outgoing.recv().await {
            if let Some(frame) = frame::encode(&message) {
                frame::write(&mut writer, &frame).await?;
            }
        }
        Ok(())
    };
    let receiving = async {
        while let Some(message) = frame::read::<ToHost>(&mut reader).await? {
            if let Some(event) = take(shared, number, message).map_err(nonsense)? {
                (shared.listener)(event);
            }
        }
        Ok(())
    };
    tokio::select! {
        sent = sending => sent,
        received = receiving => received,
    }
}

/// Takes one message; what the window is told of it. `Err` parts with the guest.
fn take(shared: &Shared, number: u64, message: ToHost) -> Result<Option<DeskEvent>, &'static str> {
    let mut guests = shared.guests();
    match message {
        ToHost::Hello { .. } => Err("it greets twice"),
        ToHost::Prompt { prompt } => {
            let foreign = guests
                .iter()
                .any(|(other, guest)| *other != number && guest.prompts.contains_key(&prompt.id));
            let guest = guests.get_mut(&number).ok_or("it is gone")?;
            let new = !guest.prompts.contains_key(&prompt.id);
            if foreign || (new && guest.prompts.len() >= PROMPTS) {
                return Err("its questions cannot be told apart, or are too many");
            }
            guest
                .prompts
                .entry(prompt.id.clone())
                .and_modify(|(known, _)| *known = (*prompt).clone())
                .or_insert_with(|| ((*prompt).clone(), Instant::now()));
            Ok(Some(DeskEvent::Prompt(prompt)))
        }
        ToHost::Gone { id } => {
            let guest = guests.get_mut(&number).ok_or("it is gone")?;
            let known = guest.prompts.remove(&id).is_some();
            Ok(known.then_some(DeskEvent::PromptGone(id)))
        }
        ToHost::Folded { folded } => {
            let guest = guests.get_mut(&number).ok_or("it is gone")?;
            let ends = folded.hosts == 0 && folded.denied_unasked == 0;
            if ends {
                guest.folded.remove(&folded.session_id);
            } else if guest.folded.len() < FOLDS || guest.folded.contains_key(&folded.session_id) {
                guest
                    .folded
                    .insert(folded.session_id.clone(), folded.clone());
            } else {
                return Err("too many of its sessions ask too much");
            }
            Ok(Some(DeskEvent::Folded(folded)))
        }
        ToHost::Rows { rows, skipped } => Ok(Some(DeskEvent::Rows { rows, skipped })),
        ToHost::Reply { request, reply } => {
            let guest = guests.get_mut(&number).ok_or("it is gone")?;
            if let Some(waiter) = guest.replies.remove(&request) {
                // Whoever waited may have given up.
                let _sent = waiter.send(reply);
            }
            Ok(None)
        }
    }
}

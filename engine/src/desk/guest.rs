//! The other engines' end of the desk.

use super::message::{ToGuest, ToHost, VERSION};
use super::{Reply, frame, is_own, socket_path};
use crate::api::{ActivityRow, Answer, AnswerScope, FoldedPrompts, Prompt};
use crate::egress::gate::Boxed;
use crate::store::Dirs;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// How often a desk is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the desk may take to be reached and to greet.
const PATIENCE: Duration = Duration::from_secs(5);
/// Messages that wait to be sent.
const OUTBOX: usize = 512;
/// Rows of one message, so that it stays below the bound of a frame.
const ROWS: usize = 20;

/// What the window's engine wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestEvent {
    /// The desk was reached: it knows nothing yet.
    Connected,
    /// The desk is gone: nobody answers there any more.
    Disconnected,
    /// An answer.
    Answer {
        /// The question.
        id: String,
        /// The answer.
        answer: Answer,
        /// How far it reaches.
        scope: AnswerScope,
    },
    /// Somebody looks at a question.
    Hold(String),
    /// Nobody looks any more.
    Release(String),
}

/// Does what the window's engine wants; the reply, to what wants one.
pub type GuestHandler = Arc<dyn Fn(GuestEvent) -> Boxed<'static, Option<Reply>> + Send + Sync>;

/// The way to the desk, while there is one.
pub struct Guest {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Default)]
struct Shared {
    /// Where messages go while the desk is reached.
    outbox: Mutex<Option<mpsc::Sender<ToHost>>>,
}

impl fmt::Debug for Guest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guest").finish_non_exhaustive()
    }
}

impl Guest {
    /// Looks for the desk from now on. Must be called inside a runtime.
    #[must_use]
    pub fn start(dirs: &Dirs, handler: GuestHandler) -> Self {
        let shared = Arc::new(Shared::default());
        let path = socket_path(dirs);
        let task = tokio::spawn(look(Arc::clone(&shared), path, handler));
        Self {
            shared,
            task: task.abort_handle(),
        }
    }

    /// A question is new or changed.
    pub fn prompt(&self, prompt: Prompt) {
        self.shared.send(ToHost::Prompt {
            prompt: Box::new(prompt),
        });
    }

    /// A question is no more.
    pub fn gone(&self, id: &str) {
        self.shared.send(ToHost::Gone { id: id.to_owned() });
    }

    /// Questions that are not shown one by one.
    pub fn folded(&self, folded: FoldedPrompts) {
        self.shared.send(ToHost::Folded { folded });
    }

    /// Live rows. Where they cannot be sent they are in the history all the same.
    pub fn rows(&self, rows: &[ActivityRow], skipped: u64) {
        let outbox = self.shared.outbox();
        let Some(outbox) = outbox.as_ref() else {
            return;
        };
        let mut skipped = skipped;
        for piece in rows.chunks(ROWS) {
            let message = ToHost::Rows {
                rows: piece.to_vec(),
                skipped: 0,
            };
            // Questions need the room more.
            if outbox.capacity() < OUTBOX / 2 || outbox.try_send(message).is_err() {
                skipped = skipped.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            }
        }
        if skipped > 0 {
            // Where even this finds no room, the window reads the history sooner or later.
            let _sent = outbox.try_send(ToHost::Rows {
                rows: Vec::new(),
                skipped,
            });
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn outbox(&self) -> MutexGuard<'_, Option<mpsc::Sender<ToHost>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A desk that does not read is left: it is told everything anew when it is reached again.
    fn send(&self, message: ToHost) {
        let mut outbox = self.outbox();
        if outbox
            .as_ref()
            .is_some_and(|outbox| outbox.try_send(message).is_err())
        {
            *outbox = None;
        }
    }
}

async fn look(shared: Arc<Shared>, path: PathBuf, handler: GuestHandler) {
    loop {
        if let Ok(stream) = reach(&path).await {
            let (sender, outgoing) = mpsc::channel(OUTBOX);
            *shared.outbox() = Some(sender);
            handler(GuestEvent::Connected).await;
            if let Err(error) = talk(&shared, stream, outgoing, &handler).await {
                tracing::debug!(%error, "the desk was left");
            }
            *shared.outbox() = None;
            handler(GuestEvent::Disconnected).await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reaches a desk of this user's that speaks as we do.
async fn reach(path: &Path) -> io::Result<UnixStream> {
    let reached = async {
        let mut stream = UnixStream::connect(path).await?;
        if !is_own(&stream)? {
            tracing::warn!("the desk is another user's");
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let hello = frame::encode(&ToHost::Hello { version: VERSION });
        frame::write(&mut stream, &hello.unwrap_or_default()).await?;
        match frame::read::<ToGuest>(&mut stream).await? {
            Some(ToGuest::Welcome { version: VERSION }) => Ok(stream),
            Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
        }
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn talk(
    shared: &Shared,
    stream: UnixStream,
    mut outgoing: mpsc::Receiver<ToHost>,
    handler: &GuestHandler,
) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let sending = async {
        while let Some(message) = outgoing.recv().await {
            match frame::encode(&message) {
                Some(frame) => frame::write(&mut writer, &frame).await?,
                None => tracing::warn!("a message to the desk is too long"),
            }
        }
        Ok(())
    };
    let receiving = async {
        while let Some(message) = frame::read::<ToGuest>(&mut reader).await? {
            let (request, event) = match message {
                ToGuest::Welcome { .. } => return Err(io::ErrorKind::InvalidData.into()),
                ToGuest::Answer {
                    request,
                    id,
                    answer,
                    scope,
                } => (Some(request), GuestEvent::Answer { id, answer, scope }),
                ToGuest::Hold { request, id } => (Some(request), GuestEvent::Hold(id)),
                ToGuest::Release { id } => (None, GuestEvent::Release(id)),
            };
            let reply = handler(event).await;
            if let (Some(request), Some(reply)) = (request, reply) {
                shared.send(ToHost::Reply { request, reply });
            }
        }
        Ok(())
    };
    tokio::select! {
        sent = sending => sent,
        received = receiving => received,
    }
}

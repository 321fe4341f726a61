//! One terminal session as the window knows it: a sandbox with one program in one terminal.

use super::Exec;
use super::sandbox_manager::failed_handle;
use crate::api::{SessionInfo, SessionPhase};
use crate::error::Problem;
use crate::process::Terminal;
use crate::spec::AbsPath;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// One terminal session.
#[derive(Debug)]
pub(super) struct Session {
    info: Mutex<SessionInfo>,
    running: OnceLock<Arc<Exec>>,
    close_wanted: AtomicBool,
    /// Folders approved for it alone, for its next start.
    approved: Mutex<Vec<AbsPath>>,
    /// Set once the session is over and nothing of it is left.
    done: watch::Sender<bool>,
}

impl Session {
    pub(super) fn new(info: SessionInfo) -> Arc<Self> {
        Arc::new(Self {
            info: Mutex::new(info),
            running: OnceLock::new(),
            close_wanted: AtomicBool::new(false),
            approved: Mutex::default(),
            done: watch::Sender::new(false),
        })
    }

    fn locked(&self) -> MutexGuard<'_, SessionInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn info(&self) -> SessionInfo {
        self.locked().clone()
    }

    pub(super) fn id(&self) -> String {
        self.locked().id.clone()
    }

    /// Changes it, and returns it as it is then.
    pub(super) fn update(&self, change: impl FnOnce(&mut SessionInfo)) -> SessionInfo {
        let mut info = self.locked();
        change(&mut info);
        info.clone()
    }

    pub(super) fn terminal(&self) -> Option<&Arc<Terminal>> {
        self.running.get()?.terminal()
    }

    pub(super) fn exec(&self) -> Option<&Arc<Exec>> {
        self.running.get()
    }

    pub(super) fn runs(&self, exec: Arc<Exec>) {
        // Set once, by the launch.
        let _ = self.running.set(exec);
    }

    pub(super) fn want_close(&self) {
        self.close_wanted.store(true, Ordering::SeqCst);
    }

    pub(super) fn close_wanted(&self) -> bool {
        self.close_wanted.load(Ordering::SeqCst)
    }

    /// Folders approved for it alone, which a restart takes along.
    pub(super) fn approved(&self) -> Vec<AbsPath> {
        let approved = self.approved.lock();
        approved.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn approve(&self, folders: Vec<AbsPath>) {
        *self.approved.lock().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(
            self.locked().phase,
            SessionPhase::Ended | SessionPhase::Error
        )
    }

    pub(super) fn set_done(&self) {
        self.done.send_replace(true);
    }

    pub(super) fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    /// Waits until nothing of it is left.
    pub(super) async fn done(&self) {
        let mut done = self.done.subscribe();
        // The sender lives as long as `self`.
        let _ = done.wait_for(|done| *done).await;
    }
}

/// Puts an error into a session: nothing runs, so no backend is named (REQ BK-7).
pub(super) fn fail(info: &mut SessionInfo, problem: Problem) {
    let details = std::mem::take(&mut info.handle.details);
    info.handle = failed_handle(&info.id, problem, details);
    info.phase = SessionPhase::Error;
    info.ended_at_ms = Some(now_ms());
}

/// A handle before anything runs.
pub(super) fn created_handle(id: &str) -> super::SandboxHandle {
    super::SandboxHandle {
        session_id: id.to_owned(),
        backend: None,
        state: super::SandboxState::Created,
        error: None,
        enforcement: None,
        details: BTreeMap::new(),
    }
}

/// Milliseconds since the Unix epoch; 0 on a clock before it.
pub(super) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

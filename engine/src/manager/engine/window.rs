//! What an engine tells its windows, and how it comes to the desk where they answer.

use super::{EngineRole, Shared, notify};
use crate::api::NetworkCounts;
use crate::desk::{Guest, GuestHandler, Host};
use crate::error::Coded;
use crate::manager::feed::{Everything, Source};
use crate::manager::prompts::Prompts;
use crate::store::Dirs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

impl Shared {
    /// Takes the desk for the window, or looks for it.
    pub(super) fn come_to_the_desk(&self, dirs: &Dirs) {
        let prompts = &self.networks.prompts;
        match self.role {
            EngineRole::Panel => {
                let told = prompts.clone();
                match Host::open(dirs, Box::new(move |event| told.desk_event(event))) {
                    Ok(host) => prompts.be_host(host),
                    Err(error) => {
                        prompts.be_alone();
                        notify(&self.events, &self.notices, error.problem());
                    }
                }
            }
            EngineRole::Command => {
                let asked = prompts.clone();
                let handler: GuestHandler = Arc::new(move |event| {
                    let asked = asked.clone();
                    Box::pin(async move { asked.guest_event(event).await })
                });
                prompts.be_guest(Guest::start(dirs, handler));
            }
        }
    }

    /// A window reads the stream from now on; what it holds lapses when the last one is gone.
    pub(super) fn window_opened(&self) -> WindowOpen {
        self.windows.fetch_add(1, Ordering::SeqCst);
        WindowOpen {
            windows: Arc::clone(&self.windows),
            prompts: self.networks.prompts.clone(),
        }
    }
}

/// An engine that a stream does not keep alive.
#[derive(Debug)]
pub(super) struct WeakEngine(pub(super) Weak<Shared>);

impl Source for WeakEngine {
    fn everything(&self) -> Option<Everything> {
        let shared = self.0.upgrade()?;
        let (prompts, folded) = shared.all_prompts();
        Some(Everything {
            host: (*shared.manager.report()).clone(),
            settings: shared.settings.current(),
            sessions: shared.infos(),
            gone: shared.sessions().gone.clone(),
            rules: shared.networks.rules(),
            grants: shared.networks.grants(),
            prompts,
            folded,
        })
    }
}

/// One window's stream; the last one that goes lets every held countdown go on.
#[derive(Debug)]
pub(in crate::manager) struct WindowOpen {
    windows: Arc<AtomicU64>,
    prompts: Prompts,
}

impl Drop for WindowOpen {
    fn drop(&mut self) {
        if self.windows.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.prompts.window_gone();
        }
    }
}

/// Puts what a session's network did, and how much was refused, into what the window sees of it.
pub(super) fn counted(
    engine: &OnceLock<Weak<Shared>>,
    session: &str,
    counts: Option<NetworkCounts>,
    fresh_refusals: u64,
) {
    let Some(shared) = engine.get().and_then(Weak::upgrade) else {
        return;
    };
    let Some(found) = shared.find(session) else {
        return;
    };
    let waiting = shared.networks.ask().waiting(session);
    let before = found.info();
    let after = found.update(|info| {
        if let Some(counts) = counts {
            info.counts = counts;
        }
        let fresh = u32::try_from(fresh_refusals).unwrap_or(u32::MAX);
        info.unread_refusals = info.unread_refusals.saturating_add(fresh);
        info.counts.waiting = waiting;
    });
    if before != after {
        shared.publish(&found);
    }
}

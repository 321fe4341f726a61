//! The event stream to the window: the engine's batches plus the shell's own few events.

use crate::shell_events::ShellEvents;
use kotak_engine::api::UiEvent;
use kotak_engine::manager::Engine;
use std::sync::Mutex;
use tauri::async_runtime::JoinHandle;
use tauri::ipc::Channel;

/// One live subscription; a reloaded window replaces the former.
pub(crate) struct Stream {
    shell: ShellEvents,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self {
            shell: ShellEvents::default(),
            task: Mutex::new(None),
        }
    }

    /// Sends one of the shell's own events; without a window it waits for one.
    pub(crate) fn send(&self, event: UiEvent) {
        self.shell.send(event);
    }

    /// Starts forwarding to `channel` and ends the former subscription.
    pub(crate) fn subscribe(&self, engine: &Engine, channel: Channel<Vec<UiEvent>>) {
        let mut batches = engine.subscribe();
        let mut shell = self.shell.listen();
        let task = tauri::async_runtime::spawn(async move {
            loop {
                let batch = tokio::select! {
                    batch = batches.next_batch() => match batch {
                        Some(batch) => batch,
                        None => return,
                    },
                    event = shell.recv() => match event {
                        Some(event) => vec![event],
                        None => return,
                    },
                };
                if channel.send(batch).is_err() {
                    return;
                }
            }
        });
        let former = match self.task.lock() {
            Ok(mut slot) => slot.replace(task),
            Err(poisoned) => poisoned.into_inner().replace(task),
        };
        if let Some(former) = former {
            former.abort();
            // What the former window held, it does not hold any more.
            engine.window_gone();
        }
    }
}

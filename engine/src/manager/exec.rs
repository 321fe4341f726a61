//! One running program of a sandbox.

use std::sync::Arc;
use tokio::sync::watch;

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEnd {
    /// Exit code; 128 + n for signal n, as shells say it.
    pub exit_code: i32,
    /// The signal, when one ended it.
    pub signal: Option<i32>,
    /// Why the host ended it, when it did: the sandbox was destroyed or broke.
    pub killed: Option<String>,
}

/// One running program.
#[derive(Debug)]
pub struct Exec {
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) end: watch::Receiver<Option<ExecEnd>>,
    pub(crate) terminal: Option<Arc<crate::process::Terminal>>,
}

impl Exec {
    /// Unique in its session.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Process id inside the session.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The terminal of an exec with a PTY.
    #[must_use]
    pub fn terminal(&self) -> Option<&Arc<crate::process::Terminal>> {
        self.terminal.as_ref()
    }

    /// Waits until the program ended and, with a PTY, until all its output was read.
    pub async fn wait(&self) -> ExecEnd {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or_else(ExecEnd::lost),
            Err(_) => ExecEnd::lost(),
        }
    }
}

impl ExecEnd {
    /// The sandbox went away before the program's end was reported.
    pub(crate) fn lost() -> Self {
        Self {
            exit_code: 137,
            signal: Some(9),
            killed: Some("the sandbox is gone".to_owned()),
        }
    }
}

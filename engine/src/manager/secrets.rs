//! What becomes of secrets that a program on the host replaces while a session runs (REQ TM-2, SP).

use super::refusals::plain_row;
use super::sandbox::{Events, Sandbox};
use crate::api::ActivityRow;
use crate::egress::ask::Clock;
use crate::egress::journal::Journal;
use crate::error::{Coded, Fix};
use crate::events::{Evidence, RefusalRule, SandboxEvent, SandboxViolation};
use crate::process::guard_link::LinkClosed;
use crate::process::{SecretNotice, SecretWatch};
use crate::spec::AbsPath;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// A secret may be readable inside, and cannot be hidden.
#[derive(Debug, thiserror::Error)]
#[error("{what} may be readable inside and could not be hidden: {reason}")]
pub(super) struct SecretShown {
    /// Which secret.
    what: String,
    reason: String,
}

impl Coded for SecretShown {
    fn code(&self) -> &'static str {
        "SECRET_NOT_HIDDEN"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(
            "Start a new session: a launch hides every secret. Replace the secret if a program \
             inside may have read it.",
        ))
    }
}

/// Where the news of one session's secrets goes.
pub(super) struct SecretGuard {
    pub(super) session: String,
    pub(super) journal: Arc<Journal>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) events: Arc<Events>,
}

impl SecretGuard {
    /// Runs until the session is gone. What cannot be hidden ends the session at once. Freezing it
    /// would not do: it could only be closed then, and to end by itself it must go on for a moment.
    pub(super) async fn run(
        self,
        mut watch: SecretWatch,
        sandbox: Weak<Sandbox>,
        mut closed: watch::Receiver<Option<LinkClosed>>,
    ) {
        loop {
            let notice = tokio::select! {
                notice = watch.next() => notice,
                // Also when the tree was dropped.
                _ = closed.wait_for(Option::is_some) => None,
            };
            let Some(notice) = notice else {
                break;
            };
            match notice {
                SecretNotice::HiddenAgain { path, after } => self.tell(&path, after),
                SecretNotice::Lost { path, reason } => {
                    let what = path.map_or_else(|| "a secret".to_owned(), |path| path.to_string());
                    let shown = SecretShown { what, reason };
                    tracing::error!(session = self.session, error = %shown, "the session is killed");
                    let Some(sandbox) = sandbox.upgrade() else {
                        break;
                    };
                    sandbox.kill_for(shown.problem());
                }
            }
        }
        watch.end().await;
    }

    fn tell(&self, path: &AbsPath, after: Duration) {
        let target = crate::events::shown(path.as_bytes());
        let violation = violation(target.clone(), target.as_bytes() == path.as_bytes());
        let now_ms = self.clock.now_ms();
        self.journal
            .refused(now_ms, row(&self.session, &violation, after));
        self.journal.flush(now_ms);
        let event = SandboxEvent::Violation(Box::new(violation));
        self.events.send((self.session.clone(), event));
    }
}

/// Nobody was seen to read it, and who put it there is not known either.
fn violation(target: String, exact: bool) -> SandboxViolation {
    SandboxViolation {
        action: "file-read-data".to_owned(),
        rule: RefusalRule::Secret {
            path: target.clone(),
        },
        raw: Some(format!("file-read-data {target} replaced")),
        target,
        other: None,
        exact,
        call: "none".to_owned(),
        error: "EACCES".to_owned(),
        pid: 0,
        program: "unknown".to_owned(),
        executable: None,
        argv: Vec::new(),
        count: 1,
        evidence: Evidence::Inferred,
    }
}

fn row(session: &str, violation: &SandboxViolation, after: Duration) -> ActivityRow {
    let millis = after.as_millis().max(1);
    let why = "a secret was made or replaced; hidden again".to_owned();
    let sentence = format!(
        "a secret was made or replaced while the session ran, and is hidden since {millis} ms after \
         that was noticed; whether a program read it before is not known"
    );
    plain_row(session, violation, false, (why, sentence))
}

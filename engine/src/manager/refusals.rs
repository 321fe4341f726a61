//! What a session's guard refuses, on its way to the history, the windows and who listens to the
//! sandbox (REQ UI-5, SP).

use super::sandbox::Events;
use crate::api::{ActivityRow, Actor, FileDetail, Outcome};
use crate::egress::ask::Clock;
use crate::egress::journal::{Bucket, Counted, Journal};
use crate::events::{RefusalRule, SandboxEvent, SandboxViolation};
use crate::process::{Refused, Violations};
use kotak_guard::proto::FileAction;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between two flushes of the journal while something happens.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Refusals that go out as events of their own: so many at once, and so many a second after that.
/// They share a bounded bus with what programs write.
const EVENTS: (u64, u64) = (200, 50);

/// Where the refusals of one session go.
pub(super) struct Recording {
    pub(super) session: String,
    pub(super) journal: Arc<Journal>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) events: Arc<Events>,
    /// Programs that no approved folder lets run.
    pub(super) always_refused: Vec<Vec<u8>>,
}

impl Recording {
    /// Records what comes until the session's guard is gone and all of it is put down.
    pub(super) async fn run(self, mut violations: Violations) {
        let mut told = Told {
            bucket: Bucket::new(EVENTS.0, EVENTS.1),
            more: 0,
        };
        let mut flushed = Instant::now();
        loop {
            let next = if self.journal.holds_back() || told.more > 0 {
                tokio::time::timeout_at(flushed + FLUSH_EVERY, violations.next()).await
            } else {
                Ok(violations.next().await)
            };
            match next {
                Ok(Some(refused)) => self.put_down(refused, &mut told),
                Ok(None) => break,
                Err(_elapsed) => {}
            }
            // However fast they come.
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                self.flush(&mut told);
            }
        }
        self.flush(&mut told);
    }

    fn flush(&self, told: &mut Told) {
        self.journal.flush(self.clock.now_ms());
        let count = std::mem::take(&mut told.more);
        if count > 0 {
            let more = SandboxEvent::MoreViolations { count };
            self.events.send((self.session.clone(), more));
        }
    }

    fn put_down(&self, refused: Refused, told: &mut Told) {
        let now_ms = self.clock.now_ms();
        for seen in &refused.violations {
            let violation = SandboxViolation::of(seen);
            let approvable = violation.is_exec()
                && violation.rule == RefusalRule::Exec
                && !self.always_refused.contains(&seen.path);
            let row = row(&self.session, &violation, approvable);
            self.journal.refused_times(now_ms, violation.count, row);
            if told.bucket.take(now_ms) {
                let event = SandboxEvent::Violation(Box::new(violation));
                self.events.send((self.session.clone(), event));
            } else {
                told.more = told.more.saturating_add(violation.count);
            }
        }
        for (action, count) in refused.only_counted {
            let counted = match action {
                FileAction::Exec => Counted::Exec,
                FileAction::Create
                | FileAction::WriteData
                | FileAction::Unlink
                | FileAction::Rename
                | FileAction::Link
                | FileAction::ReadData => Counted::File,
            };
            self.journal.refused_unseen(now_ms, counted, count);
            told.more = told.more.saturating_add(count);
        }
    }
}

/// What goes out as events.
struct Told {
    bucket: Bucket,
    /// Too fast to be told one by one.
    more: u64,
}

fn row(session: &str, violation: &SandboxViolation, approvable: bool) -> ActivityRow {
    let always = violation.is_exec() && !approvable && violation.rule == RefusalRule::Exec;
    let (why, sentence) = if always {
        (
            "never runs in a sandbox".to_owned(),
            "this program is refused in every folder: by it a sandbox could be left".to_owned(),
        )
    } else {
        (violation.why(), violation.rule.sentence())
    };
    let way_out = violation.rule.way_out().filter(|_| !always);
    ActivityRow {
        way_out: way_out.map(str::to_owned),
        process: Some(Actor {
            pid: violation.pid,
            name: violation.program.clone(),
            executable: violation.executable.clone(),
            command: violation.command(),
            cwd: None,
            parents: Vec::new(),
        }),
        ..plain_row(session, violation, approvable, (why, sentence))
    }
}

/// A row that tells why, in few words and in a sentence, and of no process.
pub(super) fn plain_row(
    session: &str,
    violation: &SandboxViolation,
    approvable: bool,
    (why, sentence): (String, String),
) -> ActivityRow {
    ActivityRow {
        // The number, the times and the count are the journal's to set.
        id: 0,
        session_id: session.to_owned(),
        at_ms: 0,
        last_ms: 0,
        outcome: Outcome::Refused,
        action: violation.action.clone(),
        target: violation.target.clone(),
        unicode: None,
        why,
        way_out: None,
        count: 1,
        process: None,
        evidence: violation.evidence,
        raw: violation.raw.clone(),
        connection: None,
        file: Some(FileDetail {
            call: violation.call.clone(),
            error: violation.error.clone(),
            other: violation.other.clone(),
            rule: violation.rule.clone(),
            sentence,
            exact: violation.exact,
            approvable,
        }),
    }
}

#[cfg(test)]
#[path = "refusals_tests.rs"]
mod tests;

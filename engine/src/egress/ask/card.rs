//! One question, and what an answer to it means.

use super::{AnswerError, AskLimits, SessionFacts};
use crate::api::{Actor, Answer, AnswerScope, HostHistory, Prompt, PromptState, ScopeWords};
use crate::egress::decide::{Allowed, DenyReason, Destination};
use crate::egress::rules::lasting_pattern;
use crate::spec::HostPattern;
use std::collections::BTreeSet;

/// One attempt that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub(super) u64);

/// What becomes of an attempt that waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// It may pass.
    Allow(Allowed),
    /// It may not.
    Deny(DenyReason),
}

/// How long an answer lasts beyond what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Until the session ends.
    Session,
    /// From now on in the workspace.
    Workspace,
}

/// An answer that was checked, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The session that asked.
    pub session: String,
    /// Its workspace.
    pub workspace: String,
    /// What the answer covers.
    pub pattern: HostPattern,
    /// Allow or deny.
    pub allow: bool,
    /// The rule to store, when the answer lasts.
    pub lasting: Option<Lasting>,
    pub(super) card: u64,
}

/// Where a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The operator sees it, since then.
    Shown { since_ms: u64 },
    /// It waits for a place.
    Folded,
    /// Nobody answered, since then; the operator sees it still.
    Missed { shown_ms: u64, since_ms: u64 },
}

/// When a question that waits denies by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Countdown {
    /// At that time.
    Until(u64),
    /// It stands still with so much left, for a window, until then at most.
    Held {
        left_ms: u64,
        window: String,
        until_ms: u64,
    },
}

/// One question.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) id: String,
    pub(super) session: std::sync::Arc<str>,
    pub(super) destination: Destination,
    pub(super) first_ms: u64,
    pub(super) actor: Option<Actor>,
    pub(super) attempts: BTreeSet<AttemptId>,
    pub(super) place: Place,
    pub(super) countdown: Countdown,
    pub(super) history: HostHistory,
}

impl Card {
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.place, Place::Shown { .. } | Place::Folded)
    }

    pub(super) fn is_folded(&self) -> bool {
        self.place == Place::Folded
    }

    /// What a scope means for this host.
    pub(super) fn pattern(&self, scope: AnswerScope) -> Option<HostPattern> {
        lasting_pattern(scope, &self.destination)
    }

    /// Checks an answer. A question that is not shown cannot be answered.
    pub(super) fn settle(
        &self,
        number: u64,
        facts: &SessionFacts,
        (answer, scope): (Answer, AnswerScope),
        now_ms: u64,
        limits: &AskLimits,
    ) -> Result<Settled, AnswerError> {
        let shown_ms = match self.place {
            Place::Shown { since_ms } => since_ms,
            Place::Missed { shown_ms, .. } => shown_ms,
            Place::Folded => return Err(AnswerError::Gone),
        };
        if now_ms.saturating_sub(shown_ms) < limits.early_ms {
            return Err(AnswerError::TooEarly);
        }
        let (allow, lasting) = match answer {
            Answer::Deny => (false, None),
            Answer::DenySession => (false, Some(Lasting::Session)),
            Answer::AllowOnce => (true, None),
            Answer::AllowSession => (true, Some(Lasting::Session)),
            Answer::AllowWorkspace => (true, Some(Lasting::Workspace)),
        };
        Ok(Settled {
            session: facts.id.to_string(),
            workspace: facts.workspace.clone(),
            pattern: self.pattern(scope).ok_or(AnswerError::Scope)?,
            allow,
            lasting,
            card: number,
        })
    }

    /// The question as it is shown.
    pub(super) fn prompt(&self, facts: &SessionFacts, limits: &AskLimits) -> Prompt {
        let scopes = [
            AnswerScope::HostPort,
            AnswerScope::Host,
            AnswerScope::Parent,
        ];
        let words = scopes.into_iter().filter_map(|scope| {
            let pattern = self.pattern(scope)?.to_string();
            Some(ScopeWords { scope, pattern })
        });
        let waiting = self.is_waiting();
        Prompt {
            id: self.id.clone(),
            session_id: facts.id.to_string(),
            session_title: facts.title.clone(),
            workspace: facts.workspace.clone(),
            backend: facts.backend,
            host: self.destination.host.to_string(),
            unicode: self.destination.host.unicode(),
            port: self.destination.port,
            parent: self
                .pattern(AnswerScope::Parent)
                .map(|pattern| pattern.to_string()),
            process: self.actor.clone(),
            // Nothing is resolved before somebody allowed it.
            address: None,
            first_ms: self.first_ms,
            attempts: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            history: self.history,
            state: if waiting {
                PromptState::Waiting
            } else {
                PromptState::Missed
            },
            deadline_ms: match self.countdown {
                Countdown::Until(at) if waiting => Some(at),
                Countdown::Until(_) | Countdown::Held { .. } => None,
            },
            countdown_ms: limits.countdown_ms,
            words: words.collect(),
        }
    }
}

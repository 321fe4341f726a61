//! What the window and the command ask of the networks.

use super::engine::{Engine, Shared};
use super::prompts::{self, Prompts};
use super::sandbox_manager::NoSession;
use crate::api::{
    ActivityPage, ActivityQuery, Answer, AnswerScope, Explanation, ExportFormat, FoldedPrompts,
    NetworkPolicy, NewRule, Prompt, RuleInfo, RuleOrigin, Timeline,
};
use crate::egress::ask::AskEvent;
use crate::egress::explain::explain;
use crate::egress::rules::{Restriction, RuleSet};
use crate::error::{Coded, Fix, Problem};
use crate::spec::{HostPattern, NetworkMode, WorkspaceId};
use crate::store::{RuleFilter, RuleStart, SessionTotals, StoreError};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Why a request about a network is refused.
#[derive(Debug, thiserror::Error)]
enum NetworkRefusal {
    /// There is no rule of that number.
    #[error("there is no rule {0}")]
    NoRule(i64),
    /// A rule holds for nothing.
    #[error("the rule names no session and no workspace")]
    RuleWithoutPlace,
    /// There is no open connection of that number.
    #[error("connection {0} is not open any more")]
    NoConnection(u64),
    /// The session's network is the host's.
    #[error("the network of session {0} is open and not observed")]
    NotObserved(String),
    /// The file is named by no whole path.
    #[error("\"{0}\" is not an absolute path")]
    RelativePath(String),
    /// The work did not come to its end.
    #[error("the request was cut short")]
    Cut(#[source] tokio::task::JoinError),
}

impl Coded for NetworkRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::NoRule(_) => "NO_SUCH_RULE",
            Self::RuleWithoutPlace => "RULE_WITHOUT_PLACE",
            Self::NoConnection(_) => "CONNECTION_GONE",
            Self::NotObserved(_) => "NETWORK_NOT_OBSERVED",
            Self::RelativePath(_) => "PATH_RELATIVE",
            Self::Cut(_) => "REQUEST_CUT_SHORT",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::NoRule(_) => "It may have been removed already, or have ended with its session.",
            Self::RuleWithoutPlace => "Name a session or a workspace.",
            Self::NoConnection(_) => "Nothing needs doing: it has ended by itself.",
            Self::NotObserved(_) => "Start the session with the network allowlist, ask or off.",
            Self::RelativePath(_) => "Give the whole path, from the root.",
            Self::Cut(_) => "Try again; the log says more.",
        }))
    }
}

/// Runs work that waits for the disk, away from the runtime's threads.
pub(super) async fn blocking<T, F>(work: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| NetworkRefusal::Cut(error).problem())?
        .map_err(|error| error.problem())
}

impl Engine {
    /// A page of connections and refusals, newest first, of all engines of this user.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn activity(&self, query: ActivityQuery) -> Result<ActivityPage, Problem> {
        let store = Arc::clone(&self.0.store);
        blocking(move || store.activity(&query)).await
    }

    /// Connections and refusals over time, of one session or of all.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn timeline(
        &self,
        session: Option<String>,
        from_ms: u64,
        to_ms: u64,
        steps: u32,
    ) -> Result<Timeline, Problem> {
        let store = Arc::clone(&self.0.store);
        blocking(move || store.timeline(session.as_deref(), from_ms, to_ms, steps)).await
    }

    /// What a session's attempts came to by the history, those without a row counted too.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn network_totals(&self, session: &str) -> Result<SessionTotals, Problem> {
        let (store, session) = (Arc::clone(&self.0.store), session.to_owned());
        blocking(move || store.totals(&session)).await
    }

    /// Writes the rows of a query to a file; the number of rows.
    ///
    /// # Errors
    /// The path is relative, the history cannot be read, or the file cannot be written.
    pub async fn export_activity(
        &self,
        query: ActivityQuery,
        format: ExportFormat,
        path: &str,
    ) -> Result<u64, Problem> {
        let file = PathBuf::from(path);
        if !file.is_absolute() {
            return Err(NetworkRefusal::RelativePath(path.to_owned()).problem());
        }
        let store = Arc::clone(&self.0.store);
        blocking(move || store.export_activity(&query, format, &file)).await
    }

    /// What a session's network is now.
    ///
    /// # Errors
    /// No session of this engine has that id.
    pub fn network_policy(&self, session: &str) -> Result<NetworkPolicy, Problem> {
        let Some(running) = self.0.networks.find(session) else {
            let info = self
                .session(session)
                .ok_or_else(|| NoSession(session.to_owned()).problem())?;
            // Of a session that has ended only its mode is left.
            return Ok(NetworkPolicy {
                session_id: info.id,
                mode: info.network,
                observed: info.network != NetworkMode::Open,
                bridge: None,
                allowed: Vec::new(),
                denied: Vec::new(),
                open: 0,
            });
        };
        let rules = running.network.rules();
        Ok(NetworkPolicy {
            session_id: session.to_owned(),
            mode: running.mode,
            observed: true,
            bridge: Some(running.bridge.name().to_owned()),
            allowed: rules.allowed_entries(),
            denied: rules.denied_entries(),
            open: running.network.open_connections(),
        })
    }

    /// The operator's rules, oldest first.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleInfo> {
        self.0.networks.rules()
    }

    /// Makes a rule; it holds at once in running sessions.
    ///
    /// # Errors
    /// The pattern is none (REQ EG-4), the rule names no session and no workspace, or it cannot
    /// be kept.
    pub async fn add_rule(&self, rule: NewRule) -> Result<RuleInfo, Problem> {
        let start = self.0.rule_start(rule)?;
        prompts::add_rule(&self.0.store, start).await
    }

    /// Removes a rule, from the next decision on; this also undoes an answer that lasts.
    ///
    /// # Errors
    /// There is no such rule, or it cannot be removed now.
    pub async fn remove_rule(&self, id: i64) -> Result<(), Problem> {
        let store = Arc::clone(&self.0.store);
        let removed = blocking(move || {
            let removed = store.remove_rule(id)?;
            // The store's thread tells of the change before it answers anything else.
            store.rules(&RuleFilter::default())?;
            Ok(removed)
        });
        match removed.await? {
            Some(_) => Ok(()),
            None => Err(NetworkRefusal::NoRule(id).problem()),
        }
    }

    /// What would happen to a destination, written `host` or `host:port`, in a session.
    ///
    /// # Errors
    /// No session of this engine has that id, or its network is open.
    pub fn test_destination(&self, session: &str, text: &str) -> Result<Explanation, Problem> {
        match self.0.networks.find(session) {
            Some(running) => Ok(explain(text, &running.network.rules())),
            None => {
                let info = self
                    .session(session)
                    .ok_or_else(|| NoSession(session.to_owned()).problem())?;
                match Restriction::of(info.network) {
                    None => Err(NetworkRefusal::NotObserved(session.to_owned()).problem()),
                    // It has ended: what its spec and the built-in lists say.
                    Some(restriction) => Ok(explain(
                        text,
                        &RuleSet::new(restriction, Vec::new(), Vec::new()),
                    )),
                }
            }
        }
    }

    /// Cuts an open connection.
    ///
    /// # Errors
    /// There is none of that number any more.
    pub fn cut(&self, session: &str, connection: u64) -> Result<(), Problem> {
        let running = self.0.networks.find(session);
        if running.is_some_and(|running| running.network.cut(connection)) {
            Ok(())
        } else {
            Err(NetworkRefusal::NoConnection(connection).problem())
        }
    }

    /// Answers a question; the rule, when the answer lasts. [`Engine::remove_rule`] undoes it.
    ///
    /// # Errors
    /// `ANSWER_TOO_EARLY` within half a second of its appearance, `PROMPT_GONE`,
    /// `ANSWER_SCOPE_INVALID`, or the rule cannot be kept: then what waits goes on waiting.
    pub async fn answer_prompt(
        &self,
        id: &str,
        answer: Answer,
        scope: AnswerScope,
    ) -> Result<Option<RuleInfo>, Problem> {
        self.prompts().answer(id, answer, scope).await
    }

    /// Stops a question's countdown while somebody looks at it: until it is released or answered,
    /// the window's stream ends, or ten minutes are over.
    ///
    /// # Errors
    /// It does not wait any more.
    pub async fn hold_prompt(&self, id: &str) -> Result<(), Problem> {
        self.prompts().hold(id).await
    }

    /// Lets a question's countdown go on.
    pub fn release_prompt(&self, id: &str) {
        self.prompts().release(id);
    }

    /// The window that held questions is gone.
    pub fn window_gone(&self) {
        self.prompts().window_gone();
    }

    /// The operator has seen a session's refusals.
    ///
    /// # Errors
    /// There is no such session.
    pub fn mark_seen(&self, session: &str) -> Result<(), Problem> {
        let found = self.0.session(session)?;
        found.update(|info| info.unread_refusals = 0);
        self.0.publish(&found);
        Ok(())
    }

    /// Gives a session that is launched through the sandbox port a title in its questions.
    pub fn name_session(&self, session: &str, title: &str) {
        self.0.networks.name(session, title);
    }

    /// Questions are answered in this process's terminal from now on, until
    /// [`Engine::terminal_gone`]: what is told of them.
    #[must_use]
    pub fn ask_in_terminal(&self) -> mpsc::UnboundedReceiver<AskEvent> {
        self.prompts().terminal()
    }

    /// The terminal answers no more.
    pub fn terminal_gone(&self) {
        self.prompts().terminal_gone();
    }

    /// Whether a window of another engine shows this engine's questions, so that no terminal has
    /// to.
    #[must_use]
    pub fn is_at_desk(&self) -> bool {
        self.prompts().is_at_desk()
    }

    /// This engine's own questions that are shown now.
    #[must_use]
    pub fn own_prompts(&self) -> Vec<Prompt> {
        self.prompts().ask().prompts()
    }

    /// This engine's own questions beyond those.
    #[must_use]
    pub fn own_folded(&self) -> Vec<FoldedPrompts> {
        self.prompts().ask().folded()
    }

    fn prompts(&self) -> &Prompts {
        &self.0.networks.prompts
    }
}

impl Shared {
    fn rule_start(&self, rule: NewRule) -> Result<RuleStart, Problem> {
        let pattern = HostPattern::parse(&rule.pattern).map_err(|error| error.problem())?;
        let workspace = match (&rule.workspace, &rule.session_id) {
            (Some(workspace), _) => workspace.clone(),
            (None, Some(session)) => match self.find(session) {
                Some(found) => found.info().workspace,
                None => self
                    .networks
                    .workspace(session)
                    .ok_or_else(|| NoSession(session.clone()).problem())?,
            },
            (None, None) => return Err(NetworkRefusal::RuleWithoutPlace.problem()),
        };
        Ok(RuleStart {
            pattern: pattern.to_string(),
            allow: rule.allow,
            session_id: rule.session_id,
            workspace: WorkspaceId::of_folder(&workspace),
            origin: RuleOrigin::Operator,
        })
    }

    pub(super) fn all_prompts(&self) -> (Vec<Prompt>, Vec<FoldedPrompts>) {
        let prompts = &self.networks.prompts;
        (prompts.prompts(), prompts.folded())
    }
}

//! What the window and the command see of a session's network and refusals.

use crate::backend::SandboxBackend;
use crate::egress::decide::{Allowed, DenyReason, Source};
use crate::egress::gate::Route;
use crate::events::{Evidence, RefusalRule};
use crate::spec::NetworkMode;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// One row of the activity feed and of the network view: a refusal or an allowed connection.
/// A row that is sent again with the same `id` replaces the older one (a connection that ended,
/// a refusal that was repeated).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ActivityRow {
    /// Unique in the store; newer rows have larger ones.
    #[ts(type = "number")]
    pub id: i64,
    /// The session.
    pub session_id: String,
    /// First time, milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub at_ms: u64,
    /// Last time, when `count` is more than one.
    #[ts(type = "number")]
    pub last_ms: u64,
    /// Passed or refused.
    pub outcome: Outcome,
    /// The verb: `network-outbound`, `file-read-data`, `file-write-create`, …
    pub action: String,
    /// Path, or `host:port` in canonical form (REQ EG-11), control characters escaped.
    pub target: String,
    /// The host as its Unicode form reads, when that differs; drawn beside, never instead.
    pub unicode: Option<String>,
    /// Why, in a few words: `not on the allowlist`, `package registries`.
    pub why: String,
    /// What would have allowed it, in words; the narrowest way.
    pub way_out: Option<String>,
    /// How many times.
    pub count: u32,
    /// Who.
    pub process: Option<Actor>,
    /// Seen at the point of refusal, or concluded.
    pub evidence: Evidence,
    /// The raw line, for the detail view.
    pub raw: Option<String>,
    /// What only connections have.
    pub connection: Option<ConnectionDetail>,
    /// What only refused files and programs have.
    #[serde(default)]
    pub file: Option<FileDetail>,
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ActivityKind {
    /// Connections.
    Network,
    /// Files: made, changed, removed, read.
    Files,
    /// Programs that were to run.
    Exec,
}

impl ActivityKind {
    /// What a row is about.
    #[must_use]
    pub fn of(row: &ActivityRow) -> Self {
        match (&row.connection, row.action.as_str()) {
            (Some(_), _) => Self::Network,
            (None, "process-exec") => Self::Exec,
            (None, _) => Self::Files,
        }
    }
}

/// What only refused files and programs have. Text is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct FileDetail {
    /// Name of the system call.
    pub call: String,
    /// What the program got: `EACCES`.
    pub error: String,
    /// The other end of a rename or link.
    pub other: Option<String>,
    /// Which rule refused it.
    pub rule: RefusalRule,
    /// The rule in a whole sentence, without a full stop.
    pub sentence: String,
    /// Whether the row's target is the path itself, byte for byte; else it could not be written as
    /// text.
    pub exact: bool,
    /// Whether it would have run, had a folder that holds it been approved (REQ UI-7).
    pub approvable: bool,
}

/// Whether something passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It passed, and is over.
    Allowed,
    /// It passed, and goes on.
    Open,
    /// It was refused.
    Refused,
    /// It was allowed and could not be reached.
    Failed,
}

/// What only connections have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionDetail {
    /// The session's own number, for [`cut`](crate::manager::Engine).
    #[ts(type = "number")]
    pub connection: u64,
    /// Canonical host.
    pub host: String,
    /// Port.
    pub port: u16,
    /// How it came.
    pub route: Route,
    /// The address that was dialled.
    pub address: Option<String>,
    /// Bytes from the sandbox.
    #[ts(type = "number")]
    pub bytes_up: u64,
    /// Bytes to the sandbox.
    #[ts(type = "number")]
    pub bytes_down: u64,
    /// Milliseconds, once over.
    #[ts(type = "number | null")]
    pub duration_ms: Option<u64>,
    /// What let it pass.
    pub allowed: Option<Allowed>,
    /// What refused it.
    pub denied: Option<DenyReason>,
}

/// The process that did something, as the guard saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// Process id inside the session.
    pub pid: i32,
    /// Short name, control characters escaped.
    pub name: String,
    /// The executable inside, when it could be read.
    pub executable: Option<String>,
    /// Whole command line, at most 4 KiB, control characters escaped.
    pub command: String,
    /// Working directory.
    pub cwd: Option<String>,
    /// Names of the parents, nearest first, up to the session's first process.
    pub parents: Vec<String>,
}

/// Which rows are wanted; absent fields want all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ActivityQuery {
    /// One session only.
    pub session_id: Option<String>,
    /// Refusals only.
    pub refused_only: bool,
    /// Of one kind only.
    pub kind: Option<ActivityKind>,
    /// The action begins so.
    pub action: Option<String>,
    /// The process's name contains this.
    pub process: Option<String>,
    /// The target contains this.
    pub target: Option<String>,
    /// Rows older than this id (paging).
    #[ts(type = "number | null")]
    pub before: Option<i64>,
    /// From this time on.
    #[ts(type = "number | null")]
    pub from_ms: Option<u64>,
    /// Up to this time.
    #[ts(type = "number | null")]
    pub to_ms: Option<u64>,
    /// Most rows; 0 takes 200, and 1,000 is the most.
    pub limit: u32,
}

/// A page of rows, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ActivityPage {
    /// The rows.
    pub rows: Vec<ActivityRow>,
    /// There are older ones.
    pub more: bool,
    /// Rows of this query that were only counted: in a flood, or past the bound of the history.
    #[ts(type = "number")]
    pub only_counted: u64,
    /// The bound of the history, in words: `30 days or 200,000 rows`.
    pub bound: String,
}

/// What happened over time, in equal steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Beginning of the first step.
    #[ts(type = "number")]
    pub from_ms: u64,
    /// Milliseconds of one step.
    #[ts(type = "number")]
    pub step_ms: u64,
    /// Allowed connections per step.
    pub allowed: Vec<u32>,
    /// Refused connections per step.
    pub refused: Vec<u32>,
    /// Refused files and programs per step.
    pub files: Vec<u32>,
    /// The most refused hosts, most first, at most 20.
    pub hosts: Vec<RefusedHost>,
}

/// A host that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RefusedHost {
    /// Canonical host and port.
    pub target: String,
    /// Its Unicode form, when that differs.
    pub unicode: Option<String>,
    /// How often.
    pub count: u32,
    /// Refusals per step of the timeline.
    pub steps: Vec<u32>,
    /// Why, the last time.
    pub why: String,
}

/// A question that waits for the operator (REQ EG-9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// Unique among all engines of this user.
    pub id: String,
    /// The session.
    pub session_id: String,
    /// Its title.
    pub session_title: String,
    /// Its workspace, a folder.
    pub workspace: String,
    /// Its backend, from the launch result.
    pub backend: Option<SandboxBackend>,
    /// Canonical host.
    pub host: String,
    /// Its Unicode form, when that differs.
    pub unicode: Option<String>,
    /// Port.
    pub port: u16,
    /// `*.parent` when that is a pattern that may be stored, else absent.
    pub parent: Option<String>,
    /// Who asked first.
    pub process: Option<Actor>,
    /// What the name resolved to, when it was resolved: only after an allow.
    pub address: Option<String>,
    /// First attempt, milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub first_ms: u64,
    /// Attempts that wait on this answer.
    pub attempts: u32,
    /// What the history says of the host.
    pub history: HostHistory,
    /// Where it stands.
    pub state: PromptState,
    /// When it denies by itself; absent while it is held, and once it is missed.
    #[ts(type = "number | null")]
    pub deadline_ms: Option<u64>,
    /// The whole countdown in milliseconds.
    #[ts(type = "number")]
    pub countdown_ms: u64,
    /// For each scope, the rule in words that a lasting answer stores.
    pub words: Vec<ScopeWords>,
}

/// What the history says of connections to a host. It is bounded: what it does not hold may have
/// been all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum HostHistory {
    /// It was not read yet, or cannot be read.
    Unknown,
    /// It holds none that was allowed.
    NoneAllowed,
    /// It holds one that was allowed.
    Allowed,
}

/// A scope and the rule that it would store, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ScopeWords {
    /// The scope.
    pub scope: AnswerScope,
    /// The pattern, as it is stored: `files.example.com:443`.
    pub pattern: String,
}

/// Where a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum PromptState {
    /// Attempts wait.
    Waiting,
    /// Nobody answered in time, or the client gave up; an answer holds for the next attempt.
    Missed,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// This attempt is denied; nothing is stored.
    Deny,
    /// Denied until the session ends.
    DenySession,
    /// What waits is allowed; nothing is stored.
    AllowOnce,
    /// Allowed until the session ends.
    AllowSession,
    /// Allowed in this workspace from now on.
    AllowWorkspace,
}

/// How far an answer reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum AnswerScope {
    /// This host and this port.
    HostPort,
    /// This host, any port.
    Host,
    /// `*.parent`, any port.
    Parent,
}

/// Questions of one session beyond what is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct FoldedPrompts {
    /// The session.
    pub session_id: String,
    /// How many more hosts wait.
    pub hosts: u32,
    /// Attempts denied unasked, since the queue was full.
    #[ts(type = "number")]
    pub denied_unasked: u64,
}

/// A rule of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RuleInfo {
    /// Its number in the store.
    #[ts(type = "number")]
    pub id: i64,
    /// As stored: a host pattern with or without a port.
    pub pattern: String,
    /// Allow or deny.
    pub allow: bool,
    /// The session it holds for; absent for a rule of a workspace.
    pub session_id: Option<String>,
    /// The workspace it holds for.
    pub workspace: String,
    /// Where it came from.
    pub origin: RuleOrigin,
    /// Milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub created_at_ms: u64,
    /// The rule in words.
    pub words: String,
}

/// Where a rule came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum RuleOrigin {
    /// An answer to a prompt.
    Prompt,
    /// Made by hand, in the window or by `kotak rules`.
    Operator,
}

/// A rule to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRule {
    /// A host pattern (REQ EG-4) with or without `:port`.
    pub pattern: String,
    /// Allow or deny.
    pub allow: bool,
    /// For one session; absent for the workspace.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The workspace; absent takes the session's.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// What a session's network is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// The session.
    pub session_id: String,
    /// Its mode.
    pub mode: NetworkMode,
    /// Whether the session's connections are seen at all: not for an open network.
    pub observed: bool,
    /// The bridge into the sandbox: `guard` or `socat`.
    pub bridge: Option<String>,
    /// Allowed, grouped by source and group, in the order of the decision.
    pub allowed: Vec<ListEntry>,
    /// Denied before all else.
    pub denied: Vec<ListEntry>,
    /// Open connections now.
    pub open: u32,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ListEntry {
    /// As written.
    pub pattern: String,
    /// Where it comes from.
    pub source: Source,
    /// Its group, for people: `package registries`.
    pub group: String,
    /// Its number in the store, when it can be removed.
    #[ts(type = "number | null")]
    pub rule: Option<i64>,
}

/// What would happen to a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Canonical `host:port`.
    pub target: String,
    /// Its Unicode form, when that differs.
    pub unicode: Option<String>,
    /// What would be done.
    pub verdict: ExplainedVerdict,
    /// Why, in a sentence.
    pub why: String,
    /// The narrowest rule that would change it, when one can.
    pub way_out: Option<String>,
}

/// What would be done with a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ExplainedVerdict {
    /// It would pass, when its address is not a special one.
    Allow,
    /// It would be refused.
    Deny,
    /// The operator would be asked.
    Ask,
}

/// How a history is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// One JSON object a line.
    JsonLines,
    /// RFC 4180, with a header line; cells that a spreadsheet would run are defused.
    Csv,
}

/// What the session's network did so far, for the sidebar and the pane's title bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct NetworkCounts {
    /// Connections allowed.
    #[ts(type = "number")]
    pub allowed: u64,
    /// Attempts refused.
    #[ts(type = "number")]
    pub refused: u64,
    /// Questions that wait.
    pub waiting: u32,
}

//! What the window and the command exchange with the engine: one snapshot, a stream of deltas,
//! and requests. Generated to TypeScript by `ts-rs`; a contract test compares the committed files.

mod grants;
mod network;

pub use grants::*;
pub use network::*;

use crate::backend::{BackendChoice, SandboxBackend};
use crate::error::Problem;
use crate::manager::SandboxHandle;
use crate::probe::HostReport;
use crate::spec::{ExecRestriction, Mode, NetworkMode, PortForward, SocketGrant};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Everything the window needs to draw itself from nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The probe's result.
    pub host: HostReport,
    /// Sessions, oldest first, ended ones of this run too until dismissed.
    pub sessions: Vec<SessionInfo>,
    /// User settings.
    pub settings: Settings,
    /// The window's own layout as it last saved it; opaque to the engine.
    pub layout: Option<String>,
    /// Programs that can be started, with whether they are on PATH.
    pub presets: Vec<Preset>,
    /// Folders used lately, newest first.
    pub recent_folders: Vec<String>,
    /// Last choice per workspace folder, newest first.
    pub last_choices: Vec<LaunchRequest>,
    /// The user's home directory.
    pub home: String,
    /// Version of the application.
    pub version: String,
    /// Questions that wait, oldest first, then missed ones.
    pub prompts: Vec<Prompt>,
    /// Questions beyond those, by session.
    pub folded: Vec<FoldedPrompts>,
    /// The operator's rules, oldest first.
    pub rules: Vec<RuleInfo>,
    /// Grants, oldest first.
    pub grants: Vec<GrantInfo>,
    /// Things to tell that are no session's: a database set aside, a log that cannot be written.
    pub notices: Vec<Problem>,
}

/// One session as the window shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Session id.
    pub id: String,
    /// Short name: the program's.
    pub title: String,
    /// Group in the sidebar: the repository root or folder.
    pub workspace: String,
    /// Working directory.
    pub cwd: String,
    /// Backend, state, error, enforcement: from the launch result.
    pub handle: SandboxHandle,
    /// Network as launched.
    pub network: NetworkMode,
    /// Where the session is in its life, for the state dot.
    pub phase: SessionPhase,
    /// Exit code once ended (128 + n for signal n).
    pub exit_code: Option<i32>,
    /// What it was started with, for restart and split.
    pub request: LaunchRequest,
    /// What this session may do, in sentences, from the policy that was launched.
    pub summary: Vec<String>,
    /// Milliseconds since the Unix epoch.
    #[ts(type = "number")]
    pub started_at_ms: u64,
    /// Milliseconds since the Unix epoch.
    #[ts(type = "number | null")]
    pub ended_at_ms: Option<u64>,
    /// Refusals not yet looked at.
    pub unread_refusals: u32,
    /// What its network did; all zero where it is not observed.
    pub counts: NetworkCounts,
}

impl SessionInfo {
    /// Whether something of this session still runs or is about to.
    #[must_use]
    pub fn is_live(&self) -> bool {
        match self.phase {
            SessionPhase::Starting
            | SessionPhase::Ready
            | SessionPhase::Running
            | SessionPhase::Suspended => true,
            SessionPhase::Ended | SessionPhase::Error => false,
        }
    }
}

/// The state dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum SessionPhase {
    /// Launching.
    Starting,
    /// Warm, nothing runs.
    Ready,
    /// A program runs.
    Running,
    /// Frozen.
    Suspended,
    /// Over, as asked or by its own exit.
    Ended,
    /// Failed.
    Error,
}

/// A change, sent in batches of at most ten a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum UiEvent {
    /// A session is new or changed.
    Session {
        /// The whole session.
        session: Box<SessionInfo>,
    },
    /// A session was dismissed.
    SessionGone {
        /// Its id.
        id: String,
    },
    /// The host was probed again.
    Host {
        /// The new report.
        host: Box<HostReport>,
    },
    /// Settings changed.
    Settings {
        /// The new settings.
        settings: Settings,
    },
    /// Something to tell.
    Notice {
        /// What.
        notice: Problem,
    },
    /// Rows that are new or changed, newest last.
    Activity {
        /// The rows.
        rows: Vec<ActivityRow>,
        /// Rows that came too fast to be sent and were only counted.
        #[ts(type = "number")]
        skipped: u64,
    },
    /// A question is new or changed.
    Prompt {
        /// The question.
        prompt: Box<Prompt>,
    },
    /// A question was answered, or is no more.
    PromptGone {
        /// Its id.
        id: String,
    },
    /// Questions of a session that are not shown one by one; zero hosts ends it.
    PromptsFolded {
        /// How many.
        folded: FoldedPrompts,
    },
    /// Rules changed: all of them.
    Rules {
        /// All rules, oldest first.
        rules: Vec<RuleInfo>,
    },
    /// Grants changed: all of them.
    Grants {
        /// All grants, oldest first.
        grants: Vec<GrantInfo>,
    },
    /// The window was asked to close while sessions run; it answers with `quit` or `keepOpen`.
    CloseRequested,
    /// Another start of the application was asked for and sent here.
    Activated {
        /// A folder that was named.
        cwd: Option<String>,
    },
}

/// What the new-session sheet sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchRequest {
    /// What to run.
    pub program: Program,
    /// Absolute folder.
    pub cwd: String,
    /// Which sandbox.
    pub backend: BackendChoice,
    /// Network; absent takes the default (`open`), and it must be absent for `none`.
    #[serde(default)]
    pub network: Option<NetworkMode>,
    /// Extra allowed domains for this session (REQ TM-5); only with `allowlist` and `ask`.
    #[serde(default)]
    pub extra_domains: Vec<String>,
    /// Loopback ports to forward (REQ EG-12); only where the session has a network of its own.
    #[serde(default)]
    pub port_forwards: Vec<PortForward>,
    /// Host sockets to let in (REQ EG-12); only where the session has a network of its own.
    #[serde(default)]
    pub socket_grants: Vec<SocketGrant>,
    /// Mode.
    #[serde(default)]
    pub mode: Mode,
    /// Extra protected paths.
    #[serde(default)]
    pub protected_paths: Vec<String>,
    /// Whether programs in folders that the session can write may run (REQ BW-6).
    #[serde(default)]
    pub exec_restriction: ExecRestriction,
    /// Terminal size to start with.
    pub cols: u16,
    /// Terminal size to start with.
    pub rows: u16,
}

/// What a session runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Program {
    /// The user's login shell.
    Shell,
    /// A preset by id.
    Preset {
        /// From [`Preset::id`].
        id: String,
    },
    /// A command line of the user's, split by shell rules, not run by a shell.
    Command {
        /// As typed.
        line: String,
    },
}

/// A known program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    /// `claude`, `codex`, `gemini`.
    pub id: String,
    /// For people.
    pub label: String,
    /// The program on PATH, when it is there.
    pub path: Option<String>,
}

/// What would be launched, before it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct LaunchPreview {
    /// The backend that `auto` resolves to, or the one asked for.
    pub backend: Option<SandboxBackend>,
    /// Sentences: may write, may not read, may reach. Emphasised parts between `**`.
    pub sentences: Vec<String>,
    /// Gaps known before launch.
    pub gaps: Vec<crate::backend::Gap>,
    /// Why it would be refused.
    pub problem: Option<Problem>,
    /// The folder.
    pub folder: FolderInfo,
}

/// Facts about a folder, read without running anything (REQ launch case: hostile repository).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct FolderInfo {
    /// As given.
    pub path: String,
    /// It is an existing directory.
    pub exists: bool,
    /// Root of the repository it is in.
    pub repo_root: Option<String>,
    /// Branch, or short commit id when detached.
    pub branch: Option<String>,
}

/// User settings, stored as TOML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Theme.
    pub theme: Theme,
    /// Terminal font size in CSS pixels, 8 to 40.
    pub font_size: u16,
    /// Terminal font family; empty for the bundled one.
    pub font_family: String,
    /// Lines the terminal keeps, 1,000 to 200,000.
    pub scrollback_lines: u32,
    /// Ask before pasting more than one line.
    pub warn_multiline_paste: bool,
    /// Ask before closing a pane whose program runs.
    pub confirm_close: bool,
    /// Seconds until an unanswered question denies, 10 to 600 (REQ EG-9).
    pub prompt_seconds: u32,
    /// Tell of questions by a desktop notification while the window is not focused.
    pub notify_prompts: bool,
    /// Draw terminals with WebGL.
    pub webgl: bool,
    /// Screen reader mode of the terminal.
    pub screen_reader: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: Theme::System,
            font_size: 13,
            font_family: String::new(),
            scrollback_lines: 10_000,
            warn_multiline_paste: true,
            confirm_close: true,
            prompt_seconds: 60,
            notify_prompts: true,
            webgl: false,
            screen_reader: false,
        }
    }
}

/// Theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Theme {
    /// As the desktop says.
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
    /// High contrast, dark.
    HighContrast,
}

/// A process that runs in a session, for the close confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunningProcess {
    /// Id inside the session.
    pub pid: i32,
    /// Command line, control characters escaped.
    pub command: String,
    /// Whether it is in the foreground of the terminal.
    pub foreground: bool,
}

/// A piece of terminal output. Travels as raw bytes: a 24-byte header of three little-endian
/// `u64` — offset of the first byte, offset after the last byte produced so far, and flags (bit 0:
/// the output has ended; bit 1: bytes before `offset` were dropped from the scrollback) — then the
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Absolute offset of `bytes[0]` in the session's output.
    pub offset: u64,
    /// Absolute offset after the newest byte the engine holds.
    pub head: u64,
    /// No more bytes will come after `head`.
    pub ended: bool,
    /// The wanted offset was older than the scrollback.
    pub truncated: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

import type {
  ActivityPage,
  ActivityQuery,
  Answer,
  AnswerScope,
  ExecPolicy,
  Explanation,
  ExportFormat,
  FolderInfo,
  GrantInfo,
  HostReport,
  LaunchPreview,
  LaunchRequest,
  NetworkPolicy,
  NewGrant,
  NewRule,
  Problem,
  RuleInfo,
  RunningProcess,
  SessionGrant,
  SessionInfo,
  Settings,
  Snapshot,
  Timeline,
  UiEvent,
} from "./generated";

/** A piece of terminal output with its place in the session's stream. */
export interface OutputChunk {
  /** Absolute offset of the first byte. */
  offset: number;
  /** Absolute offset after the newest byte that the engine holds. */
  head: number;
  /** No more bytes will come after `head`. */
  ended: boolean;
  /** The wanted offset was older than the scrollback. */
  truncated: boolean;
  bytes: Uint8Array;
}

/** A stretch of time in equal steps, of one session or of all. */
export interface TimelineQuery {
  sessionId: string | null;
  fromMs: number;
  toMs: number;
  steps: number;
}

/** Everything, newest first; to be narrowed. */
export const wholeHistory: ActivityQuery = {
  sessionId: null,
  refusedOnly: false,
  kind: null,
  action: null,
  process: null,
  target: null,
  before: null,
  fromMs: null,
  toMs: null,
  limit: 0,
};

/**
 * All that the window asks of the engine. Every method that returns a promise rejects with a
 * {@link BackendError}, and with nothing else.
 */
export interface Backend {
  snapshot(): Promise<Snapshot>;
  /** Calls `onEvents` with each batch of changes, in order, until the returned function is called. */
  subscribe(onEvents: (events: UiEvent[]) => void): Promise<() => void>;
  probeAgain(): Promise<HostReport>;
  preview(request: LaunchRequest): Promise<LaunchPreview>;
  launch(request: LaunchRequest): Promise<SessionInfo>;
  restart(id: string): Promise<SessionInfo>;
  writeInput(id: string, bytes: Uint8Array): Promise<void>;
  /** Long poll: answers as soon as there are bytes after `from`. Acknowledges all before `from`. */
  readOutput(id: string, from: number): Promise<OutputChunk>;
  resize(id: string, cols: number, rows: number): Promise<void>;
  suspend(id: string): Promise<SessionInfo>;
  resume(id: string): Promise<SessionInfo>;
  processes(id: string): Promise<RunningProcess[]>;
  /** Ends the session's whole process tree. */
  close(id: string): Promise<void>;
  /** Forgets an ended session. */
  dismiss(id: string): Promise<void>;
  folderInfo(path: string): Promise<FolderInfo>;
  /** The system's folder dialog; null when it was cancelled. */
  pickFolder(): Promise<string | null>;
  saveLayout(json: string): Promise<void>;
  setSettings(settings: Settings): Promise<Settings>;
  openLink(url: string): Promise<void>;
  readClipboard(): Promise<string>;
  writeClipboard(text: string): Promise<void>;
  /** The host report as text, for a bug report. */
  reportText(): Promise<string>;
  /** A page of refusals and connections, newest first. */
  activity(query: ActivityQuery): Promise<ActivityPage>;
  timeline(query: TimelineQuery): Promise<Timeline>;
  networkPolicy(id: string): Promise<NetworkPolicy>;
  /** Rejects with the engine's reason when the pattern is none. */
  addRule(rule: NewRule): Promise<RuleInfo>;
  removeRule(id: number): Promise<void>;
  /** What a session is granted, and what became of it; nothing without a network of its own. */
  sessionGrants(id: string): Promise<SessionGrant[]>;
  /** From where a session may run programs, and which folders are approved. */
  execPolicy(id: string): Promise<ExecPolicy>;
  /** Opens a port or a socket, or approves a folder; rejects with the engine's reason, and keeps nothing then. */
  addGrant(grant: NewGrant): Promise<GrantInfo>;
  /** Closes it, and cuts what is open through it; an approved folder holds until its sessions end. */
  revokeGrant(id: number): Promise<void>;
  /** The rule that the answer stored; null for an answer that holds once. */
  answerPrompt(id: string, answer: Answer, scope: AnswerScope): Promise<RuleInfo | null>;
  /** Stops a question's countdown while the operator is at it. */
  holdPrompt(id: string): Promise<void>;
  releasePrompt(id: string): Promise<void>;
  /** What would become of a destination, as typed. */
  testDestination(id: string, text: string): Promise<Explanation>;
  /** Ends an open connection of a session. */
  cutConnection(id: string, connection: number): Promise<void>;
  /** Writes a history to a file that the system's dialog asks for; null when that was cancelled. */
  exportActivity(query: ActivityQuery, format: ExportFormat): Promise<string | null>;
  /** The session's refusals so far were looked at. */
  markSeen(id: string): Promise<void>;
  /** A desktop notification. */
  notify(title: string, body: string): Promise<void>;
  /** Ends every session and the application: the answer to a close request. */
  quit(): Promise<void>;
  /** The other answer: the window stays. */
  keepOpen(): Promise<void>;
}

/** A failure with the engine's code, causes and fix. */
export class BackendError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
    this.name = "BackendError";
  }
}

/** The problem in whatever was thrown. */
export function problemOf(thrown: unknown): Problem {
  if (thrown instanceof BackendError) return thrown.problem;
  if (isProblem(thrown)) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { code: "UNEXPECTED", message, causes: [], fix: null };
}

export function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null) return false;
  const { code, message, causes } = value as Partial<Problem>;
  return typeof code === "string" && typeof message === "string" && Array.isArray(causes);
}

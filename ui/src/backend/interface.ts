import type {
  FolderInfo,
  HostReport,
  LaunchPreview,
  LaunchRequest,
  Problem,
  RunningProcess,
  SessionInfo,
  Settings,
  Snapshot,
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

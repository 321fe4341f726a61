import { Channel, invoke } from "@tauri-apps/api/core";
import { BackendError, isProblem, problemOf, type Backend } from "./interface";
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
  RuleInfo,
  RunningProcess,
  SessionGrant,
  SessionInfo,
  Settings,
  Snapshot,
  Timeline,
  UiEvent,
} from "./generated";
import { decodeOutput } from "./output";

/** Every command of the window: its arguments and its answer. */
interface Commands {
  snapshot: { args: undefined; answer: Snapshot };
  subscribe: { args: { channel: Channel<UiEvent[]> }; answer: null };
  probe_again: { args: undefined; answer: HostReport };
  preview: { args: { request: LaunchRequest }; answer: LaunchPreview };
  launch: { args: { request: LaunchRequest }; answer: SessionInfo };
  restart: { args: { id: string }; answer: SessionInfo };
  read_output: { args: { id: string; from: number }; answer: ArrayBuffer };
  resize: { args: { id: string; cols: number; rows: number }; answer: null };
  suspend: { args: { id: string }; answer: SessionInfo };
  resume: { args: { id: string }; answer: SessionInfo };
  processes: { args: { id: string }; answer: RunningProcess[] };
  close: { args: { id: string }; answer: null };
  dismiss: { args: { id: string }; answer: null };
  folder_info: { args: { path: string }; answer: FolderInfo };
  pick_folder: { args: undefined; answer: string | null };
  save_layout: { args: { layout: string }; answer: null };
  set_settings: { args: { settings: Settings }; answer: Settings };
  open_link: { args: { url: string }; answer: null };
  read_clipboard: { args: undefined; answer: string };
  write_clipboard: { args: { text: string }; answer: null };
  report_text: { args: undefined; answer: string };
  activity: { args: { query: ActivityQuery }; answer: ActivityPage };
  timeline: {
    args: { sessionId: string | null; fromMs: number; toMs: number; steps: number };
    answer: Timeline;
  };
  network_policy: { args: { id: string }; answer: NetworkPolicy };
  add_rule: { args: { rule: NewRule }; answer: RuleInfo };
  remove_rule: { args: { id: number }; answer: null };
  session_grants: { args: { id: string }; answer: SessionGrant[] };
  exec_policy: { args: { id: string }; answer: ExecPolicy };
  add_grant: { args: { grant: NewGrant }; answer: GrantInfo };
  revoke_grant: { args: { id: number }; answer: null };
  answer_prompt: { args: { id: string; answer: Answer; scope: AnswerScope }; answer: RuleInfo | null };
  hold_prompt: { args: { id: string }; answer: null };
  release_prompt: { args: { id: string }; answer: null };
  test_destination: { args: { id: string; text: string }; answer: Explanation };
  cut_connection: { args: { id: string; connection: number }; answer: null };
  export_activity: { args: { query: ActivityQuery; format: ExportFormat }; answer: string | null };
  mark_seen: { args: { id: string }; answer: null };
  notify: { args: { title: string; body: string }; answer: null };
  quit: { args: undefined; answer: null };
  keep_open: { args: undefined; answer: null };
}

async function answered<T>(pending: Promise<T>): Promise<T> {
  try {
    return await pending;
  } catch (thrown) {
    throw new BackendError(isProblem(thrown) ? thrown : problemOf(thrown));
  }
}

function call<C extends keyof Commands>(
  command: C,
  ...args: Commands[C]["args"] extends undefined ? [] : [Commands[C]["args"]]
): Promise<Commands[C]["answer"]> {
  return answered(invoke<Commands[C]["answer"]>(command, args[0]));
}

/**
 * Keystrokes travel as a raw body: no JSON number array. The session's id is in a header; ids are
 * of `[A-Za-z0-9-]`.
 */
async function writeInput(id: string, bytes: Uint8Array): Promise<void> {
  await answered(invoke<null>("write_input", bytes, { headers: { "kotak-session": id } }));
}

/** The engine keeps one subscription per window: a later one takes the place of this. */
async function subscribe(onEvents: (events: UiEvent[]) => void): Promise<() => void> {
  const channel = new Channel<UiEvent[]>();
  channel.onmessage = onEvents;
  await call("subscribe", { channel });
  return () => {
    channel.onmessage = () => undefined;
  };
}

/** The engine behind the window. */
export const tauriBackend: Backend = {
  snapshot: () => call("snapshot"),
  subscribe,
  probeAgain: () => call("probe_again"),
  preview: (request) => call("preview", { request }),
  launch: (request) => call("launch", { request }),
  restart: (id) => call("restart", { id }),
  writeInput,
  readOutput: async (id, from) => decodeOutput(await call("read_output", { id, from })),
  resize: async (id, cols, rows) => void (await call("resize", { id, cols, rows })),
  suspend: (id) => call("suspend", { id }),
  resume: (id) => call("resume", { id }),
  processes: (id) => call("processes", { id }),
  close: async (id) => void (await call("close", { id })),
  dismiss: async (id) => void (await call("dismiss", { id })),
  folderInfo: (path) => call("folder_info", { path }),
  pickFolder: () => call("pick_folder"),
  saveLayout: async (json) => void (await call("save_layout", { layout: json })),
  setSettings: (settings) => call("set_settings", { settings }),
  openLink: async (url) => void (await call("open_link", { url })),
  readClipboard: () => call("read_clipboard"),
  writeClipboard: async (text) => void (await call("write_clipboard", { text })),
  reportText: () => call("report_text"),
  activity: (query) => call("activity", { query }),
  timeline: ({ sessionId, fromMs, toMs, steps }) => call("timeline", { sessionId, fromMs, toMs, steps }),
  networkPolicy: (id) => call("network_policy", { id }),
  addRule: (rule) => call("add_rule", { rule }),
  removeRule: async (id) => void (await call("remove_rule", { id })),
  sessionGrants: (id) => call("session_grants", { id }),
  execPolicy: (id) => call("exec_policy", { id }),
  addGrant: (grant) => call("add_grant", { grant }),
  revokeGrant: async (id) => void (await call("revoke_grant", { id })),
  answerPrompt: (id, answer, scope) => call("answer_prompt", { id, answer, scope }),
  holdPrompt: async (id) => void (await call("hold_prompt", { id })),
  releasePrompt: async (id) => void (await call("release_prompt", { id })),
  testDestination: (id, text) => call("test_destination", { id, text }),
  cutConnection: async (id, connection) => void (await call("cut_connection", { id, connection })),
  exportActivity: (query, format) => call("export_activity", { query, format }),
  markSeen: async (id) => void (await call("mark_seen", { id })),
  notify: async (title, body) => void (await call("notify", { title, body })),
  quit: async () => void (await call("quit")),
  keepOpen: async () => void (await call("keep_open")),
};

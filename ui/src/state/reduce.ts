import type {
  FoldedPrompts,
  Gap,
  GrantInfo,
  HostReport,
  LaunchRequest,
  Preset,
  Problem,
  Prompt,
  RuleInfo,
  RunningProcess,
  SessionInfo,
  SessionPhase,
  Settings,
  Snapshot,
  UiEvent,
} from "../backend/generated";
import { emptyFeed, withTold, type Feed } from "./feed";

/** What the engine told, as the window draws it. */
export interface EngineState {
  host: HostReport;
  sessions: SessionInfo[];
  settings: Settings;
  presets: Preset[];
  recentFolders: string[];
  lastChoices: LaunchRequest[];
  home: string;
  version: string;
  notices: Problem[];
  /** Questions in the order of their first attempt. */
  prompts: Prompt[];
  /** Questions beyond those, one entry a session. */
  folded: FoldedPrompts[];
  /** The operator's rules, oldest first. */
  rules: RuleInfo[];
  /** Ports and sockets that are let through sandboxes' walls, oldest first. */
  grants: GrantInfo[];
  /** What was told of refusals and connections since the window began. */
  feed: Feed;
}

const MAX_NOTICES = 20;
const MAX_RECENT = 20;

/** The state that a snapshot stands for; its layout is the window's own affair. */
export function fromSnapshot(snapshot: Snapshot): EngineState {
  const { host, sessions, settings, presets, recentFolders, lastChoices, home, version, notices } = snapshot;
  const { prompts, folded, rules, grants } = snapshot;
  return {
    host,
    sessions,
    settings,
    presets,
    recentFolders,
    lastChoices,
    home,
    version,
    notices,
    prompts: prompts.reduce(withPrompt, []),
    folded,
    rules,
    grants,
    feed: emptyFeed,
  };
}

/** The state after one event. */
export function reduce(state: EngineState, event: UiEvent): EngineState {
  switch (event.type) {
    case "session":
      return { ...state, sessions: withSession(state.sessions, event.session) };
    case "sessionGone":
      return {
        ...state,
        sessions: state.sessions.filter((session) => session.id !== event.id),
        prompts: state.prompts.filter((prompt) => prompt.sessionId !== event.id),
        folded: state.folded.filter((folded) => folded.sessionId !== event.id),
      };
    case "host":
      return { ...state, host: event.host };
    case "settings":
      return { ...state, settings: event.settings };
    case "notice":
      return { ...state, notices: withNotice(state.notices, event.notice) };
    case "activity":
      return { ...state, feed: withTold(state.feed, event.rows, event.skipped) };
    case "prompt":
      return { ...state, prompts: withPrompt(state.prompts, event.prompt) };
    case "promptGone":
      return { ...state, prompts: state.prompts.filter((prompt) => prompt.id !== event.id) };
    case "promptsFolded":
      return { ...state, folded: withFolded(state.folded, event.folded) };
    case "rules":
      return { ...state, rules: event.rules };
    case "grants":
      return { ...state, grants: event.grants };
    case "activated":
    case "closeRequested":
      return state;
    default:
      return unknownEvent(event, state);
  }
}

/** An event of a newer engine changes nothing here. */
function unknownEvent(_event: never, state: EngineState): EngineState {
  return state;
}

function withSession(sessions: SessionInfo[], session: SessionInfo): SessionInfo[] {
  const at = sessions.findIndex((each) => each.id === session.id);
  return at < 0 ? [...sessions, session] : sessions.with(at, session);
}

/** A question keeps its place while it changes; a new one stands where its first attempt puts it. */
function withPrompt(prompts: Prompt[], prompt: Prompt): Prompt[] {
  const at = prompts.findIndex((each) => each.id === prompt.id);
  if (at >= 0) return prompts.with(at, prompt);
  const later = prompts.findIndex((each) => each.firstMs > prompt.firstMs);
  return later < 0 ? [...prompts, prompt] : prompts.toSpliced(later, 0, prompt);
}

/** An entry without hosts ends it. */
function withFolded(all: FoldedPrompts[], folded: FoldedPrompts): FoldedPrompts[] {
  const rest = all.filter((each) => each.sessionId !== folded.sessionId);
  return folded.hosts === 0 ? rest : [...rest, folded];
}

/** What waits for an answer: of one session, or of all. */
export function waitingPrompts(prompts: readonly Prompt[], session?: string): Prompt[] {
  return prompts.filter(
    (prompt) => prompt.state === "waiting" && (session === undefined || prompt.sessionId === session),
  );
}

/** What waits and did not stand there before. */
export function newPrompts(before: readonly Prompt[], after: readonly Prompt[]): Prompt[] {
  const known = new Set(before.map((prompt) => prompt.id));
  return waitingPrompts(after).filter((prompt) => !known.has(prompt.id));
}

/** How many hosts of a session wait for an answer, shown one by one or folded. */
export function pendingHosts(state: Pick<EngineState, "prompts" | "folded">, session?: string): number {
  const folded = state.folded.filter((each) => session === undefined || each.sessionId === session);
  return folded.reduce((sum, each) => sum + each.hosts, waitingPrompts(state.prompts, session).length);
}

/** A notice that is already on view is not shown twice. */
export function withNotice(notices: Problem[], notice: Problem): Problem[] {
  const same = (each: Problem) => each.code === notice.code && each.message === notice.message;
  return [...notices.filter((each) => !same(each)), notice].slice(-MAX_NOTICES);
}

/** Remembers a launch for the next new-session sheet, as the engine does for the next start. */
export function withLaunch(state: EngineState, request: LaunchRequest): EngineState {
  const recentFolders = [request.cwd, ...state.recentFolders.filter((folder) => folder !== request.cwd)];
  const lastChoices = [request, ...state.lastChoices.filter((choice) => choice.cwd !== request.cwd)];
  return {
    ...state,
    recentFolders: recentFolders.slice(0, MAX_RECENT),
    lastChoices: lastChoices.slice(0, MAX_RECENT),
  };
}

/** Whether a session's program may still run. */
export function isLive(phase: SessionPhase): boolean {
  switch (phase) {
    case "starting":
    case "ready":
    case "running":
    case "suspended":
      return true;
    case "ended":
    case "error":
      return false;
  }
}

/** Whether all that runs is one shell that waits for a command: nothing is lost with it. */
export function isIdleShell(running: readonly RunningProcess[]): boolean {
  const [only] = running;
  return (
    running.length === 1 &&
    /^-?(?:\S*\/)?(?:ba|z|fi|da|k|tc|c)?sh(?: -[il]+)*$/.test(only?.command.trim() ?? "")
  );
}

/** Every named gap of a session's enforcement, in order. */
export function gapsOf(session: SessionInfo): Gap[] {
  return session.handle.enforcement?.aspects.flatMap((row) => row.gaps) ?? [];
}

export interface Workspace {
  path: string;
  name: string;
  sessions: SessionInfo[];
}

/** Sessions grouped by workspace, groups and members in the order of their first start. */
export function workspaces(sessions: readonly SessionInfo[], home: string): Workspace[] {
  const groups = new Map<string, SessionInfo[]>();
  for (const session of sessions) {
    const group = groups.get(session.workspace);
    if (group) group.push(session);
    else groups.set(session.workspace, [session]);
  }
  return [...groups].map(([path, members]) => ({ path, name: folderName(path, home), sessions: members }));
}

/** The last part of a path, `~` for the home directory. */
export function folderName(path: string, home: string): string {
  if (path === home) return "~";
  const parts = path.split("/").filter((part) => part !== "");
  return parts.at(-1) ?? "/";
}

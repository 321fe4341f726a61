import type {
  Gap,
  HostReport,
  LaunchRequest,
  Preset,
  Problem,
  RunningProcess,
  SessionInfo,
  SessionPhase,
  Settings,
  Snapshot,
  UiEvent,
} from "../backend/generated";

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
}

const MAX_NOTICES = 20;
const MAX_RECENT = 20;

/** The state that a snapshot stands for; its layout is the window's own affair. */
export function fromSnapshot(snapshot: Snapshot): EngineState {
  const { host, sessions, settings, presets, recentFolders, lastChoices, home, version, notices } = snapshot;
  return { host, sessions, settings, presets, recentFolders, lastChoices, home, version, notices };
}

/** The state after one event. */
export function reduce(state: EngineState, event: UiEvent): EngineState {
  switch (event.type) {
    case "session":
      return { ...state, sessions: withSession(state.sessions, event.session) };
    case "sessionGone":
      return { ...state, sessions: state.sessions.filter((session) => session.id !== event.id) };
    case "host":
      return { ...state, host: event.host };
    case "settings":
      return { ...state, settings: event.settings };
    case "notice":
      return { ...state, notices: withNotice(state.notices, event.notice) };
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

import { describe, expect, it } from "vitest";
import type {
  HostReport,
  LaunchRequest,
  Problem,
  Prompt,
  RuleInfo,
  SessionInfo,
  Settings,
  UiEvent,
} from "../backend/generated";
import { emptyFeed } from "./feed";
import {
  folderName,
  fromSnapshot,
  gapsOf,
  isIdleShell,
  isLive,
  newPrompts,
  pendingHosts,
  reduce,
  withLaunch,
  workspaces,
  type EngineState,
} from "./reduce";

const settings: Settings = {
  theme: "system",
  fontSize: 13,
  fontFamily: "",
  scrollbackLines: 10_000,
  warnMultilinePaste: true,
  confirmClose: true,
  promptSeconds: 60,
  notifyPrompts: true,
  webgl: false,
  screenReader: false,
};
const host = { verdict: { state: "on", line: "agent sandbox ON" } } as HostReport;
const empty: EngineState = {
  host,
  sessions: [],
  settings,
  presets: [],
  recentFolders: [],
  lastChoices: [],
  home: "/home/ada",
  version: "0.1.0",
  notices: [],
  prompts: [],
  folded: [],
  rules: [],
  grants: [],
  feed: emptyFeed,
};

function session(id: string, more: Partial<SessionInfo> = {}): SessionInfo {
  const gap = { code: "missing-protected-path", text: "no ~/.zshrc yet" };
  return {
    id,
    title: "sh",
    workspace: "/home/ada/shop",
    cwd: "/home/ada/shop",
    handle: {
      sessionId: id,
      backend: "native",
      state: "active",
      error: null,
      enforcement: { aspects: [{ aspect: "protectedWrites", level: "partial", detail: "", gaps: [gap] }] },
      details: {},
    },
    network: "open",
    phase: "running",
    exitCode: null,
    request: {
      program: { kind: "shell" },
      cwd: "/home/ada/shop",
      backend: "native",
      network: null,
      extraDomains: [],
      portForwards: [],
      socketGrants: [],
      mode: "chat",
      protectedPaths: [],
      execRestriction: "off",
      cols: 80,
      rows: 24,
    },
    summary: [],
    startedAtMs: 1,
    endedAtMs: null,
    unreadRefusals: 0,
    counts: { allowed: 0, refused: 0, waiting: 0 },
    ...more,
  };
}

const problem = (message: string): Problem => ({ code: "X", message, causes: [], fix: null });
const after = (...events: UiEvent[]) => events.reduce(reduce, empty);

describe("reduce", () => {
  it("adds a new session at the end and changes a known one in its place", () => {
    const state = after(
      { type: "session", session: session("a") },
      { type: "session", session: session("b") },
      { type: "session", session: session("a", { phase: "ended", exitCode: 3 }) },
    );
    expect(state.sessions).toEqual([session("a", { phase: "ended", exitCode: 3 }), session("b")]);
  });

  it("drops a dismissed session, and only that", () => {
    const state = after(
      { type: "session", session: session("a") },
      { type: "session", session: session("b") },
      { type: "sessionGone", id: "a" },
      { type: "sessionGone", id: "z" },
    );
    expect(state.sessions).toEqual([session("b")]);
  });

  it("takes a new host report and new settings", () => {
    const other = {
      ...host,
      verdict: { state: "disabled", line: "agent sandbox DISABLED by --sandbox off" },
    } as const;
    const state = after(
      { type: "host", host: other },
      { type: "settings", settings: { ...settings, fontSize: 20 } },
    );
    expect(state).toEqual({ ...empty, host: other, settings: { ...settings, fontSize: 20 } });
  });

  it("shows a notice once, however often it comes, and keeps a bounded number", () => {
    const twice = after({ type: "notice", notice: problem("a") }, { type: "notice", notice: problem("a") });
    expect(twice.notices).toEqual([problem("a")]);
    const many = Array.from({ length: 50 }, (_, n): UiEvent => ({ type: "notice", notice: problem(`${n}`) }));
    const state = after(...many);
    expect(state.notices).toHaveLength(20);
    expect(state.notices.at(-1)).toEqual(problem("49"));
  });

  it("changes nothing for the window's own events or an unknown one", () => {
    expect(after({ type: "activated", cwd: null }, { type: "closeRequested" })).toBe(empty);
    expect(after({ type: "later" } as unknown as UiEvent)).toBe(empty);
  });

  it("does not change the state that it was given", () => {
    const state = after({ type: "session", session: session("a") });
    const copy = structuredClone(state);
    reduce(state, { type: "session", session: session("a", { phase: "ended" }) });
    expect(state).toEqual(copy);
  });
});

describe("questions", () => {
  const prompt = (id: string, part: Partial<Prompt> = {}): Prompt =>
    ({ id, sessionId: "a", firstMs: 10, attempts: 1, state: "waiting", ...part }) as Prompt;
  const ids = (state: EngineState) => state.prompts.map(({ id }) => id);

  it("keep their place while they change, and stand by their first attempt", () => {
    const state = after(
      { type: "prompt", prompt: prompt("b", { firstMs: 20 }) },
      { type: "prompt", prompt: prompt("c", { firstMs: 30 }) },
      { type: "prompt", prompt: prompt("a", { firstMs: 10 }) },
      { type: "prompt", prompt: prompt("b", { firstMs: 20, attempts: 300 }) },
    );
    expect(ids(state)).toEqual(["a", "b", "c"]);
    expect(state.prompts[1]?.attempts).toBe(300);
  });

  it("go when they are answered, and with their session", () => {
    const state = after(
      { type: "prompt", prompt: prompt("a") },
      { type: "prompt", prompt: prompt("b", { sessionId: "other" }) },
      { type: "promptsFolded", folded: { sessionId: "a", hosts: 3, deniedUnasked: 0 } },
    );
    expect(ids(reduce(state, { type: "promptGone", id: "b" }))).toEqual(["a"]);
    const gone = reduce(state, { type: "sessionGone", id: "a" });
    expect([ids(gone), gone.folded]).toEqual([["b"], []]);
  });

  it("beyond those on show are one number a session, which none ends", () => {
    const folded = (hosts: number) => ({ sessionId: "a", hosts, deniedUnasked: 7 });
    const state = after(
      { type: "prompt", prompt: prompt("a") },
      { type: "prompt", prompt: prompt("m", { state: "missed" }) },
      { type: "promptsFolded", folded: folded(3) },
      { type: "promptsFolded", folded: folded(5) },
    );
    expect(state.folded).toEqual([folded(5)]);
    expect([pendingHosts(state), pendingHosts(state, "a"), pendingHosts(state, "b")]).toEqual([6, 6, 0]);
    expect(reduce(state, { type: "promptsFolded", folded: folded(0) }).folded).toEqual([]);
  });

  it("of a snapshot stand in the same order", () => {
    const snapshot = {
      prompts: [prompt("b", { firstMs: 2 }), prompt("a", { firstMs: 1 })],
      folded: [],
      rules: [],
      grants: [],
    };
    expect(ids(fromSnapshot({ ...empty, layout: null, ...snapshot }))).toEqual(["a", "b"]);
  });

  it("are new once", () => {
    const [a, b] = [prompt("a"), prompt("b")];
    expect(newPrompts([a], [{ ...a, attempts: 2 }, b]).map(({ id }) => id)).toEqual(["b"]);
    expect(newPrompts([], [prompt("m", { state: "missed" })])).toEqual([]);
  });
});

describe("rules and rows", () => {
  it("rules come whole", () => {
    const rule = { id: 4 } as RuleInfo;
    expect(after({ type: "rules", rules: [rule] }, { type: "rules", rules: [] }).rules).toEqual([]);
    expect(after({ type: "rules", rules: [rule] }).rules).toEqual([rule]);
  });

  it("rows that were only counted are counted", () => {
    const state = after(
      { type: "activity", rows: [], skipped: 3 },
      { type: "activity", rows: [], skipped: 4 },
    );
    expect(state.feed.skipped).toBe(7);
  });
});

describe("a launch", () => {
  it("is remembered once per folder, newest first", () => {
    const request = (cwd: string, cols: number): LaunchRequest => ({ ...session("a").request, cwd, cols });
    let state = withLaunch(empty, request("/a", 1));
    state = withLaunch(state, request("/b", 2));
    state = withLaunch(state, request("/a", 3));
    expect(state.recentFolders).toEqual(["/a", "/b"]);
    expect(state.lastChoices).toEqual([request("/a", 3), request("/b", 2)]);
  });
});

describe("sessions", () => {
  it("are grouped by workspace in the order of their start", () => {
    const all = [session("a"), session("b", { workspace: "/home/ada" }), session("c")];
    expect(
      workspaces(all, "/home/ada").map(({ name, sessions }) => [name, sessions.map(({ id }) => id)]),
    ).toEqual([
      ["shop", ["a", "c"]],
      ["~", ["b"]],
    ]);
  });

  it("have the gaps of all their aspects", () => {
    expect(gapsOf(session("a"))).toEqual([{ code: "missing-protected-path", text: "no ~/.zshrc yet" }]);
    const bare = session("a");
    expect(gapsOf({ ...bare, handle: { ...bare.handle, enforcement: null } })).toEqual([]);
  });

  it("live until they end or fail", () => {
    const phases = ["starting", "ready", "running", "suspended", "ended", "error"] as const;
    expect(phases.filter(isLive)).toEqual(["starting", "ready", "running", "suspended"]);
  });
});

describe("a shell alone", () => {
  const process = (command: string) => ({ pid: 2, command, foreground: true });
  it.each(["bash", "-bash", "/bin/bash", "/usr/bin/zsh -i", "sh -l", "fish", "-sh -il"])(
    "%s is idle",
    (command) => {
      expect(isIdleShell([process(command)])).toBe(true);
    },
  );

  it.each(["vim", "bash script.sh", "bash -c make", "sh -c 'sleep 9'", "git push", "/bin/push"])(
    "%s is not",
    (command) => {
      expect(isIdleShell([process(command)])).toBe(false);
    },
  );

  it("is not alone with a second process, nor there without one", () => {
    expect(isIdleShell([process("bash"), process("sleep 9")])).toBe(false);
    expect(isIdleShell([])).toBe(false);
  });
});

describe("a folder's name", () => {
  it.each([
    ["/home/ada", "~"],
    ["/home/ada/shop", "shop"],
    ["/home/ada/shop/", "shop"],
    ["/", "/"],
  ])("of %s is %s", (path, name) => {
    expect(folderName(path, "/home/ada")).toBe(name);
  });
});

import { getContext, setContext, tick } from "svelte";
import type {
  FoldedPrompts,
  GrantInfo,
  HostReport,
  LaunchRequest,
  Preset,
  Problem,
  Prompt,
  RuleInfo,
  RunningProcess,
  SessionInfo,
  Settings,
  Snapshot,
} from "../backend/generated";
import { problemOf, type Backend } from "../backend/interface";
import type { CommandId } from "../shortcuts";
import { answerAllNo, confirmClose, confirmQuit } from "../shared/dialogs";
import { shortPath } from "../shared/visible";
import { runCommand } from "./commands";
import type { Feed } from "./feed";
import {
  activeSession,
  emptyLayout,
  focusSession,
  openTab,
  parseLayout,
  reconcile,
  removeSession,
  replaceSession,
  serialiseLayout,
  sessionsOf,
  splitPane,
  type Layout,
} from "./layout";
import { Network } from "./network.svelte";
import {
  fromSnapshot,
  isIdleShell,
  isLive,
  reduce,
  withLaunch,
  withNotice,
  type EngineState,
} from "./reduce";

/** Where a new pane goes, seen from the pane in focus. */
export type SplitSide = "right" | "down";

export type Dialog =
  | { kind: "new-session"; cwd?: string; split?: SplitSide }
  | { kind: "host-report" }
  | { kind: "settings" }
  | { kind: "rules" }
  | { kind: "palette" };

export type InspectorTab = "activity" | "network" | "policy" | "about";

/** What the terminals offer to commands; set by the terminal feature, absent where none is drawn. */
export interface TerminalActions {
  focus(session: string): void;
  copy(session: string): void;
  paste(session: string): void;
  clear(session: string): void;
  find(session: string): void;
  forget(session: string): void;
  /** A size for the next launch, from the pane that it will take the place of. */
  size(session: string | null): { cols: number; rows: number };
}

const SAVE_LAYOUT_AFTER_MS = 400;

/** The window: what the engine told, the layout, and what the person may do. Holds no other truth. */
export class App {
  readonly backend: Backend;
  #engine: EngineState = $state.raw() as EngineState;
  // One by one, so that a row of the feed does not draw anew what reads the settings.
  readonly host: HostReport = $derived(this.#engine.host);
  readonly sessions: SessionInfo[] = $derived(this.#engine.sessions);
  readonly settings: Settings = $derived(this.#engine.settings);
  readonly presets: Preset[] = $derived(this.#engine.presets);
  readonly recentFolders: string[] = $derived(this.#engine.recentFolders);
  readonly lastChoices: LaunchRequest[] = $derived(this.#engine.lastChoices);
  readonly home: string = $derived(this.#engine.home);
  readonly version: string = $derived(this.#engine.version);
  readonly notices: Problem[] = $derived(this.#engine.notices);
  readonly prompts: Prompt[] = $derived(this.#engine.prompts);
  readonly folded: FoldedPrompts[] = $derived(this.#engine.folded);
  readonly rules: RuleInfo[] = $derived(this.#engine.rules);
  readonly grants: GrantInfo[] = $derived(this.#engine.grants);
  readonly feed: Feed = $derived(this.#engine.feed);
  layout: Layout = $state.raw(emptyLayout);
  dialog: Dialog | null = $state.raw(null);
  inspector = $state(true);
  inspectorTab: InspectorTab = $state("activity");
  /** What the activity feed is filtered by, as typed. */
  activityFilter = $state("");
  /** Questions, rules, and what is remembered of answers. */
  readonly network: Network;
  probing = $state(false);
  /** Read out by screen readers. */
  announcement = $state("");
  terminals: TerminalActions | null = null;
  #unsubscribe: () => void = () => undefined;
  /** Sessions whose pane waits for the one that takes their place. */
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- nothing is drawn by it
  readonly #restarting = new Set<string>();
  /** Runs that an earlier window has already shown and answered. */
  readonly #foundRuns: readonly string[];
  #saveTimer: ReturnType<typeof setTimeout> | undefined;
  #saved = "";

  constructor(backend: Backend, snapshot: Snapshot) {
    this.backend = backend;
    this.#engine = fromSnapshot(snapshot);
    this.#foundRuns = snapshot.sessions.map(runOf);
    this.#saved = snapshot.layout ?? "";
    this.network = new Network(this);
    const saved = parseLayout(snapshot.layout) ?? emptyLayout;
    this.layout = this.#fitted(saved);
  }

  /** Subscribes first and asks for the snapshot after, so that no change falls between the two. */
  static async start(backend: Backend): Promise<App> {
    let app: App | null = null;
    const early: Parameters<App["apply"]>[0] = [];
    const unsubscribe = await backend.subscribe((events) => {
      if (app) app.apply(events);
      else early.push(...events);
    });
    const snapshot = await backend.snapshot();
    app = new App(backend, snapshot);
    app.#unsubscribe = unsubscribe;
    app.apply(early);
    return app;
  }

  stop(): void {
    this.#unsubscribe();
    answerAllNo();
    this.#saveNow();
  }

  session(id: string): SessionInfo | undefined {
    return this.sessions.find((session) => session.id === id);
  }

  /** Whether this run began under this window, so that nothing of it was shown before. */
  startedHere(session: SessionInfo): boolean {
    return !this.#foundRuns.includes(runOf(session));
  }

  /** The session of the pane that has the focus. */
  get current(): SessionInfo | undefined {
    const id = activeSession(this.layout);
    return id === null ? undefined : this.session(id);
  }

  apply(events: Parameters<typeof reduce>[1][]): void {
    if (events.length === 0) return;
    const before = this.#engine;
    let state = before;
    for (const event of events) {
      state = reduce(state, event);
      if (event.type === "activated" && !this.dialog) {
        this.show({ kind: "new-session", ...(event.cwd === null ? {} : { cwd: event.cwd }) });
      }
      if (event.type === "closeRequested") void this.#mayQuit();
    }
    this.#engine = state;
    this.#announceEnds(before.sessions, state.sessions);
    if (before.prompts !== state.prompts) this.network.changed(before.prompts, state.prompts);
    const present = (id: string) => state.sessions.some((session) => session.id === id);
    for (const { id } of before.sessions) if (!present(id) && !this.#restarting.has(id)) this.#forget(id);
  }

  show(dialog: Dialog): void {
    this.dialog = dialog;
  }

  hide(): void {
    this.dialog = null;
    // While the dialog is still drawn, nothing else can take the focus.
    void tick().then(() => this.focusTerminal());
  }

  focusTerminal(): void {
    const id = activeSession(this.layout);
    if (id !== null && !this.dialog) this.terminals?.focus(id);
  }

  announce(text: string): void {
    this.announcement = text;
  }

  tell(problem: Problem): void {
    this.#engine = { ...this.#engine, notices: withNotice(this.#engine.notices, problem) };
  }

  dropNotice(notice: Problem): void {
    this.#engine = { ...this.#engine, notices: this.notices.filter((each) => each !== notice) };
  }

  /** Opens the inspector at one of its views. */
  inspect(tab: InspectorTab): void {
    this.inspector = true;
    this.inspectorTab = tab;
  }

  /** Shows the activity feed, filtered. */
  showActivity(filter: string): void {
    this.activityFilter = filter;
    this.inspect("activity");
  }

  /** Runs what may fail, and tells when it does. */
  async attempt<T>(what: Promise<T>): Promise<T | undefined> {
    try {
      return await what;
    } catch (thrown) {
      this.tell(problemOf(thrown));
      return undefined;
    }
  }

  /** Terminal size to put into a launch request. */
  terminalSize(): { cols: number; rows: number } {
    return this.terminals?.size(activeSession(this.layout)) ?? { cols: 80, rows: 24 };
  }

  /** Launches, and shows the session in a new tab or beside the pane in focus. Rejects when refused. */
  async launch(request: LaunchRequest, split?: SplitSide): Promise<SessionInfo> {
    const beside = activeSession(this.layout);
    const session = await this.backend.launch(request);
    this.apply([{ type: "session", session }]);
    this.#engine = withLaunch(this.#engine, request);
    const layout = this.layout;
    this.setLayout(
      split && beside !== null
        ? splitPane(layout, beside, session.id, split === "right" ? "row" : "column")
        : openTab(layout, session.id),
    );
    return session;
  }

  /** Starts a session again as it was launched; asks first when a program of it runs. */
  async restart(id: string): Promise<void> {
    const old = this.session(id);
    if (old && isLive(old.phase) && !(await this.#mayEnd([old], "Restart"))) return;
    this.#restarting.add(id);
    const session = await this.attempt(this.backend.restart(id));
    this.#restarting.delete(id);
    if (session) {
      this.apply([{ type: "session", session }]);
      this.setLayout(replaceSession(this.layout, id, session.id));
    }
    // A restart under a new id, or one that failed half-way, leaves the old session behind.
    if (session ? session.id !== id : !this.session(id)) this.#forget(id);
    void tick().then(() => this.focusTerminal());
  }

  async suspend(id: string): Promise<void> {
    const session = await this.attempt(this.backend.suspend(id));
    if (session) this.apply([{ type: "session", session }]);
  }

  async resume(id: string): Promise<void> {
    const session = await this.attempt(this.backend.resume(id));
    if (session) this.apply([{ type: "session", session }]);
    this.focusTerminal();
  }

  /** Shows a session: its pane, or a new tab. */
  reveal(id: string): void {
    this.setLayout(openTab(this.layout, id));
    this.focusTerminal();
  }

  /** Closes a pane and ends its session; asks first when a program of it runs. */
  closePane(id: string): Promise<void> {
    return this.#closeAll([id]);
  }

  /** Closes a tab with all its panes, after one question for all of them. */
  closeTab(id: string): Promise<void> {
    const tab = this.layout.tabs.find((each) => each.id === id);
    return this.#closeAll(tab ? sessionsOf(tab.root) : []);
  }

  async #closeAll(ids: readonly string[]): Promise<void> {
    const live = ids.flatMap((id) => this.session(id) ?? []).filter((session) => isLive(session.phase));
    if (!(await this.#mayEnd(live, "Close"))) return;
    await Promise.all(ids.map((id) => this.#end(id)));
    this.focusTerminal();
  }

  async #end(id: string): Promise<void> {
    try {
      const session = this.session(id);
      if (session && isLive(session.phase)) await this.backend.close(id);
      await this.backend.dismiss(id);
    } catch (thrown) {
      const problem = problemOf(thrown);
      // Gone by itself meanwhile is gone.
      if (problem.code !== "NO_SUCH_SESSION") {
        this.tell(problem);
        return;
      }
    }
    this.apply([{ type: "sessionGone", id }]);
    this.#forget(id);
  }

  /** Asks when programs run that would be lost. A shell alone at its prompt is none. */
  async #mayEnd(sessions: readonly SessionInfo[], verb: "Close" | "Restart"): Promise<boolean> {
    const [first] = sessions;
    if (!first || !this.settings.confirmClose) return true;
    const running = await Promise.all(sessions.map((session) => this.#lost(session)));
    const what = sessions.length === 1 ? first.title : `${sessions.length} panes`;
    return confirmClose(running.flat(), { what, verb });
  }

  async #lost(session: SessionInfo): Promise<RunningProcess[]> {
    const running = (await this.attempt(this.backend.processes(session.id))) ?? [];
    return isIdleShell(running) ? [] : running;
  }

  /** The window is asked to close while sessions live. */
  async #mayQuit(): Promise<void> {
    const live = this.sessions.filter((session) => isLive(session.phase));
    const yes = await confirmQuit(
      live.map(({ title, cwd }) => ({ title, where: shortPath(cwd, this.home) })),
    );
    this.#saveNow();
    await this.attempt(yes ? this.backend.quit() : this.backend.keepOpen());
  }

  #forget(id: string): void {
    this.terminals?.forget(id);
    this.setLayout(removeSession(this.layout, id));
  }

  /** Changes settings, and tells when they could not be stored. */
  async changeSettings(change: Partial<Settings>): Promise<void> {
    await this.attempt(this.storeSettings(change));
  }

  /** Changes settings at once; rejects, and takes the change back, when they could not be stored. */
  async storeSettings(change: Partial<Settings>): Promise<void> {
    const before = this.settings;
    const wanted = { ...before, ...change };
    this.#engine = { ...this.#engine, settings: wanted };
    try {
      const settings = await this.backend.setSettings(wanted);
      this.#engine = { ...this.#engine, settings };
    } catch (thrown) {
      this.#engine = { ...this.#engine, settings: before };
      throw thrown;
    }
  }

  async probeAgain(): Promise<void> {
    if (this.probing) return;
    this.probing = true;
    const host = await this.attempt(this.backend.probeAgain());
    this.probing = false;
    if (!host) return;
    this.apply([{ type: "host", host }]);
    this.announce(host.verdict.line);
  }

  setLayout(layout: Layout): void {
    if (layout === this.layout) return;
    this.layout = layout;
    clearTimeout(this.#saveTimer);
    this.#saveTimer = setTimeout(() => this.#saveNow(), SAVE_LAYOUT_AFTER_MS);
  }

  focusPane(id: string): void {
    if (activeSession(this.layout) !== id) this.setLayout(focusSession(this.layout, id));
  }

  #saveNow(): void {
    clearTimeout(this.#saveTimer);
    const json = serialiseLayout(this.layout);
    if (json === this.#saved) return;
    this.#saved = json;
    void this.attempt(this.backend.saveLayout(json));
  }

  #fitted(layout: Layout): Layout {
    const present = this.sessions.map((session) => session.id);
    const live = this.sessions.filter((session) => isLive(session.phase)).map((session) => session.id);
    return reconcile(layout, present, live);
  }

  #announceEnds(before: SessionInfo[], after: SessionInfo[]): void {
    for (const session of after) {
      const old = before.find((each) => each.id === session.id);
      if (!old || old.phase === session.phase) continue;
      if (session.phase === "ended")
        this.announce(`${session.title} exited ${session.exitCode ?? ""}`.trim());
      if (session.phase === "error") {
        this.announce(`${session.title} failed: ${session.handle.error?.message ?? "no reason was given"}`);
      }
    }
  }

  run(command: CommandId): void {
    void runCommand(this, command);
  }
}

/** A restart under the same id is another run. */
function runOf(session: SessionInfo): string {
  return `${session.id} ${session.startedAtMs}`;
}

const KEY = Symbol("app");

export function setApp(app: App): void {
  setContext(KEY, app);
}

export function getApp(): App {
  return getContext<App>(KEY);
}

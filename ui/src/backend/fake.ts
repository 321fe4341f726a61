import { FakeGrants, type FakeGrantsWorld } from "./fake-grants";
import { FakeNetwork, type FakeNetworkWorld } from "./fake-network";
import type {
  ActivityPage,
  ActivityQuery,
  Answer,
  AnswerScope,
  ExecPolicy,
  Explanation,
  ExportFormat,
  FolderInfo,
  Gap,
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
  SandboxBackend,
  SessionGrant,
  SessionInfo,
  Settings,
  Snapshot,
  Timeline,
  UiEvent,
} from "./generated";
import { BackendError, type Backend, type OutputChunk, type TimelineQuery } from "./interface";

/** What a stand-in engine starts from and how it answers. */
export interface FakeWorld {
  snapshot: Snapshot;
  /** What each session has printed already, by session id. */
  output?: Record<string, string>;
  processes?: Record<string, RunningProcess[]>;
  /** Folders other than plain existing ones, by path. */
  folders?: Record<string, Partial<FolderInfo>>;
  /** Gaps that every sandboxed session of this host has. */
  gaps?: Gap[];
  /** Refused by preview and by launch. */
  refusal?: Problem;
  /** Refused by launch only. */
  launchRefusal?: Problem;
  /** The launch goes through, and the session breaks. */
  breakage?: Problem;
  settingsRefusal?: Problem;
  /** What a second probe finds; the same as the first one when absent. */
  secondProbe?: HostReport;
  clipboard?: string;
  /** The answer of the folder dialog. */
  picked?: string | null;
  network?: FakeNetworkWorld;
  grants?: FakeGrantsWorld;
}

export interface Call {
  method: keyof Backend;
  args: unknown[];
}

const PROMPT = "$ ";

interface Stream {
  bytes: Uint8Array;
  ended: boolean;
  wake: (() => void)[];
}

/**
 * A stand-in for the engine, complete and in memory: for tests and for working on the window without
 * an engine. It is no part of the product.
 */
export class FakeBackend implements Backend {
  /** Every call, in order. */
  readonly calls: Call[] = [];
  clipboard: string;
  readonly opened: string[] = [];
  /** While set, probes, previews and launches wait until it is called. */
  held: (() => void)[] | undefined;
  /** Attempts, questions, rules and the history. */
  readonly network: FakeNetwork;
  /** Ports and sockets let through, and approved folders. */
  readonly grants: FakeGrants;

  readonly #state: Snapshot;
  readonly #streams = new Map<string, Stream>();
  readonly #listeners = new Set<(events: UiEvent[]) => void>();
  #nextId = 1;

  constructor(readonly world: FakeWorld) {
    this.#state = structuredClone(world.snapshot);
    this.clipboard = world.clipboard ?? "";
    this.network = new FakeNetwork(world.network ?? {}, {
      state: this.#state,
      tell: (events) => this.tell(events),
    });
    this.grants = new FakeGrants(world.grants ?? {}, {
      state: this.#state,
      tell: (events) => this.tell(events),
    });
    for (const session of this.#state.sessions) {
      const stream = this.#stream(session.id);
      const printed = world.output?.[session.id] ?? (session.phase === "error" ? "" : PROMPT);
      stream.bytes = new TextEncoder().encode(printed);
      stream.ended = session.phase === "ended" || session.phase === "error";
    }
  }

  /** Pauses what takes time in the real engine; {@link release} lets it go on. */
  hold(): void {
    this.held ??= [];
  }

  release(): void {
    const waiting = this.held ?? [];
    this.held = undefined;
    for (const go of waiting) go();
  }

  /** Sends changes, as the engine would on its own. */
  tell(events: UiEvent[]): void {
    for (const event of events) {
      if (event.type === "session") this.#put(event.session);
      else {
        this.network.take(event);
        this.grants.take(event);
      }
    }
    for (const listener of this.#listeners) listener(structuredClone(events));
  }

  /** Prints to a session's terminal. */
  print(id: string, text: string): void {
    const stream = this.#stream(id);
    const more = new TextEncoder().encode(text);
    const bytes = new Uint8Array(stream.bytes.length + more.length);
    bytes.set(stream.bytes);
    bytes.set(more, stream.bytes.length);
    stream.bytes = bytes;
    this.#wake(stream);
  }

  /** Ends a session, as its own exit would. */
  end(id: string, exitCode: number): void {
    const stream = this.#stream(id);
    stream.ended = true;
    this.#wake(stream);
    const session = this.#session(id);
    this.tell([
      {
        type: "session",
        session: {
          ...session,
          phase: "ended",
          exitCode,
          endedAtMs: session.startedAtMs + 60_000,
          handle: { ...session.handle, state: "destroyed" },
        },
      },
    ]);
  }

  snapshot(): Promise<Snapshot> {
    return this.#answer("snapshot", [], () => this.#state);
  }

  subscribe(onEvents: (events: UiEvent[]) => void): Promise<() => void> {
    this.#listeners.add(onEvents);
    this.calls.push({ method: "subscribe", args: [] });
    return Promise.resolve(() => this.#listeners.delete(onEvents));
  }

  probeAgain(): Promise<HostReport> {
    return this.#later("probeAgain", [], () => {
      const host = this.world.secondProbe ?? this.#state.host;
      this.#state.host = { ...host, probedAtMs: this.#state.host.probedAtMs + 60_000 };
      return this.#state.host;
    });
  }

  preview(request: LaunchRequest): Promise<LaunchPreview> {
    return this.#later("preview", [request], () => {
      const folder = this.#folder(request.cwd);
      const problem = this.#refusal(request);
      const backend = this.#backendFor(request);
      return {
        backend,
        sentences: problem === null ? this.#sentences(request, backend) : [],
        gaps: problem === null && backend === "native" ? (this.world.gaps ?? []) : [],
        problem,
        folder,
      };
    });
  }

  launch(request: LaunchRequest): Promise<SessionInfo> {
    return this.#later("launch", [request], () => {
      const refused = this.#refusal(request) ?? this.world.launchRefusal;
      if (refused) throw new BackendError(refused);
      const session = this.#launched(request, `session-${this.#nextId++}`);
      const rest = this.#state.lastChoices.filter((choice) => choice.cwd !== request.cwd);
      this.#state.lastChoices = [request, ...rest];
      this.#state.recentFolders = [
        request.cwd,
        ...this.#state.recentFolders.filter((folder) => folder !== request.cwd),
      ];
      return session;
    });
  }

  restart(id: string): Promise<SessionInfo> {
    return this.#answer("restart", [id], () => {
      const old = this.#session(id);
      this.#streams.delete(id);
      this.grants.restarted(old);
      return this.#launched(old.request, id);
    });
  }

  writeInput(id: string, bytes: Uint8Array): Promise<void> {
    return this.#answer("writeInput", [id, [...bytes]], () => {
      if (this.#session(id).phase !== "running") return;
      const typed = new TextDecoder().decode(bytes);
      this.print(id, typed.replaceAll("\r", `\r\n${PROMPT}`).replaceAll("\u007f", "\b \b"));
    });
  }

  async readOutput(id: string, from: number): Promise<OutputChunk> {
    const stream = this.#stream(id);
    while (stream.bytes.length <= from && !stream.ended) {
      await new Promise<void>((resolve) => stream.wake.push(resolve));
    }
    const offset = Math.min(from, stream.bytes.length);
    return {
      offset,
      head: stream.bytes.length,
      ended: stream.ended,
      truncated: false,
      bytes: stream.bytes.slice(offset),
    };
  }

  resize(id: string, cols: number, rows: number): Promise<void> {
    return this.#answer("resize", [id, cols, rows], () => undefined);
  }

  suspend(id: string): Promise<SessionInfo> {
    return this.#answer("suspend", [id], () => {
      const session = this.#session(id);
      return this.#put({
        ...session,
        phase: "suspended",
        handle: { ...session.handle, state: "suspended" },
      });
    });
  }

  resume(id: string): Promise<SessionInfo> {
    return this.#answer("resume", [id], () => {
      const session = this.#session(id);
      return this.#put({ ...session, phase: "running", handle: { ...session.handle, state: "active" } });
    });
  }

  processes(id: string): Promise<RunningProcess[]> {
    return this.#answer("processes", [id], () => this.world.processes?.[id] ?? []);
  }

  close(id: string): Promise<void> {
    return this.#answer("close", [id], () => this.end(id, 137));
  }

  dismiss(id: string): Promise<void> {
    return this.#answer("dismiss", [id], () => {
      this.#state.sessions = this.#state.sessions.filter((session) => session.id !== id);
    });
  }

  folderInfo(path: string): Promise<FolderInfo> {
    return this.#answer("folderInfo", [path], () => this.#folder(path));
  }

  pickFolder(): Promise<string | null> {
    return this.#answer("pickFolder", [], () => this.world.picked ?? null);
  }

  saveLayout(json: string): Promise<void> {
    return this.#answer("saveLayout", [json], () => {
      this.#state.layout = json;
    });
  }

  setSettings(settings: Settings): Promise<Settings> {
    return this.#answer("setSettings", [settings], () => {
      if (this.world.settingsRefusal) throw new BackendError(this.world.settingsRefusal);
      this.#state.settings = settings;
      return settings;
    });
  }

  openLink(url: string): Promise<void> {
    return this.#answer("openLink", [url], () => {
      this.opened.push(url);
    });
  }

  readClipboard(): Promise<string> {
    return this.#answer("readClipboard", [], () => this.clipboard);
  }

  writeClipboard(text: string): Promise<void> {
    return this.#answer("writeClipboard", [text], () => {
      this.clipboard = text;
    });
  }

  reportText(): Promise<string> {
    return this.#answer("reportText", [], () => {
      const { host } = this.#state;
      const rows = host.rows.map((row) => `${row.label}: ${row.status} ${row.detail}`.trim());
      return [host.verdict.line, ...rows].join("\n");
    });
  }

  activity(query: ActivityQuery): Promise<ActivityPage> {
    return this.#later("activity", [query], () => this.network.activity(query));
  }

  timeline(query: TimelineQuery): Promise<Timeline> {
    return this.#answer("timeline", [query], () => this.network.timeline(query));
  }

  networkPolicy(id: string): Promise<NetworkPolicy> {
    return this.#answer("networkPolicy", [id], () => this.network.policy(id));
  }

  addRule(rule: NewRule): Promise<RuleInfo> {
    return this.#answer("addRule", [rule], () => this.network.addRule(rule));
  }

  removeRule(id: number): Promise<void> {
    return this.#answer("removeRule", [id], () => this.network.removeRule(id));
  }

  sessionGrants(id: string): Promise<SessionGrant[]> {
    return this.#answer("sessionGrants", [id], () => this.grants.ofSession(this.#session(id)));
  }

  execPolicy(id: string): Promise<ExecPolicy> {
    return this.#answer("execPolicy", [id], () => this.grants.execPolicy(this.#session(id)));
  }

  addGrant(grant: NewGrant): Promise<GrantInfo> {
    return this.#answer("addGrant", [grant], () =>
      this.grants.add(grant, grant.sessionId === null ? undefined : this.#session(grant.sessionId)),
    );
  }

  revokeGrant(id: number): Promise<void> {
    return this.#answer("revokeGrant", [id], () => this.grants.revoke(id));
  }

  answerPrompt(id: string, answer: Answer, scope: AnswerScope): Promise<RuleInfo | null> {
    return this.#answer("answerPrompt", [id, answer, scope], () => this.network.answer(id, answer, scope));
  }

  holdPrompt(id: string): Promise<void> {
    return this.#answer("holdPrompt", [id], () => this.network.hold(id));
  }

  releasePrompt(id: string): Promise<void> {
    return this.#answer("releasePrompt", [id], () => this.network.release(id));
  }

  testDestination(id: string, text: string): Promise<Explanation> {
    return this.#answer("testDestination", [id, text], () => this.network.test(id, text));
  }

  cutConnection(id: string, connection: number): Promise<void> {
    return this.#answer("cutConnection", [id, connection], () => this.network.cut(id, connection));
  }

  exportActivity(query: ActivityQuery, format: ExportFormat): Promise<string | null> {
    return this.#answer("exportActivity", [query, format], () => this.network.exportTo);
  }

  markSeen(id: string): Promise<void> {
    return this.#answer("markSeen", [id], () => this.network.seen(id));
  }

  notify(title: string, body: string): Promise<void> {
    return this.#answer("notify", [title, body], () => undefined);
  }

  quit(): Promise<void> {
    return this.#answer("quit", [], () => undefined);
  }

  keepOpen(): Promise<void> {
    return this.#answer("keepOpen", [], () => undefined);
  }

  async #answer<T>(method: keyof Backend, args: unknown[], make: () => T): Promise<T> {
    this.calls.push({ method, args: structuredClone(args) });
    await Promise.resolve();
    return structuredClone(make());
  }

  async #later<T>(method: keyof Backend, args: unknown[], make: () => T): Promise<T> {
    this.calls.push({ method, args: structuredClone(args) });
    const { held } = this;
    if (held) await new Promise<void>((resolve) => held.push(resolve));
    return structuredClone(make());
  }

  #stream(id: string): Stream {
    let stream = this.#streams.get(id);
    if (stream === undefined) {
      stream = { bytes: new Uint8Array(), ended: false, wake: [] };
      this.#streams.set(id, stream);
    }
    return stream;
  }

  #wake(stream: Stream): void {
    for (const wake of stream.wake.splice(0)) wake();
  }

  #session(id: string): SessionInfo {
    const session = this.#state.sessions.find((one) => one.id === id);
    if (session) return session;
    throw new BackendError({
      code: "SESSION_NOT_FOUND",
      message: `there is no session ${id}`,
      causes: [],
      fix: null,
    });
  }

  #put(session: SessionInfo): SessionInfo {
    const at = this.#state.sessions.findIndex((one) => one.id === session.id);
    if (at < 0) this.#state.sessions.push(session);
    else this.#state.sessions[at] = session;
    return session;
  }

  #folder(path: string): FolderInfo {
    return { path, exists: true, repoRoot: null, branch: null, ...this.world.folders?.[path] };
  }

  #backendFor(request: LaunchRequest): SandboxBackend | null {
    if (request.backend !== "auto") return request.backend;
    const best = this.#state.host.backends.find((one) => one.available && one.backend !== "none");
    return best?.backend ?? null;
  }

  #refusal(request: LaunchRequest): Problem | null {
    if (this.world.refusal) return this.world.refusal;
    const domains = this.#domainProblem(request);
    if (domains) return domains;
    const report = this.#state.host.backends.find((one) => one.backend === this.#backendFor(request));
    if (report && !report.available) return report.problem;
    if (!this.#folder(request.cwd).exists) {
      return {
        code: "CWD_MISSING",
        message: `the folder ${request.cwd} does not exist`,
        causes: [],
        fix: { text: "choose a folder that exists", command: null },
      };
    }
    return null;
  }

  #sentences(request: LaunchRequest, backend: SandboxBackend | null): string[] {
    if (backend === "none") return ["**No sandbox.** Everything you can do, it can do."];
    const folder = request.cwd.replace(this.#state.home, "~");
    const writes =
      request.mode === "chat"
        ? `Can write to **${folder}** and **your home**, but not to **23 protected paths**.`
        : "Can write to **nothing of yours**; temporary files are private to the session.";
    const network = this.#networkSentence(request);
    return [writes, "Can not read **~/.ssh**, **~/.aws**, **~/.gnupg** and **15 more**.", network];
  }

  #networkSentence({ network, extraDomains }: LaunchRequest): string {
    const listed = extraDomains.length === 0 ? "12 listed domains" : `${12 + extraDomains.length} domains`;
    switch (network) {
      case "allowlist":
        return `May reach **${listed}**, and nothing else.`;
      case "ask":
        return `May reach **${listed}**, and **asks** for others.`;
      case "off":
        return "Has **no route out**.";
      case "open":
      case null:
        return "Uses **this host’s network**, not observed.";
    }
  }

  /** As the engine judges the entries of the sheet. */
  #domainProblem({ extraDomains }: LaunchRequest): Problem | null {
    const wrong = extraDomains.find((each) => /[*]$|^[*][.][^.]+$|[^a-z0-9.*:-]/i.test(each));
    if (wrong === undefined) return null;
    return {
      code: "HOST_PATTERN_INVALID",
      message: `the extra domain ${wrong} is not a host pattern`,
      causes: ["what follows the * must hold a registrable domain"],
      fix: { text: "write a host, or *.domain", command: null },
    };
  }

  #launched(request: LaunchRequest, id: string): SessionInfo {
    const backend = this.#backendFor(request);
    const error = this.world.breakage ?? null;
    const { program } = request;
    const title =
      program.kind === "shell"
        ? "bash"
        : program.kind === "preset"
          ? program.id
          : (program.line.split(/\s+/)[0] ?? "command");
    const stream = this.#stream(id);
    stream.bytes = new TextEncoder().encode(error ? "" : PROMPT);
    stream.ended = error !== null;
    return this.#put({
      id,
      title,
      workspace: this.#folder(request.cwd).repoRoot ?? request.cwd,
      cwd: request.cwd,
      handle: {
        sessionId: id,
        backend: error ? null : backend,
        state: error ? "error" : "active",
        error,
        enforcement:
          error || backend !== "native"
            ? null
            : {
                aspects: [
                  {
                    aspect: "mounts",
                    level: (this.world.gaps ?? []).length > 0 ? "partial" : "on",
                    detail: "home and folder writable, the system read-only",
                    gaps: this.world.gaps ?? [],
                  },
                ],
              },
        details: {},
      },
      network: request.network ?? "open",
      phase: error ? "error" : "running",
      exitCode: null,
      request,
      summary: error ? [] : this.#sentences(request, backend),
      startedAtMs: this.#state.host.probedAtMs,
      endedAtMs: null,
      unreadRefusals: 0,
      counts: { allowed: 0, refused: 0, waiting: 0 },
    });
  }
}

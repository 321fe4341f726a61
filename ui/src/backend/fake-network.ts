import type {
  ActivityPage,
  ActivityQuery,
  ActivityRow,
  Actor,
  Answer,
  AnswerScope,
  DenyReason,
  Explanation,
  ListEntry,
  NetworkPolicy,
  NewRule,
  Prompt,
  RefusedHost,
  RuleInfo,
  SessionInfo,
  Snapshot,
  Timeline,
  UiEvent,
} from "./generated";
import { kindOf } from "../features/activity/filter";
import { BackendError, type TimelineQuery } from "./interface";
import { BASELINE, DENIED, GITHUB, matches, patternProblem, targetOf, whyOf } from "./fake-lists";

/** What the network half of a stand-in engine starts from. */
export interface FakeNetworkWorld {
  /** The history, in any order. */
  activity?: ActivityRow[];
  /** Rows of the history that were only counted. */
  onlyCounted?: number;
  /** Where an export goes; null cancels it. */
  exportTo?: string | null;
  /** Questions of one session that are shown one by one. */
  maxPrompts?: number;
}

/** An attempt to reach a host, as a program inside would make it. */
export interface FakeAttempt {
  session: string;
  host: string;
  port?: number;
  unicode?: string;
  parent?: string;
  process?: Actor;
}

/** The engine around it. */
interface Owner {
  readonly state: Snapshot;
  tell: (events: UiEvent[]) => void;
}

const LIMIT = 200;
const MAX_LIMIT = 1_000;
const MAX_HOSTS = 20;
const MAX_PROMPTS = 8;

interface Verdict {
  allowed: { source: ListEntry["source"]; pattern: string; rule: number | null; group: string } | null;
  denied: DenyReason | null;
  why: string;
}

/** Decides, asks, remembers and tells, all in memory. */
export class FakeNetwork {
  #rows: ActivityRow[];
  #nextRow: number;
  #nextPrompt = 1;
  #nextRule: number;
  #nextConnection = 1_000;
  /** The attempts of a question, to be settled with it. */
  readonly #attempts = new Map<string, FakeAttempt[]>();
  /** Hosts that wait behind the questions on show, by session. */
  readonly #behind = new Map<string, FakeAttempt[]>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  /** What is left of a countdown that is held. */
  readonly #remaining = new Map<string, number>();
  /** Targets whose next attempt an answer has allowed. */
  readonly #once = new Set<string>();

  constructor(
    private readonly world: FakeNetworkWorld,
    private readonly owner: Owner,
  ) {
    this.#rows = [...(world.activity ?? [])].sort((one, other) => other.id - one.id);
    this.#nextRow = (this.#rows[0]?.id ?? 0) + 1;
    this.#nextRule = Math.max(0, ...owner.state.rules.map((rule) => rule.id)) + 1;
    for (const prompt of owner.state.prompts) if (prompt.state === "waiting") this.#arm(prompt);
  }

  /** A program wants to reach a host: passes, is refused, or waits for an answer. */
  attempt(attempt: FakeAttempt): void {
    const session = this.#session(attempt.session);
    const target = targetOf(attempt);
    const verdict = this.#judge(session, attempt.host, attempt.port ?? 443);
    if (verdict.allowed || this.#once.delete(`${session.id} ${target}`)) {
      this.#settle(attempt, null, verdict);
    } else if (verdict.denied !== null || session.network !== "ask") {
      this.#settle(
        attempt,
        verdict.denied ?? (session.network === "off" ? "networkOff" : "notListed"),
        verdict,
      );
    } else this.#ask(session, attempt);
  }

  /** Tells of rows, and keeps them in the history. */
  record(rows: ActivityRow[], skipped = 0): void {
    this.owner.tell([{ type: "activity", rows, skipped }]);
  }

  /** A row with the next number. */
  row(part: Omit<ActivityRow, "id">): ActivityRow {
    return { ...part, id: this.#nextRow++ };
  }

  /** Keeps what is told. */
  take(event: UiEvent): void {
    const { state } = this.owner;
    switch (event.type) {
      case "activity": {
        const ids = new Set(event.rows.map((row) => row.id));
        const all = [...event.rows, ...this.#rows.filter((row) => !ids.has(row.id))];
        this.#rows = all.sort((one, other) => other.id - one.id);
        this.#nextRow = Math.max(this.#nextRow, (this.#rows[0]?.id ?? 0) + 1);
        break;
      }
      case "prompt":
        state.prompts = [...state.prompts.filter((each) => each.id !== event.prompt.id), event.prompt];
        break;
      case "promptGone":
        state.prompts = state.prompts.filter((each) => each.id !== event.id);
        break;
      case "promptsFolded":
        state.folded = [
          ...state.folded.filter((each) => each.sessionId !== event.folded.sessionId),
          ...(event.folded.hosts > 0 ? [event.folded] : []),
        ];
        break;
      case "rules":
        state.rules = event.rules;
        break;
      default:
    }
  }

  activity(query: ActivityQuery): ActivityPage {
    const limit = Math.min(MAX_LIMIT, query.limit === 0 ? LIMIT : query.limit);
    const found = this.#matching(query);
    return {
      rows: found.slice(0, limit),
      more: found.length > limit,
      onlyCounted: this.world.onlyCounted ?? 0,
      bound: "30 days or 200,000 rows",
    };
  }

  timeline({ sessionId, fromMs, toMs, steps }: TimelineQuery): Timeline {
    const stepMs = Math.max(1, Math.ceil((toMs - fromMs) / steps));
    const allowed = new Array<number>(steps).fill(0);
    const refused = new Array<number>(steps).fill(0);
    const files = new Array<number>(steps).fill(0);
    const hosts = new Map<string, RefusedHost>();
    for (const row of this.#rows) {
      if (sessionId !== null && row.sessionId !== sessionId) continue;
      const at = Math.floor((row.lastMs - fromMs) / stepMs);
      if (at < 0 || at >= steps) continue;
      const into = row.connection === null ? files : row.outcome === "refused" ? refused : allowed;
      into[at] = (into[at] ?? 0) + row.count;
      if (row.connection === null || row.outcome !== "refused") continue;
      const host = hosts.get(row.target) ?? {
        target: row.target,
        unicode: row.unicode,
        count: 0,
        steps: new Array<number>(steps).fill(0),
        why: row.why,
      };
      host.count += row.count;
      host.steps[at] = (host.steps[at] ?? 0) + row.count;
      hosts.set(row.target, host);
    }
    const ranked = [...hosts.values()].sort((one, other) => other.count - one.count).slice(0, MAX_HOSTS);
    return { fromMs, stepMs, allowed, refused, files, hosts: ranked };
  }

  policy(id: string): NetworkPolicy {
    const session = this.#session(id);
    const observed = session.network !== "open";
    const open = this.#rows.filter((row) => row.sessionId === id && row.outcome === "open").length;
    return {
      sessionId: id,
      mode: session.network,
      observed,
      bridge: observed ? "guard" : null,
      allowed: observed && session.network !== "off" ? this.#allowlist(session) : [],
      denied: observed ? this.#denylist(session) : [],
      open,
    };
  }

  addRule(wanted: NewRule): RuleInfo {
    const pattern = wanted.pattern.trim().toLowerCase();
    const problem = patternProblem(pattern);
    if (problem !== null) {
      throw new BackendError({
        code: "HOST_PATTERN_INVALID",
        message: `${wanted.pattern} is not a host pattern: ${problem}`,
        causes: [],
        fix: { text: "write a host, *.domain with a registrable domain, or host:port", command: null },
      });
    }
    const session = wanted.sessionId === null ? undefined : this.#session(wanted.sessionId);
    const workspace = session?.workspace ?? wanted.workspace ?? this.owner.state.home;
    return this.#store(pattern, wanted.allow, session, workspace, "operator");
  }

  removeRule(id: number): void {
    const { rules } = this.owner.state;
    if (!rules.some((rule) => rule.id === id)) {
      throw new BackendError({
        code: "NO_SUCH_RULE",
        message: "the rule is gone already",
        causes: [],
        fix: null,
      });
    }
    this.owner.tell([{ type: "rules", rules: rules.filter((rule) => rule.id !== id) }]);
  }

  answer(id: string, answer: Answer, scope: AnswerScope): RuleInfo | null {
    const prompt = this.#prompt(id);
    const pattern = prompt.words.find((words) => words.scope === scope)?.pattern;
    if (pattern === undefined) throw new Error(`no scope ${scope}`);
    const allow = answer !== "deny" && answer !== "denySession";
    if (answer === "deny" || answer === "allowOnce") {
      if (prompt.state === "missed" && allow) {
        this.#once.add(`${prompt.sessionId} ${targetOf(prompt)}`);
      }
      this.#close(prompt, allow ? null : "answer");
      return null;
    }
    const session = answer === "allowWorkspace" ? undefined : this.#session(prompt.sessionId);
    const rule = this.#store(pattern, allow, session, prompt.workspace, "prompt");
    // The answer holds for everything that waits and that it covers.
    for (const each of [...this.owner.state.prompts]) {
      const same = each.sessionId === prompt.sessionId || answer === "allowWorkspace";
      if (each.id === id || (same && matches(pattern, each.host, each.port))) {
        this.#close(each, allow ? null : "operatorRule");
      }
    }
    return rule;
  }

  hold(id: string): void {
    const prompt = this.#prompt(id);
    if (prompt.deadlineMs === null) return;
    this.#remaining.set(id, Math.max(0, prompt.deadlineMs - Date.now()));
    this.#disarm(id);
    this.owner.tell([{ type: "prompt", prompt: { ...prompt, deadlineMs: null } }]);
  }

  release(id: string): void {
    const prompt = this.#prompt(id);
    const left = this.#remaining.get(id);
    if (left === undefined || prompt.state !== "waiting") return;
    this.#remaining.delete(id);
    const armed = { ...prompt, deadlineMs: Date.now() + left };
    this.owner.tell([{ type: "prompt", prompt: armed }]);
    this.#arm(armed);
  }

  test(id: string, text: string): Explanation {
    const session = this.#session(id);
    const typed = /^(?:https?:\/\/)?(?<host>[\p{L}\p{N}.-]+)(?::(?<port>\d+))?\/?$/u.exec(text.trim());
    const host = typed?.groups?.["host"]?.toLowerCase().replace(/\.$/, "");
    if (host === undefined) {
      throw new BackendError({
        code: "DESTINATION_MALFORMED",
        message: `${text} cannot be read as a host and port`,
        causes: [],
        fix: { text: "write a name or an address, with a port if it is not 443", command: null },
      });
    }
    const port = Number(typed?.groups?.["port"] ?? 443);
    const ascii = new URL(`http://${host}`).hostname;
    const verdict = this.#judge(session, ascii, port);
    const target = `${ascii}:${port}`;
    const base = { target, unicode: ascii === host ? null : `${host}:${port}`, why: verdict.why };
    if (verdict.allowed) return { ...base, verdict: "allow", wayOut: null };
    if (verdict.denied !== null) {
      const wayOut = verdict.denied === "operatorRule" ? "remove your rule" : null;
      return { ...base, verdict: "deny", wayOut };
    }
    return {
      ...base,
      verdict: session.network === "ask" ? "ask" : "deny",
      wayOut: session.network === "off" ? null : `a rule for ${target} in this session`,
    };
  }

  cut(id: string, connection: number): void {
    const row = this.#rows.find(
      (each) =>
        each.sessionId === id && each.connection?.connection === connection && each.outcome === "open",
    );
    if (!row?.connection) {
      throw new BackendError({
        code: "NO_SUCH_CONNECTION",
        message: "the connection is over already",
        causes: [],
        fix: null,
      });
    }
    const ended = { ...row.connection, denied: "cut" as const, durationMs: Date.now() - row.atMs };
    this.record([{ ...row, outcome: "refused", why: "you cut the connection", connection: ended }]);
  }

  seen(id: string): void {
    this.owner.tell([{ type: "session", session: { ...this.#session(id), unreadRefusals: 0 } }]);
  }

  get exportTo(): string | null {
    return this.world.exportTo ?? null;
  }

  #ask(session: SessionInfo, attempt: FakeAttempt): void {
    const { prompts } = this.owner.state;
    const port = attempt.port ?? 443;
    const same = prompts.find(
      (each) =>
        each.sessionId === session.id &&
        each.state === "waiting" &&
        each.host === attempt.host &&
        each.port === port,
    );
    if (same) {
      this.#attempts.get(same.id)?.push(attempt);
      this.owner.tell([{ type: "prompt", prompt: { ...same, attempts: same.attempts + 1 } }]);
      return;
    }
    const shown = prompts.filter((each) => each.sessionId === session.id && each.state === "waiting");
    if (shown.length >= (this.world.maxPrompts ?? MAX_PROMPTS)) {
      const behind = [...(this.#behind.get(session.id) ?? []), attempt];
      this.#behind.set(session.id, behind);
      this.#tellFolded(session.id);
      return;
    }
    const id = `prompt-${this.#nextPrompt++}`;
    const countdownMs = this.owner.state.settings.promptSeconds * 1_000;
    const parent = attempt.parent ?? null;
    const prompt: Prompt = {
      id,
      sessionId: session.id,
      sessionTitle: session.title,
      workspace: session.workspace,
      backend: session.handle.backend,
      host: attempt.host,
      unicode: attempt.unicode ?? null,
      port,
      parent,
      process: attempt.process ?? null,
      address: null,
      firstMs: Date.now(),
      attempts: 1,
      history: "noneAllowed",
      state: "waiting",
      deadlineMs: Date.now() + countdownMs,
      countdownMs,
      words: [
        { scope: "hostPort", pattern: `${attempt.host}:${port}` },
        { scope: "host", pattern: attempt.host },
        ...(parent === null ? [] : [{ scope: "parent" as const, pattern: parent }]),
      ],
    };
    this.#attempts.set(id, [attempt]);
    this.owner.tell([{ type: "prompt", prompt }]);
    this.#arm(prompt);
  }

  #tellFolded(sessionId: string): void {
    const hosts = new Set((this.#behind.get(sessionId) ?? []).map(targetOf)).size;
    this.owner.tell([{ type: "promptsFolded", folded: { sessionId, hosts, deniedUnasked: 0 } }]);
  }

  #arm(prompt: Prompt): void {
    if (prompt.deadlineMs === null) return;
    this.#disarm(prompt.id);
    const timer = setTimeout(() => this.#miss(prompt.id), Math.max(0, prompt.deadlineMs - Date.now()));
    this.#timers.set(prompt.id, timer);
  }

  #disarm(id: string): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
  }

  #miss(id: string): void {
    const prompt = this.#prompt(id);
    const attempts = this.#attempts.get(id) ?? [];
    this.#attempts.delete(id);
    this.owner.tell([
      { type: "prompt", prompt: { ...prompt, state: "missed", deadlineMs: null, attempts: 0 } },
    ]);
    for (const attempt of attempts) this.#settle(attempt, "timeout");
    this.#bringUp(prompt.sessionId);
  }

  #close(prompt: Prompt, denied: DenyReason | null): void {
    this.#disarm(prompt.id);
    const attempts = this.#attempts.get(prompt.id) ?? [];
    this.#attempts.delete(prompt.id);
    this.owner.tell([{ type: "promptGone", id: prompt.id }]);
    for (const attempt of attempts) this.#settle(attempt, denied);
    this.#bringUp(prompt.sessionId);
  }

  /** Hosts that waited behind come up as there is room. */
  #bringUp(sessionId: string): void {
    const behind = this.#behind.get(sessionId);
    if (behind === undefined || behind.length === 0) return;
    this.#behind.set(sessionId, []);
    for (const attempt of behind) this.attempt(attempt);
    this.#tellFolded(sessionId);
  }

  /** Puts down what became of an attempt. */
  #settle(attempt: FakeAttempt, denied: DenyReason | null, verdict?: Verdict): void {
    const session = this.#session(attempt.session);
    const now = Date.now();
    const target = targetOf(attempt);
    const allowed = verdict?.allowed ?? null;
    const row = this.row({
      sessionId: session.id,
      atMs: now,
      lastMs: now,
      outcome: denied === null ? "open" : "refused",
      action: "network-outbound",
      target,
      unicode: attempt.unicode === undefined ? null : `${attempt.unicode}:${attempt.port ?? 443}`,
      why: denied === null ? (allowed?.group ?? "you allowed it") : (verdict?.why ?? whyOf(denied)),
      wayOut: denied === "metadata" || denied === "telemetry" ? null : `a rule for ${target} in this session`,
      count: 1,
      process: attempt.process ?? null,
      evidence: "observed",
      raw: `network-outbound ${target}`,
      connection: {
        connection: this.#nextConnection++,
        host: attempt.host,
        port: attempt.port ?? 443,
        route: "connect",
        address: denied === null ? "203.0.113.20" : null,
        bytesUp: 0,
        bytesDown: 0,
        durationMs: null,
        allowed: allowed && { source: allowed.source, pattern: allowed.pattern, rule: allowed.rule },
        denied,
      },
      file: null,
    });
    const counts = { ...session.counts };
    if (denied === null) counts.allowed++;
    else counts.refused++;
    const unreadRefusals = session.unreadRefusals + (denied === null ? 0 : 1);
    this.owner.tell([
      { type: "activity", rows: [row], skipped: 0 },
      { type: "session", session: { ...session, counts, unreadRefusals } },
    ]);
  }

  #judge(session: SessionInfo, host: string, port: number): Verdict {
    const fixed = DENIED.find(([pattern]) => matches(pattern, host, port));
    if (fixed) return { allowed: null, denied: fixed[2], why: `${fixed[1]}, always refused` };
    const mine = this.owner.state.rules.filter(
      (rule) =>
        (rule.sessionId === session.id ||
          (rule.sessionId === null && rule.workspace === session.workspace)) &&
        matches(rule.pattern, host, port),
    );
    const deny = mine.find((rule) => !rule.allow);
    if (deny) return { allowed: null, denied: "operatorRule", why: `your rule: ${deny.words}` };
    const entry = this.policy(session.id).allowed.find(({ pattern }) => matches(pattern, host, port));
    if (entry) return { allowed: entry, denied: null, why: `${entry.group}: ${entry.pattern}` };
    const off = session.network === "off";
    return { allowed: null, denied: off ? "networkOff" : null, why: whyOf(off ? "networkOff" : "notListed") };
  }

  #allowlist(session: SessionInfo): ListEntry[] {
    return [
      ...BASELINE.map(([pattern, group]) => ({ pattern, source: "baseline" as const, group, rule: null })),
      ...GITHUB.map((pattern) => ({ pattern, source: "github" as const, group: "GitHub", rule: null })),
      ...session.request.extraDomains.map((pattern) => ({
        pattern,
        source: "spec" as const,
        group: "from the start",
        rule: null,
      })),
      ...this.#rulesOf(session, true),
    ];
  }

  #denylist(session: SessionInfo): ListEntry[] {
    const fixed = DENIED.map(([pattern, group]) => ({
      pattern,
      source: "baseline" as const,
      group,
      rule: null,
    }));
    return [...fixed, ...this.#rulesOf(session, false)];
  }

  #rulesOf(session: SessionInfo, allow: boolean): ListEntry[] {
    return this.owner.state.rules
      .filter(
        (rule) =>
          rule.allow === allow &&
          (rule.sessionId === session.id ||
            (rule.sessionId === null && rule.workspace === session.workspace)),
      )
      .map((rule) => ({
        pattern: rule.pattern,
        source: "operator" as const,
        group: rule.sessionId === null ? "this workspace" : "this session",
        rule: rule.id,
      }));
  }

  #store(
    pattern: string,
    allow: boolean,
    session: SessionInfo | undefined,
    workspace: string,
    origin: RuleInfo["origin"],
  ): RuleInfo {
    const who = session ? `${session.title}, until it ends` : `every session in ${workspace}`;
    const rule: RuleInfo = {
      id: this.#nextRule++,
      pattern,
      allow,
      sessionId: session?.id ?? null,
      workspace,
      origin,
      createdAtMs: Date.now(),
      words: `${pattern} ${allow ? "may be reached by" : "is refused to"} ${who}`,
    };
    this.owner.tell([{ type: "rules", rules: [...this.owner.state.rules, rule] }]);
    return rule;
  }

  #matching(query: ActivityQuery): ActivityRow[] {
    const holds = (text: string | undefined, part: string | null) =>
      part === null || (text?.toLowerCase().includes(part.toLowerCase()) ?? false);
    return this.#rows.filter(
      (row) =>
        (query.sessionId === null || row.sessionId === query.sessionId) &&
        (!query.refusedOnly || row.outcome === "refused") &&
        (query.kind === null || query.kind === kindOf(row)) &&
        (query.action === null || row.action.startsWith(query.action)) &&
        holds(row.process?.name, query.process) &&
        holds(row.target, query.target) &&
        (query.before === null || row.id < query.before) &&
        (query.fromMs === null || row.lastMs >= query.fromMs) &&
        (query.toMs === null || row.lastMs <= query.toMs),
    );
  }

  #session(id: string): SessionInfo {
    const session = this.owner.state.sessions.find((one) => one.id === id);
    if (session) return session;
    throw new BackendError({
      code: "SESSION_NOT_FOUND",
      message: `there is no session ${id}`,
      causes: [],
      fix: null,
    });
  }

  #prompt(id: string): Prompt {
    const prompt = this.owner.state.prompts.find((one) => one.id === id);
    if (prompt) return prompt;
    throw new BackendError({
      code: "PROMPT_GONE",
      message: "the question was answered already",
      causes: [],
      fix: null,
    });
  }
}

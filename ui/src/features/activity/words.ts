/** Words for rows of the activity feed. Pure. */
import type {
  ActivityRow,
  DenyReason,
  NewRule,
  Outcome,
  RefusalRule,
  Route,
  SessionInfo,
  Source,
} from "../../backend/generated";
import { isLive } from "../../state/reduce";
import { shortPath, visibleText } from "../../shared/visible";

export function outcomeWords(outcome: Outcome): string {
  switch (outcome) {
    case "allowed":
      return "allowed";
    case "open":
      return "open now";
    case "refused":
      return "refused";
    case "failed":
      return "allowed, but not reached";
  }
}

export function outcomeMark(outcome: Outcome): string {
  switch (outcome) {
    case "allowed":
      return "✓";
    case "open":
      return "↔";
    case "refused":
      return "✕";
    case "failed":
      return "–";
  }
}

export function sourceName(source: Source): string {
  switch (source) {
    case "baseline":
      return "Baseline";
    case "github":
      return "GitHub";
    case "spec":
      return "This session’s own";
    case "operator":
      return "Your rules";
    case "grant":
      return "Your grants";
  }
}

export function routeWords(route: Route): string {
  switch (route) {
    case "connect":
      return "HTTP proxy, tunnel";
    case "http":
      return "HTTP proxy, plain request";
    case "socks":
      return "SOCKS5 proxy";
    case "transparent":
      return "past the proxy settings, caught by address";
    case "dns":
      return "name look-up";
    case "forward":
      return "port forward";
    case "socket":
      return "socket of this computer";
  }
}

export function reasonWords(reason: DenyReason): string {
  switch (reason) {
    case "malformed":
      return "it cannot be read as a host and port";
    case "metadata":
      return "a cloud metadata endpoint: always refused";
    case "telemetry":
      return "a telemetry collector: always refused";
    case "operatorRule":
      return "a rule of yours says no";
    case "addressRange":
      return "a private or special address";
    case "notListed":
      return "not on the allowlist";
    case "networkOff":
      return "the network of this session is off";
    case "answer":
      return "you answered no";
    case "timeout":
      return "nobody answered in time";
    case "nobodyToAsk":
      return "nobody was there to be asked";
    case "tooManyQuestions":
      return "more questions than can be asked";
    case "serverName":
      return "the TLS server name is another host";
    case "protocol":
      return "not the protocol of the port";
    case "unresolved":
      return "the name could not be resolved";
    case "cut":
      return "you cut the connection";
  }
}

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Decimal units, three digits at most. */
export function bytesWords(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1_000;
    unit++;
  }
  const digits = unit > 0 && value < 9.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ""}`;
}

export function durationWords(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.floor((ms % 60_000) / 1_000);
  return minutes < 60 ? `${minutes} min ${seconds} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** So many of something, or more. */
export function counted(count: number, what: string, more = false): string {
  return `${count.toLocaleString("en")}${more ? "+" : ""} ${what}${count === 1 && !more ? "" : "s"}`;
}

/** What stands below the target: why, how much, and how it is known where that is not by sight. */
export function subline(row: ActivityRow): string {
  const parts = [row.why];
  const { connection } = row;
  if (connection !== null && row.outcome !== "refused") {
    parts.push(bytesWords(connection.bytesUp + connection.bytesDown));
  }
  if (row.outcome === "open") parts.push("open");
  if (row.evidence === "inferred") parts.push("inferred");
  return parts.map(visibleText).join(" · ");
}

/** The verb in plain words; what is not known stands as it is. */
export function actionWords(action: string): string {
  const known: Readonly<Record<string, string>> = {
    "network-outbound": "connect",
    "network-bind": "listen",
    "file-read-data": "read",
    "file-read-metadata": "look at",
    "file-write-create": "create",
    "file-write-data": "write",
    "file-write-unlink": "delete",
    "file-write-rename": "rename",
    "file-write-link": "link",
    "process-exec": "run",
  };
  return known[action] ?? visibleText(action);
}

/**
 * What was tried, and for a rename or a link its other end. The target is the end that a rule
 * refused, which may be where the file is or where it was to come: no direction is claimed.
 */
export function attemptWords(row: ActivityRow, home: string): string {
  const other = row.file?.other ?? null;
  const words = actionWords(row.action);
  if (other === null) return words;
  const folder = row.target.slice(0, row.target.lastIndexOf("/") + 1);
  // Within one folder the name says it all.
  const name = other.startsWith(folder) ? other.slice(folder.length) : "";
  const there = name !== "" && !name.includes("/") ? name : shortPath(other, home);
  return `${words}, other end ${visibleText(there)}`;
}

/** How a row is known. */
export function evidenceWords({ evidence, file }: Pick<ActivityRow, "evidence" | "file">): string {
  if (evidence === "observed") return "seen where it was decided";
  return file === null
    ? "inferred: concluded from its effects"
    : "inferred: the guard foresaw that the kernel refuses it";
}

/** Which kind of rule refused a file or a program. */
export function ruleWords(rule: RefusalRule): string {
  switch (rule.kind) {
    case "name":
      return "filename rule";
    case "protected":
      return "protected path";
    case "ancestor":
      return "holds the protected path";
    case "anywhere":
      return "name protected everywhere";
    case "git":
      return "git safety";
    case "hardLink":
      return "another name of a protected file";
    case "exec":
      return "exec restriction";
    case "secret":
      return "secret";
    case "undecided":
      return "undecided, so refused";
  }
}

/** What a rule names, where it names something. */
export function ruleSubject(rule: RefusalRule): string | null {
  switch (rule.kind) {
    case "name":
      return rule.glob;
    case "protected":
    case "ancestor":
    case "secret":
      return rule.path;
    case "anywhere":
      return rule.name;
    case "git":
      return rule.what;
    case "undecided":
      return rule.reason;
    case "hardLink":
    case "exec":
      return null;
  }
}

/** Refusals that a rule for this host and port would have turned. */
const RULE_HELPS: readonly DenyReason[] = [
  "notListed",
  "answer",
  "timeout",
  "nobodyToAsk",
  "tooManyQuestions",
];

export interface Offer {
  rule: NewRule;
  /** On the button. */
  label: string;
  /** What is stored, with the pattern between `**`. */
  stores: string;
}

/**
 * The narrowest rules that would let a refused connection pass: this host and port, for the session
 * and for its workspace. None where no rule can, or where none would have an effect.
 */
export function offersFor(row: ActivityRow, session: SessionInfo | undefined, home: string): Offer[] {
  const reason = row.connection?.denied;
  if (session === undefined || row.outcome !== "refused" || !reason || !RULE_HELPS.includes(reason))
    return [];
  return offersForTarget(row.target, session, home);
}

/** The same for a target in canonical form. */
export function offersForTarget(target: string, session: SessionInfo, home: string): Offer[] {
  if (session.network !== "allowlist" && session.network !== "ask") return [];
  const folder = shortPath(session.workspace, home);
  const whole: Offer = {
    rule: { pattern: target, allow: true, sessionId: null, workspace: session.workspace },
    label: "Always in this workspace",
    stores: `**${target}** may be reached by every session in ${folder}, from now on`,
  };
  if (!isLive(session.phase)) return [whole];
  const here: Offer = {
    rule: { pattern: target, allow: true, sessionId: session.id, workspace: null },
    label: "Allow for the session",
    stores: `**${target}** may be reached by ${session.title} until it ends`,
  };
  return [here, whole];
}

/** The words of the activity filter: `session: action: process: target:` and free text. Pure. */
import type { ActivityKind, ActivityQuery, ActivityRow, SessionInfo } from "../../backend/generated";
import { wholeHistory } from "../../backend/interface";

export const FIELDS = ["session", "action", "process", "target"] as const;
export type Field = (typeof FIELDS)[number];

export interface Filter {
  /** What each field must match; all of them must. */
  fields: { field: Field; value: string }[];
  /** Each must stand somewhere in the row. */
  words: string[];
}

const WORD = /(?:(session|action|process|target):)?(?:"([^"]*)"?|(\S+))/giu;

/** Reads what was typed. A value with spaces stands in double quotes. */
export function parseFilter(text: string): Filter {
  const filter: Filter = { fields: [], words: [] };
  for (const [, field, quoted, plain] of text.matchAll(WORD)) {
    const value = quoted ?? plain ?? "";
    if (value === "") continue;
    if (field === undefined) filter.words.push(value);
    else filter.fields.push({ field: field.toLowerCase() as Field, value });
  }
  // `session:` alone is a field whose value is not typed yet, and no word.
  filter.words = filter.words.filter((word) => !FIELDS.some((field) => word.toLowerCase() === `${field}:`));
  return filter;
}

/** The text with a field set to a value, in the place of what it was set to before. */
export function withField(text: string, field: Field, value: string): string {
  const word = `${field}:${/[\s"]/.test(value) ? `"${value.replaceAll('"', "")}"` : value}`;
  return [withoutField(text, field), word].filter((part) => part !== "").join(" ");
}

/** The text without a field. */
export function withoutField(text: string, field: Field): string {
  return text
    .replace(new RegExp(`(^|\\s)${field}:(?:"[^"]*"?|\\S*)`, "giu"), " ")
    .replace(/\s+/g, " ")
    .trim();
}

/** A filter made ready: what to ask the engine for, and what to keep of its answer. */
export interface Compiled {
  query: ActivityQuery;
  matches: (row: ActivityRow) => boolean;
}

export interface Scope {
  sessions: readonly Pick<SessionInfo, "id" | "title">[];
  /** Only this session, unless the filter names one. */
  session: string | null;
  refusedOnly: boolean;
  /** Of this kind alone; null for all. */
  kind: ActivityKind | null;
}

/** What a row is about, as the engine tells kinds apart. */
export function kindOf(row: ActivityRow): ActivityKind {
  if (row.connection !== null) return "network";
  return row.action === "process-exec" ? "exec" : "files";
}

/** The sessions that a name stands for: an id, else every title that holds it. */
export function sessionsNamed(name: string, sessions: Scope["sessions"]): string[] {
  if (sessions.some((session) => session.id === name)) return [name];
  const wanted = name.toLowerCase();
  const found = sessions.filter((session) => session.title.toLowerCase().includes(wanted));
  // The history may know a session that this window does not.
  return found.length > 0 ? found.map((session) => session.id) : [name];
}

/** The engine narrows by the first value of each field; the rest is matched here. */
export function compileFilter(filter: Filter, scope: Scope): Compiled {
  const first = (field: Field) => filter.fields.find((each) => each.field === field)?.value ?? null;
  const named = filter.fields
    .filter((each) => each.field === "session")
    .map((each) => sessionsNamed(each.value, scope.sessions));
  if (named.length === 0 && scope.session !== null) named.push([scope.session]);
  const [only] = named;
  const query: ActivityQuery = {
    ...wholeHistory,
    sessionId: only?.length === 1 ? (only[0] ?? null) : null,
    refusedOnly: scope.refusedOnly,
    kind: scope.kind,
    // Actions are written in lower case, and the engine compares them letter by letter.
    action: first("action")?.toLowerCase() ?? null,
    process: first("process"),
    target: first("target"),
  };
  const matches = (row: ActivityRow): boolean =>
    (!scope.refusedOnly || row.outcome === "refused") &&
    (scope.kind === null || kindOf(row) === scope.kind) &&
    named.every((ids) => ids.includes(row.sessionId)) &&
    filter.fields.every(({ field, value }) => hasValue(row, field, value)) &&
    filter.words.every((word) => hasWord(row, word));
  return { query, matches };
}

function hasValue(row: ActivityRow, field: Field, value: string): boolean {
  const wanted = value.toLowerCase();
  switch (field) {
    case "session":
      return true;
    case "action":
      return row.action.toLowerCase().startsWith(wanted);
    case "process":
      return row.process?.name.toLowerCase().includes(wanted) ?? false;
    case "target":
      return row.target.toLowerCase().includes(wanted);
  }
}

function hasWord(row: ActivityRow, word: string): boolean {
  const wanted = word.toLowerCase();
  const texts = [
    row.target,
    row.unicode,
    row.action,
    row.why,
    row.process?.name,
    row.process?.command,
    row.file?.other,
  ];
  return texts.some((text) => text?.toLowerCase().includes(wanted));
}

/** Names of hosts, drawn so that none passes for another. Pure. */
import { visibleText } from "./visible";

export interface HostView {
  /** As it travels: ASCII, with every hidden character escaped. */
  shown: string;
  /** As it reads, letters that are not ASCII apart; null when that is the same. */
  reads: { text: string; foreign: boolean }[] | null;
  /** What a hurried reader would miss. */
  note: string | null;
}

const SCRIPTS = [
  "Latin",
  "Cyrillic",
  "Greek",
  "Armenian",
  "Hebrew",
  "Arabic",
  "Devanagari",
  "Thai",
  "Georgian",
  "Cherokee",
  "Hangul",
  "Hiragana",
  "Katakana",
  "Han",
] as const;
type Script = (typeof SCRIPTS)[number];

const TESTS = SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, "u")] as const);
/** Scripts with letters that are drawn like Latin ones. */
const LIKE_LATIN: readonly Script[] = ["Cyrillic", "Greek", "Armenian", "Cherokee"];
/** Scripts that stand together in ordinary names. */
const JAPANESE: readonly Script[] = ["Han", "Hiragana", "Katakana", "Latin"];

// The engine writes a letter of a misleading word as an escape. No name has a backslash.
const ESCAPES = /\\u\{([0-9a-f]{1,6})\}/gu;
/** Runs of escapes and of letters that are not ASCII. */
const FOREIGN = /((?:\\u\{[0-9a-f]{1,6}\}|[^\u0000-\u007f])+)/u;

function scriptsOf(text: string): Script[] {
  return TESTS.filter(([, test]) => test.test(text)).map(([script]) => script);
}

function isOrdinary(scripts: readonly Script[]): boolean {
  return scripts.length < 2 || scripts.every((script) => JAPANESE.includes(script));
}

/** A host, or a host and port, with its Unicode form when that differs. */
export function hostView(host: string, unicode: string | null): HostView {
  const shown = visibleText(host);
  if (unicode === null || unicode === host) return { shown, reads: null, note: null };
  const reads = visibleText(unicode)
    .split(FOREIGN)
    .map((text, index) => ({ text, foreign: index % 2 === 1 }))
    .filter(({ text }) => text !== "");
  return { shown, reads, note: noteOn(lettersOf(unicode)) };
}

/** The letters that escapes stand for. */
function lettersOf(text: string): string {
  return text.replace(ESCAPES, (escape, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : escape;
  });
}

function noteOn(unicode: string): string {
  // A label alone decides: `почта.com` mixes nothing.
  const labels = unicode.replace(/:\d+$/, "").split(".").map(scriptsOf);
  const mixed = labels.find((scripts) => !isOrdinary(scripts));
  if (mixed) return `Mixes ${listed(mixed)} letters in one word: it is not the name that it looks like.`;
  const foreign = [...new Set(labels.flat())].filter((script) => script !== "Latin");
  if (foreign.some((script) => LIKE_LATIN.includes(script))) {
    return `Written in ${listed(foreign)} letters, some of which look like Latin ones.`;
  }
  return foreign.length > 0
    ? `Written in ${listed(foreign)} letters.`
    : "Has letters beyond ASCII, which can look like others.";
}

function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? "";
  return names.length < 2 ? last : `${names.slice(0, -1).join(", ")} and ${last}`;
}

/** Cuts a long name in two so that its end, which says whose it is, is never what gives way. */
export function headAndTail(text: string, tail: number): { head: string; tail: string } {
  const letters = [...text];
  const at = Math.max(0, letters.length - tail);
  return { head: letters.slice(0, at).join(""), tail: letters.slice(at).join("") };
}

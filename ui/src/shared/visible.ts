/** Text from programs and file names, made safe to show: nothing in it is invisible or reorders. */

// Controls, soft hyphen, zero-width and bidi characters, line separators, tags, the byte order mark,
// interlinear annotations, variation selectors' supplement.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

const NAMED: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\u001b": "\\e",
};

/** Replaces every hidden character by an escape that can be read. */
export function visibleText(text: string): string {
  return text.replace(
    HIDDEN,
    (c) => NAMED[c] ?? `\\u{${(c.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}}`,
  );
}

/** Replaces the home directory at the front of a path by `~`. */
export function shortPath(path: string, home: string): string {
  if (home === "" || home === "/") return path;
  if (path === home) return "~";
  return path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}

/** The reverse of {@link shortPath}, for what a person typed. */
export function fullPath(typed: string, home: string): string {
  if (typed === "~") return home;
  return typed.startsWith("~/") ? `${home}${typed.slice(1)}` : typed;
}

/** Splits a sentence at its `**` marks into plain and emphasised runs. */
export function emphasisRuns(sentence: string): { text: string; strong: boolean }[] {
  const parts = sentence.split("**");
  // An unpaired mark is text, not emphasis.
  if (parts.length % 2 === 0) {
    const tail = parts.pop() ?? "";
    parts.push(`${parts.pop() ?? ""}**${tail}`);
  }
  return parts
    .map((text, index) => ({ text: visibleText(text), strong: index % 2 === 1 }))
    .filter((run) => run.text !== "");
}

/** An engine's message, which starts in lower case and has no full stop, as a sentence. */
export function sentence(message: string): string {
  const shown = visibleText(message);
  // A name keeps its own spelling: only a plain word takes a capital.
  const capital = /^\p{Ll}+(?=[\s,:;]|$)/u.test(shown)
    ? shown.charAt(0).toUpperCase() + shown.slice(1)
    : shown;
  return /[.!?…:]$/u.test(capital) ? capital : `${capital}.`;
}

import type { HostVerdict } from "../../backend/generated";

const HEADS = {
  on: "agent sandbox ON",
  unavailable: "no OS-native agent sandbox on this host",
  disabled: "agent sandbox DISABLED",
} as const;

/** The start-up line in two parts, for a bold beginning; together they are the whole line. */
export function verdictParts(verdict: HostVerdict): { head: string; rest: string } {
  const head = HEADS[verdict.state];
  return verdict.line.startsWith(head)
    ? {
        head,
        rest: verdict.line
          .slice(head.length)
          .replace(/^\s*[:·,;–—]?\s*/, "")
          .trim(),
      }
    : { head: verdict.line, rest: "" };
}

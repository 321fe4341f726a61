import { sentence } from "../../shared/visible";
import type { HostRow, HostVerdict, RowStatus } from "../../backend/generated";

export function statusWord(status: RowStatus): string {
  switch (status) {
    case "ok":
      return "found";
    case "partial":
      return "in part";
    case "missing":
      return "missing";
    case "info":
      return "";
  }
}

/** What the capability makes possible, or would. */
export function enablesWords(row: Pick<HostRow, "status" | "enables">): string {
  return row.status === "missing"
    ? sentence(`without it, not possible: ${row.enables}`)
    : sentence(row.enables);
}

const HEADS = [
  "agent sandbox DISABLED by --sandbox off",
  "agent sandbox ON",
  "no OS-native agent sandbox on this host",
];

/** The start-up line in two parts: the verdict itself, and its note or hint. */
export function verdictParts(verdict: HostVerdict): { head: string; rest: string } {
  const head = HEADS.find((each) => verdict.line.startsWith(each));
  if (head === undefined) return { head: verdict.line, rest: "" };
  return { head, rest: verdict.line.slice(head.length).replace(/^[\s:·,—–-]+/u, "") };
}

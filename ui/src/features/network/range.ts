/** Stretches of time on the timeline. Pure. */
import type { Timeline } from "../../backend/generated";

export interface Range {
  fromMs: number;
  toMs: number;
}

/** Lengths that the timeline offers; it then ends now and moves on with the time. */
export const LENGTHS = [
  { ms: 15 * 60_000, label: "15 min" },
  { ms: 3_600_000, label: "1 h" },
  { ms: 6 * 3_600_000, label: "6 h" },
  { ms: 24 * 3_600_000, label: "24 h" },
] as const;

/** Below this a picture of connections says nothing. */
export const SHORTEST_MS = 10_000;

export function hourMinute(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** Seconds too where the steps are so short that minutes would repeat. */
export function stepTime(ms: number, stepMs: number): string {
  return stepMs < 60_000 ? new Date(ms).toLocaleTimeString("en-GB") : hourMinute(ms);
}

/** A part of a range, from two places on it; never shorter than {@link SHORTEST_MS}. */
export function partOf(range: Range, oneMs: number, otherMs: number): Range {
  const from = Math.max(range.fromMs, Math.min(oneMs, otherMs));
  const to = Math.min(range.toMs, Math.max(oneMs, otherMs));
  const missing = SHORTEST_MS - (to - from);
  if (missing <= 0) return { fromMs: Math.round(from), toMs: Math.round(to) };
  const start = Math.max(range.fromMs, Math.min(from - missing / 2, range.toMs - SHORTEST_MS));
  return { fromMs: Math.round(start), toMs: Math.round(Math.min(range.toMs, start + SHORTEST_MS)) };
}

/** The part around one step, a quarter as long. */
export function around(range: Range, atMs: number): Range {
  const eighth = (range.toMs - range.fromMs) / 8;
  return partOf(range, atMs - eighth, atMs + eighth);
}

export interface Step {
  atMs: number;
  allowed: number;
  refused: number;
}

/** The steps in which anything happened. */
export function busySteps(line: Timeline): Step[] {
  return line.refused.flatMap((refused, index) => {
    const allowed = line.allowed[index] ?? 0;
    return refused + allowed === 0 ? [] : [{ atMs: line.fromMs + index * line.stepMs, allowed, refused }];
  });
}

/** The picture in a sentence. */
export function summaryOf(line: Timeline): string {
  const steps = busySteps(line);
  const end = line.fromMs + line.stepMs * line.refused.length;
  const when = `from ${stepTime(line.fromMs, line.stepMs)} to ${stepTime(end, line.stepMs)}`;
  if (steps.length === 0) return `Nothing ${when}.`;
  const refused = steps.reduce((all, step) => all + step.refused, 0);
  const allowed = steps.reduce((all, step) => all + step.allowed, 0);
  const counts = `${refused.toLocaleString("en")} refused and ${allowed.toLocaleString("en")} allowed ${when}`;
  const worst = steps.reduce((most, step) => (step.refused > most.refused ? step : most));
  if (worst.refused === 0) return `${counts}.`;
  return `${counts}; most refused at ${stepTime(worst.atMs, line.stepMs)} (${worst.refused.toLocaleString("en")}).`;
}

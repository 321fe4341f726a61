import { afterEach, beforeEach, describe, expect, it, test, vi } from "vitest";
import type { ListEntry, RuleInfo, Timeline } from "../../backend/generated";
import { throttle } from "../../shared/throttle";
import { rulesByPlace } from "../rules/places";
import { entryGroups } from "./groups";
import { SHORTEST_MS, around, busySteps, partOf, summaryOf } from "./range";

const HOUR = { fromMs: 0, toMs: 3_600_000 };

describe("a part of the timeline", () => {
  it("runs from the earlier place to the later one, inside the whole", () => {
    expect(partOf(HOUR, 900_000, 600_000)).toEqual({ fromMs: 600_000, toMs: 900_000 });
    expect(partOf(HOUR, -5, 9e9)).toEqual(HOUR);
  });

  it("is never too short to show anything, also at the ends", () => {
    for (const at of [0, 5_000, 1_800_000, 3_599_999]) {
      const part = partOf(HOUR, at, at + 1);
      expect(part.toMs - part.fromMs, String(at)).toBe(SHORTEST_MS);
      expect(part.fromMs).toBeGreaterThanOrEqual(0);
      expect(part.toMs).toBeLessThanOrEqual(HOUR.toMs);
    }
  });

  it("around a step is a quarter of the whole", () => {
    expect(around(HOUR, 1_800_000)).toEqual({ fromMs: 1_350_000, toMs: 2_250_000 });
  });
});

describe("a timeline in words", () => {
  const line: Timeline = {
    fromMs: Date.UTC(2026, 0, 1, 12),
    stepMs: 60_000,
    allowed: [0, 3, 0],
    refused: [0, 1, 1_200],
    files: [0, 0, 0],
    hosts: [],
  };
  const time = (minute: number) =>
    new Date(line.fromMs + minute * 60_000).toLocaleTimeString("en-GB", {
      hour: "2-digit",
      minute: "2-digit",
    });

  it("names the sums and the worst step", () => {
    expect(summaryOf(line)).toBe(
      `1,201 refused and 3 allowed from ${time(0)} to ${time(3)}; most refused at ${time(2)} (1,200).`,
    );
    expect(busySteps(line).map(({ refused, allowed }) => [refused, allowed])).toEqual([
      [1, 3],
      [1_200, 0],
    ]);
  });

  it("says so when nothing happened, or nothing was refused", () => {
    expect(summaryOf({ ...line, allowed: [0], refused: [0] })).toBe(`Nothing from ${time(0)} to ${time(1)}.`);
    expect(summaryOf({ ...line, allowed: [2], refused: [0] })).toBe(
      `0 refused and 2 allowed from ${time(0)} to ${time(1)}.`,
    );
  });
});

test("list entries stand by source and group, in the engine's order", () => {
  const entry = (pattern: string, source: ListEntry["source"], group: string): ListEntry => ({
    pattern,
    source,
    group,
    rule: null,
  });
  const groups = entryGroups([
    entry("a", "baseline", "x"),
    entry("b", "baseline", "y"),
    entry("c", "baseline", "x"),
    entry("d", "operator", "x"),
  ]);
  expect(groups.map(({ source, group, entries }) => [source, group, entries.map((e) => e.pattern)])).toEqual([
    ["baseline", "x", ["a", "c"]],
    ["baseline", "y", ["b"]],
    ["operator", "x", ["d"]],
  ]);
});

test("rules stand by where they hold, workspaces first", () => {
  const rule = (id: number, workspace: string, sessionId: string | null) =>
    ({ id, workspace, sessionId }) as RuleInfo;
  const places = rulesByPlace(
    [
      rule(1, "/a", "s"),
      rule(2, "/a", null),
      rule(3, "/b", null),
      rule(4, "/a", "gone"),
      rule(5, "/a", null),
    ],
    [{ id: "s", title: "sh" }],
  );
  expect(
    places.map(({ workspace, session, rules }) => [workspace, session, rules.map(({ id }) => id)]),
  ).toEqual([
    ["/a", null, [2, 5]],
    ["/b", null, [3]],
    ["/a", "sh", [1]],
    ["/a", "gone", [4]],
  ]);
});

describe("a throttle", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("runs at once, then once a turn while it is called, and the last call counts", () => {
    let runs = 0;
    const { call } = throttle(() => runs++, 100);
    for (let at = 0; at < 50; at++) call();
    expect(runs).toBe(1);
    vi.advanceTimersByTime(100);
    expect(runs).toBe(2);
    vi.advanceTimersByTime(1_000);
    expect(runs).toBe(2);
    call();
    expect(runs).toBe(3);
  });

  it("runs nothing after it was stopped", () => {
    let runs = 0;
    const { call, stop } = throttle(() => runs++, 100);
    call();
    call();
    stop();
    vi.advanceTimersByTime(1_000);
    expect(runs).toBe(1);
  });
});

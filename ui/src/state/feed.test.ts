import { describe, expect, it } from "vitest";
import type { ActivityRow } from "../backend/generated";
import {
  MAX_EXCERPT,
  byTarget,
  emptyExcerpt,
  emptyFeed,
  toldSince,
  totals,
  withPage,
  withRows,
  withTold,
  type Excerpt,
} from "./feed";

function row(id: number, part: Partial<ActivityRow> = {}): ActivityRow {
  return {
    id,
    sessionId: "a",
    atMs: id,
    lastMs: id,
    outcome: "refused",
    action: "network-outbound",
    target: "a.example:443",
    unicode: null,
    why: "not on the allowlist",
    wayOut: null,
    count: 1,
    process: null,
    evidence: "observed",
    raw: null,
    connection: null,
    file: null,
    ...part,
  };
}

const ids = (rows: readonly ActivityRow[] | null) => rows?.map((each) => each.id);
const excerpt = (rows: ActivityRow[], more = false): Excerpt => ({ ...emptyExcerpt, rows, more });

describe("what was told", () => {
  it("is handed on once, each row as it was told last", () => {
    let feed = withTold(emptyFeed, [row(1), row(2)], 0);
    const seen = feed.told;
    feed = withTold(feed, [row(2, { count: 2 }), row(3)], 0);
    feed = withTold(feed, [row(2, { count: 5 })], 7);
    const rows = toldSince(feed, seen);
    expect(rows?.map(({ id, count }) => [id, count])).toEqual([
      [2, 5],
      [3, 1],
    ]);
    expect(toldSince(feed, feed.told)).toEqual([]);
    expect(feed.skipped).toBe(7);
  });

  it("is bounded, and what fell out is not passed over in silence", () => {
    let feed = emptyFeed;
    for (let batch = 0; batch < 100; batch++) {
      feed = withTold(
        feed,
        Array.from({ length: 100 }, (_, at) => row(batch * 100 + at)),
        0,
      );
    }
    expect(feed.batches.reduce((sum, batch) => sum + batch.rows.length, 0)).toBeLessThanOrEqual(5_000);
    expect(toldSince(feed, 0)).toBeNull();
    expect(toldSince(feed, feed.told - 1)).toHaveLength(100);
  });

  it("keeps a batch that is larger than the bound", () => {
    const feed = withTold(
      emptyFeed,
      Array.from({ length: 9_000 }, (_, id) => row(id)),
      0,
    );
    expect(toldSince(feed, 0)).toHaveLength(9_000);
  });
});

describe("the excerpt", () => {
  it("takes new rows on top and replaces those that it has", () => {
    const before = excerpt([row(3), row(2), row(1)]);
    const after = withRows(before, [row(2, { count: 9 }), row(5), row(4)]);
    expect(after.rows.map(({ id, count }) => [id, count])).toEqual([
      [5, 1],
      [4, 1],
      [3, 1],
      [2, 9],
      [1, 1],
    ]);
  });

  it("leaves a change to a row beyond it to the page that brings that row", () => {
    expect(ids(withRows(excerpt([row(9)], true), [row(2)]).rows)).toEqual([9]);
    expect(ids(withRows(excerpt([row(9)], false), [row(2)]).rows)).toEqual([9, 2]);
  });

  it("drops the oldest beyond its bound, and knows that there are more", () => {
    const full = excerpt(Array.from({ length: MAX_EXCERPT }, (_, at) => row(MAX_EXCERPT - at)));
    const after = withRows(full, [row(MAX_EXCERPT + 1)]);
    expect(after.rows).toHaveLength(MAX_EXCERPT);
    expect([after.rows[0]?.id, after.rows.at(-1)?.id, after.more]).toEqual([MAX_EXCERPT + 1, 2, true]);
  });

  it("takes a page without doubles and without what does not fit", () => {
    const page = { rows: [row(3), row(2), row(1)], more: true, onlyCounted: 4, bound: "30 days" };
    const after = withPage(excerpt([row(4), row(3, { count: 8 })]), page, ({ id }) => id !== 2);
    expect(after.rows.map(({ id, count }) => [id, count])).toEqual([
      [4, 1],
      [3, 8],
      [1, 1],
    ]);
    expect([after.more, after.onlyCounted, after.bound]).toEqual([true, 4, "30 days"]);
  });
});

describe("targets", () => {
  it("stand together, the most refused first, with how often each way", () => {
    const rows = [
      row(1, { target: "a:1", count: 2 }),
      row(2, { target: "b:1", outcome: "allowed", count: 50 }),
      row(3, { target: "a:1", count: 3, lastMs: 99 }),
      row(4, { target: "a:1", outcome: "failed" }),
      row(5, { target: "c:1", outcome: "open" }),
    ];
    expect(
      byTarget(rows).map(({ target, refused, allowed, latest }) => [target, refused, allowed, latest.id]),
    ).toEqual([
      ["a:1", 5, 1, 3],
      ["b:1", 0, 50, 2],
      ["c:1", 0, 1, 5],
    ]);
    expect(totals(rows)).toEqual({ refused: 5, allowed: 52 });
  });
});

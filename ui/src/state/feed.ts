/**
 * Rows of the activity feed: those that the engine told of lately, and the part of the history that
 * is on view. Pure; rows are compared by id and kept newest first.
 */
import type { ActivityPage, ActivityRow } from "../backend/generated";

/** What was told lately, batch by batch. */
export interface Feed {
  /** Batches so far. */
  told: number;
  /** The latest of them, oldest first. */
  batches: { number: number; rows: readonly ActivityRow[] }[];
  /** Rows that came too fast to be told and were only counted. */
  skipped: number;
}

/** What a view has to take over in one go; it looks at the feed many times as often. */
const MAX_TOLD = 5_000;
export const emptyFeed: Feed = { told: 0, batches: [], skipped: 0 };

/** The feed after a batch. */
export function withTold(feed: Feed, rows: readonly ActivityRow[], skipped: number): Feed {
  const told = feed.told + 1;
  const batches = [...feed.batches, { number: told, rows }];
  let held = batches.reduce((sum, batch) => sum + batch.rows.length, 0);
  while (held > MAX_TOLD && batches.length > 1) held -= batches.shift()?.rows.length ?? 0;
  return { told, batches, skipped: feed.skipped + skipped };
}

/**
 * What was told after the batch with this number, oldest first, each row as it was told last; null
 * when so much was that only the engine knows all of it.
 */
export function toldSince(feed: Feed, number: number): ActivityRow[] | null {
  if (feed.told - number > feed.batches.length) return null;
  const rows = new Map<number, ActivityRow>();
  for (const batch of feed.batches) {
    if (batch.number > number) for (const row of batch.rows) rows.set(row.id, row);
  }
  return [...rows.values()];
}

/** The part of the history that is on view. */
export interface Excerpt {
  /** Newest first. */
  rows: ActivityRow[];
  /** The engine has older ones. */
  more: boolean;
  /** Rows of this query that were only counted. */
  onlyCounted: number;
  /** The bound of the history, in words. */
  bound: string;
}

/** More than this is not kept on view; the older ones come back by scrolling. */
export const MAX_EXCERPT = 50_000;
export const emptyExcerpt: Excerpt = { rows: [], more: false, onlyCounted: 0, bound: "" };

/** The excerpt with rows that are new or changed. */
export function withRows(excerpt: Excerpt, rows: readonly ActivityRow[]): Excerpt {
  if (rows.length === 0) return excerpt;
  const oldest = excerpt.rows.at(-1)?.id ?? -Infinity;
  const fresh = new Map(rows.map((row) => [row.id, row]));
  const kept = excerpt.rows.map((row) => {
    const changed = fresh.get(row.id);
    if (changed) fresh.delete(row.id);
    return changed ?? row;
  });
  // A row from before the excerpt comes with its page.
  const added = [...fresh.values()].filter((row) => row.id > oldest || !excerpt.more);
  if (added.length === 0) return { ...excerpt, rows: kept };
  const all = [...added, ...kept].sort((one, other) => other.id - one.id);
  const more = excerpt.more || all.length > MAX_EXCERPT;
  return { ...excerpt, rows: all.slice(0, MAX_EXCERPT), more };
}

/** Rows with others in their places or after them, one row an id. */
export function withLatest(rows: readonly ActivityRow[], latest: readonly ActivityRow[]): ActivityRow[] {
  const all = new Map(rows.map((row) => [row.id, row]));
  for (const row of latest) all.set(row.id, row);
  return [...all.values()];
}

/** Rows that change one that is known, and rows that do not. */
export function splitByKnown(
  known: readonly ActivityRow[],
  rows: readonly ActivityRow[],
): [changed: ActivityRow[], fresh: ActivityRow[]] {
  const ids = new Set(known.map((row) => row.id));
  return [rows.filter((row) => ids.has(row.id)), rows.filter((row) => !ids.has(row.id))];
}

/** The excerpt with an older page after it, as far as the page fits the filter. */
export function withPage(excerpt: Excerpt, page: ActivityPage, fits: (row: ActivityRow) => boolean): Excerpt {
  const known = new Set(excerpt.rows.map((row) => row.id));
  const added = page.rows.filter((row) => !known.has(row.id) && fits(row));
  const rows = [...excerpt.rows, ...added].sort((one, other) => other.id - one.id);
  return { rows, more: page.more, onlyCounted: page.onlyCounted, bound: page.bound };
}

/** Rows of one target together. */
export interface TargetGroup {
  target: string;
  unicode: string | null;
  refused: number;
  allowed: number;
  /** The newest of its rows. */
  latest: ActivityRow;
}

/** One entry a target, the most refused first, then the most used. */
export function byTarget(rows: readonly ActivityRow[]): TargetGroup[] {
  const groups = new Map<string, TargetGroup>();
  for (const row of rows) {
    const group = groups.get(row.target) ?? {
      target: row.target,
      unicode: row.unicode,
      refused: 0,
      allowed: 0,
      latest: row,
    };
    if (row.outcome === "refused") group.refused += row.count;
    else group.allowed += row.count;
    if (row.lastMs > group.latest.lastMs) group.latest = row;
    groups.set(row.target, group);
  }
  return [...groups.values()].sort(
    (one, other) =>
      other.refused - one.refused ||
      other.allowed - one.allowed ||
      other.latest.lastMs - one.latest.lastMs ||
      one.target.localeCompare(other.target),
  );
}

/** How many times something was refused, and how many times it passed. */
export function totals(rows: readonly ActivityRow[]): { refused: number; allowed: number } {
  let refused = 0;
  let allowed = 0;
  for (const row of rows) {
    if (row.outcome === "refused") refused += row.count;
    else allowed += row.count;
  }
  return { refused, allowed };
}

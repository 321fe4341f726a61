/** Finding commands by a few of their letters. */

export interface Match {
  /** Larger is better. */
  score: number;
  /** Where the letters of the query stand in the text. */
  at: readonly number[];
}

const WORD_START = 8;
const RUN = 5;
const GAP = 1;

/**
 * Matches every letter of `query`, in order and without regard to case, against `text`; spaces in the
 * query are ignored. Letters at starts of words and in one run count most. Null without a match.
 */
export function fuzzyMatch(query: string, text: string): Match | null {
  const wanted = [...query.toLowerCase().replace(/\s+/gu, "")];
  const letters = [...text.toLowerCase()];
  if (wanted.length === 0) return { score: 0, at: [] };

  const starts = letters.map((_, index) => index === 0 || !/[\p{L}\p{N}]/u.test(letters[index - 1] ?? " "));
  // best[j] is the best way to match the letters so far with the last one standing at j.
  let best: (Match | null)[] = [];
  wanted.forEach((letter, step) => {
    const next: (Match | null)[] = letters.map(() => null);
    letters.forEach((candidate, j) => {
      if (candidate !== letter) return;
      const here = starts[j] ? WORD_START : 0;
      if (step === 0) {
        next[j] = { score: here - Math.min(j, 10) * GAP, at: [j] };
        return;
      }
      for (let i = 0; i < j; i++) {
        const before = best[i];
        if (!before) continue;
        const joined = i === j - 1 ? RUN : -Math.min(j - i - 1, 10) * GAP;
        const score = before.score + here + joined;
        const held = next[j];
        if (!held || score > held.score) next[j] = { score, at: [...before.at, j] };
      }
    });
    best = next;
  });
  return best.reduce<Match | null>((top, one) => (one && (!top || one.score > top.score) ? one : top), null);
}

/** The items that match, best first; equal ones keep their order. */
export function fuzzyFilter<T>(query: string, items: readonly T[], text: (item: T) => string) {
  return items
    .map((item) => ({ item, match: fuzzyMatch(query, text(item)) }))
    .filter((found): found is { item: T; match: Match } => found.match !== null)
    .sort((a, b) => b.match.score - a.match.score);
}

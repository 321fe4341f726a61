import type { ActivityRow, Problem } from "../../backend/generated";
import { problemOf, wholeHistory, type Backend } from "../../backend/interface";
import { toldSince, withLatest, type Feed } from "../../state/feed";

const PAGE = 1_000;
/** An open connection further back than this is counted, and not listed. */
const MAX_PAGES = 5;

/** The open connections of one session: those of the history, and what is told of them since. */
export class OpenConnections {
  rows: ActivityRow[] = $state.raw([]);
  problem: Problem | undefined = $state.raw();
  #told: number;
  #turn = 0;

  constructor(
    private readonly backend: Backend,
    private readonly session: string,
    feed: Feed,
  ) {
    this.#told = feed.told;
  }

  /** Looks for as many as the engine says there are. */
  async load(expected: number): Promise<void> {
    const turn = ++this.#turn;
    const found: ActivityRow[] = [];
    let before: number | null = null;
    try {
      for (let page = 0; page < MAX_PAGES && found.length < expected; page++) {
        const query = {
          ...wholeHistory,
          sessionId: this.session,
          kind: "network" as const,
          before,
          limit: PAGE,
        };
        const answer = await this.backend.activity(query);
        if (turn !== this.#turn) return;
        found.push(...answer.rows.filter((row) => row.outcome === "open"));
        before = answer.rows.at(-1)?.id ?? null;
        if (!answer.more || before === null) break;
      }
    } catch (thrown) {
      if (turn === this.#turn) this.problem = problemOf(thrown);
      return;
    }
    this.problem = undefined;
    // What was told while the pages came is newer than they are.
    const later = this.rows.filter((row) => !found.some((each) => each.id === row.id));
    this.rows = sorted([...found, ...later]);
  }

  follow(feed: Feed, expected: number): void {
    if (feed.told === this.#told) return;
    const told = toldSince(feed, this.#told);
    this.#told = feed.told;
    if (told === null) {
      this.rows = [];
      void this.load(expected);
      return;
    }
    const mine = told.filter((row) => row.sessionId === this.session && row.connection !== null);
    if (mine.length === 0) return;
    this.rows = sorted(withLatest(this.rows, mine).filter((row) => row.outcome === "open"));
  }
}

function sorted(rows: ActivityRow[]): ActivityRow[] {
  return rows.sort((one, other) => other.id - one.id);
}

import type { ActivityQuery, ActivityRow, Problem } from "../../backend/generated";
import { problemOf, type Backend } from "../../backend/interface";
import {
  emptyExcerpt,
  splitByKnown,
  toldSince,
  withLatest,
  withPage,
  withRows,
  type Excerpt,
  type Feed,
} from "../../state/feed";
import type { Compiled } from "./filter";

const PAGE = 500;
/** A page may hold little that fits the free text: so many are read before asking to go on. */
const PAGES_AT_ONCE = 4;
const ENOUGH = 60;

/**
 * The feed under one filter: a live end, and older pages as they are scrolled to. While it is held,
 * what is new waits and is counted, so that nothing moves under the eye.
 */
export class Activity {
  excerpt: Excerpt = $state.raw(emptyExcerpt);
  /** New rows that wait until the feed goes on; changes to rows on view do not wait. */
  waiting: ActivityRow[] = $state.raw([]);
  loading = $state(true);
  problem: Problem | undefined = $state.raw();
  /** Went through so many pages without finding enough; the operator decides whether to go on. */
  isSparse = $state(false);
  /** Rows were only counted since the view began. */
  skipped = $state(0);

  readonly #backend: Backend;
  #compiled: Compiled | undefined;
  #key = "";
  #turn = 0;
  #told = 0;
  #skippedBefore = 0;
  /** Where the next older page begins, also when nothing of the last one fitted. */
  #before: number | null = null;
  /** More was told while it was held than can be taken over. */
  #lost = false;

  constructor(backend: Backend, feed: Feed) {
    this.#backend = backend;
    this.#told = feed.told;
    this.#skippedBefore = feed.skipped;
  }

  /** Shows another filter, from the newest row on; the same one again changes nothing. */
  show(compiled: Compiled, key: string): void {
    this.#compiled = compiled;
    if (key === this.#key) return;
    this.#key = key;
    this.reload();
  }

  reload(): void {
    this.#turn++;
    this.excerpt = emptyExcerpt;
    this.waiting = [];
    this.isSparse = false;
    this.loading = false;
    this.#before = null;
    this.#lost = false;
    void this.older();
  }

  /** Takes over what was told meanwhile. */
  follow(feed: Feed, hold: boolean): void {
    this.skipped = feed.skipped - this.#skippedBefore;
    if (feed.told === this.#told) return;
    const rows = toldSince(feed, this.#told);
    this.#told = feed.told;
    if (rows === null) {
      if (hold) this.#lost = true;
      else this.reload();
      return;
    }
    const fitting = rows.filter((row) => this.#compiled?.matches(row) ?? false);
    if (fitting.length === 0) return;
    if (!hold) {
      this.excerpt = withRows(this.excerpt, [...this.waiting, ...fitting]);
      this.waiting = [];
      return;
    }
    const [changed, fresh] = splitByKnown(this.excerpt.rows, fitting);
    this.excerpt = withRows(this.excerpt, changed);
    this.waiting = withLatest(this.waiting, fresh);
  }

  /** Lets in what waits. */
  goOn(): void {
    if (this.#lost) {
      this.reload();
      return;
    }
    this.excerpt = withRows(this.excerpt, this.waiting);
    this.waiting = [];
  }

  /** Reads older rows until there are enough to see. */
  async older(): Promise<void> {
    const compiled = this.#compiled;
    if (this.loading || compiled === undefined) return;
    const turn = this.#turn;
    this.loading = true;
    this.isSparse = false;
    this.problem = undefined;
    const wanted = this.excerpt.rows.length + ENOUGH;
    try {
      for (let page = 0; page < PAGES_AT_ONCE; page++) {
        const query: ActivityQuery = { ...compiled.query, before: this.#before, limit: PAGE };
        const answer = await this.#backend.activity(query);
        if (turn !== this.#turn) return;
        this.#before = answer.rows.at(-1)?.id ?? this.#before;
        this.excerpt = withPage(this.excerpt, answer, compiled.matches);
        if (!answer.more || this.excerpt.rows.length >= wanted) break;
        if (page === PAGES_AT_ONCE - 1) this.isSparse = true;
      }
    } catch (thrown) {
      if (turn !== this.#turn) return;
      this.problem = problemOf(thrown);
    }
    this.loading = false;
  }
}

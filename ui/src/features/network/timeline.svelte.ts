import type { Problem, Timeline } from "../../backend/generated";
import { problemOf, type Backend, type TimelineQuery } from "../../backend/interface";

/** A timeline that is asked for again as things happen; late answers to earlier questions are dropped. */
export class LiveTimeline {
  data: Timeline | undefined = $state.raw();
  problem: Problem | undefined = $state.raw();
  #turn = 0;

  constructor(private readonly backend: Backend) {}

  async ask(query: TimelineQuery): Promise<void> {
    const turn = ++this.#turn;
    try {
      const data = await this.backend.timeline(query);
      if (turn !== this.#turn) return;
      this.data = data;
      this.problem = undefined;
    } catch (thrown) {
      if (turn !== this.#turn) return;
      this.problem = problemOf(thrown);
    }
  }

  /** What is under way is of no interest any more. */
  forget(): void {
    this.#turn++;
    this.data = undefined;
  }
}

export function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}

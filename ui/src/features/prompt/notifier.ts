/** Which questions become desktop notifications: one each, and one for all under a flood. Pure. */
import type { Prompt } from "../../backend/generated";
import { shortPath, visibleText } from "../../shared/visible";
import { asker, targetOf } from "./words";

export interface Note {
  title: string;
  body: string;
}

const WINDOW_MS = 30_000;
const MAX_SINGLE = 3;
const MAX_NAME = 40;
const MAX_TARGET = 80;

export class Notifier {
  /** Told of already; a question that changes is no new one. */
  readonly #known = new Set<string>();
  #times: number[] = [];
  #foldedAt = -Infinity;

  /** Questions that were there before the window are not news. */
  constructor(known: readonly Prompt[]) {
    for (const prompt of known) this.#known.add(prompt.id);
  }

  /** What to say of these questions, all that wait now; null when nothing is new or enough was said. */
  news(prompts: readonly Prompt[], now: number, home: string): Note[] {
    const waiting = prompts.filter((prompt) => prompt.state === "waiting");
    const fresh = waiting.filter((prompt) => !this.#known.has(prompt.id));
    this.#known.clear();
    for (const prompt of prompts) this.#known.add(prompt.id);
    this.#times = this.#times.filter((time) => now - time < WINDOW_MS);
    const notes: Note[] = [];
    for (const prompt of fresh) {
      if (this.#times.length < MAX_SINGLE) {
        this.#times.push(now);
        notes.push(single(prompt, home));
      } else if (now - this.#foldedAt >= WINDOW_MS) {
        this.#foldedAt = now;
        notes.push({
          title: `${waiting.length} questions wait for you`,
          body: "Kotak asks before programs reach hosts that no rule covers. What nobody answers is denied.",
        });
      }
    }
    return notes;
  }
}

function single(prompt: Prompt, home: string): Note {
  const name = asker(prompt);
  const target = visibleText(targetOf(prompt));
  const where = visibleText(shortPath(prompt.workspace, home));
  // A long name of a host gives way at its front: its end says whose it is.
  const end = target.length > MAX_TARGET ? `…${target.slice(-MAX_TARGET)}` : target;
  return {
    title: `${name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name} wants to reach ${end}`,
    body: `${visibleText(prompt.sessionTitle)} in ${where}. Denied unless you answer in Kotak.`,
  };
}

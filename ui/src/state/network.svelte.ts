import type {
  Answer,
  AnswerScope,
  GrantInfo,
  NewGrant,
  NewRule,
  Prompt,
  RuleInfo,
} from "../backend/generated";
import { problemOf } from "../backend/interface";
import { Notifier } from "../features/prompt/notifier";
import { asker, targetOf } from "../features/prompt/words";
import { visibleText } from "../shared/visible";
import type { App } from "./app.svelte";
import { newPrompts } from "./reduce";

/** Something that was done and can be undone. */
export interface Done {
  id: number;
  /** What was stored or removed, in words. */
  text: string;
  undo: () => Promise<unknown>;
}

/** The card that the keys are meant for. */
export interface FocusedCard {
  id: string;
  answer: (answer: Answer) => void;
}

const MAX_DONE = 3;
const QUIET: readonly string[] = ["ANSWER_TOO_EARLY", "PROMPT_GONE"];

/** What the operator does about the network: answers, rules, and the way back. */
export class Network {
  /** The latest first. */
  done: Done[] = $state.raw([]);
  /** The question whose card is unfolded; the first one when it is none. */
  open: string | null = $state(null);
  /** The queue was called to the front, and takes the focus. */
  isCalled = $state(false);
  focusedCard: FocusedCard | null = null;
  readonly #app: App;
  readonly #notifier: Notifier;
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- nothing is drawn by it
  readonly #held = new Set<string>();
  #nextId = 1;

  constructor(app: App) {
    this.#app = app;
    this.#notifier = new Notifier(app.prompts);
  }

  /** Questions changed: says the new ones, on the desktop too while the window is not looked at. */
  changed(before: readonly Prompt[], after: readonly Prompt[]): void {
    const fresh = newPrompts(before, after);
    const [first] = fresh;
    if (first) {
      this.#app.announce(
        fresh.length === 1
          ? `${asker(first)} wants to reach ${visibleText(targetOf(first))}`
          : `${fresh.length} questions wait for you`,
      );
    }
    for (const id of this.#held) if (!after.some((prompt) => prompt.id === id)) this.#held.delete(id);
    const notes = this.#notifier.news(after, Date.now(), this.#app.home);
    if (document.hasFocus() || !this.#app.settings.notifyPrompts) return;
    for (const { title, body } of notes) {
      void this.#app.attempt(this.#app.backend.notify(title, body));
    }
  }

  /** Shows the queue and gives it the keys, at one question or at the one that is unfolded. */
  call(id?: string): void {
    this.#app.inspector = true;
    if (id !== undefined) this.open = id;
    this.isCalled = true;
  }

  /** An answer by shortcut: to the card that has the keys, else the queue gets them first. */
  answerFocused(answer: "allowOnce" | "deny"): void {
    if (this.focusedCard) this.focusedCard.answer(answer);
    else this.call();
  }

  /** Gives an answer; true when the engine took it. */
  async answer(prompt: Prompt, answer: Answer, scope: AnswerScope): Promise<boolean> {
    try {
      const rule = await this.#app.backend.answerPrompt(prompt.id, answer, scope);
      this.#app.apply([{ type: "promptGone", id: prompt.id }]);
      if (rule) this.#remember(rule.words, () => this.#app.backend.removeRule(rule.id));
      return true;
    } catch (thrown) {
      const problem = problemOf(thrown);
      // Given too early, an answer is ignored; answered elsewhere meanwhile, nothing is left to tell.
      if (!QUIET.includes(problem.code)) this.#app.tell(problem);
      return false;
    }
  }

  /** Stops the countdown of a question while the operator is at its card. */
  hold(id: string): void {
    if (this.#held.has(id)) return;
    this.#held.add(id);
    void this.#quietly(this.#app.backend.holdPrompt(id));
  }

  release(id: string): void {
    if (!this.#held.delete(id)) return;
    void this.#quietly(this.#app.backend.releasePrompt(id));
  }

  /** A question that went away meanwhile needs no countdown. */
  async #quietly(what: Promise<void>): Promise<void> {
    try {
      await what;
    } catch (thrown) {
      const problem = problemOf(thrown);
      if (!QUIET.includes(problem.code)) this.#app.tell(problem);
    }
  }

  /** Stores a rule, with a way back; rejects with the engine's reason. */
  async addRule(rule: NewRule): Promise<RuleInfo> {
    const stored = await this.#app.backend.addRule(rule);
    this.#remember(stored.words, () => this.#app.backend.removeRule(stored.id));
    return stored;
  }

  /** Takes a rule away, with a way back; rejects with the engine's reason. */
  async removeRule(rule: RuleInfo): Promise<void> {
    await this.#app.backend.removeRule(rule.id);
    const { pattern, allow, sessionId, workspace } = rule;
    this.#remember(`Removed: ${rule.words}`, () =>
      this.#app.backend.addRule({ pattern, allow, sessionId, workspace }),
    );
  }

  /** Opens a port or a socket, with a way back; rejects with the engine's reason. */
  async addGrant(grant: NewGrant): Promise<GrantInfo> {
    const made = await this.#app.backend.addGrant(grant);
    this.#remember(`Granted: ${made.words}`, () => this.#app.backend.revokeGrant(made.id));
    return made;
  }

  /** Closes it and cuts what is open. There is no way back but to grant it again, on purpose. */
  async revokeGrant(grant: GrantInfo): Promise<void> {
    await this.#app.backend.revokeGrant(grant.id);
    this.#app.announce(`Revoked: ${grant.words}.`);
  }

  #remember(text: string, undo: Done["undo"]): void {
    this.done = [{ id: this.#nextId++, text, undo }, ...this.done].slice(0, MAX_DONE);
    this.#app.announce(`${text}. It can be undone.`);
  }

  async undo(done: Done): Promise<void> {
    this.forget(done);
    await this.#app.attempt(done.undo());
  }

  forget(done: Done): void {
    this.done = this.done.filter((each) => each.id !== done.id);
  }

  /** The session's refusals are on view. */
  seen(id: string): void {
    void this.#app.attempt(this.#app.backend.markSeen(id));
  }
}

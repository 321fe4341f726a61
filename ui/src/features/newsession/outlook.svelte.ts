import { problemOf, type Backend } from "../../backend/interface";
import type { FolderInfo, LaunchPreview, LaunchRequest, Problem } from "../../backend/generated";

/** Asking at every keystroke would be asking about words half written. */
const PAUSE_MS = 150;

/**
 * What the engine says about a choice before it is launched: the folder's facts, and the sentences,
 * gaps and refusal of the launch. Late answers to earlier questions are dropped.
 */
export class Outlook {
  folder = $state.raw<FolderInfo>();
  preview = $state.raw<LaunchPreview>();
  /** Why the launch would be refused. */
  problem = $state.raw<Problem>();
  /** A newer question is under way: what stands here is about an earlier one. */
  asking = $state(false);

  #asked = "";
  #turn = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly backend: Backend) {}

  /** Asks about a folder and, once there is one, a request. Asking the same again does nothing. */
  look(path: string, request: LaunchRequest | undefined): void {
    const question = JSON.stringify([path, request]);
    if (question === this.#asked) return;
    const firstQuestion = this.#asked === "";
    this.#asked = question;
    const turn = ++this.#turn;
    clearTimeout(this.#timer);
    this.asking = true;
    // A refusal belongs to the request it was given for, and holds back only that.
    this.problem = undefined;
    if (this.folder?.path !== path) this.folder = undefined;
    if (request === undefined) this.preview = undefined;
    this.#timer = setTimeout(() => void this.#ask(turn, path, request), firstQuestion ? 0 : PAUSE_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#turn++;
  }

  async #ask(turn: number, path: string, request: LaunchRequest | undefined): Promise<void> {
    try {
      if (request !== undefined) {
        const preview = await this.backend.preview(request);
        if (turn !== this.#turn) return;
        this.preview = preview;
        this.folder = preview.folder;
        this.problem = preview.problem ?? undefined;
      } else if (path.startsWith("/")) {
        const folder = await this.backend.folderInfo(path);
        if (turn !== this.#turn) return;
        this.folder = folder;
      }
    } catch (thrown) {
      if (turn !== this.#turn) return;
      this.preview = undefined;
      this.problem = problemOf(thrown);
    }
    this.asking = false;
  }
}

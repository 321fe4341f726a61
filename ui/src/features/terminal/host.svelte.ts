import { SvelteMap } from "svelte/reactivity";
import type { SessionInfo } from "../../backend/generated";
import { confirmLink, confirmPaste } from "../../shared/dialogs";
import type { App, TerminalActions } from "../../state/app.svelte";
import { SessionTerminal, type TerminalPorts } from "./terminal.svelte";

/** Every terminal of the window, by session. */
export class TerminalHost implements TerminalActions {
  readonly #app: App;
  readonly #ports: TerminalPorts;
  readonly #terminals = new SvelteMap<string, SessionTerminal>();
  #lastSize = { cols: 80, rows: 24 };

  constructor(app: App) {
    this.#app = app;
    this.#ports = {
      backend: app.backend,
      settings: () => app.settings,
      confirmPaste,
      confirmLink,
      tell: (problem) => app.tell(problem),
    };
  }

  get(session: string): SessionTerminal | undefined {
    return this.#terminals.get(session);
  }

  /** Gives each session its terminal, also those in no pane: unread output would hold them up. */
  sync(sessions: readonly SessionInfo[]): void {
    for (const session of sessions) {
      const terminal = this.#terminals.get(session.id);
      if (terminal) terminal.follow(session);
      else this.#terminals.set(session.id, this.#make(session));
    }
  }

  #make(session: SessionInfo): SessionTerminal {
    const { cols, rows } = session.request;
    const replay = !this.#app.startedHere(session);
    return new SessionTerminal(session, this.#ports, replay, {
      cols: Math.max(2, cols),
      rows: Math.max(1, rows),
    });
  }

  restyle(): void {
    for (const terminal of this.#terminals.values()) terminal.restyle();
  }

  focus(session: string): void {
    this.get(session)?.focus();
  }

  copy(session: string): void {
    void this.get(session)
      ?.copy()
      .then((copied) => this.#app.announce(copied ? "Copied" : "Nothing is selected"));
  }

  paste(session: string): void {
    void this.get(session)?.paste();
  }

  clear(session: string): void {
    this.get(session)?.clear();
    this.focus(session);
  }

  find(session: string): void {
    this.get(session)?.startFinding();
  }

  forget(session: string): void {
    this.get(session)?.dispose();
    this.#terminals.delete(session);
  }

  size(session: string | null): { cols: number; rows: number } {
    const terminal = session === null ? undefined : this.get(session);
    if (terminal) this.#lastSize = { cols: terminal.cols, rows: terminal.rows };
    return this.#lastSize;
  }

  stop(): void {
    for (const terminal of this.#terminals.values()) terminal.dispose();
    this.#terminals.clear();
  }
}

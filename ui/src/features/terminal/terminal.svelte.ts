import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { UnicodeGraphemesAddon } from "@xterm/addon-unicode-graphemes";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import type { Problem, SessionInfo, Settings } from "../../backend/generated";
import { problemOf, type Backend } from "../../backend/interface";
import { visibleText } from "../../shared/visible";
import { isLive } from "../../state/reduce";
import { crc32 } from "./crc";
import { InputQueue, binaryBytes, textBytes } from "./input";
import { webAddress } from "./links";
import { findColours, fontStack, terminalTheme } from "./look";
import { needsQuestion, pasteData } from "./paste";
import { OutputPump } from "./pump";
import { isTerminalReply } from "./replies";
import { shownTitle } from "./title";

export interface FindOptions {
  caseSensitive: boolean;
  regex: boolean;
}

export interface FindResult {
  /** Counted from 1; 0 when there is none, or too many to count. */
  at: number;
  count: number;
}

/** What a terminal needs from the window around it. */
export interface TerminalPorts {
  backend: Backend;
  settings(): Settings;
  confirmPaste(text: string): Promise<boolean>;
  confirmLink(url: string): Promise<boolean>;
  tell(problem: Problem): void;
}

const RESIZE_AFTER_MS = 60;
/** A terminal that is in view is fitted before its output is drawn; one that is not waits so long. */
const START_AFTER_MS = 120;
const FAILING_SHOWN_AFTER = 3;
const TALLY_EVERY_MS = 250;

/**
 * One session's terminal: the emulator, its pump and its input. Lives outside components, so that a
 * pane which is drawn anew shows the same terminal.
 */
export class SessionTerminal {
  readonly id: string;
  /** Given by the program: only ever shown as text. */
  title = $state("");
  /** All output is drawn and no more will come. */
  drained = $state(false);
  /** Why no output arrives, while that is so. */
  trouble: Problem | null = $state.raw(null);
  /** What the emulator has taken in of this run, and its CRC-32. */
  output: { bytes: number; crc: number } = $state.raw({ bytes: 0, crc: 0 });
  finding = $state(false);
  /** Counts the times that find was asked for: each takes the focus to it. */
  findAsked = $state(0);
  found: FindResult = $state.raw({ at: 0, count: 0 });
  findError = $state("");

  readonly #ports: TerminalPorts;
  /** The element that panes take in. */
  readonly #frame: HTMLElement;
  #xterm: Terminal;
  #fit = new FitAddon();
  #search = new SearchAddon();
  #pump: OutputPump | null = null;
  #input: InputQueue;
  #session: SessionInfo;
  /** Output that an earlier window has already answered is only drawn. */
  #replaying: boolean;
  #searchedHow = "";
  #opened = false;
  #webgl: { dispose(): void } | null = null;
  #fitted = false;
  #failures = 0;
  #wedges = 0;
  #startTimer: ReturnType<typeof setTimeout> | undefined;
  #resizeTimer: ReturnType<typeof setTimeout> | undefined;
  #sentSize = "";
  #bytes = 0;
  #crc = 0;
  #tallyTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    session: SessionInfo,
    ports: TerminalPorts,
    replay: boolean,
    size: { cols: number; rows: number },
  ) {
    this.id = session.id;
    this.#session = session;
    this.#ports = ports;
    this.#replaying = replay;
    this.#frame = document.createElement("div");
    this.#frame.className = "terminal-frame";
    this.#input = new InputQueue(
      (bytes) => ports.backend.writeInput(this.id, bytes),
      (reason) => ports.tell(problemOf(reason)),
    );
    this.#xterm = this.#make(size.cols, size.rows);
    this.#startTimer = setTimeout(() => this.#startPump(), START_AFTER_MS);
    this.#frame.addEventListener("paste", (event) => this.#pasted(event), true);
  }

  get cols(): number {
    return this.#xterm.cols;
  }
  get rows(): number {
    return this.#xterm.rows;
  }
  get selection(): string {
    return this.#xterm.getSelection();
  }
  #make(cols: number, rows: number): Terminal {
    const settings = this.#ports.settings();
    const xterm = new Terminal({
      cols,
      rows,
      allowProposedApi: true,
      fontSize: settings.fontSize,
      fontFamily: fontStack(settings.fontFamily),
      lineHeight: 1.1,
      scrollback: settings.scrollbackLines,
      screenReaderMode: settings.screenReader,
      theme: terminalTheme(),
      minimumContrastRatio: 4.5,
      cursorInactiveStyle: "outline",
      drawBoldTextInBrightColors: false,
      rightClickSelectsWord: false,
      linkHandler: {
        activate: (_event, text) => void this.#follow(text),
        // The text of such a link need not be its address.
        hover: (_event, text) => (this.#frame.title = visibleText(text)),
        leave: () => (this.#frame.title = ""),
      },
    });
    this.#fit = new FitAddon();
    this.#search = new SearchAddon({ highlightLimit: 2000 });
    xterm.loadAddon(this.#fit);
    xterm.loadAddon(this.#search);
    xterm.loadAddon(new UnicodeGraphemesAddon());
    xterm.loadAddon(new WebLinksAddon((_event, uri) => void this.#follow(uri)));
    // The clipboard belongs to the person: programs neither read nor set it.
    xterm.parser.registerOscHandler(52, () => true);
    xterm.onData((data) => this.#typed(data));
    xterm.onBinary((data) => this.#input.push(binaryBytes(data)));
    xterm.onTitleChange((title) => (this.title = shownTitle(title)));
    xterm.onResize(() => this.#resized());
    this.#search.onDidChangeResults(({ resultIndex, resultCount }) => {
      this.found = { at: resultIndex + 1, count: resultCount };
    });
    return xterm;
  }

  #startPump(): void {
    clearTimeout(this.#startTimer);
    if (this.#pump) return;
    this.#pump = this.#makePump(0);
    this.#pump.start();
  }

  #makePump(from: number): OutputPump {
    const xterm = this.#xterm;
    return new OutputPump(
      {
        read: (offset) => this.#ports.backend.readOutput(this.id, offset),
        write: (bytes, parsed) =>
          xterm.write(bytes, () => {
            this.#check(bytes);
            parsed();
          }),
        lost: () => xterm.write("\u001b[0m\u001b[2m… older output is no longer held …\u001b[0m\r\n"),
        caughtUp: () => (this.#replaying = false),
        ended: () => this.#ended(),
        failing: (reason) => this.#failing(reason),
        wedged: () => this.#wedged(),
      },
      from,
    );
  }

  /** Counts what the emulator has taken in. */
  #check(bytes: Uint8Array): void {
    this.#crc = crc32(bytes, this.#crc);
    this.#bytes += bytes.byteLength;
    this.#tallyTimer ??= setTimeout(() => this.#showTally(), TALLY_EVERY_MS);
  }

  #showTally(): void {
    clearTimeout(this.#tallyTimer);
    this.#tallyTimer = undefined;
    this.output = { bytes: this.#bytes, crc: this.#crc };
  }

  #ended(): void {
    this.#showTally();
    this.drained = true;
    this.trouble = null;
    // Nothing can be typed any more.
    this.#xterm.write("\u001b[?25l");
  }

  #resetTally(): void {
    this.#bytes = 0;
    this.#crc = 0;
    this.#showTally();
  }

  #failing(reason: unknown): void {
    if (reason !== undefined && !isLive(this.#session.phase)) {
      // It is over, and what it printed is gone or never was.
      this.#pump?.stop();
      this.#ended();
      return;
    }
    this.#failures = reason === undefined ? 0 : this.#failures + 1;
    this.trouble = this.#failures >= FAILING_SHOWN_AFTER ? problemOf(reason) : null;
  }

  /**
   * Something in the output broke the emulator: a new one takes its place. It draws the scrollback
   * anew; should that break it again, it goes on after what broke it.
   */
  #wedged(): void {
    this.#wedges += 1;
    const next = this.#wedges > 1 ? (this.#pump?.next ?? 0) : 0;
    this.#resetTally();
    this.#renew();
    this.#replaying = true;
    this.#pump = this.#makePump(next);
    this.#pump.start();
    this.#ports.tell({
      code: "TERMINAL_RENEWED",
      message: "The terminal stopped drawing and was set up again; the program goes on.",
      causes: [],
      fix: null,
    });
  }

  #renew(): void {
    const { cols, rows } = this.#xterm;
    const hadFocus = this.#frame.contains(document.activeElement);
    this.#pump?.stop();
    this.#webgl = null;
    this.#xterm.dispose();
    this.#frame.replaceChildren();
    this.#xterm = this.#make(cols, rows);
    if (this.#opened) this.#open();
    if (hadFocus) this.focus();
  }

  /** Takes the session as it now is; a new start under its id is another program, another stream. */
  follow(session: SessionInfo): void {
    const before = this.#session;
    this.#session = session;
    const isRevived = isLive(session.phase) && !isLive(before.phase);
    if (session.startedAtMs === before.startedAtMs && !isRevived) {
      // A size that came too early for the program is sent again.
      if (session.phase !== before.phase) {
        this.#sendSize();
        this.#pump?.poke();
      }
      return;
    }
    this.title = "";
    this.drained = false;
    this.trouble = null;
    this.#sentSize = "";
    this.#resetTally();
    this.#renew();
    this.#replaying = false;
    this.#pump = this.#makePump(0);
    this.#pump.start();
  }

  #typed(data: string): void {
    if (this.#replaying && isTerminalReply(data)) return;
    this.#input.push(textBytes(data));
  }

  /** Puts the terminal into a pane; returns the taking out. */
  attach(pane: HTMLElement): () => void {
    pane.append(this.#frame);
    if (!this.#opened) {
      this.#opened = true;
      this.#open();
    }
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(pane);
    this.fit();
    this.#startPump();
    return () => {
      observer.disconnect();
      if (this.#frame.parentElement === pane) this.#frame.remove();
    };
  }

  #open(): void {
    this.#xterm.open(this.#frame);
    // Named for screen readers by what runs in it, not by the emulator.
    this.#xterm.textarea?.setAttribute("aria-label", `Terminal of ${this.#session.title}`);
    void this.#drawWithWebgl();
  }

  /** Takes WebGL into use, or out of it, as the setting says. */
  async #drawWithWebgl(): Promise<void> {
    const wanted = this.#ports.settings().webgl;
    if (!wanted) this.#webgl?.dispose();
    if (!wanted || this.#webgl || !this.#opened) return;
    const xterm = this.#xterm;
    try {
      const { WebglAddon } = await import("@xterm/addon-webgl");
      if (xterm !== this.#xterm || this.#webgl || !this.#ports.settings().webgl) return;
      const addon = new WebglAddon();
      const dispose = () => {
        if (this.#webgl !== handle) return;
        this.#webgl = null;
        addon.dispose();
      };
      const handle = { dispose };
      this.#webgl = handle;
      addon.onContextLoss(dispose);
      xterm.loadAddon(addon);
    } catch (reason) {
      this.#webgl = null;
      const { message } = problemOf(reason);
      this.#ports.tell({
        code: "WEBGL_UNAVAILABLE",
        message: "Terminals cannot be drawn with WebGL here and are drawn as usual.",
        causes: [message],
        fix: { text: "Turn the setting off to keep this notice away.", command: null },
      });
    }
  }

  fit(): void {
    if (!this.#frame.isConnected || this.#frame.clientWidth < 20 || this.#frame.clientHeight < 20) return;
    this.#fit.fit();
    this.#fitted = true;
    if (this.#sentSize === "") this.#sendSize();
  }

  #resized(): void {
    clearTimeout(this.#resizeTimer);
    this.#resizeTimer = setTimeout(() => this.#sendSize(), RESIZE_AFTER_MS);
  }

  /** Tells the program its size, unless it knows it or there is none. */
  #sendSize(): void {
    const { cols, rows } = this.#xterm;
    const size = `${cols}x${rows}`;
    if (!this.#fitted || size === this.#sentSize || !isLive(this.#session.phase)) return;
    this.#sentSize = size;
    // A program that is not there yet, or no more, takes none: it is sent again with the next phase.
    this.#ports.backend.resize(this.id, cols, rows).catch(() => (this.#sentSize = ""));
  }

  focus(): void {
    this.#xterm.focus();
  }

  clear(): void {
    this.#xterm.clear();
  }

  /** Takes over settings and colours. */
  restyle(): void {
    const settings = this.#ports.settings();
    const { options } = this.#xterm;
    options.theme = terminalTheme();
    options.fontSize = settings.fontSize;
    options.fontFamily = fontStack(settings.fontFamily);
    options.scrollback = settings.scrollbackLines;
    options.screenReaderMode = settings.screenReader;
    void this.#drawWithWebgl();
    this.fit();
  }

  async #follow(text: string): Promise<void> {
    const address = webAddress(text);
    // The question also says why an address of another kind is not opened.
    if (!(await this.#ports.confirmLink(address ?? text)) || address === null) return;
    try {
      await this.#ports.backend.openLink(address);
    } catch (reason) {
      this.#ports.tell(problemOf(reason));
    }
  }

  async copy(): Promise<boolean> {
    if (!this.#xterm.hasSelection()) return false;
    try {
      await this.#ports.backend.writeClipboard(this.selection);
      return true;
    } catch (reason) {
      this.#ports.tell(problemOf(reason));
      return false;
    }
  }

  #pasted(event: ClipboardEvent): void {
    event.preventDefault();
    event.stopPropagation();
    void this.pasteText(event.clipboardData?.getData("text/plain") ?? "");
  }

  async paste(): Promise<void> {
    try {
      await this.pasteText(await this.#ports.backend.readClipboard());
    } catch (reason) {
      this.#ports.tell(problemOf(reason));
    }
  }

  async pasteText(text: string): Promise<void> {
    if (text === "") return;
    const bracketed = () => this.#xterm.modes.bracketedPasteMode;
    const ask = this.#ports.settings().warnMultilinePaste && needsQuestion(text, bracketed());
    if (ask && !(await this.#ports.confirmPaste(text))) return;
    this.#xterm.input(pasteData(text, bracketed()), true);
    this.#xterm.scrollToBottom();
    this.focus();
  }

  find(term: string, options: FindOptions, back: boolean, incremental: boolean): void {
    this.findError = "";
    if (term === "") {
      this.#search.clearDecorations();
      this.found = { at: 0, count: 0 };
      return;
    }
    // The addon looks for all matches anew only when it holds none, or for another term.
    const how = `${options.caseSensitive} ${options.regex}`;
    if (how !== this.#searchedHow) this.#search.clearDecorations();
    this.#searchedHow = how;
    const all = { ...options, incremental, decorations: findColours() };
    try {
      if (options.regex) new RegExp(term);
      if (back) this.#search.findPrevious(term, all);
      else this.#search.findNext(term, all);
    } catch {
      this.#search.clearDecorations();
      this.found = { at: 0, count: 0 };
      this.findError = "Not a regular expression";
    }
  }

  startFinding(): void {
    this.finding = true;
    this.findAsked += 1;
  }

  stopFinding(): void {
    this.finding = false;
    this.findError = "";
    this.#search.clearDecorations();
    this.found = { at: 0, count: 0 };
  }

  dispose(): void {
    clearTimeout(this.#startTimer);
    clearTimeout(this.#resizeTimer);
    clearTimeout(this.#tallyTimer);
    this.#pump?.stop();
    this.#xterm.dispose();
    this.#frame.remove();
  }
}

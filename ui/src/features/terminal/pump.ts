import type { OutputChunk } from "../../backend/interface";

/** Above this many bytes that the terminal has not yet parsed, no more is asked for. */
export const HIGH_BYTES = 512 * 1024;
/** Below this many bytes, more is asked for again. */
export const LOW_BYTES = 128 * 1024;
/** The terminal is given pieces of this size, so that it can yield between them. */
export const PIECE_BYTES = 32 * 1024;
const WEDGED_AFTER_MS = 15_000;
const RETRY_FIRST_MS = 250;
const RETRY_MOST_MS = 4_000;

/** Timers, so that tests need not wait. */
export interface Clock {
  after(ms: number, then: () => void): () => void;
}

export const realClock: Clock = {
  after(ms, then) {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};

export interface PumpPorts {
  /** Long poll for bytes from an offset. */
  read(from: number): Promise<OutputChunk>;
  /** Hands bytes to the terminal; `parsed` is called once when it is through with them. */
  write(bytes: Uint8Array, parsed: () => void): void;
  /** The scrollback no longer holds `missing` bytes before the next ones. */
  lost?(missing: number): void;
  /** The bytes that stood in the engine when reading began are parsed: from here on it is live. */
  caughtUp?(): void;
  /** All output is parsed and no more will come. */
  ended?(): void;
  /** Reading failed, and is tried again; undefined once it works again. */
  failing?(reason: unknown): void;
  /** The terminal has not parsed anything for a long time though it was given bytes. */
  wedged?(): void;
}

/**
 * Carries a session's output to its terminal: one read in flight, and none while the terminal is
 * behind by {@link HIGH_BYTES}. What has not been asked for stays in the engine, which holds the
 * program back; so a flood neither freezes the window nor loses a byte.
 */
export class OutputPump {
  readonly #ports: PumpPorts;
  readonly #clock: Clock;
  #next: number;
  #unparsed = 0;
  #liveFrom: number | null = null;
  #caughtUp = false;
  #stopped = false;
  #reading = false;
  #held = false;
  #atEnd = false;
  #failures = 0;
  #stopWatchdog: () => void = () => undefined;
  #stopRetry: () => void = () => undefined;

  constructor(ports: PumpPorts, from = 0, clock: Clock = realClock) {
    this.#ports = ports;
    this.#next = from;
    this.#clock = clock;
  }

  /** Offset of the first byte not yet asked for. */
  get next(): number {
    return this.#next;
  }

  get unparsed(): number {
    return this.#unparsed;
  }

  start(): void {
    void this.#read();
  }

  /** Something has changed at the source: tries again now what would be tried later. */
  poke(): void {
    this.#stopRetry();
    void this.#read();
  }

  stop(): void {
    this.#stopped = true;
    this.#stopWatchdog();
    this.#stopRetry();
  }

  async #read(): Promise<void> {
    if (this.#stopped || this.#reading || this.#held || this.#atEnd) return;
    this.#reading = true;
    let chunk: OutputChunk;
    try {
      chunk = await this.#ports.read(this.#next);
    } catch (reason) {
      this.#reading = false;
      if (!this.#stopped) this.#retry(reason);
      return;
    }
    this.#reading = false;
    if (this.#stopped) return;
    if (this.#failures > 0) this.#ports.failing?.(undefined);
    this.#failures = 0;
    this.#take(chunk);
    void this.#read();
  }

  #retry(reason: unknown): void {
    this.#failures += 1;
    this.#ports.failing?.(reason);
    const wait = Math.min(RETRY_MOST_MS, RETRY_FIRST_MS * 2 ** (this.#failures - 1));
    this.#stopRetry = this.#clock.after(wait, () => void this.#read());
  }

  #take(chunk: OutputChunk): void {
    this.#liveFrom ??= chunk.head;
    if (chunk.offset > this.#next) this.#ports.lost?.(chunk.offset - this.#next);
    // Bytes already taken are not written twice, should an answer overlap.
    const fresh = chunk.bytes.subarray(Math.max(0, this.#next - chunk.offset));
    this.#next = Math.max(this.#next, chunk.offset + chunk.bytes.byteLength);
    this.#atEnd = chunk.ended && this.#next >= chunk.head;
    for (let at = 0; at < fresh.byteLength; at += PIECE_BYTES) {
      this.#write(fresh.subarray(at, at + PIECE_BYTES));
    }
    if (this.#unparsed >= HIGH_BYTES) this.#held = true;
    this.#settle();
  }

  #write(piece: Uint8Array): void {
    const size = piece.byteLength;
    const idle = this.#unparsed === 0;
    this.#unparsed += size;
    if (idle) this.#watch();
    let called = false;
    this.#ports.write(piece, () => {
      if (called || this.#stopped) return;
      called = true;
      this.#unparsed -= size;
      this.#watch();
      if (this.#held && this.#unparsed <= LOW_BYTES) {
        this.#held = false;
        void this.#read();
      }
      this.#settle();
    });
  }

  /** Tells of the two moments that depend on what is parsed, each once. */
  #settle(): void {
    const parsedTo = this.#next - this.#unparsed;
    if (!this.#caughtUp && this.#liveFrom !== null && parsedTo >= this.#liveFrom) {
      this.#caughtUp = true;
      this.#ports.caughtUp?.();
    }
    if (this.#atEnd && this.#unparsed === 0 && !this.#stopped) {
      this.stop();
      this.#ports.ended?.();
    }
  }

  #watch(): void {
    this.#stopWatchdog();
    if (this.#unparsed === 0 || this.#stopped) return;
    this.#stopWatchdog = this.#clock.after(WEDGED_AFTER_MS, () => {
      this.stop();
      this.#ports.wedged?.();
    });
  }
}

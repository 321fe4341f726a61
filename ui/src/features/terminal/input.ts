/** One write carries at most this much. */
export const MOST_BYTES = 64 * 1024;

/**
 * Carries keystrokes and pastes to a session in the order they came: one write in flight, what comes
 * meanwhile goes together in the next.
 */
export class InputQueue {
  readonly #send: (bytes: Uint8Array) => Promise<void>;
  readonly #failed: (reason: unknown) => void;
  #waiting: Uint8Array[] = [];
  #sending = false;

  constructor(send: (bytes: Uint8Array) => Promise<void>, failed: (reason: unknown) => void) {
    this.#send = send;
    this.#failed = failed;
  }

  push(bytes: Uint8Array): void {
    if (bytes.byteLength === 0) return;
    this.#waiting.push(bytes);
    if (!this.#sending) void this.#drain();
  }

  async #drain(): Promise<void> {
    this.#sending = true;
    while (this.#waiting.length > 0) {
      try {
        await this.#send(this.#batch());
      } catch (reason) {
        // What was typed after a write that failed is not for what comes next: drop it.
        this.#waiting = [];
        this.#failed(reason);
      }
    }
    this.#sending = false;
  }

  #batch(): Uint8Array {
    const all = joined(this.#waiting);
    this.#waiting = all.byteLength > MOST_BYTES ? [all.subarray(MOST_BYTES)] : [];
    return all.subarray(0, MOST_BYTES);
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts;
  if (only && parts.length === 1) return only;
  const all = new Uint8Array(parts.reduce((size, part) => size + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.byteLength;
  }
  return all;
}

const encoder = new TextEncoder();

export function textBytes(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Bytes of a string in which each character is one byte, as mouse reports come. */
export function binaryBytes(binary: string): Uint8Array {
  return Uint8Array.from(binary, (char) => char.charCodeAt(0) & 0xff);
}

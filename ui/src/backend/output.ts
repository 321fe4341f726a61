import type { OutputChunk } from "./interface";

/** Size of the header before the bytes of an output chunk. */
export const HEADER_BYTES = 24;
const ENDED = 1n;
const TRUNCATED = 2n;

/** Reads an output chunk as it travels: three little-endian u64 (offset, head, flags), then bytes. */
export function decodeOutput(buffer: ArrayBuffer): OutputChunk {
  if (buffer.byteLength < HEADER_BYTES) {
    throw new RangeError(`an output chunk of ${buffer.byteLength} bytes has no header`);
  }
  const view = new DataView(buffer);
  const flags = view.getBigUint64(16, true);
  return {
    offset: Number(view.getBigUint64(0, true)),
    head: Number(view.getBigUint64(8, true)),
    ended: (flags & ENDED) !== 0n,
    truncated: (flags & TRUNCATED) !== 0n,
    bytes: new Uint8Array(buffer, HEADER_BYTES),
  };
}

/** The reverse, for the stand-in backend and for tests. */
export function encodeOutput(chunk: OutputChunk): ArrayBuffer {
  const buffer = new ArrayBuffer(HEADER_BYTES + chunk.bytes.byteLength);
  const view = new DataView(buffer);
  view.setBigUint64(0, BigInt(chunk.offset), true);
  view.setBigUint64(8, BigInt(chunk.head), true);
  view.setBigUint64(16, (chunk.ended ? ENDED : 0n) | (chunk.truncated ? TRUNCATED : 0n), true);
  new Uint8Array(buffer, HEADER_BYTES).set(chunk.bytes);
  return buffer;
}

import { describe, expect, it } from "vitest";
import { binaryBytes, InputQueue, MOST_BYTES, textBytes } from "./input";

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

function bench() {
  const sent: Uint8Array[] = [];
  const failures: unknown[] = [];
  const pending: { resolve: () => void; reject: (reason: unknown) => void }[] = [];
  const queue = new InputQueue(
    (bytes) => {
      sent.push(bytes);
      return new Promise<void>((resolve, reject) => pending.push({ resolve, reject }));
    },
    (reason) => failures.push(reason),
  );
  return {
    queue,
    sent,
    failures,
    pending,
    texts: () => sent.map((bytes) => new TextDecoder().decode(bytes)),
  };
}

describe("the input queue", () => {
  it("keeps the order, with one write in flight and the rest together in the next", async () => {
    const { queue, pending, texts } = bench();
    for (const key of "abc") queue.push(textBytes(key));
    expect(texts()).toEqual(["a"]);
    pending[0]?.resolve();
    await settle();
    expect(texts()).toEqual(["a", "bc"]);
    pending[1]?.resolve();
    await settle();
    queue.push(textBytes("d"));
    expect(texts()).toEqual(["a", "bc", "d"]);
  });

  it("sends a large paste in pieces that add up", async () => {
    const { queue, sent, pending } = bench();
    queue.push(new Uint8Array(MOST_BYTES * 2 + 5).map((_, at) => at % 256));
    for (let n = 0; n < 3; n += 1) {
      pending[n]?.resolve();
      await settle();
    }
    expect(sent.map((bytes) => bytes.byteLength)).toEqual([MOST_BYTES, MOST_BYTES, 5]);
    expect(sent[2]?.[0]).toBe((MOST_BYTES * 2) % 256);
  });

  it("drops what waited behind a write that failed, tells once, and takes what comes after", async () => {
    const { queue, pending, failures, texts } = bench();
    queue.push(textBytes("a"));
    queue.push(textBytes("b"));
    pending[0]?.reject("gone");
    await settle();
    expect(failures).toEqual(["gone"]);
    queue.push(textBytes("c"));
    expect(texts()).toEqual(["a", "c"]);
  });

  it("sends nothing for nothing", () => {
    const { queue, sent } = bench();
    queue.push(textBytes(""));
    expect(sent).toEqual([]);
  });
});

describe("bytes", () => {
  it("of text are UTF-8, of binary strings one each", () => {
    expect([...textBytes("é")]).toEqual([0xc3, 0xa9]);
    expect([...binaryBytes("\u001b\u00ff")]).toEqual([0x1b, 0xff]);
  });
});

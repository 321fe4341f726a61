import { describe, expect, it } from "vitest";
import { problemOf, BackendError } from "./interface";
import { decodeOutput, encodeOutput, HEADER_BYTES } from "./output";

describe("an output chunk", () => {
  it("is read as it travels", () => {
    const raw = new Uint8Array(HEADER_BYTES + 2);
    raw.set([0, 1, 0, 0, 0, 1], 0); // 2^40 + 256
    raw.set([0xff], 8);
    raw.set([3], 16);
    raw.set([104, 105], HEADER_BYTES);
    expect(decodeOutput(raw.buffer)).toEqual({
      offset: 2 ** 40 + 256,
      head: 255,
      ended: true,
      truncated: true,
      bytes: new Uint8Array([104, 105]),
    });
  });

  it.each([
    { ended: false, truncated: false },
    { ended: true, truncated: false },
    { ended: false, truncated: true },
  ])("comes back as it went: %o", (flags) => {
    const chunk = { offset: 7, head: 9, ...flags, bytes: new Uint8Array([1, 2]) };
    expect(decodeOutput(encodeOutput(chunk))).toEqual(chunk);
  });

  it("without a header is refused", () => {
    expect(() => decodeOutput(new ArrayBuffer(23))).toThrow(RangeError);
  });
});

describe("a problem", () => {
  const problem = { code: "BACKEND_UNAVAILABLE", message: "no", causes: [], fix: null };
  it.each([
    ["the engine's own", problem, problem],
    ["one that was wrapped", new BackendError(problem), problem],
    ["another error", new TypeError("x"), { code: "UNEXPECTED", message: "x", causes: [], fix: null }],
    ["a text", "x", { code: "UNEXPECTED", message: "x", causes: [], fix: null }],
  ])("is made of %s", (_name, thrown, expected) => {
    expect(problemOf(thrown)).toEqual(expected);
  });
});
